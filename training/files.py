"""Files and folders that are written whole or not at all, and text files that may be compressed."""

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec


def read_lines(path: str | Path) -> Iterator[str]:
    r"""The lines of a UTF-8 text file, plain or .gz, .xz, .bz2 or .zst; only "\n" and "\r\n" end a line.

    Raises:
        OSError: there is no such file, or it cannot be read.
        ValueError: it is not UTF-8, or its compression is damaged or unknown; the message names file and line.
    """
    number = 0
    try:
        with fsspec.open(str(path), "rb", compression="infer") as file, io.BufferedReader(file) as lines:
            for line in lines:
                number += 1
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, line {number}: not UTF-8 (byte {error.object[error.start]:#04x}).") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # each compression has errors of its own
        raise ValueError(f"{path} cannot be read after line {number}: {error}") from error


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A file to write, which takes its place at `path` only when the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """A folder to fill, which takes its place at `path` only when the block ends without an error."""
    path = Path(path)
    partial, previous = (path.with_name(f"{path.name}{suffix}") for suffix in (".partial", ".previous"))
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        if path.exists():
            shutil.rmtree(previous, ignore_errors=True)
            os.replace(path, previous)
        os.replace(partial, path)
        shutil.rmtree(previous, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
