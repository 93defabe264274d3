"""Marian's own Transformer: `model.npz` with its vocabularies (and `decoder.yml`) beside it.

The model stays Marian's, number for number, which transformers' MarianMTModel does not: position frequencies are
10000^(-i / (d/2 - 1)), LayerNorm's eps is 1e-6, and the decoder's first input is a zero vector.

Marian has no padding. Here a token for it is added after the last: its embedding is zero, so that it is the zero start
vector, too, and its bias in the softmax is so low that its probability is 0.

If the vocabularies are SentencePiece models, Marian segments texts itself. If they are lists of pieces, the file that
segments texts (`source.spm` and `target.spm`, or `.bpe`, as OPUS-MT calls them) is looked for beside the model.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import GenerationConfig

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from ..converted import Converted, generation_config
from ..files.folders import pair, regular
from ..files.marian import (
    SENTENCEPIECE,
    MarianVocabulary,
    decoder_settings,
    find,
    list_of,
    number,
    read_model,
    read_training,
    read_vocabularies,
)
from ..mapping import Table
from ..options import ConversionError, Fields, Options, sharing, shown
from ..parity import marian as parity
from ..parity.scores import Parity
from ..segmentation import ConvertedTokenizer, Vocabulary, choose, sentencepiece


TABLE = Table(
    """
    model.encoder.embed_tokens.weight                       encoder_Wemb
    model.decoder.embed_tokens.weight                       decoder_Wemb
    lm_head.weight                                          decoder_ff_logit_out_Wt
    lm_head.bias                                            decoder_ff_logit_out_b

    model.encoder.layers.{e}.self_attn.qkv_proj.weight      encoder_l{e+1}_self_W{q,k,v}.T
    model.encoder.layers.{e}.self_attn.qkv_proj.bias        encoder_l{e+1}_self_b{q,k,v}
    model.encoder.layers.{e}.self_attn.out_proj.weight      encoder_l{e+1}_self_Wo.T
    model.encoder.layers.{e}.self_attn.out_proj.bias        encoder_l{e+1}_self_bo
    model.encoder.layers.{e}.self_attn_norm.weight          encoder_l{e+1}_self_Wo_ln_scale
    model.encoder.layers.{e}.self_attn_norm.bias            encoder_l{e+1}_self_Wo_ln_bias
    model.encoder.layers.{e}.feed_forward.fc1.weight        encoder_l{e+1}_ffn_W1.T
    model.encoder.layers.{e}.feed_forward.fc1.bias          encoder_l{e+1}_ffn_b1
    model.encoder.layers.{e}.feed_forward.fc2.weight        encoder_l{e+1}_ffn_W2.T
    model.encoder.layers.{e}.feed_forward.fc2.bias          encoder_l{e+1}_ffn_b2
    model.encoder.layers.{e}.feed_forward_norm.weight       encoder_l{e+1}_ffn_ffn_ln_scale
    model.encoder.layers.{e}.feed_forward_norm.bias         encoder_l{e+1}_ffn_ffn_ln_bias
    model.encoder.norm.weight                               encoder_top_ln_scale
    model.encoder.norm.bias                                 encoder_top_ln_bias

    model.decoder.layers.{d}.self_attn.qkv_proj.weight      decoder_l{d+1}_self_W{q,k,v}.T
    model.decoder.layers.{d}.self_attn.qkv_proj.bias        decoder_l{d+1}_self_b{q,k,v}
    model.decoder.layers.{d}.self_attn.out_proj.weight      decoder_l{d+1}_self_Wo.T
    model.decoder.layers.{d}.self_attn.out_proj.bias        decoder_l{d+1}_self_bo
    model.decoder.layers.{d}.self_attn_norm.weight          decoder_l{d+1}_self_Wo_ln_scale
    model.decoder.layers.{d}.self_attn_norm.bias            decoder_l{d+1}_self_Wo_ln_bias
    model.decoder.layers.{d}.cross_attn.q_proj.weight       decoder_l{d+1}_context_Wq.T
    model.decoder.layers.{d}.cross_attn.q_proj.bias         decoder_l{d+1}_context_bq
    model.decoder.layers.{d}.cross_attn.kv_proj.weight      decoder_l{d+1}_context_W{k,v}.T
    model.decoder.layers.{d}.cross_attn.kv_proj.bias        decoder_l{d+1}_context_b{k,v}
    model.decoder.layers.{d}.cross_attn.out_proj.weight     decoder_l{d+1}_context_Wo.T
    model.decoder.layers.{d}.cross_attn.out_proj.bias       decoder_l{d+1}_context_bo
    model.decoder.layers.{d}.cross_attn_norm.weight         decoder_l{d+1}_context_Wo_ln_scale
    model.decoder.layers.{d}.cross_attn_norm.bias           decoder_l{d+1}_context_Wo_ln_bias
    model.decoder.layers.{d}.feed_forward.fc1.weight        decoder_l{d+1}_ffn_W1.T
    model.decoder.layers.{d}.feed_forward.fc1.bias          decoder_l{d+1}_ffn_b1
    model.decoder.layers.{d}.feed_forward.fc2.weight        decoder_l{d+1}_ffn_W2.T
    model.decoder.layers.{d}.feed_forward.fc2.bias          decoder_l{d+1}_ffn_b2
    model.decoder.layers.{d}.feed_forward_norm.weight       decoder_l{d+1}_ffn_ffn_ln_scale
    model.decoder.layers.{d}.feed_forward_norm.bias         decoder_l{d+1}_ffn_ffn_ln_bias
    model.decoder.norm.weight                               decoder_top_ln_scale
    model.decoder.norm.bias                                 decoder_top_ln_bias
    """,
    ignored=(r"special:.*",),
)
FIELDS = Fields(
    """
    d_model                     dim-emb
    d_ff                        transformer-dim-ffn
    encoder_layers              enc-depth
    decoder_layers              dec-depth
    encoder_attention_heads, decoder_attention_heads    transformer-heads
    norm_position               = post
    layer_norm_eps              = 1e-6
    position_encoding           transformer-disable-position-embeddings     False
    scale_embedding             transformer-disable-position-embeddings     False
    position_layout             = concatenated
    position_divisor            = half_minus_one
    attention_bias              = True
    softmax_bias                = True
    label_smoothing_type        = uniform
    """,
    choices={
        "position_encoding": {False: "sinusoidal", True: "none"},
        "scale_embedding": {False: True, True: False},  # without positions, Marian does not scale either
    },
)
# Recorded in the settings of training, which may be missing; they matter for further training only.
TRAINING = {
    "dropout": "transformer-dropout",
    "attention_dropout": "transformer-dropout-attention",
    "activation_dropout": "transformer-dropout-ffn",
    "label_smoothing": "label-smoothing",
}
ACTIVATIONS = {"relu": "relu", "swish": "silu"}
GELU = {"exact": "gelu", "sigmoid": "quick_gelu"}  # x * Phi(x), x * sigmoid(1.702 x)
NEVER = -1e4  # a bias whose exp is 0, in half precision, too
# Options that change what is computed, with the values under which nothing changes. Some versions lack some of them.
ONLY = {
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-attention-mask": ("default",),
    "transformer-pool": (False,),
    "transformer-rnn-projection": (False,),
    "lemma-dim-emb": (0,),
    "factors-dim-emb": (0,),
    "lemma-dependency": ("",),
    "ulr": (False,),
    "right-left": (False,),
    "input-join-fields": (False,),
}


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument(
        "--vocabs", type=Path, nargs="+", metavar="FILE", help="source and target vocabulary, if decoder.yml names none"
    )
    for name, what in (("--spm", "SentencePiece models"), ("--codes", "byte-pair codes")):
        parser.add_argument(
            name, type=Path, nargs="+", metavar="FILE", help=f"{what} of source and target, or one for both"
        )
    parser.add_argument(
        "--gelu",
        choices=GELU,
        help="how gelu is computed, if the version does not tell: sigmoid until 1.11, exact now",
    )


@dataclass
class ConvertedMarian(Converted):
    """With what Marian needs to run the model."""

    path: Path | None = None
    vocabularies: tuple[MarianVocabulary, ...] = ()


def convert(
    source: Path, unsafe: bool = False, vocabs: Sequence[Path] | None = None, gelu: str | None = None,
    spm: Sequence[Path] | None = None, codes: Sequence[Path] | None = None,
) -> ConvertedMarian:  # fmt: skip
    """A model.npz, or the folder that contains it. `unsafe` changes nothing: nothing in these files is code.

    Raises:
        ConversionError: the model is damaged, or uses an unsupported option.
        FileNotFoundError: the model or a vocabulary is missing.
    """
    path = find(source)
    tensors, values = read_model(path)
    options, decoding = Options(values, "Marian"), decoder_settings(path)
    tensors = one_way(tensors, options)
    sides = read_vocabularies(path, decoding, vocabs)
    config = read_config(options, tensors, sides, decoding, gelu, read_training(path))
    rows = [len(tensors[name]) for name in ("encoder_Wemb", "decoder_Wemb")]
    return ConvertedMarian.of(
        "Marian",
        config,
        TABLE.read(with_padding(tensors, config), config),
        search(config, decoding, sides[1]),
        tokenizer(path, sides, rows, config.pad_token_id, spm, codes),
        files=[path, *(side.path for side in sides)],
        facts={
            "version": options.take("version"),
            "left out": "the shortlist of decoder.yml: all tokens are candidates"
            if decoding.get("shortlist")
            else None,
        },
        target_tokens=sides[1].tokens[: rows[1]],
        path=path,
        vocabularies=sides,
    )


def search(config: VaswaniConfig, decoding: Mapping, target: MarianVocabulary) -> GenerationConfig:
    """The settings of decoder.yml."""
    return generation_config(
        config,
        num_beams=int(number(decoding, "beam-size", 4)),
        length_penalty=number(decoding, "normalize", 0.0),
        length_penalty_offset=0,
        early_stopping=True,
        min_new_tokens=None,  # its translations may be empty
        # Marian never writes <unk>, and does not renormalise for that.
        suppress_tokens=None if decoding.get("allow-unk") else [target.unk],
    )


def one_way(tensors: dict[str, torch.Tensor], options: Options) -> dict[str, torch.Tensor]:
    """The tensors as if nothing was tied, every matrix was stored the same way round, and no projection was missing."""
    tensors = dict(tensors)
    output = "decoder_ff_logit_out_W"
    if "Wemb" in tensors:
        tensors["encoder_Wemb"] = tensors["decoder_Wemb"] = tensors.pop("Wemb")
    if output in tensors:  # the other way round, until 2018
        tensors[f"{output}t"] = tensors.pop(output).mT
    elif "decoder_Wemb" in tensors:
        tensors.setdefault(f"{output}t", tensors["decoder_Wemb"])
    stored = dict(tensors)  # layer 2 may share the tensors of 1, and layer 3 those stored as 2
    for layer, kept in enumerate(list_of(options.values, "transformer-tied-layers"), start=1):
        prefix = f"decoder_l{kept}_"
        same = {name: tensor for name, tensor in stored.items() if name.startswith(prefix)}
        tensors |= {f"decoder_l{layer}_{name.removeprefix(prefix)}": tensor for name, tensor in same.items()}
    if options.take("transformer-no-projection"):  # the identity is the same
        for query in [name for name in tensors if name.endswith("_Wq")]:
            tensors[f"{query[:-1]}o"] = torch.eye(len(tensors[query]))
            tensors[f"{query[:-2]}bo"] = torch.zeros(1, len(tensors[query]))
    return tensors


def read_config(
    options: Options, tensors: Mapping, sides: tuple[MarianVocabulary, MarianVocabulary], decoding: Mapping,
    gelu: str | None, training: Mapping,
) -> VaswaniConfig:  # fmt: skip
    refuse_other_models(options, tensors, sides, decoding)
    refuse_other_layers(options)
    activation = activation_function(options, gelu)
    options.finish()
    if missing := [name for name in ("encoder_Wemb", "decoder_Wemb") if name not in tensors]:
        raise ConversionError.of("This is not a translation model of Marian: it lacks tensors", missing)
    source, target = tensors["encoder_Wemb"], tensors["decoder_Wemb"]
    if any(table.dim() != 2 for table in (source, target)):
        raise ConversionError("The embeddings of this Marian model are not matrices.")
    tied = tensors["decoder_ff_logit_out_Wt"] is target
    padding = max(len(source), len(target))  # the id after the last
    return options.config(
        **FIELDS.read(options),
        **{field: number(training, name, 0.0) for field, name in TRAINING.items()},
        decoder_d_ff=options.take("transformer-decoder-dim-ffn") or None,
        activation_function=activation,
        final_norm=steps(options, "transformer-postprocess-top") == "n",
        vocab_size=padding + 1,
        decoder_vocab_size=padding + 1,
        share_embeddings=sharing(tied and source is target, tied),
        pad_token_id=padding,
        eos_token_id=sides[1].eos,
        decoder_start_token_id=padding,
    )


def refuse_other_models(
    options: Options, tensors: Mapping, sides: tuple[MarianVocabulary, MarianVocabulary], decoding: Mapping
):
    options.only("type", "transformer")
    for name, allowed in ONLY.items():
        options.only(name, *allowed, default=allowed[0])
    if kinds := [kind for kind in list_of(options.values, "input-types") if kind != "sequence"]:
        options.refuse(f"input-types with {shown(kinds)} (supported: 'sequence')")
    if len(sizes := list_of(options.values, "dim-vocabs")) not in (0, 2):
        options.refuse(f"{len(sizes)} vocabularies (supported: 2)")
    if "Wpos" in tensors:
        options.refuse("trained positions (supported: sinusoidal)")
    if decoding.get("word-penalty"):
        options.refuse(f"word-penalty={shown(decoding['word-penalty'])} (supported: 0)")
    if sides[0].eos != sides[1].eos:
        options.refuse(f"</s> with ids {sides[0].eos} and {sides[1].eos} (supported: the same in both vocabularies)")


def steps(options: Options, name: str, default: str = "") -> str:
    """The steps around a sub-layer: a adds its input, n normalises, h is a highway, r is RMSNorm; dropout aside."""
    return str(options.take(name, default)).replace("d", "")


def refuse_other_layers(options: Options):
    before, after = steps(options, "transformer-preprocess"), steps(options, "transformer-postprocess", "dan")
    if (before, after) != ("", "an"):
        options.refuse(
            f"transformer-preprocess={shown(before)} with transformer-postprocess={shown(after)}, dropout aside "
            "(supported: '' with 'an'; Marian's pre-norm is not the usual one)"
        )
    if (top := steps(options, "transformer-postprocess-top")) not in ("", "n"):
        options.refuse(f"transformer-postprocess-top={shown(top)} (supported: '' and 'n')")
    if embedding := steps(options, "transformer-postprocess-emb", "d"):
        options.refuse(f"transformer-postprocess-emb={shown(embedding)} (supported: '')")


def activation_function(options: Options, gelu: str | None) -> str | None:
    """Ours for Marian's. What it calls gelu is exact in 1.12.42, and an approximation until 1.11."""
    if options.take("transformer-ffn-activation") != "gelu":
        return options.choice("transformer-ffn-activation", ACTIVATIONS, default="swish")
    numbers = re.match(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})", str(options.take("version")))
    version = tuple(map(int, numbers.groups())) if numbers else None
    if gelu is None and version is not None:
        gelu = "sigmoid" if version < (1, 12, 0) else "exact" if version >= (1, 12, 42) else None
    if gelu is None:
        options.refuse("gelu, in a version that may compute it in either of two ways (choose with --gelu)")
    return GELU.get(gelu)


