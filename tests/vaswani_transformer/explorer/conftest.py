"""An explorer of the tiny checkpoint, asked over HTTP."""

import pytest
from explorer_client import client_of
from fastapi.testclient import TestClient
from tiny_checkpoint import tiny_checkpoint
from waiting import TIMEOUT

from vaswani_transformer.explorer.app import create_app
from vaswani_transformer.explorer.opened import Shelf
from vaswani_transformer.explorer.runs import Runs


@pytest.fixture(scope="session")
def shelf() -> Shelf:
    return Shelf(str(tiny_checkpoint()))


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """A page in place of the real one."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "index.html").write_text("<!doctype html>\n<html lang=en><title>page</title>", encoding="utf-8")
    (folder / "lib").mkdir()
    (folder / "lib" / "data.js").write_text("export const data = 1;\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def client(shelf, page) -> TestClient:
    return client_of(create_app(shelf, runs=Runs(patience=TIMEOUT, time_limit=TIMEOUT), page=page))
