"""How sure one can be of a translation: for each of its words, how likely it is right.

The model's own probability of a word says which of two words is the safer one, but not how safe: it is calibrated on
texts whose translations are known. `confidence` in generation_config.json holds what that gave, by
`python -m training.confidence`. A word counted as right there if the reference has it, too: of a good translation in
other words much is "wrong", so that confidences are lower bounds.

Shapes: B pairs, T target tokens, V vocabulary.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .spans_vaswani import Span, words


SUREST = 1e-5  # -log P of a word that cannot be surer
MOST_PAIRS = 32  # that go through the model at once


class Features(NamedTuple):
    """Of each word of a translation: where it is, its log-probability, and the mean of the sentence's tokens."""

    spans: list[Span]
    log_probs: torch.Tensor  # [words]
    of_sentence: float


class Calibration(NamedTuple):
    """P(right) = sigmoid(word * log odds of P(word) + sentence * mean log P of the sentence's tokens + bias)."""

    word: float
    sentence: float
    bias: float

    @classmethod
    def of(cls, model: PreTrainedModel) -> "Calibration":
        """That of the checkpoint's record.

        Raises:
            ValueError: it has none.
        """
        kept = getattr(model.generation_config, "confidence", None)
        try:
            return cls(**{name: float(value) for name, value in kept.items()})
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                "This checkpoint does not say how sure it is: generation_config.json has no usable `confidence`. "
                "`python -m training.confidence` measures it."
            ) from error

    def of_words(self, features: Features) -> torch.Tensor:
        """How likely each word is right, [words], from 0 to 1."""
        logits = self.word * log_odds(features.log_probs) + self.sentence * features.of_sentence + self.bias
        return torch.sigmoid(logits)


def log_odds(log_probs: torch.Tensor) -> torch.Tensor:
    """log P -> log (P / (1 - P)), within what float32 can tell from certainty."""
    log_probs = log_probs.clamp(max=-SUREST)
    return log_probs - torch.log(-torch.expm1(log_probs))


def confidences(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    calibration: Calibration | None = None,
) -> list[list[tuple[Span, float]]]:
    """For each pair of a source and its translation the translation's words, with how likely each is right.

    Raises:
        ValueError: the checkpoint has no calibration, or its tokenizer does not say where in a text its tokens are.
    """
    calibration = calibration or Calibration.of(model)
    found = features_of(model, tokenizer, pairs)
    return [list(zip(of.spans, calibration.of_words(of).tolist(), strict=True)) for of in found]


def mean_confidence(of_words: Sequence[tuple[Span, float]]) -> float:
    """The share of words that one may expect to be right: 0 for a translation without any."""
    return sum(value for _, value in of_words) / max(1, len(of_words))


def features_of(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[tuple[str, str]]
) -> list[Features]:
    if not tokenizer.is_fast:
        raise ValueError("Confidence needs a tokenizer that gives `return_offsets_mapping`: one of a tokenizer.json.")
    found: list[Features | None] = [None] * len(pairs)
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
    for start in range(0, len(order), MOST_PAIRS):
        some = order[start : start + MOST_PAIRS]
        sources, targets = zip(*(pairs[i] for i in some), strict=True)
        plain = {"padding": True, "return_tensors": "pt", "verbose": False}
        source = tokenizer(list(sources), **plain)
        target = tokenizer(text_target=list(targets), return_offsets_mapping=True, **plain)
        log_probs = token_log_probs(model, source, target).cpu()
        for row, i in enumerate(some):
            length = int(target["attention_mask"][row].sum())
            found[i] = by_word(targets[row], target["offset_mapping"][row, :length].tolist(), log_probs[row, :length])
    return [features for features in found if features is not None]


def by_word(text: str, offsets: list[list[int]], log_probs: torch.Tensor) -> Features:
    """Token log-probabilities [T] -> those of words: a word's is the sum of its tokens'."""
    spans = words(text)
    parts = torch.tensor([[float(a < end and b > begin and a < b) for a, b in offsets] for begin, end in spans])
    of_words = parts @ log_probs if spans else log_probs.new_zeros(0)
    return Features(spans, of_words, float(log_probs.mean()) if len(log_probs) else 0.0)


@torch.no_grad()
def token_log_probs(model: PreTrainedModel, source: dict, target: dict) -> torch.Tensor:
    """log P of each token of the target, teacher-forced: [B, T], in float32; padding has any."""
    device, ids = model.device, target["input_ids"].to(model.device)
    start = torch.full_like(ids[:, :1], model.config.decoder_start_token_id)
    logits = model(
        input_ids=source["input_ids"].to(device),
        attention_mask=source["attention_mask"].to(device),
        decoder_input_ids=torch.cat([start, ids[:, :-1]], dim=1),
        use_cache=False,
    ).logits
    return logits.float().log_softmax(dim=-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)
