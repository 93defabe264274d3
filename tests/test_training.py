"""The training program on a toy language pair: data, schedule, resuming, averaging, release."""

import json
import lzma
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from training.average import average_checkpoints
from training.data import TokenisedPairs, collate, hold_out, load_split, plan_batches, read_pairs, share, tokenise
from training.evaluate import main as evaluate
from training.evaluate import score
from training.recipe import Data, Optimisation, Source, load_recipe
from training.release import release_weights, write_card
from training.train import Run, learning_rate, whole_folder
from vaswani_transformer.tokenization import learn_tokenizer


WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs", "dog": "Hund"}


def toy_pairs(count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        words = rng.choice(list(WORDS), size=rng.integers(1, 9))
        yield " ".join(words) + ".", " ".join(WORDS[word] for word in words) + "."


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with lzma.open(folder / "train.tsv.xz", "wt", encoding="utf-8") as file:
        for i, (source, target) in enumerate(toy_pairs(400)):
            file.write(f"{source}\t{target}\t{'good' if i % 4 else 'other'}\n")
    test = "".join(f"{source}\t{target}\n" for source, target in toy_pairs(12, seed=1))
    (folder / "test.tsv").write_text(test, encoding="utf-8")
    (folder / "recipe.yaml").write_text(
        """
name: toy-en-de
source_language: en
target_language: de
licence: apache-2.0
notice: A toy.
preset: tiny
vocab_size: 300
model: {d_model: 32, d_ff: 64, encoder_attention_heads: 2, decoder_attention_heads: 2}
data:
  train:
    - {name: Toy, licence: none, path: train.tsv.xz, tag_column: 2, tags: [good], held_out: 10}
  validation:
    - {path: test.tsv}
  test:
    - {name: Toy test, path: test.tsv}
  joined: 0.1
optimisation: {max_steps: 8, batch_tokens: 200, warmup_steps: 4}
checkpointing: {save_steps: 2, log_steps: 1, validation_steps: 4, average_last: 3}
""",
        encoding="utf-8",
    )
    return folder


def run_training(data_folder, output, *overrides):
    run = Run(load_recipe(data_folder / "recipe.yaml", overrides), data_folder, output)
    run.resume()
    run.train()
    run.finish()


def run_command(data_folder, output, *overrides):
    command = [sys.executable, "-m", "training.train", data_folder / "recipe.yaml", "--data", data_folder]
    command += ["--output", output, *(x for override in overrides for x in ("--set", override))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def losses(output):
    lines = map(json.loads, (output / "log.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


@pytest.fixture(scope="module")
def finished_run(data_folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("run")
    result = run_command(data_folder, output)
    assert result.returncode == 0, result.stderr
    return output


class TestSchedule:
    def test_equation_3(self):
        settings = Optimisation(warmup_steps=4000)
        for step in (1, 100, 3999, 4000, 4001, 100_000):
            expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
            assert learning_rate(step, 512, settings) == pytest.approx(expected, rel=1e-12)
        assert learning_rate(4000, 512, settings) == pytest.approx(6.9877e-4, rel=1e-4)  # its peak

    def test_cooldown_reaches_zero_after_the_last_step(self):
        plain, cooled = Optimisation(max_steps=1000), Optimisation(max_steps=1000, cooldown_steps=100)
        assert learning_rate(900, 512, cooled) == learning_rate(900, 512, plain)
        assert learning_rate(951, 512, cooled) == pytest.approx(0.5 * learning_rate(951, 512, plain))
        assert learning_rate(1000, 512, cooled) == pytest.approx(0.01 * learning_rate(1000, 512, plain))


class TestData:
    def test_reads_xz_and_keeps_tagged_lines_only(self, data_folder):
        everything = read_pairs(Source("train.tsv.xz"), data_folder)
        good = read_pairs(Source("train.tsv.xz", tag_column=2, tags=["good"]), data_folder)
        assert everything == list(toy_pairs(400))
        assert good == [pair for i, pair in enumerate(everything) if i % 4]

    def test_names_the_line_that_has_too_few_columns(self, tmp_path):
        (tmp_path / "bad.tsv").write_text("a\tb\nc\n")
        with pytest.raises(ValueError, match=r"bad\.tsv, line 2"):
            read_pairs(Source("bad.tsv"), tmp_path)

    def test_refuses_what_is_not_utf8(self, tmp_path):
        (tmp_path / "latin1.tsv").write_bytes("für\tfor\n".encode("latin-1"))
        with pytest.raises(ValueError, match="not UTF-8"):
            read_pairs(Source("latin1.tsv"), tmp_path)

    def test_nothing_held_out_is_left_in_training(self):
        pairs = list(toy_pairs(500))
        held_out, rest = hold_out(pairs, 40, seed=3)
        assert len(held_out) == len({source for source, _ in held_out}) == 40
        assert set(held_out) <= set(pairs)
        assert not {s for s, _ in held_out} & {s for s, _ in rest}
        assert not {t for _, t in held_out} & {t for _, t in rest}
        assert hold_out(pairs, 40, seed=3) == (held_out, rest)
        assert hold_out(pairs, 40, seed=4)[0] != held_out

    def test_held_out_pairs_do_not_come_in_through_another_source(self, data_folder):
        held = Source("train.tsv.xz", tag_column=2, tags=["good"], held_out=10)
        training, _, held_out = load_split(Data([held, Source("train.tsv.xz")], []), data_folder, seed=1)
        assert not {s for s, _ in held_out} & {s for s, _ in training}
        assert len(training) == len(set(training))

    def test_filters_count_what_they_drop(self):
        tokenizer = learn_tokenizer(["ab"] * 5, 259)  # every letter of the pairs is a token of its own
        pairs = [("xyz", "xyz"), ("", "x"), ("x" * 120, "x" * 120), ("x" * 40, "x")]
        kept, dropped = tokenise(pairs, tokenizer, Data([], [], max_length=100, max_ratio=3.0))
        assert len(kept) == 1
        assert dropped == {"empty": 1, "longer than max_length": 1, "beyond max_ratio": 1}
        assert kept.sources[0][-1] == tokenizer.eos_token_id

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.tuples(st.integers(2, 40), st.integers(2, 40)), min_size=1, max_size=80), st.integers(40, 300))
    def test_batches_hold_every_pair_once_within_the_budget(self, lengths, budget):
        pairs = TokenisedPairs([np.ones(s) for s, _ in lengths], [np.ones(t) for _, t in lengths])
        plan = plan_batches(pairs, budget, seed=1, epoch=0)
        assert sorted(np.concatenate(plan)) == list(range(len(lengths)))
        assert all(max(max(lengths[i]) for i in batch) * len(batch) <= budget for batch in plan)

    def test_batches_are_planned_by_seed_and_epoch_with_little_padding(self):
        rng = np.random.default_rng(0)
        lengths = rng.integers(3, 40, size=(4000, 1)) + rng.integers(0, 4, size=(4000, 2))
        pairs = TokenisedPairs([np.ones(s) for s, _ in lengths], [np.ones(t) for _, t in lengths])
        plan = plan_batches(pairs, 2000, seed=1, epoch=0)
        again = plan_batches(pairs, 2000, seed=1, epoch=0)
        assert all(np.array_equal(a, b) for a, b in zip(plan, again, strict=True))
        other = plan_batches(pairs, 2000, seed=1, epoch=1)
        assert {tuple(sorted(b)) for b in plan} != {tuple(sorted(b)) for b in other}
        padded = sum(lengths[b, 1].max() * len(b) for b in plan)
        assert lengths[:, 1].sum() / padded > 0.95

    def test_collate_pads_sources_with_pad_and_labels_with_minus_100(self):
        pairs = TokenisedPairs([np.array([5, 1]), np.array([6, 7, 1])], [np.array([8, 9, 1]), np.array([1])])
        batch = collate(pairs, [0, 1], pad_token_id=0)
        assert batch["input_ids"].tolist() == [[5, 1, 0], [6, 7, 1]]
        assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
        assert batch["labels"].tolist() == [[8, 9, 1], [1, -100, -100]]

    def test_share_keeps_every_pair(self):
        parts = list(share(np.arange(10), 3))
        assert np.concatenate(parts).tolist() == list(range(10))
        assert [len(part) for part in parts] == [4, 3, 3]


class TestRecipe:
    def test_every_problem_is_named_at_once(self, data_folder):
        overrides = ["optimisation.max_step=3", "vocab_size=many", "optimisation.precision=int8", "colour=red"]
        with pytest.raises(ValueError) as error:
            load_recipe(data_folder / "recipe.yaml", overrides)
        for name in ("optimisation.max_step is unknown", "vocab_size is 'many'", "precision is 'int8'", "colour"):
            assert name in str(error.value)

    def test_a_wrong_recipe_ends_before_anything_is_written(self, data_folder, tmp_path):
        result = run_command(data_folder, tmp_path / "run", "optimisation.max_step=3")
        assert result.returncode == 2
        assert "optimisation.max_step is unknown" in result.stderr
        assert "Traceback" not in result.stderr
        assert not (tmp_path / "run").exists()

    def test_recipes_that_ship_are_valid(self, pytestconfig):
        paths = list((pytestconfig.rootpath / "training" / "recipes").glob("*.yaml"))
        assert paths
        for path in paths:
            assert load_recipe(path).name == path.stem


class TestRun:
    def test_learns(self, finished_run):
        trace = losses(finished_run)
        assert list(trace) == list(range(1, 9))
        assert trace[8] < trace[1]

    def test_a_killed_run_goes_on_with_identical_losses(self, data_folder, finished_run, tmp_path, capsys):
        run_training(data_folder, tmp_path, "optimisation.max_steps=5")
        # What a kill leaves: steps after the last whole checkpoint are lost, a partial folder lies about.
        for folder in tmp_path.glob("checkpoint-0000005"):
            folder.rename(folder.with_suffix(".partial"))
        run_training(data_folder, tmp_path)
        assert f"going on from {tmp_path / 'checkpoint-0000004'}" in capsys.readouterr().out
        assert losses(tmp_path) == losses(finished_run)
        weights = [load_file(run / "model" / "model.safetensors") for run in (tmp_path, finished_run)]
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])

    def test_micro_batches_do_not_change_the_losses(self, data_folder, finished_run, tmp_path):
        overrides = ["model.dropout=0.0", "optimisation.max_steps=4"]
        for name, parts in (("whole", 1), ("parts", 3)):
            run_training(data_folder, tmp_path / name, *overrides, f"optimisation.micro_batches={parts}")
        whole, parts = losses(tmp_path / "whole"), losses(tmp_path / "parts")
        assert whole == pytest.approx(parts, rel=1e-4)

    def test_old_checkpoints_go_and_the_last_ones_are_averaged(self, finished_run):
        folders = sorted(finished_run.glob("checkpoint-*"))
        assert [folder.name for folder in folders] == [f"checkpoint-{step:07d}" for step in (4, 6, 8)]
        mean = average_checkpoints(folder / "model.safetensors" for folder in folders)
        model = AutoModelForSeq2SeqLM.from_pretrained(finished_run / "model")
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter, mean[name])
        facts = json.loads((finished_run / "model" / "training.json").read_text())
        assert facts["averaged_steps"] == [4, 6, 8] and facts["steps"] == 8


