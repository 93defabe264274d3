"""Sentences by their length, and the table of what each encoding loses there."""

import numpy as np
import pytest

from experiments import figures, length


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
    assert "of 21 to 40 and of over 100 tokens" in said
    assert "none 8.00 and 4.00, where translations have 100% of the reference's words" in said


def test_the_table_has_a_line_for_each_length(found, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    figure, _, table, _, differences = length.report(found).split("\n\n")
    cells = ["3.50"] * 3 + ["15.0"] * 3 + ["50%"] * 3
    assert table.splitlines()[2] == f"| 1 to 20 | 1,234 | 150 | {' | '.join(cells)} |"
    assert len(table.splitlines()) == len(differences.splitlines()) == 2 + len(NAMES)
    assert "+0.100 (+0.050 to +0.200) | +1.000 (+0.500 to +2.000)" in differences
    assert figure.endswith("(figures/length.svg)") and (tmp_path / "length.svg").exists()
