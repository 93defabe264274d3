"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017, arXiv 1706.03762), to be read beside the paper.

- Post-norm: LayerNorm(x + Dropout(Sublayer(x))), and no LayerNorm after a stack (sections 3.1 and 5.4).
- Positions are computed in float32 for any length, never stored; padding does not count as a position (section 3.5).
- One matrix for both embeddings and the pre-softmax transformation; embeddings times sqrt(d_model) (section 3.4).
- Queries, keys and values of self-attention are one product, as in the authors' code. Its Glorot initialisation then
  has their gain of 1/sqrt(2) by itself.
- Label smoothing is in the loss, in the authors' form (section 5.4).
- Where toolkits differ, `VaswaniConfig` says which way the model goes.
- `VaswaniLinear` and `dropout` are nn.Linear and dropout, made fast on processors.

Shapes: B batch, S source length, T target length, D d_model, H heads, K = d_k, V = d_v.
"""

import math
from collections.abc import Callable

import torch
from torch import nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_vaswani import VaswaniConfig
from .generation_vaswani import BeamCache, VaswaniGenerationMixin
from .loss_vaswani import label_smoothed_loss
from .processor_vaswani import VaswaniLinear, dropout


# Section 3.5: positions ----------------------------------------------------------------------------------------------


def sinusoidal_positions(positions: torch.Tensor, config: VaswaniConfig) -> torch.Tensor:
    """PE of section 3.5 in float32: positions [...] -> [..., d_model]."""
    half = config.d_model // 2
    divisor = half if config.position_divisor == "half" else half - 1
    exponents = torch.arange(half, device=positions.device, dtype=torch.float32) / divisor
    angles = positions.float().unsqueeze(-1) * torch.pow(10000.0, -exponents)
    if config.position_layout == "interleaved":
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


class VaswaniEmbedding(nn.Module):
    """Embedding times sqrt(d_model), plus position, with dropout on the sum (sections 3.4, 3.5 and 5.4)."""

    def __init__(self, config: VaswaniConfig, has_space: bool = False):
        super().__init__()
        self.config = config
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        if has_space:
            self.space = nn.Embedding(1, config.d_model)
        if config.position_encoding == "learned":
            self.positions = nn.Embedding(config.max_position_embeddings, config.d_model)

    def forward(
        self,
        embed_tokens: nn.Embedding,
        input_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        past_length: int | torch.Tensor = 0,
    ) -> torch.Tensor:
        """input_ids [B, T] or inputs_embeds [B, T, D] (before scaling), attention_mask [B, past + T] -> [B, T, D].

        Raises:
            ValueError: neither or both of `input_ids` and `inputs_embeds` were given, or the sequence is longer than a
                learned position table.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("Give either token ids or embeddings: exactly one of the two.")
        if inputs_embeds is None:
            inputs_embeds = embed_tokens(input_ids)
            if self.config.zero_pad_embedding and self.config.pad_token_id is not None:
                inputs_embeds = inputs_embeds * (input_ids != self.config.pad_token_id).unsqueeze(-1)
        hidden_states = inputs_embeds * self.scale
        if hasattr(self, "space"):
            hidden_states = hidden_states + self.space.weight
        if self.config.position_encoding != "none":
            positions = self.embed_positions(inputs_embeds, attention_mask, past_length)
            hidden_states = hidden_states + positions.to(inputs_embeds.dtype)
        return dropout(hidden_states, self.config.dropout, self.training)

    def embed_positions(
        self, inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None, past_length: int | torch.Tensor
    ) -> torch.Tensor:
        """[T, D], or [B, T, D] where a mask says what is padding: a sentence's first token is at position 0."""
        length, device = inputs_embeds.shape[1], inputs_embeds.device
        if attention_mask is not None and attention_mask.dim() == 2:
            total = attention_mask.shape[1]
            positions = (attention_mask.long().cumsum(dim=-1) - 1).clamp(min=0)[:, -length:]
        else:
            total = None
            positions = torch.arange(length, device=device) + past_length
        positions = positions + self.config.position_offset
        if self.config.position_encoding == "learned":
            rows = self.positions.num_embeddings
            if isinstance(past_length, int) and past_length + length + self.config.position_offset > rows:
                raise ValueError(
                    f"A sequence of {past_length + length} tokens is too long: the learned positions of this model "
                    f"end at {rows - self.config.position_offset} (`max_position_embeddings`)."
                )
            return self.positions(positions)
        if total is None or total > length:
            return sinusoidal_positions(positions, self.config)
        # As many positions as tokens: compute each once and look it up.
        table = sinusoidal_positions(torch.arange(total, device=device) + self.config.position_offset, self.config)
        return table[positions - self.config.position_offset]


