"""What `generate` returns where more than token ids is asked for.

Shapes: B sentences, n beams, r hypotheses returned for each sentence, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from transformers import GenerationConfig
from transformers.cache_utils import Cache
from transformers.generation import GenerateBeamEncoderDecoderOutput, GenerateEncoderDecoderOutput

from .beam_search_vaswani import Hypotheses
from .shortlist_vaswani import ShortProduct


@dataclass
class VaswaniBeamOutput(GenerateBeamEncoderDecoderOutput):
    """The library's output of beam search, always with `sequences_scores`, and with each token's log-probability.

    token_log_probs (`torch.FloatTensor` of shape `(B * r, tokens after the prompt)`):
        What the search added to log P for each token, 0 after the end. Their sum is log P; divided by the length
        penalty it is the hypothesis's entry of `sequences_scores` `(B * r,)`.
    """

    token_log_probs: torch.FloatTensor | None = None


@dataclass
class VaswaniGreedyOutput(GenerateEncoderDecoderOutput):
    """The library's output of greedy search and sampling, with the scores of a `VaswaniBeamOutput`."""

    sequences_scores: torch.FloatTensor | None = None
    token_log_probs: torch.FloatTensor | None = None


class Record:
    """What the caller asked to see of each step of a search."""

    def __init__(self, config: GenerationConfig):
        wanted = {
            "scores": config.output_scores,
            "logits": config.output_logits,
            "decoder_attentions": config.output_attentions,
            "cross_attentions": config.output_attentions,
            "decoder_hidden_states": config.output_hidden_states,
        }
        self.steps = {name: () for name, is_wanted in wanted.items() if is_wanted and config.return_dict_in_generate}

    def add(self, outputs: Mapping, logits: torch.Tensor, scores: torch.Tensor, short: ShortProduct | None = None):
        """Of a step: what the model gave, its logits [B * n, V], and the scores [B * n, V] that the search took.

        With a short product they are [B * n, K], and recorded as [B * n, V].
        """
        if self.steps and short is not None:
            logits, scores = short.widened(logits), short.widened(scores)
        for name in self.steps:
            given = {"scores": scores, "logits": logits}.get(name)
            self.steps[name] += (outputs[name] if given is None else given.float().clone(),)

    def output(self, best: Hypotheses, config: GenerationConfig, model_kwargs: dict, cache: Cache | None) -> dict:
        """The fields that every kind of output has."""
        encoded = model_kwargs["encoder_outputs"]
        return dict(
            sequences=best.tokens,
            sequences_scores=best.scores,
            token_log_probs=best.log_probs,
            encoder_attentions=encoded.get("attentions") if config.output_attentions else None,
            encoder_hidden_states=encoded.get("hidden_states") if config.output_hidden_states else None,
            past_key_values=cache,
            **self.steps,
        )
