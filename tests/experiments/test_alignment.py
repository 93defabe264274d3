"""Word alignment: reading references, the error rate, and the links of heads."""

import json
import lzma
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_checkpoint import PAIRS, tiny_checkpoint

from experiments import alignment
from experiments.alignment import Aligned, error_rate, links_of_heads, parse, read_alignments, split, turned
from experiments.lab import FOLDER, ExperimentError, Lab
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


# The experiment, with an aligner that links words at the same place --------------------------------------------------


class Diagonal:
    """In the place of eflomal: writes what it is given, forward all words, reverse all but the first."""

    def align(self, sources, targets, forward, reverse):
        lengths = [min(len(s.split()), len(t.split())) for s, t in zip(sources, targets, strict=True)]
        for path, first in ((forward, 0), (reverse, 1)):
            lines = (" ".join(f"{i}-{i}" for i in range(first, length)) for length in lengths)
            Path(path).write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def eflomal(monkeypatch):
    monkeypatch.setitem(sys.modules, "eflomal", SimpleNamespace(Aligner=Diagonal))


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "en-de").mkdir()
    files = {
        "tatoeba_test": [*PAIRS.items(), ("You will try it, won't you?", "Du wirst es versuchen, nicht wahr?")],
        "train": [("A dog runs.", "Ein Hund rennt.", "tatoeba"), ("Manual", "Handbuch", "docs")],
    }
    for name, rows in files.items():
        with lzma.open(tmp_path / "en-de" / f"{name}.tsv.xz", "wt", encoding="utf-8") as file:
            file.write("".join("\t".join(row) + "\n" for row in rows))
    return Lab(tmp_path, None)


def test_without_eflomal_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(ExperimentError, match=r"pip install \"vaswani-transformer\[align\]\""):
        alignment.eflomal_links([("a", "b")])


def test_eflomal_gets_words_in_lower_case(eflomal, monkeypatch):
    given = []
    align_words = Diagonal.align
    monkeypatch.setattr(Diagonal, "align", lambda self, *args: given.append(args[:2]) or align_words(self, *args))
    [(forward, reverse)] = alignment.eflomal_links([("A Dog.", "Ein Hund rennt.")])
    assert given == [(["a dog .\n"], ["ein hund rennt .\n"])]
    assert forward == {(0, 0), (1, 1), (2, 2)} and reverse == {(1, 1), (2, 2)}


def test_eflomal_is_trained_on_everyday_sentences(lab):
    assert alignment.training_pairs(lab, "en-de") == [("A dog runs.", "Ein Hund rennt.")]


def test_sentences_aligned_by_hand_do_not_choose_the_head(lab, eflomal):
    chosen_by, by_hand, links = alignment.judge(lab, "en-de")
    assert [pair.source for pair in chosen_by] == list(PAIRS)
    for pair in chosen_by:
        assert pair.possible - pair.sure == {(0, 0)}, "the link of one direction only"
    assert by_hand == read_alignments(FOLDER / "alignments" / "en-de.txt")
    for both, either in zip(*links.values(), strict=True):
        assert either - both == {(0, 0)}


def test_the_experiment_saves_the_head_with_the_lowest_error_rate(lab, eflomal, monkeypatch, tmp_path):
    folder = shutil.copytree(tiny_checkpoint(), tmp_path / "tiny")
    monkeypatch.setattr(alignment, "CHECKPOINTS", {"tiny": ("en-de", 0, 1)})
    monkeypatch.setattr(alignment, "checkpoint_path", lambda name: str(folder))
    choice = {"layer": 1, "head": 0, "when": "read", "found": 0.9, "anchors": 20}  # the tiny one copies too few words
    monkeypatch.setattr(alignment, "by_anchors", lambda model, tokenizer, language: choice | {"language": language})
    [model] = alignment.run(lab)["checkpoints"].values()
    best = min(model["heads"], key=lambda head: head["by_eflomal"])
    assert model["best"] == {key: best[key] for key in ("layer", "head", "when")}
    assert json.loads((folder / "generation_config.json").read_text())["alignment_head"] == model["best"]
    assert model["by_hand"][0] == pytest.approx(best["by_hand"], abs=1e-3)
    assert model["by_hand"][1] < model["by_hand"][0] < model["by_hand"][2]
    assert model["by_anchors"] == choice | {"language": "en"}
    chosen = next(head for head in model["heads"] if (head["layer"], head["head"], head["when"]) == (1, 0, "read"))
    assert alignment.rate_by_anchors(model) == chosen["by_hand"] >= alignment.lowest_rate(model)
    assert set(model["eflomal"]) == {"both directions", "either direction"} and model["sentences"] == 34


def test_the_error_rate_of_the_other_direction_is_the_same():
    pairs = read_alignments(FILES[0])
    links = [{(0, 0), (1, 1)} for _ in pairs]
    mirrored = [{(j, i) for i, j in pair_links} for pair_links in links]
    assert error_rate(links, pairs) == error_rate(mirrored, [turned(pair) for pair in pairs])
    assert [turned(turned(pair)) for pair in pairs] == pairs
