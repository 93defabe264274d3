"""Files that nobody vouches for."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from conversion.core import ConversionError
from conversion.reading import load_pickle


ROOT = Path(__file__).parents[1]


class Command:
    """A pickle that runs a command when it is loaded."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch '{self.path}'",)


@pytest.fixture(params=["zip", "old", "bare pickle"])
def hostile(request, tmp_path):
    path, mark = tmp_path / "model.pt", tmp_path / "it-ran"
    if request.param == "bare pickle":
        path.write_bytes(pickle.dumps({"model": Command(mark)}))
    else:
        torch.save({"model": Command(mark)}, path, _use_new_zipfile_serialization=request.param == "zip")
    return path, mark


def test_a_pickle_that_would_run_a_command_is_refused(hostile):
    path, mark = hostile
    with pytest.raises(ConversionError, match=r"asks for \w+\.system\. .*--unsafe|not written by torch.save"):
        load_pickle(path)
    assert not mark.exists()


def test_the_command_says_why_and_writes_nothing(hostile, tmp_path):
    path, mark = hostile
    command = [sys.executable, "-m", "conversion", "fairseq", path, tmp_path / "out"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 2 and "Traceback" not in run.stderr
    assert "rights" in run.stderr or "not written by torch.save" in run.stderr
    assert not mark.exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize("hostile", ["zip"], indirect=True)
def test_unsafe_runs_it_and_says_so(hostile, capsys):
    path, mark = hostile
    load_pickle(path, unsafe=True)
    assert mark.exists() and "--unsafe" in capsys.readouterr().out


@pytest.mark.parametrize("core", [b"numpy.core", b"numpy._core"], ids=["numpy 1", "numpy 2"])
def test_numbers_of_numpy_are_read(tmp_path, core):
    saved = {"loss": np.float64(1.5), "steps": np.int64(7), "state": np.arange(3), "model": torch.ones(2)}
    torch.save(saved, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    data = (tmp_path / "model.pt").read_bytes()
    (tmp_path / "model.pt").write_bytes(data.replace(b"numpy._core", core).replace(b"numpy.core", core))
    loaded = load_pickle(tmp_path / "model.pt")
    assert loaded["loss"] == 1.5 and loaded["steps"] == 7 and loaded["state"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("cut", [0, 1, 100, 5000, -1, -200])
def test_a_truncated_file_is_an_error(tmp_path, cut):
    torch.save({"model": {"weight": torch.randn(50, 50)}}, tmp_path / "whole.pt")
    data = (tmp_path / "whole.pt").read_bytes()
    (tmp_path / "part.pt").write_bytes(data[:cut])
    with pytest.raises(ConversionError, match="damaged"):
        load_pickle(tmp_path / "part.pt")


def test_a_text_is_no_checkpoint(tmp_path):
    (tmp_path / "model.pt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(ConversionError, match="not written by torch.save"):
        load_pickle(tmp_path / "model.pt")
