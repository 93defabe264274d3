"""Reads what `torch.save` wrote, without running code from it.

A pickle can name any function, which loading it then calls. Here it may name only what is on a list; anything else is
refused before it runs, and the message says what it was.
"""

import pickle
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..options import ConversionError
from .arrays import check_size
from .folders import regular
from .text import one_line


# Numbers and arrays of NumPy 1 and 2, which checkpoints hold as the best validation loss or a random state.
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
    "Code from a file runs with your rights: whoever made the file could read, send or delete your data. If you trust "
    "its origin as you would a program's, add --unsafe."
)


class Ignored:
    """Takes the place of another toolkit's object that holds no weights, such as a meter of its training."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        pass


def load_pickle(
    path: str | Path, allowed: Iterable[Any] = (), ignored: Iterable[str] = (), unsafe: bool = False
) -> Any:
    """The content of a file that `torch.save` wrote, on the CPU.

    `allowed` are classes that it may hold, `ignored` names of classes whose objects become `Ignored`. Tensors, Python's
    own containers and numbers, and numpy's, are always allowed.

    Raises:
        ConversionError: the file is damaged, was not written by torch, or names something that is on neither list.
        FileNotFoundError: it does not exist.
    """
    path = regular(path)
    if not path.stat().st_size:
        raise ConversionError(f"{path} is empty.")
    check_size(path)
    if unsafe:
        print(f"--unsafe: {path} may run code now. {UNSAFE.partition('. ')[0]}.")
        return _load(path, weights_only=False)
    with torch.serialization.safe_globals([*NUMPY, *allowed, *((Ignored, name) for name in ignored)]):
        return _load(path, weights_only=True)


def _load(path: Path, weights_only: bool) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=weights_only)
    except pickle.UnpicklingError as error:
        if named := re.search(r"GLOBAL (\S+)|class (\S+)", str(error)):
            what = named[1] or named[2]
            raise ConversionError(f"{path} holds more than weights: loading it would call {what}. {UNSAFE}") from None
        raise ConversionError(
            f"{path} is damaged, or was not written by torch.save with its default settings (pickle protocol 2), "
            "without which it cannot be told whether the file would run code."
        ) from None
    except Exception as error:  # a damaged file can lead to almost any error
        reason = f": {one_line(error)}" if " " in str(error) else "."  # an IndexError's "101" says nothing
        raise ConversionError(f"{path} is damaged, or was not written by torch.save{reason}") from None
