"""Measures of a head's attention weights, and a label for the head if one of them is clear."""

import math
from dataclasses import dataclass

import torch

from ..inspection.heads import Head
from ..inspection.inspection import Inspection
from ..inspection.token_text import START, Token


# The least mean share of the weight, on a position or a kind of token, that gives a head its label.
THRESHOLD = 0.5
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
    # Queries and keys come from two sentences, so it matters whether each query selects a single word.
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
    """A head, its measures, and a label if one of them is at least `THRESHOLD`.

    Measures, each a mean over the T queries:
        previous, next, same, first: The weight on the key at that position. In cross-attention the positions are
            those of two sentences; there these measures show how far the alignment is from word by word.
        end, punctuation, rare: The weight on the end token, on punctuation, on the rarest quarter of the words.
        peak: The largest weight on a single word.
        entropy: The entropy of the weights, in bits.
        reach: The weighted mean distance between query and key, in tokens.
    """

    head: Head
    label: str
    measures: dict[str, float]


def roles_of(inspection: Inspection, heads: list[Head]) -> list[Role]:
    """The role of each head in this translation."""
    return [role_of(inspection, head) for head in heads]


def role_of(inspection: Inspection, head: Head) -> Role:
    stack, kind, layer, index = head
    weights = inspection.tensors[f"{stack}.layers.{layer}.{kind}.weights"][index]  # [queries, keys]
    keys = inspection.source if stack == "encoder" or kind == "cross_attn" else inspection.target
    measures = measures_of(weights, keys)
    return Role(head, label_of(measures, LABELS[kind]), measures)


def measures_of(weights: torch.Tensor, keys: list[Token]) -> dict[str, float]:
    """The measures of the weights [T, S] on S keys, by name."""
    queries, size = weights.shape
    offsets = torch.arange(size) - torch.arange(queries)[:, None]  # [T, S]
    is_word_key = torch.tensor([is_word(token) for token in keys])

    def mean_at(offset: int) -> float:
        places = offsets == offset
        return weights[places].sum().item() / max(1, int(places.sum()))

    def mean_on(wanted: list[bool]) -> float:
        return weights[:, torch.tensor(wanted)].sum(dim=-1).mean().item()

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
    """The rarest quarter of the words; a higher id means that a token entered the vocabulary later and is rarer."""
    ids = sorted({token.id for token in tokens if is_word(token)})
    return set(ids[-max(1, len(ids) // RARE) :])


def is_word(token: Token) -> bool:
    return token.kind != "special" and not is_punctuation(token)


def is_punctuation(token: Token) -> bool:
    text = token.text.strip()
    return token.kind != "special" and bool(text) and not any(character.isalnum() for character in text)


def label_of(measures: dict[str, float], labels: dict[str, str]) -> str:
    """The label of the largest measure above the threshold, or ""."""
    clear = [name for name in labels if measures[name] >= THRESHOLD]
    return labels[max(clear, key=lambda name: measures[name])] if clear else ""
