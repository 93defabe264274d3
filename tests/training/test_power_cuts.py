"""What a power cut, a second run on the same folder or Ctrl-C leave behind, and how the next run handles it."""

import os
import re
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
from toy_data import arguments, finish, interrupt, logged, run_here, start

from training.recipe import load_recipe
from training.run import Run


def test_a_checkpoint_is_pruned_only_when_the_next_is_on_the_disk(toy, cache, tmp_path, monkeypatch):
    synced, removed = set(), []
    original, remove = os.fsync, shutil.rmtree

    def fsync(descriptor):
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        original(descriptor)

    def rmtree(path, *args, **kwargs):
        if Path(path).name.startswith("checkpoint-") and Path(path).name[-1].isdigit():
            removed.append((Path(path).name, {name for name in synced if name.endswith("model.safetensors")}))
        remove(path, *args, **kwargs)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    run_here(toy, tmp_path, "checkpointing.average_last=1", cache=cache)
    assert [name for name, _ in removed] == ["checkpoint-0000003", "checkpoint-0000006"]
    for (_, files), newest in zip(removed, ("checkpoint-0000009", "checkpoint-0000012"), strict=True):
        assert any(newest in name for name in files)


@pytest.mark.parametrize("file", ["recipe.json", "tokenizer/tokenizer.json"])
def test_an_empty_prepared_file_counts_as_missing(toy, cache, tmp_path, file):
    overrides = ["optimisation.max_steps=2"]
    run_here(toy, tmp_path, *overrides, cache=cache)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(b"")
    run_here(toy, tmp_path, *overrides, cache=cache)
    assert (tmp_path / file).read_bytes() == content


def test_a_damaged_tokenizer_is_named(toy, cache, tmp_path):
    run_here(toy, tmp_path, "optimisation.max_steps=1", cache=cache)
    (tmp_path / "tokenizer" / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer is damaged .* Delete it"):
        run_here(toy, tmp_path, "optimisation.max_steps=1", cache=cache)


def test_a_truncated_line_of_the_log_is_dropped(toy, cache, tmp_path):
    run_here(toy, tmp_path, "optimisation.max_steps=4", cache=cache)
    log = tmp_path / "log.jsonl"
    log.write_bytes(log.read_bytes() + b"\0" * 40 + b"\n")
    run_here(toy, tmp_path, "optimisation.max_steps=6", cache=cache)
    assert list(logged(tmp_path)) == [2, 4, 6]


def test_two_runs_do_not_share_a_folder(toy, cache, tmp_path):
    run = Run(load_recipe(toy / "recipe.yaml"), toy, tmp_path / "run", cache)
    log = tmp_path / "out"
    code, text = finish(start(arguments(toy, tmp_path / "run", cache=cache), log), log)
    assert code == 1 and "Another process is training in" in text and "Traceback" not in text
    run.lock.release()


def test_control_c_while_data_are_prepared_ends_in_a_sentence(toy, tmp_path):
    log, before = tmp_path / "out", partial(interrupt, 1, str(tmp_path / "run" / "tokenizer"), signal.SIGINT)
    code, text = finish(start(arguments(toy, tmp_path / "run"), log, before=before), log)
    assert code == 1 and "Stopped before the first step" in text and "Traceback" not in text


FOREIGN = b'[1]\nnull\n{"step": "x"}\n{"step": 2, "loss": [0]}\n' + b"[" * 100_000 + b"\n"


@pytest.mark.parametrize(
    "content", [b"", b'{"step": 2, "epo', b"\0" * 40, FOREIGN], ids=["empty", "torn", "zeros", "foreign"]
)
def test_a_run_whose_log_was_lost_ends_and_says_so(toy, cache, tmp_path, capsys, content):
    run_here(toy, tmp_path, "optimisation.max_steps=2", cache=cache)
    shutil.rmtree(tmp_path / "model")
    (tmp_path / "log.jsonl").write_bytes(content)
    capsys.readouterr()
    run_here(toy, tmp_path, "optimisation.max_steps=2", cache=cache)
    assert (tmp_path / "model" / "model.safetensors").is_file()
    message = " ".join(capsys.readouterr().err.split())
    assert re.search(r"log.jsonl has lost (\d) of its \1 lines up to step 2", message)


def test_a_run_whose_log_is_whole_says_nothing_about_it(toy, cache, tmp_path, capsys):
    run_here(toy, tmp_path, "optimisation.max_steps=2", cache=cache)
    capsys.readouterr()
    run_here(toy, tmp_path, "optimisation.max_steps=4", cache=cache)
    assert "log.jsonl" not in capsys.readouterr().err


def test_lines_of_the_log_are_on_the_disk_before_a_checkpoint_that_follows_them(toy, cache, tmp_path, monkeypatch):
    synced, original = [], os.fsync

    def fsync(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    run_here(toy, tmp_path, "optimisation.max_steps=2", cache=cache)
    logs = [i for i, name in enumerate(synced) if name.endswith("log.jsonl")]
    weights = [i for i, name in enumerate(synced) if "checkpoint-0000002" in name]
    assert logs and logs[0] < weights[0]
