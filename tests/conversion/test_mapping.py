"""The table of tensors: what its rows may say, and what the shapes tell."""

import pytest
import torch

from conversion.mapping import Table, matrices, our_shapes, shared
from conversion.options import ConversionError, Options
from vaswani_transformer import VaswaniConfig


CONFIG = VaswaniConfig(
    vocab_size=11,
    d_model=8,
    d_ff=16,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    share_embeddings="none",
)


def test_a_weight_and_a_bias_without_a_common_name_take_one_row():
    table = Table(
        """
        model.encoder.layers.{e}.self_attn.qkv_proj     l{e+1}_[W|b]{q,k,v}.T
        model.encoder.layers.{e}.self_attn_norm         l{e+1}_ln_[scale|bias]
        """
    )
    attention, norm = "model.encoder.layers.0.self_attn.qkv_proj", "model.encoder.layers.0.self_attn_norm"
    rules = {rule.ours[0]: rule for rule in table.rules(CONFIG)}
    assert rules[f"{attention}.weight"].toolkit == ("l1_Wq", "l1_Wk", "l1_Wv")
    assert rules[f"{attention}.weight"].transposed
    assert [rules[f"{norm}.{name}"].toolkit for name in ("weight", "bias")] == [("l1_ln_scale",), ("l1_ln_bias",)]
    if f"{attention}.bias" in our_shapes(CONFIG):  # without biases in attention, the row says nothing about them
        assert rules[f"{attention}.bias"].toolkit == ("l1_bq", "l1_bk", "l1_bv")
        assert not rules[f"{attention}.bias"].transposed


def test_a_matrix_that_is_missing_is_named_after_what_was_refused():
    tensors = {"source": torch.ones(3, 2), "target": torch.ones(3)}
    options = Options({"kind": "other"}, "toolkit")
    with pytest.raises(ConversionError, match="Not a translation model of toolkit.*no tensors: softmax"):
        matrices(tensors, ["source", "target", "softmax"], options)
    with pytest.raises(ConversionError, match="must be matrices: target"):
        matrices(tensors, ["target"], options)
    options.off("kind")
    with pytest.raises(ConversionError, match="kind='other'"):  # the reason why they are missing
        matrices(tensors, ["target"], options)
    assert matrices(tensors, ["source"], options)[0] is tensors["source"]


def test_sharing_is_seen_in_the_matrices():
    matrix, equal, other = torch.ones(3, 2), torch.ones(3, 2), torch.zeros(3, 2)
    assert shared(matrix, matrix, matrix) == "all"
    assert shared(other, matrix, matrix) == "target"
    assert shared(matrix, matrix, other) == "none"  # the embeddings alone cannot share
    assert shared(matrix, equal, matrix) == "none"
    assert shared(matrix, equal, matrix, torch.equal) == "all"
