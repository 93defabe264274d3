"""Token ids of parallel text: tokenised once into an Arrow cache, filtered, and mixed by weight (section 5.1)."""

import hashlib
import inspect
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from filelock import FileLock
from tokenizers import Tokenizer
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from . import expressions, invented, variations
from .files import atomic_file
from .parallel_text import iterate_pairs, load_hub_dataset, varied_pairs, with_variations
from .recipe import Data, Source
from .subwords import Merges
from .variations import Pair


# `datasets` reads the Hub's data sets. The cache is our own 60 lines: the name of a file depends on everything that its
# content depends on, held-out pairs and variations included, and planning batches needs all lengths in memory.

# Tokenising ----------------------------------------------------------------------------------------------------------

# One side of N pairs: all ids in a row, and the N + 1 offsets at which pairs begin and end.
Column = tuple[np.ndarray, np.ndarray]


class TokenisedPairs:
    """Token ids of N pairs, each side ending in </s>; `lengths` [N, 2] counts the tokens of each side."""

    def __init__(self, chunks: Sequence[tuple[Column, Column]]):
        self._chunks = chunks
        lengths = [np.stack([np.diff(offsets) for _, offsets in chunk], axis=1) for chunk in chunks]
        self._starts = np.cumsum([0, *map(len, lengths)])
        self.lengths = np.concatenate([np.zeros((0, 2), np.int32), *lengths])

    @classmethod
    def from_tables(cls, tables: Sequence[pa.Table]) -> "TokenisedPairs":
        """Return the pairs of cached tables, whose ids stay on disk."""
        chunks = [chunk for table in tables for chunk in table.to_batches() if len(chunk)]
        return cls([(_ids_and_offsets(chunk["source"]), _ids_and_offsets(chunk["target"])) for chunk in chunks])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of source and target."""
        number = np.searchsorted(self._starts, index, side="right") - 1
        row = index - self._starts[number]
        return tuple(ids[offsets[row] : offsets[row + 1]] for ids, offsets in self._chunks[number])


def _ids_and_offsets(column: pa.ListArray) -> Column:
    return column.values.to_numpy(), column.offsets.to_numpy()


def backends(tokenizer: PreTrainedTokenizerBase) -> list[Tokenizer]:
    """Return the tokenizers inside: one, or one per language."""
    return [side for side in (tokenizer.backend_tokenizer, getattr(tokenizer, "_target_side", None)) if side]


def remove_padding(tokenizer: PreTrainedTokenizerBase):
    """Remove the padding of the last call, which would be saved in tokenizer.json and applied to every text."""
    for side in backends(tokenizer):
        side.no_padding()
        side.no_truncation()


def tokenise(
    pairs: Iterable[Pair], tokenizer: PreTrainedTokenizerBase, data: Data, dropped: Counter[str], at_once: int = 10_000
) -> Iterator[pa.RecordBatch]:
    """Yield the token ids of the pairs that pass the filters, with a hash, `key`, that identifies equal pairs.

    Pairs that do not pass are counted in `dropped`, by the reason.
    """
    encode = partial(tokenizer, return_attention_mask=False)
    ids_type = pa.list_(pa.uint16() if len(tokenizer) <= 1 << 16 else pa.int32())
    schema = pa.schema({"source": ids_type, "target": ids_type, "key": pa.uint64()})
    pairs = iter(pairs)
    while chunk := list(islice(pairs, at_once)):
        columns = [], [], []
        sources, targets = zip(*chunk, strict=True)
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
    return TokenisedPairs.from_tables([pa.Table.from_batches(batches)] if batches else [])


def cached(
    source: Source,
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    data: Data,
    held_out: Sequence[Pair],
    cache: Path,
    seed: int = 0,
) -> tuple[pa.Table, Counter[str]]:
    """Return a source's token ids as a memory-mapped table of the cache, and the counts of dropped pairs.

    A missing cache file is written first. Its name depends on everything that its content depends on, so a changed
    source or filter makes a new file.

    Raises:
        ValueError: The source has no pairs.
    """
    remove_padding(tokenizer)
    depends = [
        _state(source, folder),
        _digest("".join(side.to_str() for side in backends(tokenizer))),
        [data.max_length, data.max_ratio],
        _digest(repr(held_out)),
    ]
    if data.joined or data.variations or source.forms:
        made_by = "".join(map(inspect.getsource, (variations, invented)))
        depends.append([data.joined, data.variations, seed, source.title, _digest(made_by)])
    path = cache / f"{_digest(json.dumps(depends))[:16]}.arrow"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):  # one process writes, the others wait
        if (table := _read(path)) is None:
            for leftover in cache.glob(f"{path.name}.*.partial"):  # of a killed process
                leftover.unlink()
            pairs = varied_pairs(source, folder, held_out, data, seed)
            _write(path, pairs, tokenizer, data, source)
            table = _read(path)
    return table


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> tuple[pa.Table, Counter[str]] | None:
    """Return the table of a cache file and the counts of dropped pairs; None if the file is missing or damaged."""
    try:
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
            batches = list(reader.iter_batches_with_custom_metadata())
        dropped = Counter(json.loads(batches[-1].custom_metadata["dropped"]))
    except (OSError, pa.ArrowInvalid, IndexError, TypeError, KeyError):  # such as an empty file after a power cut
        return None
    return pa.Table.from_batches([batch for batch, _ in batches]), dropped


def _write(path: Path, pairs: Iterable[Pair], tokenizer: PreTrainedTokenizerBase, data: Data, source: Source):
    dropped, writer = Counter(), None
    with atomic_file(path) as partial, pa.OSFile(str(partial), "wb") as file:
        for batch in tokenise(pairs, tokenizer, data, dropped):
            writer = writer or pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
        if writer is None:
            raise ValueError(f"{source.title} has no pairs" + (f" tagged {source.tags}." if source.tags else "."))
        # The last batch is empty and carries the counts; a file without it is incomplete.
        writer.write_batch(batch.slice(0, 0), custom_metadata={"dropped": json.dumps(dropped)})
        writer.close()


def _state(source: Source, folder: Path) -> list:
    """Return everything that the source's content depends on."""
    state = [source.source_column, source.target_column, source.tag_column, source.tags]
    changes = [source.forms, source.min_words, source.max_words, source.exclude, *source.replace.items()]
    state += changes if any(changes) else []  # if unused, cache files keep the names they had before these keys existed
    if source.dataset:
        return [*state, source.dataset, source.config, source.split, load_hub_dataset(source)._fingerprint]
    if source.generator:
        generators = Path(expressions.__file__).parent
        made_by = [file for file in sorted(generators.iterdir()) if file.suffix in (".py", ".tsv")]
        state += [source.generator, source.pairs, source.seed, *map(_content, [*made_by, Path(invented.__file__)])]
    return [*state, *map(_content, source.files(folder))]


