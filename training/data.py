"""Parallel text: reading, setting apart, tokenising, and batches with a token budget (section 5.1)."""

import gzip
import lzma
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from .recipe import Data, Source


Pair = tuple[str, str]


def read_pairs(source: Source, folder: str | Path) -> list[Pair]:
    """The pairs of a parallel file, in its order.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line has too few columns, or the file is not UTF-8; the message names file and line.
    """
    path = Path(folder) / source.path
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    pairs = []
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                columns = line.rstrip("\n").split("\t")
                if len(columns) <= max(source.source_column, source.target_column, source.tag_column or 0):
                    raise ValueError(f"{path}, line {number}: only {len(columns)} columns.")
                if not source.tags or columns[source.tag_column] in source.tags:
                    pairs.append((columns[source.source_column], columns[source.target_column]))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}") from error
    return pairs


def hold_out(pairs: Sequence[Pair], count: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """(`count` pairs drawn by `seed`, no source twice; all pairs that share neither side with any of them)."""
    held_out: dict[str, str] = {}
    for index in np.random.default_rng(seed).permutation(len(pairs)):
        if len(held_out) == count:
            break
        held_out.setdefault(*pairs[index])
    targets = set(held_out.values())
    return list(held_out.items()), [p for p in pairs if p[0] not in held_out and p[1] not in targets]


def join_pairs(pairs: Sequence[Pair], count: int, seed: int) -> list[Pair]:
    """`count` pairs of two sentences each, drawn by `seed`."""
    firsts, seconds = np.random.default_rng(seed).integers(len(pairs), size=(2, count))
    return [
        (f"{pairs[i][0]} {pairs[j][0]}", f"{pairs[i][1]} {pairs[j][1]}") for i, j in zip(firsts, seconds, strict=True)
    ]


def load_split(data: Data, folder: str | Path, seed: int) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """(training pairs without exact repetitions, validation pairs, held-out pairs) of a recipe."""
    parts, held_out = [], []
    for source in data.train:
        pairs = read_pairs(source, folder)
        if source.held_out:
            apart, pairs = hold_out(pairs, source.held_out, seed)
            held_out += apart
        parts += pairs
    # What was set apart from one source must not come in through another.
    sources, targets = {s for s, _ in held_out}, {t for _, t in held_out}
    training = list(dict.fromkeys(p for p in parts if p[0] not in sources and p[1] not in targets))
    training += join_pairs(training, round(data.joined * len(training)), seed)
    return training, [p for source in data.validation for p in read_pairs(source, folder)], held_out


@dataclass
class TokenisedPairs:
    """Token ids of every pair, each side ending in </s>."""

    sources: list[np.ndarray]
    targets: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.sources)


def tokenise(
    pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, data: Data
) -> tuple[TokenisedPairs, Counter[str]]:
    """Token ids of the pairs that pass the filters, and how many were dropped for which reason."""
    encode = tokenizer.backend_tokenizer.encode_batch_fast
    sides = [[np.array(e.ids, dtype=np.int32) for e in encode([p[i] for p in pairs])] for i in (0, 1)]
    kept, dropped = TokenisedPairs([], []), Counter()
    for source, target in zip(*sides, strict=True):
        short, long = sorted((len(source), len(target)))
        if short < 2:
            dropped["empty"] += 1
        elif long > data.max_length:
            dropped["longer than max_length"] += 1
        elif long > 10 and long > data.max_ratio * short:
            dropped["beyond max_ratio"] += 1
        else:
            kept.sources.append(source)
            kept.targets.append(target)
    return kept, dropped


def plan_batches(pairs: TokenisedPairs, batch_tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
    """One epoch as batches of indices, the same on every process.

    Pairs of like lengths go together; a batch holds at most `batch_tokens`, counted as the authors' code did:
    sentences x the longest side, padding included. Batches and the pairs in them change with the epoch.
    """
    rng = np.random.default_rng((seed, epoch))
    lengths = np.array([[len(s), len(t)] for s, t in zip(pairs.sources, pairs.targets, strict=True)])
    longest = lengths.max(axis=1)
    order = rng.permutation(len(pairs))
    order = order[np.lexsort((lengths[order, 0], lengths[order, 1], longest[order]))]
    batches, start = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or longest[order[end]] * (end + 1 - start) > batch_tokens:
            batches.append(order[start:end])
            start = end
    return [batches[i] for i in rng.permutation(len(batches))]


def collate(pairs: TokenisedPairs, indices: Sequence[int], pad_token_id: int) -> dict[str, torch.Tensor]:
    """input_ids and attention_mask [B, S], labels [B, T] with -100 for padding."""
    sources = pad([pairs.sources[i] for i in indices], pad_token_id)
    return {
        "input_ids": sources,
        "attention_mask": sources.ne(pad_token_id).long(),
        "labels": pad([pairs.targets[i] for i in indices], -100),
    }


def pad(rows: Sequence[np.ndarray], value: int) -> torch.Tensor:
    padded = np.full((len(rows), max(map(len, rows), default=0)), value, dtype=np.int64)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[: len(row)] = row
    return torch.from_numpy(padded)


def share(indices: np.ndarray, parts: int) -> Iterator[np.ndarray]:
    """A batch as `parts` parts of like size (some may be empty), for processes and micro-batches."""
    yield from np.array_split(indices, parts)
