"""Settings of a search: the paper's, checks of their values, and limits of lengths and tokens.

Shapes: B sentences, L tokens so far, V vocabulary. Rows are sentences, or their beams one after the other.
"""

import math
from numbers import Integral, Real
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, PreTrainedConfig, StoppingCriteria, StoppingCriteriaList
from transformers.generation import logits_process
from transformers.generation import stopping_criteria as library_criteria

from .beam_search_vaswani import IMPOSSIBLE


def paper_generation_config(**overrides) -> GenerationConfig:
    """The paper's settings (section 6.1), for `model.generation_config` and so for `generation_config.json`.

    `length_penalty` is the paper's alpha; `length_penalty_offset`, if set, replaces the 5 of its formula. A model's
    generation configuration also needs its `pad_token_id`, `eos_token_id` and `decoder_start_token_id`.
    """
    settings = dict(num_beams=4, length_penalty=0.6, early_stopping="never")
    return GenerationConfig(**{**settings, **overrides})


class VaswaniGenerationConfig(GenerationConfig):
    """Settings whose unset `max_length` stays unset: each sentence may then have its source's tokens plus 50.

    `Seq2SeqTrainer` fills the library's defaults into a model's settings. Their `max_length` of 20 would cut all later
    translations; here the trainer finds the number `UNLIMITED` instead, which it can compute with.
    """

    UNLIMITED = 0

    @classmethod
    def from_config(cls, config: GenerationConfig) -> "VaswaniGenerationConfig":
        """The same settings: a later change in one object also changes the other."""
        settings = cls.__new__(cls)
        # Shared, not copied: with any other model of the library, the caller's object is the model's, and changing it
        # later changes the search. Its class must not change, as another model may have it, too.
        settings.__dict__ = config.__dict__
        return settings

    def update(self, defaults_only: bool = False, allow_custom_entries: bool = False, **kwargs) -> dict[str, Any]:
        # `generate` also fills in the defaults, but only after every sentence has its own limit.
        if defaults_only and kwargs == self._get_default_generation_params():
            kwargs["max_length"] = self.UNLIMITED
        return super().update(defaults_only=defaults_only, allow_custom_entries=allow_custom_entries, **kwargs)

    def to_dict(self) -> dict[str, Any]:
        settings = super().to_dict()
        if settings.get("max_length") == self.UNLIMITED:
            settings["max_length"] = None
        return settings


MAX_TOKENS = 100_000  # a value meant as "no limit" would fill the memory before the search ends
INTEGER_SETTINGS = {  # the least and the greatest value
    "num_beams": (1, 1000),  # each beam has the scores of a whole vocabulary
    "num_return_sequences": (1, MAX_TOKENS),
    "max_length": (1, MAX_TOKENS),
    "max_new_tokens": (1, MAX_TOKENS),
    "min_length": (0, MAX_TOKENS),
    "min_new_tokens": (0, MAX_TOKENS),
}
TOKEN_SETTINGS = (
    "pad_token_id", "eos_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
    "suppress_tokens", "begin_suppress_tokens", "bad_words_ids",
)  # fmt: skip
CHECKED_SETTINGS = (*INTEGER_SETTINGS, *TOKEN_SETTINGS, "length_penalty", "length_penalty_offset", "early_stopping")


def check_settings(settings: dict[str, Any], config: PreTrainedConfig):
    """Check that a search with these settings can run, end, and fit into the memory.

    Raises:
        ValueError: Some settings are invalid; the message lists all of them.
    """
    problems = []
    for name, (least, greatest) in INTEGER_SETTINGS.items():
        value = settings.get(name)
        if value is not None and not (is_number(value, Integral) and least <= value <= greatest):
            problems.append(f"{name} is {value!r} (must be an integer from {least} to {greatest:,})")
    for name, least in (("length_penalty", -math.inf), ("length_penalty_offset", 0)):
        value = settings.get(name)
        if value is not None and not (is_number(value, Real) and math.isfinite(value) and value >= least):
            problems.append(f"{name} is {value!r} (must be a number{', at least 0' if least == 0 else ''})")
    if settings.get("early_stopping") not in (None, True, False, "never"):
        problems.append(f"early_stopping is {settings['early_stopping']!r} (must be true, false or 'never')")
    size, pad = config.decoder_vocab_size, config.pad_token_id
    for name in TOKEN_SETTINGS:
        invalid = [i for i in flatten_ids(settings.get(name)) if not (is_number(i, Integral) and 0 <= i < size)]
        if invalid:
            problems.append(f"{name} has {invalid[0]!r} (must be a token id below {size:,})")
    if pad is not None and set(flatten_ids(settings.get("eos_token_id"))) == {pad}:
        problems.append(f"pad_token_id and eos_token_id are both {pad} (padding is never produced: nothing would end)")
    if problems:
        raise ValueError(
            f"Invalid generation settings: {'; '.join(problems)}. Pass others to `generate`, or set them in "
            "`model.generation_config` and save the model."
        )


