"""Finds the files of a checkpoint, and refuses those that are not ordinary files.

A link to a device or a pipe would be read without end.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from vaswani_transformer.system.files import check_writable

from ..options import ConversionError


def regular(path: str | Path) -> Path:
    """The path, if it is an ordinary file.

    Raises:
        ConversionError: it is a folder, a device or a pipe.
        FileNotFoundError: it does not exist.
    """
    path = Path(path)
    if path.is_file():
        return path
    if path.exists():
        raise ConversionError(f"{path} is not an ordinary file.")
    raise FileNotFoundError(f"No such file or folder: {path}.")


def checkpoint_in(
    source: Path,
    *patterns: str,
    names: Iterable[str] = (),
    but: Iterable[str] = (),
    newest: Callable[[Path], Any] | None = None,
) -> Path:
    """The checkpoint at `source`: the file itself, or in a folder the first of `names`, else what `patterns` match.

    What the patterns `but` match does not count. Of several files the `newest` is taken, by that key.

    Raises:
        ConversionError: several files match and there is no key to choose by.
        FileNotFoundError: there is no checkpoint.
    """
    if not source.is_dir():
        return regular(source)
    for name in names:
        if (source / name).is_file():
            return source / name
    paths = sorted({path for pattern in patterns for path in source.glob(pattern) if path.is_file()})
    paths = [path for path in paths if not any(path.match(pattern) for pattern in but)]
    if not paths:
        raise FileNotFoundError(f"There is no checkpoint in {source}. Looked for {', '.join([*names, *patterns])}.")
    if len(paths) > 1 and newest is None:
        listed = ", ".join(path.name for path in paths)
        raise ConversionError(f"{source} contains several checkpoints ({listed}); name the file of one.")
    return paths[0] if newest is None else max(paths, key=newest)


def beside(folder: Path, name: Any) -> Path | None:
    """The file in `folder` that a checkpoint refers to, by its path or its name alone; None if there is none.

    A checkpoint may not choose files outside of its folder.
    """
    if not isinstance(name, str) or not name:
        return None
    inside = folder.resolve()
    try:
        paths = [Path(os.path.normpath(inside / name)), inside / Path(name).name]
        return next((path for path in paths if path.is_relative_to(inside) and path.is_file()), None)
    except (ValueError, OSError):  # a name that no file can have
        return None


def pair(source: Path, target: Path) -> tuple[Path, Path]:
    """Files of source and target; the same path twice if their contents are equal."""
    return source, source if regular(source).read_bytes() == regular(target).read_bytes() else target


def check_new(out: Path):
    """Checks that `out` can be written.

    Raises:
        ConversionError: it exists and is not an empty folder.
    """
    if not out.name:  # "."
        raise ConversionError(f"Cannot write to {str(out)!r}; name a new folder.")
    if out.exists() and not out.is_dir():
        raise ConversionError(f"{out} is a file; OUT must be a new folder.")
    if out.exists() and any(out.iterdir()):
        raise ConversionError(f"{out} already exists and is not empty. Choose another name, or delete it.")
    try:
        check_writable(out)
    except ValueError as error:
        raise ConversionError(str(error)) from None


def sha256(path: str | Path) -> str:
    with open(regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
