"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017, arXiv 1706.03762), to read beside the paper.

The file follows Figure 1 from bottom to top:

| Figures 1 and 2               | paper      | here                               | in the state dict                 |
|-------------------------------|------------|------------------------------------|-----------------------------------|
| Input, Output Embedding       | 3.4        | `look_up`, `VaswaniEmbedding`      | shared, embed_tokens              |
| Positional Encoding           | 3.5        | `sinusoidal_positions`             | computed, for any length          |
| Scaled Dot-Product Attention  | eq. 1      | `scaled_dot_product_attention`     | nothing                           |
| (Masked) Multi-Head Attention | 3.2.2      | `VaswaniAttention`                 | self_attn, cross_attn             |
| Feed Forward                  | 3.3, eq. 2 | `VaswaniFeedForward`               | feed_forward                      |
| Add & Norm                    | 3.1, 5.4   | `VaswaniLayer.add_and_norm`        | self_attn_norm, feed_forward_norm |
| Nx, left and right            | 3.1        | `VaswaniEncoder`, `VaswaniDecoder` | encoder, decoder                  |
| Linear (and the loss)         | 3.4, 5.4   | `VaswaniForConditionalGeneration`  | lm_head                           |

Where the paper and the toolkits differ, the paper is the default and a field of `VaswaniConfig` selects the
alternative. The search (section 6.1) is in beam_search_vaswani.py, the training of section 5 in training/. Both apply
the softmax to the logits.

Shapes: B sentences, S source tokens, T target tokens, D = d_model, H heads, K = d_k, V = d_v. In beam search the target
has a row for each beam (attention_vaswani.py).
"""

import math

import torch
from torch import nn
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
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .attention_vaswani import (
    CACHE,
    accepts_past_key_values,
    attend,
    cross_attention_mask,
    padding_mask,
    store_source,
    store_target,
    stored_source,
)
from .configuration_vaswani import VaswaniConfig
from .cpu_vaswani import autocast_type, dropout, linear
from .generation_vaswani import VaswaniGenerationMixin
from .loss_vaswani import label_smoothed_loss
from .pretrained_vaswani import HeadVocabularyMixin, VaswaniPreTrainedModel, VocabularyMixin


# 3.4 Embeddings and Softmax ------------------------------------------------------------------------------------------
# "[...] we share the same weight matrix between the two embedding layers and the pre-softmax linear transformation
# [...] In the embedding layers, we multiply those weights by sqrt(d_model)."


def look_up(
    embed_tokens: nn.Embedding,
    input_ids: torch.Tensor | None,
    inputs_embeds: torch.Tensor | None,
    config: VaswaniConfig,
    prefix: str = "",
) -> torch.Tensor:
    """The rows of the embedding matrix: ids [B, T] -> [B, T, D]; or `inputs_embeds` [B, T, D], if given instead.

    `prefix` is that of the arguments' names in messages, "decoder_" for the target.

    Raises:
        ValueError: Neither or both of `input_ids` and `inputs_embeds` are given.
    """
    names = f"`{prefix}input_ids` or `{prefix}inputs_embeds`"
    if input_ids is None and inputs_embeds is None:
        missing = "target is missing: pass `labels`," if prefix else "source is missing: pass"
        raise ValueError(f"The {missing} {names}.")
    if input_ids is not None and inputs_embeds is not None:
        raise ValueError(f"Pass {names}, not both.")
    if inputs_embeds is not None:
        return inputs_embeds
    embedded = embed_tokens(input_ids)
    if config.zero_pad_embedding and config.pad_token_id is not None:
        # In the authors' code padding is a zero vector, and so is the start token, which is padding.
        embedded = embedded * (input_ids != config.pad_token_id).unsqueeze(-1)
    return embedded


# 3.5 Positional Encoding ---------------------------------------------------------------------------------------------
# "The positional encodings have the same dimension d_model as the embeddings, so that the two can be summed."


def sinusoidal_positions(positions: torch.Tensor, config: VaswaniConfig) -> torch.Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)): [...] -> [..., D] in float32."""
    half = config.d_model // 2
    divisor = half if config.position_divisor == "half" else half - 1  # half_minus_one: as in tensor2tensor
    exponents = torch.arange(half, device=positions.device, dtype=torch.float32) / divisor  # 2i / D
    angles = positions.float().unsqueeze(-1) * torch.pow(10000.0, -exponents)  # [..., D / 2]
    if config.position_layout == "interleaved":
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)  # "concatenated": all sines before all cosines


