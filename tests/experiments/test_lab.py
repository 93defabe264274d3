"""Runs of a lab: trained by training.grid, reused, and measured by training.likelihood."""

import json
import signal
import tarfile
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest
from processes import quick_subprocess
from toy_data import toy_pairs, write_toy

from experiments import lab as lab_module
from experiments.lab import FOLDER, ExperimentError, Lab
from training import grid


@pytest.fixture(scope="module", autouse=True)
def quick_processes():
    """The grid in this process, where it starts its runs as quickly as the lab its other commands."""
    spawn = Lab.spawn

    def quick_spawn(self, module, *arguments, stdout, **streams):
        if module != "training.grid":
            return spawn(self, module, *arguments, stdout=stdout, **streams)
        try:
            with redirect_stdout(stdout), redirect_stderr(stdout):
                grid.main([*map(str, arguments)])
        except SystemExit as end:
            return end.code or 0
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lab, "spawn", quick_spawn)
        patch.setattr(lab_module, "subprocess", quick_subprocess)
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
        patch.setattr(lab_module, "FOLDER", lab.data)
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


def test_failed_training_is_a_message(lab, monkeypatch):
    monkeypatch.setattr(lab_module, "FOLDER", lab.data)
    with pytest.raises(ExperimentError, match="d_fff is not a field"):
        lab.train("wrong", "toy", {"plain": ["model.d_fff=96"]})


def test_a_failed_run_is_an_error_unless_its_loss_was_not_finite(lab, runs, monkeypatch):
    monkeypatch.setattr(lab_module, "FOLDER", lab.data)
    finished = {"plain": []}
    again = lab.data / "runs" / "toy"
    monkeypatch.setattr(Lab, "spawn", lambda *_, **__: 0)
    with pytest.raises(ExperimentError, match="Training lost-seed2 failed"):
        lab.train("toy", "toy", {**finished, "lost": []}, seeds=(2,))
    (again / "lost-seed2").mkdir()
    (again / "lost-seed2" / "not_finite.tsv").touch()
    assert [run.row for run in lab.train("toy", "toy", {**finished, "lost": []}, seeds=(2,))] == ["plain", "wide"]


