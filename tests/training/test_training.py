"""Training runs: what they learn, how they are interrupted and resumed, and how they fail."""

import json
import math
import random
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from toy_data import arguments, copy_run, finish, interrupt, limit_files, logged, run_here, start
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from training import train
from training.average import average_checkpoints
from training.batches import Progress
from training.checkpoint import CheckpointError, checkpoints, find_damage
from training.meter import DivergenceError
from training.optimisation import hide_averages
from training.recipe import load_recipe, source_title
from training.report import Report
from training.result import earlier_runs
from training.run import Run
from vaswani_transformer.catalogue import read_about
from vaswani_transformer.system.cpu import bfloat16_slowdown


PROGRESS = ("step", "epoch", "batch", "losses", "seconds")


STEPS = 12  # of the toy recipe, which saves at 3, 6, 9 and 12 and logs at 2, 4, ...


@pytest.fixture(scope="module")
def whole(toy, cache, tmp_path_factory):
    """A run that nothing interrupted; with how long it took."""
    folder = tmp_path_factory.mktemp("whole")
    begun = time.monotonic()
    code, text = finish(start(arguments(toy, folder / "run", cache=cache), folder / "out"), folder / "out")
    assert code == 0, text
    assert "of them padding" in text and "the mean of 3 checkpoints" in text
    (folder / "run" / "took").write_text(str(time.monotonic() - begun))
    return folder / "run"


@pytest.fixture(scope="module")
def stopped(toy, cache, whole, tmp_path_factory):
    """A run that got SIGTERM while it wrote the log of step 4: (its folder, exit code, what it said)."""
    output = tmp_path_factory.mktemp("stopped") / "run"
    asked = partial(interrupt, 2, str(output / "log.jsonl"), signal.SIGTERM)
    log = output.parent / "out"
    return output, *finish(start(arguments(toy, output, cache=cache), log, before=asked), log)


def flip_byte(file: Path, place: int | None = None, bit: int = 0):
    content = bytearray(file.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1 << bit
    file.write_bytes(content)


def names(run: Path) -> list[str]:
    return [folder.name for folder in checkpoints(run)]


def assert_same_run(run: Path, expected: Path):
    """Every loss logged and every weight of the last checkpoint and of the mean, to the bit."""
    for key in ("loss", "validation_loss", "learning_rate"):
        assert logged(run, key) == logged(expected, key)
    for folder in (names(expected)[-1], "model"):
        weights, others = (load_file(each / folder / "model.safetensors") for each in (run, expected))
        assert weights.keys() == others.keys()
        assert all(torch.equal(weights[name], others[name]) for name in others), folder


# A whole run ---------------------------------------------------------------------------------------------------------


def test_learns(whole):
    losses, rates = logged(whole), logged(whole, "learning_rate")
    assert list(losses) == [2, 4, 6, 8, 10, 12]
    assert losses[12] < losses[2] - 1
    assert list(logged(whole, "validation_loss")) == [4, 8, 12]
    assert rates == {step: pytest.approx(32**-0.5 * min(step**-0.5, step * 4**-1.5)) for step in rates}


def test_old_checkpoints_go_and_the_last_ones_are_averaged(whole):
    folders = checkpoints(whole)
    assert names(whole) == [f"checkpoint-{step:07d}" for step in (6, 9, 12)]
    # Only the last two have what a run needs to resume.
    assert [(folder / "optimizer.safetensors").exists() for folder in folders] == [False, True, True]
    mean = average_checkpoints(folder / "model.safetensors" for folder in folders)
    model = AutoModelForSeq2SeqLM.from_pretrained(whole / "model")
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, mean[name])
    facts = json.loads((whole / "model" / "training.json").read_text())
    assert facts["averaged_steps"] == [6, 9, 12] and facts["steps"] == STEPS
    assert AutoTokenizer.from_pretrained(whole / "model")("one.").input_ids[-1] == model.config.eos_token_id
    settings = model.generation_config
    assert (settings.num_beams, settings.length_penalty, settings.min_new_tokens) == (4, 0.6, 1)


