"""The parameter tree adds up, whatever is shared; measures of heads on handmade attention weights."""

import pytest
import torch

from vaswani_transformer import PRESETS, VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.explorer.measures import LABELS, choose_label, measure
from vaswani_transformer.explorer.parts import Part, parameter_tree
from vaswani_transformer.inspection.token_text import Token


VARIANTS = [
    dict(share_embeddings="none", vocab_size=60, decoder_vocab_size=50, softmax_bias=True),
    dict(share_embeddings="target", vocab_size=60, decoder_vocab_size=50),
    dict(position_encoding="learned", max_position_embeddings=30, source_space_embedding=True),
    dict(norm_position="pre", attention_bias=True, feed_forward_bias=False, d_k=3, d_v=5, softmax_bias=True),
]


def check(part: Part):
    if part.parts:
        assert part.count == sum(child.count for child in part.parts), part.name
    for child in part.parts:
        check(child)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_parts_of_every_preset_add_up_to_the_model(preset):
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(VaswaniConfig.from_preset(preset))
        model.tie_weights()
    tree = parameter_tree(model)
    check(tree)
    assert tree.count == sum(parameter.numel() for parameter in model.parameters())
    assert "shared by source embedding, target embedding and pre-softmax" in tree.parts[0].parts[0].note


@pytest.mark.parametrize("fields", VARIANTS)
def test_the_parts_add_up_whatever_is_shared(tiny_model, fields):
    model = tiny_model(**fields)
    tree = parameter_tree(model)
    check(tree)
    assert tree.count == model.num_parameters()


def tokens(*texts: str) -> list[Token]:
    kinds = ["special" if text in ("</s>", "<start>") else "word" for text in texts]
    return [Token(10 + i, text, kind) for i, (text, kind) in enumerate(zip(texts, kinds, strict=True))]


def test_measures_of_attention_made_by_hand():
    keys = tokens("The", "dog", "did", "not", ".", "</s>")
    previous = torch.eye(6).roll(-1, dims=1)
    previous[0], previous[5] = torch.eye(6)[0], torch.eye(6)[4]
    for row in range(1, 6):
        previous[row] = torch.eye(6)[row - 1]
    measures = measure(previous, keys)
    assert measures["previous"] == 1 and measures["next"] == measures["end"] == 0
    assert measures["same"] == pytest.approx(1 / 6) and measures["first"] == pytest.approx(2 / 6)
    assert measures["punctuation"] == pytest.approx(1 / 6)
    assert measures["entropy"] == pytest.approx(0, abs=1e-6) and measures["reach"] == pytest.approx(5 / 6)
    assert choose_label(measures, LABELS["self_attn"]) == "previous token"


def test_even_attention_has_no_label_and_all_the_entropy():
    keys = tokens("The", "dog", "did", "not", "bark", "at", "all", "</s>")
    measures = measure(torch.full((8, 8), 1 / 8), keys)
    assert measures["entropy"] == pytest.approx(3)
    assert all(choose_label(measures, labels) == "" for labels in LABELS.values())


@pytest.mark.parametrize("column, label", [(5, "end of the sentence"), (4, "punctuation"), (3, "rare words")])
def test_attention_to_a_kind_of_token_is_named(column, label):
    weights = torch.full((6, 6), 0.04)
    weights[:, column] = 0.8
    measures = measure(weights, tokens("The", "dog", "did", "not", ".", "</s>"))
    assert choose_label(measures, LABELS["self_attn"]) == label


def test_cross_attention_that_picks_one_word_out_is_alignment():
    measures = measure(torch.eye(6)[torch.tensor([2, 0, 1, 3])], tokens("The", "dog", "did", "not", ".", "</s>"))
    assert choose_label(measures, LABELS["cross_attn"]) == "alignment"
