"""`load` refuses checkpoints that cannot be trusted to translate, and code in a checkpoint never runs."""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hub_server import Hub
from safetensors.torch import load_file, save_file
from tiny_checkpoint import PAIRS, tiny_checkpoint
from transformers import AutoTokenizer

from vaswani_transformer import LoadingError, TranslationPipeline, catalogue, load
from vaswani_transformer.loading import load_model, load_tokenizer


ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(tiny_checkpoint(), tmp_path / "copy"))


def change_weights(folder: Path, change):
    file = folder / "model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file, metadata={"format": "pt"})


def test_loads_model_and_tokenizer(folder):
    model, tokenizer = load(folder)
    assert not model.training
    source, target = next(iter(PAIRS.items()))
    output = model.generate(**tokenizer(source, return_tensors="pt"))
    assert tokenizer.decode(output[0], skip_special_tokens=True) == target


def test_dtype_and_settings_reach_the_model(folder):
    assert load_model(folder, torch.float16).dtype == torch.float16
    assert load_model(folder, attn_implementation="eager").config._attn_implementation == "eager"


# Weights --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def name(folder):
    """A weight that is not tied to another."""
    return next(n for n, w in load_file(folder / "model.safetensors").items() if "fc1" in n and w.dim() == 2)


def test_missing_weights(folder, name):
    change_weights(folder, lambda weights: weights.pop(name))
    with pytest.raises(LoadingError, match=f"missing: {name}"):
        load(folder)


def test_weights_of_the_wrong_shape(folder, name):
    change_weights(folder, lambda weights: weights.update({name: torch.zeros(3, 5)}))
    with pytest.raises(LoadingError, match=rf"of the wrong shape: {name} \[3, 5\], not \[\d+, \d+\]"):
        load(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_numbers(folder, name, value):
    change_weights(folder, lambda weights: weights[name].view(-1).__setitem__(7, value))
    with pytest.raises(LoadingError, match=f"NaN or infinite: {name}"):
        load(folder)


def test_weights_that_the_configuration_has_no_place_for(folder, name):
    change_weights(folder, lambda weights: weights.update({name.replace(".0.", ".7."): torch.zeros(2)}))
    with pytest.raises(LoadingError, match=r"not in the model that config.json describes: .*\.7\."):
        load(folder)


def test_every_problem_is_named_and_long_lists_are_cut(folder, name):
    def change(weights):
        for other in [n for n in weights if "feed_forward" in n and n != name]:
            weights.pop(other)
        weights[name][0] = float("nan")

    change_weights(folder, change)
    with pytest.raises(LoadingError, match=rf"missing: .* and \d+ more; NaN or infinite: {name}"):
        load(folder)


def test_weights_torn_in_two(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(LoadingError, match="Cannot load"):
        load(folder)


def test_two_sets_of_weights(folder, tmp_path):
    load_model(folder).save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    for file in (tmp_path / "shards").glob("model*.safetensors*"):
        shutil.copy(file, folder)
    both = r"two sets of weights: model\.safetensors, .*model\.safetensors\.index\.json"
    with pytest.raises(LoadingError, match=both):
        load(folder)


def store_as(folder: Path, dtype: str, marked: str):
    """Stores the weights in one format, and marks them as another one of as many bytes."""
    file = folder / "model.safetensors"
    weights = {name: weight.to(getattr(torch, dtype)) for name, weight in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    mark = {"float16": b'"F16"', "bfloat16": b'"BF16"'}[dtype]
    header = content[8 : 8 + length].replace(mark, f'"{marked}"'.encode())
    file.write_bytes(struct.pack("<Q", len(header)) + header + content[8 + length :])
    change_json(folder / "config.json", dtype=dtype)


def change_json(file: Path, **fields):
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **fields}), encoding="utf-8")


@pytest.mark.parametrize(
    "dtype, marked, message",
    [
        ("float16", "I16", r"stored as integers: .*weight \(I16\)"),
        ("float16", "U16", r"stored as integers: .*weight \(U16\)"),
        ("float16", "BF16", "marks them as BF16, but their values make sense only as F16"),
        ("bfloat16", "F16", "marks them as F16, but their values make sense only as BF16"),
    ],
)
def test_weights_in_another_format_than_their_file_says(folder, dtype, marked, message):
    store_as(folder, dtype, marked)
    with pytest.raises(LoadingError, match=message):
        load(folder)


@pytest.mark.parametrize("dtype, other", [("float16", "bfloat16"), ("bfloat16", "float16"), ("float16", "float32")])
def test_a_dtype_in_config_json_that_is_not_the_files_may_be_meant(folder, dtype, other):
    store_as(folder, dtype, {"float16": "F16", "bfloat16": "BF16"}[dtype])
    change_json(folder / "config.json", dtype=other)
    load(folder)


@pytest.mark.parametrize("name, value", [("encoder_layers", 10**6), ("d_ff", 10**8)])
def test_absurd_sizes(folder, name, value):
    change_json(folder / "config.json", **{name: value})
    with pytest.raises(LoadingError, match=rf"{name} is {value}; it must be at most \d+\.$"):
        load(folder)


GROWTH = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
SLOW = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    "fields, message",
    [
        (
            {"normalizer": {"type": "Sequence", "normalizers": [GROWTH] * 4}},
            "makes texts up to 1,000,000,000,000 times",
        ),
        ({"decoder": {"type": "Sequence", "decoders": [GROWTH] * 2}}, "makes texts up to 1,000,000 times as long"),
        (
            {
                "normalizer": {
                    "type": "Sequence",
                    "normalizers": [{"type": "Sequence", "normalizers": [GROWTH] * 2}] * 2,
                }
            },
            "makes texts up to 1,000,000,000,000 times",
        ),
        ({"pre_tokenizer": SLOW}, "has a regular expression that takes too long"),
    ],
    ids=["normalizer", "decoder", "nested", "regular expression"],
)
def test_a_tokenizer_that_would_use_up_memory_or_time(folder, fields, message):
    change_json(folder / "tokenizer.json", **fields)
    with pytest.raises(LoadingError, match=message):
        load(folder)


