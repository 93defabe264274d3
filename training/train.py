"""Trains a recipe, or resumes an interrupted run.

python -m training.train training/recipes/mini-en-de.yaml --data DATA --output RUN
accelerate launch -m training.train training/recipes/mini-en-de.yaml --data DATA --output RUN
"""

import argparse
import signal
import sys
from pathlib import Path

from vaswani_transformer.system.command_line import stop
from vaswani_transformer.system.files import check_writable

from .recipe import load_recipe


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="vaswani train", description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path, help="a YAML file, or the name of one that ships, such as mini-en-de")
    parser.add_argument(
        "--data", type=Path, default=Path("."), help="the folder with the data; the recipe's paths start there"
    )
    parser.add_argument(
        "--output", type=Path, required=True, help="run folder; an existing run in it is resumed", metavar="RUN"
    )
    parser.add_argument(
        "--cache", type=Path, help="folder for tokenised text, which runs can share; default: RUN/cache"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a value, e.g. optimisation.max_steps=100",
    )
    train(parser, parser.parse_args(arguments))


def train(parser: argparse.ArgumentParser, options: argparse.Namespace):
    """Trains what the command line asks for."""
    # torch and transformers take seconds to import: they wait until the command line is read.
    import torch
    from safetensors import SafetensorError
    from transformers.utils import logging

    from vaswani_transformer.system.memory import keep_freed_memory

    from .checkpoint import CheckpointError
    from .meter import DivergenceError
    from .run import Run

    keep_freed_memory()
    logging.disable_progress_bar()
    try:
        recipe = load_recipe(options.recipe, options.set)
        check_writable(options.output / "model")
        run = Run(recipe, options.data, options.output, options.cache)
    except (OSError, ValueError) as error:
        stop(parser, error)
    except KeyboardInterrupt:
        sys.exit("Stopped before the first step; the same command starts again with what is already prepared.")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, run.request_stop)
    try:
        if not run.train():
            sys.exit(f"Stopped after step {run.progress.step:,}, which is saved; the same command resumes there.")
        run.finish()
    except (CheckpointError, DivergenceError, OSError, SafetensorError) as error:
        stop(parser, error)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