class TestAverage:
    def test_mean_in_float32(self, tmp_path):
        for i, value in enumerate((1.0, 2.0, 6.0)):
            save_file({"w": torch.full((2,), value, dtype=torch.bfloat16)}, tmp_path / f"{i}.safetensors")
        mean = average_checkpoints(sorted(tmp_path.iterdir()))
        assert mean["w"].dtype == torch.float32 and mean["w"].tolist() == [3.0, 3.0]

    def test_refuses_what_does_not_fit_together(self, tmp_path):
        save_file({"w": torch.zeros(2)}, tmp_path / "a.safetensors")
        save_file({"w": torch.zeros(3)}, tmp_path / "b.safetensors")
        with pytest.raises(ValueError, match="b.safetensors"):
            average_checkpoints(sorted(tmp_path.iterdir()))
        with pytest.raises(ValueError, match="no checkpoints"):
            average_checkpoints([])


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    with pytest.raises(RuntimeError), whole_folder(tmp_path / "result") as folder:
        (folder / "half").write_text("...")
        raise RuntimeError
    assert not (tmp_path / "result").exists()


def test_scores_are_sacrebleus(finished_run):
    import sacrebleu

    translations, references = ["a b c d e", "f g h i"], ["a b c d f", "f g h i"]
    scores = score(translations, references)
    assert scores["sacreBLEU"]["value"] == round(sacrebleu.corpus_bleu(translations, [references]).score, 2)
    assert "tok:13a" in scores["sacreBLEU"]["signature"] and "case:mixed" in scores["sacreBLEU"]["signature"]


