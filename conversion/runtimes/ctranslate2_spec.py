"""Converts our model and tokenizer to CTranslate2's specification of models."""

import numpy as np
import torch
from ctranslate2.converters import Converter
from ctranslate2.specs import common_spec, transformer_spec
from torch import nn
from transformers import PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniTokenizer
from vaswani_transformer.model.modeling_vaswani import sinusoidal_positions

from ..mapping import NEVER
from ..options import ConversionError, Options, shown


ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "gelu_python": common_spec.Activation.GELU,
    "gelu_new": common_spec.Activation.GELUTanh,
    "gelu_fast": common_spec.Activation.GELUTanh,
    "gelu_accurate": common_spec.Activation.GELUTanh,
    "gelu_pytorch_tanh": common_spec.Activation.GELUTanh,
    "quick_gelu": common_spec.Activation.GELUSigmoid,
    "silu": common_spec.Activation.SWISH,
    "swish": common_spec.Activation.SWISH,
    "tanh": common_spec.Activation.Tanh,
    "sigmoid": common_spec.Activation.Sigmoid,
}


class VaswaniConverter(Converter):
    """Implements CTranslate2's converter interface for our model and tokenizer.

    Raises:
        ConversionError: CTranslate2 cannot represent the model; the message names every reason.
    """

    def __init__(
        self,
        model: VaswaniForConditionalGeneration,
        tokenizer: PreTrainedTokenizerBase | None,
        positions: int = 2048,
    ):
        refuse_unsupported(model.config, tokenizer)
        self.model, self.tokenizer, self.positions = model, tokenizer, positions
        self.source_tokens, self.target_tokens = tokens_by_id(tokenizer, model.config)

    def _load(self) -> transformer_spec.TransformerSpec:
        model, config = self.model, self.model.config
        encoder, decoder = model.model.encoder, model.model.decoder
        spec = transformer_spec.TransformerSpec(
            stack_spec(transformer_spec.TransformerEncoderSpec, encoder, config.norm_position),
            stack_spec(transformer_spec.TransformerDecoderSpec, decoder, config.decoder_norm_position),
        )
        spec.encoder.embeddings[0].weight = array(encoder.embed_tokens.weight)
        spec.decoder.embeddings.weight = array(decoder.embed_tokens.weight)
        for side, stack in ((spec.encoder, encoder), (spec.decoder, decoder)):
            side.scale_embeddings = config.scale_embedding
            side.position_encodings.encodings = array(position_table(stack.embedding, self.positions))
        for layer_spec, layer in zip(spec.encoder.layer, encoder.layers, strict=True):
            set_attention(layer_spec.self_attention, layer.self_attn, layer.self_attn_norm)
            set_feed_forward(layer_spec.ffn, layer)
        for layer_spec, layer in zip(spec.decoder.layer, decoder.layers, strict=True):
            set_attention(layer_spec.self_attention, layer.self_attn, layer.self_attn_norm)
            set_attention(layer_spec.attention, layer.cross_attn, layer.cross_attn_norm)
            set_feed_forward(layer_spec.ffn, layer)
        starts_from_zero = config.zero_pad_embedding and config.decoder_start_token_id == config.pad_token_id
        spec.decoder.start_from_zero_embedding = starts_from_zero
        set_linear(spec.decoder.projection, model.lm_head)
        if config.pad_token_id is not None:
            bias = torch.zeros(config.decoder_vocab_size) if model.lm_head.bias is None else model.lm_head.bias.clone()
            bias[config.pad_token_id] = NEVER
            spec.decoder.projection.bias = array(bias)

        spec.register_source_vocabulary(self.source_tokens)
        spec.register_target_vocabulary(self.target_tokens)
        start = self.target_tokens[config.decoder_start_token_id]
        spec.config.bos_token = spec.config.decoder_start_token = start
        spec.config.eos_token = self.target_tokens[config.eos_token_id]
        spec.config.unk_token = self.unknown_token()
        spec.config.layer_norm_epsilon = config.layer_norm_eps
        return spec

    def unknown_token(self) -> str:
        """The token that CTranslate2 uses for unknown tokens: `<unk>`, else padding, which has no other use."""
        ids = [i for i in (self.model.config.pad_token_id, self.model.config.eos_token_id) if i is not None]
        candidates = [self.tokenizer.unk_token, *(self.source_tokens[i] for i in ids)]
        return next(token for token in candidates if token in self.source_tokens and token in self.target_tokens)


