"""What is under equation 1: beams that share keys, sources packed for flash attention, and caches.

The model computes queries, keys and values, and calls `attend` with a kernel (the paper's formula or a faster one).

Shapes: B sentences, n beams of each (1 except in beam search), T queries, S keys, H heads of width K or V.
"""

from collections.abc import Callable

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask


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

    With them the weights [B * n, H, T, S], if the kernel has any. The n beams of a sentence may share one row of keys
    and values. They then attend as one row of n * T queries, so that keys and values need no copies.
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
    """Packs the real tokens of all rows into one: keys [B, H, S, K] -> [1, H, all lengths, K], and each row's offset.

    Flash attention needs this in cross-attention, which would apply a mask [B, S] to the queries as well.
    """

    def packed(x: torch.Tensor) -> torch.Tensor:
        by_token = x[:, :, : mask.shape[1]].transpose(1, 2)  # [B, S, H, K]; a static cache has more slots than S
        return by_token[mask].transpose(0, 1).unsqueeze(0)

    lengths, queries = mask.sum(dim=-1, dtype=torch.int32), query.shape[2]
    packing = {
        "cu_seq_lens_q": torch.arange(len(mask) + 1, dtype=torch.int32, device=mask.device) * queries,
        "cu_seq_lens_k": nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0)),
        "max_length_q": queries,
        "max_length_k": int(lengths.max()),
    }
    return packed(key), packed(value), packing


def padding_mask(
    config: PreTrainedConfig, input_ids: torch.Tensor | None, attention_mask: torch.Tensor | None
) -> torch.Tensor | None:
    """The source's mask [B, S]: as given, else 0 where `input_ids` is padding."""
    if attention_mask is None and input_ids is not None and config.pad_token_id is not None:
        return input_ids.ne(config.pad_token_id).long()
    return attention_mask


def cross_attention_mask(
    config: PreTrainedConfig, hidden_states: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor | None:
    """The mask of cross-attention in the form that the kernel wants: targets [B * n, T, D], memory [B, S, D]."""
    queries = hidden_states.reshape(memory.shape[0], -1, hidden_states.shape[-1])  # [B, n * T, D]
    return create_bidirectional_mask(
        config=config, inputs_embeds=queries, attention_mask=mask, encoder_hidden_states=memory
    )


# Caches --------------------------------------------------------------------------------------------------------------


def store_target(cache: EncoderDecoderCache | None, layer: int, key: torch.Tensor, value: torch.Tensor):
    """Keys and values of the target's new tokens -> those of all its tokens so far."""
    return (key, value) if cache is None else cache.self_attention_cache.update(key, value, layer)


def store_source(cache: EncoderDecoderCache | None, layer: int, key: torch.Tensor, value: torch.Tensor):
    """Keys and values of the source, stored for the next steps."""
    if cache is None:
        return key, value
    cache.is_updated[layer] = True
    return cache.cross_attention_cache.update(key, value, layer)


def stored_source(cache: EncoderDecoderCache | None, layer: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Keys and values of the source, if an earlier step has computed them."""
    if cache is None or not cache.is_updated.get(layer):
        return None
    stored = cache.cross_attention_cache.layers[layer]
    return stored.keys, stored.values


class BeamCache(Cache):
    """Keys and values of the target in beam search, written once and never moved.

    The n beams of a sentence share one row of slots, [B, H, (t_1 beam_1, ..., t_1 beam_n, t_2 beam_1, ...), d]. A mask
    says which slots belong to a beam's own history, and choosing beams permutes that mask alone.
    """

    is_compileable = False
    layers = ()  # where the library's caches keep theirs; generate looks at it
    CAPACITY = 64

    def __init__(self, num_beams: int, capacity: int = CAPACITY):
        self.num_beams, self.capacity = num_beams, capacity  # tokens that fit before the store has to grow
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        self.lengths: list[int] = []
        self.visible: torch.Tensor | None = None  # [B, n, slots written by all layers]

    def __len__(self) -> int:
        return len(self.keys)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.lengths[layer_idx] if layer_idx < len(self.lengths) else 0

    def attention_mask(
        self, rows: int, new: int, device: torch.device, additive: torch.dtype | None = None
    ) -> torch.Tensor:
        """Which slots each of `new` tokens of the B * n `rows` may attend to, the new ones included.

        Bool [B, 1, n * new, slots], or 0 and almost minus infinity of the type `additive`. Call once for each forward
        pass, before the layers write their keys and values.
        """
        n = self.num_beams
        if self.visible is None:
            self.visible = torch.zeros(rows // n, n, 0, dtype=torch.bool, device=device)
        own = torch.eye(n, dtype=torch.bool, device=device)
        causal = torch.ones(new, new, dtype=torch.bool, device=device).tril()
        fresh = own[:, None, None, :] & causal[None, :, :, None]  # [n, new, new, n]
        fresh = fresh.reshape(1, n * new, new * n)
        past = self.visible.repeat_interleave(new, dim=1)
        self.visible = torch.cat((self.visible, own.repeat(1, new).expand(len(past), -1, -1)), dim=-1)
        mask = torch.cat((past, fresh.expand(len(past), -1, -1)), dim=-1).unsqueeze(1)
        if additive is None:
            return mask
        return torch.zeros_like(mask, dtype=additive).masked_fill(~mask, torch.finfo(additive).min)

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args, **kwargs):
        """[B * n, H, T, d] of new tokens -> all slots written so far, [B, H, slots, d]."""
        if layer_idx == len(self.lengths):
            self.lengths.append(0)
        start = self.lengths[layer_idx]
        self.lengths[layer_idx] = end = start + key_states.shape[2]
        keys = self._write(self.keys, key_states, layer_idx, start, end)
        return keys, self._write(self.values, value_states, layer_idx, start, end)

    def _write(self, stores: list[torch.Tensor], x: torch.Tensor, layer: int, start: int, end: int) -> torch.Tensor:
        n = self.num_beams
        x = x.unflatten(0, (-1, n)).permute(0, 2, 3, 1, 4).flatten(2, 3)  # [B, H, T * n, d]
        if layer == len(stores):
            stores.append(x.new_empty(*x.shape[:2], max(end, self.capacity) * n, x.shape[3]))
        if end * n > stores[layer].shape[2]:  # doubled: all copies together cost as much as one more write
            more = x.new_empty(*x.shape[:2], max(2 * stores[layer].shape[2], end * n), x.shape[3])
            more[:, :, : start * n] = stores[layer][:, :, : start * n]
            stores[layer] = more
        stores[layer][:, :, start * n : end * n] = x
        return stores[layer][:, :, : end * n]

    def reorder_cache(self, beam_idx: torch.LongTensor):
        """Beam i of a sentence continues beam beam_idx[i]: beam_idx [B * n], rows of the whole batch."""
        self.visible = self.visible.flatten(0, 1)[beam_idx].unflatten(0, (-1, self.num_beams))

    def unfolded(self) -> DynamicCache:
        """The same keys and values as others keep them: each beam's own history, [B * n, H, L, d]."""
        n, length, cache = self.num_beams, self.get_seq_length(), DynamicCache()
        slots = self.visible.flatten(0, 1).nonzero()[:, 1].view(-1, 1, n * length, 1)  # [B, 1, n * L, 1]
        for layer, stores in enumerate(zip(self.keys, self.values, strict=True)):
            kept = (x.gather(2, slots.expand(-1, x.shape[1], -1, x.shape[3])) for x in stores)
            cache.update(*(x.unflatten(2, (n, length)).transpose(1, 2).flatten(0, 1) for x in kept), layer)
        return cache
