"""The `vaswani` command: a file for each verb.

torch and transformers take seconds to import, so they are imported in the functions that need them.
"""

from typing import Annotated

import typer

from .._version import __version__
from . import attention, checkpoints, corpus, explore, info, rooms, serve, translate


app = typer.Typer(
    name="vaswani",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(wanted: bool):
    if wanted:
        print(f"vaswani-transformer {__version__}")
        raise typer.Exit


@app.callback()
def vaswani(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
):
    """The Transformer of "Attention Is All You Need": translate, train, convert and publish."""


app.command()(translate.translate)
app.command()(corpus.corpus)
app.command()(checkpoints.checkpoints)
app.command()(info.info)
app.command()(serve.serve)
app.command()(explore.explore)
app.command()(attention.attention)
for verb in rooms.VERBS:
    rooms.add_command(app, verb)


def main():
    app(prog_name="vaswani")
