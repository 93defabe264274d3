"""`generate` for the model: the paper's settings, its length limit, and its beam search (section 6.1).

What the library's `GenerationMixin` does is left to it; the search itself is in beam_search_vaswani.py.

Shapes: B sentences, n beams, r hypotheses returned for each sentence, S source tokens, L tokens so far, V vocabulary.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    GenerationMixin,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.generation import GenerateBeamEncoderDecoderOutput

from .attention_vaswani import BeamCache
from .beam_search_vaswani import BeamSearch, Hypotheses, length_penalty
from .settings_vaswani import CHECKED, VaswaniGenerationConfig, check_settings, paper_generation_config


EXTRA_LENGTH = 50  # "We set the maximum output length during inference to input length + 50"


# Limits -------------------------------------------------------------------------------------------------------------


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


# What beam search returns --------------------------------------------------------------------------------------------


@dataclass
class VaswaniBeamOutput(GenerateBeamEncoderDecoderOutput):
    """The library's output of beam search, always with `sequences_scores`, and with each token's log-probability.

    token_log_probs (`torch.FloatTensor` of shape `(B * r, tokens after the prompt)`):
        What the search added to log P for each token, 0 after the end. Their sum is log P; divided by the length
        penalty it is the hypothesis's entry of `sequences_scores` `(B * r,)`.
    """

    token_log_probs: torch.FloatTensor | None = None


class Record:
    """What the caller asked to see of each step of beam search."""

    def __init__(self, config: GenerationConfig):
        wanted = {
            "scores": config.output_scores,
            "logits": config.output_logits,
            "decoder_attentions": config.output_attentions,
            "cross_attentions": config.output_attentions,
            "decoder_hidden_states": config.output_hidden_states,
        }
        self.steps = {name: () for name, is_wanted in wanted.items() if is_wanted and config.return_dict_in_generate}

    def add(self, outputs, log_probs: torch.Tensor):
        """The model's outputs of a step and the log-probabilities [B * n, V] that the search took from them."""
        for name in self.steps:
            if name == "scores":
                value = log_probs.clone()
            else:
                value = outputs.logits[:, -1].float().clone() if name == "logits" else outputs[name]
            self.steps[name] += (value,)

    def output(self, best: Hypotheses, config: GenerationConfig, model_kwargs: dict) -> VaswaniBeamOutput:
        encoded, cache = model_kwargs["encoder_outputs"], model_kwargs.get("past_key_values")
        if cache is not None and isinstance(cache.self_attention_cache, BeamCache):
            cache = EncoderDecoderCache(cache.self_attention_cache.unfolded(), cache.cross_attention_cache)
        return VaswaniBeamOutput(
            sequences=best.tokens,
            sequences_scores=best.scores,
            token_log_probs=best.log_probs,
            beam_indices=best.rows,
            encoder_attentions=encoded.get("attentions") if config.output_attentions else None,
            encoder_hidden_states=encoded.get("hidden_states") if config.output_hidden_states else None,
            past_key_values=cache,
            **self.steps,
        )


# Generation ----------------------------------------------------------------------------------------------------------


