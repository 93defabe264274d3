"""Parallel text: reading, setting apart, tokenising once into an Arrow cache, and mixing (section 5.1)."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from filelock import FileLock
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from .files import read_lines, whole_file
from .recipe import Data, Source
from .subwords import Merges


Pair = tuple[str, str]


# Reading


def iterate_pairs(source: Source, folder: str | Path = ".", streaming: bool = False) -> Iterator[Pair]:
    """The pairs of a source in its order, few of them in memory; with `streaming` nothing is downloaded beforehand.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line has too few columns, two files differ in length, or the text is not UTF-8; the message names
            file and line.
    """
    for row in _rows(source, Path(folder), streaming):
        if not source.tags or row[2] in source.tags:
            yield row[:2]


def read_pairs(source: Source, folder: str | Path = ".") -> list[Pair]:
    return list(iterate_pairs(source, folder))


def write_pairs(pairs: Iterable[Pair], path: str | Path):
    """A file of pairs, between tabs; a tab or a line break in a text becomes a space."""
    lines = ("\t".join(" ".join(text.split()) for text in pair) for pair in pairs)
    with whole_file(path) as partial:
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _rows(source: Source, folder: Path, streaming: bool) -> Iterator[tuple[str, ...]]:
    """(source, target), with the tag as a third where tags are asked for."""
    if source.target_path:
        paths = folder / source.path, folder / source.target_path
        for number, row in enumerate(zip_longest(*map(read_lines, paths)), start=1):
            if None in row:
                raise ValueError(
                    f"{paths[row.index(None)]} ends before line {number}, {paths[row[0] is None]} does not."
                )
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
        rows, place = read_lines(folder / source.path), f"{folder / source.path}, line"
        pick = _json_value if ".jsonl" in Path(source.path).suffixes else _tab_value
    for number, row in enumerate(rows, start=1):
        try:
            yield tuple(pick(row, column) for column in columns)
        except (KeyError, IndexError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{place} {number}: no text in column {columns}: {error!r}.") from error


def load_hub_dataset(source: Source, streaming: bool = False):
    # Whoever reads files alone need not wait for this import.
    from datasets import load_dataset

    name, settings = (source.dataset, source.config), {"split": source.split, "revision": source.revision}
    return load_dataset(*name, **settings, streaming=streaming)


def _tab_value(line: str, column: int) -> str:
    fields = line.split("\t")
    if column >= len(fields):
        raise IndexError(f"only {len(fields)} columns")
    return fields[column]


def _json_value(line: str, column: str) -> str:
    return _value(json.loads(line), column)


def _value(row: Any, column: str) -> str:
    for key in str(column).split("."):
        row = row[key]
    if not isinstance(row, str):
        raise TypeError(f"{row!r} is not text")
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
    """The pairs that a recipe sets apart before training, by the name of their source."""
    return {
        f"{source.title}, held out": hold_out(read_pairs(source, folder), source.held_out, seed)
        for source in data.train
        if source.held_out
    }


def training_pairs(source: Source, folder: str | Path, held_out: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs of a source that share neither side with one that is held out, from whichever source that came."""
    sources, targets = (set(side) for side in zip(*held_out, strict=True)) if held_out else ((), ())
    return (pair for pair in iterate_pairs(source, folder) if pair[0] not in sources and pair[1] not in targets)


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


# Tokenising


