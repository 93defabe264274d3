"""A grid trains each variant once and records what it reached."""

import json
import sys

import pytest
from processes import quick_subprocess
from toy_data import write_toy

from training import grid
from training.grid import read_grid


GRID = """
recipe: recipe.yaml
set: [optimisation.max_steps=2, checkpointing.bleu_steps=2, checkpointing.bleu_sentences=2]
runs:
  plain: {why: the baseline}
  wide: {set: [data.train.0.held_out=0, model.d_ff=96]}
"""


def test_runs_are_recorded_and_finished_ones_are_not_repeated(tmp_path, monkeypatch, capsys):
    folder = write_toy(tmp_path / "data") if (tmp_path / "data").mkdir() is None else None
    (folder / "grid.yaml").write_text(GRID, encoding="utf-8")
    command = ["grid", str(folder / "grid.yaml"), "--data", str(folder), "--output", str(tmp_path / "runs")]
    command += ["--results", str(tmp_path / "results.json")]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(grid, "subprocess", quick_subprocess)
    grid.main()
    plain, wide = json.loads((tmp_path / "results.json").read_text())
    assert (plain["run"], plain["why"], plain["steps"], plain["tokens"]) == ("plain", "the baseline", 2, 800)
    assert wide["settings"][-1] == "model.d_ff=96" and wide["parameters"] > plain["parameters"]
    assert plain["bits_per_character"].keys() == plain["sacrebleu_greedy"].keys() == {"test.tsv", "Toy, held out"}
    assert wide["bits_per_character"].keys() == wide["sacrebleu_greedy"].keys() == {"test.tsv"}
    text = capsys.readouterr().out
    assert "plain: finished" in text and "| wide |" in text
    grid.main()
    assert "finished" not in capsys.readouterr().out, "a finished run was trained again"
    (folder / "grid.yaml").write_text(GRID.replace("d_ff=96", "d_ff=64"), encoding="utf-8")
    with pytest.raises(SystemExit):
        grid.main()
    assert "wide has a run with other settings: model.d_ff" in capsys.readouterr().err


def test_seeds_take_turns(tmp_path):
    folder = write_toy(tmp_path)
    (folder / "grid.yaml").write_text(GRID + "seeds: [3, 8]\n", encoding="utf-8")
    _, variants = read_grid(folder / "grid.yaml")
    assert [variant.name for variant in variants] == ["plain-seed3", "wide-seed3", "plain-seed8", "wide-seed8"]
    assert [variant.settings[-1] for variant in variants] == ["seed=3", "seed=3", "seed=8", "seed=8"]
    assert "model.d_ff=96" in variants[-1].settings


@pytest.mark.parametrize(
    ("text", "message"),
    [("runs: {}", "not a grid"), ("- a", "not a grid"), (GRID.replace("d_ff=96", "d_fff=96"), "d_fff is not a field")],
)
def test_wrong_grids_are_refused_before_anything_runs(tmp_path, text, message):
    folder = write_toy(tmp_path)
    (folder / "grid.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_grid(folder / "grid.yaml")


def test_no_jobs_are_no_grid(tmp_path, capsys):
    with pytest.raises(SystemExit):
        grid.main([str(tmp_path / "grid.yaml"), "--output", str(tmp_path), "--jobs", "0"])
    assert "--jobs: must be 1 or more" in capsys.readouterr().err
