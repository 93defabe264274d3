"""CTranslate2's Transformer: a folder with `model.bin`, `config.json` and vocabularies; or an Argos package.

An Argos package is an `.argosmodel` archive or its folder, with `metadata.json`, a folder `model`, and
`sentencepiece.model` or `bpe.model`. For other models, the segmentation is a file beside the model (`source.spm` and
`target.spm`, `.model`, `.bpe`, or the tokenizer that our exporter saves).

Quantised weights are converted to float32, to the values that CTranslate2 computes with `compute_type="float32"`.

CTranslate2 has no padding token. If the vocabulary has none, one is added after the last token: its embedding is zero,
and its softmax bias is so low that its probability is 0. It also serves as the zero start vector of models from Marian.

The files do not say whether a source ends in `</s>` if the caller adds it. Models that start from a zero vector (those
of Marian and of our exporter) have it; for others, pass `--source-eos`.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from transformers import GenerationConfig

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from ..converted import Converted, generation_config, language_facts
from ..files.argos import ArgosPackage
from ..files.ctranslate2 import VOCABULARY_MAP, CTranslate2Files
from ..mapping import Table, matrices, shared, with_unused_rows
from ..options import NORM_FIRST, Fields, Options, shown
from ..parity import ctranslate2 as parity
from ..parity.scores import Parity
from ..positions import stored
from ..segmentation import CodesOfSides, SentencePieceModels
from ..segmentation.ctranslate2 import tokenizer


WEIGHTS = Table(
    """
    model.encoder.embed_tokens.weight                encoder/embeddings_0/weight
    model.decoder.embed_tokens.weight                decoder/embeddings/weight
    lm_head                                          decoder/projection/[weight|bias]
    model.encoder.embedding.positions.weight         encoder/position_encodings/encodings
    model.decoder.embedding.positions.weight         decoder/position_encodings/encodings

    model.encoder.layers.{e}.self_attn.qkv_proj      encoder/layer_{e}/self_attention/linear_0/[weight|bias]
    model.encoder.layers.{e}.self_attn.out_proj      encoder/layer_{e}/self_attention/linear_1/[weight|bias]
    model.encoder.layers.{e}.self_attn_norm          encoder/layer_{e}/self_attention/layer_norm/[gamma|beta]
    model.encoder.layers.{e}.feed_forward.fc1        encoder/layer_{e}/ffn/linear_0/[weight|bias]
    model.encoder.layers.{e}.feed_forward.fc2        encoder/layer_{e}/ffn/linear_1/[weight|bias]
    model.encoder.layers.{e}.feed_forward_norm       encoder/layer_{e}/ffn/layer_norm/[gamma|beta]
    model.encoder.norm                               encoder/layer_norm/[gamma|beta]

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder/layer_{d}/self_attention/linear_0/[weight|bias]
    model.decoder.layers.{d}.self_attn.out_proj      decoder/layer_{d}/self_attention/linear_1/[weight|bias]
    model.decoder.layers.{d}.self_attn_norm          decoder/layer_{d}/self_attention/layer_norm/[gamma|beta]
    model.decoder.layers.{d}.cross_attn.q_proj       decoder/layer_{d}/attention/linear_0/[weight|bias]
    model.decoder.layers.{d}.cross_attn.kv_proj      decoder/layer_{d}/attention/linear_1/[weight|bias]
    model.decoder.layers.{d}.cross_attn.out_proj     decoder/layer_{d}/attention/linear_2/[weight|bias]
    model.decoder.layers.{d}.cross_attn_norm         decoder/layer_{d}/attention/layer_norm/[gamma|beta]
    model.decoder.layers.{d}.feed_forward.fc1        decoder/layer_{d}/ffn/linear_0/[weight|bias]
    model.decoder.layers.{d}.feed_forward.fc2        decoder/layer_{d}/ffn/linear_1/[weight|bias]
    model.decoder.layers.{d}.feed_forward_norm       decoder/layer_{d}/ffn/layer_norm/[gamma|beta]
    model.decoder.norm                               decoder/layer_norm/[gamma|beta]
    """,
    ignored=(r"(en|de)coder/position_encodings/encodings",),
)
# Positions, sharing, sizes and scales depend on tensors: see `read_config`.
OPTIONS = Fields(
    """
    encoder_attention_heads    encoder/num_heads             8
    decoder_attention_heads    decoder/num_heads             8
    norm_position              encoder/pre_norm              True
    decoder_norm_position      decoder/pre_norm              True
    activation_function        encoder/activation = decoder/activation    0
    layer_norm_eps             layer_norm_epsilon            1e-5
    dropout                    = 0.0
    label_smoothing            = 0.0
    label_smoothing_type       = uniform
    """,
    choices={
        "norm_position": NORM_FIRST,
        "decoder_norm_position": NORM_FIRST,
        "activation_function": dict(enumerate(["relu", "gelu_new", "silu", "gelu", "quick_gelu", "tanh", "sigmoid"])),
    },
)
# Attributes of a stack, a layer or an attention, with the value that leaves the paper's model unchanged.
MUST_BE = {
    "alibi": 0,
    "final_logit_softcapping": 0,
    "layer_norm_use_residual": 0,
    "layer_scalar": 1,
    "multi_query": 0,
    "multi_query_attention": 0,
    "scale_outputs": 1,
    "sliding_window": 0,
}
# Attributes that `read_config` reads, and those without effect on this model.
READ = {
    "num_heads", "pre_norm", "activation", "scale_embeddings", "multiply_by_sqrt_depth", "start_from_zero_embedding",
    "head_dim", "queries_scale", "num_heads_kv", "alignment_layer", "alignment_heads",
    "embeddings_merge", "alibi_use_positive_positions", "scale_alibi",
}  # fmt: skip
# Parts of other architectures, by their names in the file.
OTHER_PARTS = {
    "relative positions": "/relative_",
    "rotary positions": "/rotary_|max_position_embeddings",
    "a gated feed-forward network": "/linear_0_noact/",
    "norms of queries, keys or values": "/[qkv]_norm/",
    "a LayerNorm after the embeddings": "/layernorm_embedding/",
    "projections around the decoder": "/project_(in|out)/",
    "more LayerNorms than two or three in a layer": "/(input|shared|post_attention|(pre|post)_feedforward)_layer_norm/",
    "LayerNorms outside attention": "/external_",
    "merged attention": "/memory_kv/|/merged_encoder_attention",
    "features of source words": "^encoder/embeddings_[1-9]",
    "AWQ's weights": "/weight_zero$",
}
EMBEDDINGS = ["encoder/embeddings_0/weight", "decoder/embeddings/weight", "decoder/projection/weight"]
BIAS = "decoder/projection/bias"
INNER = [f"{stack}/layer_0/ffn/linear_0/weight" for stack in ("encoder", "decoder")]
ATTENTION, FEED_FORWARD = r"attention/linear_\d", r"/ffn/linear_\d"
POSITIONS = [f"{stack}/position_encodings/encodings" for stack in ("encoder", "decoder")]
# Of a model that computes its positions.
COMPUTED = {"position_layout": "concatenated", "position_divisor": "half_minus_one", "position_offset": 1}
LEFT_OUT = "vmap.txt, the vocabulary map: all tokens are candidates"
PADS = ("<pad>", "<blank>")
# Search settings of Argos Translate, and CTranslate2's defaults.
ARGOS = {"num_beams": 4, "length_penalty": 0.2}
DEFAULTS = {"num_beams": 2, "length_penalty": 1.0}


@dataclass
class ConvertedCTranslate2(Converted):
    """A converted model with the files that CTranslate2 needs to run it."""

    original: CTranslate2Files | None = None
    package: ArgosPackage | None = None


def convert(
    source: Path,
    unsafe: bool = False,
    spm: SentencePieceModels = None,
    codes: CodesOfSides = None,
    source_eos: Annotated[
        bool | None,
        typer.Option(
            "--source-eos/--no-source-eos",
            help="Whether sources end with the end token, if the files do not record it.",
        ),
    ] = None,
) -> ConvertedCTranslate2:
    """Converts a model's folder or an Argos package. `unsafe` has no effect: these files contain no code."""
    package = None if source.name == "model.bin" else ArgosPackage.read(source)
    files = CTranslate2Files.read(package.model if package else source.parent if source.is_file() else source)
    refuse_other_models(files)
    tensors = files.model.weights()
    config = read_config(files, tensors)
    if config.decoder_vocab_size > len(tensors[EMBEDDINGS[1]]):  # padding was added
        tensors = with_padding(tensors, config.decoder_vocab_size)
    return ConvertedCTranslate2.from_checkpoint(
        "CTranslate2",
        config,
        WEIGHTS.read(with_all_biases(tensors), config),
        search(config, package),
        tokenizer(files, package, config, spm, codes, source_eos),
        files=[*files.paths, *([source] if source.suffix == ".argosmodel" else [])],
        facts=facts(files, package),
        target_tokens=files.target,
        original=files,
        package=package,
    )


