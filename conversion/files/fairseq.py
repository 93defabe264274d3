"""Reads checkpoints of fairseq 0.6 to 0.12: options and state dict."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..options import ConversionError
from .pickles import load_pickle


# The encoder's norms in 0.6.
OLD_NAMES = {"layer_norms.0": "self_attn_layer_norm", "layer_norms.1": "final_layer_norm"}


@dataclass(frozen=True)
class FairseqCheckpoint:
    """The tensors of a checkpoint, and the options of its parts. Before 0.12 every part has all options."""

    tensors: dict[str, torch.Tensor]  # under the names of 0.12
    model: dict[str, Any]
    task: dict[str, Any]
    tokenizer: dict[str, Any]
    bpe: dict[str, Any]

    @classmethod
    def from_saved(cls, saved: Mapping) -> "FairseqCheckpoint":
        """Reads what fairseq saved: the state dict `model`, and options in `cfg` or `args`."""
        parts = {name: read_options(saved, name) for name in ("model", "task", "tokenizer", "bpe")}
        return cls(modern_names(saved.get("model", {})), **parts)


def load_checkpoint(path: Path, unsafe: bool) -> FairseqCheckpoint:
    """Reads a checkpoint.

    Raises:
        ConversionError: the file is damaged, would run code, or is not a fairseq checkpoint.
        FileNotFoundError: it does not exist.
    """
    meters = [f"fairseq.meters.{name}Meter" for name in ("Average", "Time", "Stopwatch")]
    saved = load_pickle(path, allowed=[argparse.Namespace], ignored=meters, unsafe=unsafe)
    if not isinstance(saved, dict) or not isinstance(saved.get("model"), dict):
        raise ConversionError(f"{path} is not a fairseq checkpoint: no state dict called 'model'.")
    if not all(isinstance(tensor, torch.Tensor) for tensor in saved["model"].values()):
        raise ConversionError(f"{path} is not a fairseq checkpoint: 'model' contains entries that are not tensors.")
    checkpoint = FairseqCheckpoint.from_saved(saved)
    if not checkpoint.model:
        raise ConversionError(f"{path} is not a fairseq checkpoint: neither 'args' nor 'cfg' is present.")
    return checkpoint


def read_options(saved: Mapping, name: str) -> dict[str, Any]:
    """Reads the options of the model, task, tokenizer or bpe. Before 0.12 all options were in `args`."""
    groups = saved.get("cfg")
    values = (groups.get(name) if isinstance(groups, Mapping) else None) or saved.get("args") or {}
    if isinstance(values, str):
        return {name: values}
    return dict(values) if isinstance(values, Mapping) else dict(vars(values))


def flat(options: Mapping) -> dict[str, Any]:
    """Flattens nested options: `encoder: {embed_dim: ...}`, as 0.12 may write, becomes `encoder_embed_dim`."""
    groups = ("encoder", "decoder", "quant_noise")
    nested = {name: options[name] for name in groups if isinstance(options.get(name), Mapping)}
    inner = {f"{group}_{name}": value for group, values in nested.items() for name, value in values.items()}
    return {name: value for name, value in options.items() if name not in nested} | inner


def modern_names(model: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Renames a state dict of any version to the names of 0.12. 0.6 stored queries, keys and values as one tensor."""
    tensors = {}
    for name, tensor in model.items():
        for old, new in OLD_NAMES.items():
            name = name.replace(old, new)
        if name == "decoder.embed_out":
            name = "decoder.output_projection.weight"
        attention, fused, kind = name.rpartition(".in_proj_")
        if fused and attention.endswith("_attn") and tensor.dim() and len(tensor) % 3 == 0:
            parts = zip("qkv", tensor.chunk(3), strict=True)
            tensors |= {f"{attention}.{letter}_proj.{kind}": part for letter, part in parts}
        else:
            tensors[name] = tensor
    return tensors
