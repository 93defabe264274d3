"""Trees are scored as by evalb (Sekine and Collins), whose counts for 75 pairs of trees were recorded."""

from functools import cache
from pathlib import Path

import pytest

from experiments.parsing import summarise
from experiments.trees import Score, Tree, compare, read_tree


COUNTS = Path(__file__).parents[1] / "fixtures" / "evalb" / "counts.tsv"


@cache
def recorded() -> list[tuple[Tree, Tree, Score]]:
    """Gold tree, predicted tree, and evalb's counts."""
    lines = [line for line in COUNTS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = [line.split("\t") for line in lines]
    return [
        (read_tree(gold), read_tree(predicted), Score(int(correct), int(predicted_count), int(gold_count)))
        for gold, predicted, correct, gold_count, predicted_count in rows
    ]


def test_the_counts_of_each_pair_are_evalbs():
    wrong = [
        f"{predicted}: {compare(predicted, gold)}, evalb: {counts}"
        for gold, predicted, counts in recorded()
        if compare(predicted, gold) != counts
    ]
    assert len(recorded()) == 75 and wrong == []


def test_the_summary_is_evalbs():
    """From the end of evalb's output for these pairs."""
    gold, predicted, _ = zip(*recorded(), strict=True)
    summary = summarise(predicted, gold)
    expected = {"f1": 60.61, "precision": 61.19, "recall": 60.04, "exact": 25.33}
    assert expected == {"f1": summary["f1"][0], **{name: summary[name] for name in list(expected)[1:]}}


def test_the_f1_of_short_sentences_is_evalbs_for_them():
    """evalb's second summary, with its usual limit of 40 words."""
    gold, predicted, _ = zip(*(row for row in recorded() if len(list(row[0].leaves())) <= 40), strict=True)
    assert len(gold) == 74 and summarise(predicted, gold)["f1"][0] == 57.89


def test_the_interval_contains_the_f1_and_narrows_with_more_sentences():
    gold, predicted, _ = zip(*recorded(), strict=True)
    widths = []
    for times in (1, 4):
        value, low, high = summarise(predicted * times, gold * times)["f1"]
        assert low < value < high
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0] / 2, rel=0.25)


def test_swapping_gold_and_prediction_swaps_precision_and_recall():
    """Where both trees have the same tags: evalb takes the gold tree's."""
    pairs = [(g, p) for g, p, _ in recorded() if [leaf.tag for leaf in g.leaves()] == [leaf.tag for leaf in p.leaves()]]
    assert len(pairs) > 60
    for gold, predicted in pairs:
        correct, predicted_count, gold_count = compare(predicted, gold)
        assert compare(gold, predicted) == (correct, gold_count, predicted_count)


@pytest.mark.parametrize("words, group", [(10, "1 to 10"), (11, "11 to 20"), (60, "41 to 60"), (61, "over 60")])
def test_sentences_are_grouped_by_their_words(words, group):
    tree = read_tree(f"(S {' '.join(['(NN cell)'] * words)})")
    assert summarise([tree], [tree])["by_length"] == {group: 100.0}
