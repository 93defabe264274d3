"""The decoder of modeling_vaswani.py, prepared to generate one token at a time.

In generation a step's matrix products are small, and everything around them (modules, masks, views) takes as long as
they do. Here whatever is the same in every step is done once. The n beams of a sentence share its source, and one row
of slots for their keys and values. Slots are written once and never moved: choosing beams only permutes a mask.

Shapes: B sentences, n beams of each, R = B * n rows, S source tokens, D = d_model, H heads of width K (or V for
values), L slots: (t_1 beam_1, ..., t_1 beam_n, t_2 beam_1, ...), V vocabulary.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from transformers import GenerationConfig
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache

from .attention_vaswani import CACHE
from .cpu_vaswani import fast_linear
from .settings_vaswani import ROW_INDEPENDENT
from .shortlist_vaswani import OnlyShortlisted, ShortProduct


INITIAL_CAPACITY = 64  # tokens that fit before the slots have to grow


def can_step(decoder: nn.Module) -> bool:
    """Whether steps can bypass the decoder's `forward`: its modules have no hooks and no replaced `forward`.

    Linear maps may have both: `fast_linear` calls a layer that is not plain (adapted, hooked) as it is.
    """
    if decoder.training or decoder.config._attn_implementation != "sdpa" or torch_module._has_any_global_hook():
        return False
    changed = (m for m in decoder.modules() if m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m))
    return all(hasattr(module, "in_features") for module in changed)


def can_replace_forward(model: Any, config: GenerationConfig, synced_gpus: bool, model_kwargs: dict) -> bool:
    """Whether a `DecoderStep` can replace `forward`: the model is unchanged, and only its logits are needed."""
    cache = model_kwargs.get(CACHE)
    return (
        type(model).forward.__qualname__ == "VaswaniForConditionalGeneration.forward"
        and not ("forward" in vars(model) or model._forward_hooks or model._forward_pre_hooks)
        and model._compiled_call_impl is None
        and not (synced_gpus or hasattr(model, "hf_device_map") or torch.compiler.is_compiling())
        and can_step(model.get_decoder())
        and model_kwargs["use_cache"]
        and not (config.output_attentions or config.output_hidden_states)
        and model_kwargs.get("decoder_attention_mask") is None
        and config.cache_implementation in (None, "dynamic")
        and not getattr(cache, "_is_user_defined", False)
        and (cache is None or cache.get_seq_length() == 0)
    )


def start_steps(
    model: Any,
    input_ids: torch.LongTensor,
    model_kwargs: dict,
    shortlist: OnlyShortlisted | None,
    shares: bool = True,
) -> "DecoderStep":
    """Prepare the steps of a search over rows [R, L], for which `can_replace_forward` holds.

    With `shares` the n rows of a sentence share its source and one row of slots. Attention to the target then takes
    longer, as it also computes the masked slots of the other rows.
    """
    memory, mask = model_kwargs["encoder_outputs"][0], model_kwargs.get("attention_mask")
    if not shares:
        rows = len(input_ids) // len(memory)
        memory = memory.repeat_interleave(rows, dim=0)
        mask = None if mask is None else mask.repeat_interleave(rows, dim=0)
    head = None if shortlist is None else ShortProduct(model.lm_head, shortlist.allowed)
    return DecoderStep(model, memory, mask, len(input_ids) // len(memory), head)


class DecoderStep:
    """The decoder and the pre-softmax product: all tokens so far, [R, T] -> logits of the next token, [R, V].

    Args:
        model: A `VaswaniForConditionalGeneration` for which `can_step` holds.
        memory: The encoder's output, [B, S, D].
        memory_mask: [B, S] with 0 for padding, or None.
        num_beams: n.
        head: Replaces the pre-softmax product, if given.
    """

    outputs: dict = {}  # a `ModelStep` has attentions and hidden states here

    def __init__(
        self,
        model: nn.Module,
        memory: torch.Tensor,
        memory_mask: torch.Tensor | None = None,
        num_beams: int = 1,
        head: Any = None,
    ):
        decoder = model.get_decoder()
        self.embed, self.embedding, self.norm = decoder.embed_tokens, decoder.embedding, decoder.norm
        self.config, self.num_beams, self.length = model.config, num_beams, 0
        self.layers = [LayerStep(layer, memory, num_beams) for layer in decoder.layers]
        self.head = fast_linear(model.lm_head, len(memory) * num_beams) if head is None else head
        self.masked_value = torch.finfo(memory.dtype).min
        self.memory_mask = None
        if memory_mask is not None and not memory_mask.all():
            self.memory_mask = memory.new_zeros(memory.shape[0], 1, 1, memory.shape[1])  # [B, 1, 1, S]
            self.memory_mask.masked_fill_(memory_mask[:, None, None] == 0, self.masked_value)
        self.self_mask = memory.new_full((num_beams, num_beams), self.masked_value)
        self.self_mask.fill_diagonal_(0.0)  # in the slots of the current step, each beam sees only its own
        self.mask = memory.new_empty(memory.shape[0], 1, num_beams, 0)  # [B, 1, n, L]
        self.positions = memory.new_empty(0, self.config.d_model)
        # Hooks may depend on which row they see.
        watched = (*decoder.modules(), *model.lm_head.modules())
        self.has_hooks = any(module._forward_hooks or module._forward_pre_hooks for module in watched)

    def can_drop(self, config: GenerationConfig, processors: Iterable, criteria: Iterable, return_cache: bool) -> bool:
        """Whether finished sentences can leave the batch: nothing depends on the row, or records all rows."""
        records = config.return_dict_in_generate and (config.output_scores or config.output_logits or return_cache)
        steps = (*processors, *criteria)
        are_independent = all(type(x) in ROW_INDEPENDENT or getattr(x, "row_independent", False) for x in steps)
        return are_independent and not (records or self.has_hooks)

    def __call__(self, input_ids: torch.Tensor) -> torch.Tensor:
        for tokens in input_ids[:, self.length :].unbind(dim=1):  # one token, except in the first call
            x = self.run_layers(tokens)
        return self.head(self.norm.forward(x))

    def run_layers(self, tokens: torch.Tensor) -> torch.Tensor:
        """[R] -> [R, D]"""
        self.config.check_length(self.length + 1)
        if self.length == len(self.positions):
            self.grow(max(INITIAL_CAPACITY, 2 * self.length))
        begin, end = self.length * self.num_beams, (self.length + 1) * self.num_beams
        x = self.embed_tokens(tokens)
        if self.num_beams > 1:
            self.mask[..., begin:end] = self.self_mask
        mask = self.mask[..., :end] if self.num_beams > 1 else None
        for layer in self.layers:
            x = layer(x, begin, end, mask, self.memory_mask)
        self.length += 1
        return x

    def embed_tokens(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scaled embeddings plus the current position: [R] -> [R, D]."""
        embedded = self.embed(tokens)
        if self.config.zero_pad_embedding and self.config.pad_token_id is not None:
            embedded = embedded * (tokens != self.config.pad_token_id).unsqueeze(-1)
        if self.config.position_encoding == "none":
            return embedded * self.embedding.scale
        return torch.add(self.positions[self.length], embedded, alpha=self.embedding.scale)

    def grow(self, capacity: int):
        """Make room for `capacity` tokens, and keep what has been written."""
        device, dtype = self.mask.device, self.mask.dtype
        if (max_length := self.config.longest_sequence) is not None:
            capacity = min(capacity, max_length)
        if self.config.position_encoding != "none":
            self.positions = self.embedding.encode(torch.arange(capacity, device=device)).to(dtype)
        else:
            self.positions = self.positions.new_empty(capacity, 0)
        mask = self.mask.new_empty(*self.mask.shape[:3], capacity * self.num_beams).fill_(self.masked_value)
        mask[..., : self.mask.shape[-1]] = self.mask
        self.mask = mask
        for layer in self.layers:
            layer.grow(capacity * self.num_beams)

    def reorder(self, rows: torch.Tensor):
        """Let row i continue row `rows[i]`: [R], rows of the whole batch."""
        if self.num_beams > 1:
            self.mask = self.mask.flatten(0, 2).index_select(0, rows).view_as(self.mask)

    def cache(self) -> EncoderDecoderCache:
        """The keys and values as a cache of the library: for the target each beam's own history, [R, H, T, K]."""
        n, length = self.num_beams, self.length
        slots = torch.arange(length, device=self.mask.device).expand(len(self.mask), length)
        if n > 1:
            slots = (self.mask[..., : n * length] == 0).flatten(0, 2).nonzero()[:, 1]
        slots = slots.reshape(len(self.mask), 1, n * length, 1)
        target, source = DynamicCache(), DynamicCache()
        for i, layer in enumerate(self.layers):
            histories = (x.gather(2, slots.expand(-1, x.shape[1], -1, x.shape[3])) for x in (layer.keys, layer.values))
            keys, values = (x.unflatten(2, (n, length)).transpose(1, 2).flatten(0, 1) for x in histories)
            target.update(keys, values, i)
            source.update(layer.memory_keys, layer.memory_values, i)
        return EncoderDecoderCache(target, source)

    def select(self, sentences: torch.Tensor):
        """Keep these sentences only: indices [b], which become sentences 0 to b - 1."""
        self.mask = self.mask.index_select(0, sentences)
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask.index_select(0, sentences)
        if isinstance(self.head, ShortProduct):
            self.head.select(sentences)
        for layer in self.layers:
            layer.select(sentences, self.length * self.num_beams)


