"""How the commands of this folder report errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from vaswani_transformer.system.console import errors_as_messages

from .options import ConversionError


@contextmanager
def quiet() -> Iterator[None]:
    """Silences transformers, and ends the program with a message if the block raises one of the expected errors."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with errors_as_messages(OSError, ConversionError):
        yield
