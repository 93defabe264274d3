"""Fine-tuning the tiny checkpoint on a domain of its own, whole and with an adapter."""

import itertools
import json
import os
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import PeftModel
from tiny_checkpoint import tiny_checkpoint
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from typer.testing import CliRunner

from training import finetune
from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.commands import app
from vaswani_transformer.documents.memories import Memory


COLOURS = {"red": "rote", "old": "alte", "long": "lange", "blue": "blaue", "new": "neue"}
ANIMALS = {"dogs": "Hunde", "cats": "Katzen", "horses": "Pferde", "birds": "Vögel", "cows": "Kühe"}
PLACES = {"park": "Park", "garden": "Garten", "forest": "Wald", "river": "Fluss"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sentences of one kind, and lines of another tag that must not be read."""
    path = tmp_path_factory.mktemp("data") / "domain.tsv"
    lines = [
        f"two {c} {a} in the {p}\tzwei {COLOURS[c]} {ANIMALS[a]} im {PLACES[p]}\tours\n"
        for c, a, p in itertools.product(COLOURS, ANIMALS, PLACES)
    ]
    path.write_text("".join(lines) + "not\tdies\tother\n" * 50, encoding="utf-8")
    return path


def arguments(data, output, *more):
    return [
        str(data), "--checkpoint", str(tiny_checkpoint()), "--output", str(output), "--held-out", "8",
        "--tag", "ours", "--tag-column", "2", "--batch-size", "16", "--device", "cpu", *map(str, more),
    ]  # fmt: skip


def translations(model, sentences=("two red dogs in the forest", "two new cows in the park")):
    tokenizer = AutoTokenizer.from_pretrained(tiny_checkpoint())
    inputs = tokenizer(list(sentences), padding=True, return_tensors="pt")
    return tokenizer.batch_decode(model.eval().generate(**inputs), skip_special_tokens=True)


def gained(facts) -> float:
    figures = facts["gains"]["held out"]["sacreBLEU"]
    return figures["after"] - figures["before"]


def record(output):
    return json.loads((output / "fine_tuning.json").read_text(encoding="utf-8"))


def test_fine_tuning_gains_and_is_saved_as_a_checkpoint(data, tmp_path):
    output = tmp_path / "fine-tuned"
    finetune.main(arguments(data, output, "--max-steps", 120, "--learning-rate", 0.01))
    facts = record(output)
    assert facts["pairs"] == {"training": 92, "held_out": 8, "left out": 0}
    assert facts["checkpoint"] == tiny_checkpoint().name
    assert facts["options"]["memory"] == "domain.tsv" and str(data.parent) not in json.dumps(facts)
    assert str(output.parent) not in json.dumps(facts) and str(tiny_checkpoint().parent) not in json.dumps(facts)
    assert gained(facts) > 20
    model = AutoModelForSeq2SeqLM.from_pretrained(output)
    assert isinstance(model, VaswaniForConditionalGeneration) and model.dtype == torch.float32
    [first, second] = translations(model)
    assert first.startswith("zwei ")
    shown = CliRunner().invoke(app, ["translate", "--checkpoint", str(output), "two red dogs in the forest"])
    assert shown.exit_code == 0 and shown.stdout.strip() == first


def test_a_memory_is_learned_from(tmp_path, capsys):
    """A TMX file: the checkpoint knows its languages afterwards, and every command takes it."""
    entry = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>'
    pairs = [
        (f"two {c} {a} in the {p}", f"zwei {COLOURS[c]} {ANIMALS[a]} im {PLACES[p]}")
        for c, a, p in itertools.product(COLOURS, ANIMALS, PLACES)
    ]
    memory, output = tmp_path / "memory.tmx", tmp_path / "mine"
    body = "".join(entry.format(*pair) for pair in pairs)
    memory.write_text(f'<tmx version="1.4"><header srclang="en"/><body>{body}</body></tmx>', encoding="utf-8")
    (tmp_path / "other.tsv").write_text("a\tb\nc\td\n", encoding="utf-8")
    finetune.main(
        [str(memory), "--checkpoint", str(tiny_checkpoint()), "--output", str(output), "--max-steps", "20",
         "--batch-size", "16", "--device", "cpu", "--other", str(tmp_path / "other.tsv")]
    )  # fmt: skip
    facts, about = record(output), json.loads((output / "about.json").read_text(encoding="utf-8"))
    assert facts["pairs"] == {"training": 90, "held_out": 10, "left out": 0}
    assert set(facts["gains"]) == {"held out", "other.tsv"}
    figures = facts["gains"]["held out"]["chrF"]
    assert figures["after"] > figures["before"] and 0 < figures["p"] <= 1
    assert (about["name"], about["source_language"], about["target_language"]) == ("mine", "en", "de")
    assert about["trained_on"][-1] == about["domain"] == "memory.tmx" and "scores" not in about
    out = capsys.readouterr().out
    assert "parameters on 90 pairs; 10 pairs held out" in out and "  memory  zwei " in out
    shown = CliRunner().invoke(app, ["translate", "--to", "de", "--checkpoint", str(output), "two red dogs"])
    assert shown.exit_code == 0, shown.output


def test_languages_and_licence_of_a_trained_checkpoint_are_inherited(tmp_path):
    recipe = {"source_language": "cs", "target_language": "sk", "licence": "mit"}
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "training.json").write_text(json.dumps({"recipe": recipe}))
    options = finetune.Options(memory=tmp_path / "m.tsv", output=tmp_path / "mine")
    assert recipe.items() <= finetune.describe(tmp_path, options, str(tmp_path), Memory([], None, None), 7).items()
    of_memory = finetune.describe(tmp_path, options, str(tmp_path), Memory([], "en", "de"), 7)
    assert (of_memory["source_language"], of_memory["target_language"]) == ("en", "de")


def test_a_small_memory_is_read_more_often():
    assert [finetune.epochs_for(pairs, 128) for pairs in (300, 2000, 8500, 9000, 10**6)] == [20, 13, 4, 3, 3]


def test_the_included_checkpoint_for_the_memorys_languages_is_the_default():
    chosen = [
        Path(finetune.checkpoint_for(Memory([], *pair))).name for pair in ((None, None), ("fr", "en"), ("en", "fr"))
    ]
    assert chosen == ["mini-en-de", "mini-fr-en", "mini-en-fr"]
    with pytest.raises(ValueError, match="from 'es' into 'de'. Available: de → en"):
        finetune.checkpoint_for(Memory([], "es", "de"))


@pytest.fixture(scope="module")
def adapters(data, tmp_path_factory):
    """(adapter, the same merged)"""
    outputs = [tmp_path_factory.mktemp("lora") / name for name in ("adapter", "merged")]
    for output, kind in zip(outputs, ("--adapter", "--lora"), strict=True):
        finetune.main(arguments(data, output, "--max-steps", 80, "--learning-rate", 0.03, "--rank", 4, kind))
    return outputs


def test_an_adapter_gains_and_leaves_the_model_as_it_is(adapters):
    facts = record(adapters[0])
    assert gained(facts) > 5
    base = AutoModelForSeq2SeqLM.from_pretrained(tiny_checkpoint(), dtype=torch.float32)
    assert facts["trained_weights"] < base.num_parameters() / 2
    assert not (adapters[0] / "model.safetensors").exists()
    plain = translations(base)
    adapted = PeftModel.from_pretrained(base, adapters[0])
    assert translations(adapted) != plain
    with adapted.disable_adapter():
        assert translations(adapted) == plain


def test_a_merged_adapter_is_a_checkpoint_that_translates_alike(adapters):
    adapted = PeftModel.from_pretrained(
        AutoModelForSeq2SeqLM.from_pretrained(tiny_checkpoint(), dtype=torch.float32), adapters[0]
    )
    merged = AutoModelForSeq2SeqLM.from_pretrained(adapters[1])
    assert merged.state_dict().keys() == VaswaniForConditionalGeneration(merged.config).state_dict().keys()
    batch = {"input_ids": torch.tensor([[5, 9, 1]]), "labels": torch.tensor([[7, 8, 1]])}
    with torch.no_grad():
        torch.testing.assert_close(merged(**batch).logits, adapted.eval()(**batch).logits, rtol=1e-4, atol=1e-4)


WORDS = st.lists(st.sampled_from(["Dog", "dog", "cat,", "7", "12", "!"]), max_size=3).map(" ".join)


@given(st.lists(st.tuples(WORDS, WORDS), max_size=40), st.integers(0, 5), st.integers(0, 3))
def test_nothing_held_out_is_trained_on(pairs, held_out, seed):
    try:
        training, test = finetune.split(pairs, held_out, seed)
    except ValueError:
        return
    assert len(test) == held_out and training and {*training, *test} <= {*pairs}
    for side in (0, 1):
        known = {finetune.normalised(pair[side]) for pair in training}
        assert not known & {finetune.normalised(pair[side]) for pair in test}
    assert (training, test) == finetune.split(pairs, held_out, seed)


@pytest.mark.parametrize(
    ("one", "other"), [("Version 2.0!", "version 31.7"), ("a  b", "A, b."), ("ﬁle", "FILE"), ("Straße", "STRASSE")]
)
def test_near_duplicates_are_the_same_once_normalised(one, other):
    assert finetune.normalised(one) == finetune.normalised(other)


@pytest.mark.parametrize(("one", "other"), [("!", "?"), ("a b", "ab"), ("one dog", "two dogs")])
def test_different_texts_stay_different(one, other):
    assert finetune.normalised(one) != finetune.normalised(other)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--held-out", "500"], "Only 100 distinct pairs: too few"),
        (["--checkpoint", "no-such"], "no-such"),
        (["--target-column", "7"], "has 3 columns; column 7 is missing"),
        (["--output", "."], "already exists and is not empty"),
        (["--to", "fr"], "domain.tsv is ? → fr, but tiny-en-de is en → de."),
    ],
)
def test_mistakes_are_reported_in_one_line(data, tmp_path, capsys, more, message):
    with pytest.raises(SystemExit, match="1"):
        finetune.main([*arguments(data, tmp_path / "output"), *more])
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize("name", ["empty.tsv", "empty.po", "pipe.tsv", "/dev/zero"])
def test_a_memory_without_pairs_or_without_an_end_is_refused_before_the_model_loads(tmp_path, monkeypatch, name):
    monkeypatch.setattr("vaswani_transformer.load", lambda *_, **__: pytest.fail("the model was loaded"))
    path = tmp_path / name
    if name == "pipe.tsv":
        os.mkfifo(path)
    elif name != "/dev/zero":
        path.write_text('msgid ""\nmsgstr ""\n' if path.suffix == ".po" else "", encoding="utf-8")
    good = tmp_path / "good.tsv"
    good.write_text("Hello!\tHallo!\n", encoding="utf-8")
    options = ["--output", str(tmp_path / "out"), "--checkpoint", str(tiny_checkpoint()), "--device", "cpu"]
    for memories in ([str(path)], [str(good), "--other", str(path)]):
        result = CliRunner().invoke(app, ["finetune", *memories, *options])
        assert result.exit_code == 1
        assert re.search("has no pairs|not a regular file", " ".join(result.stderr.split())), result.stderr
        assert not (tmp_path / "out").exists()
