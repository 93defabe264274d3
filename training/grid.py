"""Trains the variants of a recipe that a grid names, and writes a table of how each one did.

python -m training.grid training/grids/mini-en-de.yaml --data DATA --output RUNS --results RESULTS.json --jobs 2

An interrupted grid continues where it stopped: finished runs are not repeated. A grid is a YAML file:

recipe: ../recipes/mini-en-de.yaml
set: [optimisation.max_steps=600]           # for all runs
seeds: [1, 2, 3]                            # each variant once with each, as 8k-seed1, ...; otherwise once, as 8k
runs:
  8k:   {set: [vocab_size=8192],  why: the baseline}
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

from vaswani_transformer.system.command_line import whole_number
from vaswani_transformer.system.console import exit_with_error

from .files import atomic_file
from .parallel_text import missing_files
from .recipe import load_recipe


class Variant(NamedTuple):
    """A run of a grid."""

    name: str  # of its folder
    run: str
    seed: int | None  # None where the recipe's is taken
    settings: list[str]
    why: str


def check_data(recipe: Path, variants: list[Variant], data: Path):
    """Refuses runs whose data are not in the folder `data`, before any run starts."""
    for variant in variants:
        if missing := missing_files(load_recipe(recipe, variant.settings).data, data):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise FileNotFoundError(
                f"Run {variant.name}: no such file: {missing[0]}{more}. The folder of the data is given with --data."
            )


def read_grid(path: Path) -> tuple[Path, list[Variant]]:
    """The recipe of a grid, and its runs.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no grid, or the recipe refuses the settings of a run.
    """
    try:
        grid = yaml.safe_load(path.read_text(encoding="utf-8"))
        recipe = path.parent / grid["recipe"]
        variants = []
        for seed in grid.get("seeds", [None]):
            for run, own in grid["runs"].items():
                settings, name = [*grid.get("set", ()), *own.get("set", ())], run
                if seed is not None:
                    settings, name = [*settings, f"seed={seed}"], f"{run}-seed{seed}"
                variants.append(Variant(name, run, seed, settings, own.get("why", "")))
    except KeyError as error:
        raise ValueError(f"{path} is not a grid: it has no {error}.") from error
    except (yaml.YAMLError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a grid: it must hold `recipe`, `set` and `runs`; see --help.") from error
    for variant in variants:
        load_recipe(recipe, variant.settings)
    return recipe, variants


def check_runs(recipe: Path, variants: list[Variant], output: Path):
    """Refuses to go on with runs that were begun with other settings: their results would be mixed up.

    Raises:
        ValueError: there is one; the message names the keys that differ.
    """
    from .prepare import flatten  # with torch, which takes seconds to import

    for variant in variants:
        path = output / variant.name / "recipe.json"
        if path.exists():
            begun = dict(flatten(json.loads(path.read_text(encoding="utf-8"))))
            wanted = dict(flatten(load_recipe(recipe, variant.settings).to_dict()))
            if differ := sorted(key for key in begun.keys() & wanted.keys() if begun[key] != wanted[key]):
                raise ValueError(
                    f"{path.parent} holds a run with other settings: {', '.join(differ)}. Delete it to train it again."
                )


class Grid:
    """Runs of a grid, several at a time, each a process with its share of the threads."""

    def __init__(self, recipe: Path, data: Path, output: Path, jobs: int):
        self.recipe, self.data, self.output, self.jobs = recipe, data, output, jobs
        self.threads = max(1, (os.cpu_count() or 1) // jobs)
        self.running: set[subprocess.Popen] = set()
        self.stopped = False

    def stop(self, *_):
        """For signal.signal: every run saves a checkpoint and ends."""
        self.stopped = True
        for process in list(self.running):
            process.terminate()

    def train(self, variant: Variant):
        folder = self.output / variant.name
        if self.stopped or (folder / "model").exists():
            return
        if (folder / "not_finite.tsv").exists():  # it would come to that again
            print(f"{variant.name}: its loss was not finite; delete {folder} to train it again", flush=True)
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
            outcome = "stopped; the same command resumes it"
        else:
            outcome = f"failed (exit status {code}); its output is in {folder}/output.txt"
        print(f"{variant.name}: {outcome}", flush=True)

    def results(self, variants: list[Variant]) -> list[dict]:
        """What is recorded of each finished run."""
        finished = []
        for variant in variants:
            path = self.output / variant.name / "model" / "training.json"
            if path.exists():
                facts = json.loads(path.read_text(encoding="utf-8"))
                tokens = facts["steps"] * facts["recipe"]["optimisation"]["batch_tokens"]
                machine = {key: facts[key] for key in ("hours", "parameters", "device", "threads", "torch")}
                bleu = {}
                for line in (self.output / variant.name / "log.jsonl").read_text(encoding="utf-8").splitlines():
                    figures = json.loads(line)
                    for name in facts["validation"]:  # where there is but one set, the figure has no name
                        key = "validation_bleu" if len(facts["validation"]) == 1 else f"validation_bleu/{name}"
                        if key in figures:
                            bleu[name] = round(figures[key], 2)
                own = variant._asdict()
                del own["name"]
                if variant.seed is None:
                    del own["seed"]
                reached = {"bits_per_character": facts["validation"], "sacrebleu_greedy": bleu}
                finished.append({**own, **reached, "steps": facts["steps"], "tokens": tokens, **machine})
        return finished


def table(results: list[dict]) -> str:
    """Markdown: bits per character of each validation set, parameters and hours of each run."""
    sets = list(dict.fromkeys(name for result in results for name in result["bits_per_character"]))
    rows = [["run", *sets, "parameters", "hours"], ["---"] * (len(sets) + 3)]
    for result in results:
        bits = ["" if bits is None else f"{bits:.3f}" for bits in map(result["bits_per_character"].get, sets)]
        name = result["run"] + (f", seed {result['seed']}" if "seed" in result else "")
        rows.append([name, *bits, f"{result['parameters']:,}", f"{result['hours']:.2f}"])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog="python -m training.grid", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("grid", type=Path, metavar="GRID", help="a YAML file, as above")
    parser.add_argument("--data", type=Path, default=Path("."), help="the folder that the recipe's paths start from")
    parser.add_argument("--output", type=Path, required=True, help="the folder of the runs")
    parser.add_argument("--results", type=Path, help="JSON file for the results of each finished run")
    parser.add_argument("--jobs", type=whole_number, default=1, help="runs at a time; they share the CPU's threads")
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
        sys.exit("Stopped; the same command goes on.")
    if not results:
        sys.exit("No run has finished.")


if __name__ == "__main__":
    main()