def test_the_padding_of_tokenizer_json_which_can_be_of_any_length_is_not_used(folder):
    padding = {"strategy": {"Fixed": 10_000}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    change_json(folder / "tokenizer.json", padding=padding | {"pad_type_id": 0, "pad_token": "<pad>"})
    _, tokenizer = load(folder)
    assert len(tokenizer.backend_tokenizer.encode("A dog.").ids) < 100


@pytest.mark.parametrize("text", ["[" * 100_000, '{"max_length": "long", "source_language": 5}', "[]"])
def test_a_hostile_about_json_is_as_good_as_none(folder, text):
    (folder / "about.json").write_text(text)
    model, tokenizer = load(folder)
    source, target = next(iter(PAIRS.items()))
    assert TranslationPipeline(model=model, tokenizer=tokenizer)(source)[0]["translation_text"] == target
    with pytest.raises(ValueError, match=r"about\.json does not describe a checkpoint"):
        catalogue.read_about(folder)


# Settings and tokenizer ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_generation_config_that_cannot_be_read(folder, text):
    (folder / "generation_config.json").write_text(text)
    with pytest.raises(LoadingError, match="generation_config.json"):
        load(folder)


def test_a_generation_config_may_be_absent(folder):
    (folder / "generation_config.json").unlink()
    load(folder)


def test_tokenizer_ids_beyond_the_vocabulary(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<2de>"])
    tokenizer.save_pretrained(folder)
    load_tokenizer(folder)
    with pytest.raises(LoadingError, match=r"ids up to 300, but its model has embeddings for 0 to 299.*resize_token"):
        load(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_damaged_files(folder, name):
    (folder / name).write_text("{")
    with pytest.raises(LoadingError, match=f"Cannot load .*{folder.name}"):
        load(folder)


# Code ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def trap(tmp_path, folder):
    """A folder that looks like a model of unknown kind and wants to run its own code; and what that would write."""
    evidence = tmp_path / "ran"
    config = {"model_type": "unknown_to_all", "auto_map": {name: "trap.Trap" for name in AUTO_CLASSES}}
    (folder / "config.json").write_text(json.dumps(config))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "Trap", "auto_map": {"AutoTokenizer": ["trap.Trap", "trap.Trap"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "trap.py").write_text(f"open({str(evidence)!r}, 'w').write('ran')\nclass Trap: pass\n")
    return folder, evidence


AUTO_CLASSES = ["AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM"]

# Each is a program whose standard input agrees to everything.
DOORS = {
    "translate": "from vaswani_transformer.commands import app; app(['translate', '--checkpoint', folder])",
    "info": "from vaswani_transformer.commands import app; app(['info', folder])",
    "load": "import vaswani_transformer as v; v.load(folder)",
    "load_tokenizer": "from vaswani_transformer.loading import load_tokenizer; load_tokenizer(folder)",
    "info without weights": """
os.remove(folder + '/model.safetensors')
from vaswani_transformer.commands import app
app(['info', folder])""",
}
# Each door in a process of its own, forked from one that has imported what they share.
EACH_DOOR = """
import json, os, sys
import vaswani_transformer.model.pipeline_translation
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
folder, evidence, *doors = sys.argv[1:]
for number, door in enumerate(doors):
    if os.fork():
        status = os.waitstatus_to_exitcode(os.wait()[1])
        print(json.dumps([status, os.path.exists(evidence), open(f"output-{number}").read()]))
    else:
        os.dup2(os.open("answers", os.O_RDONLY), 0)
        for stream in (1, 2):
            os.dup2(os.open(f"output-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
        exec(door)
        sys.exit()
"""


def open_doors(doors: list[str], place, evidence: Path, folder: Path, **environment: str):
    """Asserts that none of the doors runs the code at `place`, asks about it, or takes it for a model."""
    folder.mkdir()
    (folder / "answers").write_text("y\n1\nyes\n" * 9)
    result = subprocess.run(
        [sys.executable, "-u", "-c", EACH_DOOR, str(place), str(evidence), *(DOORS[door] for door in doors)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    outcomes = map(json.loads, result.stdout.splitlines())
    for door, (status, ran, printed) in zip(doors, outcomes, strict=True):
        assert not ran, door
        assert printed and "y/N" not in printed, door
        if door != "info":  # which reads the shapes in the file, and needs no class for that
            assert status != 0, door


def test_code_in_a_checkpoint_is_never_run_nor_asked_about(trap, tmp_path):
    folder, evidence = trap
    open_doors(list(DOORS), folder, evidence, tmp_path / "output")


def test_code_in_a_repository_of_the_hub_is_never_run_nor_asked_about(trap, tmp_path):
    folder, evidence = trap
    with Hub() as hub:
        hub.repos["eve/trap"] = repo = {"private": False, "refs": {}, "commits": {}}
        hub.commit(repo, "main", {path.name: path.read_bytes() for path in folder.iterdir()}, None)
        client = {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_OFFLINE": "",
        }
        open_doors(["translate", "info", "load_tokenizer"], "eve/trap", evidence, tmp_path / "output", **client)
        hub.shutdown()
    assert hub.asked("GET .*/config.json")


def test_the_refusal_says_why(trap):
    with pytest.raises(LoadingError, match="needs its own code, which is never run here"):
        load(trap[0])
