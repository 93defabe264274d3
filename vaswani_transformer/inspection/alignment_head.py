"""Choosing the head that aligns words, without sentences aligned by hand.

Translations copy some words: numbers, names, codes, punctuation marks. A word that is once in a source and once in its
translation is an anchor: its alignment is known. The model translates bundled lines with many such words, and reads its
own translations again. The head whose largest weight is on the source anchor most often aligns words best.

Shapes: B pairs, S source tokens, T target tokens, H heads.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..model.alignment_vaswani import WHEN, AlignmentHead, Link, word_weights
from ..model.forced_vaswani import Pair, PairBatch, check_offsets, map_pairs
from ..model.pipeline_translation import translate_texts
from ..model.spans_vaswani import words


LINES = Path(__file__).with_name("anchor_lines.tsv")  # LANGUAGE <tab> SENTENCE; the same sentences in each language
MAX_LANGUAGES = 2  # for a model of unknown languages
MAX_TOKENS = 100  # in a translation
# A choice needs evidence, and a head that finds fewer anchors than this does not align words.
MIN_ANCHORS, MIN_SHARE = 12, 0.5


class HeadScore(NamedTuple):
    """How well a head finds anchors."""

    share: float  # of the anchors whose largest weight is on the source anchor
    weight: float  # on the source anchor, mean of all anchors
    anchors: int


class HeadChoice(NamedTuple):
    """The head that aligns words best, and its score."""

    head: AlignmentHead
    score: HeadScore

    def __str__(self) -> str:
        layer, head, when = self.head
        step = "the step that predicts a word" if when == "produced" else "the step that reads a word"
        return (
            f"layer {layer + 1}, head {head + 1}, at {step}; it finds {self.score.share:.0%} of {self.score.anchors} "
            "copied names, numbers and marks in the source."
        )


def choose_alignment_head(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source_language: str | None = None,
    pairs: Sequence[Pair] = (),
) -> HeadChoice:
    """Returns the head that aligns words best, judged by anchors.

    Args:
        model: The model, on any device.
        tokenizer: Its tokenizer, a fast one.
        source_language: The code of the language that it translates from, such as "en"; otherwise, the bundled lines of
            the languages that its tokenizer writes with the fewest tokens are used.
        pairs: Sources and translations to use instead of the bundled lines and the model's translations of them.

    Raises:
        ValueError: there are too few anchors, no head finds most of them, or the tokenizer is a slow one.
    """
    check_offsets(tokenizer)
    if not pairs:
        lines = bundled_lines(tokenizer, source_language)
        # Greedy search: any fluent translation will do.
        translations = translate_texts(model, tokenizer, lines, num_beams=1, max_length=MAX_TOKENS)
        pairs = list(zip(lines, translations, strict=True))
    number = sum(len(anchors(*pair)) for pair in pairs)
    if number < MIN_ANCHORS:
        raise ValueError(
            f"Its translations copy only {number} of the names, numbers and marks by which heads are compared; at "
            f"least {MIN_ANCHORS} are needed."
        )
    head, score = max(score_heads(model, tokenizer, pairs).items(), key=rank)
    if score.share < MIN_SHARE:
        raise ValueError(
            f"The best head finds only {score.share:.0%} of {number} copied names, numbers and marks in the source; at "
            f"least {MIN_SHARE:.0%} are needed."
        )
    return HeadChoice(head, score)


def rank(item: tuple[AlignmentHead, HeadScore]) -> tuple[float, bool, float]:
    """Returns the sort key of a head: the highest is the best.

    Several heads may find all anchors. Of these, one at the step that reads the word aligns the other words better
    (Chen et al. 2020, arXiv 2004.14837).
    """
    head, score = item
    return score.share, head.when == "read", score.weight


# Lines ---------------------------------------------------------------------------------------------------------------


@cache
def lines_by_language() -> dict[str, list[str]]:
    """Returns the bundled lines of each language."""
    lines: dict[str, list[str]] = defaultdict(list)
    for line in LINES.read_text(encoding="utf-8").splitlines():
        language, _, text = line.partition("\t")
        lines[language].append(text)
    return dict(lines)


def bundled_lines(tokenizer: PreTrainedTokenizerBase, language: str | None) -> list[str]:
    """Returns the lines of a language, or of those that the tokenizer seems to be for."""
    lines = lines_by_language()
    if language in lines:
        return lines[language]
    # The lines of all languages say the same, so their numbers of tokens can be compared.
    closest = sorted(lines, key=lambda code: sum(token_count(tokenizer, line) for line in lines[code]))
    return [line for code in closest[:MAX_LANGUAGES] for line in lines[code]]


def token_count(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    """Returns the number of tokens of a text. An unknown token counts as many as it has characters."""
    encoded = tokenizer(text, return_offsets_mapping=True, verbose=False)
    tokens = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
    return sum(end - begin if i == tokenizer.unk_token_id else 1 for i, (begin, end) in tokens)


# Anchors -------------------------------------------------------------------------------------------------------------


def anchors(source: str, target: str) -> list[Link]:
    """Returns the links of words that are once in both texts, written alike."""
    places = [unique_places(text) for text in (source, target)]
    return [(places[0][word], j) for word, j in places[1].items() if word in places[0]]


def unique_places(text: str) -> dict[str, int]:
    """Returns the number of each word that occurs only once."""
    parts = [text[begin:end] for begin, end in words(text)]
    counts = Counter(parts)
    return {word: i for i, word in enumerate(parts) if counts[word] == 1}


# Heads ---------------------------------------------------------------------------------------------------------------


def score_heads(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair]
) -> dict[AlignmentHead, HeadScore]:
    """Returns how well each head finds the anchors of the pairs; nothing if there are none."""
    pairs = [pair for pair in pairs if anchors(*pair)]
    implementation = model.config._attn_implementation
    model.set_attn_implementation("eager")  # the others return no weights
    try:
        tables = map_pairs(lambda batch: anchor_weights(model, batch), model, tokenizer, pairs)
    finally:
        model.set_attn_implementation(implementation)
    return {head: score(torch.cat([table[head] for table in tables], dim=1)) for head in (tables[0] if tables else ())}


def score(weights: torch.Tensor) -> HeadScore:
    """Returns the score of a head, of [2, anchors]: whether it finds each anchor, and its weight on it."""
    share, weight = weights.mean(dim=1).tolist()
    return HeadScore(share, weight, weights.shape[1])


@torch.no_grad()
def anchor_weights(model: PreTrainedModel, batch: PairBatch) -> Iterator[dict[AlignmentHead, torch.Tensor]]:
    """Yields for each pair of a batch what `score` needs of each head: [2, anchors of the pair]."""
    outputs = model(**batch.inputs, decoder_input_ids=batch.target_ids, output_attentions=True, use_cache=False)
    layers = [weights.float().cpu() for weights in outputs.cross_attentions]  # each [B, H, 1 + T, S]
    for row, pair in enumerate(batch.pairs):
        source, target = torch.tensor(anchors(*pair)).T
        table = {}
        for layer, weights in enumerate(layers):
            for when, first in WHEN.items():
                by_word = word_weights(batch, row, weights[row, :, first:])  # [H, target words, source words]
                total = by_word.sum(dim=-1).clamp(min=torch.finfo().tiny)  # a word's tokens
                is_hit = by_word.argmax(dim=-1)[:, target] == source
                share = by_word[:, target, source] / total[:, target]
                for head, values in enumerate(torch.stack([is_hit.float(), share], dim=1)):
                    table[AlignmentHead(layer, head, when)] = values
        yield table
