"""The mean of checkpoints (section 6.1), in float32: `python -m training.average OUTPUT CHECKPOINT CHECKPOINT ...`."""

import argparse
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def average_checkpoints(paths: Iterable[str | Path]) -> dict[str, torch.Tensor]:
    """The mean of safetensors files that hold the same tensors, one file in memory at a time.

    Raises:
        ValueError: no files, or their tensors differ in name or shape; the message names the file.
    """
    total: dict[str, torch.Tensor] = {}
    count = 0
    for count, path in enumerate(paths, start=1):
        tensors = load_file(path)
        if count == 1:
            total = {name: tensor.to(torch.float64) for name, tensor in tensors.items()}
            continue
        if {n: t.shape for n, t in tensors.items()} != {n: t.shape for n, t in total.items()}:
            raise ValueError(f"{path} does not hold the same tensors as the files before it.")
        for name, tensor in tensors.items():
            total[name] += tensor
    if not count:
        raise ValueError("There are no checkpoints to average.")
    return {name: (tensor / count).to(torch.float32) for name, tensor in total.items()}


def main():
    parser = argparse.ArgumentParser(prog="python -m training.average", description=__doc__)
    parser.add_argument("output", type=Path, help="the safetensors file to write")
    parser.add_argument("checkpoints", type=Path, nargs="+", help="safetensors files")
    arguments = parser.parse_args()
    save_file(average_checkpoints(arguments.checkpoints), arguments.output)


if __name__ == "__main__":
    main()
