"""Staging: what is sent, what is left out, and what keeps a folder from being published."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hub_examples import SOURCES, TARGETS, TRANSLATE, WITHOUT_PACKAGE, contents
from huggingface_hub import EvalResultEntry
from huggingface_hub._eval_results import parse_eval_result_entries

from conversion.files.folders import check_new
from conversion.hub import publish
from conversion.hub.staging import check_card
from conversion.options import ConversionError
from vaswani_transformer import catalogue, checkpoint_path
from vaswani_transformer.cards import HUB_ID
from vaswani_transformer.remote_code import FILES, MODEL_FILES


# What is staged -------------------------------------------------------------------------------------------------------


def test_stage_holds_what_was_converted_and_names_the_repository(copy, tmp_path):
    (copy / "optimizer.txt").write_text("not for others")
    (copy / ".git").mkdir()
    (copy / ".git" / "config.json").write_text("{}")
    notes = publish.stage(copy, "ada/tiny-en-de", tmp_path / "tiny-staged")
    staged, before = contents(tmp_path / "tiny-staged"), contents(copy)
    assert before.keys() - staged.keys() == {"optimizer.txt", ".git/config.json"}
    assert staged.keys() - before.keys() == set(FILES) - set(MODEL_FILES), "the pipeline's code is added"
    assert "Not uploaded: optimizer.txt." in notes
    for name in (staged.keys() & before.keys()) - {"README.md", "config.json"}:
        assert staged[name] == before[name]
    config = json.loads(staged["config.json"])
    assert config["auto_map"]["AutoModelForSeq2SeqLM"] and config["custom_pipelines"]["translation"]
    card = staged["README.md"].decode()
    assert 'pipeline("translation", model="ada/tiny-en-de", trust_remote_code=True)' in card
    assert HUB_ID not in card
    publish.stage(copy, "ada/tiny-en-de", tmp_path / "tiny-staged")
    assert contents(tmp_path / "tiny-staged") == staged


def test_a_card_that_its_author_changed_is_kept_and_a_missing_one_is_generated(copy, tmp_path):
    card = copy / "README.md"
    original = card.read_text(encoding="utf-8")
    card.write_text(original.replace("license: unknown", "license: mit") + "\nMine.\n", encoding="utf-8")
    notes = publish.stage(copy, "ada/copy", tmp_path / "tiny-staged")
    assert (tmp_path / "tiny-staged" / "README.md").read_text(encoding="utf-8").endswith("\nMine.\n")
    assert not any("licence" in note for note in notes)
    card.unlink()
    notes = publish.stage(copy, "ada/tiny", tmp_path / "tiny-staged")
    assert (tmp_path / "tiny-staged" / "README.md").read_text(encoding="utf-8") == original.replace(HUB_ID, "ada/tiny")
    assert any("licence" in note for note in notes)


@pytest.mark.parametrize("about", catalogue.included(), ids=lambda about: about.name)
def test_included_checkpoints_are_staged_with_their_cards_and_scores(about, tmp_path):
    publish.stage(Path(checkpoint_path(about.name)), f"ada/{about.name}", tmp_path / "out")
    card = (about.path / "README.md").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == card.replace(HUB_ID, f"ada/{about.name}")
    entries: list[EvalResultEntry] = []
    for file in (tmp_path / "out" / ".eval_results").iterdir():
        entries += parse_eval_result_entries(yaml.safe_load(file.read_text(encoding="utf-8")))
    recorded = {score["value"] for score in about.scores if "Multi30k" in score["dataset"]}
    assert recorded <= {entry.value for entry in entries}
    assert all(
        entry.notes.partition(",")[0] in ("sacreBLEU", "chrF") and "version:" in entry.notes for entry in entries
    )
    assert {entry.task_id for entry in entries} == {f"{about.source_language}-{about.target_language}"}


def test_a_tokenizer_with_code_and_two_vocabularies_is_sent_with_it(copy, tmp_path):
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    settings["auto_map"] = {"AutoTokenizer": [None, "tokenization_vaswani.VaswaniTokenizer"]}
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    (copy / "target_tokenizer.json").write_text("{}")
    (copy / "tokenization_vaswani.py").unlink(missing_ok=True)
    publish.stage(copy, "ada/copy", tmp_path / "out")
    assert contents(tmp_path / "out").keys() == contents(copy).keys() | {"tokenization_vaswani.py", *FILES}


def test_a_folder_without_code_is_staged_with_it_and_loads_where_the_package_is_not_installed(copy, tmp_path):
    for file in copy.glob("*.py"):
        file.unlink()
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    del config["auto_map"]
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    publish.stage(copy, "ada/tiny", tmp_path / "tiny-staged")
    assert not list(copy.glob("*.py")), "the checkpoint itself stays as it is"
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", WITHOUT_PACKAGE + TRANSLATE, str(tmp_path / "tiny-staged"), *SOURCES],
        cwd=tmp_path,
        env={"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    *translations, module = json.loads(result.stdout.splitlines()[-1])
    assert translations == [TARGETS, TARGETS] and module.startswith("transformers_modules.")


# What is private ------------------------------------------------------------------------------------------------------


HOME = "/ho" + "me/ada lovelace"  # (in one piece, a test of the project would take it for a path of this machine)


def test_paths_of_the_machine_are_not_sent(copy, tmp_path):
    recipe = {
        "data": {"train": [{"source": f"{HOME}/data/train.en.gz", "url": "https://host.org/a/b.tgz"}]},
        "command": "train /ro" + "ot/recipes/base.yaml --output ~ada/runs/first and/or",
        "windows": "C:\\Users\\ada\\run",
        "weights": 0.25,
    }
    (copy / "training.json").write_text(json.dumps({"recipe": recipe}), encoding="utf-8")
    card = (copy / "README.md").read_text(encoding="utf-8")
    (copy / "README.md").write_text(f"{card}\nFrom `/ho" + "me/ada/run` by https://a.org/b/c.\n", encoding="utf-8")
    notes = publish.stage(copy, "ada/tiny", tmp_path / "tiny-staged")
    staged = json.loads((tmp_path / "tiny-staged" / "training.json").read_text(encoding="utf-8"))["recipe"]
    assert staged == {
        "data": {"train": [{"source": "train.en.gz", "url": "https://host.org/a/b.tgz"}]},
        "command": "train base.yaml --output first and/or",
        "windows": "run",
        "weights": 0.25,
    }
    text = (tmp_path / "tiny-staged" / "README.md").read_text(encoding="utf-8")
    assert "From `run` by https://a.org/b/c." in text
    assert not any(b"ada lovelace" in content for content in contents(tmp_path / "tiny-staged").values())
    assert "Local paths were shortened to file names in README.md, training.json." in notes


def test_a_link_to_a_file_elsewhere_is_not_sent(copy, tmp_path):
    (tmp_path / "secret").write_text("mine")
    (copy / "secret.model").symlink_to(tmp_path / "secret")
    with pytest.raises(ConversionError, match="links to files outside it.*secret.model"):
        publish.stage(copy, "ada/copy", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_links_of_the_cache_are_followed(copy, tmp_path):
    blobs = tmp_path / "models--a--b" / "blobs"
    blobs.mkdir(parents=True)
    snapshot = blobs.parent / "snapshots" / "0123"
    snapshot.parent.mkdir()
    copy.rename(snapshot)
    (snapshot / "model.safetensors").rename(blobs / "weights")
    (snapshot / "model.safetensors").symlink_to(blobs / "weights")
    publish.stage(snapshot, "ada/copy", tmp_path / "out")
    staged = tmp_path / "out" / "model.safetensors"
    assert not staged.is_symlink() and staged.read_bytes() == (blobs / "weights").read_bytes()


def test_a_token_is_not_sent(copy, tmp_path):
    settings = json.loads((copy / "generation_config.json").read_text(encoding="utf-8"))
    settings["note"] = "hf_" + "aB3" * 11
    (copy / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(ConversionError, match="generation_config.json contains a token of the Hub"):
        publish.stage(copy, "ada/copy", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Models that were trained -------------------------------------------------------------------------------------------


RECIPE = {
    "name": "mine", "source_language": "en", "target_language": "de", "licence": "mit", "notice": "",
    "data": {"train": [{"path": f"{HOME}/data/train.tsv"}]}, "initial": f"{HOME}/start",
}  # fmt: skip
TRAINING = {"recipe": RECIPE, "steps": 12, "hours": 0.5, "device": "a CPU", "validation": {f"{HOME}/v.tsv": 1.25}}
GAINS = {"held out": {"sacreBLEU": {"before": 1.0, "after": 21.5, "p": 0.1, "signature": "nrefs:1|bs:1000"}}}
FINE_TUNING = {
    "options": {"memory": f"{HOME}/memory.tmx"}, "checkpoint": "mini-en-de", "trained_weights": 7, "minutes": 1.5,
    "pairs": {"training": 90, "held_out": 10}, "gains": GAINS,
}  # fmt: skip
TRAINER = {"global_step": 40, "epoch": 2.0, "log_history": [{"loss": 3.0}, {"eval_loss": 2.5, "eval_runtime": 9.0}]}


@pytest.mark.parametrize(
    "files, words",
    [
        ({"training.json": TRAINING}, ["with `vaswani train`", "| steps | 12 |", "train.tsv", "license: mit", "1.25"]),
        (
            {"fine_tuning.json": FINE_TUNING},
            ["fine-tuned from mini-en-de", "memory.tmx", "21.5", "nrefs:1", "license: unknown"],
        ),
        (
            {"trainer_state.json": TRAINER, "training_args.bin": None, "optimizer.pt": None},
            ["transformers' Trainer", "| steps | 40 |", "loss | 2.5", "license: unknown"],
        ),
        ({"training_args.bin": None}, ["trained with transformers", "The training is not recorded"]),
    ],
    ids=["train", "finetune", "Trainer", "Trainer without its state"],
)
def test_a_trained_model_gets_a_card_from_its_record(copy, tmp_path, files, words):
    for name in ("README.md", "conversion.json"):
        (copy / name).unlink()
    for name, content in files.items():
        (copy / name).write_text("a pickle" if content is None else json.dumps(content), encoding="utf-8")
    notes = publish.stage(copy, "ada/mine", tmp_path / "out")
    staged = contents(tmp_path / "out")
    card = staged["README.md"].decode()
    assert all(word in card for word in words), card
    assert check_card(card) == notes[: len(check_card(card))]
    assert 'pipeline("translation", model="ada/mine", trust_remote_code=True)' in card
    assert "eval_runtime" not in card and "runtime" not in card
    assert not any(b"ada lovelace" in content for content in staged.values())
    assert not {"training_args.bin", "optimizer.pt", "fine_tuning.json"} & staged.keys()


def test_languages_and_licence_can_be_given(copy, tmp_path):
    publish.stage(copy, "ada/copy", tmp_path / "a", ["en", "de"], "mit")
    card = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
    assert check_card(card) == [] and "license: mit" in card and "- en\n- de\n" in card
    for name in ("README.md", "conversion.json"):
        (copy / name).unlink()
    (copy / "training.json").write_text(json.dumps(TRAINING), encoding="utf-8")
    publish.stage(copy, "ada/copy", tmp_path / "b", ["cs", "sk"], "cc0-1.0")
    card = (tmp_path / "b" / "README.md").read_text(encoding="utf-8")
    assert check_card(card) == [] and "license: cc0-1.0" in card and "| languages | cs → sk |" in card


# What is refused ------------------------------------------------------------------------------------------------------


def test_everything_missing_in_a_folder_is_reported_at_once(copy, tmp_path):
    for name in ("README.md", "conversion.json", "generation_config.json", "model.safetensors"):
        (copy / name).unlink()
    (copy / "pytorch_model.bin").write_bytes(b"\x80")
    with pytest.raises(ConversionError) as refused:
        publish.stage(copy, "ada/copy", tmp_path / "out")
    for problem in (
        "README.md is missing", "generation_config.json is missing", "model.safetensors is missing",
        "pytorch_model.bin: pickles",
    ):  # fmt: skip
        assert problem in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name, content, problem",
    [
        ("config.json", None, "config.json is missing"),
        ("config.json", "{", "config.json is not JSON"),
        ("tokenizer_config.json", "[]", "tokenizer_config.json is not a JSON object"),
        ("about.json", "[]", "does not describe a checkpoint|is not a JSON object"),
        ("about.json", '{"scores": [{"value": 1}]}', "does not describe a checkpoint|does not contain scores"),
        ("scores.json", "{}", "does not contain scores"),
        ("config.json", '{"model_type": "marian"}', "config.json describes a 'marian' model: convert it first"),
        ("config.json", '{"model_type": "vaswani", "d_model": -1}', "config.json: "),
        ("model.safetensors", "gone", "model.safetensors is damaged"),
        ("README.md", b"\xff", "README.md is not UTF-8 text"),
        ("model.pt", "x", "model.pt: pickles"),
        (
            "README.md",
            "# No metadata\n",
            "Missing in the metadata of README.md .*: library_name: transformers, pipeline_tag: translation",
        ),
        ("README.md", "---\na: [\n---\n", "Cannot read the metadata of README.md"),
    ],
)
def test_problems_of_a_folder_are_reported(copy, tmp_path, name, content, problem):
    (copy / name).unlink(missing_ok=True)
    if content is not None:
        (copy / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConversionError, match="(?s)" + problem):
        publish.stage(copy, "ada/copy", tmp_path / "out")


def test_weights_of_another_model_are_refused(copy, tmp_path):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "d_ff": 128, "encoder_layers": 2}))
    with pytest.raises(
        ConversionError,
        match=r"missing tensors in .*: model\.encoder\.layers\.1\.\S+ and \d+ more\n.*whose shape differs",
    ):
        publish.stage(copy, "ada/copy", tmp_path / "out")
    (copy / "config.json").write_text(json.dumps({**config, "decoder_layers": 1}))
    with pytest.raises(
        ConversionError,
        match=r"unknown tensors in model.safetensors: model\.decoder\.layers\.1\.\S+ and \d+ more",
    ):
        publish.stage(copy, "ada/copy", tmp_path / "out")


def test_no_folder_is_replaced_that_holds_something_else(copy, tmp_path):
    for name, file in (("thesis-staged", "chapter.tex"), ("model", "model.safetensors")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("years of work")
    inside = (copy, copy / "tiny-staged", tmp_path, copy / "config.json")
    for out in (tmp_path / "thesis-staged", tmp_path / "model", *inside):
        with pytest.raises(ConversionError, match="--stage"):
            publish.stage(copy, "ada/copy", out)
    assert (tmp_path / "thesis-staged" / "chapter.tex").read_text() == "years of work"
    assert (tmp_path / "model" / "model.safetensors").read_text() == "years of work"


def test_the_current_folder_is_not_replaced(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConversionError, match="the name of a new folder"):
        check_new(Path("."))


@pytest.mark.parametrize(
    "name", ["tiny", "a/b/c", "ada/", "/tiny", "ada/ti ny", "ada/ti--ny", "https://hub/ada/tiny", ""]
)
def test_invalid_repository_names_are_refused(name):
    with pytest.raises(ConversionError, match="Invalid repository name: .* It must be user/name"):
        publish.check_repo_id(name)