def with_padding(tensors: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
    """Both vocabularies with as many rows as `config` says: those added are zero, and never produced."""
    tensors = dict(tensors)
    bias = tensors.get("decoder_ff_logit_out_b", torch.zeros(1, len(tensors["decoder_Wemb"])))  # output-omit-bias
    tensors["decoder_ff_logit_out_b"] = bias
    if bias.dim() == 2 and bias.shape[1] < config.vocab_size:
        missing = torch.full((len(bias), config.vocab_size - bias.shape[1]), NEVER)
        tensors["decoder_ff_logit_out_b"] = torch.cat((bias, missing), dim=1)
    for name in ("encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt"):
        matrix = tensors[name]
        if matrix.dim() == 2 and len(matrix) < config.vocab_size:  # TABLE refuses other shapes
            tensors[name] = torch.cat((matrix, torch.zeros(config.vocab_size - len(matrix), matrix.shape[1])))
    return tensors


def tokenizer(
    path: Path, sides: tuple[MarianVocabulary, MarianVocabulary], rows: Sequence[int], pad: int,
    spm: Sequence[Path] | None = None, codes: Sequence[Path] | None = None,
) -> ConvertedTokenizer:  # fmt: skip
    """With the files given, or found beside the model at `path`.

    `rows` are the sizes of the two embeddings; the vocabularies may have more tokens.

    Raises:
        ConversionError: a file does not fit, or the special tokens of the two sides differ.
        FileNotFoundError: a file that was named is missing.
    """
    for file in [*(spm or []), *(codes or [])]:
        regular(file)
    vocabularies = [vocabulary(side, known, pad) for side, known in zip(sides, rows, strict=True)]
    if all(side.path.suffix in SENTENCEPIECE for side in sides):
        return sentencepiece((sides[0].path, sides[1].path), *vocabularies)
    models = None if codes else files_for(path.parent, ("*.spm", "*.model"), spm)
    merges = None if models else files_for(path.parent, ("*.bpe", "*.codes", "bpecodes"), codes)
    advice = "Pass --spm or --codes with the files of source and target to segment it here."
    return choose(*vocabularies, merges, models, advice=advice)


def files_for(folder: Path, patterns: Sequence[str], given: Sequence[Path] | None) -> tuple[Path, Path] | None:
    """Those of source and target: as given, else by their names, else the only one."""
    if given:
        return given[0], given[-1]
    files = sorted(file for pattern in patterns for file in folder.glob(pattern) if file.is_file())
    named = [file for name in ("source", "target") for file in files if file.stem == name]
    if len(named) == 2:
        return pair(*named)
    return (files[0], files[0]) if len(files) == 1 else None


def vocabulary(side: MarianVocabulary, rows: int, pad: int) -> Vocabulary:
    """The tokens that have an embedding, and padding after the last."""
    if max(side.eos, side.unk) >= rows:
        raise ConversionError(
            f"{side.path} belongs to another model: this one has {rows} tokens, without </s> or <unk>."
        )
    known = side.tokens[:rows]
    tokens = [*known, *(f"<unused {i}>" for i in range(len(known), pad)), "<pad>"]
    return Vocabulary(tokens, eos=side.eos, unk=side.unk, pad=pad)


def compare_live(source: Path, converted: ConvertedMarian, model: VaswaniForConditionalGeneration) -> Parity | None:
    """Against what Marian prints, or once printed; see `parity.marian`."""
    return parity.compare(converted.path, converted.vocabularies, model)
