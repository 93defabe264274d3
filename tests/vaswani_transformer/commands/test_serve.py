"""`vaswani serve`: what it loads, and its error messages."""

import socket
import sys
from types import SimpleNamespace

import pytest

from vaswani_transformer.commands import models, serve
from vaswani_transformer.model.texts_vaswani import TrainingTexts
from vaswani_transformer.system.console import Failure


@pytest.fixture
def loaded(monkeypatch):
    """Checkpoints that record these languages, or none."""
    records = {"a": TrainingTexts("en", 100, "de"), "b": TrainingTexts("de", 100, "en"), "c": TrainingTexts()}
    monkeypatch.setattr(models, "load_pipeline", lambda place, *_: SimpleNamespace(training_texts=records[place]))


def test_checkpoints_are_found_by_their_languages(loaded):
    pipelines = serve.load_pipelines([("a", None, None), ("b", None, None), ("c", "en", "fr")], ())
    assert list(pipelines) == [("en", "de"), ("de", "en"), ("en", "fr")]


def test_checkpoints_of_unknown_or_the_same_languages_are_refused(loaded):
    with pytest.raises(Failure, match="c does not record its languages. Name them, for example --checkpoint en-de=c"):
        serve.load_pipelines([("c", None, None)], ())
    with pytest.raises(Failure, match="Two checkpoints translate en-de. Serve one of them."):
        serve.load_pipelines([("a", None, None), ("b", "en", "de")], ())


def test_names_are_resolved_with_their_languages(monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr("vaswani_transformer.locating.locate_on_hub", lambda source: source)
    assert serve.resolve([f"en-de={tmp_path}", "owner/name"]) == [
        (str(tmp_path), "en", "de"),
        ("owner/name", None, None),
    ]
    assert len(serve.resolve(None)) >= 3
    with pytest.raises(Failure, match="Checkpoint not found: 'absent'"):
        serve.resolve(["absent"])


def test_cores_are_shared_out(monkeypatch):
    monkeypatch.setattr(serve.os, "cpu_count", lambda: 64)
    assert serve.default_processes("cpu") == 4 and serve.default_processes("cuda:0") == 1
    monkeypatch.setattr(serve.os, "cpu_count", lambda: 2)
    assert serve.default_processes("cpu") == 2


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(vaswani, folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = vaswani("serve", "--checkpoint", str(folder), "--port", port)
    assert result.exit_code == 1 and f"Cannot listen on 127.0.0.1, port {port}" in result.stderr


@pytest.mark.parametrize("host", ["300.1.1.1", "203.0.113.7"])
def test_an_address_of_another_computer_is_not_blamed_on_the_port(vaswani, folder, host):
    result = vaswani("serve", "--checkpoint", str(folder), "--host", host)
    assert result.exit_code == 1 and f"Cannot listen on {host}" in result.stderr
    assert "Choose another --host" in result.stderr and "--port" not in result.stderr


def test_without_its_packages_the_command_names_the_extra(vaswani, monkeypatch):
    monkeypatch.setitem(sys.modules, "vaswani_transformer.serving.app", None)
    monkeypatch.setitem(sys.modules, "py3langid", None)
    monkeypatch.delitem(sys.modules, "vaswani_transformer.serving.app")
    monkeypatch.delitem(sys.modules, "vaswani_transformer.serving.languages", raising=False)
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    result = vaswani("serve")
    assert result.exit_code == 1 and "vaswani serve needs py3langid" in result.stderr and "serve" in result.stderr


@pytest.mark.parametrize(
    "origin",
    ["example.org", "ftp://example.org", "https://a@example.org", "https://example.org/?q", "https://example.org:x"]
    + [f"https://example.org/{path}" for path in ("..", "a/../b", "a/.", "a/%2e%2e/b", "a/%2E./b")],
)
def test_an_origin_that_is_not_an_address_is_refused(vaswani, folder, origin):
    result = vaswani("serve", "--checkpoint", str(folder), "--origin", origin)
    assert result.exit_code == 1 and origin in result.stderr.replace("\n", "")


def test_origins_may_have_dots_in_their_names():
    serve.check_origins(["https://translate.example.org/v1.2/..a", "*"])
