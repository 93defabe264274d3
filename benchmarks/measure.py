"""Shared by the benchmarks: alternating measurements, and results with machine and versions."""

import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch

from vaswani_transformer.system.cpu import cpu_name


PACKAGES = ("torch", "transformers", "ctranslate2")


def in_turns(
    functions: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each function in each round. In a round each function runs once; a first round is a warm-up.

    `clock=time.process_time` counts the CPU time of this process, with all its threads, and not that of others.
    """
    seconds = {name: [] for name in functions}
    for number in range(rounds + 1):
        for name, function in functions.items():
            start = clock()
            function()
            if number:
                seconds[name].append(clock() - start)
    return seconds


def ratios(seconds: dict[str, list[float]], name: str, baseline: str) -> dict[str, float]:
    """The speed of a function relative to the baseline: the median over rounds, lowest and highest."""
    values = [b / a for a, b in zip(seconds[name], seconds[baseline], strict=True)]
    summary = {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}
    return {key: round(value, 2) for key, value in summary.items()}


def write_results(output: Path | None, command: str, settings: dict, results: list[dict]):
    """Prints the results; writes them with the command, settings, machine and versions if `output` is given."""
    for result in results:
        print(json.dumps(result), flush=True)
    if output is None:
        return
    report = {
        "command": command,
        "settings": {key: value for key, value in settings.items() if key != "output"},
        "machine": {"processor": cpu_name(), "threads": torch.get_num_threads(), "python": platform.python_version()},
        "versions": {package: version(package) for package in PACKAGES if find_spec(package)},
        "results": results,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
