"""float32 products as in decoding: torch's default, oneDNN, and MKL with packed weights (`cpu_vaswani`).

    python -m benchmarks.linear --output benchmarks/results/linear_intel.json

Many weights take turns, so that none is still in the cache, as in a model.
"""

import argparse
from functools import partial
from pathlib import Path

import torch

from .measure import in_turns, ratios, write_results


SHAPES = [(rows, 512, columns) for rows in (1, 8, 32, 128) for columns in (512, 2048, 37_000)]
SHAPES += [(rows, 256, 1024) for rows in (1, 4, 8)]
CACHE = 2**26  # numbers: more than a cache holds


@torch.no_grad()
def run(product, weights: list, x: torch.Tensor):
    for weight in weights:
        product(x, weight)


def onednn(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


def pack(weight: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    return torch.ops.mkl._mkl_reorder_linear_weight(weight, rows), weight, rows


def packed(x: torch.Tensor, weight: tuple[torch.Tensor, torch.Tensor, int]) -> torch.Tensor:
    packed_weight, plain, rows = weight
    return torch.ops.mkl._mkl_linear(x, packed_weight, plain, None, rows)


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.linear", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    options = parser.parse_args(arguments)
    results = []
    for rows, inner, columns in SHAPES:
        x = torch.randn(rows, inner)
        weights = [torch.randn(columns, inner) for _ in range(max(2, CACHE // (4 * inner * columns)))]
        products = {
            "torch": partial(run, torch.nn.functional.linear, weights, x),
            "oneDNN": partial(run, onednn, weights, x),
        }
        if torch.backends.mkl.is_available():
            products["packed"] = partial(run, packed, [pack(weight, rows) for weight in weights], x)
        seconds = in_turns(products, options.rounds)
        faster = {name: ratios(seconds, name, "torch") for name in products if name != "torch"}
        results.append({"rows": rows, "inner": inner, "columns": columns, "times_as_fast": faster})
    write_results(options.output, "python -m benchmarks.linear", vars(options), results)


if __name__ == "__main__":
    main()
