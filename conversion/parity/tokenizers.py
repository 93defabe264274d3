"""Compares a converted tokenizer with transformers' tokenizer on random texts."""

import random
from collections.abc import Callable, Sequence

from transformers import PreTrainedTokenizerBase


def tokenizer_differences(
    ours: PreTrainedTokenizerBase,
    original: PreTrainedTokenizerBase,
    pieces: Sequence[str],
    targets: Sequence[str],
    spelling: Callable[[str], str],
    texts: int = 300,
) -> list[str]:
    """Describes the differences of two tokenizers, one sentence for each kind.

    Texts to encode consist of `pieces` of the source vocabulary in their `spelling`; ids to decode are of `targets`.
    """
    draw = random.Random(0)
    special = {*original.all_special_tokens, *(piece for piece in (*pieces, *targets) if piece.startswith(">>"))}
    ordinary = [piece for piece in pieces if piece not in special]
    ids = [i for i, piece in enumerate(targets) if piece not in special and not piece.startswith("<unused ")]
    sources = ["".join(map(spelling, draw.choices(ordinary, k=12))) for _ in range(texts)]
    outputs = [draw.choices(ids, k=12) for _ in range(texts)]
    differences = []
    if wrong := [text for text in sources if not same_pieces(ours(text).input_ids, original(text).input_ids)]:
        differences.append(f"{len(wrong)} of {texts} random texts are encoded differently, such as {wrong[0]!r}.")
    if wrong := [row for row in outputs if ours.decode(row) != original.decode(row)]:
        differences.append(
            f"{len(wrong)} of {texts} random translations are decoded differently, such as {ours.decode(wrong[0])!r} "
            f"instead of {original.decode(wrong[0])!r}."
        )
    return differences


def same_pieces(ours: list[int], original: list[int]) -> bool:
    """Ignores the order: rounding decides between equally likely segmentations, which `sentencepiece` reports."""
    return sorted(ours) == sorted(original)
