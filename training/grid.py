"""Train the variants of a recipe that a grid lists, and write a table of their results.

python -m training.grid training/grids/mini-en-de.yaml --data DATA --output RUNS --results RESULTS.json --jobs 2

Rerun the command to resume an interrupted grid: finished runs are not repeated. A grid is a YAML file:

recipe: ../recipes/mini-en-de.yaml
set: [optimisation.max_steps=600]           # for all runs
seeds: [1, 2, 3]                            # optional: each variant with each seed, as 8k-seed1, ...
runs:
  8k:   {set: [vocab_size=8192],  why: the baseline}    # `why` is copied into the results
  16k:  {set: [vocab_size=16384]}

All variants are trained with the first seed before any with the second.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import yaml

from vaswani_transformer.system.command_line import describe_program, whole_number
from vaswani_transformer.system.console import exit_with_error

from .curve import read_log
from .files import atomic_file
from .parallel_text import check_files
from .recipe import load_recipe


class Variant(NamedTuple):
    """A run of a grid."""

    name: str  # of its folder
    run: str
    seed: int | None  # None: the recipe's
    settings: list[str]
    why: str  # recorded with the results


def check_data(recipe: Path, variants: list[Variant], data: Path):
    """Check that the folder `data` has the files of every run, before any run starts.

    Raises:
        FileNotFoundError: A file is missing.
    """
    for variant in variants:
        texts = load_recipe(recipe, variant.settings).data
        try:
            check_files((*texts.train, *texts.validation, *texts.test), data)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"Run {variant.name}: {error}") from error


def read_grid(path: Path) -> tuple[Path, list[Variant]]:
    """Read the recipe of a grid and its runs.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not a grid, or the settings of a run are invalid.
    """
    try:
        grid = yaml.safe_load(path.read_text(encoding="utf-8"))
        recipe = path.parent / grid["recipe"]
        variants = []
        for seed in grid.get("seeds", [None]):
            for run, variant in grid["runs"].items():
                settings, name = [*grid.get("set", ()), *variant.get("set", ())], run
                if seed is not None:
                    settings, name = [*settings, f"seed={seed}"], f"{run}-seed{seed}"
                variants.append(Variant(name, run, seed, settings, variant.get("why", "")))
    except KeyError as error:
        raise ValueError(f"{path} is not a grid: {error} is missing.") from error
    except (yaml.YAMLError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a grid: it must have `recipe`, `set` and `runs`; see --help.") from error
    for variant in variants:
        load_recipe(recipe, variant.settings)
    return recipe, variants


def check_runs(recipe: Path, variants: list[Variant], output: Path):
    """Check that runs to resume were started with the same settings; otherwise the results would be mixed up.

    Raises:
        ValueError: A run has other settings; the message names the keys that differ.
    """
    from .prepare import flatten  # imports torch, which takes seconds

    for variant in variants:
        path = output / variant.name / "recipe.json"
        if path.exists():
            started = dict(flatten(json.loads(path.read_text(encoding="utf-8"))))
            wanted = dict(flatten(load_recipe(recipe, variant.settings).to_dict()))
            if differ := sorted(key for key in started.keys() & wanted.keys() if started[key] != wanted[key]):
                raise ValueError(
                    f"{path.parent} has a run with other settings: {', '.join(differ)}. Delete it to train it again."
                )


class Grid:
    """The runs of a grid, several at a time, each a process with its share of the threads."""

    def __init__(self, recipe: Path, data: Path, output: Path, jobs: int):
        self.recipe, self.data, self.output, self.jobs = recipe, data, output, jobs
        self.threads = max(1, (os.cpu_count() or 1) // jobs)
        self.running: set[subprocess.Popen] = set()
        self.stopped = False

    def stop(self, *_):
        """Handle a signal: every run saves a checkpoint and stops."""
        self.stopped = True
        for process in list(self.running):
            process.terminate()

    def train(self, variant: Variant):
        folder = self.output / variant.name
        if self.stopped or (folder / "model").exists():
            return
        if (folder / "not_finite.tsv").exists():  # the same would happen again
            print(f"{variant.name}: skipped, its loss was not finite; delete {folder} to train it again", flush=True)
            return
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "training.train", self.recipe, "--data", self.data, "--output", folder]
        command += ["--cache", self.output / "cache"]
        command += [part for setting in variant.settings for part in ("--set", setting)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
        with (folder / "output.txt").open("a") as log:
            process = subprocess.Popen(map(str, command), stdout=log, stderr=subprocess.STDOUT, env=environment)
            self.running.add(process)
            code = process.wait()
            self.running.discard(process)
        if code == 0:
            outcome = "finished"
        elif self.stopped:
            outcome = "stopped; rerun the command to resume it"
        else:
            outcome = f"failed (exit status {code}); see {folder}/output.txt"
        print(f"{variant.name}: {outcome}", flush=True)

    def results(self, variants: list[Variant]) -> list[dict]:
        """Return the record of each finished run."""
        folders = [(variant, self.output / variant.name) for variant in variants]
        return [result(variant, run) for variant, run in folders if (run / "model" / "training.json").exists()]


def result(variant: Variant, run: Path) -> dict:
    """Return what a finished run is and what it reached."""
    facts = json.loads((run / "model" / "training.json").read_text(encoding="utf-8"))
    return {
        "run": variant.run,
        **({} if variant.seed is None else {"seed": variant.seed}),
        "why": variant.why,
        "settings": variant.settings,
        "bits_per_character": facts["validation"],
        "sacrebleu_greedy": last_bleu(run / "log.jsonl", list(facts["validation"])),
        "steps": facts["steps"],
        "tokens": facts["steps"] * facts["recipe"]["optimisation"]["batch_tokens"],
        **{key: facts[key] for key in ("hours", "parameters", "device", "threads", "torch")},
    }


def last_bleu(log: Path, sets: list[str]) -> dict[str, float]:
    """Return the last greedy sacreBLEU of each validation set in a log."""
    # With a single set, the log has only the total.
    keys = {name: "validation_bleu" if len(sets) == 1 else f"validation_bleu/{name}" for name in sets}
    bleu = {}
    for figures in read_log(log):
        bleu |= {name: round(figures[key], 2) for name, key in keys.items() if key in figures}
    return bleu


def table(results: list[dict]) -> str:
    """Return a Markdown table: bits per character on each validation set, parameters and hours of each run."""
    sets = list(dict.fromkeys(name for result in results for name in result["bits_per_character"]))
    rows = [["run", *sets, "parameters", "hours"], ["---"] * (len(sets) + 3)]
    for result in results:
        bits = ["" if bits is None else f"{bits:.3f}" for bits in map(result["bits_per_character"].get, sets)]
        name = result["run"] + (f", seed {result['seed']}" if "seed" in result else "")
        rows.append([name, *bits, f"{result['parameters']:,}", f"{result['hours']:.2f}"])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        **describe_program(__spec__, __doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("grid", type=Path, metavar="GRID", help="a YAML file, as above")
    parser.add_argument("--data", type=Path, default=Path("."), help="folder that the recipe's paths are relative to")
    parser.add_argument("--output", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--results", type=Path, help="JSON file to write the results of all finished runs to")
    parser.add_argument("--jobs", type=whole_number, default=1, help="runs to train at a time; they share the threads")
    arguments = parser.parse_args(arguments)
    try:
        recipe, variants = read_grid(arguments.grid)
        check_data(recipe, variants, arguments.data)
        check_runs(recipe, variants, arguments.output)
    except (OSError, ValueError) as error:
        exit_with_error(error)
    grid = Grid(recipe, arguments.data, arguments.output, arguments.jobs)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, grid.stop)
    with ThreadPoolExecutor(arguments.jobs) as workers:
        list(workers.map(grid.train, variants))
    results = grid.results(variants)
    if arguments.results:
        with atomic_file(arguments.results) as file:
            file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if results:
        print(table(results))
    if grid.stopped:
        sys.exit("Stopped. Rerun the command to resume.")
    if not results:
        sys.exit("No run has finished.")


if __name__ == "__main__":
    main()
