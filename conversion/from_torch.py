"""State dicts of models around `torch.nn.Transformer`, as PyTorch's tutorial "Language Translation with nn.Transformer
and torchtext" lays them out.

`description.json` beside the state dict says what it does not record. Only "heads" has no default:

| field           | default    | what it is                                                                            |
|-----------------|------------|---------------------------------------------------------------------------------------|
| heads           |            | `nhead`                                                                               |
| decoder_heads   | heads      | the decoder's, where it was made as a `custom_decoder` with others                    |
| norm_first      | false      | `norm_first`                                                                          |
| activation      | "relu"     | `activation`: relu, gelu, gelu_tanh, silu                                             |
| layer_norm_eps  | 1e-5       | `layer_norm_eps`                                                                      |
| dropout         | 0.1        | `dropout`, for training on                                                            |
| scale_embedding | true       | embeddings are multiplied by sqrt(d_model)                                            |
| positions       | the table  | without a table in the file: "interleaved" as in the tutorial, "concatenated", "none" |
| ids             | tutorial's | {"unk": 0, "pad": 1, "bos": 2, "eos": 3, "decoder_start": 2}                          |
| names           | tutorial's | parts whose names are others: transformer, source_embedding, target_embedding,        |
|                 |            | generator (null where the target embedding serves), source_positions, target_positions|

Three more name files: "source_vocabulary" (vocab.src.txt) and "target_vocabulary" (vocab.trg.txt) with one token a
line, in the order of ids, and "codes" (bpe.codes), subword-nmt's; without them texts are split at spaces.

The state dict may be saved under "model", "state_dict" or "model_state_dict", and all its names may begin with module.,
_orig_mod. or model., which is left out.

Sizes, biases and final norms are read off the tensors; so are positions, where their table is among them.
"""

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
from torch import nn

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from . import described
from .core import ConversionError, Converted, Options, generation_config
from .mapping import Table
from .verify import Parity, compare


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
    **described.TEXT_FILES,
    "scale_embedding": True,
    "positions": None,
    "ids": {"unk": 0, "pad": 1, "bos": 2, "eos": 3},
    "names": {},
}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "silu": "silu"}
POSITIONS = {
    "interleaved": {"position_layout": "interleaved"},
    "concatenated": {"position_layout": "concatenated"},
    "none": {"position_encoding": "none"},
}


def add_arguments(parser: argparse.ArgumentParser):
    described.add_arguments(parser)
    parser.add_argument("--norm-first", action="store_true", default=None, help="it was made with norm_first=True")
    parser.add_argument("--activation", choices=ACTIVATIONS, help="it was made with (default: relu)")
    parser.add_argument("--layer-norm-eps", type=float, metavar="EPS", help="it was made with (default: 1e-5)")
    parser.add_argument("--positions", choices=POSITIONS, help="where their table is not in the file")


def convert(source: Path, unsafe: bool = False, **given) -> Converted:
    """A state dict, or the folder that holds one; `given` is what `add_arguments` adds.

    Raises:
        ConversionError: it is no such state dict, is damaged, is described wrongly or uses what is not supported.
    """
    path = described.find(source)
    options = described.describe(path.parent, "torch.nn.Transformer", DEFAULTS, **given)
    tensors = canonical(described.load_state_dict(path, unsafe), names(options))
    config = read_config(options, tensors)
    return Converted(
        toolkit="torch.nn.Transformer",
        config=config,
        weights=TABLE.read(readable(tensors, config), config),
        generation=generation_config(config, length_penalty=1.0, length_penalty_offset=0, early_stopping=True),
        **described.with_tokenizer(path, options, config),
    )


def names(options: Options) -> dict[str, str | None]:
    said = options.values["names"]
    if not isinstance(said, dict) or said.keys() - NAMES.keys():
        raise ConversionError(f"description.json: 'names' may say {', '.join(NAMES)}.")
    return {**NAMES, **said}


def canonical(tensors: Mapping[str, torch.Tensor], called: Mapping[str, str | None]) -> dict[str, torch.Tensor]:
    """Tensors as `source_embedding.weight`, `encoder.layers.0.norm1.weight`, ...; others keep their names.

    Raises:
        ConversionError: an embedding is missing.
    """
    found, used = {}, set()
    for role, name in called.items():
        for theirs, tensor in tensors.items():
            if name is not None and (rest := below(name, theirs)) is not None:
                used.add(theirs)
                found[rest if role == "transformer" else f"{role}.{rest}"] = tensor
    if called["generator"] is None and "target_embedding.weight" in found:
        found["generator.weight"] = found["target_embedding.weight"]
    wanted = ("source_embedding.weight", "target_embedding.weight", "generator.weight", "encoder.layers.0.norm1.weight")
    if missing := [name for name in wanted if name not in found]:
        raise ConversionError.of(
            "This is no model around torch.nn.Transformer, or description.json has to say the 'names' of its parts; "
            f"missing are {', '.join(missing)}; left over are",
            [name for name in tensors if name not in used] or ["none"],
        )
    return {**found, **{name: tensor for name, tensor in tensors.items() if name not in used}}


def below(name: str, theirs: str) -> str | None:
    """What `theirs` is called inside the part `name`; a tensor that is the part itself is its weight."""
    if not name:  # the transformer's own state dict
        return theirs if theirs.startswith(("encoder.", "decoder.")) else None
    if theirs == name:
        return "weight"
    return theirs.removeprefix(f"{name}.") if theirs.startswith(f"{name}.") else None


