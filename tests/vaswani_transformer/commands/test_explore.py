"""`vaswani explore` and `vaswani attention`."""

import socket
import sys
from xml.etree import ElementTree

import pytest
from tiny_checkpoint import PAIRS

from vaswani_transformer.commands import explore


@pytest.fixture
def served(monkeypatch):
    """What the command would serve: the application and the address of its socket."""
    pytest.importorskip("fastapi")
    import vaswani_transformer.explorer.app as app
    import vaswani_transformer.explorer.server as server

    calls = []
    monkeypatch.setattr(app, "PAGE", explore.__file__)
    monkeypatch.setattr(app, "create_app", lambda cache, host: (cache.current, host))
    monkeypatch.setattr(server, "serve", lambda app, listener: calls.append((app, listener.getsockname())))
    monkeypatch.setattr(explore.webbrowser, "open", lambda address: calls.append(address))
    return calls


def test_the_page_is_served_and_opened(vaswani, folder, served):
    result = vaswani("explore", "--checkpoint", str(folder), "--port", "0")
    assert result.exit_code == 0, result.output
    address, (app, (host, port)) = served
    assert address == f"http://127.0.0.1:{port}"
    assert app == ("tiny-en-de", "127.0.0.1") and host == "127.0.0.1"


def test_the_browser_may_stay_closed(vaswani, folder, served):
    vaswani("explore", "--checkpoint", str(folder), "--port", "0", "--no-browser")
    assert len(served) == 1


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(vaswani, folder, served):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = vaswani("explore", "--checkpoint", str(folder), "--port", port)
    assert result.exit_code == 1
    assert f"Cannot listen on 127.0.0.1, port {port}" in result.stderr and "--port" in result.stderr


def test_an_unknown_checkpoint_is_an_error(vaswani, served):
    result = vaswani("explore", "--checkpoint", "absent")
    assert result.exit_code == 1
    assert "Checkpoint not found: 'absent'" in result.stderr


def test_without_its_packages_the_command_names_the_extra(vaswani, monkeypatch):
    monkeypatch.setitem(sys.modules, "vaswani_transformer.explorer.app", None)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delitem(sys.modules, "vaswani_transformer.explorer.app")
    result = vaswani("explore")
    assert result.exit_code == 1
    assert (
        "vaswani explore needs fastapi, which is not installed: pip install" in result.stderr
        and "[explore]" in result.stderr
    )


def test_export_writes_the_page(vaswani, folder, tmp_path, monkeypatch):
    app = pytest.importorskip("vaswani_transformer.explorer.app")
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("<html>", encoding="utf-8")
    monkeypatch.setattr(app, "PAGE", tmp_path / "page")
    arguments = ["explore", "--checkpoint", str(folder), "--export", str(tmp_path / "site"), "--text", "Hello!"]
    result = vaswani(*arguments)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "site" / "data" / "tiny-en-de" / "model.safetensors").is_file()
    again = vaswani(*arguments)
    assert again.exit_code == 1 and "not empty" in again.stderr


def test_text_goes_with_export_only(vaswani):
    assert vaswani("explore", "--text", "Hello!").exit_code == 2


def test_attention_draws_a_figure_and_prints_the_translation(vaswani, folder, tmp_path):
    file = tmp_path / "figure.svg"
    result = vaswani("attention", "Two dogs run.", "-o", str(file), "--checkpoint", str(folder), "--layer", "0")
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == PAIRS["Two dogs run."]
    assert "head 1" in "".join(ElementTree.parse(file).getroot().itertext())


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["--kind", "cross"], 2, "Only the decoder has cross-attention"),
        (["--layer", "7"], 1, "Layer 7 does not exist"),
        (["--head", "7"], 1, "Head 7 does not exist"),
        (["--word", "cat"], 1, "Not among the words of the sentence: cat"),
    ],
)
def test_attention_names_what_does_not_exist(vaswani, folder, tmp_path, arguments, status, words):
    file = tmp_path / "figure.svg"
    result = vaswani("attention", "Two dogs run.", "-o", str(file), "--checkpoint", str(folder), *arguments)
    assert result.exit_code == status and words in result.stderr
    assert not file.exists()
