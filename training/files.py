"""Files and folders that are written completely or not at all, and text files that may be compressed."""

import io
from collections.abc import Iterator
from pathlib import Path

import fsspec

from vaswani_transformer.system.files import atomic_file, atomic_folder


__all__ = ["read_lines", "atomic_file", "atomic_folder"]


def read_lines(path: str | Path) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 text file, plain or .gz, .xz, .bz2 or .zst; only "\n" and "\r\n" end a line.

    Raises:
        OSError: The file does not exist or cannot be read.
        ValueError: It is not UTF-8, or its compression is damaged or unknown; the message names file and line.
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
    except Exception as error:  # each compression raises its own kinds of errors
        raise ValueError(f"{path} cannot be read after line {number}: {error}") from error
