"""`vaswani train`, `evaluate`, `convert` and `publish`, which hand their arguments to the rooms."""

import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from vaswani_transformer import commands
from vaswani_transformer.commands import rooms


@pytest.mark.parametrize(
    "command, module, line",
    [
        ("train recipe.yaml --output run --help", "training.train", "recipe.yaml --output run --help"),
        ("evaluate mini-en-de --tsv a -h", "training.evaluate", "mini-en-de --tsv a -h"),
        ("convert fairseq a.pt out --version", "conversion.__main__", "fairseq a.pt out --version"),
        ("publish folder me/name --push", "conversion.__main__", "publish folder me/name --push"),
    ],
)
def test_every_argument_is_the_rooms(monkeypatch, command, module, line):
    calls = []
    room = SimpleNamespace(main=lambda: calls.append(sys.argv))
    monkeypatch.setattr(rooms, "find", lambda name: calls.append(name) or room)
    before = sys.argv
    assert CliRunner().invoke(commands.app, command.split()).exit_code == 0
    assert calls == [module, [f"vaswani {command.split()[0]}", *line.split()]]
    assert sys.argv is before


def test_the_status_of_a_room_is_the_commands(monkeypatch):
    monkeypatch.setattr(rooms, "find", lambda name: SimpleNamespace(main=lambda: sys.exit(3)))
    assert CliRunner().invoke(commands.app, ["train"]).exit_code == 3


@pytest.mark.parametrize("verb, extra", [("train", "train"), ("evaluate", "train"), ("publish", "convert")])
def test_a_missing_extra_is_one_line_that_says_what_to_install(monkeypatch, tmp_path, verb, extra):
    def find(name):
        raise ModuleNotFoundError("No module named 'accelerate.utils'", name="accelerate.utils")

    monkeypatch.setattr(rooms, "find", find)
    result = CliRunner().invoke(commands.app, [verb])
    assert result.exit_code == 1
    assert f"pip install -e '.[{extra}]' in the folder of the clone" in result.stderr
    monkeypatch.setattr(rooms, "PACKAGE", tmp_path / "vaswani_transformer")
    [line] = CliRunner().invoke(commands.app, [verb]).stderr.splitlines()
    expected = f"vaswani {verb} needs accelerate, which is not installed: pip install 'vaswani-transformer[{extra}]'"
    assert line == f"error: {expected}"


def test_a_module_of_ours_that_is_missing_is_not_explained_away(monkeypatch):
    def find(name):
        raise ModuleNotFoundError("No module named 'training.nothing'", name="training.nothing")

    monkeypatch.setattr(rooms, "find", find)
    assert isinstance(CliRunner().invoke(commands.app, ["train"]).exception, ModuleNotFoundError)


def test_an_installation_without_the_room(monkeypatch, tmp_path):
    monkeypatch.setattr(rooms, "PACKAGE", tmp_path / "vaswani_transformer")
    result = CliRunner().invoke(commands.app, ["train"])
    assert result.exit_code == 1
    assert "lacks the folder training" in result.stderr


def test_a_room_inside_the_package_goes_before_one_beside_it(monkeypatch):
    """As in a wheel: there the name of a room must not lead to somebody else's module."""
    asked = []
    monkeypatch.setattr(rooms, "import_module", asked.append)
    rooms.find("training.train")
    monkeypatch.setattr(type(rooms.PACKAGE), "is_dir", lambda path: True)
    rooms.find("training.train")
    assert asked == ["training.train", "vaswani_transformer.training.train"]
