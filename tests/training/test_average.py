"""`python -m training.average`: the mean of checkpoints."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file, save_file

from training import average
from training.average import average_checkpoints, last_checkpoints


def save(path, **tensors):
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: torch.tensor(value) for name, value in tensors.items()}, path)
    return path


def test_mean_in_float32(tmp_path):
    for i, value in enumerate((1.0, 2.0, 6.0)):
        save_file({"w": torch.full((2,), value, dtype=torch.bfloat16)}, tmp_path / f"{i}.safetensors")
    mean = average_checkpoints(sorted(tmp_path.iterdir()))
    assert mean["w"].dtype == torch.float32 and mean["w"].tolist() == [3.0, 3.0]


def test_files_folders_and_parts_are_averaged(run, tmp_path):
    file = save(tmp_path / "a.safetensors", v=[1.0], w=[2.0])
    save(tmp_path / "folder" / "model.safetensors", v=[3.0], w=[4.0])
    save(tmp_path / "parts" / "model-1.safetensors", v=[5.0])
    save(tmp_path / "parts" / "model-2.safetensors", w=[9.0])
    index = {"weight_map": {"v": "model-1.safetensors", "w": "model-2.safetensors"}}
    (tmp_path / "parts" / "model.safetensors.index.json").write_text(json.dumps(index))
    output = tmp_path / "mean.safetensors"
    status, out, err = run(average, output, file, tmp_path / "folder", tmp_path / "parts")
    assert status == 0, err
    assert {name: tensor.tolist() for name, tensor in load_file(output).items()} == {"v": [3.0], "w": [5.0]}


def test_the_last_checkpoints_of_a_run(run, tmp_path):
    for step in (900, 1000, 1100, 20):
        save(tmp_path / "run" / f"checkpoint-{step}" / "model.safetensors", w=[float(step)])
    save(tmp_path / "run" / "checkpoint-1200.partial" / "model.safetensors", w=[1e9])
    assert [folder.name for folder in last_checkpoints(tmp_path / "run", 3)] == [
        f"checkpoint-{s}" for s in (900, 1000, 1100)
    ]
    output = tmp_path / "mean.safetensors"
    assert run(average, output, tmp_path / "run", "--last", 2)[0] == 0
    assert load_file(output)["w"].tolist() == [1050.0]
    for arguments, message in (
        ([tmp_path / "run"], "Choose how many with --last N"),
        ([tmp_path / "run", "--last", 5], "has 4 checkpoints"),
        ([tmp_path / "run", "--last", 0], "--last: must be 1 or more"),
        ([tmp_path / "run", tmp_path / "run", "--last", 1], "nothing else"),
    ):
        status, _, err = run(average, tmp_path / "other.safetensors", *arguments)
        assert status > 0 and message in err


def test_averaging_names_what_is_wrong(run, tmp_path):
    good = save(tmp_path / "good.safetensors", v=[1.0], w=[2.0])
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(good.read_bytes()[:-3])
    torch.save({"w": torch.zeros(1)}, tmp_path / "pickle.safetensors")
    cases = {
        save(tmp_path / "missing.safetensors", v=[1.0]): "w is missing",
        save(tmp_path / "more.safetensors", v=[1.0], w=[1.0], x=[1.0]): "x is not in the checkpoints before it",
        save(tmp_path / "shape.safetensors", v=[1.0], w=[1.0, 2.0]): "w has shape [2] instead of [1]",
        save(tmp_path / "nan.safetensors", v=[1.0], w=[math.nan]): "w has values that are not finite",
        damaged: "is damaged",
        tmp_path / "pickle.safetensors": "is a pickle",
        tmp_path / "absent.safetensors": "No such file or folder",
    }
    (tmp_path / "before").mkdir()
    before = save(tmp_path / "before" / "mean.safetensors", w=[7.0]).read_bytes()
    for path, message in cases.items():
        status, out, err = run(average, tmp_path / "before" / "mean.safetensors", good, path)
        assert (status > 0, out) == (True, "") and message in err and path.name in err
    assert [path.read_bytes() for path in (tmp_path / "before").iterdir()] == [before]
    assert "not a .safetensors file name" in run(average, tmp_path / "mean.pt", good)[2]
    with pytest.raises(ValueError, match="no checkpoints"):
        average_checkpoints([])