def refuse_other_models(files: CTranslate2Files):
    options, variables = files.options, files.model.variables
    for what, pattern in OTHER_PARTS.items():
        if any(re.search(pattern, name) for name in variables):
            options.refuse(what)
    if any(name.endswith("/gamma") and f"{name[:-5]}beta" not in variables for name in variables):
        options.refuse("RMSNorm, a norm without beta")
    for name, values in attributes(files).items():
        kind = name.rpartition("/")[2]
        if kind in MUST_BE:
            values = [value for value in values if value != MUST_BE[kind]]
        if values and kind not in READ and not any(re.search(pattern, name) for pattern in OTHER_PARTS.values()):
            options.refuse(f"{name}={shown(values[0])} (supported: {MUST_BE.get(kind, 'unset')})")
    options.off("quantization_type")
    options.finish()


def attributes(files: CTranslate2Files) -> dict[str, list[int | float]]:
    """The values of each attribute in all layers; the layer's number is left out of the name."""
    values: dict[str, list[int | float]] = {}
    for name, value in files.model.attributes.items():
        if "/" in name:
            values.setdefault(re.sub(r"/layer_\d+/", "/layer/", name), []).append(value)
    return values


def read_config(files: CTranslate2Files, tensors: Mapping[str, torch.Tensor]) -> VaswaniConfig:
    options, settings = files.options, OPTIONS.read(files.options)
    source, target, softmax, inner, decoder_inner = matrices(tensors, [*EMBEDDINGS, *INNER], options)
    d_model, names = source.shape[1], tensors.keys()
    layers = {stack: layer_count(names, stack) for stack in ("encoder", "decoder")}
    ids, added = token_ids(files, len(source), len(target))
    refuse_alignment(options, layers["decoder"])
    return options.config(
        **settings,
        **ids,
        **read_positions(options, tensors, d_model),
        **read_attention(files, d_model, layers),
        d_model=d_model,
        d_ff=len(inner),
        decoder_d_ff=len(decoder_inner),
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        final_norm=final_norm(options, names),
        attention_bias=has_bias(names, ATTENTION),
        feed_forward_bias=has_bias(names, FEED_FORWARD),
        softmax_bias=BIAS in names or bool(added),
        scale_embedding=read_scale(options, d_model),
        share_embeddings=shared(source, target, softmax, same=torch.equal),
        vocab_size=len(source) if not added else added,
        decoder_vocab_size=len(target) if not added else added,
    )


