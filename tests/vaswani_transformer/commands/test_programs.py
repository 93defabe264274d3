"""`vaswani train`, `finetune`, `evaluate`, `convert` and `publish`, whose code is in other folders."""

import sys
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from vaswani_transformer import commands
from vaswani_transformer.commands import programs
from vaswani_transformer.system import extras
from vaswani_transformer.system import programs as system_programs
from vaswani_transformer.system.command_line import make_app


@pytest.fixture
def program(monkeypatch):
    """Makes a function the only command of every program; returns a list that gets the names of loaded modules."""

    def install(command):
        loaded = []
        app = make_app()
        app.command()(command)
        monkeypatch.setattr(programs, "find", lambda name: loaded.append(name) or SimpleNamespace(app=app))
        return loaded

    return install


@pytest.mark.parametrize("verb", programs.PROGRAMS)
def test_a_program_is_loaded_when_its_verb_runs_and_gets_the_arguments(program, verb):
    calls, before = [], [*sys.argv]

    def command(context: typer.Context, name: str, flag: bool = False):
        calls.append((context.command_path, name, flag))

    loaded = program(command)
    help = CliRunner().invoke(commands.app, ["--help"])
    assert help.exit_code == 0 and verb in help.stdout and not loaded
    assert CliRunner().invoke(commands.app, [verb, "word", "--flag"], prog_name="vaswani").exit_code == 0
    assert loaded == [programs.PROGRAMS[verb][0]]
    assert calls == [(f"vaswani {verb}", "word", True)] and sys.argv == before
    assert CliRunner().invoke(commands.app, [verb, "word", "--unknown"]).exit_code == 2


def test_the_status_of_a_program_is_the_commands(program):
    program(lambda: sys.exit(3))
    assert CliRunner().invoke(commands.app, ["train"]).exit_code == 3


@pytest.mark.parametrize("verb, extra", [("train", "train"), ("evaluate", "train"), ("publish", "convert")])
def test_a_missing_extra_is_one_line_that_says_what_to_install(monkeypatch, tmp_path, verb, extra):
    def find(name):
        raise ModuleNotFoundError("No module named 'accelerate.utils'", name="accelerate.utils")

    monkeypatch.setattr(programs, "find", find)
    result = CliRunner().invoke(commands.app, [verb])
    assert result.exit_code == 1
    assert f"pip install -e '.[{extra}]' in the folder of the clone" in result.stderr
    monkeypatch.setattr(extras, "PACKAGE", tmp_path / "vaswani_transformer")
    [line] = CliRunner().invoke(commands.app, [verb]).stderr.splitlines()
    expected = f"vaswani {verb} needs accelerate, which is not installed: pip install 'vaswani-transformer[{extra}]'"
    assert line == f"error: {expected}"


def test_a_package_that_is_missing_while_a_program_runs_is_named_too(program):
    def command():
        raise ModuleNotFoundError("No module named 'peft'", name="peft")

    program(command)
    result = CliRunner().invoke(commands.app, ["finetune"])
    assert result.exit_code == 1 and "vaswani finetune needs peft, which is not installed" in result.stderr


def test_a_missing_module_of_this_project_is_not_explained_away(monkeypatch):
    def find(name):
        raise ModuleNotFoundError("No module named 'training.nothing'", name="training.nothing")

    monkeypatch.setattr(programs, "find", find)
    assert isinstance(CliRunner().invoke(commands.app, ["train"]).exception, ModuleNotFoundError)


def test_an_installation_without_the_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(system_programs, "PACKAGE", tmp_path / "vaswani_transformer")
    result = CliRunner().invoke(commands.app, ["train"])
    assert result.exit_code == 1
    assert "The folder training is missing from this installation" in result.stderr


def test_a_folder_inside_the_package_goes_before_one_beside_it(monkeypatch):
    """As in a wheel: there the name of a folder must not lead to another package's module."""
    imported = []
    monkeypatch.setattr(system_programs, "import_module", imported.append)
    programs.find("training.train")
    monkeypatch.setattr(type(programs.PACKAGE), "is_dir", lambda path: True)
    programs.find("training.train")
    assert imported == ["training.train", "vaswani_transformer.training.train"]
