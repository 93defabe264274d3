"""The command in this process, on a model that knows six sentences by heart."""

import pytest
from rich.console import Console
from tiny_checkpoint import tiny_checkpoint
from typer.testing import CliRunner

from vaswani_transformer import catalogue, commands
from vaswani_transformer.commands import models
from vaswani_transformer.system import console


@pytest.fixture(scope="session")
def folder():
    return tiny_checkpoint()


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """A wide terminal, so that messages in frames keep their words together."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(console, "out", Console(width=120))


@pytest.fixture
def shipped(folder, monkeypatch):
    """Makes the tiny checkpoint the only included one."""
    monkeypatch.setattr(catalogue, "CHECKPOINTS", folder.parent)


@pytest.fixture(scope="session")
def loaded(folder):
    return models.load_pipeline(str(folder), "cpu", "auto")


@pytest.fixture
def vaswani(loaded, monkeypatch):
    """Runs the command in this process, with the model loaded once for all tests."""
    monkeypatch.setattr(models, "load_pipeline", lambda *arguments: loaded)
    return lambda *arguments, input=None: CliRunner().invoke(commands.app, arguments, input=input)


@pytest.fixture
def translate(vaswani, folder):
    return lambda *arguments, input=None: vaswani("translate", "--checkpoint", str(folder), *arguments, input=input)
