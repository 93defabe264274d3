"""Which learning rates are chosen, which curves are judged, and what is said of them."""

import json

import pytest

from experiments import figures, optimisers
from experiments.lab import Lab, Run


END = str(optimisers.STEPS)
CURVES = {
    "adam": {"1": {"1000": 9.0, END: 9.0}, "2": {"1000": 3.0, END: 2.0}, "3": {"1000": 3.2, END: 2.2}},
    "muon": {"1": {"1000": 9.0, END: 9.0}, "2": {"1000": 2.1, END: 1.0}, "3": {"1000": 2.1, END: 1.0}},
    "free": {"1": {"1000": 9.0, END: 9.0}, "2": {"1000": 4.0, END: 2.0}, "3": {"1000": 4.0, END: 3.0}},
    "averaged": {"1": {"1000": 1.0, END: 1.0}, "2": {"1000": 4.0, END: 3.0}, "3": {"1000": 4.0, END: 3.0}},
}
FOUND = {"curves": CURVES, "best": {"adam": 0.5, "muon": 1.0, "free": 1.0}, "tuning": {"adam-0.5": 9.0}}


def test_the_seed_that_chose_the_rates_is_not_judged():
    assert {seed for of_way in optimisers.judged(FOUND).values() for seed in of_way} == {"2", "3"}
    assert optimisers.target_of(FOUND) == pytest.approx(2.1)


def test_the_finding_says_what_share_of_the_tokens_is_needed():
    said = optimisers.finding(FOUND)
    assert said.startswith('"Muon, equation 3" needs the fewest tokens') and "Adam: 50% of Adam's." in said
    assert "Schedule-Free" not in said, "one of its seeds does not reach the target"
    assert said.endswith("These never reach it: Adam, equation 3, averaged.")


def test_the_report_has_a_line_for_each_optimiser(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    lines = optimisers.report(FOUND).split("\n\n")[1].splitlines()
    assert lines[2:] == [
        "| Adam, equation 3 (the paper) | 0.5 | 2.100 (2.000 to 2.200) | 1,946 | 95% (1 of 2 seeds) |",
        "| Muon, equation 3 | 1 | 1.000 (1.000 to 1.000) | 1,024; 1,024 | 50% |",
        "| Schedule-Free AdamW | 1 | 2.500 (2.000 to 3.000) | 1,997 | 98% (1 of 2 seeds) |",
        "| Adam, equation 3, averaged | 0.5 | 3.000 (3.000 to 3.000) | not reached |  |",
    ]
    assert (tmp_path / "optimisers.svg").exists()


def test_only_the_papers_checkpoints_are_all_kept():
    kept = f"checkpointing.average_last={optimisers.STEPS // optimisers.EVERY}"
    assert [way for way in optimisers.WAYS if kept in optimisers.settings_of(way, 1.0)] == [optimisers.PAPER]
    assert optimisers.settings_of("muon", 0.25) == [*optimisers.MUON, "optimisation.learning_rate_scale=0.25"]


def test_each_optimiser_is_trained_again_with_its_own_best_rate(tmp_path, monkeypatch):
    """One never learns at any rate, and is left out."""
    best = {"adam": 0.25, "adam-cooled": 0.5, "muon": 1.0, "muon-cooled": 0.25}
    trained = []

    class Records(Lab):
        def train(self, name, recipe, runs, settings=(), seeds=(1,)):
            trained.append((list(runs), seeds))
            return [self.run(row, seed) for row in runs if not row.startswith("free-") for seed in seeds]

        def run(self, row, seed):
            way, _, scale = row.rpartition("-")
            folder = tmp_path / f"{row}-seed{seed}"
            folder.mkdir()
            loss = 2.0 if float(scale) == best[way] else 3.0
            lines = [{"step": 100, "loss": 5.0}, {"step": 100, "validation_loss": loss}]
            (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
            return Run(row, seed, folder, {})

    monkeypatch.setattr(optimisers, "averages", lambda lab, run: {"100": float(run.seed)})
    found = optimisers.run(Records(tmp_path, tmp_path))
    (tried, first), (chosen, others) = trained
    assert len(tried) == len(optimisers.WAYS) * len(optimisers.SCALES) and first == (1,) and others == (2, 3)
    assert found["best"] == best and set(chosen) == {f"{way}-{scale:g}" for way, scale in best.items()}
    assert found["curves"]["muon"] == dict.fromkeys("123", {"100": 2.0})
    assert found["curves"]["averaged"] == {"1": {"100": 1.0}, "2": {"100": 2.0}, "3": {"100": 3.0}}
