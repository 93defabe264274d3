"""`generate` with the paper's settings, length limit and beam search (section 6.1).

transformers' `GenerationMixin` does everything that is not special to the paper. The beam search itself is in
beam_search_vaswani.py.

Shapes: B sentences, n beams, r returned hypotheses per sentence, S source tokens, L tokens so far, V vocabulary.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import GenerationConfig, GenerationMixin, LogitsProcessorList, StoppingCriteriaList
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.generation import GenerateBeamEncoderDecoderOutput, GenerateEncoderDecoderOutput
from transformers.generation.configuration_utils import GenerationMode
from transformers.modeling_outputs import BaseModelOutput

from .attention_vaswani import CACHE
from .beam_search_vaswani import IMPOSSIBLE, BeamSearch, length_penalty
from .constraints_vaswani import ConstrainedBeamSearch, check_required
from .decoding_vaswani import ModelStep, can_replace_forward, can_step, start_steps
from .greedy_search_vaswani import GreedySearch
from .settings_vaswani import (
    CHECKED_SETTINGS,
    MIN_LENGTH_PROCESSORS,
    NeverPad,
    NoEndYet,
    SourceLengthLimit,
    VaswaniGenerationConfig,
    check_settings,
    max_lengths,
    paper_generation_config,
    select_limits,
)
from .shortlist_vaswani import OnlyShortlisted, Shortlist, ShortProduct


OWN_MODES = {  # those of `_sample` and `_beam_search` below
    GenerationMode.GREEDY_SEARCH,
    GenerationMode.SAMPLE,
    GenerationMode.BEAM_SEARCH,
    GenerationMode.BEAM_SAMPLE,
}
RequiredTokens = Sequence[Sequence[Sequence[Sequence[int]]]]  # sentences, words, forms of a word, tokens of a form
# Arguments for `_sample` and `_beam_search` that `generate` passes on. They travel with the library's own arguments for
# a search (`_extract_generation_mode_kwargs`). `custom_generate=callable` could carry them, too, but then the library
# drops `streamer`, `synced_gpus` and the `tokenizer` of `stop_strings`.
SEARCH_ARGUMENTS = ("return_cache", "start_search")
# The same limit in all tokens and in new tokens. A caller's limit in one replaces the checkpoint's in the other.
LENGTHS = (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens"))
MAX_SHARED_SAMPLES = 16  # with more samples per sentence, sharing the source's keys and values takes longer
MIN_ENCODED, MIN_PADDING = 16, 0.25  # sentences that are encoded at once, and the share of padding that is worth it
EXTRA_LENGTH = 50  # "We set the maximum output length during inference to input length + 50"


# What `generate` returns with `return_dict_in_generate=True` ---------------------------------------------------------


@dataclass
class VaswaniBeamOutput(GenerateBeamEncoderDecoderOutput):
    """The library's output of beam search, always with `sequences_scores`, and with each token's log-probability.

    token_log_probs (`torch.FloatTensor` of shape `(B * r, tokens after the prompt)`):
        What each token added to log P in the search, 0 after the end. The sum of a row is log P; divided by the length
        penalty it is the row's entry in `sequences_scores` `(B * r,)`.
    """

    token_log_probs: torch.FloatTensor | None = None


class StepRecorder:
    """Records what the caller asked to see of each step of a search."""

    def __init__(self, config: GenerationConfig):
        requested = {
            "scores": config.output_scores,
            "logits": config.output_logits,
            "decoder_attentions": config.output_attentions,
            "cross_attentions": config.output_attentions,
            "decoder_hidden_states": config.output_hidden_states,
        }
        self.config = config
        self.steps = {name: () for name, wanted in requested.items() if wanted and config.return_dict_in_generate}

    def add(self, outputs: Mapping, logits: torch.Tensor, scores: torch.Tensor, short: ShortProduct | None = None):
        """Record one step: the model's outputs, its logits [B * n, V], and the processed scores [B * n, V].

        With a short product both are [B * n, K], and recorded as [B * n, V].
        """
        if self.steps and short is not None:
            logits, scores = short.widen(logits), short.widen(scores)
        tensors = {"scores": scores, "logits": logits}
        for name in self.steps:
            value = tensors[name].float().clone() if name in tensors else outputs[name]
            self.steps[name] += (value,)

    def fields(self, model_kwargs: dict, cache: Cache | None) -> dict:
        """The fields of the output that do not depend on the kind of search."""
        encoded = model_kwargs["encoder_outputs"]
        return dict(
            encoder_attentions=encoded.get("attentions") if self.config.output_attentions else None,
            encoder_hidden_states=encoded.get("hidden_states") if self.config.output_hidden_states else None,
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
            config = VaswaniGenerationConfig.from_config(config)
        self._generation_config = config

    @torch.no_grad()
    def generate(
        self,
        inputs: torch.Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        logits_processor: LogitsProcessorList | None = None,
        stopping_criteria: StoppingCriteriaList | None = None,
        return_cache: bool = True,
        shortlist: Shortlist | None = None,
        required_words: RequiredTokens | None = None,
        joining_tokens: Collection[int] = (),
        **kwargs,
    ):
        """Translate, as `GenerationMixin.generate` does, but never produce padding, and infer two arguments.

        Without an `attention_mask`, source positions with the padding token are masked. Without `max_length` and
        `max_new_tokens`, each sentence may have its source's number of tokens plus 50 (section 6.1). A length that you
        give, as an argument or in `generation_config`, takes precedence over those in the checkpoint.

        Args:
            inputs, generation_config, logits_processor, stopping_criteria, **kwargs: As in `GenerationMixin.generate`.
            return_cache: False leaves the cache out of the output, which is faster.
            shortlist: Only produce target tokens that it lists for the source. Scores are then probabilities among
                these tokens.
            required_words: Words that each translation must contain: for each sentence a list of words, each a list of
                forms of which one is enough, each a list of token ids. Needs beam search.
            joining_tokens: Tokens that continue a word. A required word followed by one of them does not count.

        Returns:
            Sequences [B * r, L]. With `return_dict_in_generate=True`, a `VaswaniBeamOutput` from beam search and a
            `GenerateEncoderDecoderOutput` from greedy search and sampling.

        Raises:
            ValueError: Settings are invalid (the message lists all of them), the shortlist belongs to another model,
                or `required_words` come without beam search, with a shortlist, or not for every sentence.
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
        if shortlist is not None:
            only_shortlisted = self._only_shortlisted(shortlist, source)
            logits_processor = LogitsProcessorList([only_shortlisted, *(logits_processor or [])])
        if required_words is not None:
            check_required(required_words, self.config.decoder_vocab_size, settings["num_beams"] or 1)
            num_returned = settings["num_return_sequences"] or 1
            kwargs["start_search"] = partial(ConstrainedBeamSearch, required_words, joining_tokens, num_returned)
        if not return_cache:
            kwargs["return_cache"] = False
        if source is not None and self._can_encode_by_length(source, mask, generation_config, kwargs):
            kwargs["encoder_outputs"] = encode_by_length(self.get_encoder(), source, mask)
        return super().generate(
            inputs,
            generation_config=generation_config,
            logits_processor=logits_processor,
            stopping_criteria=stopping_criteria,
            **kwargs,
        )

    def _can_encode_by_length(
        self, source: torch.Tensor, mask: torch.Tensor | None, config: GenerationConfig | None, arguments: dict
    ) -> bool:
        """Whether short and long sentences can and should be encoded apart.

        On a CPU, padding takes as long as tokens do.
        """
        if mask is None or source.device.type != "cpu" or len(source) < 2 * MIN_ENCODED:
            return False
        configs = config, self.generation_config, self.config
        is_recorded = any(
            arguments.get(name) or any(getattr(config, name, None) for config in configs)
            for name in ("output_attentions", "output_hidden_states")
        )
        has_other_input = any(arguments.get(name) is not None for name in ("encoder_outputs", "inputs_embeds"))
        if is_recorded or has_other_input or not can_step(self.get_encoder()):
            return False
        is_on_the_right = mask[:, 0].all() and (mask[:, 1:] <= mask[:, :-1]).all()
        return bool(is_on_the_right and mask.float().mean() < 1 - MIN_PADDING)

    def _extract_generation_mode_kwargs(self, custom_generate: Any, kwargs: dict, *args, **options) -> dict[str, Any]:
        """The library's arguments of a search, and those of ours that were given."""
        given = {name: kwargs.pop(name) for name in SEARCH_ARGUMENTS if name in kwargs}
        return {**super()._extract_generation_mode_kwargs(custom_generate, kwargs, *args, **options), **given}

    def _prepare_generation_config(self, generation_config: GenerationConfig | None, *args, **kwargs) -> tuple:
        """As the library's, but a length from the caller replaces the checkpoint's, also in the other unit."""
        config, model_kwargs = super()._prepare_generation_config(generation_config, *args, **kwargs)
        given = {} if generation_config is None else generation_config.to_dict()
        given |= {name: value for name, value in kwargs.items() if value is not None}
        for length, new_tokens in LENGTHS:
            if given.get(length) is not None and given.get(new_tokens) is None:
                setattr(config, new_tokens, None)
        return config, model_kwargs

    def _only_shortlisted(self, shortlist: Shortlist, source: torch.Tensor | None) -> OnlyShortlisted:
        if source is None or source.is_floating_point():
            raise ValueError("A shortlist needs the token ids of the source: pass them as `input_ids`.")
        shortlist.check(self.config.vocab_size, vocab_size := self.lm_head.out_features)
        return OnlyShortlisted(shortlist.allowed_tokens(source, vocab_size, self.config.pad_token_id))

    def _settings(self, generation_config: GenerationConfig | None, arguments: dict) -> dict[str, Any]:
        """The settings in force: the arguments of `generate`, else the given configuration, else the model's own."""
        settings = dict.fromkeys(CHECKED_SETTINGS)
        for config in (self.generation_config, generation_config):
            given = {} if config is None else {name: getattr(config, name, None) for name in settings}
            settings |= {name: value for name, value in given.items() if value is not None}
        settings |= {name: arguments[name] for name in settings if name in arguments}
        if settings["max_length"] == VaswaniGenerationConfig.UNLIMITED:
            settings["max_length"] = None
        return settings

    def _length_limits(self, source, mask: torch.Tensor | None, inputs: dict) -> torch.Tensor | None:
        """Each sentence's maximum number of tokens, [B]: the source's (all of them, without a mask) plus 50."""
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
        processors = LogitsProcessorList(NoEndYet(p) if isinstance(p, MIN_LENGTH_PROCESSORS) else p for p in processors)
        if self.config.pad_token_id is None or generation_config.num_beams > 1:  # `_log_probs` rules it out for beams
            return processors
        return LogitsProcessorList([NeverPad(self.config.pad_token_id), *processors])

    def penalty_offset(self, generation_config: GenerationConfig | None = None) -> float:
        """`length_penalty_offset` of these settings, else of the model's own, else the paper's 5."""
        for config in (generation_config, self.generation_config):
            if (offset := getattr(config, "length_penalty_offset", None)) is not None:
                return offset
        return 5

    def compute_transition_scores(
        self,
        sequences: torch.Tensor,
        scores: tuple[torch.Tensor, ...],
        beam_indices: torch.Tensor | None = None,
        normalize_logits: bool = False,
    ) -> torch.Tensor:
        """Compute the score of each generated token, as `GenerationMixin.compute_transition_scores` does.

        The library's method takes the source's vocabulary size for the width of the scores, and after the end of a
        greedy translation gives the score of padding, which is -inf here.

        Args:
            sequences: [B * r, L].
            scores: The `scores` or `logits` of `generate`: for each step [B * n, V].
            beam_indices: The `beam_indices` of `generate`, for beam search: [B * r, steps].
            normalize_logits: Whether to turn scores into log-probabilities first.

        Returns:
            [B * r, steps], 0 after the end.
        """
        steps = torch.stack(tuple(scores))  # [steps, B * n, V]
        if normalize_logits:
            steps = steps.log_softmax(dim=-1)
        if beam_indices is None:
            beam_indices = torch.arange(steps.shape[1], device=sequences.device).unsqueeze(1).expand(-1, len(steps))
        length = int((beam_indices >= 0).sum(dim=-1).max())
        rows, tokens = beam_indices[:, :length].long(), sequences[:, -length:]
        transition_scores = steps[torch.arange(length, device=steps.device), rows.clamp(min=0), tokens]
        is_after_end = rows < 0
        if self.config.pad_token_id is not None:
            is_after_end = is_after_end | (tokens == self.config.pad_token_id)
        return transition_scores.masked_fill(is_after_end, 0.0)

    # Search ----------------------------------------------------------------------------------------------------------

    def _sample(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        streamer: Any = None,
        return_cache: bool = True,
        **model_kwargs,
    ) -> torch.LongTensor | GenerateEncoderDecoderOutput:
        """Run the model and `GreedySearch` in turn: input_ids [B, L] -> sequences [B, L]."""
        config = generation_config
        if streamer is not None or not can_replace_forward(self, config, synced_gpus, model_kwargs):
            return super()._sample(
                input_ids, logits_processor, stopping_criteria, config, synced_gpus, streamer, **model_kwargs
            )
        recorder, (processors, shortlist) = StepRecorder(config), split_processors(logits_processor)
        returns_cache = config.return_dict_in_generate and return_cache
        shares = returns_cache or shortlist is not None or config.num_return_sequences <= MAX_SHARED_SAMPLES
        step = start_steps(self, input_ids, model_kwargs, shortlist, shares)
        short = None if shortlist is None else step.head
        search = GreedySearch(input_ids, self._fill(config), config.do_sample, vocabulary_of(short))
        drops = shares and step.num_beams == 1 and step.can_drop(config, processors, stopping_criteria, return_cache)
        while not search.is_over:
            logits = step(search.input_ids).float()
            scores = logits.clone() if recorder.steps else logits
            if self.config.pad_token_id is not None and short is None:
                scores[:, self.config.pad_token_id] = IMPOSSIBLE
            scores = process(search.input_ids, scores, processors, short)
            recorder.add({}, logits, scores, short)
            search.step(scores, lambda ids: stopping_criteria(ids, recorder.steps.get("scores")))
            if drops and (rows := search.drop_finished()) is not None:
                step.select(rows)
                select_limits(stopping_criteria, rows)
        sequences = search.sequences()
        if not config.return_dict_in_generate:
            return sequences
        cache = step.cache() if returns_cache else None
        return GenerateEncoderDecoderOutput(sequences=sequences, **recorder.fields(model_kwargs, cache))

    def _beam_search(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        return_cache: bool = True,
        start_search: Callable[..., BeamSearch] = BeamSearch,
        **model_kwargs,
    ) -> torch.LongTensor | VaswaniBeamOutput:
        """Run the model and `BeamSearch` in turn: input_ids [B * n, L] -> sequences [B * r, L].

        `start_search` is called as `BeamSearch` is, and returns the search to run.
        """
        config = generation_config
        recorder, (processors, shortlist) = StepRecorder(config), split_processors(logits_processor)
        short, drops = None, False
        if can_replace_forward(self, config, synced_gpus, model_kwargs):
            step = start_steps(self, input_ids, model_kwargs, shortlist)
            short = None if shortlist is None else step.head
            drops = step.can_drop(config, processors, stopping_criteria, return_cache)
        else:
            step = ModelStep(self, config, model_kwargs)
        search = start_search(
            input_ids,
            num_beams=config.num_beams,
            max_length=max_lengths(stopping_criteria, config.max_length),
            alpha=config.length_penalty,
            offset=self.penalty_offset(config),
            early_stopping=config.early_stopping,
            num_ends=0 if config._eos_token_tensor is None else len(config._eos_token_tensor),
            fill=self._fill(config),
            do_sample=config.do_sample,
            records_tokens=config.return_dict_in_generate,
            vocabulary=vocabulary_of(short),
        )
        while True:
            logits = step(search.input_ids)
            if not search.is_over:
                if shortlist is not None and short is None:
                    logits = shortlist(search.input_ids, logits)
                log_probs = self._log_probs(logits, overwrites=not recorder.steps, has_padding=short is None)
                log_probs = process(search.input_ids, log_probs, processors, short)
                recorder.add(step.outputs, logits, log_probs, short)
                step.reorder(search.step(log_probs, lambda ids: stopping_criteria(ids, recorder.steps.get("scores"))))
                if drops and (sentences := search.drop_finished()) is not None:
                    step.select(sentences)
                    select_limits(stopping_criteria, sentences)
            # A process that is done still computes its share of a sharded model for the other processes.
            if not self._has_unfinished_sequences(search.is_over, synced_gpus, input_ids.device):
                break
        best = search.best(config.num_return_sequences)
        if not config.return_dict_in_generate:
            return best.tokens
        return VaswaniBeamOutput(
            sequences=best.tokens,
            sequences_scores=best.scores,
            token_log_probs=best.log_probs,
            beam_indices=best.rows,
            **recorder.fields(model_kwargs, step.cache() if return_cache else None),
        )

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, generation_mode, *args, **kwargs):
        """As the library's, but not for the default cache: a `DecoderStep` has its own, and the decoder makes one."""
        is_default = generation_config.cache_implementation is None and model_kwargs.get(CACHE) is None
        if not (is_default and generation_mode in OWN_MODES):
            return super()._prepare_cache_for_generation(
                generation_config, model_kwargs, generation_mode, *args, **kwargs
            )

    def _fill(self, config: GenerationConfig) -> int:
        """The token that fills a sequence after its end: padding if there is any, else an end token."""
        ends = [] if config._eos_token_tensor is None else config._eos_token_tensor.tolist()
        return next((i for i in (self.config.pad_token_id, *ends) if i is not None), 0)

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


