"""What a search may not do, and when it ends: lengths, padding, and the library's own processors and criteria.

Shapes: B sentences, L tokens so far, V vocabulary; rows are sentences, or their beams one after the other.
"""

import torch
from transformers import LogitsProcessor, StoppingCriteria, StoppingCriteriaList
from transformers.generation import logits_process
from transformers.generation import stopping_criteria as library_criteria


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
    """Goes on with the limits of these sentences: indices [b]."""
    for i, criterion in enumerate(criteria):
        if isinstance(criterion, SourceLengthLimit):
            criteria[i] = SourceLengthLimit(criterion.limits[sentences.to(criterion.limits.device)])
