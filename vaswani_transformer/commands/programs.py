"""The verbs whose code is in the folders `training` and `conversion`: train, finetune, evaluate, calibrate, ...

An installed wheel holds the folders inside the package, as `vaswani_transformer.training` and
`vaswani_transformer.conversion`; in a clone they are beside it.
"""

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

import typer
from typer.core import TyperGroup

from ..system.command_line import add_lazy_command
from ..system.console import Failure, exit_with_error
from ..system.extras import missing_package


PACKAGE = Path(__file__).parents[1]
# The module of each verb, which holds an `app`, and the verb's line in `vaswani --help`.
PROGRAMS = {
    "train": ("training.train", "Train a model from scratch with a recipe, or resume an interrupted run."),
    "finetune": ("training.finetune", "Fine-tune a checkpoint on your own translations."),
    "evaluate": ("training.evaluate", "Score a model on test sets: sacreBLEU, chrF and the paper's BLEU."),
    "calibrate": ("training.calibrate", "Fit a checkpoint's confidence to your own translations."),
    "convert": ("conversion.__main__", "Convert a checkpoint from another toolkit, or export one to another runtime."),
    "publish": ("conversion.hub.publish", "Publish a checkpoint on the Hugging Face Hub."),
}
# The extra that holds what a verb needs besides the package's own dependencies.
EXTRAS = {
    "train": "train",
    "finetune": "train",
    "evaluate": "train",
    "calibrate": "train",
    "convert": "convert",
    "publish": "convert",
    "corpus": "ray",
    "explore": "explore",
    "serve": "serve",
}


class Verbs(TyperGroup):
    """The commands of `vaswani`; if a package is missing, the message says how to install it."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            verb = ctx.invoked_subcommand or ""
            missing = (error.name or "").partition(".")[0]
            if verb not in EXTRAS or missing in ("", PACKAGE.name, "training", "conversion"):
                raise
            exit_with_error(Failure(missing_package(f"vaswani {verb}", missing, EXTRAS[verb])))


def add_programs(app: typer.Typer):
    for name, (module, help) in PROGRAMS.items():
        add_lazy_command(app, name, help, partial(load_app, module))


def load_app(module: str) -> typer.Typer:
    try:
        return find(module).app
    except Failure as error:
        exit_with_error(error)


def find(module: str) -> ModuleType:
    """Imports a module from inside the package, as in a wheel, or from beside it, as in a clone.

    Raises:
        Failure: its folder is in neither place.
    """
    folder = module.partition(".")[0]
    if (PACKAGE / folder).is_dir():
        return import_module(f"{PACKAGE.name}.{module}")
    clone = PACKAGE.parent
    if not (clone / folder / "__init__.py").is_file():
        raise Failure(f"The folder {folder} is missing from this installation. Reinstall vaswani-transformer.")
    if str(clone) not in sys.path:
        sys.path.insert(0, str(clone))
    return import_module(module)
