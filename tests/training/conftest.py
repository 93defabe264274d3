"""What tests of the training commands share."""

import sys

import pytest
from toy_data import write_toy


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a module's `main` and returns (exit status, standard output, standard error)."""

    def call(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "400")  # messages in frames keep their words together
        status = 0
        try:
            module.main()
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return write_toy(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")