def test_another_machine_resumes_from_archived_runs_without_weights(lab, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(lab_module, "FOLDER", lab.data)
    monkeypatch.setattr(lab_module, "RESULTS", tmp_path / "results")
    losses = lab.losses([run.model for run in runs], "test.tsv")
    lab.archive("toy")
    elsewhere = Lab(lab.data, tmp_path / "runs")
    variants = {"plain": [], "wide": ["model.d_ff=96"]}
    unpacked = elsewhere.train("toy", "toy", variants, ["optimisation.max_steps=4"], (2,))
    assert [run.facts for run in unpacked] == [run.facts for run in runs]
    assert not list((tmp_path / "runs").rglob("*.safetensors")), "nothing is trained again"
    np.testing.assert_array_equal(elsewhere.losses([run.model for run in unpacked], "test.tsv"), losses)
    with pytest.raises(ExperimentError, match="other settings: optimisation.max_steps"):
        elsewhere.train("toy", "toy", variants, ["optimisation.max_steps=5"], (2,))


def test_a_model_that_cannot_be_measured_is_a_message(lab, tmp_path):
    with pytest.raises(ExperimentError, match="training.likelihood"):
        lab.losses([tmp_path], "test.tsv")
    assert not list(tmp_path.iterdir())


def test_pairs_are_read_from_the_data(lab):
    assert lab.pairs("train.tsv.xz") == list(toy_pairs(400))


def test_results_are_written_with_their_origin(tmp_path, monkeypatch):
    monkeypatch.setattr(lab_module, "RESULTS", tmp_path)
    lab_module.write_results("table3", {"seeds": [1]})
    results = lab_module.read_results("table3")
    assert results["seeds"] == [1] and results["command"] == "python -m experiments table3"
    assert [path.name for path in tmp_path.iterdir()] == ["table3.json"]


def test_data_that_are_missing_are_named(tmp_path):
    with pytest.raises(ExperimentError, match=r"File not found: .*x\.tsv\. Set the data folder with --data"):
        Lab(tmp_path, None).path("x.tsv")
    with pytest.raises(ExperimentError, match="--work is missing"):
        Lab(tmp_path, None).folder("table3")


def test_a_run_has_its_log_and_its_model(tmp_path):
    (tmp_path / "base-seed1").mkdir()
    (tmp_path / "base-seed1" / "log.jsonl").write_text('{"step": 1}\n{"step": 2, "validation_loss": 3.0}\n')
    run = lab_module.Run("base", 1, tmp_path / "base-seed1", {})
    assert run.name == "base-seed1" and run.model == tmp_path / "base-seed1" / "model"
    assert run.log() == [{"step": 1}, {"step": 2, "validation_loss": 3.0}]


def test_the_output_of_a_module_is_returned_and_its_errors_are_shown(lab):
    with pytest.raises(
        ExperimentError, match=r"(?s)python -m training.recipe no-such-recipe failed:\n.*No such recipe"
    ):
        lab.run_module("training.recipe", "no-such-recipe")
    assert "name: captions" in lab.run_module("training.recipe", FOLDER / "recipes" / "captions.yaml")


class Interrupted:
    """A process that Ctrl-C reaches while the lab waits for it."""

    def __init__(self, command, **streams):
        self.signals, self.waited = [], 0

    def wait(self):
        self.waited += 1
        if not self.signals:
            raise KeyboardInterrupt
        return 0

    def send_signal(self, number):
        self.signals.append(number)


def test_an_interrupt_lets_the_process_save_and_stop_first(lab, monkeypatch, tmp_path):
    started = []

    def start(command, **streams):
        started.append(Interrupted(command, **streams))
        return started[-1]

    monkeypatch.setattr(lab_module, "subprocess", SimpleNamespace(Popen=start))
    with (tmp_path / "output").open("w") as output, pytest.raises(KeyboardInterrupt):
        lab.spawn("training.recipe", stdout=output)
    assert started[0].signals == [signal.SIGTERM] and started[0].waited == 2


# Archives ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def finished(tmp_path, monkeypatch) -> Lab:
    """A run that finished, one that did not, and one whose loss was not finite."""
    monkeypatch.setattr(lab_module, "RESULTS", tmp_path / "results")
    lab = Lab(tmp_path, tmp_path / "runs")
    files = {
        "done": ("recipe.json", "log.jsonl", "model/training.json", "model/model.safetensors", "checkpoint-1/x"),
        "half": ("recipe.json", "log.jsonl", "checkpoint-1/x"),
        "burst": ("recipe.json", "log.jsonl", "not_finite.tsv"),
    }
    for run, names in files.items():
        for name in names:
            path = lab.folder("toy") / run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{run} {name}")
    return lab


def test_an_archive_has_the_facts_of_runs_that_ended_and_no_owner(finished, tmp_path):
    finished.archive("toy")
    with tarfile.open(tmp_path / "results" / "runs" / "toy.tar.xz") as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == [
        "burst/recipe.json", "burst/log.jsonl", "burst/not_finite.tsv",
        "done/recipe.json", "done/log.jsonl", "done/model/training.json",
    ]  # fmt: skip
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}


def test_unpacking_keeps_the_runs_that_are_there(finished, tmp_path):
    finished.archive("toy")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "done").mkdir(parents=True)
    (elsewhere / "done" / "log.jsonl").write_text("newer")
    lab_module.unpack(tmp_path / "results" / "runs" / "toy.tar.xz", elsewhere)
    assert [path.name for path in (elsewhere / "done").iterdir()] == ["log.jsonl"]
    assert (elsewhere / "done" / "log.jsonl").read_text() == "newer"
    assert (elsewhere / "burst" / "not_finite.tsv").read_text() == "burst not_finite.tsv"
    lab_module.unpack(tmp_path / "none.tar.xz", elsewhere)  # nothing to unpack


def test_an_archive_cannot_write_outside_its_folder(tmp_path):
    (tmp_path / "evil.txt").write_text("evil")
    with tarfile.open(tmp_path / "evil.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "evil.txt", "../outside.txt")
    (tmp_path / "runs").mkdir()
    with pytest.raises(tarfile.OutsideDestinationError):
        lab_module.unpack(tmp_path / "evil.tar.xz", tmp_path / "runs")
    assert not (tmp_path / "outside.txt").exists()