def read_config(options: Options, tensors: Mapping[str, torch.Tensor]) -> VaswaniConfig:
    source, target, softmax = (tensors[f"{x}.weight"] for x in ("source_embedding", "target_embedding", "generator"))
    if any(table.dim() != 2 for table in (source, target, softmax)):
        raise ConversionError("Embeddings and generator should be matrices.")
    for name in ("norm_first", "scale_embedding"):
        options.only(name, True, False)
    final_norms = [f"{stack}.norm.weight" in tensors for stack in ("encoder", "decoder")]
    if final_norms[0] != final_norms[1]:
        options.refuse("a final norm after one stack only (supported: after both or neither)")
    widths = [tensors.get(f"{stack}.layers.0.linear1.weight") for stack in ("encoder", "decoder")]
    if any(width is None or width.dim() != 2 for width in widths):
        raise ConversionError("The first layer of each stack should have a linear1.weight.")
    biases = [f"encoder.layers.0.{name}" in tensors for name in ("self_attn.in_proj_bias", "linear1.bias")]
    if biases[0] != biases[1]:
        options.refuse("biases in attention or feed-forward only (supported: bias=True, bias=False)")
    return options.config(
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        d_model=source.shape[1],
        d_ff=len(widths[0]),
        decoder_d_ff=len(widths[1]),
        encoder_layers=described.count_layers(tensors, "encoder.layers."),
        decoder_layers=described.count_layers(tensors, "decoder.layers."),
        encoder_attention_heads=options.take("heads"),
        decoder_attention_heads=options.take("decoder_heads", options.take("heads")),
        dropout=options.take("dropout"),
        attention_dropout=options.take("dropout"),
        activation_dropout=options.take("dropout"),
        activation_function=options.choice("activation", ACTIVATIONS),
        norm_position="pre" if options.take("norm_first") else "post",
        final_norm=final_norms[0],
        layer_norm_eps=options.take("layer_norm_eps"),
        **read_positions(options, tensors, source.shape[1]),
        attention_bias=biases[0],
        feed_forward_bias=biases[1],
        softmax_bias="generator.bias" in tensors,
        scale_embedding=bool(options.take("scale_embedding")),
        share_embeddings=described.shared(source, target, softmax),
        zero_pad_embedding=False,
        label_smoothing=0.0,
        label_smoothing_type="uniform",
        **described.ids(options),
    )


def read_positions(options: Options, tensors: Mapping[str, torch.Tensor], d_model: int) -> dict:
    tables = [tensors.get(f"{side}_positions.weight") for side in ("source", "target")]
    found = [described.position_settings(table, d_model) for table in tables if table is not None]
    if not found:
        return options.choice("positions", POSITIONS)
    if len(found) == 1 or found[0] != found[1]:
        options.refuse("source and target positions of different kinds (supported: the same)")
    kind = options.take("positions")
    if kind is not None and (kind == "none" or found[0].get("position_layout", kind) != kind):
        options.refuse(f"positions={kind!r} beside a table of others (supported: what the table holds)")
    return found[0]


def readable(tensors: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
    """Tensors as the table names them.

    With `bias=False` the norms have no biases either, which is to have zeros. Sinusoids are computed, not read.
    """
    learned = config.position_encoding == "learned"
    readable = {}
    for name, tensor in tensors.items():
        part, _, norm = name.removesuffix(".weight").rpartition(".")
        if norm.startswith("norm") and part:
            readable.setdefault(f"{part}.{norm}.bias", torch.zeros(config.d_model))
        if name.endswith("_positions.weight"):
            if learned:
                readable[name] = described.rows(tensor)
        else:
            readable[name.replace(".in_proj_", ".in_proj.")] = tensor
    return readable


ACTIVATION_FUNCTIONS = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "gelu_tanh": lambda x: nn.functional.gelu(x, approximate="tanh"),
    "silu": nn.functional.silu,
}


def original(description: Mapping, tensors: Mapping[str, torch.Tensor]) -> nn.Transformer:
    """torch.nn.Transformer itself, with the tensors of the file (as `canonical` names them)."""
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
        count = described.count_layers(tensors, f"{name}.layers.")
        stacks[f"custom_{name}"] = stack(layer(d_model, heads, **settings), count, norm)
    transformer = nn.Transformer(d_model, encoder_heads, batch_first=True, **stacks)
    transformer.load_state_dict({n: t for n, t in tensors.items() if n.startswith(("encoder.", "decoder."))})
    return transformer.float().eval()


@torch.no_grad()
def compare_live(source: Path, converted: Converted, model: VaswaniForConditionalGeneration) -> Parity | None:
    """Against torch.nn.Transformer itself, with the tensors of the file, on random tokens of different lengths.

    None where the file cannot be read again without running it.
    """
    description = converted.facts["description"]
    try:
        state = described.load_state_dict(described.find(source))
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
        return embedded + described.rows(positions)[: ids.shape[1]]

    inputs = described.random_inputs(converted.config)
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
    """As the tutorial computes them: [length, width]."""
    angles = torch.arange(length)[:, None] * torch.exp(
        -torch.arange(0, width, 2) * torch.log(torch.tensor(1e4)) / width
    )
    if kind == "none":
        return torch.zeros(length, width)
    both = (angles.sin(), angles.cos())
    return torch.stack(both, dim=-1).flatten(-2) if kind == "interleaved" else torch.cat(both, dim=-1)