def test_the_result_records_its_languages(whole):
    """So that `vaswani serve` and the rules for texts know them."""
    about = read_about(whole / "model")
    assert about.languages == "en → de" and about.bytes > about.parameters
    settings = pipeline("translation", model=str(whole / "model")).training_texts
    assert (settings.source_language, settings.target_language) == ("en", "de")


def test_held_out_pairs_are_written_down(whole, toy):
    held_out = (whole / "held_out.tsv").read_text(encoding="utf-8").splitlines()
    assert len(held_out) == 10 == len({line.split("\t")[0] for line in held_out})


# Going on ------------------------------------------------------------------------------------------------------------


def test_killed_at_any_moment_a_run_ends_as_if_it_never_had_been(toy, cache, whole, tmp_path):
    """SIGKILL when files of the run are touched, which is when they might be left half done, and at any other time."""
    rng, output, log = random.Random(7), tmp_path / "run", tmp_path / "out"
    command, killed = arguments(toy, output, cache=cache), 0
    for attempt in range(6):
        if attempt % 3 == 2:
            process = start(command, log)
            process.join(rng.uniform(0.3, 0.9) * float((whole / "took").read_text()))
            process.kill()
        else:
            process = start(command, log, before=partial(interrupt, rng.randint(30, 90), str(output), signal.SIGKILL))
        code, text = finish(process, log)
        assert code in (0, -signal.SIGKILL), text
        killed += code != 0
    code, text = finish(start(command, log), log)
    assert code == 0, text
    # The first two surely: what a kill at any other time leaves for the attempts after it depends on the machine.
    assert killed >= 2 and "resuming from" in text
    assert_same_run(output, whole)


def test_sigterm_saves_and_says_how_to_resume(stopped):
    output, code, text = stopped
    assert code == 1
    assert "Stopped after step 5 and saved it. Rerun the command to resume there." in text
    assert "Traceback" not in text
    assert names(output)[-1] == "checkpoint-0000005"