class VaswaniEmbedding(nn.Module):
    """Dropout(embedding * sqrt(d_model) + position), the input of a stack (sections 3.4, 3.5 and 5.4)."""

    def __init__(self, config: VaswaniConfig, has_space: bool = False):
        super().__init__()
        self.config = config
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        if has_space:
            self.space = nn.Embedding(1, config.d_model)  # one vector for all positions, tensor2tensor's target_space
        if config.position_encoding == "learned":
            self.positions = nn.Embedding(config.max_position_embeddings, config.d_model)

    def forward(
        self, embedded: torch.Tensor, attention_mask: torch.Tensor | None, past_length: int | torch.Tensor = 0
    ) -> torch.Tensor:
        """embedded [B, T, D], attention_mask [B, past + T] -> [B, T, D]."""
        x = embedded * self.scale
        if hasattr(self, "space"):
            x = x + self.space.weight
        if self.config.position_encoding != "none":
            x = x + self.embed_positions(embedded, attention_mask, past_length).to(embedded.dtype)
        return dropout(autocast_type(x), self.config.dropout, self.training)

    def embed_positions(
        self, embedded: torch.Tensor, attention_mask: torch.Tensor | None, past_length: int | torch.Tensor = 0
    ) -> torch.Tensor:
        """Encode positions as [T, D], or with a padding mask as [B, T, D]: each sentence starts at position 0.

        Raises:
            ValueError: The sequence is longer than the learned position table.
        """
        length, device = embedded.shape[1], embedded.device
        if isinstance(past_length, int):
            self.config.check_length(past_length + length)
        if attention_mask is None or attention_mask.dim() != 2:
            return self.encode(torch.arange(length, device=device) + past_length)
        positions = (attention_mask.long().cumsum(dim=-1) - 1).clamp(min=0)[:, -length:]  # padding takes no position
        return self.encode(torch.arange(attention_mask.shape[1], device=device))[positions]

    def encode(self, positions: torch.Tensor) -> torch.Tensor:
        """[T] -> [T, D]"""
        positions = positions + self.config.position_offset
        if self.config.position_encoding == "learned":  # Table 3, row (E)
            return self.positions(positions)
        return sinusoidal_positions(positions, self.config)


# 3.2.1 Scaled Dot-Product Attention ----------------------------------------------------------------------------------


