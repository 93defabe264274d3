"""`vaswani explore`: a page in the browser that shows how a checkpoint works."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ..system import web
from ..system.console import Failure, err, errors_as_messages, print_message


Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="Port of the page; 0 for any free port.")
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Address to listen on. With 0.0.0.0, anyone who can reach this computer can use the page.",
    ),
]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")]
Export = Annotated[
    Path | None,
    typer.Option(
        "--export",
        metavar="FOLDER",
        help="Write the page to this folder and exit. Any file server can host it; the model then runs in the browser.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        metavar="N",
        help="CPU threads for each sentence. [dim]\\[default: half the cores, so that two can run at once][/]",
    ),
]
Checkpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--checkpoint",
        metavar="MODEL",
        help="A name listed by `vaswani checkpoints`, a folder, or a Hub id. Repeat it for more; the page opens with "
        "the first.",
    ),
]
Text = Annotated[
    str | None, typer.Option("--text", metavar="TEXT", help="With --export: the sentence that the page opens with.")
]


def explore(
    checkpoint: Checkpoints = None,
    port: Port = 8017,
    host: Host = "127.0.0.1",
    browser: Browser = True,
    export: Export = None,
    text: Text = None,
    threads: Threads = None,
):
    """Watch a checkpoint at work: every part of the Transformer on a sentence of your choice.

    [dim]$[/] vaswani explore
    [dim]$[/] vaswani explore --checkpoint mini-en-fr
    [dim]$[/] vaswani explore --export site --checkpoint mini-en-de --checkpoint mini-de-en
    """
    if text and export is None:
        raise typer.BadParameter("Add --export FOLDER, or type the sentence on the page.", param_hint="--text")
    from ..explorer.app import create_app
    from ..explorer.server import serve

    with errors_as_messages(OSError):
        set_threads(threads)
        cache = open_cache(checkpoint or [])
        if export is not None:
            write_copy(cache, export, text)
            return
        with web.listening(host, port) as listener:
            address = web.address(host, listener)
            err.print(f"{cache.current} is at {address} (Ctrl-C ends)")
            if browser:
                webbrowser.open(address)  # waits for the server, whose socket is already open
            serve(create_app(cache, host), listener)


def set_threads(threads: int | None):
    """Limits the threads: with more threads than cores, a single run on two cores is many times slower."""
    import torch

    torch.set_num_threads(threads or max(1, torch.get_num_threads() // 2))


def open_cache(checkpoints: list[str]):
    """Returns the cache of checkpoints with the chosen ones loaded.

    Raises:
        Failure: a checkpoint does not exist, or it cannot be loaded.
    """
    from transformers.utils import logging

    from ..explorer.checkpoints import CheckpointCache

    logging.disable_progress_bar()
    try:
        return CheckpointCache(*checkpoints)
    except ValueError as error:
        raise Failure(str(error)) from error


def write_copy(cache, folder: Path, text: str | None):
    from ..explorer.app import PAGE
    from ..explorer.export import export
    from ..explorer.runs import Refused

    try:
        checkpoints = [cache.open(name) for name in cache.chosen]
        export(checkpoints, folder, PAGE, text, lambda name: err.print(name, style="dim", highlight=False))
    except (FileExistsError, Refused) as error:
        raise Failure(str(error)) from error
    print_message(
        f"{folder}. Put it on a file server, or view it with python -m http.server -d {folder}", "bold", "written"
    )
