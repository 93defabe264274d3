"""Parallel text: reading it, holding pairs out, and adding variations (section 5.1).

| function | pairs |
|---|---|
| `iterate_pairs`, `read_pairs` | a source, unchanged |
| `held_out_pairs` | of all sources, for validation only |
| `training_pairs` | a source, without pairs that share a side with those |
| `varied_pairs` | the same, with the recipe's forms and variations: the training data |
| `tokenizer_pairs` | of all sources, to learn the vocabulary from |
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
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
    """Yield the pairs of a source in order, without loading all of them into memory.

    Args:
        folder: The folder that the recipe's paths are relative to.
        streaming: Do not download a data set beforehand.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A line has too few columns, two files differ in length, or the text is not UTF-8; the message names
            file and line.
    """
    try:
        for row in _rows(source, Path(folder or "."), streaming):
            if (not source.tags or row[2] in source.tags) and source.selects(row[:2]):
                yield row[:2]
    except FileNotFoundError as error:
        hint = "" if folder is None else " Set the data folder with --data."
        raise FileNotFoundError(f"No such file: {error.filename or source.title}.{hint}") from error


def read_pairs(source: Source, folder: str | Path | None = None) -> list[Pair]:
    return list(iterate_pairs(source, folder))


def check_files(sources: Iterable[Source], folder: Path):
    """Check that the files of sources exist, before long work with the first of them.

    Raises:
        FileNotFoundError: Some do not exist; the message names one.
    """
    paths = [path for source in sources for path in source.files(folder)]
    if missing := [path for path in dict.fromkeys(paths) if not path.is_file()]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise FileNotFoundError(f"No such file: {missing[0]}{more}. Set the data folder with --data.")


def write_pairs(pairs: Iterable[Pair], path: str | Path):
    """Write pairs to a tab-separated file; tabs and line breaks in a text become spaces."""
    lines = ("\t".join(" ".join(text.split()) for text in pair) for pair in pairs)
    with atomic_file(path) as partial:
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _rows(source: Source, folder: Path, streaming: bool) -> Iterator[tuple[str, ...]]:
    """Yield (source, target), or (source, target, tag) if the source selects by tags."""
    if source.generator:
        yield from _generated(source, folder)
        return
    if source.target_path:
        paths = source.files(folder)
        for number, row in enumerate(zip_longest(*map(read_lines, paths)), start=1):
            if None in row:
                short, long = paths[row.index(None)], paths[row[0] is None]
                raise ValueError(f"{short} has fewer lines than {long} (it ends before line {number}).")
            yield tuple(map(source.edit, row, range(2)))
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
            yield tuple(source.edit(pick(row, column), column) for column in columns)
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
    from datasets import load_dataset  # a slow import that plain files do not need

    name, settings = (source.dataset, source.config), {"split": source.split, "revision": source.revision}
    return load_dataset(*name, **settings, streaming=streaming)


def _tab_value(line: str, column: int) -> str:
    fields = line.split("\t")
    if column >= len(fields):
        count = f"{len(fields)} column" + ("s" if len(fields) > 1 else "")
        raise ValueError(
            f"has {count}; column {column} is missing (the first is 0). Columns must be separated by tabs."
        )
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


# Holding out


def hold_out(
    pairs: Sequence[Pair], count: int, seed: int, wanted: tuple[Collection[str], Collection[str]] = ((), ())
) -> list[Pair]:
    """Draw `count` pairs by `seed`, no two with the same source, and none that shares a side with a wanted pair.

    `wanted` are the sources and the targets of these pairs. They do not change which other pairs are drawn, so that
    validation losses stay comparable.
    """
    held_out: dict[str, str] = {}
    for index in np.random.default_rng(seed).permutation(len(pairs)):
        if len(held_out) == count:
            break
        source, target = pairs[index]
        if source not in wanted[0] and target not in wanted[1]:
            held_out.setdefault(source, target)
    return list(held_out.items())


def held_out_pairs(data: Data, folder: str | Path, seed: int) -> dict[str, list[Pair]]:
    """Return the pairs that a recipe holds out, by the name of their source.

    Pairs that share a side with a source of larger weight are not held out: such a source lists what must be learned,
    and would lose them.
    """
    held_out = {}
    for source in filter(lambda source: source.held_out, data.train):
        heavier = [other for other in data.train if other.weight > source.weight and not other.dataset]
        wanted = _sides(pair for other in heavier for pair in iterate_pairs(other, folder))
        held_out[f"{source.title}, held out"] = hold_out(read_pairs(source, folder), source.held_out, seed, wanted)
    return held_out


def _sides(pairs: Iterable[Pair]) -> tuple[set[str], set[str]]:
    sources, targets = set(), set()
    for source, target in pairs:
        sources.add(source)
        targets.add(target)
    return sources, targets


def training_pairs(source: Source, folder: str | Path, held_out: Iterable[Pair]) -> Iterator[Pair]:
    """Yield the pairs of a source that share neither side with a held-out pair of any source."""
    sources, targets = _sides(held_out)
    return (pair for pair in iterate_pairs(source, folder) if pair[0] not in sources and pair[1] not in targets)


def varied_pairs(source: Source, folder: str | Path, held_out: Iterable[Pair], data: Data, seed: int) -> Iterator[Pair]:
    """Yield the training pairs of a source with their variations; the same seed yields the same."""
    pairs = training_pairs(source, folder, held_out)
    return with_variations(pairs, source, data, f"{seed} {source.title} {source.tags}")


def with_variations(pairs: Iterable[Pair], source: Source, data: Data, seed: str) -> Iterator[Pair]:
    """Yield pairs of a source in all their forms if it asks for them, otherwise with the recipe's variations.

    Not both: phrases in all forms are shown often, and a variation such as a copy would be learned as well as they are.
    """
    if source.forms:
        return chain.from_iterable(map(forms, pairs))
    return vary(pairs, data.joined, data.variations, data.max_length, seed)


def tokenizer_pairs(data: Data, folder: str | Path, held_out: Iterable[Pair]) -> Iterator[Pair]:
    """Yield the training pairs to learn the vocabulary from: the first `tokenizer_lines` of each source."""
    share = data.tokenizer_lines // len(data.train)
    return chain.from_iterable(
        islice(
            training_pairs(source, folder, held_out),
            share if source.tokenizer_lines is None else source.tokenizer_lines,
        )
        for source in data.train
    )