class LayerStep:
    """One decoder layer, for one new token per row: [R, D] -> [R, D]."""

    def __init__(self, layer: nn.Module, memory: torch.Tensor, num_beams: int):
        rows = len(memory) * num_beams
        attention, cross, feed_forward = layer.self_attn, layer.cross_attn, layer.feed_forward
        self.heads, self.scaling = attention.num_heads, attention.scaling
        self.d_k, self.d_v = attention.d_k, attention.d_v
        self.pre_norm = layer.pre_norm
        self.norms = [layer.self_attn_norm.forward, layer.cross_attn_norm.forward, layer.feed_forward_norm.forward]
        self.qkv, self.self_out = fast_linear(attention.qkv_proj, rows), fast_linear(attention.out_proj, rows)
        self.query, self.cross_out = fast_linear(cross.q_proj, rows), fast_linear(cross.out_proj, rows)
        self.fc1, self.fc2 = fast_linear(feed_forward.fc1, rows), fast_linear(feed_forward.fc2, rows)
        self.activation = feed_forward.activation
        keys_values = fast_linear(cross.kv_proj)(memory.flatten(0, 1)).unflatten(0, memory.shape[:2])
        key, value = keys_values.split((self.heads * self.d_k, self.heads * self.d_v), dim=-1)
        self.memory_keys = key.unflatten(-1, (self.heads, -1)).transpose(1, 2).contiguous()  # [B, H, S, K]
        self.memory_values = value.unflatten(-1, (self.heads, -1)).transpose(1, 2).contiguous()  # [B, H, S, V]
        self.keys = memory.new_empty(len(memory), self.heads, 0, self.d_k)  # [B, H, L, K]
        self.values = memory.new_empty(len(memory), self.heads, 0, self.d_v)  # [B, H, L, V]

    def __call__(
        self, x: torch.Tensor, begin: int, end: int, mask: torch.Tensor | None, memory_mask: torch.Tensor | None
    ) -> torch.Tensor:
        x = self.add_and_norm(0, x, self.attend_to_target, begin, end, mask)
        x = self.add_and_norm(1, x, self.attend_to_source, memory_mask)
        return self.add_and_norm(2, x, self.feed_forward)

    def add_and_norm(self, sublayer: int, x: torch.Tensor, function: Callable, *args) -> torch.Tensor:
        """LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x))."""
        norm = self.norms[sublayer]
        if self.pre_norm:
            return function(norm(x), *args).add_(x)
        return norm(function(x, *args).add_(x))

    def attend_to_target(self, x: torch.Tensor, begin: int, end: int, mask: torch.Tensor | None) -> torch.Tensor:
        """Write the slots from `begin` to `end`, and attend to all slots up to `end`."""
        width = self.heads * self.d_k
        projected = self.qkv(x).view(len(self.keys), -1, 2 * width + self.heads * self.d_v)  # [B, n, H * (2 K + V)]
        self.keys[:, :, begin:end] = self.split_heads(projected[..., width : 2 * width], self.d_k)
        self.values[:, :, begin:end] = self.split_heads(projected[..., 2 * width :], self.d_v)
        query = self.split_heads(projected[..., :width], self.d_k)
        return self.self_out(self.attention(query, self.keys[:, :, :end], self.values[:, :, :end], mask))

    def attend_to_source(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        query = self.split_heads(self.query(x).view(len(self.memory_keys), -1, self.heads * self.d_k), self.d_k)
        return self.cross_out(self.attention(query, self.memory_keys, self.memory_values, mask))

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.activation.forward(self.fc1(x)))

    def split_heads(self, x: torch.Tensor, width: int) -> torch.Tensor:
        """[B, n, H * width] -> [B, H, n, width]"""
        return x.view(*x.shape[:2], self.heads, width).transpose(1, 2)

    def attention(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """Equation 1: [B, H, n, K], [B, H, L, K], [B, H, L, V] -> [R, H * V]."""
        heads = nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=self.scaling)
        return heads.transpose(1, 2).reshape(-1, self.heads * self.d_v)

    def grow(self, slots: int):
        self.keys, self.values = with_slots(self.keys, slots), with_slots(self.values, slots)

    def select(self, sentences: torch.Tensor, written: int):
        """Keep these sentences only, [b], and of their slots those that are written."""
        slots = self.keys.shape[2]
        self.keys = with_slots(self.keys[:, :, :written].index_select(0, sentences), slots)
        self.values = with_slots(self.values[:, :, :written].index_select(0, sentences), slots)
        self.memory_keys = self.memory_keys.index_select(0, sentences)
        self.memory_values = self.memory_values.index_select(0, sentences)