def refuse_unsupported(config: VaswaniConfig, tokenizer: PreTrainedTokenizerBase | None):
    options = Options(config.to_dict(), "model")
    options.only("activation_function", *ACTIVATIONS)
    options.only("layer_norm_deviation", "biased", default="biased")
    options.only("scale_attention", True)
    for stack in ("encoder", "decoder"):
        even = config.d_model // getattr(config, f"{stack}_attention_heads")
        if (d_k := config.d_k or even) != (d_v := config.d_v or even):
            options.refuse(f"d_k={d_k} with d_v={d_v} in the {stack} (supported: the same)")
    for name in ("eos_token_id", "decoder_start_token_id"):
        if not isinstance(getattr(config, name), int):
            options.refuse(f"{name}={shown(getattr(config, name))} (supported: one token)")
    if tokenizer is None:
        options.refuse("no tokenizer (CTranslate2 needs its vocabulary)")
    if options.problems:
        raise ConversionError.from_problems("CTranslate2 cannot represent this model", options.problems, 99)


def tokens_by_id(tokenizer: PreTrainedTokenizerBase, config: VaswaniConfig) -> tuple[list[str], list[str]]:
    """Returns the tokens of source and target in the order of their ids, spelled as in `tokenizer(text).tokens()`.

    Raises:
        ConversionError: the tokenizer has more tokens than the model.
    """

    def tokens(size: int, surfaces: dict[str, int] | None = None) -> list[str]:
        known = {i: token for token, i in tokenizer.get_vocab().items()}
        # Tokens that a `VaswaniTokenizer` matches by their spelling in a text.
        known |= {i: token for token, i in (surfaces or {}).items()}
        if len(known) > size or any(i >= size for i in known):
            raise ConversionError(
                f"The tokenizer does not match the model: {len(known)} tokens, ids up to {max(known)}; "
                f"the model has {size}."
            )
        # Rows that pad the vocabulary have no token.
        return [known.get(i, f"<no token {i}>") for i in range(size)]

    source = tokens(config.vocab_size, tokenizer.init_kwargs.get("surfaces"))
    if not isinstance(tokenizer, VaswaniTokenizer):
        return source, tokens(config.decoder_vocab_size)
    tokenizer._switch_to_target_mode()
    target = tokens(config.decoder_vocab_size)
    tokenizer._switch_to_input_mode()
    return source, target


def stack_spec(kind: type, stack: nn.Module, norm_position: str):
    """Builds an empty encoder or decoder of the stack's size."""
    attention = stack.layers[0].self_attn
    spec = kind(
        len(stack.layers),
        attention.num_heads,
        pre_norm=not isinstance(stack.norm, nn.Identity),  # creates a final norm, which is set below
        activation=ACTIVATIONS[stack.config.activation_function],
        head_dim=attention.d_k,
    )
    spec.pre_norm = norm_position == "pre"
    if not isinstance(stack.norm, nn.Identity):
        set_norm(spec.layer_norm, stack.norm)
    return spec


def position_table(embedding: nn.Module, rows: int) -> torch.Tensor:
    """The positions [rows, D] added to scaled embeddings; learned positions determine the number of rows."""
    config = embedding.config
    if config.position_encoding == "learned":
        table = embedding.positions.weight[config.position_offset :]
    elif config.position_encoding == "sinusoidal":
        table = sinusoidal_positions(torch.arange(rows) + config.position_offset, config)
    else:
        table = torch.zeros(rows, config.d_model)
    return table + embedding.space.weight if hasattr(embedding, "space") else table


def set_attention(spec, attention: nn.Module, norm: nn.LayerNorm):
    projections = [attention.q_proj, attention.kv_proj] if attention.is_cross else [attention.qkv_proj]
    for linear_spec, linear in zip(spec.linear, [*projections, attention.out_proj], strict=True):
        set_linear(linear_spec, linear)
    set_norm(spec.layer_norm, norm)


def set_feed_forward(spec, layer: nn.Module):
    set_linear(spec.linear_0, layer.feed_forward.fc1)
    set_linear(spec.linear_1, layer.feed_forward.fc2)
    set_norm(spec.layer_norm, layer.feed_forward_norm)


def set_norm(spec, norm: nn.LayerNorm):
    spec.gamma, spec.beta = array(norm.weight), array(norm.bias)


def set_linear(spec, linear: nn.Linear):
    spec.weight = array(linear.weight)
    if linear.bias is not None:
        spec.bias = array(linear.bias)


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().float().numpy().copy()  # CTranslate2 quantises in place
