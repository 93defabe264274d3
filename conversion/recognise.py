"""Recognises which toolkit wrote a checkpoint, by its files. Needs no torch.

`FILES` has a row for each toolkit: the files that its checkpoints have, as patterns; `a|b` are alternatives. The first
row that fits a folder wins. Files of `torch.save` without a vocabulary beside them are told apart by the names in them.
"""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


OURS = "vaswani"
# The converters of transformers' models, by `model_type` in config.json.
MODEL_TYPES = {"marian": "hf-marian", "fsmt": "fsmt", OURS: OURS}
FILES = {
    "ctranslate2": (
        "model.bin|model/model.bin",
        "*_vocabulary.*|metadata.json",
    ),  # the second ones are Argos Translate's
    "joeynmt": ("*.ckpt", "config.yaml"),
    "tensor2tensor": ("*.index|variables.npz", "hparams.json"),
    "fairseq": ("*.pt", "dict.*.txt"),
    "marian": ("*.npz", "*.yml|*.spm"),
}
PICKLES = ".pt", ".pth"  # of torch.save
# Names of which one is in the pickle of each toolkit: a tensor or an entry.
PICKLED = {"annotated": b"src_embed.0.lut", "opennmt": b"opt", "torch": b".in_proj_weight"}
MAX_PICKLE_BYTES = 2**24  # without the tensors
MAX_DEPTH = 3  # folders around the checkpoint in an archive


class Recognised(NamedTuple):
    """A checkpoint: the name of its converter, or "vaswani" for ours, and the file or folder to convert."""

    toolkit: str
    source: Path


def recognise(path: Path) -> Recognised | None:
    """Returns the checkpoint in a folder, or None. A file is a checkpoint together with the files beside it."""
    folder = path if path.is_dir() else path.parent
    if kind := model_type(folder):
        toolkit = MODEL_TYPES.get(kind)
        return Recognised(toolkit, folder) if toolkit else None
    if folder.name == "model" and (folder.parent / "metadata.json").is_file():  # inside a package of Argos Translate
        folder = path = folder.parent
    for toolkit, patterns in FILES.items():
        if all(has(folder, each) for each in patterns):
            is_weights = path.is_dir() or any(path.match(each) for each in patterns[0].split("|"))
            return Recognised(toolkit, path) if is_weights else None
    toolkit = pickled_toolkit(path)
    return Recognised(toolkit, path) if toolkit else None


def has(folder: Path, pattern: str) -> bool:
    return any(path.is_file() for alternative in pattern.split("|") for path in folder.glob(alternative))


def model_type(folder: Path) -> str | None:
    """Returns the `model_type` in config.json; None without the file or the entry."""
    try:
        value = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, RecursionError, TypeError, LookupError):
        return None
    return value if isinstance(value, str) else None


def pickled_toolkit(path: Path) -> str | None:
    """Returns the toolkit of a file of `torch.save`, or of the first one in a folder. Nothing is unpickled."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    file = next((file for file in files if file.suffix in PICKLES and file.is_file()), None)
    content = read_pickle(file) if file else b""
    return next((toolkit for toolkit, name in PICKLED.items() if name in content), None)


def read_pickle(file: Path) -> bytes:
    """Returns the pickle in a file of `torch.save`: a part of a zip archive, or before version 1.6 the file's start."""
    try:
        with zipfile.ZipFile(file) as archive:
            name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
            with archive.open(name) as pickle:
                return pickle.read(MAX_PICKLE_BYTES)
    except (zipfile.BadZipFile, StopIteration, NotImplementedError, RuntimeError):
        with open(file, "rb") as pickle:
            return pickle.read(MAX_PICKLE_BYTES)


def find_checkpoint(folder: Path) -> Recognised | None:
    """Returns the checkpoint in a folder or in the folders inside it, the outermost first; None if there is none."""
    return next((known for known in map(recognise, folders(folder)) if known), None)


def folders(folder: Path, depth: int = 0) -> Iterator[Path]:
    yield folder
    if depth < MAX_DEPTH:
        for inner in sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()):
            yield from folders(inner, depth + 1)


def describe_files() -> str:
    """Returns the table of files in words, for messages."""
    return "; ".join(f"{toolkit} has {' and '.join(patterns)}" for toolkit, patterns in FILES.items())
