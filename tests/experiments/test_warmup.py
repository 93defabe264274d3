"""Which cells of the map are tried again, and what a run that failed counts for."""

import json

import numpy as np
import pytest
import torch
from scipy import stats

from experiments import figures, warmup
from experiments.lab import FOLDER, Lab, Run
from training.optimisation import learning_rate
from training.recipe import load_recipe
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration


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


# Against other code --------------------------------------------------------------------------------------------------


def recipe_of(scale: float, warm_up: int):
    settings = [*warmup.SETTINGS, *warmup.settings_of("pre", scale, warm_up)]
    return load_recipe(FOLDER / "recipes" / "captions.yaml", settings)


def test_the_longest_warm_up_at_full_rate_is_equation_3():
    recipe = recipe_of(1.0, warmup.WARM_UPS[-1])
    for step in (1, 100, 400, 600):
        equation_3 = 128**-0.5 * min(step**-0.5, step * 400**-1.5)
        assert learning_rate(step, 128, recipe.optimisation) == pytest.approx(equation_3)
    assert pytest.approx(0.0044, abs=5e-5) == warmup.PEAK == learning_rate(400, 128, recipe.optimisation)
    assert recipe.model["d_model"] == 128 and recipe.optimisation.max_steps == warmup.STEPS


@pytest.mark.parametrize("warm_up", warmup.WARM_UPS)
def test_every_cell_has_the_peak_of_its_scale_until_the_rate_falls(warm_up):
    recipe = recipe_of(0.5, warm_up)
    rates = [learning_rate(step, 128, recipe.optimisation) for step in range(1, warmup.STEPS + 1)]
    assert max(rates) == pytest.approx(0.5 * warmup.PEAK)
    assert rates[warm_up - 1 : warmup.DECAY_FROM] == pytest.approx([max(rates)] * (warmup.DECAY_FROM - warm_up + 1))
    assert rates[-1] == pytest.approx(max(rates) * (warmup.DECAY_FROM / warmup.STEPS) ** 0.5)


def test_the_norms_of_gradients_are_torchs():
    """The same seed, batch and model, with the norms computed by `clip_grad_norm_`."""
    torch.manual_seed(0)
    config = VaswaniConfig(vocab_size=4096, d_model=128, d_ff=512, norm_position="pre")
    model = VaswaniForConditionalGeneration(config)
    source, target = torch.randint(2, config.vocab_size, (2, 64, 16))
    model(input_ids=source, labels=target).loss.backward()
    measured = warmup.gradients("pre", seeds=1)
    for stack, norms in measured.items():
        layers = getattr(model.model, stack).layers
        expected = [torch.nn.utils.clip_grad_norm_(layer.parameters(), 1e9).item() for layer in layers]
        assert norms == pytest.approx(expected, abs=1e-4)


def test_the_verdict_of_clear_differences_is_that_of_a_paired_t_test():
    rng = np.random.default_rng(0)
    for gap in (-0.2, 0.0, 0.05, 0.2):
        usual, after, before = rng.normal(3, 0.05, (3, 4))
        after = after + gap
        again = {norm: {"1": list(loss), "400": list(usual)} for norm, loss in (("post", after), ("pre", before))}
        low, high = stats.ttest_rel(after, before).confidence_interval(0.95)
        verdict = "holds" if low > 0 else "fails" if high < 0 else "cannot be resolved"
        assert f"warm-up {verdict} (" in warmup.finding({"again": again, "gradients": GRADIENTS})


def test_the_experiment_trains_the_map_once_and_the_best_cells_again(tmp_path, monkeypatch):
    monkeypatch.setattr(warmup, "gradients", lambda norm: GRADIENTS[norm])
    asked = []

    class MapLab(Lab):
        def train(self, name, recipe, runs, settings=(), seeds=(1,)):
            asked.append((name, recipe, len(runs), tuple(seeds)))
            runs = [Run(row, seed, tmp_path / f"{row}-seed{seed}", {}) for row in runs for seed in seeds]
            for run in runs:
                run.folder.mkdir(exist_ok=True)
                (run.folder / "log.jsonl").write_text(json.dumps({"validation_loss": float(len(run.row))}))
            return runs

    results = warmup.run(MapLab(tmp_path, tmp_path))
    assert asked == [("warmup", "captions", len(warmup.CELLS), (1,)), ("warmup-again", "captions", 4, warmup.FRESH)]
    assert len(results["losses"]) == len(warmup.CELLS) and results["gradients"] == GRADIENTS
    assert results["again"]["post"] == {"1": [8.0] * 4, "400": [10.0] * 4}
