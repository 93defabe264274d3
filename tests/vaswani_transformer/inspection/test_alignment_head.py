"""The head that aligns words, chosen without alignments by hand, is the one that these choose."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_checkpoint import tiny_checkpoint

from vaswani_transformer import checkpoint_path, load
from vaswani_transformer.inspection import alignment_head
from vaswani_transformer.inspection.alignment_head import anchors, choose_alignment_head, lines_by_language, score_heads
from vaswani_transformer.model.alignment_vaswani import AlignmentHead, align


RESULTS = Path(__file__).parents[3] / "experiments" / "results" / "alignment.json"
INCLUDED = {"mini-en-de": "en", "mini-de-en": "de", "mini-en-fr": "en", "mini-fr-en": "fr"}
MAX_LOSS = 0.01  # of the alignment error rate


def error_rates(name: str) -> dict[AlignmentHead, float]:
    """The error rate of each head on sentences aligned by hand."""
    heads = json.loads(RESULTS.read_text(encoding="utf-8"))["checkpoints"][name]["heads"]
    return {AlignmentHead(head["layer"], head["head"], head["when"]): head["by_hand"] for head in heads}


@pytest.mark.parametrize("name", INCLUDED)
def test_the_choice_is_as_good_as_the_best_head(name):
    model, tokenizer = load(checkpoint_path(name), "float32")
    rates = error_rates(name)
    for language in (INCLUDED[name], None):
        choice = choose_alignment_head(model, tokenizer, language)
        assert rates[choice.head] <= min(rates.values()) + MAX_LOSS
        assert choice.score.share > 0.9


def test_without_its_language_the_lines_are_in_it():
    for name, language in INCLUDED.items():
        _, tokenizer = load(checkpoint_path(name))
        lines = alignment_head.bundled_lines(tokenizer, None)
        assert set(lines_by_language()[language]) <= set(lines)


def test_all_languages_say_the_same():
    lines = lines_by_language()
    assert {len(texts) for texts in lines.values()} == {8} and len(lines) == 20
    digits = [["".join(filter(str.isdigit, text)) for text in texts] for texts in lines.values()]
    for numbers in zip(*digits, strict=True):  # their order may differ
        assert len({*map(tuple, map(sorted, numbers))}) <= 2


# Anchors -------------------------------------------------------------------------------------------------------------


def test_anchors_are_words_that_are_once_in_both_texts():
    assert anchors("Anna has 3 dogs, 3 cats.", "3 Hunde hat Anna.") == [(0, 3), (7, 4)]
    assert anchors("", "Anna") == []


@given(st.text(max_size=30))
def test_a_text_anchors_itself_in_place(text):
    assert all(i == j for i, j in anchors(text, text))


@pytest.fixture
def tiny():
    return load(tiny_checkpoint(), "float32")


def test_scores_are_those_of_the_links(tiny):
    """Each head finds the anchors that `align` links, one pair at a time or in a batch."""
    model, tokenizer = tiny
    pairs = [("Hello! Two dogs run.", "Zwei Hunde run. Hello!"), ("A man rides 3.", "3 rides man."), ("a", "b")]
    expected = [(pair, link) for pair in pairs for link in anchors(*pair)]
    scores = score_heads(model, tokenizer, pairs)
    assert len(scores) == 2 * 2 * 2 and len(expected) > 6
    for head, score in scores.items():
        links = dict(zip(pairs, align(model, tokenizer, pairs, head), strict=True))
        hits = [link in links[pair] for pair, link in expected]
        assert score.anchors == len(expected) and score.share == pytest.approx(sum(hits) / len(hits))
        assert 0 < score.weight <= 1
    assert model.config._attn_implementation == "sdpa"


# Refusals ------------------------------------------------------------------------------------------------------------


def test_too_few_anchors_are_no_evidence(tiny):
    with pytest.raises(ValueError, match="copy only 1 of the names, numbers and marks.* at least 12 are needed"):
        choose_alignment_head(*tiny, pairs=[("Anna runs", "Anna rennt")])


def test_a_model_without_such_a_head_has_none(tiny, monkeypatch):
    model, tokenizer = tiny
    flat = {AlignmentHead(0, 0, "read"): alignment_head.HeadScore(0.2, 0.1, 40)}
    monkeypatch.setattr(alignment_head, "score_heads", lambda *_: flat)
    pairs = [("a b c d e f g h i j k l m", "a b c d e f g h i j k l m")]
    with pytest.raises(ValueError, match="finds only 20% of 13 copied names"):
        choose_alignment_head(model, tokenizer, pairs=pairs)


def test_between_equal_shares_the_step_that_reads_decides_and_then_the_weight():
    def rank(layer: int, when: str, share: float, weight: float):
        return alignment_head.rank((AlignmentHead(layer, 0, when), alignment_head.HeadScore(share, weight, 40)))

    assert rank(0, "read", 1.0, 0.8) > rank(1, "produced", 1.0, 0.9)
    assert rank(0, "read", 0.9, 0.9) < rank(1, "produced", 1.0, 0.8)
    assert rank(0, "read", 1.0, 0.9) > rank(1, "read", 1.0, 0.8)
