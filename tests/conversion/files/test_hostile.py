"""Files that were made, or damaged, so that reading them fails: each ends in one clear error, and soon."""

import os
import pickle
import random
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from conversion.files import arrays
from conversion.files.arrays import read_npz
from conversion.files.folders import checkpoint_in, regular
from conversion.files.marian import read_vocabulary
from conversion.files.pickles import load_pickle
from conversion.files.text import read_json_object, read_lines, read_yaml
from conversion.options import ConversionError
from conversion.toolkits import fairseq, marian


FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.mark.parametrize("kind", ["[", "{a: ", "- "])
def test_a_vocabulary_that_is_nested_deeply_is_refused(tmp_path, kind):
    """libyaml's own loading would end the process."""
    (tmp_path / "vocab.yml").write_text(f"a: {kind * 100_000}" if kind != "- " else kind * 100_000)
    with pytest.raises(ConversionError, match="vocab.yml"):
        read_vocabulary(tmp_path / "vocab.yml")


@pytest.mark.parametrize("read", [read_yaml, read_json_object])
def test_options_that_are_nested_deeply_are_refused(tmp_path, read):
    (tmp_path / "options").write_text('{"a": ' * 100_000)
    with pytest.raises(ConversionError, match="options"):
        read(tmp_path / "options")


@pytest.mark.parametrize("kind", ["device", "pipe"])
@pytest.mark.parametrize("read", [read_lines, read_json_object, read_yaml, read_npz, load_pickle, regular])
def test_a_link_to_a_device_is_not_read(tmp_path, read, kind):
    path = tmp_path / "file"
    path.symlink_to("/dev/zero") if kind == "device" else os.mkfifo(path)
    with pytest.raises(ConversionError, match="not a regular file"):
        read(path)


def test_a_dictionary_that_is_a_device_is_not_read(tmp_path):
    shutil.copy(FIXTURES / "fairseq" / "base" / "checkpoint_last.pt", tmp_path)
    for side in ("src", "trg"):
        (tmp_path / f"dict.{side}.txt").symlink_to("/dev/zero")
    with pytest.raises(ConversionError, match="missing in .*dict.src.txt|not a regular file"):
        fairseq.convert(tmp_path)
    with pytest.raises(FileNotFoundError, match="No checkpoint"):
        checkpoint_in(tmp_path, "dict*.txt")


@pytest.mark.parametrize("name", ["a", "a.npy"])
def test_a_pickle_in_an_npz_is_not_an_array(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "model.npz", "w") as archive:
        archive.writestr(name, pickle.dumps({"a": 1}))
    with pytest.raises(ConversionError, match="a is not an array"):
        read_npz(tmp_path / "model.npz")


@pytest.mark.parametrize("name", ["model.npz", "model.pt"])
def test_an_archive_that_expands_too_much_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(arrays, "MIN_CHECKED_BYTES", 2**20)
    path = tmp_path / name
    if name == "model.npz":
        np.savez_compressed(path, a=np.zeros(2**20))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("archive/data/0", bytes(2**23))
    with pytest.raises(ConversionError, match="would expand from"):
        (read_npz if name == "model.npz" else load_pickle)(path)


def test_weights_that_are_compressed_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "MIN_CHECKED_BYTES", 0)
    weights = np.random.default_rng(0).standard_normal(1000)
    np.savez_compressed(tmp_path / "a.npz", a=weights)
    assert (read_npz(tmp_path / "a.npz")["a"] == weights).all()


@pytest.mark.parametrize("seed", range(25))
def test_a_flipped_bit_in_a_marian_model_is_an_error_or_harmless(tmp_path, seed):
    draw = random.Random(seed)
    folder = shutil.copytree(FIXTURES / "marian" / draw.choice(["untied", "opus", "nopos"]), tmp_path / "model")
    file = draw.choice(sorted(folder.iterdir()))
    content = bytearray(file.read_bytes())
    for _ in range(draw.choice([1, 2, 8])):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)
    try:
        converted = marian.convert(folder)
        model = converted.model()
        marian.compare_live(folder, converted, model)
    except (ConversionError, OSError) as error:
        assert str(error)