class TokenisedPairs:
    """Token ids of pairs, each side ending in </s>, in Arrow tables; those of a cache stay on the disk.

    `lengths` [N, 2] counts the tokens of either side, `keys` [N] are hashes by which equal pairs are found.
    """

    def __init__(self, tables: Sequence[pa.Table]):
        chunks = [chunk for table in tables for chunk in table.to_batches() if len(chunk)]
        self._starts = np.cumsum([0, *map(len, chunks)])
        self._chunks = [[_ids_and_offsets(chunk.column(side)) for side in ("source", "target")] for chunk in chunks]
        sides = ([np.diff(chunk[side][1]) for chunk in self._chunks] for side in (0, 1))
        self.lengths = np.stack([np.concatenate([np.zeros(0, np.int32), *side]) for side in sides], axis=1)
        self.keys = np.concatenate([np.zeros(0, np.uint64), *(chunk.column("key").to_numpy() for chunk in chunks)])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids of source and target."""
        number = np.searchsorted(self._starts, index, side="right") - 1
        row = index - self._starts[number]
        return tuple(ids[offsets[row] : offsets[row + 1]] for ids, offsets in self._chunks[number])


def _ids_and_offsets(column: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    return column.values.to_numpy(), column.offsets.to_numpy()


def without_padding(tokenizer: PreTrainedTokenizerBase) -> list[Tokenizer]:
    """What is inside, for each side that has its own, rid of the padding that calls leave there.

    tokenizer.json would keep it, and pad all that is encoded by what was inside.
    """
    inside = [side for side in (tokenizer.backend_tokenizer, getattr(tokenizer, "_target_side", None)) if side]
    for side in inside:
        side.no_padding()
        side.no_truncation()
    return inside


def tokenise(
    pairs: Iterable[Pair], tokenizer: PreTrainedTokenizerBase, data: Data, dropped: Counter[str], at_once: int = 10_000
) -> Iterator[pa.RecordBatch]:
    """Token ids of the pairs that pass the filters; what does not is counted in `dropped`, by its reason."""
    encode = partial(tokenizer, return_attention_mask=False)
    ids_type = pa.list_(pa.uint16() if len(tokenizer) <= 1 << 16 else pa.int32())
    schema = pa.schema({"source": ids_type, "target": ids_type, "key": pa.uint64()})
    pairs = iter(pairs)
    while some := list(islice(pairs, at_once)):
        columns = [], [], []
        sources, targets = zip(*some, strict=True)
        ids = encode(list(sources))["input_ids"], encode(text_target=list(targets))["input_ids"]
        for source, target in zip(*ids, strict=True):
            short, long = sorted((len(source), len(target)))
            if short < 2:
                dropped["empty"] += 1
            elif long > data.max_length:
                dropped["longer than max_length"] += 1
            elif long > 10 and long > data.max_ratio * short:
                dropped["beyond max_ratio"] += 1
            else:
                content = np.array([*source, -1, *target], dtype=np.int32).tobytes()
                key = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
                for column, value in zip(columns, (source, target, key), strict=True):
                    column.append(value)
        yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def in_memory(pairs: Iterable[Pair], tokenizer: PreTrainedTokenizerBase, data: Data) -> TokenisedPairs:
    batches = list(tokenise(pairs, tokenizer, data, Counter()))
    return TokenisedPairs([pa.Table.from_batches(batches)] if batches else [])


def cached(
    source: Source, folder: Path, tokenizer: PreTrainedTokenizerBase, data: Data, held_out: Sequence[Pair], cache: Path
) -> tuple[pa.Table, Counter[str]]:
    """A source's token ids as a table mapped from the cache, and what was dropped; written first where it is missing.

    A file of the cache is named by all that its content depends on, so a changed file or filter makes a new one.
    """
    depends = [
        _state(source, folder),
        hashlib.sha256("".join(side.to_str() for side in without_padding(tokenizer)).encode()).hexdigest(),
        [data.max_length, data.max_ratio],
        hashlib.sha256(repr(held_out).encode()).hexdigest(),
    ]
    path = cache / f"{hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:16]}.arrow"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):  # of several processes one writes, the others wait
        if not path.exists():
            _write(path, source, folder, tokenizer, data, held_out)
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        batches = list(reader.iter_batches_with_custom_metadata())
    return (
        pa.Table.from_batches([batch for batch, _ in batches]),
        Counter(json.loads(batches[-1].custom_metadata["dropped"])),
    )


def _write(
    path: Path,
    source: Source,
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    data: Data,
    held_out: Sequence[Pair],
):
    dropped, writer = Counter(), None
    with whole_file(path) as partial, pa.OSFile(str(partial), "wb") as file:
        for batch in tokenise(training_pairs(source, folder, held_out), tokenizer, data, dropped):
            writer = writer or pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
        if writer is None:
            raise ValueError(f"{source.title} has no pairs" + (f" tagged {source.tags}." if source.tags else "."))
        writer.write_batch(batch.slice(0, 0), custom_metadata={"dropped": json.dumps(dropped)})
        writer.close()


def _state(source: Source, folder: Path) -> list:
    """What the source's content depends on."""
    state = [source.source_column, source.target_column, source.tag_column, source.tags]
    if source.dataset:
        return [*state, source.dataset, source.config, source.split, load_hub_dataset(source)._fingerprint]
    paths = [Path(folder) / path for path in (source.path, source.target_path) if path]
    return [*state, *([str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns] for p in paths)]


# Mixing. An epoch is what batches are planned over: of a cache all pairs as often as their weights say, of a stream
# its next window. Both have epoch(n) -> (pairs, the indices to take).


