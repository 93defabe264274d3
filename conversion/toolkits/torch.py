"""State dicts of models around `torch.nn.Transformer`, with the layout of PyTorch's tutorial "Language Translation with
nn.Transformer and torchtext".

`description.json` beside the state dict says what it does not record. Only "heads" has no default:

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

Three more name files: "source_vocabulary" (vocab.src.txt) and "target_vocabulary" (vocab.trg.txt) with one token a
line, in the order of ids, and "codes" (bpe.codes), subword-nmt's; without codes, texts are split at spaces.

The state dict may be saved under "model", "state_dict" or "model_state_dict". A prefix that all its names share
(module., _orig_mod. or model.) is dropped.

Sizes, biases, final norms and positions (if their table is stored) are recognised from the tensors.
"""

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from ..converted import Converted
from ..mapping import Table
from ..options import ConversionError, Fields, Options, shown
from ..parity.samples import random_inputs
from ..parity.scores import Parity, compare
from ..positions import recognise, rows
from . import bare_state_dict


TABLE = Table(
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
FIELDS = Fields(
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
    choices={"activation_function": ACTIVATIONS, "norm_position": {False: "post", True: "pre"}},
)
NAMES = {
    "transformer": "transformer",
    "source_embedding": "src_tok_emb.embedding",
    "target_embedding": "tgt_tok_emb.embedding",
    "generator": "generator",
    "source_positions": "positional_encoding.pos_embedding",
    "target_positions": "positional_encoding.pos_embedding",
}
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


def add_arguments(parser: argparse.ArgumentParser):
    bare_state_dict.add_arguments(parser)
    parser.add_argument("--norm-first", action="store_true", default=None, help="the model has norm_first=True")
    parser.add_argument("--activation", choices=ACTIVATIONS, help="default: relu")
    parser.add_argument("--layer-norm-eps", type=float, metavar="EPS", help="default: 1e-5")
    parser.add_argument("--positions", choices=POSITIONS, help="if their table is not stored")


def convert(source: Path, unsafe: bool = False, **given) -> Converted:
    """A state dict, or the folder that contains one. `given` are the options of `add_arguments`.

    Raises:
        ConversionError: the file is damaged, described wrongly, or another model's.
    """
    path = bare_state_dict.find(source)
    options = bare_state_dict.describe(path.parent, "torch.nn.Transformer", DEFAULTS, **given)
    tensors = canonical(bare_state_dict.load_state_dict(path, unsafe), names(options))
    config = read_config(options, tensors)
    return bare_state_dict.converted(path, options, config, TABLE.read(readable(tensors, config), config))


def names(options: Options) -> dict[str, str | None]:
    named = options.values["names"]
    if not isinstance(named, dict) or named.keys() - NAMES.keys():
        raise ConversionError(f"description.json: 'names' may have the fields {', '.join(NAMES)}.")
    if wrong := [name for name in named.values() if not isinstance(name, str | None)]:
        raise ConversionError(f"description.json: 'names' has {shown(wrong[0])}, which is not the name of a part.")
    return {**NAMES, **named}


def canonical(tensors: Mapping[str, torch.Tensor], called: Mapping[str, str | None]) -> dict[str, torch.Tensor]:
    """Tensors as `source_embedding.weight`, `encoder.layers.0.norm1.weight`, ...; others keep their names.

    `called` says what the file calls each part of the model.

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
        raise ConversionError.of(
            "This is not a model around torch.nn.Transformer, or description.json must give the 'names' of its parts. "
            f"Missing: {', '.join(missing)}. Left over",
            [name for name in tensors if name not in used] or ["none"],
        )
    return {**parts, **{name: tensor for name, tensor in tensors.items() if name not in used}}


def below(name: str, stored: str) -> str | None:
    """The name of a stored tensor inside the part `name`; a tensor that is the part itself is its weight."""
    if not name:  # the transformer's own state dict
        return stored if stored.startswith(("encoder.", "decoder.")) else None
    if stored == name:
        return "weight"
    return stored.removeprefix(f"{name}.") if stored.startswith(f"{name}.") else None


def read_config(options: Options, tensors: Mapping[str, torch.Tensor]) -> VaswaniConfig:
    source, target, softmax = (tensors[f"{x}.weight"] for x in ("source_embedding", "target_embedding", "generator"))
    if any(table.dim() != 2 for table in (source, target, softmax)):
        raise ConversionError("Embeddings and generator should be matrices.")
    for name in ("norm_first", "scale_embedding"):
        options.only(name, True, False)
    final_norms = [f"{stack}.norm.weight" in tensors for stack in ("encoder", "decoder")]
    if final_norms[0] != final_norms[1]:
        options.refuse("a final norm after one stack only (supported: after both or neither)")
    inner = [tensors.get(f"{stack}.layers.0.linear1.weight") for stack in ("encoder", "decoder")]
    if any(matrix is None or matrix.dim() != 2 for matrix in inner):
        raise ConversionError("The first layer of each stack should have a linear1.weight.")
    biases = [f"encoder.layers.0.{name}" in tensors for name in ("self_attn.in_proj_bias", "linear1.bias")]
    if biases[0] != biases[1]:
        options.refuse("biases in attention or feed-forward only (supported: bias=True, bias=False)")
    return options.config(
        **FIELDS.read(options),
        **bare_state_dict.IDS.read(options),
        **read_positions(options, tensors, source.shape[1]),
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        d_model=source.shape[1],
        d_ff=len(inner[0]),
        decoder_d_ff=len(inner[1]),
        encoder_layers=bare_state_dict.count_layers(tensors, "encoder.layers."),
        decoder_layers=bare_state_dict.count_layers(tensors, "decoder.layers."),
        final_norm=final_norms[0],
        attention_bias=biases[0],
        feed_forward_bias=biases[1],
        softmax_bias="generator.bias" in tensors,
        share_embeddings=bare_state_dict.shared(source, target, softmax),
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
        options.refuse(f"positions={shown(kind)} beside a table of others (supported: those of the table)")
    return positions


def readable(tensors: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
    """Tensors as the table names them.

    With `bias=False` the norms have no biases either, which equals biases of zero. Sinusoids are computed, not read.
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


ACTIVATION_FUNCTIONS = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "gelu_tanh": lambda x: nn.functional.gelu(x, approximate="tanh"),
    "silu": nn.functional.silu,
}


