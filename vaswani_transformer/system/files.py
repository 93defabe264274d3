"""Files and folders that are written whole or not at all, even if the power fails; and JSON."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A file to write, which moves to `path` only if the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        _sync(partial)
        os.replace(partial, path)
        _sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """A folder to fill, which moves to `path` only if the block ends without an error."""
    path = Path(path)
    partial, previous = (path.with_name(f"{path.name}{suffix}") for suffix in (".partial", ".previous"))
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        for inside in (*partial.rglob("*"), partial):
            _sync(inside)
        if path.exists():
            shutil.rmtree(previous, ignore_errors=True)
            os.replace(path, previous)
        os.replace(partial, path)
        _sync(path.parent)
        shutil.rmtree(previous, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_json(path: str | Path) -> Any:
    """The content of a JSON file.

    Raises:
        OSError: it does not exist or cannot be read.
        ValueError: it is not JSON in UTF-8; the message names the file.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error


def write_json(path: str | Path, content: Any, indent: int | None = 2, sort_keys: bool = False):
    """Writes a JSON file completely or not at all."""
    with whole_file(path) as file:
        text = json.dumps(content, indent=indent, sort_keys=sort_keys, ensure_ascii=False)
        file.write_text(f"{text}\n", encoding="utf-8")


def check_writable(path: str | Path):
    """Looks whether `path` can be written, before the work whose result it is to hold.

    Raises:
        ValueError: a folder above it is a file, or closed to this user.
    """
    above = next(folder for folder in Path(path).absolute().parents if folder.exists())
    if not above.is_dir():
        raise ValueError(f"Cannot write {path}: {above.name} is a file, not a folder.")
    if not os.access(above, os.W_OK):
        raise ValueError(f"Cannot write {path}: you may not write in the folder {above.name}.")


def _sync(path: Path):
    """Waits until a file's content, or a folder's list of names, is on the disk.

    A name can reach the disk before the content does: after a power cut the file would be there, and empty.
    """
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
