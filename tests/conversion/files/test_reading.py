"""Untrusted files."""

import os
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from conversion.__main__ import main
from conversion.files.arrays import read_npz
from conversion.files.folders import beside
from conversion.files.pickles import load_pickle
from conversion.options import ConversionError


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
    with pytest.raises(ConversionError, match=r"would call \w+\.system\. .*--unsafe|not written by torch.save"):
        load_pickle(path)
    assert not mark.exists()


def test_the_command_says_why_and_writes_nothing(hostile, tmp_path, capsys):
    path, mark = hostile
    with pytest.raises(SystemExit, match="1"):
        main(["fairseq", str(path), str(tmp_path / "out")])
    errors = capsys.readouterr().err
    assert "read, send or delete your data" in errors or "not written by torch.save" in errors
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
    with pytest.raises(ConversionError, match="damaged|is empty"):
        load_pickle(tmp_path / "part.pt")


@pytest.mark.parametrize(
    "text, message",
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS"),
        ("<html>Not found</html>", "not written by torch.save"),
    ],
)
def test_a_text_is_not_a_checkpoint(tmp_path, text, message):
    (tmp_path / "model.pt").write_text(text)
    with pytest.raises(ConversionError, match=message):
        load_pickle(tmp_path / "model.pt")


def test_a_changed_byte_of_an_old_file_is_an_error(tmp_path):
    torch.save({"weight": torch.ones(3)}, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    data = (tmp_path / "model.pt").read_bytes()
    key = re.findall(rb"\d{9,}", data)[-1]  # of the storage, in the list of those that follow
    before, after = data.rsplit(key, 1)
    (tmp_path / "model.pt").write_bytes(before + b"1" * len(key) + after)
    with pytest.raises(ConversionError, match="damaged"):
        load_pickle(tmp_path / "model.pt")


@pytest.mark.parametrize("protocol", [0, 4, 5])
def test_other_pickle_protocols_are_named(tmp_path, protocol):
    torch.save({"model": Command(tmp_path / "it-ran")}, tmp_path / "model.pt", pickle_protocol=protocol)
    with pytest.raises(ConversionError, match="protocol 2"):
        load_pickle(tmp_path / "model.pt")
    assert not (tmp_path / "it-ran").exists()


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04" + b"x" * 40], ids=repr)
def test_a_file_that_is_not_an_npz_is_an_error(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ConversionError, match="not a .npz"):
        read_npz(tmp_path / "a.npz")


def test_an_impossibly_large_array_is_an_error(tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 8)
    with pytest.raises(ConversionError, match="not a .npz"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["../secret", "sub/../../secret", None, 3, "", "missing"])
def test_a_checkpoint_names_no_files_outside_its_folder(tmp_path, name):
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").touch()
    assert beside(tmp_path / "model", name) is None
    assert beside(tmp_path / "model", str(tmp_path / "secret")) is None


def test_a_file_that_was_elsewhere_is_found_beside_the_checkpoint(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("vocab.txt", "sub/codes"):
        (tmp_path / name).touch()
    assert beside(tmp_path, "/data/of/somebody/vocab.txt").name == "vocab.txt"
    assert beside(tmp_path, "sub/codes") == tmp_path.resolve() / "sub" / "codes"