class CachedCorpus:
    """Every source tokenised in the cache, exact repetitions dropped."""

    def __init__(
        self,
        data: Data,
        folder: Path,
        tokenizer: PreTrainedTokenizerBase,
        held_out: Sequence[Pair],
        cache: Path,
        seed: int,
    ):
        tables, self.dropped = [], Counter()
        for source in data.train:
            table, dropped = cached(source, folder, tokenizer, data, held_out, cache)
            tables.append(table)
            self.dropped += dropped
        self.pairs, self.seed = TokenisedPairs(tables), seed
        first = np.zeros(len(self.pairs), dtype=bool)
        first[np.unique(self.pairs.keys, return_index=True)[1]] = True
        self.dropped["repeated"] = int((~first).sum())
        ends = np.cumsum([0, *map(len, tables)])
        self.parts = [
            (source.weight, start + np.flatnonzero(first[start:end]))
            for source, start, end in zip(data.train, ends, ends[1:], strict=False)
        ]
        if not first.any():
            raise ValueError(f"No pairs are left to train on; dropped: {dict(self.dropped)}.")
        if count := round(data.joined * int(first.sum())):
            chosen = np.random.default_rng(seed).integers(int(first.sum()), size=(count, 2))
            joined = JoinedPairs(self.pairs, np.flatnonzero(first)[chosen], data.max_length)
            self.parts.append((1.0, np.arange(len(self.pairs), len(joined))))
            self.pairs = joined

    def __len__(self) -> int:
        return sum(len(indices) for _, indices in self.parts)

    def epoch(self, number: int) -> tuple[TokenisedPairs, np.ndarray]:
        rng = np.random.default_rng((self.seed, number, 1))
        taken = []
        for weight, indices in self.parts:
            whole, rest = divmod(weight, 1)
            taken += [indices] * int(whole)
            if rest:
                taken.append(rng.permutation(indices)[: round(rest * len(indices))])
        return self.pairs, np.concatenate(taken)

    def target_tokens(self) -> int:
        """Of an epoch."""
        return round(sum(weight * self.pairs.lengths[indices, 1].sum() for weight, indices in self.parts))

    def describe(self) -> str:
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.dropped.items()) if count) or "none"
        return f"{len(self):,} training pairs, {self.target_tokens():,} target tokens an epoch; dropped: {dropped}"


class JoinedPairs(TokenisedPairs):
    """Pairs, and behind them texts of two: `places` [N, 2] says which; those over `max_length` tokens are left out."""

    def __init__(self, pairs: TokenisedPairs, places: np.ndarray, max_length: int):
        lengths = pairs.lengths[places].sum(axis=1) - 1  # the first </s> goes
        fits = (lengths <= max_length).all(axis=1)
        self.first, self.places = pairs, places[fits]
        self.lengths = np.concatenate([pairs.lengths, lengths[fits]])

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if index < len(self.first):
            return self.first[index]
        one, two = (self.first[place] for place in self.places[index - len(self.first)])
        return tuple(np.concatenate([a[:-1], b]) for a, b in zip(one, two, strict=True))


class CutPairs(TokenisedPairs):
    """Some pairs with their tokens cut by chance; those that become longer than `max_length` tokens are left out."""

    def __init__(
        self, pairs: TokenisedPairs, indices: np.ndarray, merges: Merges, data: Data, rng: np.random.Generator
    ):
        sides = zip(*(pairs[i] for i in indices), strict=True)
        chunk = [merges.cut(side, data.bpe_dropout, rng) for side in sides]
        self._starts, self._chunks = np.array([0, len(indices)]), [chunk]
        self.lengths = np.stack([np.diff(offsets) for _, offsets in chunk], axis=1)
        self.kept = np.flatnonzero((self.lengths <= data.max_length).all(axis=1))
        if not len(self.kept):
            raise ValueError("No pair is within data.max_length once it is cut; raise that or lower data.bpe_dropout.")


class StreamedCorpus:
    """Sources read and tokenised as training goes, a window at a time, each from its start again when it ends.

    Of every window a source has the share that its weight says. Repetitions are not looked for.
    """

    def __init__(self, data: Data, folder: Path, tokenizer: PreTrainedTokenizerBase, seed: int):
        self.data, self.folder, self.tokenizer, self.seed = data, folder, tokenizer, seed
        self.dropped: Counter[str] = Counter()
        total = sum(source.weight for source in data.train)
        self.counts = [max(1, round(data.window * source.weight / total)) for source in data.train]
        self._streams, self._next = [], None

    def epoch(self, number: int) -> tuple[TokenisedPairs, np.ndarray]:
        if number != self._next:
            self._streams = [
                islice(_forever(lambda source=source: iterate_pairs(source, self.folder, True)), number * count, None)
                for source, count in zip(self.data.train, self.counts, strict=True)
            ]
        self._next = number + 1
        some = chain.from_iterable(
            islice(stream, count) for stream, count in zip(self._streams, self.counts, strict=True)
        )
        batches = list(tokenise(some, self.tokenizer, self.data, self.dropped))
        pairs = TokenisedPairs([pa.Table.from_batches(batches)])
        if not len(pairs):
            raise ValueError(f"No pairs of a whole window pass the filters; dropped: {dict(self.dropped)}.")
        return pairs, np.arange(len(pairs))

    def describe(self) -> str:
        return f"windows of {sum(self.counts):,} pairs, read as training goes"


def _forever(open_stream: Callable[[], Iterator[Pair]]) -> Iterator[Pair]:
    while True:
        empty = True
        for pair in open_stream():
            empty = False
            yield pair
        if empty:
            raise ValueError("A source of the stream has no pairs.")
