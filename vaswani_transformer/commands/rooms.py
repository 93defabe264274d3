"""`vaswani train`, `finetune`, `evaluate`, `convert` and `publish`: hand their arguments to the rooms that do the work.

An installed wheel holds the rooms inside the package, as `vaswani_transformer.training` and
`vaswani_transformer.conversion`; in a clone they are the folders beside it. Their packages come with the extras
`train` and `convert`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import typer

from .console import Failure, failures_are_messages


PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Verb:
    """`vaswani NAME ARGUMENTS` is `python -m MODULE FIRST ARGUMENTS`; what it imports comes with the extra."""

    name: str
    module: str
    extra: str
    help: str
    first: tuple[str, ...] = ()


VERBS = [
    Verb("train", "training.train", "train", "Train a model from scratch by a recipe, or resume an interrupted run."),
    Verb("finetune", "training.finetune", "train", "Fine-tune a checkpoint on your own translations (a memory)."),
    Verb("evaluate", "training.evaluate", "train", "Score a model on test sets: sacreBLEU, chrF and the paper's BLEU."),
    Verb("convert", "conversion.__main__", "convert", "Convert a checkpoint from another toolkit, or to a runtime."),
    Verb("publish", "conversion.__main__", "convert", "Publish a model on the Hugging Face Hub.", ("publish",)),
]


def add_command(app: typer.Typer, verb: Verb):
    """Adds the verb to the command; all its arguments, `--help` among them, are left to the room."""
    untouched = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

    @app.command(verb.name, help=verb.help, context_settings=untouched, add_help_option=False)
    def run(context: typer.Context):
        with failures_are_messages():
            hand_over(verb, context.args)


def hand_over(verb: Verb, arguments: list[str]):
    """Runs the room's `main` with the arguments.

    Raises:
        Failure: this installation lacks the room, or a package that it needs.
    """
    try:
        room = find(verb.module)
        with command_line(f"vaswani {verb.name}", [*verb.first, *arguments]):
            room.main()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", PACKAGE.name, verb.module.partition(".")[0]):
            raise
        raise Failure(
            f"vaswani {verb.name} needs {missing}, which is not installed: {install_command(verb.extra)}"
        ) from error


def find(module: str) -> ModuleType:
    """The room's module: inside the package in a wheel, beside it in a clone."""
    room = module.partition(".")[0]
    if (PACKAGE / room).is_dir():
        return import_module(f"{PACKAGE.name}.{module}")
    clone = PACKAGE.parent
    if not (clone / room / "__init__.py").is_file():
        raise Failure(f"This installation lacks the folder {room}: reinstall vaswani-transformer.")
    if str(clone) not in sys.path:
        sys.path.insert(0, str(clone))
    return import_module(module)


def install_command(extra: str) -> str:
    """How to get the extra's packages: from the clone where there is one, from the package index otherwise."""
    if (PACKAGE.parent / "pyproject.toml").is_file():
        return f"pip install -e '.[{extra}]' in the folder of the clone"
    return f"pip install 'vaswani-transformer[{extra}]'"


@contextmanager
def command_line(program: str, arguments: list[str]) -> Iterator[None]:
    """Makes `arguments` the program's own, for `argparse` and for what a room records of how it was called."""
    before = sys.argv
    sys.argv = [program, *arguments]
    try:
        yield
    finally:
        sys.argv = before
