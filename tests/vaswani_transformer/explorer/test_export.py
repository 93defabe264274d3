"""The exported page: its files, equal to the checkpoint's, refusals by name, and no partial folders."""

import json
import re

import pytest
import torch
from safetensors.torch import load as load_tensors
from tiny_checkpoint import tiny_checkpoint
from transformers import AutoTokenizer

from vaswani_transformer import load
from vaswani_transformer.explorer import export as export_module
from vaswani_transformer.explorer.app import HEADERS
from vaswani_transformer.explorer.checkpoints import open_checkpoint
from vaswani_transformer.explorer.engine import check_engine
from vaswani_transformer.explorer.export import export
from vaswani_transformer.explorer.runs import Refused


TEXT = "Two dogs run."
FILES = [
    *("config.json", "example.json", "example.safetensors", "model.json", "model.safetensors", "tokenizer.json"),
]


@pytest.fixture(scope="module")
def copy(cache, page, tmp_path_factory):
    folder = tmp_path_factory.mktemp("copies") / "site"
    export([cache.open(), cache.open("mini-fr-en")], folder, page, TEXT)
    return folder


def read(file):
    return json.loads(file.read_text(encoding="utf-8"))


def test_all_files_are_there_and_no_other(copy):
    files = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    tiny = {f"data/tiny-en-de/{name}" for name in FILES}
    mini = {f"data/mini-fr-en/{name}" for name in [*FILES, "README.md"]}  # the model card names the licence
    assert files == {"index.html", "lib/data.js", "data/checkpoints.json", *tiny, *mini}
    assert "<html data-exported" in (copy / "index.html").read_text(encoding="utf-8")
    assert not copy.with_name("site.partial").exists()


def test_a_copy_without_a_server_of_ours_has_the_same_policy_before_anything_is_loaded(cache, tmp_path):
    export([cache.open()], tmp_path / "site", text=TEXT)
    before = (tmp_path / "site" / "index.html").read_text(encoding="utf-8").partition("<link")[0]
    [policy] = re.findall(r'http-equiv="Content-Security-Policy"\s+content="([^"]*)"', before)
    # Browsers take "frame-ancestors" only from a server.
    assert f"{policy}; frame-ancestors 'none'" == HEADERS["Content-Security-Policy"] and "<script" not in before


def test_the_first_checkpoint_is_the_current_one_and_opens_with_the_text(copy):
    offer = read(copy / "data" / "checkpoints.json")
    assert offer["current"] == "tiny-en-de"
    assert [checkpoint["name"] for checkpoint in offer["checkpoints"]] == ["tiny-en-de", "mini-fr-en"]
    assert read(copy / "data" / "tiny-en-de" / "model.json")["example"] == TEXT
    assert read(copy / "data" / "mini-fr-en" / "model.json")["example"].startswith("Le chien")


def test_the_example_is_the_servers_response(copy, client):
    example, live = (
        read(copy / "data" / "tiny-en-de" / "example.json"),
        client.post("/api/run", json={"text": TEXT}).json(),
    )
    assert (example["request"], example["target"]) == (live["request"], live["target"])
    assert example["log_probs"] == pytest.approx(live["log_probs"], abs=1e-5)
    tensors = load_tensors((copy / "data" / "tiny-en-de" / "example.safetensors").read_bytes())
    assert tensors["encoder.output"].shape[0] == len(example["source"]["tokens"])


@pytest.mark.parametrize("name", ["tiny-en-de", "mini-fr-en"])
def test_weights_and_tokenizer_are_the_checkpoints(copy, cache, name):
    checkpoint, folder = cache.open(name), copy / "data" / name
    content = (folder / "model.safetensors").read_bytes()
    weights = load_tensors(content)
    assert {weight.dtype for weight in weights.values()} == {torch.float16}
    for parameter, weight in checkpoint.model.named_parameters():
        assert torch.equal(weights[parameter].float(), weight), parameter
    assert read(folder / "model.json")["bytes"] == len(content)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    assert tokenizer(TEXT)["input_ids"] == checkpoint.tokenizer(TEXT)["input_ids"]


def test_weights_that_float16_cannot_hold_stay_float32(tmp_path):
    model, tokenizer = load(tiny_checkpoint())
    model = model.float()
    model.model.shared.weight.data += 1e-5
    model.save_pretrained(tmp_path / "exact")
    tokenizer.save_pretrained(tmp_path / "exact")
    weights = load_tensors(
        export_module.engine_files(open_checkpoint("exact", str(tmp_path / "exact")))["model.safetensors"]
    )
    assert torch.equal(weights["model.shared.weight"], model.model.shared.weight)


@pytest.mark.parametrize(
    "place, name, value, words",
    [
        ("config", "layer_norm_deviation", "unbiased", "layer_norm_deviation is 'unbiased'"),
        ("config", "position_encoding", "learned", "position_encoding is 'learned'"),
        ("generation_config", "no_repeat_ngram_size", 3, "no_repeat_ngram_size is 3"),
        ("generation_config", "early_stopping", True, "early_stopping is True"),
    ],
)
def test_what_the_engine_does_not_implement_is_refused_by_name(cache, monkeypatch, place, name, value, words):
    checkpoint = cache.open()
    check_engine(checkpoint)
    monkeypatch.setattr(getattr(checkpoint.model, place), name, value)
    with pytest.raises(Refused, match=f"cannot run tiny-en-de: {words}. Use `vaswani explore`"):
        check_engine(checkpoint)


def test_another_kind_of_tokenizer_is_refused(cache, monkeypatch):
    checkpoint = cache.open()
    monkeypatch.setattr(checkpoint.tokenizer, "split_special_tokens", False)
    with pytest.raises(Refused, match="its tokenizer was not made by `learn_tokenizer`"):
        check_engine(checkpoint)


def test_a_folder_that_holds_something_is_left_alone(cache, page, tmp_path):
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match="is not empty. Choose a new folder"):
        export([cache.open()], tmp_path, page)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("exists", [False, True])
def test_an_export_that_fails_half_way_leaves_nothing(cache, page, tmp_path, monkeypatch, exists):
    folder = tmp_path / "site"
    if exists:
        folder.mkdir()
    with pytest.raises(Refused, match="at most 100"):
        export([cache.open()], folder, page, "word " * 200)
    assert folder.exists() == exists and not (exists and any(folder.iterdir()))
    monkeypatch.setattr(export_module, "tensors_file", lambda tensors: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export([cache.open()], folder, page, "Hello!")
    assert [path.name for path in tmp_path.iterdir()] == (["site"] if exists else [])


def test_no_path_of_the_machine_is_in_the_page(copy, cache):
    for file in copy.rglob("*.json"):
        assert str(cache.open().folder.parent) not in file.read_text(encoding="utf-8"), file.name
