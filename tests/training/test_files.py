"""Files are read whatever they are compressed with, and written whole or not at all."""

import gzip
import lzma
import os

import pytest
import zstandard

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
        events.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))

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
