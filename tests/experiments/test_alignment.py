"""Word alignment: what is read, how it is judged, and what heads give."""

import json

import pytest
import torch
from tiny_checkpoint import tiny_checkpoint

from experiments import alignment
from experiments.alignment import Aligned, error_rate, links_of_heads, parse, read_alignments, split, turned
from experiments.lab import ROOM
from vaswani_transformer.loading import load
from vaswani_transformer.model.alignment_vaswani import AlignmentHead, align


FILES = sorted((ROOM / "alignments").glob("*.txt"))


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
    right = [Aligned("", "", sure, possible)]
    assert error_rate([{(0, 0), (1, 1), (4, 4)}], right) == pytest.approx(1 - 5 / 7)
    assert error_rate([sure], right) == 0
    assert error_rate([{(0, 3)}], right) == 1


def test_every_head_gives_each_target_word_one_link():
    model, tokenizer = load(tiny_checkpoint())
    pair = Aligned("A dog runs.", "Ein Hund rennt schnell.", set(), set())
    found = links_of_heads(model, tokenizer, [pair])
    config = model.config
    assert len(found) == config.decoder_layers * config.decoder_attention_heads * 2
    for [links] in found.values():
        assert sorted(j for _, j in links) == list(range(5))
        assert all(0 <= i < 4 for i, _ in links)


def test_the_library_gives_the_same_links():
    """It computes one head's weights by itself; here the model records those of all."""
    model, tokenizer = load(tiny_checkpoint())
    pair = Aligned("A dog runs through the park.", "Ein Hund rennt durch den Park.", set(), set())
    for (layer, head, when), [links] in links_of_heads(model, tokenizer, [pair]).items():
        of_head = AlignmentHead(layer, head, when)
        assert set(align(model, tokenizer, [(pair.source, pair.target)], of_head)[0]) == links


def test_a_head_that_copies_positions_aligns_them(monkeypatch):
    """Attention that was made by hand: when a word is produced the head is on its own place."""
    model, tokenizer = load(tiny_checkpoint())
    text = "one two three"
    length = len(tokenizer(text)["input_ids"])
    weights = torch.eye(length + 1, length)[None, None]

    class Output:
        cross_attentions = (weights,)

    monkeypatch.setattr(type(model), "__call__", lambda *_, **__: Output, raising=False)
    found = links_of_heads(model, tokenizer, [Aligned(text, text, set(), set())])
    assert found[0, 0, "produced"] == [{(0, 0), (1, 1), (2, 2)}]


def test_the_winner_is_kept_beside_the_settings_of_the_search(tmp_path):
    (tmp_path / "generation_config.json").write_text('{"num_beams": 4}')
    alignment.keep(str(tmp_path), {"layer": 0, "head": 1, "when": "read"})
    kept = json.loads((tmp_path / "generation_config.json").read_text())
    assert kept == {"alignment_head": {"layer": 0, "head": 1, "when": "read"}, "num_beams": 4}
