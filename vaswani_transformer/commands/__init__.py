"""The `vaswani` command: one file for each verb.

torch and transformers take seconds to import, so they are imported in the functions that need them.
"""

from typing import Annotated

import typer

from .._version import __version__
from ..system.command_line import make_app
from . import attention, cache, checkpoints, corpus, explore, info, programs, serve, translate


app = make_app(name="vaswani", cls=programs.Verbs, no_args_is_help=True)


def print_version(is_wanted: bool):
    if is_wanted:
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
app.command()(cache.cache)
app.command()(info.info)
app.command()(serve.serve)
app.command()(explore.explore)
app.command()(attention.attention)
programs.add_programs(app)


def main():
    app(prog_name="vaswani")
