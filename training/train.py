"""Trains a recipe, or resumes an interrupted run.

vaswani train mini-en-de --data DATA --output RUN
accelerate launch -m training.train mini-en-de --data DATA --output RUN    # in a clone, on several GPUs
"""

import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from vaswani_transformer.system.command_line import make_app, run_app
from vaswani_transformer.system.console import errors_as_messages
from vaswani_transformer.system.files import check_writable

from .recipe import load_recipe


PREPARED = {".lock", "recipe.json", "held_out.tsv"}  # written before the data are read, or quickly made from them

app = make_app()

RecipeFile = Annotated[
    Path, typer.Argument(metavar="RECIPE", help="A YAML file, or the name of an included recipe, such as mini-en-de.")
]
Output = Annotated[
    Path,
    typer.Option("--output", metavar="RUN", help="Folder for the run; if it contains a run, that run is resumed."),
]
Data = Annotated[
    Path,
    typer.Option(
        "--data",
        metavar="FOLDER",
        exists=True,
        file_okay=False,
        help="Folder with the data; the recipe's paths are relative to it.",
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="FOLDER",
        help="Folder for tokenised text, which several runs can share. [dim]\\[default: RUN/cache][/]",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a value of the recipe, such as optimisation.max_steps=100. Repeat it for more values.",
    ),
]


@app.command()
def train(recipe: RecipeFile, output: Output, data: Data = Path("."), cache: Cache = None, changes: Changes = None):
    """Train a model from scratch with a recipe, or resume an interrupted run.

    [dim]$[/] vaswani train mini-en-de --data DATA --output RUN
    """
    # torch and transformers take seconds to import: they wait until the command line is read.
    import torch
    from safetensors import SafetensorError
    from transformers.utils import logging

    from vaswani_transformer.system.memory import keep_freed_memory

    from .checkpoint import CheckpointError
    from .meter import DivergenceError
    from .parallel_text import check_files
    from .run import Run

    keep_freed_memory()
    logging.disable_progress_bar()
    try:
        with errors_as_messages(OSError, ValueError):
            loaded = load_recipe(recipe, changes or [])
            check_writable(output / "model")
            if not output.exists():  # a run that resumes has prepared its data
                check_files((*loaded.data.train, *loaded.data.validation), data)
            with without_leftovers(output):
                run = Run(loaded, data, output, cache)
    except KeyboardInterrupt:
        sys.exit("Stopped before the first step. Rerun the command; it reuses the data that is already prepared.")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, run.request_stop)
    try:
        with errors_as_messages(CheckpointError, DivergenceError, OSError, SafetensorError):
            if not run.train():
                sys.exit(f"Stopped after step {run.progress.step:,} and saved it. Rerun the command to resume there.")
            run.finish()
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


@contextmanager
def without_leftovers(output: Path) -> Iterator[None]:
    """If the block fails before anything of value is in a new folder, deletes the folder."""
    is_new = not output.exists()
    try:
        yield
    except (OSError, ValueError):
        files = [path for path in output.rglob("*") if path.is_file()]
        if is_new and all(path.suffix == ".lock" or path.name in PREPARED for path in files):
            shutil.rmtree(output, ignore_errors=True)
        raise


def main(arguments: Sequence[str] | None = None):
    run_app(app, "vaswani train", arguments)


if __name__ == "__main__":
    main()
