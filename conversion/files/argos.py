"""Reads Argos packages: `metadata.json`, a folder `model` for CTranslate2, and a segmentation model.

A package is a folder, or a zip archive (`.argosmodel`) of such a folder. From an archive, only the files that
conversion needs are unpacked, under names from our own list.
"""

import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from ..options import ConversionError, Options, shown
from .arrays import UNREADABLE, check_size
from .ctranslate2 import FILES
from .folders import regular
from .text import one_line, read_json_object


METADATA, MODEL = "metadata.json", "model"
SENTENCEPIECE, CODES = "sentencepiece.model", "bpe.model"
NEEDED = (METADATA, SENTENCEPIECE, CODES, *(f"{MODEL}/{name}" for name in FILES))
MAX_MEMBERS = 20_000
MAX_UNPACKED_BYTES = 2**35


@dataclass(frozen=True)
class ArgosPackage:
    """A package, and the facts in its metadata. `unpacked` deletes the unpacked files together with this object."""

    folder: Path
    metadata: dict[str, Any]
    unpacked: TemporaryDirectory | None = None

    @classmethod
    def read(cls, source: Path) -> "ArgosPackage | None":
        """Reads the package at `source`, a folder or an archive; returns None if `source` is another folder.

        Raises:
            ConversionError: it is damaged, or not a translation package.
            FileNotFoundError: it does not exist.
        """
        if source.is_dir():
            if not (source / METADATA).is_file():
                return None
            package = cls(source, read_json_object(source / METADATA))
        else:
            unpacked = TemporaryDirectory(prefix="argos-", ignore_cleanup_errors=True)
            unpack(regular(source), Path(unpacked.name))
            package = cls(Path(unpacked.name), read_json_object(Path(unpacked.name) / METADATA), unpacked)
        package.check()
        return package

    def check(self):
        options = Options(self.metadata, "Argos")
        options.only("type", "translate", default="translate")
        if prefix := options.take("target_prefix"):
            options.refuse(
                f"target_prefix={shown(prefix)} (supported: packages without; for a language of a model with several, "
                "use OPUS-MT's own, such as --checkpoint Helsinki-NLP/opus-mt-en-ROMANCE --to pt)"
            )
        options.finish()

    def text(self, name: str) -> str | None:
        """Returns a field of the metadata; None if it is empty or not text."""
        value = self.metadata.get(name)
        return value if isinstance(value, str) and value else None

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    def segmentation(self) -> tuple[Path | None, Path | None]:
        """Returns the SentencePiece model or, if there is none, the byte-pair codes."""
        spm, codes = (self.folder / name for name in (SENTENCEPIECE, CODES))
        if spm.is_file():
            return spm, None
        return None, codes if codes.is_file() else None


def unpack(path: Path, folder: Path):
    """Unpacks the needed files of an archive into `folder`.

    Raises:
        ConversionError: it is not a package, is damaged, or expands to an absurd size.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = needed_members(path, archive)
            check_size(path, [info.filename for info in members.values()])
            if (size := sum(info.file_size for info in members.values())) > MAX_UNPACKED_BYTES:
                raise ConversionError(f"{path} would expand to {size:,} bytes (limit: {MAX_UNPACKED_BYTES:,}).")
            for name, info in members.items():
                (folder / name).parent.mkdir(exist_ok=True)
                with archive.open(info) as member, (folder / name).open("xb") as file:
                    shutil.copyfileobj(member, file)
    except UNREADABLE as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"{path} is damaged or not an Argos package: {one_line(error)}") from None


def needed_members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Finds the needed files, by their names in the package: at the top of the archive or in its one folder."""
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise ConversionError(f"{path} has {len(infos):,} files (limit: {MAX_MEMBERS:,}).")
    paths = {PurePosixPath(info.filename): info for info in infos if not info.is_dir()}
    roots = {member.parent for member in paths if member.name == METADATA and len(member.parts) <= 2}
    if len(roots) != 1:
        raise ConversionError(f"{path} is not an Argos package: it has {len(roots)} files called {METADATA}, not one.")
    [root] = roots
    return {name: paths[root / name] for name in NEEDED if root / name in paths}
