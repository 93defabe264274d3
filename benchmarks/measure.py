"""What the benchmarks share: taking turns, and a record of machine and versions."""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

from vaswani_transformer.system.cpu import processor


def in_turns(
    functions: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each function in each round; in a round each runs once, and a first round is not counted.

    `clock=time.process_time` counts the process's own work, of all its threads, and not that of other programs.
    """
    seconds = {name: [] for name in functions}
    for number in range(rounds + 1):
        for name, function in functions.items():
            start = clock()
            function()
            if number:
                seconds[name].append(clock() - start)
    return seconds


def ratios(seconds: dict[str, list[float]], of: str, to: str) -> dict[str, float]:
    """How many times as fast `of` is as `to`: the median of the rounds, and their extremes."""
    values = [b / a for a, b in zip(seconds[of], seconds[to], strict=True)]
    summary = {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}
    return {name: round(value, 2) for name, value in summary.items()}


def parser_of_sets(module: str, description: str, limit: int) -> argparse.ArgumentParser:
    """The arguments of what is measured on a checkpoint with test sets, each named NAME=FILE."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("checkpoint", help="a name listed by `vaswani checkpoints`, or a folder")
    parser.add_argument("sets", nargs="+", metavar="NAME=FILE", help="test sets")
    parser.add_argument("--limit", type=int, default=limit, help="lines of each set")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    return parser


def record(output: Path | None, command: str, settings: dict, results: list[dict]):
    """Writes results with all that one needs to repeat them; prints each line."""
    for result in results:
        print(json.dumps(result), flush=True)
    if output is None:
        return
    report = {
        "command": command,
        "settings": {key: value for key, value in settings.items() if key != "output"},
        "machine": {"processor": processor(), "threads": torch.get_num_threads(), "python": platform.python_version()},
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "results": results,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
