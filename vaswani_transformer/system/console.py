"""Prints messages to the user on standard error, in colour on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from rich.console import Console
from rich.text import Text


WARNINGS_SHOWN = 5  # on a terminal

out = Console()
err = Console(stderr=True)


class Failure(Exception):
    """An error whose message is a sentence for the user."""


def print_message(message: str, style: str, label: str):
    """Prints a message, wrapped between words on a terminal, on one line in a file."""
    err.print(Text.assemble((f"{label}: ", style), message), soft_wrap=not err.is_terminal)


def warn(message: str):
    print_message(message, "bold yellow", "warning")


def report_error(message: str):
    print_message(message, "bold red", "error")


def exit_with_error(error: Exception) -> NoReturn:
    """Ends the program with status 1 and the error's message, without a traceback or the usage."""
    message = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        message = f"{error.filename}: {error.strerror}."
    report_error(message)
    raise SystemExit(1) from error


@contextmanager
def errors_as_messages(*kinds: type[Exception]) -> Iterator[None]:
    """Calls `exit_with_error` if the block raises a `Failure` or an error of one of the `kinds`."""
    try:
        yield
    except (Failure, *kinds) as error:
        exit_with_error(error)


class Warnings:
    """Prints warnings to standard error: all of them to a file, only the first few to a terminal; then their number.

    Args:
        things: The plural of what the warnings are about, such as "lines".
    """

    def __init__(self, things: str):
        self.things, self.count = things, 0

    def add(self, message: str):
        self.count += 1
        if self.count <= WARNINGS_SHOWN or not err.is_terminal:
            warn(message)

    def summarise(self):
        if self.count > WARNINGS_SHOWN:
            shown = f"; only the first {WARNINGS_SHOWN} are shown. To write all of them to a file, add 2> FILE"
            warn(f"{self.count} {self.things} have warnings{shown if err.is_terminal else ''}.")
