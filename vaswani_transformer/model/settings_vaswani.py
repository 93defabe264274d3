"""What a search may do: the paper's settings, values that are refused, and the limits of lengths and tokens.

Shapes: B sentences, L tokens so far, V vocabulary; rows are sentences, or their beams one after the other.
"""

import math
from numbers import Integral, Real
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, PreTrainedConfig, StoppingCriteria, StoppingCriteriaList
from transformers.generation import logits_process
from transformers.generation import stopping_criteria as library_criteria


def paper_generation_config(**overrides) -> GenerationConfig:
    """The paper's settings (section 6.1), for `model.generation_config` and so for `generation_config.json`.

    `length_penalty` is the paper's alpha; `length_penalty_offset`, if set, replaces the 5 of its formula. A model's
    generation configuration also needs its `pad_token_id`, `eos_token_id` and `decoder_start_token_id`.
    """
    settings = dict(num_beams=4, length_penalty=0.6, early_stopping="never")
    return GenerationConfig(**{**settings, **overrides})


class VaswaniGenerationConfig(GenerationConfig):
    """Settings in which an unset `max_length` stays unset: each sentence may then have its source's tokens plus 50.

    `Seq2SeqTrainer` fills the library's defaults into a model's settings, a `max_length` of 20 among them, which would
    cut all later translations. Here it finds `UNLIMITED` in its place, a number that it can go on with.
    """

    UNLIMITED = 0

    @classmethod
    def of(cls, config: GenerationConfig) -> "VaswaniGenerationConfig":
        """The same settings: what is later changed in one is changed in the other."""
        own = cls.__new__(cls)
        own.__dict__ = config.__dict__
        return own

    def update(self, defaults_only: bool = False, allow_custom_entries: bool = False, **kwargs) -> dict[str, Any]:
        # `generate` fills in the defaults, too, but gives every sentence its length before.
        if defaults_only and kwargs == self._get_default_generation_params():
            kwargs["max_length"] = self.UNLIMITED
        return super().update(defaults_only=defaults_only, allow_custom_entries=allow_custom_entries, **kwargs)

    def to_dict(self) -> dict[str, Any]:
        settings = super().to_dict()
        if settings.get("max_length") == self.UNLIMITED:
            settings["max_length"] = None
        return settings


LONGEST = 100_000  # tokens: what is meant as "no limit" would fill the memory before it ends
INTEGERS = {
    "num_beams": (1, 1000),  # each holds the scores of a whole vocabulary
    "num_return_sequences": (1, LONGEST),
    "max_length": (1, LONGEST),
    "max_new_tokens": (1, LONGEST),
    "min_length": (0, LONGEST),
    "min_new_tokens": (0, LONGEST),
}
IDS = (
    "pad_token_id", "eos_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
    "suppress_tokens", "begin_suppress_tokens", "bad_words_ids",
)  # fmt: skip
CHECKED = (*INTEGERS, *IDS, "length_penalty", "length_penalty_offset", "early_stopping")


def check_settings(settings: dict[str, Any], config: PreTrainedConfig):
    """Refuses settings with which a search would fail, never end or exhaust the memory.

    Raises:
        ValueError: some settings cannot be used; the message names all of them.
    """
    problems = []
    for name, (lowest, highest) in INTEGERS.items():
        value = settings.get(name)
        if value is not None and not (is_a(Integral, value) and lowest <= value <= highest):
            problems.append(f"{name} is {value!r} (an integer from {lowest} to {highest:,})")
    for name, lowest in (("length_penalty", -math.inf), ("length_penalty_offset", 0)):
        value = settings.get(name)
        if value is not None and not (is_a(Real, value) and math.isfinite(value) and value >= lowest):
            problems.append(f"{name} is {value!r} (a number{', at least 0' if lowest == 0 else ''})")
    if settings.get("early_stopping") not in (None, True, False, "never"):
        problems.append(f"early_stopping is {settings['early_stopping']!r} (true, false or 'never')")
    size, pad = config.decoder_vocab_size, config.pad_token_id
    for name in IDS:
        strange = [i for i in flat(settings.get(name)) if not (is_a(Integral, i) and 0 <= i < size)]
        if strange:
            problems.append(f"{name} has {strange[0]!r} (an id below {size:,})")
    if pad is not None and set(flat(settings.get("eos_token_id"))) == {pad}:
        problems.append(f"pad_token_id and eos_token_id are both {pad} (padding is never produced: nothing would end)")
    if problems:
        raise ValueError(
            f"These generation settings cannot be used: {'; '.join(problems)}. They come from generation_config.json "
            "or from the arguments of `generate`."
        )


def is_a(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def flat(ids: Any) -> list:
    """None, an id, a list of ids or a list of lists of ids as one list."""
    if isinstance(ids, torch.Tensor):
        ids = ids.tolist()
    if not isinstance(ids, (list, tuple, set)):
        return [] if ids is None else [ids]
    return [i for part in ids for i in flat(part)]


# Limits --------------------------------------------------------------------------------------------------------------


class SourceLengthLimit(StoppingCriteria):
    """Ends a sentence at its own limit, whatever the limits of its batch mates: limits [B], in tokens."""

    def __init__(self, limits: torch.Tensor):
        self.limits = limits

    def __call__(self, input_ids: torch.LongTensor, scores, **kwargs) -> torch.BoolTensor:
        rows = input_ids.shape[0] // self.limits.shape[0]
        return input_ids.shape[1] > self.limits.to(input_ids.device).repeat_interleave(rows)


class NeverPad(LogitsProcessor):
    """Keeps padding from being produced: scores [rows, V]."""

    def __init__(self, pad_token_id: int):
        self.pad_token_id = pad_token_id

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        return scores.index_fill(-1, torch.tensor([self.pad_token_id], device=scores.device), float("-inf"))


MINIMUM = logits_process.MinLengthLogitsProcessor, logits_process.MinNewTokensLengthLogitsProcessor


class NoEndYet(LogitsProcessor):
    """The library's least number of tokens, which it looks after with copies of all scores to the end."""

    def __init__(self, processor: LogitsProcessor):
        self.processor = processor
        least = getattr(processor, "min_length", None)
        self.length = processor.prompt_length_to_skip + processor.min_new_tokens if least is None else least

    def is_over(self, input_ids: torch.LongTensor) -> bool:
        return input_ids.shape[1] >= self.length

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        return scores if self.is_over(input_ids) else self.processor(input_ids, scores)


ANY_ROW = (
    NoEndYet,
    SourceLengthLimit,
    NeverPad,
    library_criteria.EosTokenCriteria,
    library_criteria.MaxLengthCriteria,
    library_criteria.MaxTimeCriteria,
    logits_process.SequenceBiasLogitsProcessor,  # and with it `bad_words_ids`
    logits_process.SuppressTokensLogitsProcessor,
    logits_process.RepetitionPenaltyLogitsProcessor,
    logits_process.NoRepeatNGramLogitsProcessor,
    logits_process.ForcedEOSTokenLogitsProcessor,
    logits_process.LogitNormalization,
)


def keep_limits(criteria: StoppingCriteriaList, sentences: torch.Tensor):
    """Keeps the limits of these sentences only: indices [b]."""
    for i, criterion in enumerate(criteria):
        if isinstance(criterion, SourceLengthLimit):
            criteria[i] = SourceLengthLimit(criterion.limits[sentences.to(criterion.limits.device)])