def with_slots(written: torch.Tensor, slots: int) -> torch.Tensor:
    """[B, H, L, K] -> [B, H, slots, K], with room after the L written slots."""
    store = written.new_empty(*written.shape[:2], slots, written.shape[3])
    store[:, :, : written.shape[2]] = written
    return store


# The model's own forward ---------------------------------------------------------------------------------------------


class ModelStep:
    """The model's own `forward` with the library's caches, for cases that a `DecoderStep` cannot handle.

    All tokens so far, [B * n, T] -> logits of the next token, [B * n, V]. `outputs` holds the model's whole output.
    """

    def __init__(self, model: Any, config: GenerationConfig, model_kwargs: dict):
        self.model, self.config, self.model_kwargs = model, config, model_kwargs
        self.outputs: Any = None

    def __call__(self, input_ids: torch.LongTensor) -> torch.Tensor:
        if self.outputs is None:
            self.outputs = self.model._prefill(input_ids, self.config, self.model_kwargs)
        else:
            length = 1 if self.model_kwargs["use_cache"] else None
            inputs = self.model.prepare_inputs_for_generation(
                input_ids, next_sequence_length=length, **self.model_kwargs
            )
            self.outputs = self.model(**inputs, return_dict=True)
        self.model_kwargs = self.model._update_model_kwargs_for_generation(
            self.outputs, self.model_kwargs, is_encoder_decoder=True
        )
        return self.outputs.logits[:, -1]

    def cache(self) -> Cache | None:
        return self.model_kwargs.get(CACHE)

    def reorder(self, rows: torch.Tensor):
        """Let row i continue row `rows[i]`: [B * n]."""
        if (cache := self.model_kwargs.get(CACHE)) is not None:
            self.model._reorder_cache(cache, rows)
