"""`generate` for the model: the paper's settings, its length limit, and its beam search (section 6.1).

What the library's `GenerationMixin` does is left to it; the search itself is in beam_search_vaswani.py.

Shapes: B sentences, n beams, r hypotheses returned for each sentence, S source tokens, L tokens so far, V vocabulary.
"""

import copy
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from transformers import GenerationConfig, GenerationMixin, LogitsProcessorList, StoppingCriteriaList
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.generation import GenerateBeamEncoderDecoderOutput, GenerateEncoderDecoderOutput
from transformers.generation.configuration_utils import GenerationMode

from .attention_vaswani import CACHE
from .beam_search_vaswani import IMPOSSIBLE, BeamSearch, Hypotheses, length_penalty
from .constraints_vaswani import ConstrainedBeamSearch, check_required
from .decoding_vaswani import ModelStep, can_replace_forward, start_steps
from .greedy_search_vaswani import GreedySearch
from .settings_vaswani import (
    CHECKED,
    MINIMUM,
    NeverPad,
    NoEndYet,
    SourceLengthLimit,
    VaswaniGenerationConfig,
    check_settings,
    keep_limits,
    paper_generation_config,
)
from .shortlist_vaswani import OnlyShortlisted, Shortlist, ShortProduct


SEARCHES = {  # that go through `_sample` and `_beam_search` below
    GenerationMode.GREEDY_SEARCH,
    GenerationMode.SAMPLE,
    GenerationMode.BEAM_SEARCH,
    GenerationMode.BEAM_SAMPLE,
}
RequiredTokens = Sequence[Sequence[Sequence[Sequence[int]]]]  # for each sentence words, of each its forms
# What the library does not hand on, as it knows no such arguments:
RETURN_CACHE = ContextVar("return_cache", default=True)
SHORTLIST: ContextVar[OnlyShortlisted | None] = ContextVar("shortlist", default=None)
REQUIRED: ContextVar[tuple[RequiredTokens, Collection[int]] | None] = ContextVar("required", default=None)
MOST_SHARED = 16  # samples of a sentence that are drawn as beams are
EXTRA_LENGTH = 50  # "We set the maximum output length during inference to input length + 50"


