"""The checkpoints that ship with the package, and how a name, a folder or a Hub id is found. Needs no torch."""

import json
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path


CHECKPOINTS = Path(__file__).parent / "checkpoints"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint's about.json says of it. `bytes` is its size on disk, `max_length` that of the longest training
    example in tokens, `domain` the kind of text that it is for if not for all, and each of `scores` has "dataset",
    "metric", "value" and "signature"."""

    name: str
    path: Path
    source_language: str
    target_language: str
    parameters: int
    bytes: int
    licence: str
    notice: str = ""
    domain: str = ""
    trained_on: list[str] = field(default_factory=list)
    max_length: int | None = None
    scores: list[dict] = field(default_factory=list)

    @property
    def languages(self) -> str:
        return f"{self.source_language} → {self.target_language}"

    def to_dict(self) -> dict:
        return {**asdict(self), "path": str(self.path)}


def read_about(folder: Path) -> Checkpoint | None:
    """What the folder's about.json says, or None where it has none.

    Raises:
        ValueError: the file is not JSON or lacks something.
    """
    file = folder / "about.json"
    if not file.is_file():
        return None
    known = {field.name for field in fields(Checkpoint)} - {"path"}
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        return Checkpoint(path=folder, **{name: value for name, value in about.items() if name in known})
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} does not describe a checkpoint: {error}") from error


def shipped() -> list[Checkpoint]:
    """The checkpoints in the package, by name."""
    folders = sorted(CHECKPOINTS.iterdir()) if CHECKPOINTS.is_dir() else []
    return [about for about in map(read_about, folders) if about is not None]


def checkpoint_path(name: str) -> str:
    """The folder of the checkpoint that ships as `name`, for `from_pretrained` and `pipeline`.

    Raises:
        ValueError: none ships under that name; the message says which do.
    """
    for about in shipped():
        if about.name == name:
            return str(about.path)
    known = ", ".join(f"{about.name} ({about.languages})" for about in shipped()) or "none"
    raise ValueError(f"There is no checkpoint {name!r}. Shipped with this package: {known}.")


def resolve(checkpoint: str) -> str:
    """A shipped checkpoint's name, a folder or a Hub id -> the folder, or the id as it is.

    A Hub id is "owner/name", or "owner/name@revision" for a branch, a tag or a commit; see `split_revision`.

    Raises:
        ValueError: there is no such checkpoint; the message says which there are and how to name others.
    """
    if any(about.name == checkpoint for about in shipped()):
        return checkpoint_path(checkpoint)
    folder = Path(checkpoint).expanduser()
    if (folder / "config.json").is_file():
        return str(folder)
    if folder.is_dir():
        raise ValueError(f"The folder {checkpoint!r} holds no model: it has no config.json.")
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+(@[\w./-]+)?", checkpoint):
        return checkpoint
    try:
        return checkpoint_path(checkpoint)
    except ValueError as error:
        raise ValueError(f"{error} Besides these you can give a folder's path or a Hub id (owner/name).") from None


def split_revision(source: str) -> tuple[str, str | None]:
    """What `resolve` gives -> the folder or the Hub id alone, and the revision of a Hub id that names one."""
    if Path(source).is_dir():
        return source, None
    repo_id, _, revision = source.partition("@")
    return repo_id, revision or None


def for_language(target_language: str) -> str:
    """The folder of the shipped checkpoint that translates to `target_language`.

    Of several, one for all kinds of text goes before one for a domain, then the larger before the smaller.

    Raises:
        ValueError: there is none; the message says which languages there are.
    """
    fitting = [about for about in shipped() if about.target_language == target_language.lower()]
    if not fitting:
        languages = ", ".join(sorted({about.target_language for about in shipped()})) or "none"
        raise ValueError(
            f"No checkpoint that ships with this package translates to {target_language!r}; there are: {languages}. "
            "Name another with --checkpoint: a folder or a Hub id."
        )
    return str(max(fitting, key=lambda about: (not about.domain, about.parameters)).path)