def original(description: Mapping, tensors: Mapping[str, torch.Tensor]) -> nn.Transformer:
    """torch.nn.Transformer itself, with the tensors as `canonical` names them."""
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
        count = bare_state_dict.count_layers(tensors, f"{name}.layers.")
        stacks[f"custom_{name}"] = stack(layer(d_model, heads, **settings), count, norm)
    transformer = nn.Transformer(d_model, encoder_heads, batch_first=True, **stacks)
    transformer.load_state_dict({n: t for n, t in tensors.items() if n.startswith(("encoder.", "decoder."))})
    return transformer.float().eval()


@torch.no_grad()
def compare_live(source: Path, converted: Converted, model: VaswaniForConditionalGeneration) -> Parity | None:
    """Against torch.nn.Transformer itself, with the tensors of the file, on random tokens of different lengths.

    None if the file can only be read by running code from it.
    """
    description = converted.facts["description"]
    try:
        state = bare_state_dict.load_state_dict(bare_state_dict.find(source))
    except ConversionError:
        return None
    tensors = canonical(state, names(Options(description, converted.toolkit)))
    transformer = original(description, tensors)

    def embed(side: str, ids: torch.Tensor) -> torch.Tensor:
        table = tensors[f"{side}_embedding.weight"].float()
        embedded = table[ids] * (table.shape[1] ** 0.5 if description["scale_embedding"] else 1)
        positions = tensors.get(f"{side}_positions.weight")
        if positions is None:
            positions = computed_positions(description["positions"], ids.shape[1], table.shape[1])
        return embedded + rows(positions, table.shape[1])[: ids.shape[1]]

    inputs = random_inputs(converted.config)
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
    return compare(model, inputs, logits, f"torch.nn.Transformer {torch.__version__} as described, run here")


def computed_positions(kind: str, length: int, width: int) -> torch.Tensor:
    """[length, width], as the tutorial computes them."""
    angles = torch.arange(length)[:, None] * torch.exp(
        -torch.arange(0, width, 2) * torch.log(torch.tensor(1e4)) / width
    )
    if kind == "none":
        return torch.zeros(length, width)
    both = (angles.sin(), angles.cos())
    return torch.stack(both, dim=-1).flatten(-2) if kind == "interleaved" else torch.cat(both, dim=-1)
