"""Which learning rates are chosen, which curves are judged, and what is said of them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from experiments import figures, optimisers
from experiments.lab import FOLDER, Lab, Run
from training import average
from training.optimisation import learning_rate
from training.recipe import load_recipe


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


class AveragingLab(Lab):
    """Averages in this process; the loss of a model is its only weight."""

    def run_module(self, module, *arguments):
        assert module == "training.average"
        average.main([*map(str, arguments)])

    def loss(self, model, pairs):
        assert pairs == optimisers.VALIDATION
        return load_file(model / "model.safetensors")["weight"].item()


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """A run of ten checkpoints, each with the square of its number as its weight."""
    monkeypatch.setattr(optimisers, "STEPS", 1000)
    for number in range(1, 11):
        folder = tmp_path / f"checkpoint-{number * optimisers.EVERY:07}"
        folder.mkdir()
        save_file({"weight": torch.tensor([float(number) ** 2])}, folder / "model.safetensors")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    save_file({"weight": torch.tensor([-1.0])}, tmp_path / "model" / "model.safetensors")
    return Run("adam-0.5", 2, tmp_path, {})


def test_averages_are_those_of_torch_over_the_last_five_checkpoints(trained):
    found = optimisers.averages(AveragingLab(Path(), None), trained)
    assert list(found) == [str(step) for step in range(500, 1001, 100)]
    for step, loss in found.items():
        last = int(step) // optimisers.EVERY
        module = torch.nn.Linear(1, 1, bias=False)
        averaged = torch.optim.swa_utils.AveragedModel(module)
        for number in range(last - 4, last + 1):
            module.weight.data.fill_(number**2)
            averaged.update_parameters(module)
        assert loss == pytest.approx(averaged.module.weight.item())


def test_averages_are_computed_once_and_have_the_files_of_the_model(trained, monkeypatch):
    lab = AveragingLab(Path(), None)
    found = optimisers.averages(lab, trained)
    folders = list((trained.folder / "averages").iterdir())
    assert len(folders) == 6 and all((folder / "config.json").exists() for folder in folders)
    monkeypatch.setattr(AveragingLab, "run_module", lambda *_: pytest.fail("averaged again"))
    assert optimisers.averages(lab, trained) == found


def test_the_curve_of_a_run_has_its_validations_alone(tmp_path):
    lines = [{"step": 100, "loss": 5.0}, {"step": 100, "validation_loss": 4.00004}, {"step": 200, "bleu": 3}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    curve = optimisers.curve(Run("adam", 1, tmp_path, {}))
    assert curve == {"100": 4.0} and optimisers.last(curve) == 4.0


@pytest.mark.parametrize("way", optimisers.WAYS)
def test_the_settings_of_every_way_make_a_recipe_with_its_optimiser_and_schedule(way):
    recipe = load_recipe(FOLDER / "recipes" / "captions.yaml", optimisers.settings_of(way, 0.25))
    settings = recipe.optimisation
    assert settings.max_steps == optimisers.STEPS and settings.batch_tokens == optimisers.BATCH
    assert settings.optimiser == {"muon": "muon", "free": "schedule_free"}.get(way.partition("-")[0], "adam")
    rates = [learning_rate(step, recipe.model["d_model"], settings) for step in (400, optimisers.STEPS)]
    equation_3 = [0.25 * 128**-0.5 * min(step**-0.5, step * 400**-1.5) for step in (400, optimisers.STEPS)]
    assert rates[0] == pytest.approx(equation_3[0])
    if way.endswith("cooled"):
        assert rates[1] == pytest.approx(equation_3[1] / 1000)
    else:
        assert rates[1] == pytest.approx(equation_3[0 if way == "free" else 1])


@pytest.mark.parametrize("target", [2.0, 2.4, 3.7, 4.0])
def test_tokens_to_a_loss_are_numpys_interpolation(target):
    curve = {"100": 4.0, "300": 3.0, "600": 2.5, "700": 2.0}
    expected = np.interp(-target, [-loss for loss in curve.values()], [int(step) for step in curve])
    assert optimisers.tokens_to(target, curve) == pytest.approx(expected * optimisers.BATCH / 1000)
