"""`vaswani explore`: a page in the browser on which a checkpoint shows how it works."""

import threading
import webbrowser
from typing import Annotated

import typer

from . import options
from .console import Failure, err, failures_are_messages


def explore(
    checkpoint: options.Checkpoint = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the page.")] = 8017,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
):
    """See a checkpoint at work: every part of the Transformer on a sentence of your own."""
    with failures_are_messages():
        import uvicorn

        from ..explorer.app import create_app
        from ..explorer.opened import Shelf

        shelf = Shelf(checkpoint)
        address = f"http://{host}:{port}"
        err.print(f"{shelf.current} is at {address} (Ctrl-C ends)")
        if browser:
            threading.Timer(1.0, webbrowser.open, [address]).start()
        uvicorn.run(create_app(shelf, host), host=host, port=port, log_level="warning")
