"""Confidence: how likely each word of a translation is to be right.

The model's own probability of a word tells which of two words is the safer one, but not how safe it is. It is therefore
calibrated on texts with known translations, by `vaswani calibrate`; the result is `confidence` in
generation_config.json. In that measurement a word counts as right if the reference has it as well. A good paraphrase
counts as wrong, so confidences are estimates. A checkpoint without a calibration of its own gets `DEFAULT_CALIBRATION`.

Shapes: B pairs, T target tokens.
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .forced_vaswani import Pair, PairBatch, check_offsets, forced_log_probs, map_pairs, word_mask
from .spans_vaswani import Span, words


MIN_SURPRISAL = 1e-5  # -log P of the most certain word, so that its log odds are finite in float32
WordConfidence = tuple[Span, float]  # where a word is, and how likely it is right


class Features(NamedTuple):
    """Where the words of a translation are, and what the model says of their probability.

    A word's log-probability is the sum of its tokens'; `mean_log_prob` is the mean of all tokens of the translation.
    """

    spans: list[Span]
    log_probs: torch.Tensor  # [words]
    mean_log_prob: float


class Calibration(NamedTuple):
    """The weights in P(right) = sigmoid(word * log odds of P(word) + sentence * mean_log_prob + bias)."""

    word: float
    sentence: float
    bias: float

    @classmethod
    def from_model(cls, model: PreTrainedModel) -> "Calibration":
        """Return the calibration in the checkpoint's generation_config.json, or without one the default.

        Raises:
            ValueError: it is invalid.
        """
        if not is_calibrated(model):
            return DEFAULT_CALIBRATION
        entry = model.generation_config.confidence
        try:
            return cls(**{name: float(value) for name, value in entry.items()})
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"Invalid `confidence` in generation_config.json: {entry!r}. It needs the numbers "
                f"{', '.join(cls._fields)}. `vaswani calibrate CHECKPOINT FILE` fits them to your translations."
            ) from error

    def probabilities(self, features: Features) -> torch.Tensor:
        """Return how likely each word is right, from 0 to 1: [words]."""
        logits = self.word * log_odds(features.log_probs) + self.sentence * features.mean_log_prob + self.bias
        return torch.sigmoid(logits)


# The mean of the included checkpoints' own calibrations (model_cards/*/confidence.json).
DEFAULT_CALIBRATION = Calibration(word=0.5584, sentence=0.7223, bias=0.5312)


def is_calibrated(model: PreTrainedModel) -> bool:
    """Return whether the checkpoint has a calibration of its own."""
    return getattr(model.generation_config, "confidence", None) is not None


def log_odds(log_probs: torch.Tensor) -> torch.Tensor:
    """Return log (P / (1 - P)) for log P, which is limited to -MIN_SURPRISAL."""
    log_probs = log_probs.clamp(max=-MIN_SURPRISAL)
    return log_probs - torch.log(-torch.expm1(log_probs))


def confidences(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[Pair],
    calibration: Calibration | None = None,
) -> list[list[WordConfidence]]:
    """Return the words of each translation and how likely each is right.

    Args:
        model: The model.
        tokenizer: Its tokenizer, a fast one.
        pairs: Sources and their translations.
        calibration: By default that of the checkpoint, or `DEFAULT_CALIBRATION`.

    Raises:
        ValueError: the checkpoint's calibration is invalid, or the tokenizer is a slow one.
    """
    calibration = calibration or Calibration.from_model(model)
    return [
        list(zip(features.spans, calibration.probabilities(features).tolist(), strict=True))
        for features in word_features(model, tokenizer, pairs)
    ]


def mean_confidence(word_confidences: Sequence[WordConfidence]) -> float:
    """Return the expected share of correct words; 0 for a translation without words."""
    return sum(value for _, value in word_confidences) / max(1, len(word_confidences))


def least_certain_word(text: str, word_confidences: Sequence[WordConfidence]) -> WordConfidence:
    """Return the word of a translation that is least likely to be right; punctuation marks do not count.

    A translation without words gives an empty word with confidence 1.
    """
    is_word = [any(character.isalnum() for character in text[slice(*span)]) for span, _ in word_confidences]
    return min(compress(word_confidences, is_word), key=lambda word: word[1], default=((0, 0), 1.0))


def low_confidence_warnings(
    record: Mapping[str, Any], min_confidence: float | None, min_word_confidence: float | None
) -> list[str]:
    """Return warnings if a record's confidence, or that of one of its words, is below its limit."""
    warnings = []
    if min_confidence is not None and record["confidence"] < min_confidence:
        warnings.append(f"confidence {record['confidence']:.2f}")
    if min_word_confidence is not None and record["lowest_word_confidence"] < min_word_confidence:
        text = record["translation_text"]
        span, confidence = least_certain_word(text, record["word_confidences"])
        warnings.append(f'"{text[slice(*span)]}" has confidence {confidence:.2f}')
    return warnings


def word_features(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair]) -> list[Features]:
    """Return the features of each translation.

    Raises:
        ValueError: the tokenizer is a slow one.
    """
    check_offsets(tokenizer)

    def features(batch: PairBatch) -> list[Features]:
        log_probs = forced_log_probs(model, batch.inputs, batch.target_ids).cpu()  # [B, T]
        rows = zip(batch.pairs, batch.target_offsets, log_probs, strict=True)
        return [features_of_words(target, offsets, row[: len(offsets)]) for (_, target), offsets, row in rows]

    return map_pairs(features, model, tokenizer, pairs)


def features_of_words(text: str, offsets: Sequence[Span], log_probs: torch.Tensor) -> Features:
    """Sum up token log-probabilities [T] by words."""
    spans = words(text)
    mean_log_prob = float(log_probs.mean()) if len(log_probs) else 0.0
    return Features(spans, word_mask(offsets, spans) @ log_probs, mean_log_prob)