def scaled_dot_product_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V, equation 1.

    This runs with `attn_implementation="eager"`; otherwise a faster kernel computes the same.

    query [B, H, T, K], key [B, H, S, K], value [B, H, S, V], mask [B, 1, T, S] -> [B, T, H, V], weights [B, H, T, S].
    """
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling  # Q K^T / sqrt(d_k): [B, H, T, S]
    if attention_mask is not None:
        scores = scores + attention_mask  # nearly minus infinity at "illegal connections" (section 3.2.3)
    weights = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)  # not in section 5.4: 0 by default
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


# 3.2.2 Multi-Head Attention ------------------------------------------------------------------------------------------


class VaswaniAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    It has three uses (section 3.2.3): self-attention in the encoder and in the decoder, and the decoder's attention to
    the encoder's output. Matrices with the same input are stored as one, for all heads: W^Q, W^K and W^V are
    `qkv_proj`, as in the authors' code. In the decoder's attention to the encoder, queries come from the target
    (`q_proj`), keys and values from the source (`kv_proj`).
    """

    def __init__(self, config: VaswaniConfig, num_heads: int, layer_idx: int, is_causal: bool, is_cross: bool = False):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = is_causal
        self.is_cross = is_cross
        self.num_heads = num_heads
        self.d_k = config.d_k or config.d_model // num_heads
        self.d_v = config.d_v or config.d_model // num_heads
        self.scaling = self.d_k**-0.5 if config.scale_attention else 1.0

        keys, values, bias = num_heads * self.d_k, num_heads * self.d_v, config.attention_bias
        if is_cross:
            self.q_proj = nn.Linear(config.d_model, keys, bias=bias)
            self.kv_proj = nn.Linear(config.d_model, keys + values, bias=bias)
            self.kv_proj.matrices = 2  # for the initialisation
        else:
            self.qkv_proj = nn.Linear(config.d_model, 2 * keys + values, bias=bias)
            self.qkv_proj.matrices = 3
        self.out_proj = nn.Linear(values, config.d_model, bias=bias)

    def forward(
        self,
        x: torch.Tensor,
        memory: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],  # with the cache, by its name `CACHE`
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """x [B, T, D], the encoder's output `memory` [B, S, D] -> [B, T, D], and weights [B, H, T, S] if eager."""
        project = self.project_cross if self.is_cross else self.project_self
        query, key, value = project(x, memory, kwargs.pop(CACHE, None))  # Q W^Q, K W^K, V W^V of each head
        kernel = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, scaled_dot_product_attention)
        heads, weights = attend(kernel, self, query, key, value, attention_mask, **kwargs)  # [B, T, H, V]
        return linear(self.out_proj, heads.flatten(-2)), weights  # Concat(head_1, ..., head_h) W^O

    def project_self(self, x: torch.Tensor, memory: None, cache: Cache | None) -> tuple[torch.Tensor, ...]:
        """x [B, T, D] -> query [B, H, T, K]; of past and current tokens, keys [B, H, S, K] and values [B, H, S, V]."""
        keys, values = self.num_heads * self.d_k, self.num_heads * self.d_v
        query, key, value = linear(self.qkv_proj, x).split((keys, keys, values), dim=-1)
        key, value = self.split_heads(key, self.d_k), self.split_heads(value, self.d_v)
        return self.split_heads(query, self.d_k), *store_target(cache, self.layer_idx, key, value)

    def project_cross(self, x: torch.Tensor, memory: torch.Tensor, cache: Cache | None) -> tuple[torch.Tensor, ...]:
        """x [B, T, D] -> query [B, H, T, K]; memory [B, S, D] -> keys [B, H, S, K] and values [B, H, S, V]."""
        query = self.split_heads(linear(self.q_proj, x), self.d_k)
        if (stored := stored_source(cache, self.layer_idx)) is not None:
            return query, *stored
        widths = (self.num_heads * self.d_k, self.num_heads * self.d_v)
        key, value = linear(self.kv_proj, memory).split(widths, dim=-1)
        key, value = self.split_heads(key, self.d_k), self.split_heads(value, self.d_v)
        return query, *store_source(cache, self.layer_idx, key, value)

    def split_heads(self, x: torch.Tensor, width: int) -> torch.Tensor:
        """[B, T, H * width] -> [B, H, T, width]"""
        return x.unflatten(-1, (self.num_heads, width)).transpose(1, 2)


# 3.3 Position-wise Feed-Forward Networks -----------------------------------------------------------------------------


class VaswaniFeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, equation 2: [B, T, D] -> [B, T, D]."""

    def __init__(self, config: VaswaniConfig, d_ff: int):
        super().__init__()
        self.fc1 = nn.Linear(config.d_model, d_ff, bias=config.feed_forward_bias)
        self.fc2 = nn.Linear(d_ff, config.d_model, bias=config.feed_forward_bias)
        self.activation = ACT2FN[config.activation_function]
        self.dropout = config.activation_dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.activation(linear(self.fc1, x))  # max(0, x W_1 + b_1): [B, T, d_ff]
        return linear(self.fc2, dropout(hidden, self.dropout, self.training))


# 3.1 Encoder and Decoder Stacks --------------------------------------------------------------------------------------
# "[...] the output of each sub-layer is LayerNorm(x + Sublayer(x)), where Sublayer(x) is the function implemented by
# the sub-layer itself." And in 5.4: "We apply dropout to the output of each sub-layer, before it is added to the
# sub-layer input and normalized." No LayerNorm follows a whole stack.


class VaswaniNorm(nn.LayerNorm):
    """LayerNorm over d_model (Ba et al. 2016): [..., D] -> [..., D]."""

    def __init__(self, config: VaswaniConfig):
        super().__init__(config.d_model, eps=config.layer_norm_eps)
        self.unbiased = config.layer_norm_deviation == "unbiased"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.unbiased:
            return super().forward(x)
        wide = x.float()
        wide = (wide - wide.mean(dim=-1, keepdim=True)) / (wide.std(dim=-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype) + self.bias


class VaswaniLayer(GradientCheckpointingLayer):
    """The common part of the layers of both stacks: the "Add & Norm" of Figure 1."""

    def __init__(self, config: VaswaniConfig, norm_position: str):
        super().__init__()
        self.pre_norm = norm_position == "pre"
        self.dropout = config.dropout

    def add_and_norm(self, x: torch.Tensor, sublayer: nn.Module, norm: nn.Module, *args, **kwargs) -> torch.Tensor:
        """LayerNorm(x + Dropout(Sublayer(x))), or x + Dropout(Sublayer(LayerNorm(x))): [B, T, D] -> [B, T, D]."""
        output = sublayer(norm(x) if self.pre_norm else x, *args, **kwargs)
        output = output[0] if isinstance(output, tuple) else output  # attention also returns its weights
        x = x + dropout(output, self.dropout, self.training)
        return x if self.pre_norm else norm(x)


class VaswaniEncoderLayer(VaswaniLayer):
    """The left block of Figure 1: [B, S, D] -> [B, S, D]."""

    def __init__(self, config: VaswaniConfig, layer_idx: int):
        super().__init__(config, config.norm_position)
        self.self_attn = VaswaniAttention(config, config.encoder_attention_heads, layer_idx, is_causal=False)
        self.self_attn_norm = VaswaniNorm(config)
        self.feed_forward = VaswaniFeedForward(config, config.d_ff)
        self.feed_forward_norm = VaswaniNorm(config)

    def forward(
        self, x: torch.Tensor, source_mask: torch.Tensor | None, **kwargs: Unpack[TransformersKwargs]
    ) -> torch.Tensor:
        x = self.add_and_norm(x, self.self_attn, self.self_attn_norm, attention_mask=source_mask, **kwargs)
        return self.add_and_norm(x, self.feed_forward, self.feed_forward_norm)


class VaswaniDecoderLayer(VaswaniLayer):
    """The right block of Figure 1: target [B, T, D], the encoder's output `memory` [B, S, D] -> [B, T, D]."""

    def __init__(self, config: VaswaniConfig, layer_idx: int):
        super().__init__(config, config.decoder_norm_position)
        heads = config.decoder_attention_heads
        self.self_attn = VaswaniAttention(config, heads, layer_idx, is_causal=True)
        self.self_attn_norm = VaswaniNorm(config)
        self.cross_attn = VaswaniAttention(config, heads, layer_idx, is_causal=False, is_cross=True)
        self.cross_attn_norm = VaswaniNorm(config)
        self.feed_forward = VaswaniFeedForward(config, config.decoder_d_ff)
        self.feed_forward_norm = VaswaniNorm(config)

    def forward(
        self,
        x: torch.Tensor,
        target_mask: torch.Tensor | None,
        memory: torch.Tensor,
        memory_mask: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],  # with the cache, by its name `CACHE`
    ) -> torch.Tensor:
        # Masked Multi-Head Attention, Multi-Head Attention, Feed Forward: each with its Add & Norm
        x = self.add_and_norm(x, self.self_attn, self.self_attn_norm, attention_mask=target_mask, **kwargs)
        x = self.add_and_norm(x, self.cross_attn, self.cross_attn_norm, memory, attention_mask=memory_mask, **kwargs)
        return self.add_and_norm(x, self.feed_forward, self.feed_forward_norm)


