"""A checkpoint folder with random weights, for any configuration."""

from pathlib import Path

import torch
from tiny_checkpoint import PAIRS

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.learn_bpe import learn_tokenizer
from vaswani_transformer.model.generation_vaswani import paper_generation_config
from vaswani_transformer.model.tokenization_vaswani import VaswaniTokenizer


def random_checkpoint(folder: Path, max_length: int | None = None, **fields) -> Path:
    """Write a model with random weights, biases and norms; with `decoder_vocab_size` the target has its own vocabulary.

    `max_length` limits its translations.
    """
    tokenizer = learn_tokenizer([*PAIRS, *PAIRS.values()], vocab_size=300)
    if size := fields.get("decoder_vocab_size"):
        target = learn_tokenizer(list(PAIRS.values()), vocab_size=size)
        tokenizer = VaswaniTokenizer.from_sides(tokenizer.backend_tokenizer, target.backend_tokenizer)
    defaults = dict(
        vocab_size=300, d_model=32, d_ff=48, encoder_layers=2, decoder_layers=3, encoder_attention_heads=2,
        decoder_attention_heads=4,
    )  # fmt: skip
    torch.manual_seed(1)
    model = VaswaniForConditionalGeneration(VaswaniConfig(**{**defaults, **fields}))
    for parameter in model.parameters():
        if parameter.dim() == 1:  # 0 or 1 otherwise, which would hide that one is left out
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    ids = {name: getattr(model.config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    model.generation_config = paper_generation_config(**ids)
    model.generation_config.max_length = max_length
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
