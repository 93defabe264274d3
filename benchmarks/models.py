"""The models to compare."""

import subprocess
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration


# What the converter `hf-marian` makes of Helsinki-NLP/opus-mt-en-de, as changes to `base`.
OPUS_MT = dict(
    vocab_size=58_101, activation_function="swish", attention_bias=True, softmax_bias=True, layer_norm_eps=1e-5,
    position_layout="concatenated", zero_pad_embedding=False,
)  # fmt: skip
SHAPES = {"opus-mt": ("base", OPUS_MT)}


def vaswani(shape: str, vocab_size: int | None = None) -> VaswaniForConditionalGeneration:
    """A preset or one of `SHAPES` with random weights, and with a vocabulary of another size if given."""
    torch.manual_seed(0)
    preset, changed = SHAPES.get(shape, (shape, {}))
    changed = changed if vocab_size is None else {**changed, "vocab_size": vocab_size}
    return VaswaniForConditionalGeneration(VaswaniConfig.from_preset(preset, **changed)).eval()


def marian_like(ours: VaswaniConfig) -> MarianMTModel:
    """transformers' MarianMTModel in the same shape (plus the biases that Marian always has), with random weights."""
    config = MarianConfig(
        vocab_size=ours.vocab_size,
        d_model=ours.d_model,
        encoder_layers=ours.encoder_layers,
        decoder_layers=ours.decoder_layers,
        encoder_attention_heads=ours.encoder_attention_heads,
        decoder_attention_heads=ours.decoder_attention_heads,
        encoder_ffn_dim=ours.d_ff,
        decoder_ffn_dim=ours.d_ff,
        scale_embedding=True,
        activation_function=ours.activation_function,
        dropout=ours.dropout,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
    )
    torch.manual_seed(0)
    return MarianMTModel(config).eval()


def numbered_tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    """A tokenizer of the words w3, w4, ..., for a model with random weights."""
    vocabulary = {"<pad>": 0, "</s>": 1, "<unk>": 2} | {f"w{i}": i for i in range(3, vocab_size)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def in_ctranslate2(model: VaswaniForConditionalGeneration, folder: Path, quantization: str) -> Path:
    """The folder of the same weights for CTranslate2, converted by our command."""
    ours, converted = folder / "ours", folder / quantization
    if not ours.exists():
        model.save_pretrained(ours)
        numbered_tokenizer(model.config.vocab_size).save_pretrained(ours)
    command = [sys.executable, "-m", "conversion", "to-ctranslate2", ours, converted, "--quantization", quantization]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return converted
