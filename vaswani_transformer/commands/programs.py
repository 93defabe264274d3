"""The verbs whose code is in the folders `training` and `conversion`, such as train and convert."""

from functools import partial

import typer
from typer.core import TyperGroup

from ..system.command_line import add_lazy_command
from ..system.console import Failure, exit_with_error
from ..system.extras import missing_package
from ..system.programs import PACKAGE, find


# The module of each verb, which holds an `app`, and the verb's line in `vaswani --help`.
PROGRAMS = {
    "train": ("training.train", "Train a model from scratch with a recipe, or resume an interrupted run."),
    "finetune": ("training.finetune", "Fine-tune a checkpoint on your own translations."),
    "evaluate": ("training.evaluate", "Score a model on test sets: sacreBLEU, chrF and the paper's BLEU."),
    "calibrate": ("training.calibrate", "Fit a checkpoint's confidence to your own translations."),
    "convert": ("conversion.__main__", "Convert a checkpoint from another toolkit, or export one to another runtime."),
    "publish": ("conversion.hub.publish", "Publish a checkpoint on the Hugging Face Hub."),
    "publish-page": ("conversion.hub.page", "Publish the explorer's page as a static Space on the Hugging Face Hub."),
}
# The extra that holds what a verb needs besides the package's own dependencies.
EXTRAS = {
    "train": "train",
    "finetune": "train",
    "evaluate": "train",
    "calibrate": "train",
    "convert": "convert",
    "publish": "convert",
    "publish-page": "convert",
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
