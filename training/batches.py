"""Batches with a token budget, planned alike on every process (section 5.1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from .data import TokenisedPairs


class Place(NamedTuple):
    """Where a run stands: `step` updates are done, and `batch` batches of `epoch` are used."""

    step: int = 0
    epoch: int = 0
    batch: int = 0


@dataclass
class Batch:
    """What one update learns from."""

    step: int  # counted from 1
    epoch: int
    number: int  # in its epoch, from 1
    pairs: TokenisedPairs  # of the whole epoch
    indices: np.ndarray  # those of this batch
    parts: list[dict[str, torch.Tensor]]  # what this process computes of it, in micro-batches
    tokens: int  # target tokens of the whole batch, over all processes

    @property
    def place_after(self) -> Place:
        return Place(self.step, self.epoch, self.number)


def plan_batches(lengths: np.ndarray, taken: np.ndarray, batch_tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
    """One epoch as batches of indices: `lengths` [N, 2] of source and target, `taken` the pairs to be in it.

    Pairs of like lengths go together; a batch holds at most `batch_tokens`, counted as the authors' code did:
    sentences x the longest side, padding included. Batches and the pairs in them change with the epoch.
    """
    rng = np.random.default_rng((seed, epoch))
    order = taken[rng.permutation(len(taken))]
    longest = lengths[order].max(axis=1)
    # Within a length by the difference of the sides, to and fro, so that neighbours are alike where the length changes.
    difference = (lengths[order, 1] - lengths[order, 0]) * (1 - 2 * (longest % 2))
    by_length = np.lexsort((difference, longest))
    order, longest = order[by_length], longest[by_length]
    batches, start = [], 0
    while start < len(order):
        # The longest side only grows, so the last pair that fits lies before this many.
        reach = longest[start : start + max(1, batch_tokens // longest[start])]
        fits = reach * np.arange(1, len(reach) + 1) <= batch_tokens
        end = start + max(1, int(fits.sum()))
        batches.append(order[start:end])
        start = end
    return [batches[i] for i in rng.permutation(len(batches))]


def padding(lengths: np.ndarray, plan: Sequence[np.ndarray]) -> float:
    """The share of all positions, on both sides, that a plan fills with padding."""
    padded = sum(int(lengths[batch].max(axis=0).sum()) * len(batch) for batch in plan)
    return 1 - sum(int(lengths[batch].sum()) for batch in plan) / max(padded, 1)


def share(indices: np.ndarray, parts: int) -> Iterator[np.ndarray]:
    """A batch as `parts` parts of like size (some may be empty), for processes and micro-batches."""
    yield from np.array_split(indices, parts)


def collate(pairs: TokenisedPairs, indices: Sequence[int], pad_token_id: int) -> dict[str, torch.Tensor]:
    """input_ids and attention_mask [B, S], labels [B, T] with -100 for padding."""
    examples = [pairs[i] for i in indices]
    sources = pad([source for source, _ in examples], pad_token_id)
    return {
        "input_ids": sources,
        "attention_mask": sources.ne(pad_token_id).long(),
        "labels": pad([target for _, target in examples], -100),
    }


def pad(rows: Sequence[np.ndarray], value: int) -> torch.Tensor:
    padded = np.full((len(rows), max(map(len, rows), default=0)), value, dtype=np.int64)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[: len(row)] = row
    return torch.from_numpy(padded)


class Shares(torch.utils.data.Dataset):
    """What one process computes of each batch of a plan: its micro-batches, collated, and the batch's target tokens."""

    def __init__(
        self,
        pairs: TokenisedPairs,
        plan: Sequence[np.ndarray],
        pad_token_id: int,
        micro_batches: int,
        rank: int,
        ranks: int,
    ):
        self.pairs, self.plan, self.pad_token_id = pairs, plan, pad_token_id
        self.micro_batches, self.rank, self.ranks = micro_batches, rank, ranks

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, number: int) -> tuple[list[dict[str, torch.Tensor]], int]:
        batch = self.plan[number]
        mine = list(share(batch, self.ranks * self.micro_batches))[self.rank :: self.ranks]
        # Every process takes part in every step, where nothing is left for it with a pair that has no labels.
        parts = [collate(self.pairs, part if len(part) else batch[:1], self.pad_token_id) for part in mine]
        for part, indices in zip(parts, mine, strict=True):
            if not len(indices):
                part["labels"].fill_(-100)
        return parts, int(self.pairs.lengths[batch, 1].sum())

    def loader(self, start: int, workers: int, pin_memory: bool) -> torch.utils.data.DataLoader:
        """The batches from `start` on, in order."""
        return torch.utils.data.DataLoader(
            self,
            batch_size=None,
            sampler=range(start, len(self)),
            num_workers=workers,
            pin_memory=pin_memory,
            generator=torch.Generator(),  # else each loader would draw from the numbers that dropout is to have
        )