def test_a_full_disk_leaves_the_last_checkpoint_and_the_run_resumes(toy, cache, whole, stopped, tmp_path):
    """From where SIGTERM stopped it, whose checkpoint is not among those that are averaged in the end."""
    output, log = copy_run(stopped[0], tmp_path / "run"), tmp_path / "out"
    sizes = [(output / "checkpoint-0000005" / f"{part}.safetensors").stat().st_size for part in ("model", "optimizer")]
    assert sizes[0] < sizes[1]
    command = arguments(toy, output, cache=cache)
    code, text = finish(start(command, log, before=partial(limit_files, sum(sizes) // 2)), log)
    assert code == 1
    assert "checkpoint-0000006 could not be written" in text and "File too large" in text
    assert f"The last complete checkpoint is {output / 'checkpoint-0000005'}" in text
    assert "Traceback" not in text
    assert names(output) == ["checkpoint-0000003", "checkpoint-0000005"]
    assert not list(output.glob("*.partial"))
    assert find_damage(checkpoints(output)[-1]) is None
    code, text = finish(start(command, log), log)
    assert code == 0, text
    assert_same_run(output, whole)
    assert names(output) == names(whole)


def test_no_room_for_the_log_ends_in_a_sentence_too(toy, cache, tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Report, "log", full)
    monkeypatch.setattr(sys, "argv", ["train", *arguments(toy, tmp_path, "optimisation.max_steps=2", cache=cache)])
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        with pytest.raises(SystemExit, match="1"):
            train.main()
        assert "No space left on device" in capsys.readouterr().err
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), handlers, strict=True):
            signal.signal(number, handler)


def test_every_flipped_bit_of_a_checkpoint_is_found(whole, tmp_path):
    rng = random.Random(1)
    folder = checkpoints(copy_run(whole, tmp_path / "run"))[-1]
    assert find_damage(folder) is None
    place = json.loads((folder / "state.json").read_text())
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        for _ in range(40):
            flip_byte(file, rng.randrange(len(content)), rng.randrange(8))
            if find_damage(folder) is None:  # then its contents are unchanged
                state = json.loads((folder / "state.json").read_text())
                assert file.name == "state.json" and all(state[key] == place[key] for key in PROGRESS)
            file.write_bytes(content)
        file.write_bytes(content[:-1])
        assert find_damage(folder), f"{file} is cut off"
        file.unlink()
        assert find_damage(folder), f"{file} is gone"
        file.write_bytes(content)
    assert find_damage(folder) is None


def test_a_damaged_checkpoint_is_left_out_and_the_one_before_is_used(toy, cache, whole, tmp_path, capsys):
    output = copy_run(whole, tmp_path / "run")
    flip_byte(output / "checkpoint-0000012" / "model.safetensors")
    with pytest.warns(
        UserWarning, match=r"Skipping the damaged checkpoint .*checkpoint-0000012: model\.safetensors has changed"
    ):
        run_here(toy, output, cache=cache)
    assert f"resuming from {output / 'checkpoint-0000009'}" in capsys.readouterr().out
    assert_same_run(output, whole)


@pytest.mark.filterwarnings("ignore:.*is left out")
def test_damage_everywhere_is_an_error(toy, cache, whole, tmp_path):
    output = copy_run(whole, tmp_path / "run")
    for folder in checkpoints(output):
        (folder / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"All checkpoints in .*run are damaged. Move them away"):
        run_here(toy, output, cache=cache)


def test_damaged_weights_are_not_averaged(toy, cache, whole, tmp_path):
    output = copy_run(whole, tmp_path / "run")
    flip_byte(output / "checkpoint-0000006" / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"checkpoint-0000006 cannot be averaged: model\.safetensors has changed"):
        run_here(toy, output, cache=cache)
    assert not (output / "model").exists()


def test_a_run_resumes_with_more_steps_but_not_with_another_recipe(toy, cache, whole, tmp_path):
    output = copy_run(whole, tmp_path / "run")
    overrides = ["seed=1", "data.max_length=64", "optimisation.adam_beta2=0.99", "optimisation.max_steps=14"]
    with pytest.raises(ValueError, match="These keys differ: (.*)[.] Restore") as error:
        run_here(toy, output, *overrides, cache=cache)
    assert "data.max_length, seed, optimisation.adam_beta2. Restore" in str(error.value)
    run_here(toy, output, "optimisation.max_steps=14", "optimisation.micro_batches=2", "name=longer", cache=cache)
    assert [step for step in logged(output) if step > STEPS] == [14]
    assert {step: loss for step, loss in logged(output).items() if step <= STEPS} == logged(whole)
    assert names(output) == [f"checkpoint-{step:07d}" for step in (9, 12, 14)]


def test_a_run_of_an_earlier_version_resumes(toy, cache, whole, tmp_path):
    """Its recipe does not have the keys that were added later."""
    output = copy_run(whole, tmp_path / "run")
    recipe = json.loads((output / "recipe.json").read_text(encoding="utf-8"))
    del recipe["data"]["bpe_dropout"], recipe["data"]["train"][0]["revision"], recipe["optimisation"]["r_drop"]
    (output / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
    run_here(toy, output, "optimisation.max_steps=13", cache=cache)
    assert names(output)[-1] == "checkpoint-0000013"


@pytest.mark.parametrize(
    "settings",
    [
        ["optimisation.optimiser=muon", "optimisation.r_drop=5", "data.bpe_dropout=0.1"],
        ["data.streaming=true", "data.window=60"],
    ],
)
def test_other_kinds_of_runs_resume_exactly_too(toy, cache, tmp_path, settings):
    if "streaming" in settings[0]:
        settings = [*settings, "data.train.0.held_out=0"]
    for output, steps in ((tmp_path / "whole", 6), (tmp_path / "run", 4), (tmp_path / "run", 6)):
        run_here(toy, output, f"optimisation.max_steps={steps}", *settings, cache=cache)
    losses = logged(tmp_path / "run")
    assert list(losses) == [2, 4, 6] and losses == logged(tmp_path / "whole")
    weights = [load_file(tmp_path / name / "checkpoint-0000006/model.safetensors") for name in ("run", "whole")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])


def test_schedule_free_resumes_where_it_was_and_saves_its_averages(toy, cache, tmp_path):
    settings = ["optimisation.optimiser=schedule_free", "checkpointing.average_last=1"]
    for output, steps in ((tmp_path / "whole", 6), (tmp_path / "run", 4), (tmp_path / "run", 6)):
        run = run_here(toy, output, f"optimisation.max_steps={steps}", *settings, cache=cache)
    assert logged(tmp_path / "run") == pytest.approx(logged(tmp_path / "whole"), rel=1e-5)
    [group] = run.optimisers[0].param_groups
    assert group["k"] == 6 and not group["train_mode"]
    saved = load_file(tmp_path / "run" / "model" / "model.safetensors")
    for name, weight in run.model.named_parameters():
        if name in saved:
            torch.testing.assert_close(saved[name], weight)
    hide_averages(run.optimisers)
    assert any(not torch.equal(saved[name], weight) for name, weight in run.model.named_parameters() if name in saved)


def test_bpe_dropout_splits_tokens_differently_in_each_epoch(toy, cache, tmp_path):
    overrides = ["data.bpe_dropout=0.3", "optimisation.max_steps=1"]
    run = Run(load_recipe(toy / "recipe.yaml", overrides), toy, tmp_path, cache)
    lengths = []
    for epoch in (0, 1, 0):
        batch = next(run.batches(Progress(0, epoch, 0)))
        lengths.append(batch.pairs.lengths.tolist())
    whole = run.data.corpus.epoch(0)[0].lengths.sum()
    assert lengths[0] == lengths[2] != lengths[1]
    assert np.sum(lengths[0]) > 1.1 * whole


# Ways to compute the same ---------------------------------------------------------------------------------------


def test_micro_batches_do_not_change_the_losses(toy, cache, tmp_path):
    """Some batches have fewer pairs than parts."""
    overrides = ["model.dropout=0.0", "optimisation.max_steps=6", "optimisation.batch_tokens=20", "data.max_length=18"]
    for name, parts in (("whole", 1), ("parts", 3)):
        run_here(toy, tmp_path / name, *overrides, f"optimisation.micro_batches={parts}", cache=cache)
    assert logged(tmp_path / "parts") == pytest.approx(logged(tmp_path / "whole"), rel=1e-4)


@pytest.mark.parametrize(
    "setting, tolerance",
    [
        ("gradient_checkpointing=true", 1e-6),  # and the same dropout
        ("workers=1", 0),
        ("precision=bfloat16", 0.02),
        ("attention=sdpa", None),
    ],
)
def test_settings_that_do_not_change_the_losses(toy, cache, whole, tmp_path, setting, tolerance):
    run_here(toy, tmp_path, "optimisation.max_steps=4", f"optimisation.{setting}", cache=cache)
    expected = {step: loss for step, loss in logged(whole).items() if step <= 4}
    # Fused attention draws other dropout masks.
    tolerance = 0.1 if tolerance is None else tolerance
    assert logged(tmp_path) == pytest.approx(expected, rel=tolerance, abs=0)


@pytest.mark.parametrize(
    "precision, cost, used, said",
    [
        ("bfloat16", 8.0, "bfloat16", "rerun it with --set optimisation.precision=float32"),
        ("bfloat16", 0.5, "bfloat16", None),
        ("float32", 8.0, "float32", None),
        ("auto", 8.0, "float32", "Training in float32."),
        ("auto", 0.5, "bfloat16", None),
    ],
)
def test_precision_fits_the_cpu(toy, cache, tmp_path, monkeypatch, capsys, precision, cost, used, said):
    monkeypatch.setattr("training.prepare.bfloat16_slowdown", lambda: cost)
    run_here(toy, tmp_path, "optimisation.max_steps=1", f"optimisation.precision={precision}", cache=cache)
    output = capsys.readouterr().out
    assert ("takes 8.0 times as long as in float32" in output) == bool(said)
    assert (said or "") in output
    recorded = json.loads((tmp_path / "model" / "training.json").read_text())
    assert recorded["recipe"]["optimisation"]["precision"] == used


def test_a_resumed_run_keeps_the_precision_it_chose(toy, cache, tmp_path, monkeypatch, capsys):
    for steps, cost in ((1, 0.5), (2, 8.0)):
        monkeypatch.setattr("training.prepare.bfloat16_slowdown", lambda cost=cost: cost)
        run_here(toy, tmp_path, f"optimisation.max_steps={steps}", "optimisation.precision=auto", cache=cache)
    assert json.loads((tmp_path / "recipe.json").read_text())["optimisation"]["precision"] == "bfloat16"
    assert "Stop the run, then rerun it with --set optimisation.precision=float32" in capsys.readouterr().out


def test_bfloat16_costs_its_fastest_product_over_that_of_float32(monkeypatch):
    """By a clock on which products in bfloat16, which come first, take 9 and 4 seconds, those in float32 1 and 2."""
    clock = iter([0, 9, 10, 14, 20, 21, 30, 32])
    monkeypatch.setattr("vaswani_transformer.system.cpu.perf_counter", lambda: next(clock))
    assert bfloat16_slowdown(times=2) == 4


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_r_drop_adds_what_two_draws_of_dropout_disagree_about(toy, cache, tmp_path, dropout):
    losses = []
    for alpha in (0, 1e-9, 5):
        overrides = [f"model.dropout={dropout}", "optimisation.max_steps=4", f"optimisation.r_drop={alpha}"]
        run_here(toy, tmp_path / str(alpha), *overrides, cache=cache)
        losses.append(list(logged(tmp_path / str(alpha)).values()))
    plain, twice, agreeing = losses
    assert twice == pytest.approx(plain, rel=0.05 if dropout else 1e-5)
    if dropout:
        assert agreeing[0] > 1.01 * twice[0]
    else:
        assert agreeing == pytest.approx(plain, rel=1e-5)


@pytest.mark.slow  # compiling takes a minute
def test_compiled_losses_are_the_same(toy, cache, tmp_path):
    for name in ("false", "true"):
        overrides = ["model.dropout=0.0", "optimisation.max_steps=4", f"optimisation.compile={name}"]
        run_here(toy, tmp_path / name, *overrides, cache=cache)
    assert logged(tmp_path / "true") == pytest.approx(logged(tmp_path / "false"), rel=1e-4)


@pytest.mark.parametrize("max_grad_norm", [0.05, None])
def test_gradients_are_clipped_when_asked(toy, cache, tmp_path, max_grad_norm):
    overrides = ["optimisation.max_steps=3", f"optimisation.max_grad_norm={max_grad_norm or 'null'}"]
    run = Run(load_recipe(toy / "recipe.yaml", overrides), toy, tmp_path, cache)
    norms = []
    run.optimisers[0].register_step_pre_hook(
        lambda *_: norms.append(math.sqrt(sum(float(p.grad.square().sum()) for p in run.model.parameters())))
    )
    run.train()
    assert len(norms) == 3
    if max_grad_norm:
        assert norms == pytest.approx([0.05] * 3, rel=1e-3)
    else:
        assert min(norms) > 0.1


def test_starts_from_a_checkpoint_with_its_tokenizer(toy, cache, whole, tmp_path):
    overrides = ["preset=null", "vocab_size=null", "model={dropout: 0.3}", f"initial={whole / 'model'}"]
    recipe = load_recipe(toy / "recipe.yaml", [*overrides, "optimisation.max_steps=1"])
    run = Run(recipe, toy, tmp_path, cache)
    expected = load_file(whole / "model" / "model.safetensors")
    parameters = dict(run.model.named_parameters())
    assert all(torch.equal(parameters[name], expected[name]) for name in parameters)
    assert run.config.dropout == 0.3
    assert run.data.tokenizer.get_vocab() == AutoTokenizer.from_pretrained(whole / "model").get_vocab()
    run.train()
    run.finish()
    tokenizers = [json.loads((each / "model" / "tokenizer.json").read_text()) for each in (tmp_path, whole)]
    assert tokenizers[0] == tokenizers[1]
    assert not (tmp_path / "tokenizer").exists()
    assert (tmp_path / "held_out.tsv").read_bytes() == (whole / "held_out.tsv").read_bytes()
    before, facts = (json.loads((each / "model" / "training.json").read_text()) for each in (whole, tmp_path))
    [earlier] = facts["earlier"]
    assert before["earlier"] == [] and {key: earlier[key] for key in ("steps", "hours", "threads")} == {
        key: before[key] for key in ("steps", "hours", "threads")
    }
    assert [source["name"] for source in earlier["sources"]] == [
        source_title(**source) for source in before["recipe"]["data"]["train"]
    ]
    assert earlier["batch_tokens"] == before["recipe"]["optimisation"]["batch_tokens"]
    assert [one["steps"] for one in earlier_runs(str(tmp_path / "model"))] == [before["steps"], 1], "oldest first"
    (tmp_path / "model" / "training.json").write_text('{"epochs": 3}')
    assert earlier_runs(str(tmp_path / "model")) == []


def test_does_not_start_from_a_checkpoint_with_weights_missing(toy, cache, whole, tmp_path):
    start = shutil.copytree(whole / "model", tmp_path / "start")
    weights = load_file(start / "model.safetensors")
    del weights["model.decoder.layers.0.cross_attn.q_proj.weight"]
    save_file(weights, start / "model.safetensors", {"format": "pt"})
    overrides = ["preset=null", "vocab_size=null", f"initial={start}", "data.train.0.held_out=0"]
    recipe = load_recipe(toy / "recipe.yaml", overrides)
    with pytest.raises(ValueError, match="missing: .*cross_attn.q_proj.weight"):
        Run(recipe, toy, tmp_path / "run", cache)


# Failures ------------------------------------------------------------------------------------------------------------


def assert_finite(run: Path):
    for folder in checkpoints(run):
        for file in folder.glob("*.safetensors"):
            assert all(tensor.isfinite().all() for tensor in load_file(file).values()), file


def test_a_loss_that_is_not_finite_stops_the_run_and_names_its_batch(toy, cache, tmp_path, monkeypatch):
    """Even where many steps pass between two reports."""
    run = Run(load_recipe(toy / "recipe.yaml", ["checkpointing.log_steps=50"]), toy, tmp_path, cache)
    batches, original = {}, Run.loss

    def loss(self, model, part, tokens):
        if model.training:
            batches[self.progress.step + 1] = part["labels"]
        return original(self, model, part, tokens) * (math.nan if model.training and self.progress.step == 3 else 1)

    monkeypatch.setattr(Run, "loss", loss)
    with pytest.raises(DivergenceError, match=r"nan at step 4 \(epoch 0, batch 4\)[.] .*not_finite.tsv has"):
        run.train()
    named = [line.split("\t")[1] for line in (tmp_path / "not_finite.tsv").read_text().splitlines()]
    rows = [row[row != -100] for row in batches[4]]
    assert sorted(named) == sorted(run.data.tokenizer.batch_decode(rows, skip_special_tokens=True))
    assert names(tmp_path) == ["checkpoint-0000003"]
    assert_finite(tmp_path)


def test_weights_that_are_not_finite_are_not_saved(toy, cache, tmp_path):
    """A gradient can overflow where the loss does not; the next loss would come after the checkpoint."""
    run = Run(load_recipe(toy / "recipe.yaml"), toy, tmp_path, cache)
    weight = next(weight for name, weight in run.model.named_parameters() if name.endswith("fc2.weight"))
    weight.register_hook(lambda gradient: gradient * (math.nan if run.progress.step == 5 else 1))
    with pytest.raises(CheckpointError, match=r"0000006 was not written: model\..*fc2\.weight.* not finite"):
        run.train()
    assert names(tmp_path) == ["checkpoint-0000003"]
    assert_finite(tmp_path)


def test_a_wrong_recipe_ends_before_anything_is_written(toy, tmp_path):
    log = tmp_path / "out"
    code, text = finish(start(arguments(toy, tmp_path / "run", "optimisation.max_step=3"), log), log)
    assert code == 1
    assert "optimisation.max_step is unknown" in text and "Traceback" not in text
    assert not (tmp_path / "run").exists()


def test_missing_data_are_reported_in_a_sentence(toy, tmp_path):
    log = tmp_path / "out"
    command = arguments(toy, tmp_path / "run", "data.train.0.path=none.tsv")
    code, text = finish(start(command, log), log)
    assert code == 1
    assert "none.tsv" in text and "Traceback" not in text
