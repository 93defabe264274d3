"""Writes files and folders completely or not at all, even if the power fails; reads and writes JSON."""

import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


DISK_FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG


@contextmanager
def atomic_file(path: str | Path, mode: int | None = None) -> Iterator[Path]:
    """Yields a new temporary file to write, and moves it to `path` if the block ends without an error.

    A link at `path` is replaced, not followed. No other process can have prepared the temporary file, such as a link.

    Args:
        path: The file to write.
        mode: The permissions of the file, such as 0o600. By default, those of the file that it replaces; a new file
            gets the usual ones.

    Raises:
        OSError: the file cannot be written; the error names it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode is None and path.is_file():
        mode = path.stat().st_mode
    with _errors_with_name(path):
        partial = _create_partial(path, 0o666 if mode is None else 0o600)
        try:
            yield partial
            if mode is not None:
                partial.chmod(mode & 0o777)
            _sync(partial)
            os.replace(partial, path)
            _sync(path.parent)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yields a temporary folder to fill, and moves it to `path` if the block ends without an error.

    Raises:
        OSError: a file cannot be written; the error names it or the folder.
    """
    path = Path(path)
    partial, previous = (path.with_name(f"{path.name}{suffix}") for suffix in (".partial", ".previous"))
    shutil.rmtree(partial, ignore_errors=True)
    with _errors_with_name(path):
        partial.mkdir(parents=True)  # an error if it exists: a link to another folder is not followed
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


def _create_partial(path: Path, mode: int) -> Path:
    """Creates an empty file of a new name beside `path`. tempfile.mkstemp would ignore the umask."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
    while True:
        # Part of the name, because names have at most 255 bytes.
        partial = path.with_name(f"{path.name[:50]}.{secrets.token_hex(4)}.partial")
        try:
            os.close(os.open(partial, flags, mode))
            return partial
        except FileExistsError:
            continue


@contextmanager
def _errors_with_name(path: Path) -> Iterator[None]:
    """Adds `path` to errors without a file name. If the disk is full, the system names no file, or the one read.

    Libraries in Rust, such as safetensors and tokenizers, give the system's error only as text.
    """
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL or (error.errno is not None and error.filename is None):
            error.filename, error.filename2 = str(path), None
        raise
    except Exception as error:
        if number := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
        raise


def read_json(path: str | Path) -> Any:
    """Reads a JSON file.

    Raises:
        OSError: the file does not exist or cannot be read.
        ValueError: the file is not JSON in UTF-8; the message names it.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error


def write_json(path: str | Path, content: Any, indent: int | None = 2, sort_keys: bool = False):
    """Writes a JSON file completely or not at all."""
    with atomic_file(path) as file:
        text = json.dumps(content, indent=indent, sort_keys=sort_keys, ensure_ascii=False)
        file.write_text(f"{text}\n", encoding="utf-8")


def check_regular(path: str | Path):
    """Checks that a file is a regular one, which can be read twice and has an end. A missing file passes.

    Raises:
        ValueError: it is a folder, a device or a pipe.
    """
    if Path(path).exists() and not Path(path).is_file():
        raise ValueError(
            f"{path} is not a regular file. If it is a pipe or a device, save its content to a file first."
        )


def check_writable(path: str | Path):
    """Checks that `path` can be written. Call it before long work whose result goes there.

    Raises:
        ValueError: a parent of `path` is a file, or the user has no permission to write in it.
    """
    parent = next(folder for folder in Path(path).absolute().parents if folder.exists())
    if not parent.is_dir():
        raise ValueError(f"Cannot write {path}: {parent.name} is a file, not a folder.")
    if not os.access(parent, os.W_OK):
        raise ValueError(f"Cannot write {path}: no permission to write in the folder {parent.name}.")


def _sync(path: Path):
    """Waits until a file's content, or a folder's list of names, is on the disk.

    A name can reach the disk before the content. After a power failure, the file would then exist but be empty.
    """
    if os.name == "nt" and path.is_dir():  # Windows cannot open folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
