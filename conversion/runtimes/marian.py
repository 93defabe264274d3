"""Exports a checkpoint to transformers' MarianMTModel, which runs without this package.

    vaswani convert to-marian CHECKPOINT OUT

MarianMTModel supports one variant of the paper's model: all sines before all cosines with frequencies
10000^(-i / (d/2)), a LayerNorm with eps 1e-5 after each sub-layer and none after the stacks, and biases in all
projections (missing ones become zeros). Models converted by `hf-marian` are of this kind. Models with our default
configuration, including the included checkpoints, are refused, because their positions and eps are the authors'.

A tokenizer of SentencePiece unigram models becomes a MarianTokenizer. Other tokenizers stay a tokenizer.json, which
AutoTokenizer loads.
"""

from pathlib import Path

import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel
from transformers import __version__ as transformers_version

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from ..options import ConversionError, Options
from ..parity.models import compare_models
from ..toolkits.hf_marian import WEIGHTS
from .exports import exported_folder, load, snippet
from .marian_tokenizer import write_tokenizer


ONLY = {
    "norm_position": "post",
    "decoder_norm_position": "post",
    "layer_norm_eps": 1e-5,
    "layer_norm_deviation": "biased",
    "position_encoding": "sinusoidal",
    "position_layout": "concatenated",
    "position_divisor": "half",
    "position_offset": 0,
    "source_space_embedding": False,
    "scale_attention": True,
}
OTHER_RUNTIMES = "Use to-ctranslate2 or to-onnx, which have no such limits."
EXAMPLE = """
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
ids = model.generate(**tokenizer("TEXT", return_tensors="pt"))
tokenizer.decode(ids[0], skip_special_tokens=True)
"""


def export(checkpoint: str, out: Path):
    """Writes the folder `out` after comparing the results of transformers with our model's.

    Raises:
        ConversionError: the checkpoint cannot be loaded, MarianMTModel cannot represent it, or the results differ.
    """
    model, tokenizer = load(checkpoint)
    config = marian_config(model)
    reference = MarianMTModel(config)
    reference.load_state_dict(marian_weights(model), strict=False)  # positions are computed
    reference.generation_config = marian_generation(model)
    start = snippet(EXAMPLE, also="AutoModelForSeq2SeqLM")
    with exported_folder(out, model, start, "transformers") as folder:
        reference.save_pretrained(folder)
        reference = MarianMTModel.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False).eval()
        parity = compare_models(model, reference, f"transformers {transformers_version} MarianMTModel")
        if not parity.holds:
            raise ConversionError(f"The exported model differs from ours; nothing was written: {parity}.")
        if tokenizer is not None and not write_tokenizer(tokenizer, folder):
            tokenizer.save_pretrained(folder)
            print("MarianTokenizer cannot represent this tokenizer; keeping tokenizer.json, which AutoTokenizer loads.")
    print(parity)


def marian_config(model: VaswaniForConditionalGeneration) -> MarianConfig:
    """Returns MarianMTModel's configuration.

    Raises:
        ConversionError: it cannot represent this model; the message names all reasons.
    """
    ours = model.config
    options = Options(ours.to_dict(), "Vaswani")
    for name, allowed in ONLY.items():
        options.only(name, allowed)
    if ours.final_norm:
        options.refuse("final_norm=True (supported: unset)")
    for stack in ("encoder", "decoder"):
        width = ours.d_model / getattr(ours, f"{stack}_attention_heads")
        for name in ("d_k", "d_v"):
            options.only(name, width, default=width)
    if ours.pad_token_id is None:
        options.refuse("no pad_token_id (supported: one)")
    elif ours.zero_pad_embedding and ours.share_embeddings != "none" and not pad_row_is_zero(model):
        options.refuse("zero_pad_embedding=True, although the padding row, which the softmax shares, is not zero")
    if options.problems:
        error = ConversionError.from_problems("MarianMTModel cannot represent this model", options.problems, 99)
        raise ConversionError(f"{error} {OTHER_RUNTIMES}")
    return MarianConfig(
        vocab_size=ours.vocab_size,
        decoder_vocab_size=ours.decoder_vocab_size,
        d_model=ours.d_model,
        encoder_ffn_dim=ours.d_ff,
        decoder_ffn_dim=ours.decoder_d_ff,
        encoder_layers=ours.encoder_layers,
        decoder_layers=ours.decoder_layers,
        encoder_attention_heads=ours.encoder_attention_heads,
        decoder_attention_heads=ours.decoder_attention_heads,
        dropout=ours.dropout,
        attention_dropout=ours.attention_dropout,
        activation_dropout=ours.activation_dropout,
        activation_function=ours.activation_function,
        scale_embedding=ours.scale_embedding,
        share_encoder_decoder_embeddings=ours.share_embeddings == "all",
        tie_word_embeddings=ours.share_embeddings != "none",
        max_position_embeddings=ours.max_position_embeddings or 1024,
        pad_token_id=ours.pad_token_id,
        eos_token_id=ours.eos_token_id,
        bos_token_id=ours.bos_token_id,
        decoder_start_token_id=ours.decoder_start_token_id,
        forced_eos_token_id=None,
    )


def pad_row_is_zero(model: VaswaniForConditionalGeneration) -> bool:
    return not model.model.decoder.embed_tokens.weight[model.config.pad_token_id].any()


def marian_weights(model: VaswaniForConditionalGeneration) -> dict[str, torch.Tensor]:
    """Returns our weights under MarianMTModel's names, with zeros for missing biases."""
    config = model.config
    complete = VaswaniConfig(
        **{**config.to_dict(), "attention_bias": True, "feed_forward_bias": True, "softmax_bias": True}
    )
    weights = {
        name: torch.zeros_like(x) for name, x in VaswaniForConditionalGeneration(complete).state_dict().items()
    } | model.state_dict()
    pad = config.pad_token_id
    if config.zero_pad_embedding:  # our model treats the row as zero; in a tied matrix it is zero already
        for stack in ("encoder", "decoder"):
            name = f"model.{stack}.embed_tokens.weight"
            weights[name] = weights[name].clone()
            weights[name][pad] = 0
    renamed = WEIGHTS.write(weights, complete)
    renamed["final_logits_bias"] = renamed["final_logits_bias"][None]
    if config.share_embeddings == "all":
        renamed["model.shared.weight"] = renamed["lm_head.weight"]
    return renamed


def marian_generation(model: VaswaniForConditionalGeneration) -> GenerationConfig:
    """Returns our search settings without the paper's length penalty, which transformers does not support."""
    settings = model.generation_config.to_diff_dict()
    offset = settings.pop("length_penalty_offset", 5)
    if offset:
        settings.pop("length_penalty", None)
    settings.pop("transformers_version", None)
    pad = model.config.pad_token_id
    bad = [*(words for words in settings.get("bad_words_ids") or [] if words != [pad]), [pad]]
    return GenerationConfig(**{**settings, "bad_words_ids": bad, "renormalize_logits": True})
