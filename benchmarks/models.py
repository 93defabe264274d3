"""The models that are compared."""

import torch
from transformers import MarianConfig, MarianMTModel

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration


def ours_and_marian(preset: str) -> dict[str, torch.nn.Module]:
    """The preset, and transformers' MarianMTModel in its shape (with the biases that Marian always has)."""
    ours = VaswaniConfig.from_preset(preset)
    marian = MarianConfig(
        vocab_size=ours.vocab_size,
        d_model=ours.d_model,
        encoder_layers=ours.encoder_layers,
        decoder_layers=ours.decoder_layers,
        encoder_attention_heads=ours.encoder_attention_heads,
        decoder_attention_heads=ours.decoder_attention_heads,
        encoder_ffn_dim=ours.d_ff,
        decoder_ffn_dim=ours.d_ff,
        scale_embedding=True,
        activation_function="relu",
        dropout=ours.dropout,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
    )
    torch.manual_seed(0)
    return {"vaswani": VaswaniForConditionalGeneration(ours), "marian": MarianMTModel(marian)}
