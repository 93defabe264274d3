"""`vaswani explore`: a page in the browser on which a checkpoint shows how it works."""

import socket
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ..system import web
from . import options
from .console import Failure, err, failures_are_messages, say
from .rooms import install_command


Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="Port of the page; 0 for any that is free.")
]
Host = Annotated[
    str,
    typer.Option(
        "--host", metavar="ADDRESS",
        help="Address to listen on. With another than this computer's own, whoever reaches it can use the page.",
    ),
]  # fmt: skip
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")]
Export = Annotated[
    Path | None,
    typer.Option("--export", metavar="FOLDER", help="Write a copy of the page for any file server, and end."),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, metavar="N",
        help="CPU threads of a run. [dim]\\[default: half the cores, as two runs may be computed at once][/]",
    ),
]  # fmt: skip
Texts = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="TEXT", help="With --export: a sentence to work out; repeat it for more."),
]


def explore(
    checkpoint: options.Checkpoint = None,
    port: Port = 8017,
    host: Host = "127.0.0.1",
    browser: Browser = True,
    export: Export = None,
    text: Texts = None,
    threads: Threads = None,
):
    """See a checkpoint at work: every part of the Transformer on a sentence of your own.

    [dim]$[/] vaswani explore
    [dim]$[/] vaswani explore --checkpoint mini-en-fr
    [dim]$[/] vaswani explore --export site
    """
    if text and export is None:
        raise typer.BadParameter("It goes with --export.", param_hint="--text")
    with failures_are_messages():
        try:
            from ..explorer.app import create_app
            from ..explorer.server import serve
        except ModuleNotFoundError as error:
            raise Failure(f"vaswani explore needs {error.name}: {install_command('explore')}") from error
        set_threads(threads)
        cache = open_cache(checkpoint)
        if export is not None:
            write_copy(cache, export, text or [])
            return
        with listener_at(host, port) as listener:
            address = web.address(host, listener)
            err.print(f"{cache.current} is at {address} (Ctrl-C ends)")
            if browser:
                webbrowser.open(address)  # it waits for the server, which listens already
            serve(create_app(cache, host), listener)


def set_threads(threads: int | None):
    """More threads than cores wait for each other, and a single run on two cores is then many times slower."""
    import torch

    torch.set_num_threads(threads or max(1, torch.get_num_threads() // 2))


def open_cache(checkpoint: str | None):
    """The checkpoints, the chosen one opened.

    Raises:
        Failure: there is no such checkpoint, or it cannot be loaded.
    """
    from transformers.utils import logging

    from ..explorer.checkpoints import CheckpointCache

    logging.disable_progress_bar()
    try:
        return CheckpointCache(checkpoint)
    except ValueError as error:
        raise Failure(str(error)) from error


def write_copy(cache, folder: Path, texts: list[str]):
    from ..explorer.app import PAGE
    from ..explorer.export import export
    from ..explorer.runs import Refused

    try:
        export(cache.open(), folder, PAGE, texts, lambda text: err.print(text, style="dim", highlight=False))
    except (FileExistsError, Refused) as error:
        raise Failure(str(error)) from error
    say(f"{folder}: put it on a file server, or look at it with python -m http.server -d {folder}", "bold", "written")


def listener_at(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        Failure: it cannot.
    """
    try:
        return web.listening(host, port)
    except OSError as error:
        raise Failure(str(error)) from error
