"""Average checkpoints (section 6.1 of the paper), in float32.

python -m training.average OUTPUT.safetensors RUN --last 5                  # the last five checkpoints of a run
python -m training.average OUTPUT.safetensors CHECKPOINT CHECKPOINT ...     # safetensors files, or folders of them
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_transformer.system.command_line import describe_program, whole_number
from vaswani_transformer.system.console import exit_with_error
from vaswani_transformer.system.files import check_writable

from .files import atomic_file


if TYPE_CHECKING:  # importing torch and transformers takes seconds, so it waits until the command line is parsed
    import torch


WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def average_checkpoints(paths: Iterable[str | Path]) -> dict[str, torch.Tensor]:
    """Return the mean of checkpoints with the same tensors, in float32. Only one is in memory at a time.

    Each of `paths` is a safetensors file, or a model's folder with such files.

    Raises:
        FileNotFoundError: A path does not exist, or has no weights.
        ValueError: There are no paths; or a file is damaged, is not a safetensors file, has values that are not finite,
            or differs from earlier files in the names or shapes of its tensors. The message names file and tensors.
    """
    import torch

    total: dict[str, torch.Tensor] = {}
    count = 0
    for count, path in enumerate(paths, start=1):
        tensors = load_weights(Path(path))
        for name, tensor in tensors.items():
            if not tensor.isfinite().all():
                raise ValueError(f"{path}: {name} has values that are not finite.")
        if count == 1:
            total = {name: tensor.to(torch.float64) for name, tensor in tensors.items()}
            continue
        check_tensors(path, tensors, total)
        for name, tensor in tensors.items():
            total[name] += tensor
    if not count:
        raise ValueError("There are no checkpoints to average.")
    return {name: (tensor / count).to(torch.float32) for name, tensor in total.items()}


def load_weights(path: Path) -> dict[str, torch.Tensor]:
    """Load the tensors of a safetensors file, or of all such files in a model's folder."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if path.is_dir():
        if (path / INDEX).is_file():
            parts = set(json.loads((path / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
            return {name: tensor for part in sorted(parts) for name, tensor in load_weights(path / part).items()}
        if not (path / WEIGHTS).is_file():
            raise FileNotFoundError(f"{path} has no {WEIGHTS}.")
        path = path / WEIGHTS
    if not path.is_file():
        raise FileNotFoundError(f"No such file or folder: {path}.")
    try:
        return load_file(path)
    except SafetensorError as error:
        start = path.read_bytes()[:2]
        if start == b"PK" or start[:1] == b"\x80":
            raise ValueError(
                f"{path} is a pickle, which can run code when it is loaded. Only safetensors files can be averaged."
            ) from error
        raise ValueError(f"{path} is damaged, or is not a safetensors file: {error}") from error


def check_tensors(path: str | Path, tensors: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]):
    """Check that tensors have the expected names and shapes.

    Raises:
        ValueError: They do not; the message names the first five differences.
    """
    problems = [f"{name} is missing" for name in expected if name not in tensors]
    problems += [f"{name} is not in the checkpoints before it" for name in tensors if name not in expected]
    problems += [
        f"{name} has shape {list(tensor.shape)} instead of {list(expected[name].shape)}"
        for name, tensor in tensors.items()
        if name in expected and tensor.shape != expected[name].shape
    ]
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise ValueError(f"{path} does not match the checkpoints before it: {shown}.")


def last_checkpoints(run: Path, count: int) -> list[Path]:
    """Return the last `count` complete checkpoints in a run's folder, oldest first.

    Raises:
        ValueError: There are fewer.
    """
    steps = {
        int(folder.name.removeprefix("checkpoint-")): folder
        for folder in run.glob("checkpoint-*")
        if folder.name.removeprefix("checkpoint-").isdigit()
    }
    if not steps:
        raise ValueError(f"There are no checkpoints in {run}.")
    if not 1 <= count <= len(steps):
        raise ValueError(f"{run} has {len(steps)} checkpoints; --last must be from 1 to {len(steps)}.")
    return [steps[step] for step in sorted(steps)][-count:]


def chosen_checkpoints(paths: list[Path], last: int | None) -> list[Path]:
    """Return the checkpoints that the command line names.

    Raises:
        ValueError: The command line is ambiguous.
    """
    runs = [path for path in paths if path.is_dir() and not (path / WEIGHTS).exists() and [*path.glob("checkpoint-*")]]
    if last is not None:
        if len(paths) != 1:
            raise ValueError("--last averages the checkpoints of one run: give its folder and nothing else.")
        return last_checkpoints(paths[0], last)
    if runs:
        raise ValueError(f"{runs[0]} is a run with several checkpoints. Choose how many with --last N.")
    return paths


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        **describe_program(__spec__, __doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", metavar="OUTPUT", type=Path, help="the .safetensors file to write")
    parser.add_argument(
        "checkpoints", metavar="CHECKPOINT", type=Path, nargs="+", help="safetensors files, model folders, or one run"
    )
    parser.add_argument("--last", type=whole_number, metavar="N", help="the last N checkpoints of a run's folder")
    arguments = parser.parse_args(arguments)
    if arguments.output.suffix != ".safetensors" or arguments.output.is_dir():
        parser.error(f"{arguments.output} is not a .safetensors file name; OUTPUT must come first.")
    from safetensors.torch import save_file

    try:
        check_writable(arguments.output)
        paths = chosen_checkpoints(arguments.checkpoints, arguments.last)
        mean = average_checkpoints(paths)
        with atomic_file(arguments.output) as file:
            save_file(mean, file, metadata={"format": "pt"})
    except (OSError, ValueError) as error:
        exit_with_error(error)
    print(f"{arguments.output} is the mean of:", *paths, sep="\n  ")


if __name__ == "__main__":
    main()