class VaswaniGenerationMixin(GenerationMixin):
    """`generate` with the paper's search, length penalty and length limit."""

    @property
    def generation_config(self) -> GenerationConfig:
        return self._generation_config

    @generation_config.setter
    def generation_config(self, config: GenerationConfig):
        if config is not None and not isinstance(config, VaswaniGenerationConfig):
            config = VaswaniGenerationConfig.of(config)
        self._generation_config = config

    @torch.no_grad()
    def generate(
        self,
        inputs: torch.Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        stopping_criteria: StoppingCriteriaList | None = None,
        **kwargs,
    ):
        """As `GenerationMixin.generate`, but padding is never produced, and two things are inferred if not given.

        Without an `attention_mask`, source positions that hold the padding token are masked. Without `max_length` or
        `max_new_tokens`, each sentence may become as long as its source plus 50 tokens. Beam search with
        `return_dict_in_generate=True` gives a `VaswaniBeamOutput`.

        Raises:
            ValueError: settings cannot be used; the message names all of them.
        """
        source = inputs if inputs is not None else kwargs.get("input_ids")
        mask, pad_token_id = kwargs.get("attention_mask"), self.config.pad_token_id
        if mask is None and source is not None and pad_token_id is not None:
            mask = kwargs["attention_mask"] = source.ne(pad_token_id).long()

        if self.generation_config.max_length == VaswaniGenerationConfig.UNLIMITED:
            self.generation_config.max_length = None
        settings = self._settings(generation_config, kwargs)
        check_settings(settings, self.config)
        limits = self._length_limits(source, mask, kwargs)
        if limits is not None and settings["max_length"] is None and settings["max_new_tokens"] is None:
            max_length = int(limits.max()) + 1  # the start token is not part of the translation
            if generation_config is None:
                kwargs["max_length"] = max_length
            else:
                kwargs.pop("max_length", None)
                generation_config = copy.deepcopy(generation_config)
                generation_config.max_length = max_length
            stopping_criteria = StoppingCriteriaList([*(stopping_criteria or []), SourceLengthLimit(limits)])
        return super().generate(
            inputs, generation_config=generation_config, stopping_criteria=stopping_criteria, **kwargs
        )

    def _settings(self, generation_config: GenerationConfig | None, arguments: dict) -> dict[str, Any]:
        """What `generate` goes by: its arguments, else the given configuration, else the model's own settings."""
        settings = dict.fromkeys(CHECKED)
        for config in (self.generation_config, generation_config):
            given = {} if config is None else {name: getattr(config, name, None) for name in settings}
            settings |= {name: value for name, value in given.items() if value is not None}
        settings |= {name: arguments[name] for name in settings if name in arguments}
        if settings["max_length"] == VaswaniGenerationConfig.UNLIMITED:
            settings["max_length"] = None
        return settings

    def _length_limits(self, source, mask: torch.Tensor | None, inputs: dict) -> torch.Tensor | None:
        """Tokens that each sentence may have, [B]: its source's (all of them, without a mask) plus 50."""
        if mask is None:
            encoded = inputs.get("encoder_outputs")
            source = source if source is not None else inputs.get("inputs_embeds")
            source = encoded[0] if source is None and encoded is not None else source
            if source is None:
                return None
            mask = torch.ones(source.shape[:2], dtype=torch.long, device=source.device)
        limits = mask.sum(dim=-1) + EXTRA_LENGTH
        return limits if self.config.longest_sequence is None else limits.clamp(max=self.config.longest_sequence)

    def _get_logits_processor(self, generation_config: GenerationConfig, *args, **kwargs) -> LogitsProcessorList:
        processors = super()._get_logits_processor(generation_config, *args, **kwargs)
        if self.config.pad_token_id is None or generation_config.num_beams > 1:  # `_log_probs` does it for beams
            return processors
        return LogitsProcessorList([NeverPad(self.config.pad_token_id), *processors])

    def penalty_offset(self, generation_config: GenerationConfig | None = None) -> float:
        """`length_penalty_offset` of these settings, else of the model's own, else the paper's."""
        for config in (generation_config, self.generation_config):
            if (offset := getattr(config, "length_penalty_offset", None)) is not None:
                return offset
        return 5

    # Beam search -----------------------------------------------------------------------------------------------------

    def _beam_search(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        **model_kwargs,
    ) -> torch.LongTensor | VaswaniBeamOutput:
        """Runs the model and `BeamSearch` in turn: input_ids [B * n, L] -> sequences [B * r, L]."""
        config, device = generation_config, input_ids.device
        search, record = self._start_search(input_ids, config), Record(config)
        if not synced_gpus:
            model_kwargs = self._with_beam_cache(model_kwargs, config)
        outputs = self._prefill(input_ids, config, model_kwargs)
        while True:
            model_kwargs = self._update_model_kwargs_for_generation(outputs, model_kwargs, is_encoder_decoder=True)
            if not search.is_over:
                log_probs = self._log_probs(outputs.logits, search.input_ids, logits_processor)
                record.add(outputs, log_probs)
                rows = search.step(log_probs, lambda ids: stopping_criteria(ids, record.steps.get("scores")))
                if (cache := model_kwargs.get("past_key_values")) is not None:
                    self._reorder_cache(cache, rows)
            # A process that is done still runs its share of a sharded model for the others.
            if not self._has_unfinished_sequences(search.is_over, synced_gpus, device):
                break
            inputs = self.prepare_inputs_for_generation(
                search.input_ids, next_sequence_length=1 if model_kwargs["use_cache"] else None, **model_kwargs
            )
            outputs = self(**inputs, return_dict=True)
        best = search.best(config.num_return_sequences)
        return record.output(best, config, model_kwargs) if config.return_dict_in_generate else best.tokens

    def _start_search(self, input_ids: torch.LongTensor, config: GenerationConfig) -> BeamSearch:
        ends = [] if config._eos_token_tensor is None else config._eos_token_tensor.tolist()
        fill = [i for i in (self.config.pad_token_id, *ends) if i is not None]
        return BeamSearch(
            input_ids,
            num_beams=config.num_beams,
            max_length=config.max_length,
            alpha=config.length_penalty,
            offset=self.penalty_offset(config),
            early_stopping=config.early_stopping,
            num_ends=len(ends),
            fill=fill[0] if fill else 0,
            do_sample=config.do_sample,
            records_tokens=config.return_dict_in_generate,
        )

    def _log_probs(
        self, logits: torch.Tensor, input_ids: torch.LongTensor, processors: LogitsProcessorList
    ) -> torch.Tensor:
        """The model's log-probabilities [B * n, V] of the next token, -inf for padding, and what settings make of them.

        Without padding they add up to a little less than 1; `renormalize_logits=True` makes it 1.
        """
        log_probs = logits[:, -1, :].float().log_softmax(dim=-1)
        if self.config.pad_token_id is not None:
            log_probs[:, self.config.pad_token_id] = float("-inf")
        return processors(input_ids, log_probs) if processors else log_probs

    # The beams of a sentence share its source: only what belongs to the target is expanded and reordered.

    def _expand_inputs_for_generation(self, expand_size=1, is_encoder_decoder=True, input_ids=None, **model_kwargs):
        if expand_size > 1:
            if input_ids is not None:
                input_ids = input_ids.repeat_interleave(expand_size, dim=0)
            for name, value in model_kwargs.items():
                if name.startswith("decoder_") and isinstance(value, torch.Tensor):
                    model_kwargs[name] = value.repeat_interleave(expand_size, dim=0)
        return input_ids, model_kwargs

    def _reorder_cache(self, past_key_values: EncoderDecoderCache, beam_idx: torch.Tensor) -> EncoderDecoderCache:
        past_key_values.self_attention_cache.reorder_cache(beam_idx)
        return past_key_values

    def _with_beam_cache(self, model_kwargs: dict, config: GenerationConfig) -> dict:
        """A `BeamCache` where `generate` prepared an ordinary one, and where attention can take its mask."""
        cache = model_kwargs.get("past_key_values")
        fits = (
            isinstance(cache, EncoderDecoderCache)
            and type(cache.self_attention_cache) is DynamicCache
            and cache.get_seq_length() == 0
            and not getattr(cache, "_is_user_defined", False)
            and config.cache_implementation in (None, "dynamic")
            and model_kwargs.get("decoder_attention_mask") is None
            and self.config._attn_implementation in ("eager", "sdpa")
            and not config.output_attentions  # these would be over the slots of all beams, not each beam's own
        )
        if not fits:
            return model_kwargs
        beams = BeamCache(config.num_beams, capacity=min(config.max_length, BeamCache.CAPACITY))
        return {**model_kwargs, "past_key_values": EncoderDecoderCache(beams, cache.cross_attention_cache)}

    def prepare_inputs_for_generation(self, *args, **kwargs) -> dict:
        """As the library's, with the mask of a `BeamCache`."""
        inputs = super().prepare_inputs_for_generation(*args, **kwargs)
        cache = getattr(inputs.get("past_key_values"), "self_attention_cache", None)
        if isinstance(cache, BeamCache):
            ids, is_eager = inputs["decoder_input_ids"], self.config._attn_implementation == "eager"
            inputs["decoder_attention_mask"] = cache.attention_mask(
                *ids.shape, ids.device, additive=self.dtype if is_eager else None
            )
        return inputs


__all__ = ["VaswaniGenerationMixin", "length_penalty", "paper_generation_config"]
