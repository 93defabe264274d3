"""Jupyter notebooks: the texts of the Markdown cells; every byte outside the sources of these cells stays.

nbformat would write the whole file again, and the json module gives no places. So a regular expression finds the
strings of the file, and json tells which of them are the sources.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from . import markdown
from .document import DocumentError, Languages, Options, Span, TextDocument, Translated


LINE = re.compile(r"[^\n]*\n|[^\n]+")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Pairs(list):
    """A JSON object as a list of pairs, because it may have a key more than once."""


@dataclass
class Cell:
    """A Markdown cell: its number, its Markdown, and the strings of the file that its source consists of."""

    number: int
    document: TextDocument
    strings: list[re.Match]
    is_list: bool


@dataclass
class Notebook:
    """A notebook that has been read; see `Document`."""

    content: str
    cells: list[Cell]
    untranslated: Counter[str]
    languages: Languages = (None, None)

    @property
    def texts(self) -> Sequence[Span]:
        return [text for cell in self.cells for text in cell.document.texts]

    def write(self, translated: Sequence[Translated]) -> bytes:
        edits = []
        remaining = iter(translated)
        for cell in self.cells:
            new = cell.document.write(list(islice(remaining, len(cell.document.texts)))).decode()
            if new != cell.document.content:
                edits.append((cell.strings[0].start(), cell.strings[-1].end(), self.source(cell, new)))
        return TextDocument(self.content, [], edits=edits).write([])

    def source(self, cell: Cell, new: str) -> str:
        """Return a source as the file has it: a string or a list of lines. Lines that stay keep their spelling."""
        spelled = {json.loads(string[0], strict=False): string[0] for string in cell.strings}
        lines = LINE.findall(new) if cell.is_list else [new]
        separator = ",\n"
        if len(cell.strings) > 1:
            separator = self.content[cell.strings[0].end() : cell.strings[1].start()]
        is_ascii = any("\\u" in string[0] for string in cell.strings)
        return separator.join(spelled.get(line) or json.dumps(line, ensure_ascii=is_ascii) for line in lines)


def read(content: str, options: Options) -> Notebook:
    """Find the texts of the Markdown cells of a notebook.

    Raises:
        DocumentError: The file is not a notebook.
    """
    try:
        data = json.loads(content, object_pairs_hook=Pairs)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"Not a valid notebook: {error}.") from error
    cells = value_of(data, "cells")
    if not isinstance(cells, list) or isinstance(cells, Pairs):
        raise DocumentError("Not a notebook of version 4: it has no list of cells.")
    sources: dict[int, list[re.Match]] = {}
    find_sources(data, STRING.finditer(content), sources)
    result, untranslated = [], Counter()
    for number, cell in enumerate(cells, 1):
        source = value_of(cell, "source")
        if value_of(cell, "cell_type") != "markdown":
            untranslated["code cells"] += 1
        elif (parts := sources.get(id(cell))) and all(isinstance(part, str) for part in source):
            result.append(read_cell(number, source, parts, options))
            untranslated += result[-1].document.untranslated
    return Notebook(content, result, untranslated)


def value_of(data: Any, key: str) -> Any:
    return dict(data).get(key) if isinstance(data, Pairs) else None


def find_sources(data: Any, strings: Iterator[re.Match], sources: dict[int, list[re.Match]]) -> list[re.Match]:
    """Find the strings of each source, by the identity of the object that has it; return those that `data` has."""
    if isinstance(data, str):
        return [next(strings)]
    if isinstance(data, Pairs):
        for key, value in data:
            next(strings)
            parts = find_sources(value, strings, sources)
            if key == "source":
                sources[id(data)] = parts
        return []
    return [part for value in data for part in find_sources(value, strings, sources)] if isinstance(data, list) else []


def read_cell(number: int, source: str | list[str], strings: list[re.Match], options: Options) -> Cell:
    text = source if isinstance(source, str) else "".join(source)
    if re.search("[\ud800-\udfff]", text):
        raise DocumentError(f"Cell {number} has half a character: a lone surrogate such as \\ud83d.")
    document = markdown.read(text, options)
    for span in document.texts:
        span.place = f"cell {number}, {span.place}"
    return Cell(number, document, strings, isinstance(source, list))