def refuse_alignment(options: Options, layers: int):
    """Refuses an alignment layer or heads that the decoder does not have: CTranslate2 reads them without a check."""
    layer, heads = options.take("decoder/alignment_layer", -1), options.take("decoder/alignment_heads", 1)
    if not -layers <= layer < layers:
        options.refuse(f"decoder/alignment_layer={layer} (supported: a layer of the decoder)")
    if not 0 <= heads <= options.number("decoder/num_heads", 8):
        options.refuse(f"decoder/alignment_heads={heads} (supported: up to the number of heads)")


def token_ids(files: CTranslate2Files, source_rows: int, target_rows: int) -> tuple[dict[str, Any], int | None]:
    """The special tokens' ids, and the size of both vocabularies if padding is added to them."""
    options = files.options
    sides = [{token: i for i, token in enumerate(tokens)} for tokens in (files.source, files.target)]
    for side, tokens, rows in (("encoder", files.source, source_rows), ("decoder", files.target, target_rows)):
        if len(tokens) > rows:
            options.refuse(f"a vocabulary of {len(tokens)} tokens with {rows} embeddings in the {side}")
    tokens = {name: options.take(f"{name}_token") for name in ("bos", "eos", "decoder_start")}
    ids = {name: sides[1].get(token) if isinstance(token, str) else None for name, token in tokens.items()}
    starts_from_zero = bool(options.take("decoder/start_from_zero_embedding"))
    required = ("eos",) if starts_from_zero else ("eos", "decoder_start")
    for name in required:
        if ids[name] is None:
            options.refuse(f"{name}_token={shown(tokens[name])} (supported: a token of the target vocabulary)")
    pads = [sides[1][token] for token in PADS if token in sides[1] and sides[0].get(token) == sides[1][token]]
    if starts_from_zero:  # the row of padding is not zero in the file
        pads = [i for i in pads if i == ids["decoder_start"]]
    added = None if pads else max(source_rows, target_rows) + 1
    pad = pads[0] if pads else added - 1
    return {
        "pad_token_id": pad,
        "eos_token_id": ids["eos"],
        "bos_token_id": ids["bos"],
        "decoder_start_token_id": pad if starts_from_zero else ids["decoder_start"],
        "zero_pad_embedding": starts_from_zero,
    }, added


