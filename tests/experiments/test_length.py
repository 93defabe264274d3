"""Sentences by their length, and the table of what each encoding loses there."""

from pathlib import Path

import numpy as np
import pytest
from tiny_checkpoint import PAIRS, tiny_checkpoint

from experiments import figures, length
from experiments.lab import Lab, Run


NAMES = list(length.groups(np.array([1])))


def result(encoding: str, seed: int, name: str, **figures: float) -> dict:
    own = {"loss": 2.0 + seed, "sacrebleu_greedy": 10.0 * seed, "words_of_reference": 0.5}
    return {"encoding": encoding, "seed": seed, "length": name, **own, **figures}


@pytest.fixture
def found() -> dict:
    results = [result(e, seed, name) for e in length.ENCODINGS for seed in length.SEEDS for name in NAMES]
    groups = {name: {"pairs": 1234, "tokens": 9, "learned": [0.1, 0.05, 0.2], "none": [1, 0.5, 2]} for name in NAMES}
    return {"groups": groups, "translated": length.TRANSLATED, "results": results}


def test_every_sentence_is_in_one_group():
    lengths = np.array([1, 20, 21, 40, 41, 60, 61, 80, 81, 100, 101, 999])
    groups = length.groups(lengths)
    assert list(groups) == ["1 to 20", "21 to 40", "41 to 60", "61 to 80", "81 to 100", "over 100"]
    assert [indices.tolist() for indices in groups.values()] == [[i, i + 1] for i in range(0, 12, 2)]


def test_a_group_may_be_empty():
    assert [len(indices) for indices in length.groups(np.array([30, 30])).values()] == [0, 2, 0, 0, 0, 0]


def test_means_are_those_of_the_seeds(found):
    found["results"] = [one | {"loss": 9.0} if one["length"] == NAMES[-1] else one for one in found["results"]]
    assert length.means(found, "learned", "loss").tolist() == [3.5] * (len(NAMES) - 1) + [9.0]
    assert length.means(found, "none", "sacrebleu_greedy").tolist() == [15.0] * len(NAMES)


def test_the_finding_compares_what_was_seen_with_the_longest(found):
    found["results"] += [result("none", 3, NAMES[1], loss=17.0), result("none", 3, NAMES[-1], words_of_reference=2.0)]
    for name in (NAMES[0], *NAMES[2:-1]):  # as many seeds of each
        found["results"].append(result("none", 3, name))
    said = length.finding(found)
    assert "For pairs of over 100 tokens, translations by models trained to 40 tokens" in said
    assert "between 50% and 100% of the reference's words" in said


def test_the_table_has_a_line_for_each_length(found, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    figure, _, table, _, differences = length.report(found).split("\n\n")
    cells = ["3.50"] * 3 + ["15.0"] * 3 + ["50%"] * 3
    assert table.splitlines()[2] == f"| 1 to 20 | 1,234 | 150 | {' | '.join(cells)} |"
    assert len(table.splitlines()) == len(differences.splitlines()) == 2 + len(NAMES)
    assert "+0.100 (+0.050 to +0.200) | +1.000 (+0.500 to +2.000)" in differences
    assert figure.endswith("(figures/length.svg)") and (tmp_path / "length.svg").exists()


SENTENCES = list(PAIRS.items())
PAIRS_BY_TEST = dict(zip(length.TESTS, (SENTENCES[:2], SENTENCES[2:4], SENTENCES[4:]), strict=True))


class TinyLab(Lab):
    """Every run is the checkpoint that knows its sentences by heart; the losses are those of its encoding."""

    def train(self, name, recipe, runs, settings=(), seeds=(1,)):
        assert (name, recipe, list(runs), seeds) == ("length", "documentation", list(length.ENCODINGS), length.SEEDS)
        return [TinyRun(row, seed, Path(f"{row}-seed{seed}"), {}) for row in runs for seed in seeds]

    def pairs(self, name):
        return PAIRS_BY_TEST[name]

    def losses(self, models, pairs):
        """Ten tokens a pair, with 0.5 nats each and, without positions, 1 more."""
        losses = [[(number, 10.0) for number in range(len(PAIRS_BY_TEST[pairs]))] for _ in models]
        return [np.array(rows) + [[5.0 + 10 * (i >= 4), 0]] for i, rows in enumerate(losses)]


class TinyRun(Run):
    model = property(lambda self: tiny_checkpoint())


def test_the_experiment_measures_every_run_in_every_group(monkeypatch, tmp_path):
    """The sentences have up to 38 tokens, so that four groups would be empty."""
    monkeypatch.setattr(length, "BOUNDS", (12,))
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    found = length.run(TinyLab(tmp_path, tmp_path))
    names = ["1 to 12", "over 12"]
    assert [(r["encoding"], r["seed"], r["length"]) for r in found["results"]] == [
        (encoding, seed, name) for encoding in length.ENCODINGS for seed in length.SEEDS for name in names
    ]
    assert sum(group["pairs"] for group in found["groups"].values()) == len(PAIRS)
    for group in found["groups"].values():
        assert group["learned"][0] == 0 and group["none"][0] == pytest.approx(1)
    assert {r["words_of_reference"] for r in found["results"]} == {1.0}


def test_translations_are_scored_against_the_references_of_their_group():
    pairs = [*SENTENCES[:3], ("Two dogs run.", "Ganz andere Worte stehen hier als Referenz.")]
    run = TinyRun("none", 1, Path("none-seed1"), {})
    found = length.scores(run, pairs, {"known": np.array([0, 1, 2]), "unknown": np.array([3])})
    assert found["known"] == {"sacrebleu_greedy": 100.0, "words_of_reference": 1.0}
    assert found["unknown"]["sacrebleu_greedy"] < 10 and found["unknown"]["words_of_reference"] == 0.429


def test_only_the_first_sentences_of_a_group_are_translated(monkeypatch):
    asked = []
    monkeypatch.setattr(length, "TRANSLATED", 2)
    monkeypatch.setattr(length, "translate_texts", lambda *args, **_: asked.append(args[2]) or ["x"] * len(args[2]))
    run = TinyRun("none", 1, Path("none-seed1"), {})
    length.scores(run, SENTENCES, {"all": np.array([3, 1, 2])})
    assert asked == [["Hello!", "Two dogs run."]]
