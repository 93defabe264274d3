"""The static copy: its files, responses equal to the server's on any file server, and no partial copies."""

import json
import urllib.request
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from safetensors.torch import load as load_tensors

from vaswani_transformer.explorer import export as export_module
from vaswani_transformer.explorer.export import export
from vaswani_transformer.explorer.runs import Refused
from vaswani_transformer.inspection.heads import head_names


TEXTS = ["Two dogs run.", "Hello!"]


@pytest.fixture(scope="module")
def copy(cache, page, tmp_path_factory):
    folder = tmp_path_factory.mktemp("copies") / "site"
    export(cache.open(), folder, page, TEXTS)
    return folder


def test_all_files_are_there_and_no_other(copy):
    files = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    kinds = (
        "json",
        "safetensors",
        "leak.json",
        "leak.safetensors",
        "heads.json",
        "off.json",
        "beams.json",
        "beyond.json",
    )
    assert files == {
        "index.html",
        "lib/data.js",
        *(f"data/{name}" for name in ("checkpoints.json", "model.json", "model.safetensors", "runs.json")),
        *(f"data/runs/{number}.{kind}" for number in range(len(TEXTS)) for kind in kinds),
    }
    assert not copy.with_name("site.partial").exists()


def test_the_copy_is_read_from_a_plain_file_server_under_a_prefix(copy, client, cache):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=copy.parent))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        check_copy(f"http://127.0.0.1:{server.server_port}/site", client, cache.open().model)
    finally:
        server.shutdown()
        server.server_close()


def check_copy(address: str, client, model):
    def get(name: str) -> bytes:
        with urllib.request.urlopen(f"{address}/{name}") as answer:
            return answer.read()

    assert b"<html data-exported" in get("index.html")
    assert json.loads(get("data/model.json"))["live"] is False
    assert json.loads(get("data/runs.json")) == [{"text": text, "file": str(i)} for i, text in enumerate(TEXTS)]
    for number, text in enumerate(TEXTS):
        live = client.post("/api/run", json={"text": text}).json()
        run = json.loads(get(f"data/runs/{number}.json"))
        assert run["target"] == live["target"]
        assert run["log_probs"] == pytest.approx(live["log_probs"], abs=1e-5)
        tensors = load_tensors(get(f"data/runs/{number}.safetensors"))
        assert tensors["encoder.output"].shape[0] == len(run["source"]["tokens"])
        off = json.loads(get(f"data/runs/{number}.off.json"))
        assert list(off) == [".".join(map(str, head)) for head in head_names(model)]
        assert all(ablation["changes"]["text_before"] == run["target"]["text"] for ablation in off.values())
        for name, ablation in list(off.items())[::5]:
            *place, layer, head = name.split(".")
            without = client.post("/api/run", json={"text": text, "off": [[*place, int(layer), int(head)]]}).json()
            assert ablation["request"] == without["request"] and ablation["target"]["text"] == without["target"]["text"]
            assert [ablation["score"], ablation["log_prob"]] == pytest.approx(
                [without["score"], without["log_prob"]], abs=1e-4
            )
        searches = [search_run["search"] for search_run in json.loads(get(f"data/runs/{number}.beams.json"))]
        wanted = [(beams, alpha) for beams in (1, 2, 3, 4) for alpha in (0, 0.6, 1)]
        assert [(search["beams"], search["alpha"]) for search in searches] == wanted
        assert json.loads(get(f"data/runs/{number}.leak.json"))["request"]["causal"] is False
        assert load_tensors(get(f"data/runs/{number}.leak.safetensors"))["decoder.layers.0.self_attn.weights"].ndim == 3
        assert len(json.loads(get(f"data/runs/{number}.heads.json"))) == len(off)
        assert json.loads(get(f"data/runs/{number}.beyond.json"))["points"]


def test_a_folder_that_holds_something_is_left_alone(cache, page, tmp_path):
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match="is not empty. Choose a new folder"):
        export(cache.open(), tmp_path, page, TEXTS)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_copy_that_fails_half_way_leaves_nothing(cache, page, tmp_path, monkeypatch, exists):
    folder = tmp_path / "site"
    if exists:
        folder.mkdir()
    with pytest.raises(Refused, match="at most 100"):
        export(cache.open(), folder, page, ["Hello!", "word " * 200])
    assert folder.exists() == exists and not (exists and any(folder.iterdir()))
    monkeypatch.setattr(export_module, "tensors_file", lambda tensors: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(cache.open(), folder, page, ["Hello!"])
    assert [path.name for path in tmp_path.iterdir()] == (["site"] if exists else [])


def test_no_path_of_the_machine_is_in_the_copy(copy, cache):
    for file in copy.rglob("*.json"):
        assert str(cache.open().folder.parent) not in file.read_text(encoding="utf-8"), file.name
