"""The mechanics behind equation 1: beams that share keys, sources packed for flash attention, and caches.

The model computes queries, keys and values, and calls `attend` with a kernel (the paper's formula or a faster one).

Shapes: B sentences, n beams of each (1 except in beam search), T queries, S keys, H heads of width K or V.
"""

from collections.abc import Callable

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.cache_utils import EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils.deprecation import deprecate_kwarg


# The name of the cache in transformers' arguments and outputs: `past_key_values` before version 5.24.
CACHE = "cache" if hasattr(BaseModelOutputWithPast, "cache") else "past_key_values"

# Lets `forward` take the cache by either name. A version of the past means: rename it without a warning.
accepts_past_key_values = deprecate_kwarg("past_key_values", version="5.0", new_name="cache")


def attend(
    kernel: Callable,
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Equation 1 by `kernel`: query [B * n, H, T, K], key [B, H, S, K], value [B, H, S, V] -> [B * n, T, H, V].

    Also returns the weights [B * n, H, T, S], if the kernel has any. The n beams of a sentence may share one row of
    keys and values. They then attend as one row of n * T queries, so that keys and values are not copied.
    """
    rows, _, length, _ = query.shape
    if key.shape[0] != rows:
        query = query.unflatten(0, (key.shape[0], -1)).transpose(1, 2).flatten(2, 3)  # [B, H, n * T, K]
    if module.is_cross and attention_mask is not None and len(attention_mask.shape) == 2:
        key, value, packing = pack_source(query, key, value, attention_mask.bool())
        attention_mask, kwargs = None, {**kwargs, **packing}

    dropout = module.config.attention_dropout if module.training else 0.0
    heads, weights = kernel(
        module, query, key, value, attention_mask, dropout=dropout, scaling=module.scaling, **kwargs
    )
    if weights is not None and weights.shape[0] != rows:
        weights = weights.unflatten(2, (-1, length)).transpose(1, 2).flatten(0, 1)
    return heads.reshape(rows, length, *heads.shape[-2:]), weights


def pack_source(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, dict]:
    """Pack the real tokens of all rows into one: keys [B, H, S, K] -> [1, H, all lengths, K], and each row's offset.

    Flash attention needs this in cross-attention: it would apply a mask [B, S] to the queries, too.
    """

    def pack(x: torch.Tensor) -> torch.Tensor:
        by_token = x[:, :, : mask.shape[1]].transpose(1, 2)  # [B, S, H, K]; a static cache has more slots than S
        return by_token[mask].transpose(0, 1).unsqueeze(0)

    lengths, queries = mask.sum(dim=-1, dtype=torch.int32), query.shape[2]
    packing = {
        "cu_seq_lens_q": torch.arange(len(mask) + 1, dtype=torch.int32, device=mask.device) * queries,
        "cu_seq_lens_k": nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0)),
        "max_length_q": queries,
        "max_length_k": int(lengths.max()),
    }
    return pack(key), pack(value), packing


def padding_mask(
    config: PreTrainedConfig, input_ids: torch.Tensor | None, attention_mask: torch.Tensor | None
) -> torch.Tensor | None:
    """The source's mask [B, S]: the given one, else 0 where `input_ids` is padding."""
    if attention_mask is None and input_ids is not None and config.pad_token_id is not None:
        return input_ids.ne(config.pad_token_id).long()
    return attention_mask


def cross_attention_mask(
    config: PreTrainedConfig, hidden_states: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor | None:
    """The mask of cross-attention in the kernel's form: targets [B * n, T, D], memory [B, S, D], mask [B, S]."""
    queries = hidden_states.reshape(memory.shape[0], -1, hidden_states.shape[-1])  # [B, n * T, D]
    return create_bidirectional_mask(
        config=config, inputs_embeds=queries, attention_mask=mask, encoder_hidden_states=memory
    )


# Caches --------------------------------------------------------------------------------------------------------------


def store_target(cache: EncoderDecoderCache | None, layer: int, key: torch.Tensor, value: torch.Tensor):
    """Store keys and values of the target's new tokens, and return those of all its tokens so far."""
    return (key, value) if cache is None else cache.self_attention_cache.update(key, value, layer)


def store_source(cache: EncoderDecoderCache | None, layer: int, key: torch.Tensor, value: torch.Tensor):
    """Store keys and values of the source for the next steps, and return them."""
    if cache is None:
        return key, value
    cache.is_updated[layer] = True
    return cache.cross_attention_cache.update(key, value, layer)


def stored_source(cache: EncoderDecoderCache | None, layer: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The stored keys and values of the source, or None in the first step."""
    if cache is None or not cache.is_updated.get(layer):
        return None
    stored = cache.cross_attention_cache.layers[layer]
    return stored.keys, stored.values