def _content(path: Path) -> str:
    """Return the digest of a file's content, which does not depend on its name or time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


# Mixing --------------------------------------------------------------------------------------------------------------
#
# Batches are planned over an epoch: all pairs of a cache as often as their weights say, or the next window of a stream.
# Both classes have epoch(n) -> (pairs, the indices to use).


class CachedCorpus:
    """All sources, tokenised in the cache, without exact repetitions."""

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
        for source in tqdm(data.train, "tokenising", unit="source", leave=False, disable=None):
            table, dropped = cached(source, folder, tokenizer, data, held_out, cache, seed)
            tables.append(table)
            self.dropped += dropped
        self.pairs, self.seed = TokenisedPairs.from_tables(tables), seed
        first = first_of_equals(tables, [source.weight for source in data.train])
        self.dropped["repeated"] = int((~first).sum())
        ends = np.cumsum([0, *map(len, tables)])
        self.parts = [
            (source.weight, start + np.flatnonzero(first[start:end]))
            for source, start, end in zip(data.train, ends, ends[1:], strict=False)
        ]
        if not first.any():
            raise ValueError(f"No training pairs are left. Dropped: {dict(self.dropped)}.")

    def __len__(self) -> int:
        return sum(len(indices) for _, indices in self.parts)

    def epoch(self, number: int) -> tuple[TokenisedPairs, np.ndarray]:
        rng = np.random.default_rng((self.seed, number, 1))  # 1: `plan_batches` draws without it
        taken = []
        for weight, indices in self.parts:
            whole, rest = divmod(weight, 1)
            taken += [indices] * int(whole)
            if rest:
                taken.append(rng.permutation(indices)[: round(rest * len(indices))])
        return self.pairs, np.concatenate(taken)

    def target_tokens(self) -> int:
        """Return the number of target tokens in an epoch."""
        return round(sum(weight * self.pairs.lengths[indices, 1].sum() for weight, indices in self.parts))

    def describe(self) -> str:
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.dropped.items()) if count) or "none"
        return f"{len(self):,} training pairs, {self.target_tokens():,} target tokens per epoch; dropped: {dropped}"


def first_of_equals(tables: Sequence[pa.Table], weights: Sequence[float]) -> np.ndarray:
    """Mark one of all equal pairs: the first in the source with the largest weight.

    Otherwise a pair of a large corpus would replace the same pair in a list that is repeated more often.
    """
    keys = np.concatenate([table["key"].to_numpy() for table in tables])
    negative_weights = np.repeat(np.negative(weights), [len(table) for table in tables])
    order = np.lexsort((negative_weights, keys))  # stable: equal keys and weights stay in their order
    first = np.zeros(len(keys), dtype=bool)
    first[order[np.unique(keys[order], return_index=True)[1]]] = True
    return first


def cut_pairs(
    pairs: TokenisedPairs, indices: np.ndarray, merges: Merges, data: Data, rng: np.random.Generator
) -> tuple[TokenisedPairs, np.ndarray]:
    """Return the pairs of `indices` with their tokens cut at random, and the indices of those within `max_length`.

    Raises:
        ValueError: All pairs are too long.
    """
    sides = zip(*(pairs[i] for i in indices), strict=True)
    cut = TokenisedPairs([tuple(merges.cut(side, data.bpe_dropout, rng) for side in sides)])
    fitting = np.flatnonzero((cut.lengths <= data.max_length).all(axis=1))
    if not len(fitting):
        raise ValueError(
            "After BPE-dropout, all pairs are longer than data.max_length. Raise it, or lower data.bpe_dropout."
        )
    return cut, fitting


class StreamedCorpus:
    """Sources that are read and tokenised during training, a window at a time; each restarts when it ends.

    A source's share of each window follows its weight. Repetitions are kept.
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
                islice(self._forever(source), number * share, None)
                for source, share in zip(self.data.train, self.counts, strict=True)
            ]
        self._next = number + 1
        window = chain.from_iterable(
            islice(stream, share) for stream, share in zip(self._streams, self.counts, strict=True)
        )
        batches = list(tokenise(window, self.tokenizer, self.data, self.dropped))
        pairs = TokenisedPairs.from_tables([pa.Table.from_batches(batches)])
        if not len(pairs):
            raise ValueError(f"The filters dropped all pairs of a window. Dropped: {dict(self.dropped)}.")
        return pairs, np.arange(len(pairs))

    def describe(self) -> str:
        return f"windows of {sum(self.counts):,} pairs, read during training"

    def _forever(self, source: Source) -> Iterator[Pair]:
        """Yield the pairs of a source with their variations, over and over."""
        seed = f"{self.seed} {source.title} {source.tags}"
        for turn in count():
            pairs = iterate_pairs(source, self.folder, streaming=True)
            varied = with_variations(pairs, source, self.data, f"{seed} {turn}")
            first = next(varied, None)
            if first is None:
                raise ValueError(f"{source.title} has no pairs.")
            yield first
            yield from varied
