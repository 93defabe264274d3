"""Draws the training losses of runs of `training.train` and measures how far apart they are.

    python -m benchmarks.loss_curves float32=RUN bfloat16=RUN --output benchmarks/results/loss_curves.json

The others are compared with the first run. Also writes a figure, an .svg of the same name as the JSON file.
"""

import argparse
import json
from pathlib import Path

from matplotlib.figure import Figure

from .measure import write_results


def losses(run: Path) -> dict[int, float]:
    """{step: mean training loss since the previous entry}"""
    entries = map(json.loads, (run / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return {entry["step"]: entry["loss"] for entry in entries if "loss" in entry}


def draw(curves: dict[str, dict[int, float]], path: Path):
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for (name, curve), style in zip(curves.items(), ("-", "--", ":", "-."), strict=False):
        axes.plot(list(curve), list(curve.values()), style, label=name)
    axes.set(xlabel="step", ylabel="training loss (nats per token)")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loss_curves", description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--output", type=Path, required=True, help="JSON file for the results")
    options = parser.parse_args(arguments)
    runs = dict(run.split("=", 1) for run in options.runs)
    curves = {name: losses(Path(run)) for name, run in runs.items()}
    first, *compared = curves
    results = [
        {
            "of": name,
            "from": first,
            "largest difference": round(max(abs(curves[name][s] - curves[first][s]) for s in curves[first]), 4),
            "last difference": round(curves[name][max(curves[first])] - curves[first][max(curves[first])], 4),
        }
        for name in compared
    ]
    results += [{"run": name, "losses": {s: round(v, 4) for s, v in curve.items()}} for name, curve in curves.items()]
    write_results(options.output, "python -m benchmarks.loss_curves", {"runs": list(runs)}, results)
    draw(curves, options.output.with_suffix(".svg"))


if __name__ == "__main__":
    main()
