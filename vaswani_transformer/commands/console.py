"""What every verb says to the user, and how."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text


out = Console()
err = Console(stderr=True)


class Failure(Exception):
    """What went wrong, in a sentence for the user."""


def say(message: str, style: str, label: str):
    """One message on standard error: wrapped between words on a terminal, on one line in a file."""
    err.print(Text.assemble((f"{label}: ", style), message), soft_wrap=not err.is_terminal)


def warn(message: str):
    say(message, "bold yellow", "warning")


def report_error(message: str):
    say(message, "bold red", "error")


@contextmanager
def failures_are_messages() -> Iterator[None]:
    """Ends the command with status 1 and the message of a `Failure`, without a traceback."""
    try:
        yield
    except Failure as failure:
        report_error(str(failure))
        raise typer.Exit(1) from failure
