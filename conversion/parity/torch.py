"""Compares a converted model with a `torch.nn.Transformer` built from the same tensors."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import nn

from vaswani_transformer import VaswaniForConditionalGeneration

from ..mapping import count_layers
from ..positions import rows
from .samples import random_inputs
from .scores import Parity
from .scores import compare as compare_scores


@torch.no_grad()
def compare(
    description: Mapping, tensors: Mapping[str, torch.Tensor], model: VaswaniForConditionalGeneration
) -> Parity:
    """Compares logits for random sentences. `tensors` have the names of `files.torch.canonical`."""
    transformer = original(description, tensors)

    def embed(side: str, ids: torch.Tensor) -> torch.Tensor:
        table = tensors[f"{side}_embedding.weight"].float()
        embedded = table[ids] * (table.shape[1] ** 0.5 if description["scale_embedding"] else 1)
        positions = tensors.get(f"{side}_positions.weight")
        if positions is None:
            positions = computed_positions(description["positions"], ids.shape[1], table.shape[1])
        return embedded + rows(positions, table.shape[1])[: ids.shape[1]]

    inputs = random_inputs(model.config)
    padding = ~inputs["attention_mask"].bool()
    hidden = transformer(
        embed("source", inputs["input_ids"]),
        embed("target", inputs["decoder_input_ids"]),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(inputs["decoder_input_ids"].shape[1]).isinf(),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    bias = tensors.get("generator.bias")
    logits = nn.functional.linear(hidden, tensors["generator.weight"].float(), None if bias is None else bias.float())
    return compare_scores(
        model, inputs, logits, f"torch.nn.Transformer {torch.__version__} built from description.json"
    )


ACTIVATION_FUNCTIONS = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "gelu_tanh": lambda x: nn.functional.gelu(x, approximate="tanh"),
    "silu": nn.functional.silu,
}


def original(description: Mapping, tensors: Mapping[str, torch.Tensor]) -> nn.Transformer:
    """Builds the torch.nn.Transformer. `tensors` have the names of `files.torch.canonical`."""
    d_model = tensors["source_embedding.weight"].shape[1]
    encoder_heads = description["heads"]
    decoder_heads = description["decoder_heads"] or encoder_heads
    encoder_stack = partial(nn.TransformerEncoder, enable_nested_tensor=False)
    stacks = {}
    for name, layer, stack, heads in (
        ("encoder", nn.TransformerEncoderLayer, encoder_stack, encoder_heads),
        ("decoder", nn.TransformerDecoderLayer, nn.TransformerDecoder, decoder_heads),
    ):
        settings = dict(
            dim_feedforward=len(tensors[f"{name}.layers.0.linear1.weight"]),
            activation=ACTIVATION_FUNCTIONS[description["activation"]],
            layer_norm_eps=description["layer_norm_eps"],
            norm_first=bool(description["norm_first"]),
            bias=f"{name}.layers.0.linear1.bias" in tensors,
            batch_first=True,
        )
        norm = None
        if f"{name}.norm.weight" in tensors:
            norm = nn.LayerNorm(d_model, description["layer_norm_eps"], bias=f"{name}.norm.bias" in tensors)
        count = count_layers(tensors, f"{name}.layers.")
        stacks[f"custom_{name}"] = stack(layer(d_model, heads, **settings), count, norm)
    transformer = nn.Transformer(d_model, encoder_heads, batch_first=True, **stacks)
    transformer.load_state_dict({n: t for n, t in tensors.items() if n.startswith(("encoder.", "decoder."))})
    return transformer.float().eval()


def computed_positions(kind: str, length: int, width: int) -> torch.Tensor:
    """Computes positions [length, width] as in the tutorial."""
    angles = torch.arange(length)[:, None] * torch.exp(
        -torch.arange(0, width, 2) * torch.log(torch.tensor(1e4)) / width
    )
    if kind == "none":
        return torch.zeros(length, width)
    both = (angles.sin(), angles.cos())
    return torch.stack(both, dim=-1).flatten(-2) if kind == "interleaved" else torch.cat(both, dim=-1)
