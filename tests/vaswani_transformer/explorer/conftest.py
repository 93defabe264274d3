"""An explorer of the tiny checkpoint, and a client for it."""

import pytest
from explorer_client import client_of
from fastapi.testclient import TestClient
from tiny_checkpoint import tiny_checkpoint
from waiting import TIMEOUT

from vaswani_transformer.explorer.app import create_app
from vaswani_transformer.explorer.checkpoints import CheckpointCache
from vaswani_transformer.explorer.runs import Runs


@pytest.fixture(scope="session")
def cache() -> CheckpointCache:
    return CheckpointCache(str(tiny_checkpoint()))


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """A page in place of the real one."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "index.html").write_text("<!doctype html>\n<html lang=en><title>page</title>", encoding="utf-8")
    (folder / "lib").mkdir()
    (folder / "lib" / "data.js").write_text("export const data = 1;\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def client(cache, page) -> TestClient:
    return client_of(create_app(cache, runs=Runs(patience=TIMEOUT, time_limit=TIMEOUT), page=page))
