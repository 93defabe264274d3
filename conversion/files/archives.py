"""Unpacks archives from strangers: only regular files, only inside the folder, and within limits."""

import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, NamedTuple

from ..options import ConversionError


SUFFIXES = ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".tar", ".zip", ".argosmodel"
DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, RuntimeError,
    NotImplementedError, FileExistsError, NotADirectoryError, IsADirectoryError,
)  # fmt: skip
# Weights hardly compress. A larger archive that expands by more than this ratio was made to exhaust memory or the disk.
MAX_RATIO, MIN_CHECKED_BYTES = 50, 2**28
MAX_FILES = 10_000
MAX_BYTES = 2**35  # 32 GiB; fairseq's largest archives have 12


class Member(NamedTuple):
    """A file or folder in an archive. `open` is None for anything else, such as a link."""

    name: str
    size: int
    is_folder: bool
    open: Callable[[], IO[bytes]] | None


def archive_suffix(path: Path) -> str:
    """Returns the suffix of an archive's name, or "" if it is not one of `SUFFIXES`."""
    return next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), "")


def unpack(archive: Path, out: Path):
    """Unpacks an archive into the new folder `out`.

    Raises:
        ConversionError: the archive is damaged, has a link or a path outside the folder, or exceeds a limit; the
            message names the member.
        OSError: a file cannot be written.
    """
    out.mkdir(parents=True)
    limit = max(MIN_CHECKED_BYTES, MAX_RATIO * archive.stat().st_size)
    total = 0
    try:
        with members(archive) as listed:
            for number, member in enumerate(listed, 1):
                target = out / checked_name(archive, member)
                total += member.size
                if number > MAX_FILES:
                    raise ConversionError(f"{archive} has more than {MAX_FILES:,} files. It was not unpacked.")
                if total > min(limit, MAX_BYTES):
                    raise ConversionError(f"{archive} unpacks to more than {min(limit, MAX_BYTES):,} bytes, the limit.")
                write(member, target)
    except DAMAGED as error:
        if isinstance(error, ConversionError):
            raise
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile adds a line for each compression that it tried
        raise ConversionError(f"{archive} is damaged or not an archive: {reason}.") from error
    except OSError as error:
        if error.errno is None:  # gzip and bz2 report damaged files so
            raise ConversionError(f"{archive} is damaged: {error}") from error
        raise


def write(member: Member, target: Path):
    if member.is_folder or member.open is None:
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with member.open() as source, open(target, "xb") as file:
        shutil.copyfileobj(source, file, 2**20)


def checked_name(archive: Path, member: Member) -> PurePosixPath:
    """Returns the path of a member inside the archive's folder.

    Raises:
        ConversionError: the member is a link or a device, or its path leads out of the folder.
    """
    name = PurePosixPath(member.name)
    leads_out = name.is_absolute() or ".." in name.parts or "\\" in member.name or "\0" in member.name
    if leads_out or PureWindowsPath(member.name).drive:
        raise ConversionError(f"{archive} is not safe to unpack: {member.name!r} is outside its folder.")
    if not member.is_folder and member.open is None:
        raise ConversionError(f"{archive} is not safe to unpack: {member.name!r} is a link or a device, not a file.")
    return name


@contextmanager
def members(archive: Path) -> Iterator[Iterable[Member]]:
    if archive.name.lower().endswith((".zip", ".argosmodel")):
        with zipfile.ZipFile(archive) as opened:
            yield [zip_member(opened, info) for info in opened.infolist()]
    else:
        with tarfile.open(archive, "r:*") as opened:
            yield (tar_member(opened, info) for info in opened)


def zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    kind = (info.external_attr >> 16) & 0o170000  # of a file from Unix
    is_file = not info.is_dir() and kind in (0, 0o100000)
    return Member(info.filename, info.file_size, info.is_dir(), (lambda: archive.open(info)) if is_file else None)


def tar_member(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    # A sparse file is stored without its zeros.
    is_file = info.isreg() and not info.issparse()
    return Member(info.name, info.size, info.isdir(), (lambda: archive.extractfile(info)) if is_file else None)
