"""Which cells of the map are tried again, and what a run that failed counts for."""

import json

import numpy as np
import pytest

from experiments import figures, warmup
from experiments.lab import Lab, Run


def losses(**changed: float) -> dict[str, float]:
    """The map of losses: 3.0 in each cell that trained, and what is given for others by name."""
    return {warmup.name_of(*cell): 3.0 for cell in warmup.CELLS} | changed


GRADIENTS = {norm: {"encoder": [1.0, 2.0], "decoder": [1.0, 4.0]} for norm in warmup.NORMS}


def test_every_cell_has_a_name_and_settings_of_its_own():
    assert len(losses()) == len(warmup.CELLS) == len({str(warmup.settings_of(*cell)) for cell in warmup.CELLS})


def test_the_map_has_warm_ups_as_rows_and_no_number_where_a_run_failed():
    found = losses(**{"pre-0.5-25": 2.5})
    del found["post-2-1"]
    maps = warmup.maps({"losses": found})
    assert maps["pre"].shape == (len(warmup.WARM_UPS), len(warmup.SCALES))
    assert maps["pre"][warmup.WARM_UPS.index(25), warmup.SCALES.index(0.5)] == 2.5
    assert np.isnan(maps["post"][0, -1]) and np.isnan(maps["post"]).sum() == 1


def test_fresh_seeds_take_the_best_rate_of_the_shortest_and_the_longest_warm_up(tmp_path):
    trained = {}

    class Records(Lab):
        def train(self, name, recipe, runs, settings=(), seeds=(1,)):
            trained.update(runs)
            return [self.run(row, seed) for row in runs for seed in seeds if (row, seed) != ("post-0.125-1", 5)]

        def run(self, row, seed):
            folder = tmp_path / f"{row}-seed{seed}"
            folder.mkdir()
            lines = [{"validation_loss": 9.0}, {"validation_loss": float(seed)}, {"loss": 1.0}]
            (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
            return Run(row, seed, folder, {})

    best = {"post-0.125-1": 2.0, "post-1-400": 2.0, "pre-2-1": 2.0, "pre-0.5-400": 2.0, "post-0.25-100": 0.1}
    found = warmup.again(Records(tmp_path, tmp_path), losses(**best))
    assert list(trained) == ["post-0.125-1", "post-1-400", "pre-2-1", "pre-0.5-400"]
    assert found["post"] == {"1": [2.0, 3.0, 4.0], "400": [2.0, 3.0, 4.0, 5.0]}
    assert found["pre"]["1"] == [2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("after", "before", "verdict"), [(3, 4, "holds"), (4, 3, "fails"), (3, 3, "cannot be resolved")]
)
def test_a_run_that_failed_without_warm_up_counts_for_the_claim(after, before, verdict):
    usual = [3.0, 3.0, 3.0, 3.0]
    again = {"post": {"1": usual[:after], "400": usual}, "pre": {"1": usual[:before], "400": usual}}
    assert np.isinf(warmup.costs_of_none({"again": again})["post"]).sum() == 4 - after
    said = warmup.finding({"again": again, "gradients": GRADIENTS})
    assert f"warm-up {verdict} (a loss was not finite)" in said and "is 4.0 times that of its first" in said


def test_the_report_says_failed_where_no_fresh_seed_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    again = {
        "post": {"1": [], "400": [3.0, 3.0, 3.2, 3.2]},
        "pre": {"1": [3.5, 3.6, 3.7, 3.6], "400": [3.0, 3.0, 3.2, 3.2]},
    }
    page = warmup.report({"losses": losses(), "again": again, "gradients": GRADIENTS})
    assert "| after (the paper) | failed | 3.10 (3.00 to 3.20) | a run failed |" in page
    assert "| before | 3.60 (3.50 to 3.70) | 3.10 (3.00 to 3.20) | +0.500 (" in page
