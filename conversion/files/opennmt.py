"""Reads checkpoints of OpenNMT-py 2 and 3: options, weights and vocabularies."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..options import ConversionError
from .arrays import read_safetensors
from .pickles import load_pickle


POSITIONS = [f"{side}.embeddings.make_embedding.pe.weight" for side in ("encoder", "decoder")]
UNK, PAD, BOS, EOS = "<unk>", "<blank>", "<s>", "</s>"


# Classes that version 2 pickled with its vocabularies. torchtext later moved them to torchtext.legacy.
VERSION_2 = (
    "onmt.inputters.text_dataset.TextMultiField", "onmt.inputters.text_dataset._feature_tokenize",
    "onmt.inputters.inputter._feature_tokenize", "onmt.inputters.inputter.make_src",
    "onmt.inputters.inputter.make_tgt", "onmt.inputters.inputter.AlignField",
    "onmt.inputters.inputter.parse_align_idx", "functools.partial", "collections.defaultdict",
    *(
        f"torchtext{legacy}.{name}" for legacy in ("", ".legacy")
        for name in ("vocab.Vocab", "vocab._default_unk_index", "data.field.Field", "data.field.RawField",
                     "data.field.LabelField", "data.pipeline.Pipeline", "data.utils._split_tokenizer")
    ),
)  # fmt: skip


class Field:
    """Replaces an object of version 2's vocabulary: holds its attributes and has no behaviour."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        if isinstance(state, dict):
            self.__dict__.update(state)


def step_number(path: Path) -> tuple[float, str]:
    """The number in `model_step_1000.pt`; infinite for a released model, which has none."""
    number = re.search(r"_step_(\d+)", path.name)
    return int(number[1]) if number else float("inf"), path.name


def load_checkpoint(path: Path, unsafe: bool) -> dict[str, Any]:
    allowed = [argparse.Namespace, set, *((Field, name) for name in VERSION_2)]
    saved = load_pickle(path, allowed=allowed, unsafe=unsafe)
    if not isinstance(saved, dict) or not {"opt", "vocab"} <= saved.keys():
        raise ConversionError(f"{path} is not an OpenNMT-py checkpoint: 'opt' or 'vocab' is missing.")
    if not isinstance(saved["opt"], dict | argparse.Namespace):
        raise ConversionError(f"{path} is not an OpenNMT-py checkpoint: 'opt' contains no options.")
    return saved


def weight_files(path: Path, saved: Mapping) -> list[Path]:
    """Finds the `.safetensors` files beside a `.pt` without weights."""
    if "model" in saved:
        return []
    files = sorted(path.parent.glob(f"{path.stem}.*safetensors"))
    if not files:
        raise ConversionError(f"{path} contains no weights, and {path.stem}.safetensors is not beside it.")
    return files


def all_tensors(saved: Mapping, files: Sequence[Path]) -> dict[str, torch.Tensor]:
    """The weights of model and generator, under the names of version 3."""
    stored = {name: tensor for file in files for name, tensor in read_safetensors(file).items()}
    if not files:
        model, generator = saved["model"], saved.get("generator")
        if not isinstance(model, Mapping) or not isinstance(generator, Mapping):
            raise ConversionError("Incomplete OpenNMT-py model: 'model' or 'generator' is not a state dict.")
        stored = {**model, **{f"generator.{name}": tensor for name, tensor in generator.items()}}
    if strangers := [name for name, tensor in stored.items() if not isinstance(tensor, torch.Tensor)]:
        raise ConversionError.from_problems("These weights are not tensors", strangers)
    # Names of version 2 and earlier; a position table is renamed like an embedding.
    names = {"generator.0.": "generator.", ".a_2": ".weight", ".b_2": ".bias", ".pe.pe": ".pe.weight"}
    tensors = {}
    for name, tensor in stored.items():
        for old, new in names.items():
            name = name.replace(old, new)
        tensors[name] = tensor.flatten(1) if name in POSITIONS else tensor  # [length, 1, d]
    return tensors


def read_vocabulary(vocab: Any, side: str) -> list[str]:
    """Reads the tokens of "src" or "tgt" in the order of their ids.

    Raises:
        ConversionError: there are none, or the source has features besides tokens.
    """
    tokens = vocab.get(side) if isinstance(vocab, Mapping) else None
    if isinstance(tokens, Field):  # version 2: fields of torchtext
        fields = getattr(tokens, "fields", [(side, tokens)])
        if len(fields) > 1:
            raise ConversionError("Unsupported: this OpenNMT-py model uses source features besides tokens.")
        tokens = getattr(getattr(fields[0][1], "vocab", None), "itos", None)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ConversionError(f"Not a vocabulary of OpenNMT-py 2 or 3: it has no list of tokens for {side!r}.")
    # A source has no end token; in version 2 a separate source vocabulary has none.
    if missing := [token for token in ((PAD,) if side == "src" else (PAD, EOS)) if token not in tokens]:
        raise ConversionError.from_problems(f"Tokens are missing in the vocabulary {side!r}", missing)
    return tokens
