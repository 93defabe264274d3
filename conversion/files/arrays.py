"""Reads arrays: .npz and safetensors."""

import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from ..options import ConversionError
from .archives import MAX_RATIO, MIN_CHECKED_BYTES
from .folders import regular
from .text import one_line


# A damaged .npz may raise any of these.
UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, AttributeError, TypeError, RuntimeError, MemoryError, OverflowError,
    SyntaxError, NotImplementedError, IndexError, RecursionError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_npz(path: str | Path, chosen: Callable[[list[str]], Iterable[str]] = iter) -> dict[str, np.ndarray]:
    """Reads the arrays of a .npz file whose names `chosen` selects, by default all. Nothing is unpickled.

    Raises:
        ConversionError: the file is damaged, not a .npz, or expands to an absurd size.
        FileNotFoundError: it does not exist.
    """
    path = regular(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            names = list(chosen(file.files))
            check_size(path, [f"{name}.npy" for name in names])
            arrays = {name: file[name] for name in names}
        if foreign := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
            raise TypeError(f"{foreign[0]} is not an array")  # numpy returns the bytes of other members
        return arrays
    except UNREADABLE as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"{path} is damaged or not a .npz file: {one_line(error)}") from None


def check_size(path: Path, members: Iterable[str] | None = None):
    """Checks that a zip archive does not expand to an absurd size. Other files pass.

    Raises:
        ConversionError: it does.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if members is None or info.filename in members]
    except UNREADABLE:  # not an archive, or a damaged one, which its reader refuses
        return
    size, stored = sum(info.file_size for info in infos), sum(info.compress_size for info in infos)
    if size > MIN_CHECKED_BYTES and size > MAX_RATIO * stored:
        raise ConversionError(
            f"{path} would expand from {stored:,} to {size:,} bytes; weights do not compress like this."
        )


def read_safetensors(path: str | Path) -> dict[str, torch.Tensor]:
    """Reads the tensors of a safetensors file.

    Raises:
        ConversionError: the file is damaged.
        FileNotFoundError: it does not exist.
    """
    try:
        return load_file(regular(path))
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        if isinstance(error, FileNotFoundError | ConversionError):
            raise
        raise ConversionError(f"{path} is damaged or not a safetensors file: {one_line(error)}") from None