def stack_norm(config: VaswaniConfig, norm_position: str) -> nn.Module:
    """The LayerNorm after a whole stack: none in the paper, one after pre-norm layers."""
    has_norm = norm_position == "pre" if config.final_norm is None else config.final_norm
    return VaswaniNorm(config) if has_norm else nn.Identity()


class VaswaniEncoder(VaswaniPreTrainedModel):
    """The encoder: N identical layers over the source (section 3.1)."""

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
        embedded = look_up(self.embed_tokens, input_ids, inputs_embeds, self.config)
        x = self.embedding(embedded, attention_mask)  # [B, S, D]
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=x, attention_mask=attention_mask)
        for layer in self.layers:
            x = layer(x, mask, **kwargs)
        return BaseModelOutput(last_hidden_state=self.norm(x))


class VaswaniDecoder(VaswaniPreTrainedModel):
    """The decoder: N identical layers over the target, which also attend to the encoder's output (section 3.1)."""

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

    @accepts_past_key_values
    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.FloatTensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """input_ids [B, T] (or inputs_embeds [B, T, D]), encoder_hidden_states [B, S, D] -> [B, T, D].

        `attention_mask` covers past and current tokens. Several rows of the target may share one row of the source.
        """
        if use_cache and cache is None:
            cache = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        past = None if cache is None else cache.self_attention_cache
        past_length = 0 if past is None else past.get_seq_length()
        embedded = look_up(self.embed_tokens, input_ids, inputs_embeds, self.config, "decoder_")
        x = self.embedding(embedded, attention_mask, past_length)  # [B, T, D]
        # "This masking [...] ensures that the predictions for position i can depend only on the known outputs at
        # positions less than i."
        target_mask = create_causal_mask(self.config, x, attention_mask, past)
        memory_mask = cross_attention_mask(self.config, x, encoder_hidden_states, encoder_attention_mask)
        for layer in self.layers:
            # Gradient checkpointing and the capture of outputs need the first three as positional arguments.
            x = layer(x, target_mask, encoder_hidden_states, memory_mask, **{CACHE: cache}, **kwargs)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=self.norm(x), **{CACHE: cache})


# Figure 1: The Transformer - model architecture ----------------------------------------------------------------------


class VaswaniModel(VocabularyMixin, VaswaniPreTrainedModel):
    """Encoder and decoder: Figure 1 without the pre-softmax linear transformation (section 3).

    `forward` takes source ids [B, S] and target ids [B, T], and returns a `Seq2SeqModelOutput` whose
    `last_hidden_state` is [B, T, D].

    Args:
        config: A `VaswaniConfig`.

    Raises:
        StrictDataclassError: The configuration is invalid.
    """

    def __init__(self, config: VaswaniConfig):
        super().__init__(config)
        if config.share_embeddings == "all":
            self.shared = nn.Embedding(config.vocab_size, config.d_model)
            tied = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
            self._tied_weights_keys = dict.fromkeys(tied, "shared.weight")
        self.encoder = VaswaniEncoder(config)
        self.decoder = VaswaniDecoder(config)
        self.post_init()

    @accepts_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[torch.FloatTensor, ...] | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        decoder_inputs_embeds: torch.FloatTensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqModelOutput:
        """Source ids or embeddings [B, S(, D)], target ids or embeddings [B, T(, D)] -> last_hidden_state [B, T, D].

        Without `attention_mask`, source positions with `pad_token_id` count as padding.

        Raises:
            ValueError: A sequence is longer than the learned position table, or ids and embeddings are both given.
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
            cache=cache,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            **{CACHE: decoder_outputs.get(CACHE)},
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


def shift_right(labels: torch.Tensor, start_token_id: int, pad_token_id: int) -> torch.Tensor:
    """The decoder's input for `labels` [B, T]: "offset by one position" (section 3.1), with padding for -100."""
    shifted = torch.cat((labels.new_full((labels.shape[0], 1), start_token_id), labels[:, :-1]), dim=1)
    return shifted.masked_fill(shifted == -100, pad_token_id)


