"""Finds the files of a checkpoint and refuses devices and pipes, which could be read without end."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from vaswani_transformer.system.files import check_writable

from ..options import ConversionError


LFS = b"version https://git-lfs.github.com/"  # the start of Git LFS's pointers, which `git clone` leaves without it


def regular(path: str | Path) -> Path:
    """Returns the path if it is a regular file.

    Raises:
        ConversionError: it is a folder, a device or a pipe, or a pointer of Git LFS.
        FileNotFoundError: it does not exist.
    """
    path = Path(path)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(LFS)) == LFS:
                raise ConversionError(
                    f"{path} is a pointer of Git LFS, not the file itself. Run `git lfs pull` in its folder, or "
                    "download the file."
                )
        return path
    if path.exists():
        raise ConversionError(f"{path} is not a regular file.")
    raise FileNotFoundError(f"No such file or folder: {path}.")


def checkpoint_in(
    source: Path,
    *patterns: str,
    names: Iterable[str] = (),
    but: Iterable[str] = (),
    newest: Callable[[Path], Any] | None = None,
) -> Path:
    """Finds the checkpoint at `source`: the file itself; in a folder, one of `names`, else a match of `patterns`.

    Matches of the patterns `but` are skipped. Of several files, the one with the largest key `newest` is taken.

    Raises:
        ConversionError: several files match and `newest` is not given.
        FileNotFoundError: no checkpoint matches.
    """
    if not source.is_dir():
        return regular(source)
    for name in names:
        if (source / name).is_file():
            return source / name
    paths = sorted({path for pattern in patterns for path in source.glob(pattern) if path.is_file()})
    paths = [path for path in paths if not any(path.match(pattern) for pattern in but)]
    if not paths:
        raise FileNotFoundError(f"No checkpoint in {source}. Expected {', '.join([*names, *patterns])}.")
    if len(paths) > 1 and newest is None:
        listed = ", ".join(path.name for path in paths)
        raise ConversionError(
            f"{source.name} contains several checkpoints ({listed}). One model can be used at a time, not an ensemble: "
            "give the path of one of these files, unpacked if they are in an archive."
        )
    return paths[0] if newest is None else max(paths, key=newest)


def beside(folder: Path, name: Any) -> Path | None:
    """Finds the file in `folder` that a checkpoint refers to, by its path or only its name; None if there is none.

    Paths outside the folder are ignored, so a checkpoint cannot make us read other files.
    """
    if not isinstance(name, str) or not name:
        return None
    inside = folder.resolve()
    try:
        paths = [Path(os.path.normpath(inside / name)), inside / Path(name).name]
        return next((path for path in paths if path.is_relative_to(inside) and path.is_file()), None)
    except (ValueError, OSError):  # an invalid file name
        return None


def pair(source: Path, target: Path) -> tuple[Path, Path]:
    """Returns both files, or the first one twice if their contents are equal."""
    return source, source if regular(source).read_bytes() == regular(target).read_bytes() else target


def check_new(out: Path):
    """Checks that `out` is new or an empty folder and can be written.

    Raises:
        ConversionError: it is not.
    """
    if not out.name:  # "."
        raise ConversionError(f"Cannot write to {str(out)!r}. Pass the name of a new folder.")
    if out.exists() and not out.is_dir():
        raise ConversionError(f"{out} is a file. OUT must be a new folder.")
    if out.exists() and any(out.iterdir()):
        raise ConversionError(f"{out} already exists and is not empty. Choose another name, or delete it.")
    try:
        check_writable(out)
    except ValueError as error:
        raise ConversionError(str(error)) from None


def sha256(path: str | Path) -> str:
    with open(regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