def is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def flatten_ids(ids: Any) -> list:
    """Flatten token ids, however they are given (None, an id, a list, a list of lists), into one list."""
    if isinstance(ids, torch.Tensor):
        ids = ids.tolist()
    if not isinstance(ids, (list, tuple, set)):
        return [] if ids is None else [ids]
    return [i for part in ids for i in flatten_ids(part)]


# Limits --------------------------------------------------------------------------------------------------------------


class SourceLengthLimit(StoppingCriteria):
    """Ends each sentence at its own limit, whatever the limits of the others in the batch: limits [B], in tokens."""

    def __init__(self, limits: torch.Tensor):
        self.limits = limits

    def __call__(self, input_ids: torch.LongTensor, scores, **kwargs) -> torch.BoolTensor:
        rows = input_ids.shape[0] // self.limits.shape[0]
        return input_ids.shape[1] > self.limits.to(input_ids.device).repeat_interleave(rows)


class NeverPad(LogitsProcessor):
    """Rules out padding: scores [rows, V]."""

    def __init__(self, pad_token_id: int):
        self.pad_token_id = pad_token_id

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        return scores.index_fill(-1, torch.tensor([self.pad_token_id], device=scores.device), IMPOSSIBLE)


MIN_LENGTH_PROCESSORS = (
    logits_process.MinLengthLogitsProcessor,
    logits_process.MinNewTokensLengthLogitsProcessor,
)


class NoEndYet(LogitsProcessor):
    """The library's minimum length, switched off once it is reached: the library copies all scores at every step."""

    def __init__(self, processor: LogitsProcessor):
        self.processor = processor
        length = getattr(processor, "min_length", None)
        self.min_length = processor.prompt_length_to_skip + processor.min_new_tokens if length is None else length

    def is_over(self, input_ids: torch.LongTensor) -> bool:
        return input_ids.shape[1] >= self.min_length

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        return scores if self.is_over(input_ids) else self.processor(input_ids, scores)


# Processors and criteria that treat every row alike. With any others, finished sentences stay in the batch.
ROW_INDEPENDENT = (
    NoEndYet,
    SourceLengthLimit,
    NeverPad,
    library_criteria.EosTokenCriteria,
    library_criteria.MaxLengthCriteria,
    library_criteria.MaxTimeCriteria,
    logits_process.SequenceBiasLogitsProcessor,
    logits_process.NoBadWordsLogitsProcessor,
    logits_process.SuppressTokensLogitsProcessor,
    logits_process.RepetitionPenaltyLogitsProcessor,
    logits_process.NoRepeatNGramLogitsProcessor,
    logits_process.ForcedEOSTokenLogitsProcessor,
    logits_process.LogitNormalization,
)


def max_lengths(criteria: StoppingCriteriaList, max_length: int) -> int | torch.Tensor:
    """The maximum number of tokens, start token included: each sentence's, [B, 1], or the same for all."""
    limits = next((criterion.limits for criterion in criteria if isinstance(criterion, SourceLengthLimit)), None)
    return max_length if limits is None else limits.unsqueeze(-1) + 1


def select_limits(criteria: StoppingCriteriaList, sentences: torch.Tensor):
    """Keep the limits of these sentences only: indices [b]."""
    for i, criterion in enumerate(criteria):
        if isinstance(criterion, SourceLengthLimit):
            criteria[i] = SourceLengthLimit(criterion.limits[sentences.to(criterion.limits.device)])
