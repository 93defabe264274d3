"""Reads files that nobody vouches for.

Pickles can run any code when they are loaded. Here they may name only what is on a list; anything else is an error that
says what it was, before it has run.
"""

import hashlib
import pickle
import re
from collections.abc import Iterable
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
        raise ConversionError(f"{path} is damaged, or was not written by torch.save.") from None
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, AttributeError, ImportError) as error:
        raise ConversionError(f"{path} is damaged, or was not written by torch.save: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def sha256(path: str | Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