class VaswaniForConditionalGeneration(HeadVocabularyMixin, VaswaniPreTrainedModel, VaswaniGenerationMixin):
    """The whole of Figure 1: encoder, decoder and pre-softmax linear transformation, with loss and generation.

    `forward` takes source ids [B, S] and target ids [B, T], and returns a `Seq2SeqLMOutput` with logits
    [B, T, decoder_vocab_size]. With `labels` it also returns the loss, in training with label smoothing (section 5.4).
    `generate` searches with the paper's beam search (section 6.1).

    Args:
        config: A `VaswaniConfig`.

    Raises:
        StrictDataclassError: The configuration is invalid.
    """

    def __init__(self, config: VaswaniConfig):
        super().__init__(config)
        self.model = VaswaniModel(config)
        self.lm_head = nn.Linear(config.d_model, config.decoder_vocab_size, bias=config.softmax_bias)
        if config.share_embeddings == "all":
            tied = ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
            self._tied_weights_keys = dict.fromkeys(tied, "model.shared.weight")
        elif config.share_embeddings == "target":
            self._tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
        self.post_init()

    def loss_function(self, logits: torch.Tensor, labels: torch.Tensor, **kwargs) -> torch.Tensor:
        """The label-smoothed loss (section 5.4) in training, the mean negative log-likelihood in evaluation."""
        smoothing = self.config.label_smoothing if self.training else 0.0
        return label_smoothed_loss(
            logits, labels, smoothing, self.config.label_smoothing_type, kwargs.get("num_items_in_batch")
        )

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """The decoder's input for `labels`: [B, T] -> [B, T], the start token first and without the last label."""
        return shift_right(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

    @accepts_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[torch.FloatTensor, ...] | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        decoder_inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqLMOutput:
        """Source [B, S] and target [B, T] -> logits [B, T, decoder_vocab_size], and the loss if there are `labels`.

        `labels` [B, T] are the target, with -100 at positions that do not count. Without `decoder_input_ids` they are
        shifted right to make the decoder's input. `logits_to_keep` limits the logits to the last positions (0: all).

        Raises:
            ValueError: A sequence is longer than the learned position table, or ids and embeddings are both given.
        """
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        source = dict(input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds)
        target = dict(decoder_input_ids=decoder_input_ids, decoder_attention_mask=decoder_attention_mask)
        target |= dict(decoder_inputs_embeds=decoder_inputs_embeds, cache=cache)
        outputs = self.model(**source, encoder_outputs=encoder_outputs, **target, use_cache=use_cache, **kwargs)
        positions = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = linear(self.lm_head, outputs.last_hidden_state[:, positions, :])  # [B, T, decoder_vocab_size]
        loss = None if labels is None else self.loss_function(logits, labels, **kwargs)
        fields = {name: value for name, value in outputs.items() if name != "last_hidden_state"}
        return Seq2SeqLMOutput(loss=loss, logits=logits, **fields)


__all__ = ["VaswaniForConditionalGeneration", "VaswaniModel", "VaswaniPreTrainedModel"]
