"""A toy language pair, a recipe for it, and the training program in processes of its own that start quickly."""

import json
import lzma
import multiprocessing
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from processes import context
from waiting import TIMEOUT

from training import train
from training.checkpoint import checkpoints
from training.recipe import load_recipe
from training.run import Run


WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs", "dog": "Hund"}

RECIPE = """
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
optimisation: {max_steps: 12, batch_tokens: 400, warmup_steps: 4}
checkpointing: {save_steps: 3, log_steps: 2, validation_steps: 4, average_last: 3}
"""


def toy_pairs(count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        words = rng.choice(list(WORDS), size=rng.integers(1, 9))
        yield " ".join(words) + ".", " ".join(WORDS[word] for word in words) + "."


def write_toy(folder: Path) -> Path:
    """Fills a folder with texts and a recipe.yaml for them."""
    with lzma.open(folder / "train.tsv.xz", "wt", encoding="utf-8") as file:
        for i, (source, target) in enumerate(toy_pairs(400)):
            file.write(f"{source}\t{target}\t{'good' if i % 4 else 'other'}\n")
    test = "".join(f"{source}\t{target}\n" for source, target in toy_pairs(12, seed=1))
    (folder / "test.tsv").write_text(test, encoding="utf-8")
    (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    return folder


def arguments(folder: Path, output: Path, *overrides: str, cache: Path | None = None) -> list[str]:
    """Of the training program."""
    command = [folder / "recipe.yaml", "--data", folder, "--output", output]
    command += ["--cache", cache] if cache else []
    return [*map(str, command), *(part for override in overrides for part in ("--set", override))]


def run_here(folder: Path, output: Path, *overrides: str, cache: Path | None = None) -> Run:
    """Trains in this process."""
    run = Run(load_recipe(folder / "recipe.yaml", overrides), folder, output, cache)
    run.train()
    run.finish()
    return run


def copy_run(run: Path, output: Path, steps: int | None = None) -> Path:
    """A copy of a run's folder, as it was after so many steps where its checkpoints reach back so far."""
    shutil.copytree(run, output)
    shutil.rmtree(output / "model", ignore_errors=True)
    for folder in checkpoints(output):
        if steps is not None and int(folder.name.removeprefix("checkpoint-")) > steps:
            shutil.rmtree(folder)
    return output


def logged(output: Path, key: str = "loss") -> dict[int, float]:
    """What a run's log says of `key`, by step."""
    lines = map(json.loads, (output / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return {line["step"]: line[key] for line in lines if key in line}


def start(
    arguments: list[str], log: Path, environment: dict[str, str] | None = None, before: Callable[[], None] | None = None
) -> multiprocessing.Process:
    """The training program in a process of its own, which writes to `log`; `before` is called in it first.

    It starts at once, as `processes` says.
    """
    process = context().Process(target=_train, args=(arguments, log, environment, before))
    process.start()
    return process


def finish(process: multiprocessing.Process, log: Path) -> tuple[int, str]:
    """(exit code, what it wrote)."""
    process.join(TIMEOUT)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(log.read_text())
    return process.exitcode, log.read_text()


def _train(arguments, log, environment, before):
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.environ.update(environment or {})
    sys.argv = ["training.train", *arguments]
    if before:
        before()
    train.main()


# For `before`


def interrupt(number: int, path: str, with_signal: int):
    """Sends the process a signal at the `number`-th time that a file or folder whose name starts so is touched."""

    def watch(event, arguments, left=[number]):  # noqa: B006
        if event in TOUCHES and left and str(arguments[0]).startswith(path):
            left[0] -= 1
            if not left[0]:
                left.clear()
                os.kill(os.getpid(), with_signal)

    if with_signal == signal.SIGINT:  # which programs that a shell has started in the background ignore
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.addaudithook(watch)


TOUCHES = {"open", "os.mkdir", "os.rename", "os.remove", "shutil.rmtree"}


def limit_files(size: int):
    """No file of the process can grow beyond so many bytes: what a full disk does, to big files first."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
