"""Error messages are sentences; usage is shown only if the usage was wrong."""

import re

import pytest
import torch

from conversion.__main__ import main


ERRORS = [
    ("opennmt absent.pt out", "error: No such file or folder: absent.pt."),
    ("opennmt empty out", "No checkpoint in empty. Expected *.pt."),
    ("opennmt nothing.pt out", "nothing.pt is empty."),
    ("opennmt text.pt out", "text.pt is damaged or was not written by torch.save."),
    ("opennmt text.pt text.pt", "text.pt is a file. OUT must be a new folder."),
    ("opennmt text.pt .", "Cannot write to '.'. Pass the name of a new folder."),
    ("opennmt text.pt full", "full already exists and is not empty. Choose another name, or delete it."),
    ("opennmt text.pt text.pt/out", "Cannot write text.pt/out: text.pt is a file, not a folder."),
    (
        "torch state.pt out",
        "The number of attention heads is not recorded. Pass it with --heads, for",
    ),
    ("fsmt nope out", "nope is neither a folder nor a repository id such as"),
    ("to-onnx nope out", "error: Checkpoint not found: 'nope'."),
    ("to-marian mini-en-de out", "MarianMTModel cannot represent this model:"),
    ("publish full name", "error: Invalid repository name: 'name'. It must be user/name, for example"),
    ("publish nope ada/x", "error: Checkpoint not found: 'nope'."),
    (
        "publish empty ada/x",
        "empty cannot be published: - config.json is missing - generation_config.json",
    ),
    ("publish empty ada/x", "model.safetensors is missing; model.save_pretrained(FOLDER) writes it"),
]
USAGE = [
    ("to-marian a b --quantise", "Usage: vaswani convert to-marian", "No such option: --quantise"),
    ("fairsec a b", "Usage: vaswani convert", "No such command 'fairsec'. Did you mean 'fairseq'?"),
    ("publish", "Usage: vaswani convert publish", "Missing argument 'FOLDER'"),
]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    for folder in ("empty", "full"):
        (tmp_path / folder).mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "nothing.pt").touch()
    (tmp_path / "text.pt").write_text("hello world", encoding="utf-8")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "state.pt")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")  # messages in frames keep their words together

    def command(line: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(line.split())
        return end.value.code, re.sub(r"\s+", " ", capsys.readouterr().err)

    return command


@pytest.mark.parametrize("line, message", ERRORS, ids=str)
def test_errors_are_a_sentence_without_usage(run, line, message):
    status, error = run(line)
    assert message in error
    assert status == 1 and "Usage:" not in error


@pytest.mark.parametrize("line, usage, message", USAGE, ids=str)
def test_wrong_usage_shows_the_usage_of_the_command(run, line, usage, message):
    status, error = run(line)
    assert error.startswith(usage) and message in error
    assert status == 2
