"""Reads files that nobody vouches for.

Pickles can run any code when they are loaded. Here they may name only what is on a list; anything else is an error that
says what it was, before it has run.
"""

import hashlib
import json
import os
import pickle
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .core import ConversionError


# Arrays and numbers of numpy, under the names of its versions 1 and 2: a best validation loss, a random state.
REBUILD = {"scalar": np.float64().__reduce__()[0], "_reconstruct": np.zeros(1).__reduce__()[0]}
NUMPY = [
    np.ndarray,
    np.dtype,
    *{type(np.dtype(kind)) for kind in "?bhilqBHILQefd"},
    *(
        (function, f"numpy.{core}.multiarray.{name}")
        for name, function in REBUILD.items()
        for core in ("core", "_core")
    ),
]
UNSAFE = (
    "Loading it would run code from the file, with your rights: whoever made the file could read, send or delete your "
    "data. If you trust where it comes from as you would trust a program, add --unsafe."
)


class Ignored:
    """Stands for an object of another toolkit that holds no weights, such as a meter of its training."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        pass


def load_pickle(
    path: str | Path, allowed: Iterable[Any] = (), ignored: Iterable[str] = (), unsafe: bool = False
) -> Any:
    """What `torch.save` wrote, on the CPU. `allowed` are classes it may hold, `ignored` names that become `Ignored`.

    Tensors, Python's own containers and numbers, and numpy's, are always allowed.

    Raises:
        ConversionError: the file is damaged, no file of torch, or names what is on neither list.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    if unsafe:
        print(f"--unsafe: running what {path} asks for. {UNSAFE.partition('. ')[0]}.")
        return _load(path, weights_only=False)
    with torch.serialization.safe_globals([*NUMPY, *allowed, *((Ignored, name) for name in ignored)]):
        return _load(path, weights_only=True)


def _load(path: Path, weights_only: bool) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=weights_only)
    except pickle.UnpicklingError as error:
        if named := re.search(r"GLOBAL (\S+)|class (\S+)", str(error)):
            what = named[1] or named[2]
            raise ConversionError(f"{path} holds more than weights: it asks for {what}. {UNSAFE}") from None
        raise ConversionError(
            f"{path} is damaged, was not written by torch.save, or not as torch.save does without being told otherwise "
            "(pickle protocol 2); whether it asks for more than weights cannot be seen then."
        ) from None
    except Exception as error:  # what a damaged file leads to depends on where it is damaged
        raise ConversionError(f"{path} is damaged, or was not written by torch.save: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# What a damaged .npz can lead to.
UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, AttributeError, TypeError, RuntimeError, MemoryError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip


def read_npz(path: str | Path, chosen: Callable[[list[str]], Iterable[str]] = iter) -> dict[str, np.ndarray]:
    """The arrays of a .npz, or those that are `chosen` of their names; nothing in it is unpickled.

    Raises:
        ConversionError: the file is damaged, or no .npz.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in chosen(file.files)}
    except UNREADABLE as error:
        raise ConversionError(f"{path} is damaged, or no .npz: {_first_line(error)}") from None


def read_json(path: str | Path) -> dict[str, Any]:
    """Raises:
    ConversionError: it is no JSON of names and values.
    FileNotFoundError: there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} holds no {path.name}.")
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"{path} is no JSON: {error}") from None
    if not isinstance(read, dict):
        raise ConversionError(f"{path} is no JSON object: it does not hold names and values.")
    return read


def beside(folder: Path, name: Any) -> Path | None:
    """The file in `folder` that a checkpoint names, under its path or its name alone; None where there is none.

    A checkpoint does not choose files outside of its folder.
    """
    if not isinstance(name, str) or not name:
        return None
    inside = folder.resolve()
    paths = [Path(os.path.normpath(inside / name)), inside / Path(name).name]
    return next((path for path in paths if path.is_relative_to(inside) and path.is_file()), None)


def sha256(path: str | Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
