"""The paper's beam search (section 6.1) on top of `GenerationMixin`.

Beam size 4, hypotheses ranked by log P / ((5 + length) / 6)^alpha with alpha = 0.6 (Wu et al. 2016, equation 14),
at most input length + 50 tokens, and an early end only where no running hypothesis can do better any more. The numbers
are set in `generation_config.json`; `length_penalty` is alpha. Other toolkits rank by log P / length^alpha: there
`length_penalty_offset`, the 5 of the formula, is 0.

Two things make it fast. The beams of a sentence share the encoder's keys and values, which are neither copied nor
reordered; and the keys and values of the target stay where they were written, while a mask follows the beams.

Shapes: B sentences, n beams, N candidates for each sentence, L tokens so far, V vocabulary.
"""

import copy

import torch
from transformers import (
    GenerationConfig,
    GenerationMixin,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache


EXTRA_LENGTH = 50
IMPOSSIBLE = -1.0e9


def paper_generation_config(**overrides) -> GenerationConfig:
    """The paper's settings (section 6.1), for `model.generation_config` and so for `generation_config.json`.

    A model's generation configuration also needs its `pad_token_id`, `eos_token_id` and `decoder_start_token_id`.
    """
    settings = dict(num_beams=4, length_penalty=0.6, early_stopping="never")
    return GenerationConfig(**{**settings, **overrides})


def length_penalty(length: int | torch.Tensor, alpha: float, offset: float = 5) -> float | torch.Tensor:
    """((5 + length) / 6)^alpha, by which log P is divided (section 6.1); with an offset of 0, length^alpha."""
    return ((offset + length) / (offset + 1)) ** alpha


class SourceLengthLimit(StoppingCriteria):
    """Ends a sentence at its own limit, whatever the limits of its batch mates: limits [B], in tokens."""

    def __init__(self, limits: torch.Tensor):
        self.limits = limits

    def __call__(self, input_ids: torch.LongTensor, scores, **kwargs) -> torch.BoolTensor:
        rows = input_ids.shape[0] // self.limits.shape[0]
        return input_ids.shape[1] > self.limits.to(input_ids.device).repeat_interleave(rows)


class NeverPad(LogitsProcessor):
    """Keeps padding from being produced; with `renormalize`, the probabilities of all other tokens add up to 1."""

    def __init__(self, pad_token_id: int, renormalize: bool):
        self.pad_token_id = pad_token_id
        self.renormalize = renormalize

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        scores = scores.index_fill(-1, torch.tensor([self.pad_token_id], device=scores.device), float("-inf"))
        return scores.log_softmax(dim=-1) if self.renormalize else scores


class BeamCache(Cache):
    """Keys and values of the target in beam search, written once and never moved.

    The n beams of a sentence share one row of slots, [B, H, (t_1 beam_1, ..., t_1 beam_n, t_2 beam_1, ...), d]. Which
    slots belong to a beam's own history is kept in a mask, and choosing beams permutes that mask alone.
    """

    is_compileable = False

    def __init__(self, num_beams: int, max_length: int):
        self.num_beams, self.max_length = num_beams, max_length
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        self.lengths: list[int] = []
        self.visible: torch.Tensor | None = None  # [B, n, slots written by all layers]

    def __len__(self) -> int:
        return len(self.keys)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.lengths[layer_idx] if layer_idx < len(self.lengths) else 0

    def attention_mask(self, batch_size: int, new: int, device: torch.device) -> torch.Tensor:
        """Which slots each of `new` tokens of each beam may attend to, the new ones included: bool [B, 1, n * new, S].

        Call once for each forward pass, before the layers write their keys and values.
        """
        n = self.num_beams
        if self.visible is None:
            self.visible = torch.zeros(batch_size // n, n, 0, dtype=torch.bool, device=device)
        own = torch.eye(n, dtype=torch.bool, device=device)
        causal = torch.ones(new, new, dtype=torch.bool, device=device).tril()
        fresh = (own[:, None, None, :] & causal[None, :, :, None]).reshape(1, n * new, new * n)
        past = self.visible.repeat_interleave(new, dim=1)
        self.visible = torch.cat((self.visible, own.repeat(1, new).expand(len(past), -1, -1)), dim=-1)
        return torch.cat((past, fresh.expand(len(past), -1, -1)), dim=-1).unsqueeze(1)

    def update(self, key: torch.Tensor, value: torch.Tensor, layer_idx: int, *args, **kwargs):
        """[B * n, H, T, d] of new tokens -> all slots written so far, [B, H, slots, d]."""
        n, new = self.num_beams, key.shape[2]
        if layer_idx == len(self.keys):
            for store, x in ((self.keys, key), (self.values, value)):
                store.append(x.new_empty(x.shape[0] // n, x.shape[1], self.max_length * n, x.shape[3]))
            self.lengths.append(0)
        start = self.lengths[layer_idx]
        self.lengths[layer_idx] = end = start + new
        for store, x in ((self.keys, key), (self.values, value)):
            # [B * n, H, T, d] -> [B, H, T, n, d]
            x = x.unflatten(0, (-1, n)).permute(0, 2, 3, 1, 4)
            store[layer_idx][:, :, start * n : end * n] = x.flatten(2, 3)
        return self.keys[layer_idx][:, :, : end * n], self.values[layer_idx][:, :, : end * n]

    def reorder_cache(self, beam_idx: torch.LongTensor):
        """Beam i of a sentence goes on from beam beam_idx[i]: beam_idx [B * n], rows of the whole batch."""
        self.visible = self.visible.flatten(0, 1)[beam_idx].unflatten(0, (-1, self.num_beams))


def best_tokens(scores: torch.Tensor, count: int, width: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` highest scores of each row and their tokens, best first: [R, V] -> twice [R, count] (or [R, V]).

    As `scores.topk(count)`, in a quarter of its time: the best are in the `count` blocks with the highest maxima.
    """
    rows, vocab_size = scores.shape
    whole = vocab_size // width * width
    if vocab_size < 4 * width * count:
        return scores.topk(min(count, vocab_size), dim=-1)
    blocks = scores[:, :whole].unflatten(-1, (-1, width)).amax(dim=-1).topk(count, dim=-1).indices
    tokens = torch.arange(vocab_size, device=scores.device)
    candidates = torch.cat((tokens[:whole].view(-1, width)[blocks].flatten(1), tokens[whole:].expand(rows, -1)), dim=-1)
    top, index = scores.gather(-1, candidates).topk(count, dim=-1)
    return top, candidates.gather(-1, index)


class VaswaniGenerationMixin(GenerationMixin):
    """`generate` with the paper's length penalty and length limit."""

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
        `max_new_tokens`, each sentence may become as long as its source plus 50 tokens.
        """
        source = inputs if inputs is not None else kwargs.get("input_ids")
        mask, pad_token_id = kwargs.get("attention_mask"), self.config.pad_token_id
        if mask is None and source is not None and pad_token_id is not None:
            mask = kwargs["attention_mask"] = source.ne(pad_token_id).long()

        limits = self._length_limits(source, mask, kwargs)
        if limits is not None and not self._length_is_given(generation_config, kwargs):
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

    def _length_is_given(self, generation_config: GenerationConfig | None, arguments: dict) -> bool:
        """Whether an argument, a configuration or the model's own settings, in this order, name a length."""

        def value(name):
            if name in arguments:
                return arguments[name]
            given = None if generation_config is None else getattr(generation_config, name)
            return getattr(self.generation_config, name) if given is None else given

        return any(value(name) is not None for name in ("max_length", "max_new_tokens"))

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
        if self.config.position_encoding == "learned":
            limits = limits.clamp(max=self.config.max_position_embeddings - self.config.position_offset)
        return limits

    def _get_logits_processor(self, generation_config: GenerationConfig, *args, **kwargs) -> LogitsProcessorList:
        processors = super()._get_logits_processor(generation_config, *args, **kwargs)
        if self.config.pad_token_id is not None:
            never_pad = NeverPad(self.config.pad_token_id, renormalize=generation_config.num_beams > 1)
            processors = LogitsProcessorList([never_pad, *processors])
        return processors

    # Rows of one sentence share its source: only what belongs to the target is expanded and reordered.

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

    def penalty_offset(self, generation_config: GenerationConfig | None = None) -> float:
        """`length_penalty_offset` of these settings, else of the model's own, else the paper's."""
        for config in (generation_config, self.generation_config):
            if (offset := getattr(config, "length_penalty_offset", None)) is not None:
                return offset
        return 5

    # The length penalty: GenerationMixin divides by length^alpha, and counts length from `decoder_prompt_len`.

    def _update_finished_beams(self, *, topk_log_probs, decoder_prompt_len, length_penalty, **kwargs):
        return super()._update_finished_beams(
            topk_log_probs=topk_log_probs * (1 + self._penalty_offset) ** length_penalty,
            decoder_prompt_len=decoder_prompt_len - self._penalty_offset,
            length_penalty=length_penalty,
            **kwargs,
        )

    def _check_early_stop_heuristic(self, *, running_beam_scores, decoder_prompt_len, length_penalty, **kwargs):
        return super()._check_early_stop_heuristic(
            running_beam_scores=running_beam_scores * (1 + self._penalty_offset) ** length_penalty,
            decoder_prompt_len=decoder_prompt_len - self._penalty_offset,
            length_penalty=length_penalty,
            **kwargs,
        )

    def _beam_search(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        **model_kwargs,
    ):
        """`GenerationMixin`'s beam search step for step, without its copies of all scores and of the cache.

        Sampling, and callers that ask for more than the sequences, get `GenerationMixin`'s own loop.
        """
        config, n = generation_config, generation_config.num_beams
        self._penalty_offset = self.penalty_offset(config)
        if synced_gpus or config.do_sample or config.return_dict_in_generate:
            only_sequences, config.return_dict_in_generate = not config.return_dict_in_generate, True
            output = super()._beam_search(
                input_ids, logits_processor, stopping_criteria, config, synced_gpus=synced_gpus, **model_kwargs
            )
            if self.config.pad_token_id is not None:
                # GenerationMixin takes a padding id of 0 for none and fills with `</s>`.
                lengths = input_ids.shape[1] + (output.beam_indices >= 0).sum(dim=-1, keepdim=True)
                positions = torch.arange(output.sequences.shape[1], device=lengths.device)
                output.sequences.masked_fill_(positions >= lengths, self.config.pad_token_id)
            return output.sequences if only_sequences else output
        model_kwargs = self._with_beam_cache(model_kwargs, config)
        pad_token_id = self.config.pad_token_id
        processors = LogitsProcessorList(p for p in logits_processor if not isinstance(p, NeverPad))
        prompt_length, device = input_ids.shape[1], input_ids.device
        batch_size = input_ids.shape[0] // n
        eos = config._eos_token_tensor
        candidates_kept = max(2, 1 + (0 if eos is None else len(eos))) * n

        def pick(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            """x [B, N, ...], index [B, M] -> [B, M, ...]"""
            return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(*index.shape, *x.shape[2:]))

        fill = eos[0] if pad_token_id is None else pad_token_id
        finished = torch.full((batch_size, n, config.max_length), int(fill), device=device)
        finished_lengths = torch.full((batch_size, n), prompt_length, device=device)
        finished_scores = torch.full((batch_size, n), IMPOSSIBLE, device=device)
        is_finished = torch.zeros((batch_size, n), dtype=torch.bool, device=device)
        can_improve = torch.ones((batch_size, 1), dtype=torch.bool, device=device)
        running = input_ids.unflatten(0, (batch_size, n))  # [B, n, L]
        running_scores = torch.full((batch_size, n), IMPOSSIBLE, device=device)
        running_scores[:, 0] = 0.0  # the beams are still the same: only one of them counts

        outputs = self._prefill(input_ids, config, model_kwargs)
        while True:
            model_kwargs = self._update_model_kwargs_for_generation(outputs, model_kwargs, is_encoder_decoder=True)
            scores = outputs.logits[:, -1, :].float()
            if pad_token_id is not None:
                scores[:, pad_token_id] = float("-inf")
            scores = scores.log_softmax(dim=-1)
            if processors:
                scores = processors(running.flatten(0, 1), scores)

            # The best candidates of each beam, then of each sentence.
            top, tokens = best_tokens(scores, candidates_kept)  # [B * n, N]
            top = top.unflatten(0, (batch_size, n)) + running_scores.unsqueeze(-1)
            log_probs, index = top.flatten(1).topk(candidates_kept, dim=-1)  # [B, N]
            parents = index // tokens.shape[-1]
            tokens = tokens.unflatten(0, (batch_size, n)).flatten(1).gather(1, index)
            candidates = torch.cat((pick(running, parents), tokens.unsqueeze(-1)), dim=-1)  # [B, N, L + 1]
            length = candidates.shape[-1]
            has_ended = stopping_criteria(candidates.flatten(0, 1), None).unflatten(0, (batch_size, -1))

            # Those that go on.
            running_scores, chosen = (log_probs + has_ended * IMPOSSIBLE).topk(n, dim=-1)
            running, parents = pick(candidates, chosen), pick(parents, chosen)

            # Those that ended among the best n, with their final scores.
            penalty = length_penalty(length - prompt_length, config.length_penalty, self._penalty_offset)
            ends = has_ended & (torch.arange(candidates_kept, device=device) < n)
            full = is_finished.all(dim=1, keepdim=True) & (config.early_stopping is True)
            final = log_probs / penalty + (~ends | full | ~can_improve) * IMPOSSIBLE
            finished_scores, index = torch.cat((finished_scores, final), dim=1).topk(n, dim=-1)
            padding = finished.new_full((*candidates.shape[:2], config.max_length - length), int(fill))
            finished = pick(torch.cat((finished, torch.cat((candidates, padding), dim=-1)), dim=1), index)
            finished_lengths = pick(
                torch.cat((finished_lengths, torch.full_like(candidates[..., 0], length)), dim=1), index
            )
            is_finished = pick(torch.cat((is_finished, ends), dim=1), index)

            can_improve = self._check_early_stop_heuristic(
                is_early_stop_heuristic_unsatisfied=can_improve,
                running_beam_scores=running_scores,
                beam_scores=finished_scores,
                is_sent_finished=is_finished,
                cur_len=length,
                max_length=config.max_length,
                decoder_prompt_len=prompt_length,
                early_stopping=config.early_stopping,
                length_penalty=config.length_penalty,
            )
            all_full = is_finished.all() & (config.early_stopping is True)
            if not (can_improve.any() & ~all_full & ~has_ended.all()):
                break

            rows = parents + torch.arange(batch_size, device=device).unsqueeze(-1) * n
            if model_kwargs.get("past_key_values") is not None:
                self._reorder_cache(model_kwargs["past_key_values"], rows.flatten())
            inputs = self.prepare_inputs_for_generation(
                running.flatten(0, 1), next_sequence_length=1 if model_kwargs["use_cache"] else None, **model_kwargs
            )
            outputs = self(**inputs, return_dict=True)

        returned = config.num_return_sequences
        return finished[:, :returned, : finished_lengths[:, :returned].max()].flatten(0, 1)

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
        )
        if not fits:
            return model_kwargs
        cache = EncoderDecoderCache(BeamCache(config.num_beams, config.max_length), cache.cross_attention_cache)
        return {**model_kwargs, "past_key_values": cache}