def test_release_and_card(data_folder, finished_run, tmp_path, monkeypatch):
    """The three commands of training/release.py make what cards and the command line read."""
    checkpoint, card = tmp_path / "toy-en-de", tmp_path / "card"
    release_weights(finished_run, checkpoint)
    monkeypatch.setattr(
        sys,
        "argv",
        [*map(str, ["evaluate", checkpoint, "--recipe", data_folder / "recipe.yaml", "--data", data_folder])]
        + ["--output", str(card / "scores.json")],
    )
    evaluate()
    write_card(checkpoint, card)
    text = (card / "README.md").read_text(encoding="utf-8")
    assert text == (checkpoint / "README.md").read_text(encoding="utf-8")
    assert "> A toy." in text and "Toy, less 10 pairs held out" in text and "Toy, held out | 10 |" in text
    about = json.loads((checkpoint / "about.json").read_text(encoding="utf-8"))
    assert 0 <= about["bytes"] - (checkpoint / "model.safetensors").stat().st_size < 500_000
    assert {score["dataset"] for score in about["scores"]} == {"Toy test", "Toy, held out"}
    model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint)
    assert {tensor.dtype for tensor in load_file(checkpoint / "model.safetensors").values()} == {torch.float16}
    assert model.dtype == torch.float32
    assert about["parameters"] == model.num_parameters()
    assert (model.generation_config.num_beams, model.generation_config.length_penalty) == (4, 0.6)
    assert AutoTokenizer.from_pretrained(checkpoint)("one.").input_ids[-1] == model.config.eos_token_id
