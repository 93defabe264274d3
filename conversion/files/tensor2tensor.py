"""Reads the files of tensor2tensor: checkpoint and hyperparameters."""

import re
from collections.abc import Iterable
from pathlib import Path

import torch

from ..options import ConversionError
from .arrays import read_npz
from .folders import checkpoint_in
from .text import read_json


MODEL = "transformer/"


def find(source: Path) -> Path:
    """The `.index` or `.npz`: in a folder the one that its file `checkpoint` names, else the latest."""
    if not source.is_dir():
        index = source.with_name(f"{source.name}.index")
        source = index if index.is_file() else source
        if source.is_file() and source.suffix not in (".index", ".npz"):
            raise ConversionError(f"{source} is not a TensorFlow checkpoint; name its .index, or its folder.")
        return checkpoint_in(source)
    state = source / "checkpoint"
    text = state.read_text(encoding="utf-8", errors="replace") if state.is_file() else ""
    named = re.search(r'^model_checkpoint_path: "(.*)"', text, re.MULTILINE)
    names = [f"{Path(named[1]).name}.index"] if named else []
    if not any(source.glob("*.index")):
        return checkpoint_in(source, "*.index", names=["variables.npz"])
    return checkpoint_in(source, "*.index", names=names, newest=steps)


def steps(path: Path) -> tuple[int, str]:
    """`model.ckpt-300.index` was saved after 300 steps."""
    return int(re.search(r"(\d{0,18})$", path.stem)[1] or 0), path.name


def files(path: Path) -> list[Path]:
    return [path] if path.suffix == ".npz" else [path, *sorted(path.parent.glob(f"{path.stem}.data-*"))]


def read_hparams(path: Path) -> dict:
    if not path.exists():
        raise FileNotFoundError(
            f"{path} not found; tensor2tensor writes it where it trains. Pass --hparams FILE with the hyperparameters, "
            'such as {"hidden_size": 512, "num_heads": 8, "num_hidden_layers": 6}; hparams_set in flags_t2t.txt names '
            "them."
        )
    values = read_json(path)
    if "hidden_size" not in values:
        raise ConversionError(f"{path} is not tensor2tensor's hparams.json: it has no 'hidden_size'.")
    return values


def npz_variables(path: Path) -> dict[str, torch.Tensor]:
    try:
        return {name: torch.from_numpy(array) for name, array in read_npz(path, weights).items()}
    except TypeError as error:
        raise ConversionError(f"{path} holds arrays that are not weights: {error}") from None


def weights(names: Iterable[str]) -> list[str]:
    """Those of the model. An optimiser's variable has the name of the model's, with a part after it."""
    names = set(names)
    return sorted(
        name
        for name in names
        if name.startswith(MODEL) and not any(name[: slash.start()] in names for slash in re.finditer("/", name))
    )
