"""`vaswani checkpoints` and `vaswani info`, and how the name of a checkpoint is resolved."""

import json
import re
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.utils import SafetensorsFileMetadata, SafetensorsRepoMetadata, TensorInfo
from rich.console import Console
from safetensors import safe_open
from tiny_checkpoint import ABOUT

from vaswani_transformer import catalogue, checkpoint_path
from vaswani_transformer.system import console


def test_checkpoints_table(vaswani, shipped):
    table = vaswani("checkpoints").stdout
    for word in ("tiny-en-de", "en → de", "0.1 million", "250.0 kB", "CC-BY 2.0 FR", "Knows six", "100.0 BLEU, six"):
        assert word in table


@pytest.mark.parametrize("width", [80, 120])
def test_the_listing_begins_with_what_a_user_must_know(vaswani, monkeypatch, tmp_path, width):
    monkeypatch.setattr(console, "out", Console(width=width))
    monkeypatch.setattr(catalogue, "CHECKPOINTS", tmp_path)
    for name, notice in (("a", "For non-commercial use only: trained on captions."), ("b", "")):
        (tmp_path / name).mkdir()
        about = {**ABOUT, "name": name, "notice": notice}
        (tmp_path / name / "about.json").write_text(json.dumps(about), encoding="utf-8")
    rows = vaswani("checkpoints").stdout.splitlines()
    assert rows[0].split() == ["a", *"For non-commercial use only: trained on captions.".split()]
    assert next(row for row in rows if row.startswith("b")).split()[:2] == ["b", "languages"]


def test_checkpoints_json(vaswani, shipped, folder):
    assert json.loads(vaswani("checkpoints", "--json").stdout) == [{**ABOUT, "path": str(folder)}]


def test_no_checkpoints(vaswani, monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "CHECKPOINTS", tmp_path / "absent")
    assert vaswani("checkpoints").stdout == "This version includes no checkpoints.\n"
    assert vaswani("checkpoints", "--json").stdout == "[]\n"


def test_checkpoint_path(shipped, folder):
    assert checkpoint_path("tiny-en-de") == str(folder)
    with pytest.raises(ValueError, match=r"not found: 'tiny'.* Included: tiny-en-de"):
        checkpoint_path("tiny")


@pytest.fixture
def ship(monkeypatch, tmp_path):
    """Makes included checkpoints: name, languages, parameters, domain."""

    def make(*checkpoints):
        for name, source, target, parameters, domain in checkpoints:
            languages = {"source_language": source, "target_language": target}
            about = {**ABOUT, **languages, "name": name, "parameters": parameters, "domain": domain}
            (tmp_path / name).mkdir()
            (tmp_path / name / "about.json").write_text(json.dumps(about), encoding="utf-8")
            (tmp_path / name / "config.json").write_text("{}", encoding="utf-8")
        monkeypatch.setattr(catalogue, "CHECKPOINTS", tmp_path)

    return make


def name_for(*languages):
    return Path(catalogue.for_languages(*languages)).name


def test_of_several_checkpoints_for_a_language_the_largest_general_one_is_taken(ship):
    ship(*[("abcd"[i], "en", "de", n, domain) for i, (n, domain) in enumerate([(5, ""), (7, ""), (6, ""), (8, "law")])])
    assert name_for("en", "de") == "b"


