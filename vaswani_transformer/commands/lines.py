"""Reads lines of text and writes translations; no model here."""

import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TextIO, cast

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..system.console import Failure, err


# The first bytes of files that users mistake for text.
NOT_TEXT = {
    b"%PDF-": "a PDF file",
    b"PK\x03\x04": "an Office, OpenDocument or zip file",
    b"\xd0\xcf\x11\xe0": "an old Office file",
    b"\x1f\x8b": "a gzip file",
}


# Lines in ------------------------------------------------------------------------------------------------------------


def open_lines(texts: list[str] | None, input: Path | None) -> tuple[Iterator[list[str]], int | None]:
    """Returns the lines to translate, in lists of those that are available, and their number if it is known.

    A regular file is first read once completely, so that an error in it is found before anything is translated.

    Raises:
        Failure: the input cannot be read, or is not UTF-8.
    """
    if texts:
        lines = [line for text in texts for line in re.split(r"\r\n|\n|\r", text)]
        # On the command line, Python reads bytes that are not UTF-8 as lone surrogates.
        if any("\ud800" <= character <= "\udfff" for line in lines for character in line):
            raise Failure("A text on the command line is not valid UTF-8. Set your terminal to UTF-8.")
        return iter([lines]), len(lines)
    if input is None:
        return arriving_lines(cast(io.BufferedReader, sys.stdin.buffer), "standard input"), None
    try:
        total = None
        if input.is_file():
            with input.open("rb") as stream:
                total = sum(map(len, arriving_lines(stream, str(input))))
        return arriving_lines(input.open("rb"), str(input)), total
    except OSError as error:
        raise Failure(f"Cannot read {input}: {error.strerror}.") from error


def arriving_lines(stream: io.BufferedReader, name: str) -> Iterator[list[str]]:
    """Yields lists of the lines that have arrived; waits only while there are none.

    Only a line feed, or a carriage return and a line feed, ends a line. A byte order mark at the start is dropped.

    Raises:
        Failure: the stream cannot be read, has no text, or has a line that is not UTF-8. The lines before it have
            been yielded by then.
    """
    number, rest = 0, b""
    while True:
        try:
            chunk = stream.read1(1 << 16)
        except OSError as error:
            raise Failure(f"Cannot read {name}: {error.strerror}.") from error
        if not number and not rest:
            check_text(chunk, name)
        *complete, rest = (rest + chunk).split(b"\n")
        if not chunk and rest:
            complete.append(rest)
        lines, failure = [], None
        for line in complete:
            number += 1
            try:
                lines.append(line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                failure = Failure(
                    f"{name}, line {number}: not UTF-8 (byte {error.object[error.start]:#04x} at position "
                    f"{error.start + 1}). Convert it first, e.g. with `iconv -f latin1 -t utf-8`."
                )
                break
        if lines:
            yield lines
        if failure:
            raise failure
        if not chunk:
            return


def check_text(start: bytes, name: str):
    """Raises Failure if a stream starts like a file of a known format that is not text."""
    if kind := next((kind for mark, kind in NOT_TEXT.items() if start.startswith(mark)), None):
        raise Failure(
            f"{name} is {kind}, not text. Convert it to UTF-8 text first, or give a document in one of the supported "
            "formats by its name, with --output."
        )


def windows(arrivals: Iterator[list[str]], size: int) -> Iterator[list[str]]:
    """Yields the same lines in lists of at most `size`."""
    for lines in arrivals:
        for start in range(0, len(lines), size):
            yield lines[start : start + size]


# Lines out -----------------------------------------------------------------------------------------------------------


FORMATS = {"score": ".4f", "confidence": ".2f"}


def format_records(number: int, records: list[dict], n_best: int, columns: Sequence[str]) -> str:
    """Formats the output for input line `number`, with its line ends.

    The text is preceded by the `columns` of the records ("score", "confidence") and followed by their "links", if any.
    """
    lines = []
    for record in records:
        # One input line gives one output line, and tabs separate columns: a translation may contain neither.
        text = " ".join(record["translation_text"].splitlines())
        first = ([str(number)] if n_best > 1 else []) + [f"{record[name]:{FORMATS[name]}}" for name in columns]
        last = [record["links"]] if "links" in record else []
        lines.append("\t".join([*first, text.replace("\t", " ") if first or last else text, *last]) + "\n")
    return "".join(lines)


def moses(source: str, translation: str, alignments: list[tuple[tuple[int, int], tuple[int, int]]]) -> str:
    """Formats the pipeline's pairs of spans like Moses: "0-0 1-2"; words are separated by spaces, counted from 0."""

    def word(text: str, span: tuple[int, int]) -> int:
        return len(text[: span[1]].split()) - 1

    return " ".join(f"{i}-{j}" for i, j in sorted({(word(source, a), word(translation, b)) for a, b in alignments}))


def check_output(output: Path | None):
    """Raises Failure if the folder of the output file does not exist; called before the model is loaded."""
    if output is not None and not output.parent.is_dir():
        raise Failure(f"Cannot write {output}: the folder {output.parent} does not exist. Create it first.")


@contextmanager
def open_output(output: Path | None, input: Path | None = None) -> Iterator[TextIO]:
    """Yields the file, or standard output, to be written in UTF-8. A new file gets the permissions of `input`.

    Raises:
        Failure: it cannot be opened or written.
    """
    try:
        if output is not None:
            mode = 0o600 | input.stat().st_mode & 0o777 if input and input.is_file() else 0o666
            create = partial(os.open, mode=mode)
            with open(output, "w", encoding="utf-8", newline="\n", opener=create) as file:
                yield file
        else:
            if isinstance(sys.stdout, io.TextIOWrapper):  # a program that calls the command may have replaced it
                sys.stdout.reconfigure(encoding="utf-8")
            yield sys.stdout
    except BrokenPipeError:
        raise
    except OSError as error:
        if output is None:  # otherwise the interpreter would write the rest at exit, and fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Failure(f"Cannot write {output or 'to standard output'}: {error.strerror}.") from error


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Delays an interrupt (Ctrl-C) until the block is done, so that no line is written in part."""
    delayed = []
    try:
        previous = signal.signal(signal.SIGINT, lambda *args: delayed.append(args))
    except ValueError:  # not in the main thread: interrupts do not reach it
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if delayed and callable(previous):
            previous(*delayed[0])


@contextmanager
def progress_bar(total: int | None, shown: bool) -> Iterator[Callable[[int], None]]:
    """Yields a function that takes the number of lines just done, and moves a bar if standard error is a terminal."""
    if not shown or not err.is_terminal:
        yield lambda done: None
        return
    columns = (
        TextColumn("Translating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("lines"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as progress:
        task = progress.add_task("", total=total)
        yield lambda done: progress.advance(task, done)