def encode_by_length(encoder: Any, source: torch.Tensor, mask: torch.Tensor) -> BaseModelOutput:
    """The encoder's output for [B, S], computed for groups of sentences of similar length; 0 for padding."""
    lengths = mask.sum(dim=1)
    memory: torch.Tensor | None = None
    for group in lengths.argsort().split(MIN_ENCODED):
        width = int(lengths[group].max())
        encoded = encoder(source[group, :width], attention_mask=mask[group, :width]).last_hidden_state
        memory = encoded.new_zeros(*source.shape, encoded.shape[-1]) if memory is None else memory
        memory[group, :width] = encoded
    return BaseModelOutput(last_hidden_state=memory)


def split_processors(processors: LogitsProcessorList) -> tuple[LogitsProcessorList, OnlyShortlisted | None]:
    """The processors that our searches have to call, and the shortlist, if any, which they apply by themselves."""
    to_call = LogitsProcessorList(p for p in processors if not isinstance(p, (NeverPad, OnlyShortlisted)))
    return to_call, next((p for p in processors if isinstance(p, OnlyShortlisted)), None)


def vocabulary_of(short: ShortProduct | None) -> torch.Tensor | None:
    return None if short is None else short.vocabulary


def process(
    input_ids: torch.Tensor, scores: torch.Tensor, processors: LogitsProcessorList, short: ShortProduct | None
) -> torch.Tensor:
    """Apply the processors to scores [R, V], or [R, K] over the vocabulary of a short product."""
    if all(isinstance(p, NoEndYet) and p.is_over(input_ids) for p in processors):
        return scores
    if short is None:
        return processors(input_ids, scores)
    return processors(input_ids, short.widen(scores)).index_select(1, short.vocabulary)


__all__ = ["VaswaniGenerationMixin", "length_penalty", "paper_generation_config"]