def test_the_checkpoint_is_chosen_by_languages(ship):
    ship(
        *[(f"{a}-{b}", a, b, 1, "") for a, b in (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"), ("fr", "es"))]
    )
    asked = {(None, None): "en-de", ("en", None): "en-de", (None, "FR"): "en-fr", ("fr", "en"): "fr-en"}
    assert {languages: name_for(*languages) for languages in asked} == asked
    with pytest.raises(ValueError, match=r"translate into 'en': de → en, fr → en\..* source language \(--from\)"):
        name_for(None, "en")
    with pytest.raises(ValueError, match=r"translate from 'fr': fr → en, fr → es\..* target language \(--to\)"):
        name_for("fr")
    with pytest.raises(ValueError, match=r"No .* translates from 'es' into 'de'\. Available: de → en, .*fr → es\."):
        name_for("es", "de")


def test_a_checkpoint_whose_weights_are_not_in_the_package_is_listed_with_its_place(vaswani, monkeypatch, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "about.json").write_text(json.dumps({**ABOUT, "name": "far"}), encoding="utf-8")
    monkeypatch.setattr(catalogue, "CHECKPOINTS", tmp_path)
    place = "repository has it in vaswani_transformer/checkpoints/far"
    assert place in vaswani("checkpoints").stdout
    assert place in vaswani("translate", "--checkpoint", "far", "Hello!").stderr
    with pytest.raises(ValueError, match=f"far is not in this package .*{place}"):
        checkpoint_path("far")
    assert catalogue.included() == []


def test_included_checkpoints_describe_themselves():
    for about in catalogue.included():
        assert about.path.name == about.name
        assert about.scores and about.licence and about.trained_on and about.max_length
        assert (about.path / "README.md").is_file()
        config = json.loads((about.path / "config.json").read_text(encoding="utf-8"))
        assert "auto_map" not in config and "custom_pipelines" not in config, "code is added when it is staged"
        assert sum(path.stat().st_size for path in about.path.glob("*.safetensors")) <= about.bytes < 40e6


def test_info_counts_every_parameter_once(vaswani, folder, loaded):
    screen = vaswani("info", str(folder)).stdout
    assert f"{loaded.model.num_parameters():,} parameters in F16" in screen
    rows = [row.split() for row in screen.splitlines()]
    assert ["d_model", "32"] in [row[:2] for row in rows]
    assert ["decoder.layers.*.self_attn.qkv_proj", "2", "96×32", "6,144"] in [row[:4] for row in rows]
    counts = re.findall(r" ([\d,]+) +[\d.]+ *$", screen, re.MULTILINE)
    assert sum(int(count.replace(",", "")) for count in counts) == loaded.model.num_parameters()


def test_info_without_weights_is_the_same_table(vaswani, folder, tmp_path):
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with_weights, without = vaswani("info", str(folder)).stdout, vaswani("info", str(tmp_path)).stdout
    assert without.splitlines()[1:-1] == with_weights.splitlines()[1:-1]
    assert "no weights" in without


def test_info_of_a_hub_model_reads_headers_only(vaswani, folder, monkeypatch):
    with safe_open(folder / "model.safetensors", framework="numpy") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}
        tensors = {
            n: TensorInfo(dtype=s.get_dtype(), shape=s.get_shape(), data_offsets=(0, 0)) for n, s in slices.items()
        }
    metadata = SafetensorsFileMetadata(metadata={}, tensors=tensors)
    repository = SafetensorsRepoMetadata(None, False, {}, {"model.safetensors": metadata})
    models = {("some/model", None): repository, ("some/model", "v1"): repository}
    monkeypatch.setattr(huggingface_hub, "get_safetensors_metadata", lambda name, revision: models[name, revision])
    monkeypatch.setattr(
        "vaswani_transformer.hub.hf_hub_download",
        lambda name, file, revision: models[name, revision] and folder / file,
    )
    monkeypatch.setattr("vaswani_transformer.hub.check_on_hub", lambda source: None)
    here = vaswani("info", str(folder)).stdout
    for name in ("some/model", "some/model@v1"):
        assert vaswani("info", name).stdout.splitlines()[1:-1] == here.splitlines()[1:-1]
    result = vaswani("info", "some/other")
    assert result.exit_code == 1
    assert "Cannot download config.json of some/other" in result.stderr


def test_info_of_a_missing_checkpoint(vaswani):
    result = vaswani("info", "nothing")
    assert result.exit_code == 1
    assert "Checkpoint not found: 'nothing'" in result.stderr
