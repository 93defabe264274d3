"""Parallel text: reading it, holding pairs out, and adding variations (section 5.1).

| function | pairs of |
|---|---|
| `iterate_pairs`, `read_pairs` | a source as it is |
| `held_out_pairs` | all sources: those that validate and are not trained on |
| `training_pairs` | a source without what shares a side with those |
| `varied_pairs` | the same with the variations that the recipe asks for: what is trained on |
| `tokenizer_pairs` | all sources: those that the vocabulary is learned from |
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from .expressions import generate
from .files import atomic_file, read_lines
from .recipe import Data, Source
from .variations import Pair, forms, vary


# Reading


def iterate_pairs(source: Source, folder: str | Path | None = None, streaming: bool = False) -> Iterator[Pair]:
    """The pairs of a source in its order, few of them in memory; with `streaming` nothing is downloaded beforehand.

    `folder` is where the paths of a recipe start.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line has too few columns, two files differ in length, or the text is not UTF-8; the message names
            file and line.
    """
    try:
        for row in _rows(source, Path(folder or "."), streaming):
            if (not source.tags or row[2] in source.tags) and source.selects(row[:2]):
                yield row[:2]
    except FileNotFoundError as error:
        hint = "" if folder is None else " The folder of the data is given with --data."
        raise FileNotFoundError(f"No such file: {error.filename or source.title}.{hint}") from error


def read_pairs(source: Source, folder: str | Path | None = None) -> list[Pair]:
    return list(iterate_pairs(source, folder))


def missing_files(data: Data, folder: Path) -> list[Path]:
    """The files of a recipe's sources that do not exist."""
    paths = [path for source in (*data.train, *data.validation, *data.test) for path in source.files(folder)]
    return [path for path in dict.fromkeys(paths) if not path.is_file()]


def write_pairs(pairs: Iterable[Pair], path: str | Path):
    """A file of pairs, between tabs; a tab or a line break in a text becomes a space."""
    lines = ("\t".join(" ".join(text.split()) for text in pair) for pair in pairs)
    with atomic_file(path) as partial:
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _rows(source: Source, folder: Path, streaming: bool) -> Iterator[tuple[str, ...]]:
    """(source, target), with the tag as a third where tags are asked for."""
    if source.generator:
        yield from _generated(source, folder)
        return
    if source.target_path:
        paths = source.files(folder)
        for number, row in enumerate(zip_longest(*map(read_lines, paths)), start=1):
            if None in row:
                short, long = paths[row.index(None)], paths[row[0] is None]
                raise ValueError(f"{short} has fewer lines than {long} (it ends before line {number}).")
            yield row
        return
    columns = [
        0 if source.source_column is None else source.source_column,
        1 if source.target_column is None else source.target_column,
    ]
    if source.tags:
        columns.append(source.tag_column)
    if source.dataset:
        rows, pick, place = load_hub_dataset(source, streaming), _value, f"{source.dataset}, example"
    else:
        [path] = source.files(folder)
        rows, place = read_lines(path), f"{path}, line"
        pick = _json_value if ".jsonl" in Path(source.path).suffixes else _tab_value
    for number, row in enumerate(rows, start=1):
        try:
            yield tuple(pick(row, column) for column in columns)
        except ValueError as error:
            raise ValueError(f"{place} {number} {error}") from error


def _generated(source: Source, folder: Path) -> Iterator[Pair]:
    languages, table = (source.source_column, source.target_column), []
    for path in source.files(folder):
        english_first = source.source_column == "en"
        for number, line in enumerate(read_lines(path), start=1):
            try:
                english, other, kind = (_tab_value(line, column) for column in range(3))
            except ValueError as error:
                raise ValueError(f"{path}, line {number} {error}") from error
            table.append((english, other, kind) if english_first else (other, english, kind))
    yield from generate(source.generator, *languages, source.seed or 0, source.pairs, table)


def load_hub_dataset(source: Source, streaming: bool = False):
    # Whoever reads files alone need not wait for this import.
    from datasets import load_dataset

    name, settings = (source.dataset, source.config), {"split": source.split, "revision": source.revision}
    return load_dataset(*name, **settings, streaming=streaming)


def _tab_value(line: str, column: int) -> str:
    fields = line.split("\t")
    if column >= len(fields):
        count = f"{len(fields)} column" + ("s" if len(fields) > 1 else "")
        raise ValueError(f"has {count}; column {column} is needed (the first is 0). Columns must be separated by tabs.")
    return fields[column]


def _json_value(line: str, column: str) -> str:
    try:
        return _value(json.loads(line), column)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON (column {error.colno}).") from error


def _value(row: Any, column: str) -> str:
    for key in str(column).split("."):
        if not isinstance(row, dict) or key not in row:
            raise ValueError(f"has no {column!r}.")
        row = row[key]
    if not isinstance(row, str):
        raise ValueError(f"has {row!r} in {column!r}, which is not text.")
    return row


# Setting apart


def hold_out(pairs: Sequence[Pair], count: int, seed: int) -> list[Pair]:
    """`count` pairs drawn by `seed`, no source twice."""
    held_out: dict[str, str] = {}
    for index in np.random.default_rng(seed).permutation(len(pairs)):
        if len(held_out) == count:
            break
        held_out.setdefault(*pairs[index])
    return list(held_out.items())


def held_out_pairs(data: Data, folder: str | Path, seed: int) -> dict[str, list[Pair]]:
    """The pairs that a recipe sets apart before training, by the name of their source.

    Pairs that share a side with a source of larger weight are not held out: such a source is a list of what must be
    learned, and would lose them.
    """
    held_out = {}
    for source in filter(lambda source: source.held_out, data.train):
        lists = [other for other in data.train if other.weight > source.weight and not other.dataset]
        sources, targets = _sides(pair for other in lists for pair in iterate_pairs(other, folder))
        pairs = [pair for pair in read_pairs(source, folder) if pair[0] not in sources and pair[1] not in targets]
        held_out[f"{source.title}, held out"] = hold_out(pairs, source.held_out, seed)
    return held_out


def _sides(pairs: Iterable[Pair]) -> tuple[set[str], set[str]]:
    sources, targets = set(), set()
    for source, target in pairs:
        sources.add(source)
        targets.add(target)
    return sources, targets


def training_pairs(source: Source, folder: str | Path, held_out: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs of a source that share neither side with one that is held out, from whichever source that came."""
    sources, targets = _sides(held_out)
    return (pair for pair in iterate_pairs(source, folder) if pair[0] not in sources and pair[1] not in targets)


def varied_pairs(source: Source, folder: str | Path, held_out: Iterable[Pair], data: Data, seed: int) -> Iterator[Pair]:
    """Yields the training pairs of a source with their forms and variations; the same seed yields the same."""
    pairs = in_forms(training_pairs(source, folder, held_out), source)
    return vary(pairs, data.joined, data.variations, data.max_length, f"{seed} {source.title} {source.tags}")


def in_forms(pairs: Iterable[Pair], source: Source) -> Iterator[Pair]:
    """The pairs, each in all its forms if the source asks for them."""
    return chain.from_iterable(map(forms, pairs)) if source.forms else iter(pairs)


def tokenizer_pairs(data: Data, folder: str | Path, held_out: Iterable[Pair]) -> Iterator[Pair]:
    """The training pairs that the vocabulary is learned from: the first `tokenizer_lines` of each source."""
    share = data.tokenizer_lines // len(data.train)
    return chain.from_iterable(
        islice(
            training_pairs(source, folder, held_out),
            share if source.tokenizer_lines is None else source.tokenizer_lines,
        )
        for source in data.train
    )
