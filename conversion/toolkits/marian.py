"""Marian's own Transformer: `model.npz` with its vocabularies (and `decoder.yml`) beside it.

The result computes exactly what Marian computes, unlike transformers' MarianMTModel: position frequencies are
10000^(-i / (d/2 - 1)), LayerNorm's eps is 1e-6, and the decoder's first input is a zero vector. Only post-norm models
are supported, because Marian's pre-norm is not the usual one.

Marian has no padding token; one is added after the last token. Its embedding is zero, so it also serves as the zero
start vector, and its softmax bias is so low that its probability is 0.

SentencePiece vocabularies segment texts. For lists of pieces, the segmentation is a file beside the model, `source.spm`
and `target.spm` or `.bpe`, as OPUS-MT names them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from transformers import GenerationConfig

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from ..converted import Converted, generation_config
from ..files.marian import MarianFiles, MarianVocabulary, list_option, with_padding
from ..mapping import Table, matrices, shared
from ..options import NOT, Fields, Options, shown
from ..parity import marian as parity
from ..parity.scores import Parity
from ..segmentation import CodesOfSides, SentencePieceModels
from ..segmentation.marian import tokenizer


WEIGHTS = Table(
    """
    model.encoder.embed_tokens.weight                encoder_Wemb
    model.decoder.embed_tokens.weight                decoder_Wemb
    lm_head                                          decoder_ff_logit_out_[Wt|b]

    model.encoder.layers.{e}.self_attn.qkv_proj      encoder_l{e+1}_self_[W|b]{q,k,v}.T
    model.encoder.layers.{e}.self_attn.out_proj      encoder_l{e+1}_self_[W|b]o.T
    model.encoder.layers.{e}.self_attn_norm          encoder_l{e+1}_self_Wo_ln_[scale|bias]
    model.encoder.layers.{e}.feed_forward.fc1        encoder_l{e+1}_ffn_[W|b]1.T
    model.encoder.layers.{e}.feed_forward.fc2        encoder_l{e+1}_ffn_[W|b]2.T
    model.encoder.layers.{e}.feed_forward_norm       encoder_l{e+1}_ffn_ffn_ln_[scale|bias]
    model.encoder.norm                               encoder_top_ln_[scale|bias]

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder_l{d+1}_self_[W|b]{q,k,v}.T
    model.decoder.layers.{d}.self_attn.out_proj      decoder_l{d+1}_self_[W|b]o.T
    model.decoder.layers.{d}.self_attn_norm          decoder_l{d+1}_self_Wo_ln_[scale|bias]
    model.decoder.layers.{d}.cross_attn.q_proj       decoder_l{d+1}_context_[W|b]q.T
    model.decoder.layers.{d}.cross_attn.kv_proj      decoder_l{d+1}_context_[W|b]{k,v}.T
    model.decoder.layers.{d}.cross_attn.out_proj     decoder_l{d+1}_context_[W|b]o.T
    model.decoder.layers.{d}.cross_attn_norm         decoder_l{d+1}_context_Wo_ln_[scale|bias]
    model.decoder.layers.{d}.feed_forward.fc1        decoder_l{d+1}_ffn_[W|b]1.T
    model.decoder.layers.{d}.feed_forward.fc2        decoder_l{d+1}_ffn_[W|b]2.T
    model.decoder.layers.{d}.feed_forward_norm       decoder_l{d+1}_ffn_ffn_ln_[scale|bias]
    model.decoder.norm                               decoder_top_ln_[scale|bias]
    """,
    ignored=(r"special:.*",),
)
OPTIONS = Fields(
    """
    d_model                     dim-emb
    d_ff                        transformer-dim-ffn
    encoder_layers              enc-depth
    decoder_layers              dec-depth
    encoder_attention_heads, decoder_attention_heads    transformer-heads
    norm_position               = post
    layer_norm_eps              = 1e-6
    position_encoding, scale_embedding                  transformer-disable-position-embeddings     False
    position_layout             = concatenated
    position_divisor            = half_minus_one
    attention_bias              = True
    softmax_bias                = True
    label_smoothing_type        = uniform
    """,
    choices={
        "position_encoding": {False: "sinusoidal", True: "none"},
        "scale_embedding": NOT,  # without positions, Marian does not scale embeddings
    },
)
# From the training settings, which may be missing; only further training needs them.
TRAINING = {
    "dropout": "transformer-dropout",
    "attention_dropout": "transformer-dropout-attention",
    "activation_dropout": "transformer-dropout-ffn",
    "label_smoothing": "label-smoothing",
}
ACTIVATIONS = {"relu": "relu", "swish": "silu"}
LEFT_OUT = "the shortlist of decoder.yml: all tokens are candidates"
GELU = {"exact": "gelu", "sigmoid": "quick_gelu"}  # x * Phi(x), x * sigmoid(1.702 x)
# Options that change the model, with their neutral values. Not every version has all of them.
MUST_BE = {
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
# Steps around a sub-layer: a adds its input, n normalises, h is a highway, r is RMSNorm; d, dropout, is ignored.
STEPS = {
    "transformer-preprocess": ("",),
    "transformer-postprocess": ("an",),
    "transformer-postprocess-emb": ("",),
    "transformer-postprocess-top": ("", "n"),
}


@dataclass
class ConvertedMarian(Converted):
    """A converted model with the files that Marian needs to run it."""

    path: Path | None = None
    vocabularies: tuple[MarianVocabulary, ...] = ()


def convert(
    source: Path,
    unsafe: bool = False,
    vocabs: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE...", help="Source and target vocabulary, if not named in decoder.yml."),
    ] = None,
    gelu: Annotated[
        Literal[*GELU] | None,
        typer.Option(
            help="How gelu is computed, if the version is ambiguous: sigmoid until 1.11, exact since 1.12.42."
        ),
    ] = None,
    spm: SentencePieceModels = None,
    codes: CodesOfSides = None,
) -> ConvertedMarian:
    """Converts a model.npz, or the one in a folder. `unsafe` has no effect: these files contain no code."""
    files = MarianFiles.from_path(source, vocabs)
    config = read_config(files, gelu)
    rows = [len(files.tensors[name]) for name in ("encoder_Wemb", "decoder_Wemb")]
    return ConvertedMarian.from_checkpoint(
        "Marian",
        config,
        WEIGHTS.read(with_padding(files.tensors, config.vocab_size), config),
        search(config, files),
        tokenizer(files, rows, config.pad_token_id, spm, codes),
        files=[files.path, *(side.path for side in files.vocabularies)],
        facts={
            "version": files.options.take("version"),
            "left out": LEFT_OUT if files.decoding.take("shortlist") else None,
        },
        target_tokens=files.vocabularies[1].tokens[: rows[1]],
        path=files.path,
        vocabularies=files.vocabularies,
    )


def search(config: VaswaniConfig, files: MarianFiles) -> GenerationConfig:
    """The search settings in decoder.yml."""
    decoding = files.decoding
    return generation_config(
        config,
        num_beams=int(decoding.real("beam-size", 4) or 4),
        length_penalty=decoding.real("normalize", 0.0),
        length_penalty_offset=0,
        early_stopping=True,
        min_new_tokens=None,  # its translations may be empty
        # Marian never generates <unk>, without renormalising.
        suppress_tokens=None if decoding.take("allow-unk") else [files.vocabularies[1].unk],
    )


def read_config(files: MarianFiles, gelu: str | None) -> VaswaniConfig:
    options, tensors = files.options, files.tensors
    refuse_other_models(files)
    activation = activation_function(options, gelu)
    options.finish()
    source, target = matrices(tensors, ["encoder_Wemb", "decoder_Wemb"], options)
    padding = max(len(source), len(target))  # the id after the last
    return options.config(
        **OPTIONS.read(options),
        **{field: files.training.real(name, 0.0) for field, name in TRAINING.items()},
        decoder_d_ff=options.take("transformer-decoder-dim-ffn") or None,
        activation_function=activation,
        final_norm=sublayer_steps(options, "transformer-postprocess-top") == "n",
        vocab_size=padding + 1,
        decoder_vocab_size=padding + 1,
        share_embeddings=shared(source, target, tensors["decoder_ff_logit_out_Wt"]),
        pad_token_id=padding,
        eos_token_id=files.vocabularies[1].eos,
        decoder_start_token_id=padding,
    )


def refuse_other_models(files: MarianFiles):
    options, (source, target) = files.options, files.vocabularies
    options.only("type", "transformer")
    options.must_be(MUST_BE)
    for name, allowed in STEPS.items():
        if sublayer_steps(options, name) not in allowed:
            supported = ", ".join(map(repr, allowed))
            options.refuse(f"{name}={shown(options.take(name))} (supported, dropout aside: {supported})")
    if kinds := [kind for kind in list_option(options.values, "input-types") if kind != "sequence"]:
        options.refuse(f"input-types with {shown(kinds)} (supported: 'sequence')")
    if len(sizes := list_option(options.values, "dim-vocabs")) not in (0, 2):
        options.refuse(f"{len(sizes)} vocabularies (supported: 2)")
    if "Wpos" in files.tensors:
        options.refuse("trained positions (supported: sinusoidal)")
    if penalty := files.decoding.take("word-penalty"):
        options.refuse(f"word-penalty={shown(penalty)} (supported: 0)")
    if source.eos != target.eos:
        options.refuse(f"</s> with ids {source.eos} and {target.eos} (supported: the same in both vocabularies)")


def sublayer_steps(options: Options, name: str) -> str:
    return str(options.take(name, STEPS[name][0])).replace("d", "")


def activation_function(options: Options, gelu: str | None) -> str | None:
    """Translates Marian's activation. Its gelu is exact since 1.12.42 and an approximation until 1.11."""
    if options.take("transformer-ffn-activation") != "gelu":
        return options.choice("transformer-ffn-activation", ACTIVATIONS, default="swish")
    version = options.version("version", parts=3)
    if gelu is None and version is not None:
        gelu = "sigmoid" if version < (1, 12, 0) else "exact" if version >= (1, 12, 42) else None
    if gelu is None:
        options.refuse("gelu, whose form this version does not determine (choose with --gelu)")
    return GELU.get(gelu)


def compare_live(source: Path, converted: ConvertedMarian, model: VaswaniForConditionalGeneration) -> Parity | None:
    """Compares with Marian's recorded or live output; see `parity.marian`."""
    return parity.compare(converted.path, converted.vocabularies, model)
