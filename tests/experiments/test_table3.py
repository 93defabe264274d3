"""The rows of Table 3 and what is said of them."""

import math

import numpy as np
import pytest

from experiments import figures, table3


def test_a_claim_is_the_logarithm_of_the_papers_perplexities():
    assert table3.ROWS["n1"].claim == pytest.approx(math.log(6.11 / 4.92))
    assert table3.BASE.claim is None


@pytest.mark.parametrize("part", "ABCDE")
def test_every_part_of_the_papers_table_has_rows_with_its_figures(part):
    rows = [row for row in table3.ROWS.values() if row.part == part]
    assert rows and all(row.perplexity and row.bleu for row in rows)


def test_no_two_rows_are_trained_alike():
    settings = [tuple(row.settings) for row in (table3.BASE, *table3.ROWS.values())]
    assert len(set(settings)) == len(settings)


def test_a_loss_is_weighed_by_tokens():
    assert table3.loss_of(np.array([[1.0, 1.0], [9.0, 3.0]])) == 2.5


def rows(**verdicts) -> list[dict]:
    """The base row, and one of each verdict, with a difference of 0.1 nats."""
    losses = {"parameters": 1000, "losses": {"1": 2.0, "2": 2.2}, "sacrebleu_greedy": [30.0, 32.0]}
    judged = [{"row": row, "difference": [0.1, 0.05, 0.2], "verdict": v, **losses} for row, v in verdicts.items()]
    return [{"row": "base", **losses}, *judged, {"row": "smoothing-0", **losses}]


FOUND = {
    "seeds": [1, 2],
    "rows": rows(h1="holds", n1="fails", learned="cannot be resolved", separate="worse", untied="no difference seen"),
}


def test_the_finding_counts_the_papers_rows_and_names_the_others():
    said = table3.finding(FOUND)
    assert "Of 3 rows of Table 3 the direction holds for 1, fails for 1 (1 layer (2))" in said
    assert "cannot be resolved for 1 (learned positions)" in said
    assert "Q, K and V initialised each by itself +0.100 (+0.050 to +0.200)." in said
    assert "No difference seen: three embedding matrices." in said and "Label smoothing" not in said


def test_the_table_shows_the_paper_beside_what_was_found(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    lines = table3.report(FOUND).split("\n\n")[2].splitlines()
    assert lines[2] == "|  | the base model |  | 2.100 | 0.141 |  | 31.0 | 1,000 |  |"
    assert lines[3] == ("| A | 1 head | +0.073 | +0.100 (+0.050 to +0.200) | 0.141 | -0.9 | 31.0 | 1,000 | holds |")


def test_what_is_surely_far_away_is_drawn_at_the_edge(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    table3.draw([{"row": "h1", "difference": [0.1, 0.0, 0.2]}, {"row": "unscaled", "difference": [2.0, 1.5, 2.5]}])
    svg = (tmp_path / "table3.svg").read_text()
    assert "+2.000 (+1.500 to +2.500)" in svg and "+0.100" not in svg and "A  1 head" in svg


@pytest.mark.parametrize(("names", "shown"), [([], ""), (["a", "b"], " (a, b)")])
def test_lists_are_in_brackets(names, shown):
    assert table3.listed(names) == shown
