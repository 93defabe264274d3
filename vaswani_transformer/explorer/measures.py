"""What a head does, by measures of its attention weights; a label only where a measure is clear."""

from dataclasses import dataclass

import torch

from ..inspection import Head, Inspection, Token


# The mean weight that a head must give, and the label that it then has. The first that holds counts.
THRESHOLD = 0.5
LABELS = {
    "previous": "previous token",
    "next": "next token",
    "same": "same token",
    "end": "end of the sentence",
    "punctuation": "punctuation",
    "first": "first token",
    "rare": "rare words",
}


@dataclass(frozen=True)
class Role:
    """A head, its measures, and a label where one of them is at least `THRESHOLD`.

    previous, next, same, first: The mean weight that a query gives to the key at that place. In cross-attention a
        query's own place is that of its target token, so that they say how monotonic the alignment is.
    end, punctuation, rare: The mean weight on end tokens, on punctuation, and on the rarer half of the words.
    entropy: Of the weights, in bits, mean over queries. reach: Mean distance between query and key, by weight.
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
    return Role(head, label_of(measures), measures)


def measures_of(weights: torch.Tensor, keys: list[Token]) -> dict[str, float]:
    """weights [T, S], the S tokens that they are on -> measures by name."""
    queries, size = weights.shape
    offsets = torch.arange(size) - torch.arange(queries)[:, None]  # [T, S]

    def mean_at(offset: int) -> float:
        there = offsets == offset
        return weights[there].sum().item() / max(1, int(there.sum()))

    def mean_on(wanted: list[bool]) -> float:
        return weights[:, torch.tensor(wanted)].sum(dim=-1).mean().item()

    words = sorted(token.id for token in keys if token.kind != "special" and not is_punctuation(token))
    middle = words[len(words) // 2] if words else 0  # ids of a learned vocabulary follow frequency
    entropy = -(weights * weights.clamp_min(1e-30).log2()).sum(dim=-1).mean().item()
    return {
        "previous": mean_at(-1),
        "next": mean_at(1),
        "same": mean_at(0),
        "first": weights[:, 0].mean().item(),
        "end": mean_on([token.kind == "special" for token in keys]),
        "punctuation": mean_on([is_punctuation(token) for token in keys]),
        "rare": mean_on([t.kind != "special" and not is_punctuation(t) and t.id > middle for t in keys]),
        "entropy": entropy,
        "reach": (weights * offsets.abs()).sum(dim=-1).mean().item(),
    }


def is_punctuation(token: Token) -> bool:
    text = token.text.strip()
    return token.kind != "special" and bool(text) and not any(character.isalnum() for character in text)


def label_of(measures: dict[str, float]) -> str:
    clear = [name for name in LABELS if measures[name] >= THRESHOLD]
    return LABELS[max(clear, key=lambda name: measures[name])] if clear else ""
