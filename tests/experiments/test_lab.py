"""Runs of a lab: trained by training.grid, found again, and measured by training.likelihood."""

import json
import signal
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from processes import quick_subprocess
from toy_data import toy_pairs, write_toy

from experiments import lab as room
from experiments.lab import ExperimentError, Lab
from training import grid


@pytest.fixture(scope="module", autouse=True)
def quick_processes():
    """The grid in this process, where it starts its runs as quickly as the lab its other commands."""
    call = Lab.call

    def quick_call(self, module, *arguments, stdout, **streams):
        if module != "training.grid":
            return call(self, module, *arguments, stdout=stdout, **streams)
        try:
            with redirect_stdout(stdout), redirect_stderr(stdout):
                grid.main([*map(str, arguments)])
        except SystemExit as end:
            return end.code or 0
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lab, "call", quick_call)
        patch.setattr(room, "subprocess", quick_subprocess)
        patch.setattr(grid, "subprocess", quick_subprocess)
        handlers = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
        yield
    for number, handler in handlers:
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    write_toy(folder)
    (folder / "recipes").mkdir()
    (folder / "recipe.yaml").rename(folder / "recipes" / "toy.yaml")
    return Lab(folder, folder / "runs", jobs=2)


@pytest.fixture(scope="module")
def runs(lab):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "ROOM", lab.data)
        return lab.train("toy", "toy", {"plain": [], "wide": ["model.d_ff=96"]}, ["optimisation.max_steps=4"], (2,))


def test_each_row_is_trained_with_its_settings_and_seed(runs):
    assert [(run.name, run.row, run.seed) for run in runs] == [("plain-seed2", "plain", 2), ("wide-seed2", "wide", 2)]
    recipes = [json.loads((run.model / "training.json").read_text())["recipe"] for run in runs]
    assert [recipe["seed"] for recipe in recipes] == [2, 2]
    assert recipes[1]["model"]["d_ff"] == 96 and runs[1].facts["steps"] == 4
    assert any("validation_loss" in line for line in runs[0].log())


def test_losses_are_those_of_validation(lab, runs):
    """The loop's own figure, of the same pairs, comes from other code."""
    losses = lab.losses([runs[0].model], "test.tsv")[0]
    assert losses.shape[1] == 2 and (losses[:, 1] >= 2).all()
    recorded = json.loads((runs[0].model / "training.json").read_text())["validation"]["test.tsv"]
    lines = (lab.data / "test.tsv").read_text(encoding="utf-8").splitlines()
    characters = sum(len(line.split("\t")[1]) for line in lines)
    assert losses[:, 0].sum() / np.log(2) / characters == pytest.approx(recorded, rel=1e-3)
    assert lab.loss(runs[0].model, "test.tsv") == pytest.approx(losses[:, 0].sum() / losses[:, 1].sum())


def test_what_cannot_be_trained_is_a_message(lab, monkeypatch):
    monkeypatch.setattr(room, "ROOM", lab.data)
    with pytest.raises(ExperimentError, match="d_fff is not a field"):
        lab.train("wrong", "toy", {"plain": ["model.d_fff=96"]})


def test_a_run_that_failed_is_no_result_unless_its_loss_was_not_finite(lab, runs, monkeypatch):
    monkeypatch.setattr(room, "ROOM", lab.data)
    finished = {"plain": []}
    again = lab.data / "runs" / "toy"
    monkeypatch.setattr(Lab, "call", lambda *_, **__: 0)
    with pytest.raises(ExperimentError, match="lost-seed2 was not trained"):
        lab.train("toy", "toy", {**finished, "lost": []}, seeds=(2,))
    (again / "lost-seed2").mkdir()
    (again / "lost-seed2" / "not_finite.tsv").touch()
    assert [run.row for run in lab.train("toy", "toy", {**finished, "lost": []}, seeds=(2,))] == ["plain", "wide"]


def test_finished_runs_go_on_elsewhere_without_their_weights(lab, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "ROOM", lab.data)
    monkeypatch.setattr(room, "RESULTS", tmp_path / "results")
    losses = lab.losses([run.model for run in runs], "test.tsv")
    lab.keep("toy")
    elsewhere = Lab(lab.data, tmp_path / "runs")
    variants = {"plain": [], "wide": ["model.d_ff=96"]}
    there = elsewhere.train("toy", "toy", variants, ["optimisation.max_steps=4"], (2,))
    assert [run.facts for run in there] == [run.facts for run in runs]
    assert not list((tmp_path / "runs").rglob("*.safetensors")), "nothing is trained again"
    np.testing.assert_array_equal(elsewhere.losses([run.model for run in there], "test.tsv"), losses)
    with pytest.raises(ExperimentError, match="other settings: optimisation.max_steps"):
        elsewhere.train("toy", "toy", variants, ["optimisation.max_steps=5"], (2,))


def test_what_cannot_be_measured_is_a_message(lab, tmp_path):
    with pytest.raises(ExperimentError, match="training.likelihood"):
        lab.losses([tmp_path], "test.tsv")
    assert not list(tmp_path.iterdir())


def test_pairs_are_read_from_the_data(lab):
    assert lab.pairs("train.tsv.xz") == list(toy_pairs(400))


def test_a_record_is_whole_with_its_origin(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "RESULTS", tmp_path)
    room.record("table3", {"seeds": [1]})
    found = room.recorded("table3")
    assert found["seeds"] == [1] and found["command"] == "python -m experiments table3"
    assert [path.name for path in tmp_path.iterdir()] == ["table3.json"]
