"""float32 products as in decoding: torch's own choice beside oneDNN, which `cpu_vaswani.linear` asks.

    python -m benchmarks.linear --output benchmarks/results/linear.json

Enough weights take turns that none is still in the cache, as in a model.
"""

import argparse
from functools import partial
from pathlib import Path

import torch

from .measure import in_turns, ratios, record


SHAPES = [(rows, 512, columns) for rows in (1, 8, 32, 128) for columns in (512, 2048, 37_000)]
CACHE = 2**26  # numbers: more than any cache holds


@torch.no_grad()
def run(product, weights: list[torch.Tensor], x: torch.Tensor):
    for weight in weights:
        product(x, weight)


def onednn(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.linear", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    options = parser.parse_args(arguments)
    results = []
    for rows, inner, columns in SHAPES:
        x = torch.randn(rows, inner)
        weights = [torch.randn(columns, inner) for _ in range(max(2, CACHE // (4 * inner * columns)))]
        products = {"torch": torch.nn.functional.linear, "oneDNN": onednn}
        seconds = in_turns({name: partial(run, f, weights, x) for name, f in products.items()}, options.rounds)
        results.append(
            {"rows": rows, "inner": inner, "columns": columns, "times_as_fast": ratios(seconds, "oneDNN", "torch")}
        )
    record(options.output, "python -m benchmarks.linear", vars(options), results)


if __name__ == "__main__":
    main()
