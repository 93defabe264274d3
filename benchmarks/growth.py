"""How time grows: with the length of sentences, the beams, the sentences of a batch, and the vocabulary.

    python -m benchmarks.growth --threads 1 --output benchmarks/results/growth.json

One of the four grows, the others stay as they are by default; contenders are those of `benchmarks.generation`, in turn.
A figure of the same name, .svg, is drawn beside the JSON.
"""

import argparse
import statistics
import tempfile
from functools import partial
from pathlib import Path

import torch
from matplotlib.figure import Figure

from vaswani_transformer.system.memory import keep_freed_memory

from .generation import CONTENDERS, contenders, make_batch
from .measure import in_turns, record


USUAL = {"length": 32, "beams": 4, "sentences": 8, "vocabulary": 8192}
GROWN = {
    "length": [8, 16, 32, 64, 128, 256],
    "beams": [1, 2, 4, 8, 16],
    "sentences": [1, 2, 4, 8, 16, 32, 64],
    "vocabulary": [1024, 2048, 4096, 8192, 16384, 32768, 65536],
}
LABELS = {
    "length": "tokens of source and translation",
    "beams": "beams",
    "sentences": "sentences in a batch",
    "vocabulary": "tokens in the vocabulary",
}


def measure(preset: str, names: list[str], rounds: int, sizes: dict[str, list[int]]) -> list[dict]:
    results = []
    for grown, values in sizes.items():
        functions, made_for = {}, None
        for value in values:
            case = USUAL | {grown: value}
            if made_for != case["vocabulary"]:
                made_for = case["vocabulary"]
                with tempfile.TemporaryDirectory() as folder:
                    functions = contenders(preset, torch.float32, names, Path(folder), vocab_size=made_for)
            batch = make_batch(case["sentences"], case["length"], case["vocabulary"])
            runs = {name: partial(run, batch, case["beams"], case["length"]) for name, run in functions.items()}
            seconds = in_turns(runs, rounds)
            medians = {name: round(statistics.median(s), 4) for name, s in seconds.items()}
            results.append({"grown": grown, "value": value, "seconds": medians})
            print(results[-1], flush=True)
    return results


def draw(results: list[dict], path: Path):
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    for axes, (grown, label) in zip(figure.subplots(2, 2).flat, LABELS.items(), strict=True):
        rows = [result for result in results if result["grown"] == grown]
        for name, style in zip(CONTENDERS, ("o-", "s-", "^:", "o--", "s--"), strict=True):
            points = [(row["value"], row["seconds"][name]) for row in rows if name in row["seconds"]]
            if points:
                axes.plot(*zip(*points, strict=True), style, label=name, markersize=4)
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel="seconds a batch")
        axes.set_xticks([row["value"] for row in rows], [f"{row['value']:,}" for row in rows], fontsize=7)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--contenders", nargs="+", default=CONTENDERS, choices=CONTENDERS)
    for grown, values in GROWN.items():
        parser.add_argument(f"--{grown}", type=int, nargs="*", default=values, help=f"default: {values}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--output", type=Path, required=True, help="a JSON file for the figures")
    options = parser.parse_args(arguments)

    keep_freed_memory()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    sizes = {grown: getattr(options, grown) for grown in GROWN}
    results = measure(options.preset, options.contenders, options.rounds, sizes)
    record(options.output, "python -m benchmarks.growth", vars(options) | {"otherwise": USUAL}, results)
    draw(results, options.output.with_suffix(".svg"))


if __name__ == "__main__":
    main()
