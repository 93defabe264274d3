"""What the commands of all rooms share: options that are numbers, and how a command ends with a message."""

import argparse
import re
from typing import NoReturn


def whole_number(text: str | int, least: int = 1) -> int:
    """The type of an option that counts something: a number from 1 on."""
    if not re.fullmatch(r"[+-]?\d+", str(text).strip()):
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    if int(text) < least:
        raise argparse.ArgumentTypeError(f"must be {least} or more, not {text}")
    return int(text)


def whole_number_or_zero(text: str | int) -> int:
    """The type of an option that counts from 0, or that 0 switches off."""
    return whole_number(text, least=0)


def stop(parser: argparse.ArgumentParser, error: Exception) -> NoReturn:
    """Ends the command with status 1 and the error in a sentence; its usage is shown only where that was wrong."""
    message = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        message = f"{error.filename}: {error.strerror}."
    parser.exit(1, f"{parser.prog}: error: {message}\n")