# What `generate` returns where more than token ids is asked for -----------------------------------------------------


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
            **{CACHE: cache},
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
        return_cache: bool = True,
        shortlist: Shortlist | None = None,
        required_words: RequiredTokens | None = None,
        joining_tokens: Collection[int] = (),
        **kwargs,
    ):
        """As `GenerationMixin.generate`, but padding is never produced, and two things are inferred if not given.

        Without an `attention_mask`, source positions that hold the padding token are masked. Without `max_length` or
        `max_new_tokens`, each sentence may become as long as its source plus 50 tokens. Beam search with
        `return_dict_in_generate=True` gives a `VaswaniBeamOutput`, greedy search a `VaswaniGreedyOutput`; with
        `return_cache=False` it comes without its cache, and sooner. With a `shortlist` only its tokens are
        considered, and probabilities are those among them. With `required_words` each translation holds its words: for
        each sentence a list of words, each a list of forms of which one is enough, each a list of token ids.

        Raises:
            ValueError: settings cannot be used; the message names all of them. Or the shortlist is of another model.
                Or words are required without beam search, with a shortlist, or not for each sentence.
        """
        source = inputs if inputs is not None else kwargs.get("input_ids")
        mask, pad_token_id = kwargs.get("attention_mask"), self.config.pad_token_id
        if mask is None and source is not None and pad_token_id is not None:
            mask = kwargs["attention_mask"] = source.ne(pad_token_id).long()

        if self.generation_config.max_length == VaswaniGenerationConfig.UNLIMITED:
            self.generation_config.max_length = None
        settings = self._settings(generation_config, kwargs)
        check_settings(settings, self.config)
        if required_words is not None:
            check_required(required_words, self.config.decoder_vocab_size, settings["num_beams"] or 1)
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
        cache_token = RETURN_CACHE.set(return_cache)
        shortlist_token = SHORTLIST.set(None if shortlist is None else self._only_shortlisted(shortlist, source))
        required_token = REQUIRED.set(None if required_words is None else (required_words, joining_tokens))
        try:
            return super().generate(
                inputs, generation_config=generation_config, stopping_criteria=stopping_criteria, **kwargs
            )
        finally:
            RETURN_CACHE.reset(cache_token)
            SHORTLIST.reset(shortlist_token)
            REQUIRED.reset(required_token)

    def _only_shortlisted(self, shortlist: Shortlist, source: torch.Tensor | None) -> OnlyShortlisted:
        if source is None or source.is_floating_point():
            raise ValueError("A shortlist goes by the tokens of the source: give them as `input_ids`.")
        shortlist.check(self.config.vocab_size, vocab_size := self.lm_head.out_features)
        return OnlyShortlisted(shortlist.of(source, vocab_size, self.config.pad_token_id))

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
        processors = LogitsProcessorList([NoEndYet(p) if isinstance(p, MINIMUM) else p for p in processors])
        if (shortlist := SHORTLIST.get()) is not None:
            processors.insert(0, shortlist)
        if self.config.pad_token_id is None or generation_config.num_beams > 1:  # `_log_probs` does it for beams
            return processors
        return LogitsProcessorList([NeverPad(self.config.pad_token_id), *processors])

    def penalty_offset(self, generation_config: GenerationConfig | None = None) -> float:
        """`length_penalty_offset` of these settings, else of the model's own, else the paper's."""
        for config in (generation_config, self.generation_config):
            if (offset := getattr(config, "length_penalty_offset", None)) is not None:
                return offset
        return 5

    # Search ----------------------------------------------------------------------------------------------------------

    def _sample(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        streamer: Any = None,
        **model_kwargs,
    ) -> torch.LongTensor | VaswaniGreedyOutput:
        """Runs the model and `GreedySearch` in turn: input_ids [B, L] -> sequences [B, L]."""
        config = generation_config
        if streamer is not None or not can_replace_forward(self, config, synced_gpus, model_kwargs):
            return super()._sample(
                input_ids, logits_processor, stopping_criteria, config, synced_gpus, streamer, **model_kwargs
            )
        record, (processors, shortlist) = Record(config), split(logits_processor)
        records_tokens = config.return_dict_in_generate
        shares = records_tokens or shortlist is not None or config.num_return_sequences <= MOST_SHARED
        step = start_steps(self, input_ids, model_kwargs, shortlist, shares)
        short = None if shortlist is None else step.head
        search = GreedySearch(input_ids, self._fill(config), config.do_sample, records_tokens, vocabulary_of(short))
        drops = (
            shares and step.num_beams == 1 and step.can_drop(config, processors, stopping_criteria, RETURN_CACHE.get())
        )
        while not search.is_over:
            logits = step(search.input_ids).float()
            log_probs = logits.log_softmax(dim=-1) if records_tokens else None
            scores = logits.clone() if record.steps else logits
            if self.config.pad_token_id is not None and short is None:
                scores[:, self.config.pad_token_id] = IMPOSSIBLE
            scores = process(search.input_ids, scores, processors, short)
            record.add({}, logits, scores, short)
            search.step(scores, lambda ids: stopping_criteria(ids, record.steps.get("scores")), log_probs)
            if drops and (rows := search.drop_finished()) is not None:
                step.keep(rows)
                keep_limits(stopping_criteria, rows)
        best = search.best()
        if not config.return_dict_in_generate:
            return best.tokens
        penalty = length_penalty(best.lengths - input_ids.shape[1], config.length_penalty, self.penalty_offset(config))
        best = replace(best, scores=best.scores / penalty)
        cache = step.cache() if RETURN_CACHE.get() else None
        return VaswaniGreedyOutput(**record.output(best, config, model_kwargs, cache))

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
        config = generation_config
        record, (processors, shortlist) = Record(config), split(logits_processor)
        short, drops = None, False
        if can_replace_forward(self, config, synced_gpus, model_kwargs):
            step = start_steps(self, input_ids, model_kwargs, shortlist)
            short = None if shortlist is None else step.head
            drops = step.can_drop(config, processors, stopping_criteria, RETURN_CACHE.get())
        else:
            step = ModelStep(self, config, model_kwargs)
        search = self._start_search(input_ids, config, vocabulary_of(short))
        while True:
            logits = step(search.input_ids)
            if not search.is_over:
                if shortlist is not None and short is None:
                    logits = shortlist(search.input_ids, logits)
                log_probs = self._log_probs(logits, overwrites=not record.steps, has_padding=short is None)
                log_probs = process(search.input_ids, log_probs, processors, short)
                record.add(step.outputs, logits, log_probs, short)
                step.reorder(search.step(log_probs, lambda ids: stopping_criteria(ids, record.steps.get("scores"))))
                if drops and (sentences := search.drop_finished()) is not None:
                    step.keep(sentences)
                    keep_limits(stopping_criteria, sentences)
            # A process that is done still runs its share of a sharded model for the others.
            if not self._has_unfinished_sequences(search.is_over, synced_gpus, input_ids.device):
                break
        best = search.best(config.num_return_sequences)
        if not config.return_dict_in_generate:
            return best.tokens
        cache = step.cache() if RETURN_CACHE.get() else None
        return VaswaniBeamOutput(**record.output(best, config, model_kwargs, cache), beam_indices=best.rows)

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, generation_mode, *args, **kwargs):
        """As the library's, but for the usual cache: a `DecoderStep` has its own, and the model makes it if needed."""
        is_usual = generation_config.cache_implementation is None and model_kwargs.get(CACHE) is None
        if not (is_usual and generation_mode in SEARCHES):
            return super()._prepare_cache_for_generation(
                generation_config, model_kwargs, generation_mode, *args, **kwargs
            )

    def _fill(self, config: GenerationConfig) -> int:
        """The token after an end: padding, else an end."""
        ends = [] if config._eos_token_tensor is None else config._eos_token_tensor.tolist()
        return next((i for i in (self.config.pad_token_id, *ends) if i is not None), 0)

    def _start_search(
        self, input_ids: torch.LongTensor, config: GenerationConfig, vocabulary: torch.Tensor | None
    ) -> BeamSearch:
        required = REQUIRED.get()
        start = (
            BeamSearch if required is None else partial(ConstrainedBeamSearch, *required, config.num_return_sequences)
        )
        return start(
            input_ids,
            num_beams=config.num_beams,
            max_length=config.max_length,
            alpha=config.length_penalty,
            offset=self.penalty_offset(config),
            early_stopping=config.early_stopping,
            num_ends=0 if config._eos_token_tensor is None else len(config._eos_token_tensor),
            fill=self._fill(config),
            do_sample=config.do_sample,
            records_tokens=config.return_dict_in_generate,
            vocabulary=vocabulary,
        )

    def _log_probs(self, logits: torch.Tensor, overwrites: bool, has_padding: bool) -> torch.Tensor:
        """The model's log-probabilities [B * n, V] of the next token, -inf for padding.

        Without padding they add up to a little less than 1; `renormalize_logits=True` makes it 1.
        """
        logits = logits.float()
        log_probs = torch.log_softmax(logits, dim=-1, out=logits if overwrites else None)  # new memory takes longer
        if self.config.pad_token_id is not None and has_padding:
            log_probs[:, self.config.pad_token_id] = IMPOSSIBLE
        return log_probs

    # The beams of a sentence share its source: only what belongs to the target is expanded and reordered.

    def _expand_inputs_for_generation(self, expand_size=1, is_encoder_decoder=True, input_ids=None, **model_kwargs):
        if expand_size > 1:
            if input_ids is not None:
                input_ids = input_ids.repeat_interleave(expand_size, dim=0)
            for name, value in model_kwargs.items():
                if name.startswith("decoder_") and isinstance(value, torch.Tensor):
                    model_kwargs[name] = value.repeat_interleave(expand_size, dim=0)
        return input_ids, model_kwargs

    def _reorder_cache(self, cache: EncoderDecoderCache, beam_idx: torch.Tensor) -> EncoderDecoderCache:
        cache.self_attention_cache.reorder_cache(beam_idx)
        return cache


def split(processors: LogitsProcessorList) -> tuple[LogitsProcessorList, OnlyShortlisted | None]:
    """What our own searches do not do by themselves, and the shortlists."""
    others = LogitsProcessorList(p for p in processors if not isinstance(p, (NeverPad, OnlyShortlisted)))
    return others, next((p for p in processors if isinstance(p, OnlyShortlisted)), None)


def vocabulary_of(short: ShortProduct | None) -> torch.Tensor | None:
    return None if short is None else short.vocabulary


def process(
    input_ids: torch.Tensor, scores: torch.Tensor, processors: LogitsProcessorList, short: ShortProduct | None
) -> torch.Tensor:
    """The scores that the processors make of these, [R, V], or [R, K] of a short product's vocabulary."""
    if all(isinstance(p, NoEndYet) and p.is_over(input_ids) for p in processors):
        return scores
    if short is None:
        return processors(input_ids, scores)
    return processors(input_ids, short.widened(scores)).index_select(1, short.vocabulary)


__all__ = ["VaswaniGenerationMixin", "length_penalty", "paper_generation_config"]
