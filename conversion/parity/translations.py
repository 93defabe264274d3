"""Compares translations, and explains why those of equal models differ."""

import copy
from collections import Counter
from collections.abc import Mapping
from typing import Literal

import torch
from transformers import GenerationConfig

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.model.forced_vaswani import forced_logits
from vaswani_transformer.model.generation_vaswani import length_penalty


ROUNDING = 1e-4  # scores or ranks that differ by less may change places by rounding
Verdict = Literal["same", "better", "at limit", "rounding", "different"]


class Verdicts(Counter[Verdict]):
    """How many translations got each verdict, and the scores of those that are different."""

    def __init__(self):
        super().__init__()
        self.different: list[str] = []

    def __iadd__(self, more: "Verdicts") -> "Verdicts":
        self.update(more)
        self.different += more.different
        return self

    def add(self, model, source, ours, original, config):
        """Counts our translation of one source, with the arguments of `judge`."""
        verdict = judge(model, source, ours, original, config)
        self[verdict] += 1
        if verdict == "different":
            scores = ranks(model, source, ours, original, config)
            self.different.append("{:.4f} here, {:.4f} there".format(*scores))


def judge(
    model: VaswaniForConditionalGeneration,
    source: Mapping[str, torch.Tensor],
    ours: list[int],
    original: list[int],
    config: GenerationConfig,
) -> Verdict:
    """Judges our translation of one source against the original's.

    `ours` and `original` are ids without the start token; the original may lack the end token. `config` is the search.
    """
    if without_end(ours, model) == without_end(original, model):
        return "same"
    beams = config.num_beams > 1
    if beams and outranks(model, source, ours, original, config):
        return "better"
    # Search again, forced to end at the original's length: did a length limit make the difference?
    if without_end(stopped(model, source, original, config), model) == without_end(original, model):
        return "at limit"
    if beams and outranks(model, source, ours, original, config, ROUNDING):
        return "rounding"
    return "rounding" if not beams and is_tie(model, source, ours, original) else "different"


def outranks(
    model: VaswaniForConditionalGeneration,
    source: Mapping[str, torch.Tensor],
    ours: list[int],
    original: list[int],
    config: GenerationConfig,
    margin: float = 0.0,
) -> bool:
    """Whether `ours` ranks at least as high as `original`, up to `margin`."""
    rank, original_rank = ranks(model, source, ours, original, config)
    return rank >= original_rank - margin


def ranks(
    model: VaswaniForConditionalGeneration,
    source: Mapping[str, torch.Tensor],
    ours: list[int],
    original: list[int],
    config: GenerationConfig,
) -> tuple[float, float]:
    """The scores of both translations by our model: log P, divided by the length penalty of `config`."""
    end = model.config.eos_token_id

    def rank(ids: list[int]) -> float:
        penalty = length_penalty(len(ids), config.length_penalty, config.length_penalty_offset)
        return float(log_probs(model, source, ids).gather(-1, torch.tensor(ids)[:, None]).sum() / penalty)

    text = without_end(original, model)
    candidates = [[*text, end]] if end in original else [[*text, end], text]  # the end token may be missing in a record
    ours = [*without_end(ours, model), end] if end in ours else without_end(ours, model)
    return rank(ours), max(rank(ids) for ids in candidates if ids)


def stopped(
    model: VaswaniForConditionalGeneration, source: Mapping[str, torch.Tensor], original: list[int],
    config: GenerationConfig,
) -> list[int]:  # fmt: skip
    """Searches again, forced to end after as many tokens as the original."""
    limited = copy.deepcopy(config)
    limited.max_new_tokens = len(without_end(original, model)) + 1
    limited.forced_eos_token_id = model.config.eos_token_id
    return model.generate(**source, generation_config=limited)[0, 1:].tolist()


def is_tie(
    model: VaswaniForConditionalGeneration, source: Mapping[str, torch.Tensor], ours: list[int], original: list[int]
) -> bool:
    """Whether the first two tokens that differ between greedy translations score the same, up to rounding."""
    end = model.config.eos_token_id
    ours, original = ([*without_end(ids, model), end] for ids in (ours, original))
    first = next(i for i, (a, b) in enumerate(zip(ours, original, strict=False)) if a != b)
    scores = log_probs(model, source, ours[: first + 1])[first]
    return bool((scores[ours[first]] - scores[original[first]]).abs() <= ROUNDING)


def log_probs(
    model: VaswaniForConditionalGeneration, source: Mapping[str, torch.Tensor], target: list[int]
) -> torch.Tensor:
    """The log-probabilities [T, V] of all tokens at each position of `target`."""
    target_ids = torch.tensor([[model.config.decoder_start_token_id, *target]])
    return forced_logits(model, source, target_ids)[0].log_softmax(dim=-1)


def without_end(ids: list[int], model: VaswaniForConditionalGeneration) -> list[int]:
    ends = {model.config.eos_token_id, model.config.pad_token_id}
    end = next((i for i, token in enumerate(ids) if token in ends), len(ids))
    return ids[:end]
