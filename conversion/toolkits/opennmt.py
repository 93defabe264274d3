"""OpenNMT-py's Transformer, versions 2 and 3: a `.pt` file, with the weights in it or in `.safetensors`.

It is always pre-norm, with a LayerNorm after each stack. Version 2 has all biases; in version 3 they are optional.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from vaswani_transformer import VaswaniConfig

from ..converted import Converted, generation_config
from ..files.folders import checkpoint_in
from ..files.opennmt import (
    BOS,
    EOS,
    PAD,
    POSITIONS,
    Field,
    all_tensors,
    load_checkpoint,
    read_vocabulary,
    step_number,
    weight_files,
)
from ..mapping import Table
from ..options import Fields, Options, sharing, shown
from ..positions import stored
from ..segmentation import Codes, SentencePieceModel
from ..segmentation.opennmt import tokenizer, transforms


WEIGHTS = Table(
    """
    model.encoder.embed_tokens                       encoder.embeddings.make_embedding.emb_luts.0
    model.decoder.embed_tokens                       decoder.embeddings.make_embedding.emb_luts.0
    lm_head                                          generator
    model.encoder.embedding.positions                encoder.embeddings.make_embedding.pe
    model.decoder.embedding.positions                decoder.embeddings.make_embedding.pe

    model.encoder.layers.{e}.self_attn.qkv_proj      encoder.transformer.{e}.self_attn.linear_{query,keys,values}
    model.encoder.layers.{e}.self_attn.out_proj      encoder.transformer.{e}.self_attn.final_linear
    model.encoder.layers.{e}.self_attn_norm          encoder.transformer.{e}.layer_norm
    model.encoder.layers.{e}.feed_forward.fc1        encoder.transformer.{e}.feed_forward.w_1
    model.encoder.layers.{e}.feed_forward.fc2        encoder.transformer.{e}.feed_forward.w_2
    model.encoder.layers.{e}.feed_forward_norm       encoder.transformer.{e}.feed_forward.layer_norm
    model.encoder.norm                               encoder.layer_norm

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder.transformer_layers.{d}.self_attn.linear_{query,keys,values}
    model.decoder.layers.{d}.self_attn.out_proj      decoder.transformer_layers.{d}.self_attn.final_linear
    model.decoder.layers.{d}.self_attn_norm          decoder.transformer_layers.{d}.layer_norm_1
    model.decoder.layers.{d}.cross_attn.q_proj       decoder.transformer_layers.{d}.context_attn.linear_query
    model.decoder.layers.{d}.cross_attn.kv_proj      decoder.transformer_layers.{d}.context_attn.linear_{keys,values}
    model.decoder.layers.{d}.cross_attn.out_proj     decoder.transformer_layers.{d}.context_attn.final_linear
    model.decoder.layers.{d}.cross_attn_norm         decoder.transformer_layers.{d}.layer_norm_2
    model.decoder.layers.{d}.feed_forward.fc1        decoder.transformer_layers.{d}.feed_forward.w_1
    model.decoder.layers.{d}.feed_forward.fc2        decoder.transformer_layers.{d}.feed_forward.w_2
    model.decoder.layers.{d}.feed_forward_norm       decoder.transformer_layers.{d}.feed_forward.layer_norm
    model.decoder.norm                               decoder.layer_norm
    """,
    ignored=map(re.escape, POSITIONS),
)

OPTIONS = Fields(
    """
    d_ff                                                transformer_ff                          2048
    encoder_attention_heads, decoder_attention_heads    heads                                   8
    attention_dropout                                   attention_dropout                       0.1
    dropout, activation_dropout                         dropout                                 0.3
    activation_function                                 pos_ffn_activation_fn                   relu
    norm_position                                       = pre
    layer_norm_eps                                      norm_eps                                1e-6
    position_encoding, scale_embedding                  position_encoding                       False
    zero_pad_embedding                                  = False
    label_smoothing                                     label_smoothing                         0.0
    label_smoothing_type                                = uniform
    """,
    choices={
        "activation_function": {"relu": "relu", "gelu": "gelu"},  # silu and gated-gelu use a third matrix
        "position_encoding": {True: "sinusoidal", False: "none"},
        "scale_embedding": {True: True, False: False},  # one module does both
    },
)
LAYOUTS = {"SinusoidalInterleaved": ("interleaved", "half"), "SinusoidalConcat": ("concatenated", "half_minus_one")}
# The values with which each option leaves the paper's model unchanged; the first is the toolkit's default.
MUST_BE = {
    "model_task": ("seq2seq",),
    "model_type": ("text",),
    "self_attn_type": ("scaled-dot", "scaled-dot-flash"),
    "max_relative_positions": (0,),
    "layer_norm": ("standard",),
    "generator_function": ("softmax",),
}
MUST_BE_OFF = (
    "copy_attn", "parallel_residual", "num_experts", "sliding_window", "relative_positions_buckets", "n_src_feats",
    "lora_layers", "lora_embedding", "quant_layers", "src_feats", "feat_vocab_sizes",
)  # fmt: skip


def convert(source: Path, unsafe: bool = False, codes: Codes = None, spm: SentencePieceModel = None) -> Converted:
    """Converts a checkpoint, or the one in a folder. Recorded subword models are used if they are beside it."""
    path = checkpoint_in(source, "*.pt", newest=step_number)
    saved = load_checkpoint(path, unsafe)
    options = Options(saved["opt"] if isinstance(saved["opt"], dict) else vars(saved["opt"]), "OpenNMT-py")
    refuse_other_models(options)
    options.finish()
    weights = weight_files(path, saved)
    tensors = all_tensors(saved, weights)
    vocabularies = [read_vocabulary(saved["vocab"], side) for side in ("src", "tgt")]
    start = saved["vocab"].get("decoder_start_token") or options.take("decoder_start_token", BOS)
    config = read_config(options, tensors, *vocabularies, start)
    return Converted.from_checkpoint(
        "opennmt",
        config,
        WEIGHTS.read(tensors, config),
        search(config, saved["vocab"]),
        tokenizer(path.parent, options, *vocabularies, codes, spm),
        files=[path, *weights],
        facts={"transforms": transforms(options)},
        target_tokens=vocabularies[1],
    )


def refuse_other_models(options: Options):
    options.must_be(MUST_BE)
    for name in ("encoder_type", "decoder_type"):
        options.only(name, "transformer", default="rnn")
    options.off(*MUST_BE_OFF)
    heads = options.take("heads", 8)
    options.only("num_kv", 0, heads, default=0)
    if options.take("multiquery") and options.take("num_kv", 0) != heads:
        options.refuse("multiquery=True (supported: False)")


def size(options: Options, name: str, both: str) -> int | None:
    """Returns a size; the option for both sides, if set, overrides that of one side."""
    common = options.take(both, -1)
    return options.take(name) if common in (0, -1) else common


def width(options: Options) -> int | None:
    """Returns d_model, to which all widths must be equal."""
    hidden = "hid" if options.take("enc_hid_size") else "rnn"  # "rnn" in version 2
    hidden_size = {"hid": "hidden_size", "rnn": "rnn_size"}[hidden]
    d_model = size(options, f"enc_{hidden}_size", hidden_size)
    for name, both in (
        (f"dec_{hidden}_size", hidden_size),
        ("src_word_vec_size", "word_vec_size"),
        ("tgt_word_vec_size", "word_vec_size"),
    ):
        if size(options, name, both) != d_model:
            options.refuse(f"{name}={shown(size(options, name, both))} (supported: {d_model}, the encoder's width)")
    return d_model


def read_config(
    options: Options, tensors: Mapping[str, torch.Tensor], source: list[str], target: list[str], start: str
) -> VaswaniConfig:
    settings, d_model = OPTIONS.read(options), width(options)
    for name in ("dropout", "attention_dropout", "activation_dropout"):  # one rate, or one per stage of training
        if isinstance(settings[name], list) and settings[name]:
            settings[name] = settings[name][-1]
    refuse_vocabularies(options, tensors, source, target)
    if start not in target:
        options.refuse(f"decoder_start_token={shown(start)} (supported: a token of the vocabulary)")
    shares_target = options.take("share_decoder_embeddings")
    return options.config(
        **settings | read_positions(options, tensors, d_model),
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        d_model=d_model,
        encoder_layers=size(options, "enc_layers", "layers"),
        decoder_layers=size(options, "dec_layers", "layers"),
        attention_bias=any(name.endswith("_attn.linear_query.bias") for name in tensors),
        feed_forward_bias=any(name.endswith(".w_1.bias") for name in tensors),
        softmax_bias="generator.bias" in tensors,
        share_embeddings=sharing(shares_target and options.take("share_embeddings"), shares_target),
        pad_token_id=target.index(PAD),
        eos_token_id=target.index(EOS),
        bos_token_id=target.index(BOS) if BOS in target else None,
        decoder_start_token_id=target.index(start) if start in target else None,
    )


def refuse_vocabularies(options: Options, tensors: Mapping[str, torch.Tensor], source: list[str], target: list[str]):
    if options.take("share_embeddings") and source != target:
        options.refuse("share_embeddings=True with two vocabularies (supported: one for both)")
    if source.index(PAD) != target.index(PAD):
        options.refuse(f"{PAD} with the id {source.index(PAD)} in the source and {target.index(PAD)} in the target")
    for side, tokens in (("encoder", source), ("decoder", target)):
        table = tensors.get(f"{side}.embeddings.make_embedding.emb_luts.0.weight")
        if table is not None and len(table) != len(tokens):
            options.refuse(f"a vocabulary of {len(tokens)} tokens with {len(table)} embeddings in the {side}")


def read_positions(options: Options, tensors: Mapping[str, torch.Tensor], d_model: int | None) -> dict[str, Any]:
    """Reads positions from stored tables, which the toolkit adds whatever the options say, else from the options."""
    layout, divisor = options.choice("position_encoding_type", LAYOUTS, default="SinusoidalInterleaved")
    settings = {"position_layout": layout, "position_divisor": divisor}
    if not options.take("position_encoding"):
        return settings
    return settings | stored(tensors, POSITIONS, options, d_model, (layout, divisor))


def search(config: VaswaniConfig, vocab: Mapping) -> GenerationConfig:
    """The search of `onmt_translate`, by mean log P in version 3 (counting the start token), by log P in version 2."""
    mean = 0.0 if isinstance(vocab["tgt"], Field) else 1.0
    return generation_config(
        config,
        length_penalty=mean,
        length_penalty_offset=1,
        early_stopping=False,
        min_new_tokens=None,  # its translations may be empty
    )
