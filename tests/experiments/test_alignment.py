"""Word alignment: reading references, the error rate, and the links of heads."""

import json

import pytest
import torch
from tiny_checkpoint import tiny_checkpoint

from experiments import alignment
from experiments.alignment import Aligned, error_rate, links_of_heads, parse, read_alignments, split, turned
from experiments.lab import FOLDER
from vaswani_transformer.loading import load
from vaswani_transformer.model.alignment_vaswani import AlignmentHead, align


FILES = sorted((FOLDER / "alignments").glob("*.txt"))


def test_words():
    assert split("I don't pay $77.8, Tom's Schnee-Engel!") == [
        "I", "don't", "pay", "$", "77.8", ",", "Tom's", "Schnee-Engel", "!",
    ]  # fmt: skip


def test_links_are_written_as_words():
    aligned = parse("to be or to do", "sein oder tun", "to~sein be=sein or=oder to/2~tun do=tun")
    assert aligned.sure == {(1, 0), (2, 1), (4, 2)}
    assert aligned.possible == aligned.sure | {(0, 0), (3, 2)}
    assert turned(aligned).sure == {(0, 1), (1, 2), (2, 4)}
    with pytest.raises(ValueError, match="'to/3'"):
        parse("to be or to do", "sein", "to/3=sein")


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_sentences_aligned_by_hand_are_aligned_nearly_whole(path):
    pairs = read_alignments(path)
    assert len(pairs) >= 18
    for pair in pairs:
        linked = {j for _, j in pair.possible}
        assert len(linked) >= 0.75 * len(split(pair.target)), pair.target


def test_error_rate():
    """Och and Ney 2003, by hand: 3 links, 2 of them sure, 1 possible; 4 are sure: 1 - (2 + 3) / (3 + 4)."""
    sure, possible = {(0, 0), (1, 1), (2, 2), (3, 3)}, {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)}
    reference = [Aligned("", "", sure, possible)]
    assert error_rate([{(0, 0), (1, 1), (4, 4)}], reference) == pytest.approx(1 - 5 / 7)
    assert error_rate([sure], reference) == 0
    assert error_rate([{(0, 3)}], reference) == 1


def test_every_head_gives_each_target_word_one_link():
    model, tokenizer = load(tiny_checkpoint())
    pair = Aligned("A dog runs.", "Ein Hund rennt schnell.", set(), set())
    links_by_head = links_of_heads(model, tokenizer, [pair])
    config = model.config
    assert len(links_by_head) == config.decoder_layers * config.decoder_attention_heads * 2
    for [links] in links_by_head.values():
        assert sorted(j for _, j in links) == list(range(5))
        assert all(0 <= i < 4 for i, _ in links)


def test_the_library_gives_the_same_links():
    """The library computes one head's weights; here the model returns those of all heads."""
    model, tokenizer = load(tiny_checkpoint())
    pair = Aligned("A dog runs through the park.", "Ein Hund rennt durch den Park.", set(), set())
    for (layer, head, when), [links] in links_of_heads(model, tokenizer, [pair]).items():
        alignment_head = AlignmentHead(layer, head, when)
        assert set(align(model, tokenizer, [(pair.source, pair.target)], alignment_head)[0]) == links


def test_a_head_that_copies_positions_aligns_them(monkeypatch):
    """With hand-made attention: at the step that predicts a word, the head looks at the same position."""
    model, tokenizer = load(tiny_checkpoint())
    text = "one two three"
    length = len(tokenizer(text)["input_ids"])
    weights = torch.eye(length + 1, length)[None, None]

    class Output:
        cross_attentions = (weights,)

    monkeypatch.setattr(type(model), "__call__", lambda *_, **__: Output, raising=False)
    links_by_head = links_of_heads(model, tokenizer, [Aligned(text, text, set(), set())])
    assert links_by_head[0, 0, "produced"] == [{(0, 0), (1, 1), (2, 2)}]


def test_the_best_head_is_saved_with_the_search_settings(tmp_path):
    (tmp_path / "generation_config.json").write_text('{"num_beams": 4}')
    alignment.save_head(str(tmp_path), {"layer": 0, "head": 1, "when": "read"})
    saved = json.loads((tmp_path / "generation_config.json").read_text())
    assert saved == {"alignment_head": {"layer": 0, "head": 1, "when": "read"}, "num_beams": 4}
