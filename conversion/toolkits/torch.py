"""State dicts of models built on `torch.nn.Transformer`, with the layout of PyTorch's tutorial "Language Translation
with nn.Transformer and torchtext".

`description.json`, beside the state dict, provides what it does not record. Only "heads" has no default:

| field           | default    | what it is                                                                            |
|-----------------|------------|---------------------------------------------------------------------------------------|
| heads           |            | `nhead`                                                                               |
| decoder_heads   | heads      | the decoder's, if it is a `custom_decoder` with another number                        |
| norm_first      | false      | `norm_first`                                                                          |
| activation      | "relu"     | `activation`: relu, gelu, gelu_tanh, silu                                             |
| layer_norm_eps  | 1e-5       | `layer_norm_eps`                                                                      |
| dropout         | 0.1        | `dropout`, for further training                                                       |
| scale_embedding | true       | embeddings are multiplied by sqrt(d_model)                                            |
| positions       | the table  | without a table in the file: "interleaved" as in the tutorial, "concatenated", "none" |
| ids             | tutorial's | {"unk": 0, "pad": 1, "bos": 2, "eos": 3, "decoder_start": 2}                          |
| names           | tutorial's | parts with other names: transformer, source_embedding, target_embedding,              |
|                 |            | generator (null if it is the target embedding), source_positions, target_positions    |

Sizes, biases, final norms and positions (if their table is stored) are recognised from the tensors.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

import torch
import typer

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from ..converted import Converted
from ..files.torch import canonical, part_names
from ..mapping import Table, count_layers, matrices, shared
from ..options import NORM_FIRST, ConversionError, Fields, Options, shown
from ..parity import torch as parity
from ..parity.scores import Parity
from ..positions import recognise, rows
from . import bare_state_dict


WEIGHTS = Table(
    """
    model.encoder.embed_tokens                       source_embedding
    model.decoder.embed_tokens                       target_embedding
    lm_head                                          generator
    model.encoder.embedding.positions                source_positions
    model.decoder.embedding.positions                target_positions

    model.encoder.layers.{e}.self_attn.qkv_proj      encoder.layers.{e}.self_attn.in_proj
    model.encoder.layers.{e}.self_attn.out_proj      encoder.layers.{e}.self_attn.out_proj
    model.encoder.layers.{e}.self_attn_norm          encoder.layers.{e}.norm1
    model.encoder.layers.{e}.feed_forward.fc1        encoder.layers.{e}.linear1
    model.encoder.layers.{e}.feed_forward.fc2        encoder.layers.{e}.linear2
    model.encoder.layers.{e}.feed_forward_norm       encoder.layers.{e}.norm2
    model.encoder.norm                               encoder.norm

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder.layers.{d}.self_attn.in_proj
    model.decoder.layers.{d}.self_attn.out_proj      decoder.layers.{d}.self_attn.out_proj
    model.decoder.layers.{d}.self_attn_norm          decoder.layers.{d}.norm1
    model.decoder.layers.{d}.cross_attn.{q,kv}_proj  decoder.layers.{d}.multihead_attn.in_proj
    model.decoder.layers.{d}.cross_attn.out_proj     decoder.layers.{d}.multihead_attn.out_proj
    model.decoder.layers.{d}.cross_attn_norm         decoder.layers.{d}.norm2
    model.decoder.layers.{d}.feed_forward.fc1        decoder.layers.{d}.linear1
    model.decoder.layers.{d}.feed_forward.fc2        decoder.layers.{d}.linear2
    model.decoder.layers.{d}.feed_forward_norm       decoder.layers.{d}.norm3
    model.decoder.norm                               decoder.norm
    """
)

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "silu": "silu"}
OPTIONS = Fields(
    """
    encoder_attention_heads                             heads
    decoder_attention_heads                             decoder_heads | heads
    dropout, attention_dropout, activation_dropout      dropout
    activation_function                                 activation
    norm_position                                       norm_first
    layer_norm_eps                                      layer_norm_eps
    scale_embedding                                     scale_embedding
    zero_pad_embedding                                  = False
    label_smoothing                                     = 0.0
    label_smoothing_type                                = uniform
    """,
    choices={"activation_function": ACTIVATIONS, "norm_position": NORM_FIRST},
)
DEFAULTS = {
    "heads": None,
    "decoder_heads": None,
    "norm_first": False,
    "activation": "relu",
    "layer_norm_eps": 1e-5,
    "dropout": 0.1,
    **bare_state_dict.TEXT_FILES,
    "scale_embedding": True,
    "positions": None,
    "ids": {"unk": 0, "pad": 1, "bos": 2, "eos": 3},
    "names": {},
}
POSITIONS = {
    "interleaved": {"position_layout": "interleaved"},
    "concatenated": {"position_layout": "concatenated"},
    "none": {"position_encoding": "none"},
}


HELP = f"{__doc__}{bare_state_dict.FILES}"


class Given(bare_state_dict.Given, total=False):
    """The options of this converter, which override description.json."""

    norm_first: Annotated[bool | None, typer.Option("--norm-first", help="The model has norm_first=True.")]
    activation: Annotated[Literal[*ACTIVATIONS] | None, typer.Option(help="Default: relu.")]
    layer_norm_eps: Annotated[float | None, typer.Option(metavar="EPS", help="Default: 1e-5.")]
    positions: Annotated[
        Literal[*POSITIONS] | None, typer.Option(help="Kind of positions, if their table is not stored.")
    ]


def convert(source: Path, unsafe: bool = False, **given: Unpack[Given]) -> Converted:
    """Converts a state dict, or the one in a folder."""
    path = bare_state_dict.find(source)
    options = bare_state_dict.describe(path.parent, "torch.nn.Transformer", DEFAULTS, **given)
    tensors = canonical(bare_state_dict.load_state_dict(path, unsafe), part_names(options))
    config = read_config(options, tensors)
    return bare_state_dict.converted(path, options, config, WEIGHTS.read(readable(tensors, config), config))


def read_config(options: Options, tensors: Mapping[str, torch.Tensor]) -> VaswaniConfig:
    names = [f"{name}.weight" for name in ("source_embedding", "target_embedding", "generator")]
    inner = [f"{stack}.layers.0.linear1.weight" for stack in ("encoder", "decoder")]
    source, target, softmax, encoder_inner, decoder_inner = matrices(tensors, [*names, *inner], options)
    for name in ("norm_first", "scale_embedding"):
        options.only(name, True, False)
    final_norms = [f"{stack}.norm.weight" in tensors for stack in ("encoder", "decoder")]
    if final_norms[0] != final_norms[1]:
        options.refuse("a final norm after one stack only (supported: after both or neither)")
    biases = [f"encoder.layers.0.{name}" in tensors for name in ("self_attn.in_proj_bias", "linear1.bias")]
    if biases[0] != biases[1]:
        options.refuse("biases in attention or feed-forward only (supported: bias=True, bias=False)")
    return options.config(
        **OPTIONS.read(options),
        **bare_state_dict.IDS.read(options),
        **read_positions(options, tensors, source.shape[1]),
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        d_model=source.shape[1],
        d_ff=len(encoder_inner),
        decoder_d_ff=len(decoder_inner),
        encoder_layers=count_layers(tensors, "encoder.layers."),
        decoder_layers=count_layers(tensors, "decoder.layers."),
        final_norm=final_norms[0],
        attention_bias=biases[0],
        feed_forward_bias=biases[1],
        softmax_bias="generator.bias" in tensors,
        share_embeddings=shared(source, target, softmax, torch.equal),
    )


def read_positions(options: Options, tensors: Mapping[str, torch.Tensor], d_model: int) -> dict[str, Any]:
    stored = [tensors.get(f"{side}_positions.weight") for side in ("source", "target")]
    tables = [table for table in stored if table is not None]
    if not tables:
        return options.choice("positions", POSITIONS)
    if len(tables) == 1:
        options.refuse("a position table for one side only (supported: for both, or for neither)")
    positions = recognise(tables, d_model)
    kind = options.take("positions")
    if kind is not None and (kind == "none" or positions.get("position_layout", kind) != kind):
        options.refuse(
            f"positions={shown(kind)} with a stored table of another kind (supported: the kind of the table)"
        )
    return positions


def readable(tensors: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
    """Renames tensors for the mapping table.

    With `bias=False` the norms have no biases either; zeros are added. Sinusoids are left out, because we compute them.
    """
    readable = {}
    for name, tensor in tensors.items():
        part, _, norm = name.removesuffix(".weight").rpartition(".")
        if norm.startswith("norm") and part:
            readable.setdefault(f"{part}.{norm}.bias", torch.zeros(config.d_model))
        if not name.endswith("_positions.weight"):
            readable[name.replace(".in_proj_", ".in_proj.")] = tensor
        elif config.position_encoding == "learned":
            readable[name] = rows(tensor, config.d_model)
    return readable


def compare_live(source: Path, converted: Converted, model: VaswaniForConditionalGeneration) -> Parity | None:
    """Compares with torch.nn.Transformer and the file's tensors; returns None if only --unsafe can load them."""
    options = Options(converted.facts["description"], converted.toolkit)
    try:
        state = bare_state_dict.load_state_dict(bare_state_dict.find(source))
    except ConversionError:
        return None
    return parity.compare(options.values, canonical(state, part_names(options)), model)
