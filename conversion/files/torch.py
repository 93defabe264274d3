"""Renames the tensors of a model around `torch.nn.Transformer` to fixed names of its parts."""

from collections.abc import Mapping

import torch

from ..options import ConversionError, Options, shown


# The names in PyTorch's tutorial.
NAMES = {
    "transformer": "transformer",
    "source_embedding": "src_tok_emb.embedding",
    "target_embedding": "tgt_tok_emb.embedding",
    "generator": "generator",
    "source_positions": "positional_encoding.pos_embedding",
    "target_positions": "positional_encoding.pos_embedding",
}


def part_names(options: Options) -> dict[str, str | None]:
    named = options.values["names"]
    if not isinstance(named, dict) or named.keys() - NAMES.keys():
        raise ConversionError(f"description.json: unknown part in 'names'. Choose from {', '.join(NAMES)}.")
    if wrong := [name for name in named.values() if not isinstance(name, str | None)]:
        raise ConversionError(f"description.json: invalid name in 'names': {shown(wrong[0])}.")
    return {**NAMES, **named}


def canonical(tensors: Mapping[str, torch.Tensor], called: Mapping[str, str | None]) -> dict[str, torch.Tensor]:
    """Renames tensors to `source_embedding.weight`, `encoder.layers.0.norm1.weight`, ...; others keep their names.

    `called` maps each part of the model to its name in the file.

    Raises:
        ConversionError: an embedding is missing.
    """
    parts, used = {}, set()
    for role, name in called.items():
        for stored, tensor in tensors.items():
            if name is not None and (rest := below(name, stored)) is not None:
                used.add(stored)
                parts[rest if role == "transformer" else f"{role}.{rest}"] = tensor
    if called["generator"] is None and "target_embedding.weight" in parts:
        parts["generator.weight"] = parts["target_embedding.weight"]
    wanted = ("source_embedding.weight", "target_embedding.weight", "generator.weight", "encoder.layers.0.norm1.weight")
    if missing := [name for name in wanted if name not in parts]:
        raise ConversionError.from_problems(
            "Not a model around torch.nn.Transformer, or its parts have other names. Set 'names' in description.json. "
            f"Missing: {', '.join(missing)}. Left over",
            [name for name in tensors if name not in used] or ["none"],
        )
    return {**parts, **{name: tensor for name, tensor in tensors.items() if name not in used}}


def below(name: str, stored: str) -> str | None:
    """Returns a tensor's name inside the part `name`, "weight" if the tensor is the part itself."""
    if not name:  # the transformer's own state dict
        return stored if stored.startswith(("encoder.", "decoder.")) else None
    if stored == name:
        return "weight"
    return stored.removeprefix(f"{name}.") if stored.startswith(f"{name}.") else None
