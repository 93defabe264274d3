"""Measure the attention weights of each head, and label heads that clearly have one role."""

import math
from dataclasses import dataclass

import torch

from ..inspection.heads import Head
from ..inspection.inspection import Inspection
from ..inspection.token_text import START, Token


THRESHOLD = 0.5  # a measure below this one gives a head no label
LABELS = {
    "self_attn": {
        "previous": "previous token",
        "next": "next token",
        "same": "same token",
        "punctuation": "punctuation",
        "end": "end of the sentence",
        "rare": "rare words",
        "first": "first token",
    },
    # Positions of two sentences cannot be compared, but a query that selects a single word aligns the two.
    "cross_attn": {
        "peak": "alignment",
        "punctuation": "punctuation",
        "end": "end of the sentence",
        "rare": "rare words",
        "first": "first token",
    },
}
RARE = 4  # one word in 4 counts as rare


@dataclass(frozen=True)
class Role:
    """A head, its measures, and a label if one of them is at least `THRESHOLD`, otherwise "".

    Measures, each a mean over the T queries:
        previous, next, same, first: The weight on the key at that position. In cross-attention, queries and keys have
            positions in different sentences; there these measures show how far the alignment is from word for word.
        end, punctuation, rare: The weight on the end token, on punctuation, and on the rarest quarter of the words.
        peak: The largest weight on a single word.
        entropy: The entropy of the weights, in bits.
        reach: The weighted mean distance between query and key, in tokens.
    """

    head: Head
    label: str
    measures: dict[str, float]


def find_roles(inspection: Inspection, heads: list[Head]) -> list[Role]:
    """Return the role of each head in this translation."""
    return [find_role(inspection, head) for head in heads]


def find_role(inspection: Inspection, head: Head) -> Role:
    stack, kind, layer, index = head
    weights = inspection.tensors[f"{stack}.layers.{layer}.{kind}.weights"][index]  # [queries, keys]
    keys = inspection.source if stack == "encoder" or kind == "cross_attn" else inspection.target
    measures = measure(weights, keys)
    return Role(head, choose_label(measures, LABELS[kind]), measures)


def measure(weights: torch.Tensor, keys: list[Token]) -> dict[str, float]:
    """Return the measures of `Role` by name, for weights [T, S] on S keys."""
    queries, size = weights.shape
    offsets = torch.arange(size) - torch.arange(queries)[:, None]  # [T, S]
    is_word_key = torch.tensor([is_word(token) for token in keys])

    def mean_at(offset: int) -> float:
        mask = offsets == offset
        return weights[mask].sum().item() / max(1, int(mask.sum()))

    def mean_on(key_mask: list[bool]) -> float:
        return weights[:, torch.tensor(key_mask)].sum(dim=-1).mean().item()

    rare = rare_ids(keys)
    return {
        "previous": mean_at(-1),
        "next": mean_at(1),
        "same": mean_at(0),
        "first": weights[:, 0].mean().item(),
        "end": mean_on([token.kind == "special" and token.text != START for token in keys]),
        "punctuation": mean_on([is_punctuation(token) for token in keys]),
        "rare": mean_on([is_word(token) and token.id in rare for token in keys]),
        "peak": (weights * is_word_key).amax(dim=-1).mean().item(),
        "entropy": -torch.special.xlogy(weights, weights).sum(dim=-1).mean().item() / math.log(2),
        "reach": (weights * offsets.abs()).sum(dim=-1).mean().item(),
    }


def rare_ids(tokens: list[Token]) -> set[int]:
    """Return the ids of the rarest quarter of the words. The higher its id, the rarer a token was in training."""
    ids = sorted({token.id for token in tokens if is_word(token)})
    return set(ids[-max(1, len(ids) // RARE) :])


def is_word(token: Token) -> bool:
    return token.kind != "special" and not is_punctuation(token)


def is_punctuation(token: Token) -> bool:
    text = token.text.strip()
    return token.kind != "special" and bool(text) and not any(character.isalnum() for character in text)


def choose_label(measures: dict[str, float], labels: dict[str, str]) -> str:
    """Return the label of the largest measure that reaches the threshold, or ""."""
    clear = [name for name in labels if measures[name] >= THRESHOLD]
    return labels[max(clear, key=lambda name: measures[name])] if clear else ""