# Section 3.2: attention ----------------------------------------------------------------------------------------------


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(Q K^T / sqrt(d_k)) V, equation 1: [B, H, T, K], [B, H, S, K], [B, H, S, V] -> [B, T, H, V]."""
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


def lay_source_end_to_end(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, dict]:
    """Keys and values [B, H, S, K] -> those of real tokens [1, H, all lengths, K], and where each row's begin.

    Flash attention needs this in cross-attention: it takes a mask [B, S] to be of the queries too.
    """
    lengths, queries = mask.sum(dim=-1, dtype=torch.int32), query.shape[2]
    key, value = (x[:, :, : mask.shape[1]].transpose(1, 2)[mask].transpose(0, 1)[None] for x in (key, value))
    return key, value, {
        "cu_seq_lens_q": torch.arange(len(mask) + 1, dtype=torch.int32, device=mask.device) * queries,
        "cu_seq_lens_k": nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0)),
        "max_length_q": queries,
        "max_length_k": int(lengths.max()),
    }  # fmt: skip


class VaswaniAttention(nn.Module):
    """Multi-head attention (section 3.2.2), of one sequence to itself or of the decoder to the encoder's output."""

    def __init__(self, config: VaswaniConfig, num_heads: int, layer_idx: int, is_causal: bool, is_cross: bool = False):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = is_causal
        self.is_cross = is_cross
        self.num_heads = num_heads
        self.d_k = config.d_k or config.d_model // num_heads
        self.d_v = config.d_v or config.d_model // num_heads
        self.scaling = self.d_k**-0.5

        keys, values = num_heads * self.d_k, num_heads * self.d_v
        if is_cross:
            self.q_proj = VaswaniLinear(config.d_model, keys, bias=config.attention_bias)
            self.kv_proj = VaswaniLinear(config.d_model, keys + values, bias=config.attention_bias)
        else:
            self.qkv_proj = VaswaniLinear(config.d_model, 2 * keys + values, bias=config.attention_bias)
        self.out_proj = VaswaniLinear(values, config.d_model, bias=config.attention_bias)

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """hidden_states [B, T, D], encoder_hidden_states [B, S, D] -> [B, T, D] and weights [B, H, T, S] if eager.

        The n rows (beams) of one sentence may share one row of keys and values, the encoder's or those of a
        `BeamCache`. They then attend as one row of n * T queries, so that keys and values need no copies.
        """
        input_shape = hidden_states.shape[:-1]
        if self.is_cross:
            query, key, value = self._project_cross(hidden_states, encoder_hidden_states, past_key_values)
        else:
            keys, values = self.num_heads * self.d_k, self.num_heads * self.d_v
            query, key, value = self.qkv_proj(hidden_states).split((keys, keys, values), dim=-1)
            query, key, value = self._heads(query, self.d_k), self._heads(key, self.d_k), self._heads(value, self.d_v)
            if past_key_values is not None:
                key, value = past_key_values.self_attention_cache.update(key, value, self.layer_idx)
        if key.shape[0] != query.shape[0]:
            # [B * n, H, T, K] -> [B, H, n * T, K]
            query = query.unflatten(0, (key.shape[0], -1)).transpose(1, 2).flatten(2, 3)
        if self.is_cross and attention_mask is not None and len(attention_mask.shape) == 2:  # flash attention
            key, value, offsets = lay_source_end_to_end(query, key, value, attention_mask.bool())
            attention_mask, kwargs = None, {**kwargs, **offsets}

        attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        attn_output, attn_weights = attention_interface(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.config.attention_dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        if attn_weights is not None and attn_weights.shape[0] != input_shape[0]:
            attn_weights = attn_weights.unflatten(2, (-1, input_shape[1])).transpose(1, 2).flatten(0, 1)
        return self.out_proj(attn_output.reshape(*input_shape, -1)), attn_weights

    def _heads(self, x: torch.Tensor, width: int) -> torch.Tensor:
        """[B, T, H * width] -> [B, H, T, width]"""
        return x.unflatten(-1, (self.num_heads, width)).transpose(1, 2)

    def _project_cross(
        self, hidden_states: torch.Tensor, encoder_hidden_states: torch.Tensor, past_key_values: Cache | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        query = self._heads(self.q_proj(hidden_states), self.d_k)
        if past_key_values is not None and past_key_values.is_updated.get(self.layer_idx):
            layer = past_key_values.cross_attention_cache.layers[self.layer_idx]
            return query, layer.keys, layer.values
        widths = (self.num_heads * self.d_k, self.num_heads * self.d_v)
        key, value = self.kv_proj(encoder_hidden_states).split(widths, dim=-1)
        key, value = self._heads(key, self.d_k), self._heads(value, self.d_v)
        if past_key_values is not None:
            key, value = past_key_values.cross_attention_cache.update(key, value, self.layer_idx)
            past_key_values.is_updated[self.layer_idx] = True
        return query, key, value


# Sections 3.1 and 3.3: sub-layers and layers -------------------------------------------------------------------------


class VaswaniFeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, equation 2: [B, T, D] -> [B, T, D]."""

    def __init__(self, config: VaswaniConfig, d_ff: int):
        super().__init__()
        self.fc1 = VaswaniLinear(config.d_model, d_ff, bias=config.feed_forward_bias)
        self.fc2 = VaswaniLinear(d_ff, config.d_model, bias=config.feed_forward_bias)
        self.activation = ACT2FN[config.activation_function]
        self.dropout = config.activation_dropout

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        hidden_states = self.activation(self.fc1(hidden_states))
        return self.fc2(dropout(hidden_states, self.dropout, self.training))


class VaswaniNorm(nn.LayerNorm):
    """LayerNorm over d_model (Ba et al. 2016): [..., D] -> [..., D]."""

    def __init__(self, config: VaswaniConfig):
        super().__init__(config.d_model, eps=config.layer_norm_eps)
        self.unbiased = config.layer_norm_deviation == "unbiased"

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        if not self.unbiased:
            return super().forward(hidden_states)
        x = hidden_states.float()
        x = (x - x.mean(dim=-1, keepdim=True)) / (x.std(dim=-1, keepdim=True) + self.eps)
        return self.weight * x.to(hidden_states.dtype) + self.bias


class VaswaniAddNorm(VaswaniNorm):
    """The "Add & Norm" of Figure 1: LayerNorm(x + Dropout(Sublayer(x))), or x + Dropout(Sublayer(LayerNorm(x)))."""

    def __init__(self, config: VaswaniConfig, norm_position: str):
        super().__init__(config)
        self.pre_norm = norm_position == "pre"
        self.dropout = config.dropout

    def forward(self, hidden_states: torch.Tensor, sublayer: Callable) -> torch.Tensor:
        output = sublayer(super().forward(hidden_states) if self.pre_norm else hidden_states)
        hidden_states = hidden_states + dropout(output, self.dropout, self.training)
        return hidden_states if self.pre_norm else super().forward(hidden_states)


class VaswaniEncoderLayer(GradientCheckpointingLayer):
    """Self-attention, then feed-forward: [B, S, D] -> [B, S, D]."""

    def __init__(self, config: VaswaniConfig, layer_idx: int):
        super().__init__()
        self.self_attn = VaswaniAttention(config, config.encoder_attention_heads, layer_idx, is_causal=False)
        self.self_attn_norm = VaswaniAddNorm(config, config.norm_position)
        self.feed_forward = VaswaniFeedForward(config, config.d_ff)
        self.feed_forward_norm = VaswaniAddNorm(config, config.norm_position)

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, **kwargs: Unpack[TransformersKwargs]
    ) -> torch.Tensor:
        hidden_states = self.self_attn_norm(
            hidden_states, lambda x: self.self_attn(x, attention_mask=attention_mask, **kwargs)[0]
        )
        return self.feed_forward_norm(hidden_states, self.feed_forward)


class VaswaniDecoderLayer(GradientCheckpointingLayer):
    """Causal self-attention, attention to the encoder's output, then feed-forward: [B, T, D] -> [B, T, D]."""

    def __init__(self, config: VaswaniConfig, layer_idx: int):
        super().__init__()
        heads, norm_position = config.decoder_attention_heads, config.decoder_norm_position
        self.self_attn = VaswaniAttention(config, heads, layer_idx, is_causal=True)
        self.self_attn_norm = VaswaniAddNorm(config, norm_position)
        self.cross_attn = VaswaniAttention(config, heads, layer_idx, is_causal=False, is_cross=True)
        self.cross_attn_norm = VaswaniAddNorm(config, norm_position)
        self.feed_forward = VaswaniFeedForward(config, config.decoder_d_ff)
        self.feed_forward_norm = VaswaniAddNorm(config, norm_position)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        encoder_hidden_states: torch.Tensor,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        hidden_states = self.self_attn_norm(
            hidden_states,
            lambda x: self.self_attn(
                x, attention_mask=attention_mask, past_key_values=past_key_values, **kwargs
            )[0],
        )  # fmt: skip
        hidden_states = self.cross_attn_norm(
            hidden_states,
            lambda x: self.cross_attn(
                x, encoder_hidden_states, encoder_attention_mask, past_key_values=past_key_values, **kwargs
            )[0],
        )
        return self.feed_forward_norm(hidden_states, self.feed_forward)


def stack_norm(config: VaswaniConfig, norm_position: str) -> nn.Module:
    """The LayerNorm after a whole stack: none in the paper, one where the layers are pre-norm."""
    wanted = norm_position == "pre" if config.final_norm is None else config.final_norm
    return VaswaniNorm(config) if wanted else nn.Identity()


# The two stacks and the model ----------------------------------------------------------------------------------------


class VaswaniPreTrainedModel(PreTrainedModel):
    config: VaswaniConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True
    _no_split_modules = ["VaswaniEncoderLayer", "VaswaniDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]

    def __init__(self, config: VaswaniConfig, *args, **kwargs):
        config.validate()  # `from_pretrained(path, field=value)` sets fields without it
        super().__init__(config, *args, **kwargs)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        """The authors' initialisation, all of it.

        | parameter                          | distribution                                                        |
        |------------------------------------|---------------------------------------------------------------------|
        | embeddings, pre-softmax, positions | normal, standard deviation d_model^-0.5                             |
        | every other matrix                 | Glorot uniform of the matrix as it stands: fused products have more |
        |                                    | outputs, which gives Q, K and V the gain 1/sqrt(2)                  |
        | LayerNorm                          | scale 1, bias 0                                                     |
        | biases                             | 0                                                                   |
        """
        if isinstance(module, nn.Embedding) or module is getattr(self, "lm_head", None):
            init.normal_(module.weight, std=self.config.d_model**-0.5)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            init.zeros_(module.bias)

    @property
    def dummy_inputs(self) -> dict[str, torch.Tensor]:
        input_ids = torch.tensor([[5, 6, 7, 8, 2], [3, 4, 2, self.config.pad_token_id, self.config.pad_token_id]])
        input_ids = input_ids.to(self.device)
        mask = input_ids.ne(self.config.pad_token_id)
        return {"input_ids": input_ids, "attention_mask": mask, "decoder_input_ids": input_ids}


class VaswaniEncoder(VaswaniPreTrainedModel):
    """N layers over the source (section 3.1)."""

    _can_record_outputs = {"hidden_states": VaswaniEncoderLayer, "attentions": VaswaniAttention}

    def __init__(self, config: VaswaniConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.embedding = VaswaniEmbedding(config, has_space=config.source_space_embedding)
        self.layers = nn.ModuleList([VaswaniEncoderLayer(config, i) for i in range(config.encoder_layers)])
        self.norm = stack_norm(config, config.norm_position)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutput:
        """input_ids [B, S] (or inputs_embeds [B, S, D]), attention_mask [B, S] with 0 for padding -> [B, S, D]."""
        attention_mask = padding_mask(self.config, input_ids, attention_mask)
        hidden_states = self.embedding(self.embed_tokens, input_ids, inputs_embeds, attention_mask)
        attention_mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=hidden_states, attention_mask=attention_mask
        )
        for layer in self.layers:
            hidden_states = layer(hidden_states, attention_mask, **kwargs)
        return BaseModelOutput(last_hidden_state=self.norm(hidden_states))


def padding_mask(
    config: VaswaniConfig, input_ids: torch.Tensor | None, attention_mask: torch.Tensor | None
) -> torch.Tensor | None:
    """The source's mask [B, S]: as given, else 0 where `input_ids` is padding."""
    if attention_mask is None and input_ids is not None and config.pad_token_id is not None:
        return input_ids.ne(config.pad_token_id).long()
    return attention_mask


class VaswaniDecoder(VaswaniPreTrainedModel):
    """N layers over the target, each attending to the encoder's output too (section 3.1)."""

    _can_record_outputs = {
        "hidden_states": VaswaniDecoderLayer,
        "attentions": OutputRecorder(VaswaniAttention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(VaswaniAttention, index=1, layer_name="cross_attn"),
    }

    def __init__(self, config: VaswaniConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.decoder_vocab_size, config.d_model)
        self.embedding = VaswaniEmbedding(config)
        self.layers = nn.ModuleList([VaswaniDecoderLayer(config, i) for i in range(config.decoder_layers)])
        self.norm = stack_norm(config, config.decoder_norm_position)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.FloatTensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """input_ids [B * n, T] (or inputs_embeds [B * n, T, D]), encoder_hidden_states [B, S, D] -> [B * n, T, D].

        n is 1 but in beam search, where n rows share a source. `attention_mask` covers past and current tokens.
        """
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        past_length = 0 if past_key_values is None else past_key_values.get_seq_length()

        hidden_states = self.embedding(self.embed_tokens, input_ids, inputs_embeds, attention_mask, past_length)
        self_attention_mask = self._causal_mask(hidden_states, attention_mask, past_key_values)
        queries = hidden_states.reshape(encoder_hidden_states.shape[0], -1, hidden_states.shape[-1])
        encoder_attention_mask = create_bidirectional_mask(
            config=self.config,
            inputs_embeds=queries,
            attention_mask=encoder_attention_mask,
            encoder_hidden_states=encoder_hidden_states,
        )
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                self_attention_mask,
                encoder_hidden_states,  # positional, as gradient checkpointing and output capture need it
                encoder_attention_mask=encoder_attention_mask,
                past_key_values=past_key_values,
                **kwargs,
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.norm(hidden_states), past_key_values=past_key_values
        )

    def _causal_mask(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, past_key_values: Cache | None
    ) -> torch.Tensor | None:
        cache = None if past_key_values is None else past_key_values.self_attention_cache
        if not isinstance(cache, BeamCache):
            return create_causal_mask(
                config=self.config,
                inputs_embeds=hidden_states,
                attention_mask=attention_mask,
                past_key_values=cache,
            )
        mask = cache.attention_mask(*hidden_states.shape[:2], hidden_states.device)
        if self.config._attn_implementation == "sdpa":
            return mask
        return torch.zeros_like(mask, dtype=hidden_states.dtype).masked_fill(
            ~mask, torch.finfo(hidden_states.dtype).min
        )


class VaswaniModel(VaswaniPreTrainedModel):
    """Encoder and decoder (Figure 1, without the pre-softmax linear transformation)."""

    def __init__(self, config: VaswaniConfig):
        super().__init__(config)
        if config.share_embeddings == "all":
            self.shared = nn.Embedding(config.vocab_size, config.d_model)
            self._tied_weights_keys = {
                "encoder.embed_tokens.weight": "shared.weight",
                "decoder.embed_tokens.weight": "shared.weight",
            }
        self.encoder = VaswaniEncoder(config)
        self.decoder = VaswaniDecoder(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding):
        if self.config.share_embeddings == "all":
            self.shared = value
            self.decoder.embed_tokens = value
        self.encoder.embed_tokens = value

    def resize_token_embeddings(self, *args, **kwargs) -> nn.Embedding:
        """Resize the source vocabulary, and the target's with it where they are one."""
        embeddings = super().resize_token_embeddings(*args, **kwargs)
        if self.config.share_embeddings == "all":
            self.config.decoder_vocab_size = embeddings.num_embeddings
        return embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[torch.FloatTensor, ...] | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        decoder_inputs_embeds: torch.FloatTensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqModelOutput:
        """Source ids or embeddings [B, S(, D)], target ids or embeddings [B, T(, D)] -> last_hidden_state [B, T, D].

        Without `attention_mask`, source positions that hold `pad_token_id` are taken for padding.
        """
        attention_mask = padding_mask(self.config, input_ids, attention_mask)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
            )
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs[0],
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


def shift_right(labels: torch.Tensor, start_token_id: int, pad_token_id: int) -> torch.Tensor:
    """The decoder's input for `labels` [B, T]: offset by one position (section 3.1), -100 replaced by padding."""
    shifted = torch.cat((labels.new_full((labels.shape[0], 1), start_token_id), labels[:, :-1]), dim=1)
    return shifted.masked_fill(shifted == -100, pad_token_id)


class VaswaniForConditionalGeneration(VaswaniPreTrainedModel, VaswaniGenerationMixin):
    """The whole of Figure 1: encoder, decoder and pre-softmax linear transformation, with loss and generation."""

    def __init__(self, config: VaswaniConfig):
        super().__init__(config)
        self.model = VaswaniModel(config)
        self.lm_head = VaswaniLinear(config.d_model, config.decoder_vocab_size, bias=config.softmax_bias)
        if config.share_embeddings == "all":
            tied = ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
            self._tied_weights_keys = dict.fromkeys(tied, "model.shared.weight")
        elif config.share_embeddings == "target":
            self._tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
        self.post_init()

    def save_pretrained(self, *args, **kwargs):
        """As the library's; what is saved also carries the pipeline that `pipeline("translation", ...)` then runs."""
        from .pipeline_translation import TranslationPipeline  # the library copies what is imported in this file

        TranslationPipeline.name_in(self.config)
        without_head = f"{VaswaniModel.__module__.rpartition('.')[-1]}.{VaswaniModel.__name__}"
        self.config.auto_map = {**(getattr(self.config, "auto_map", None) or {}), "AutoModel": without_head}
        super().save_pretrained(*args, **kwargs)

    def loss_function(self, logits: torch.Tensor, labels: torch.Tensor, **kwargs) -> torch.Tensor:
        return label_smoothed_loss(
            logits,
            labels,
            self.config.label_smoothing,
            self.config.label_smoothing_type,
            kwargs.get("num_items_in_batch"),
        )

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        return shift_right(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args, **kwargs) -> nn.Embedding:
        """Resize the source vocabulary, and the target's with it where they are one."""
        if self.config.share_embeddings != "all":
            return self.model.resize_token_embeddings(new_num_tokens, *args, **kwargs)
        embeddings = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        self._resize_target_side(embeddings)
        return embeddings

    def resize_decoder_token_embeddings(self, new_num_tokens: int, mean_resizing: bool = True) -> nn.Embedding:
        """Resize the target vocabulary and the pre-softmax transformation of a model with two vocabularies.

        Raises:
            ValueError: source and target share one vocabulary.
        """
        if self.config.share_embeddings == "all":
            raise ValueError("Source and target share one vocabulary: use `resize_token_embeddings`.")
        decoder = self.model.decoder
        decoder.embed_tokens = self._get_resized_embeddings(
            decoder.embed_tokens, new_num_tokens, mean_resizing=mean_resizing
        )
        self._resize_target_side(decoder.embed_tokens)
        return decoder.embed_tokens

    def _resize_target_side(self, embeddings: nn.Embedding):
        self.config.decoder_vocab_size = embeddings.num_embeddings
        if self.lm_head.out_features != embeddings.num_embeddings or self.config.share_embeddings == "none":
            self.lm_head = self._get_resized_lm_head(self.lm_head, embeddings.num_embeddings)
        self.tie_weights()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[torch.FloatTensor, ...] | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        decoder_inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqLMOutput:
        """Source [B, S] and target [B, T] -> logits [B, T, decoder_vocab_size], and the loss where `labels` are given.

        `labels` [B, T] hold the target with -100 where no loss is wanted; without `decoder_input_ids` they are shifted
        right to make the decoder's input. `logits_to_keep` asks for the last so many positions only (0: all).
        """
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(outputs.last_hidden_state[:, kept, :])
        loss = None if labels is None else self.loss_function(logits, labels, **kwargs)
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
        )


__all__ = ["VaswaniForConditionalGeneration", "VaswaniModel", "VaswaniPreTrainedModel"]