def read_positions(options: Options, tensors: Mapping[str, torch.Tensor], d_model: int) -> dict[str, Any]:
    """Recognises stored positions; without any, CTranslate2 computes OpenNMT-tf's."""
    fields = stored(tensors, POSITIONS, options, d_model, ("concatenated", "half_minus_one"))
    names = [name for name in POSITIONS if name in tensors]
    if len(names) == 1 and fields | COMPUTED != fields:
        options.refuse(f"positions of one stack only, {names[0]} (supported: of both, or of neither)")
    return fields or COMPUTED


def attention_scopes(layers: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """The stack and the name of each attention."""
    for stack, kinds in (("encoder", ["self_attention"]), ("decoder", ["self_attention", "attention"])):
        for layer in range(layers[stack]):
            yield from ((stack, f"{stack}/layer_{layer}/{kind}") for kind in kinds)


def read_attention(files: CTranslate2Files, d_model: int, layers: Mapping[str, int]) -> dict[str, Any]:
    """Reads the width of heads and the scale of queries, which are recorded for each attention."""
    options, recorded = files.options, files.model.attributes
    heads = {stack: options.number(f"{stack}/num_heads", 8) or 1 for stack in layers}
    widths, scales, kv_heads = set(), set(), set()
    for stack, scope in attention_scopes(layers):
        even = d_model // heads[stack]
        width = recorded.get(f"{scope}/head_dim", even)
        scale = recorded.get(f"{scope}/queries_scale", 1 / math.sqrt(max(width, 1)))
        widths.add(None if width == even else width)
        scales.add(math.isclose(scale * math.sqrt(max(width, 1)), 1, rel_tol=1e-5) or (scale if scale != 1 else False))
        kv_heads.add(recorded.get(f"{scope}/num_heads_kv", heads[stack]) == heads[stack])
    if len(widths) > 1:
        options.refuse("heads of different widths")
    if not scales <= {True} and scales != {False}:
        options.refuse("queries_scale with different values, or values other than 1 and 1 / sqrt(head_dim)")
    if False in kv_heads:
        options.refuse("num_heads_kv, fewer heads of keys and values than of queries")
    width = next(iter(widths), None)
    return {"d_k": width, "d_v": width, "scale_attention": scales != {False}}


def read_scale(options: Options, d_model: int) -> bool:
    """Whether embeddings are multiplied by sqrt(d_model): a flag, or the factor itself."""
    scaled = []
    for stack, table in (("encoder", "embeddings_0"), ("decoder", "embeddings")):
        value = options.take(f"{stack}/scale_embeddings", options.take(f"{stack}/{table}/multiply_by_sqrt_depth", 1))
        if isinstance(value, float) and value != 1 and not math.isclose(value, math.sqrt(d_model), rel_tol=1e-6):
            options.refuse(f"{stack}/scale_embeddings={value} (supported: 1, or the root of the width)")
        scaled.append(value != 1 if isinstance(value, float) else bool(value))
    if scaled[0] != scaled[1]:
        options.refuse("scale_embeddings in one stack only (supported: both, or neither)")
    return scaled[0]


def final_norm(options: Options, names: Collection[str]) -> bool | None:
    """Whether a LayerNorm follows each stack; None if exactly the pre-norm stacks have one."""
    stacks = ("encoder", "decoder")
    norms = [f"{stack}/layer_norm/gamma" in names for stack in stacks]
    if norms == [bool(options.take(f"{stack}/pre_norm", True)) for stack in stacks]:
        return None
    if norms[0] != norms[1]:
        options.refuse("a LayerNorm after one stack only (supported: after both, or after neither)")
    return norms[0]


def layer_count(names: Iterable[str], stack: str) -> int:
    return len({match[1] for name in names if (match := re.match(rf"{stack}/layer_(\d+)/", name))})


def has_bias(names: Iterable[str], modules: str) -> bool:
    return any(re.search(rf"{modules}/bias$", name) for name in names)


def with_all_biases(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Adds zeros for missing biases of attention and of feed-forward networks, if others of their kind have biases."""
    tensors = dict(tensors)
    for modules in (ATTENTION, FEED_FORWARD):
        if has_bias(tensors, modules):
            for name in [name for name in tensors if re.search(rf"{modules}/weight$", name)]:
                tensors.setdefault(name.replace("/weight", "/bias"), torch.zeros(len(tensors[name])))
    return tensors


def with_padding(tensors: Mapping[str, torch.Tensor], size: int) -> dict[str, torch.Tensor]:
    no_bias = torch.zeros(len(tensors[EMBEDDINGS[-1]]))
    return with_unused_rows({BIAS: no_bias, **tensors}, EMBEDDINGS, BIAS, size)


def search(config: VaswaniConfig, package: ArgosPackage | None) -> GenerationConfig:
    """The default search of CTranslate2, or that of Argos Translate."""
    settings = DEFAULTS if package is None else ARGOS
    return generation_config(config, **settings, length_penalty_offset=0, early_stopping=True)


def facts(files: CTranslate2Files, package: ArgosPackage | None) -> dict[str, Any]:
    model, types = files.model, files.model.quantisation()
    recorded = {
        "format": f"binary version {model.version}, revision {model.revision}",
        "quantisation": types and f"{types}, converted to float32",
        "left out": LEFT_OUT if (files.folder / VOCABULARY_MAP).is_file() else None,
    }
    if package is None:
        return recorded
    return {
        **recorded,
        "package": "Argos Translate",
        **{name: package.text(name) for name in ("package_version", "argos_version")},
        **language_facts(package.text("from_code"), package.text("to_code")),
    }


def compare_live(
    source: Path, converted: ConvertedCTranslate2, model: VaswaniForConditionalGeneration
) -> Parity | None:
    """Compares with CTranslate2 itself, if it is installed; see `parity.ctranslate2`."""
    variables = converted.original.model.variables
    positions = min((variables[name].shape[0] for name in POSITIONS if name in variables), default=None)
    return parity.compare(converted.original, model, positions)
