"""Reads files written by `torch.save` without running code from them.

Loading a pickle calls any function that it names. Here a pickle may name only functions on a list; any other is refused
before it runs, and the error names it.
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


# NumPy 1 and 2: checkpoints contain numbers and arrays, such as the best validation loss or a random state.
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
UNSAFE = "Such code can read, send or delete your data. If you trust its origin as you would a program's, add --unsafe."


class Ignored:
    """Replaces an object without weights, such as a training meter of another toolkit."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        pass


def load_pickle(
    path: str | Path, allowed: Iterable[Any] = (), ignored: Iterable[str] = (), unsafe: bool = False
) -> Any:
    """Loads a file written by `torch.save`, onto the CPU.

    `allowed` are classes that it may contain, `ignored` names of classes whose objects become `Ignored`. Tensors and
    the containers and numbers of Python and NumPy are always allowed.

    Raises:
        ConversionError: the file is damaged, was not written by torch, or names anything else.
        FileNotFoundError: it does not exist.
    """
    path = regular(path)
    if not path.stat().st_size:
        raise ConversionError(f"{path} is empty.")
    check_size(path)
    if unsafe:
        print(f"--unsafe: {path} may now run code. {UNSAFE.partition('. ')[0]}.")
        return _load(path, weights_only=False)
    with torch.serialization.safe_globals([*NUMPY, *allowed, *((Ignored, name) for name in ignored)]):
        return _load(path, weights_only=True)


def _load(path: Path, weights_only: bool) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=weights_only)
    except pickle.UnpicklingError as error:
        if named := re.search(r"GLOBAL (\S+)|class (\S+)", str(error)):
            what = named[1] or named[2]
            raise ConversionError(
                f"{path} contains more than weights: loading it would call {what}. {UNSAFE}"
            ) from None
        raise ConversionError(
            f"{path} is damaged, or was not written by torch.save with its default settings (pickle protocol 2). "
            "Files in other formats cannot be checked for code before they are loaded."
        ) from None
    except Exception as error:  # damaged files raise errors of many kinds
        reason = (
            f": {one_line(error)}" if " " in str(error) else "."
        )  # the message of an IndexError, such as "101", does not help
        raise ConversionError(f"{path} is damaged or was not written by torch.save{reason}") from None
