"""Files are read whatever they are compressed with, and written whole or not at all."""

import errno
import gzip
import lzma
import os
import re
import resource
import stat

import pytest
import torch
import zstandard
from safetensors.torch import save_file
from tokenizers import Tokenizer, models

from training import files


def test_lines_of_every_compression(tmp_path):
    text = "\ufefffür\u2028alle\r\n\nohne Ende".encode()
    expected = ["für\u2028alle", "", "ohne Ende"]
    packed = {"": text, ".gz": gzip.compress(text), ".xz": lzma.compress(text), ".zst": zstandard.compress(text)}
    for suffix, content in packed.items():
        path = tmp_path / f"text.txt{suffix}"
        path.write_bytes(content)
        assert list(files.read_lines(path)) == expected
        if suffix:
            path.write_bytes(content[: len(content) // 2] if suffix != ".zst" else b"no zstandard file")
            with pytest.raises(ValueError, match=f"text.txt{suffix}"):
                list(files.read_lines(path))
    with pytest.raises(FileNotFoundError):
        list(files.read_lines(tmp_path / "absent"))


@pytest.mark.parametrize("whole", [files.atomic_file, files.atomic_folder])
def test_whole_or_not_at_all(tmp_path, whole):
    target = tmp_path / "name.v1"

    def write(partial, content):
        (partial / content if partial.is_dir() else partial).write_text(content)

    with pytest.raises(RuntimeError), whole(target) as partial:
        write(partial, "half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    for content in ("old", "new"):  # the second takes the place of the first
        with whole(target) as partial:
            write(partial, content)
            assert partial != target
    assert list(tmp_path.iterdir()) == [target]
    assert ([path.name for path in target.iterdir()] if target.is_dir() else [target.read_text()]) == ["new"]


def test_what_is_written_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    """A power cut keeps names and loses contents that were not synced."""
    events = []

    def fsync(descriptor):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        events.append(("sync", re.sub("[0-9a-f]{8}.partial", "partial", name)))

    def replace(source, target):
        events.append(("rename", str(target)))
        original(source, target)

    original = os.replace
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with files.atomic_file(tmp_path / "file") as partial:
        partial.write_text("text")
    folder = str(tmp_path)
    assert events == [("sync", f"{folder}/file.partial"), ("rename", f"{folder}/file"), ("sync", folder)]
    events.clear()
    with files.atomic_folder(tmp_path / "folder") as partial:
        (partial / "inside").write_text("text")
    synced = [("sync", f"{folder}/folder.partial/inside"), ("sync", f"{folder}/folder.partial")]
    assert events == [*synced, ("rename", f"{folder}/folder"), ("sync", folder)]


def test_a_file_that_is_prepared_under_a_temporary_name_is_not_followed(tmp_path, monkeypatch):
    """Other users with access to the folder could put a link where the next temporary file will be."""
    (tmp_path / "victim").write_text("years of work")
    names = iter(["00000000", "11111111"])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(names))
    for name in ("file.partial", "file.00000000.partial"):
        (tmp_path / name).symlink_to("victim")
    with files.atomic_file(tmp_path / "file") as partial:
        assert partial.name == "file.11111111.partial" and not partial.is_symlink()
        partial.write_text("text")
    assert (tmp_path / "victim").read_text() == "years of work"
    assert (tmp_path / "file").read_text() == "text" and not (tmp_path / "file").is_symlink()


def test_a_folder_that_is_prepared_under_a_temporary_name_is_not_followed(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "folder.partial").symlink_to("victim")
    with pytest.raises(FileExistsError), files.atomic_folder(tmp_path / "folder"):
        pass
    assert list((tmp_path / "victim").iterdir()) == []


def test_two_processes_that_write_one_file_do_not_mix(tmp_path):
    with files.atomic_file(tmp_path / "file") as first, files.atomic_file(tmp_path / "file") as second:
        first.write_text("first")
        second.write_text("second")
        assert not (tmp_path / "file").exists()
    assert (tmp_path / "file").read_text() == "first", "the one that ended last"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def permissions(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_permissions_of_a_file(tmp_path):
    before = os.umask(0o027)
    try:
        for mode, expected in ((None, 0o640), (0o600, 0o600), (None, 0o600), (0o644, 0o644)):
            with files.atomic_file(tmp_path / "file", mode) as partial:
                partial.write_text("text")
                assert permissions(partial) & 0o077 & ~expected == 0, "never more than at the end"
            assert permissions(tmp_path / "file") == expected
    finally:
        os.umask(before)


def test_a_long_name(tmp_path):
    path = tmp_path / ("ü" * 127)
    with files.atomic_file(path) as partial:
        partial.write_text("text")
    assert path.read_text() == "text"


@pytest.mark.parametrize("whole", [files.atomic_file, files.atomic_folder])
@pytest.mark.parametrize("filename", [None, "another file"])
def test_a_full_disk_is_reported_with_the_name(tmp_path, whole, filename):
    with pytest.raises(OSError) as caught, whole(tmp_path / "name"):
        raise OSError(errno.ENOSPC, "No space left on device", filename)
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "name"), None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("library", ["safetensors", "tokenizers"])
def test_errors_of_libraries_in_rust_are_the_systems(tmp_path, library):
    """They give the number of the error only in their message."""
    writers = {
        "safetensors": lambda file: save_file({"weight": torch.zeros(2000)}, file),
        "tokenizers": lambda file: Tokenizer(models.WordLevel({f"word {i}": i for i in range(2000)})).save(str(file)),
    }
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(OSError) as caught, files.atomic_folder(tmp_path / "name") as folder:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # as a full disk, for large files
            writers[library](folder / "file")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "name"))
    assert list(tmp_path.iterdir()) == []
