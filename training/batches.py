"""Batches with a token budget, planned identically on every process (section 5.1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from .data import TokenisedPairs


class Progress(NamedTuple):
    """How far a run has come: `step` updates, of which the last `batch` were in `epoch`."""

    step: int = 0
    epoch: int = 0
    batch: int = 0


@dataclass
class Batch:
    """The pairs of one update."""

    step: int  # counted from 1
    epoch: int
    number: int  # within the epoch, from 1
    pairs: TokenisedPairs  # of the whole epoch
    indices: np.ndarray  # of the pairs in this batch
    parts: list[dict[str, torch.Tensor]]  # the micro-batches of this process
    tokens: int  # target tokens of the whole batch, over all processes

    @property
    def progress_after(self) -> Progress:
        return Progress(self.step, self.epoch, self.number)


def plan_batches(lengths: np.ndarray, taken: np.ndarray, batch_tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Plan one epoch as batches of indices.

    Pairs of similar length share a batch. A batch has at most `batch_tokens`, counted as in the authors' code: number
    of pairs x the longest side, padding included. Every epoch gets other batches.

    Args:
        lengths: Tokens of source and target, [N, 2].
        taken: Indices of the pairs to use.
    """
    rng = np.random.default_rng((seed, epoch))
    order = taken[rng.permutation(len(taken))]
    longest = lengths[order].max(axis=1)
    # Within a length, sort by the difference of the sides, alternately up and down, so that pairs remain similar where
    # one length ends and the next begins.
    difference = (lengths[order, 1] - lengths[order, 0]) * (1 - 2 * (longest % 2))
    by_length = np.lexsort((difference, longest))
    order, longest = order[by_length], longest[by_length]
    batches, start = [], 0
    while start < len(order):
        # Lengths only grow from here on, so at most this many pairs fit.
        reach = longest[start : start + max(1, batch_tokens // longest[start])]
        fits = reach * np.arange(1, len(reach) + 1) <= batch_tokens
        end = start + max(1, int(fits.sum()))
        batches.append(order[start:end])
        start = end
    return [batches[i] for i in rng.permutation(len(batches))]


def padding(lengths: np.ndarray, plan: Sequence[np.ndarray]) -> float:
    """Return the share of padding among all positions of a plan, on both sides."""
    padded = sum(int(lengths[batch].max(axis=0).sum()) * len(batch) for batch in plan)
    return 1 - sum(int(lengths[batch].sum()) for batch in plan) / max(padded, 1)


def share(indices: np.ndarray, parts: int) -> Iterator[np.ndarray]:
    """Split a batch into `parts` of similar size, some possibly empty, for processes and micro-batches."""
    yield from np.array_split(indices, parts)


def collate(pairs: TokenisedPairs, indices: Sequence[int], pad_token_id: int) -> dict[str, torch.Tensor]:
    """Return input_ids and attention_mask [B, S], and labels [B, T] with -100 for padding."""
    examples = [pairs[i] for i in indices]
    sources = pad([source for source, _ in examples], pad_token_id)
    return {
        "input_ids": sources,
        "attention_mask": sources.ne(pad_token_id).long(),
        "labels": pad([target for _, target in examples], -100),
    }


def pad(rows: Sequence[np.ndarray], value: int) -> torch.Tensor:
    """Return rows of different length as one matrix, filled up with `value`."""
    padded = np.full((len(rows), max(map(len, rows), default=0)), value, dtype=np.int64)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[: len(row)] = row
    return torch.from_numpy(padded)


class Shares(torch.utils.data.Dataset):
    """One process's share of each batch of a plan: its micro-batches, and the target tokens of the whole batch."""

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
        shares = list(share(batch, self.ranks * self.micro_batches))[self.rank :: self.ranks]
        # Every process takes part in every step. If a share is empty, it computes a pair without labels.
        parts = [collate(self.pairs, indices if len(indices) else batch[:1], self.pad_token_id) for indices in shares]
        for part, indices in zip(parts, shares, strict=True):
            if not len(indices):
                part["labels"].fill_(-100)
        return parts, int(self.pairs.lengths[batch, 1].sum())

    def loader(self, start: int, workers: int, pin_memory: bool) -> torch.utils.data.DataLoader:
        """Return a loader of the batches from `start` on, in order."""
        return torch.utils.data.DataLoader(
            self,
            batch_size=None,
            sampler=range(start, len(self)),
            num_workers=workers,
            pin_memory=pin_memory,
            generator=torch.Generator(),  # otherwise each loader would advance the generator that dropout uses
        )
