"""Configuration of the Transformer of "Attention Is All You Need" (Vaswani et al. 2017, arXiv 1706.03762).

The defaults are the paper's base model. Each difference between the paper, its authors' own code (tensor2tensor as
published in June 2017, "T2T" below) and the other toolkits is a field here, so that one model class serves them all.
"""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig


# Table 3 of the paper, row by row, as differences from the base model. Rows (A) vary the heads at constant computation.
TABLE_3 = {
    "table3-a-h1": dict(encoder_attention_heads=1, decoder_attention_heads=1),
    "table3-a-h4": dict(encoder_attention_heads=4, decoder_attention_heads=4),
    "table3-a-h16": dict(encoder_attention_heads=16, decoder_attention_heads=16),
    "table3-a-h32": dict(encoder_attention_heads=32, decoder_attention_heads=32),
    "table3-b-dk16": dict(d_k=16, d_v=64),
    "table3-b-dk32": dict(d_k=32, d_v=64),
    "table3-c-n2": dict(encoder_layers=2, decoder_layers=2),
    "table3-c-n4": dict(encoder_layers=4, decoder_layers=4),
    "table3-c-n8": dict(encoder_layers=8, decoder_layers=8),
    "table3-c-d256": dict(d_model=256, d_k=32, d_v=32),
    "table3-c-d1024": dict(d_model=1024, d_k=128, d_v=128),
    "table3-c-ff1024": dict(d_ff=1024),
    "table3-c-ff4096": dict(d_ff=4096),
    "table3-d-dropout0": dict(dropout=0.0),
    "table3-d-dropout0.2": dict(dropout=0.2),
    "table3-d-smoothing0": dict(label_smoothing=0.0),
    "table3-d-smoothing0.2": dict(label_smoothing=0.2),
    "table3-e-learned": dict(position_encoding="learned", max_position_embeddings=1024),
}

BIG = dict(d_model=1024, d_ff=4096, encoder_attention_heads=16, decoder_attention_heads=16, dropout=0.3)

# T2T's choices where the paper is silent or differs. 40,960 rows are its 37k vocabulary, padded.
T2T_2017 = dict(
    vocab_size=40_960, attention_bias=True, position_layout="concatenated", position_divisor="half_minus_one"
)

PRESETS = {
    "base": {},
    "big": BIG,
    "big-en-fr": {**BIG, "vocab_size": 32_000, "dropout": 0.1},
    "base-t2t-2017": T2T_2017,
    "big-t2t-2017": {**BIG, **T2T_2017},
    **TABLE_3,
    # Not in the paper: small enough to train on a CPU in hours. "mini" is the size of the included checkpoint.
    "mini": dict(
        vocab_size=8192, d_model=256, d_ff=1024, encoder_layers=4, decoder_layers=3,
        encoder_attention_heads=4, decoder_attention_heads=4,
    ),
    "tiny": dict(
        vocab_size=4096, d_model=128, d_ff=512, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4,
    ),
}  # fmt: skip


SIZES = (
    "vocab_size", "decoder_vocab_size", "d_model", "d_ff", "decoder_d_ff", "encoder_layers", "decoder_layers",
    "encoder_attention_heads", "decoder_attention_heads", "d_k", "d_v", "max_position_embeddings",
)  # fmt: skip
# Far above any model; a damaged or hostile config.json would otherwise use up time and memory.
MAX_LAYERS, MAX_WIDTH, MAX_ROWS = 1000, 2**16, 10**7
MAX_SIZES = {name: MAX_WIDTH for name in SIZES}
MAX_SIZES |= dict.fromkeys(("encoder_layers", "decoder_layers"), MAX_LAYERS)
MAX_SIZES |= dict.fromkeys(("vocab_size", "decoder_vocab_size", "max_position_embeddings"), MAX_ROWS)


@strict
class VaswaniConfig(PreTrainedConfig):
    r"""
    Configuration of a [`VaswaniModel`]. The defaults are the paper's base model (Table 3).

    Args:
        vocab_size (`int`, defaults to 37000):
            Rows of the source embedding, and of the target embedding unless `decoder_vocab_size` is set (section 5.1).
        decoder_vocab_size (`int`, *optional*):
            Rows of the target embedding, if source and target have separate vocabularies.
        d_model (`int`, defaults to 512): Width of every layer's output (section 3.1).
        d_ff (`int`, defaults to 2048): Inner width of the position-wise feed-forward networks (section 3.3).
        decoder_d_ff (`int`, *optional*): The decoder's inner width, if it differs from the encoder's.
        encoder_layers, decoder_layers (`int`, defaults to 6): N, the layers of each stack (section 3.1).
        encoder_attention_heads, decoder_attention_heads (`int`, defaults to 8): h of each stack (section 3.2.2).
        d_k, d_v (`int`, *optional*, default to `d_model / h`): Width of one head's keys and values (section 3.2.2).
        dropout (`float`, defaults to 0.1):
            P_drop, on the output of each sub-layer and on the sums of embeddings and positions (section 5.4).
        attention_dropout, activation_dropout (`float`, default to 0.0):
            Dropout on attention weights and after the feed-forward activation. Later versions of T2T have both; the
            paper has neither.
        activation_function (`str`, defaults to `"relu"`): Any name in `transformers.activations.ACT2FN` (section 3.3).
        norm_position (`"post"` or `"pre"`, defaults to `"post"`):
            LayerNorm(x + Sublayer(x)) as published, or x + Sublayer(LayerNorm(x)) (section 3.1).
        decoder_norm_position (`"post"` or `"pre"`, *optional*): The decoder's, if it differs from the encoder's.
        final_norm (`bool`, *optional*):
            Whether a LayerNorm follows each stack. By default only after a pre-norm stack; the paper has none.
        layer_norm_eps (`float`, defaults to 1e-6): The epsilon of LayerNorm: T2T's, as the paper gives none.
        layer_norm_deviation (`"biased"` or `"unbiased"`, defaults to `"biased"`):
            LayerNorm divides by sqrt(variance + eps), or by sqrt(variance * D / (D - 1)) + eps as in the Annotated
            Transformer.
        position_encoding (`"sinusoidal"`, `"learned"` or `"none"`, defaults to `"sinusoidal"`):
            How positions are encoded (section 3.5; "learned" is row (E) of Table 3).
        position_layout (`"interleaved"` or `"concatenated"`, defaults to `"interleaved"`):
            Sines and cosines alternate as in the paper's formula, or all sines come before all cosines as in T2T.
        position_divisor (`"half"` or `"half_minus_one"`, defaults to `"half"`):
            Frequency i is 10000^(-i / (d_model/2)) as in the paper, or 10000^(-i / (d_model/2 - 1)) as in T2T.
        position_offset (`int`, defaults to 0): Position of the first token (fairseq: 2).
        max_position_embeddings (`int`, *optional*):
            Rows of the learned position table, which requires it. Sinusoids have no length limit.
        attention_bias (`bool`, defaults to `False`):
            Whether the four projections of attention have biases. The paper shows none; T2T had them until November
            2017.
        feed_forward_bias (`bool`, defaults to `True`): Whether equation 2 has b1 and b2; later versions of
            OpenNMT-py have neither.
        softmax_bias (`bool`, defaults to `False`):
            Whether the pre-softmax linear transformation has a bias (section 3.4).
        scale_embedding (`bool`, defaults to `True`): Whether embeddings are multiplied by sqrt(d_model) (section 3.4).
        scale_attention (`bool`, defaults to `True`):
            Whether the products of queries and keys are divided by sqrt(d_k) (section 3.2.1).
        source_space_embedding (`bool`, defaults to `False`):
            Whether a learned vector is added to every position of the encoder's input, T2T's "target space".
        share_embeddings (`"all"`, `"target"` or `"none"`, defaults to `"all"`):
            One matrix for source, target and pre-softmax (section 3.4), for target and pre-softmax, or three matrices.
        tie_word_embeddings (`bool`, *optional*):
            The library's name for the same: `False` means `share_embeddings="none"`, `True` one of the others.
        zero_pad_embedding (`bool`, defaults to `True`):
            Whether the embedding of `pad_token_id` is a zero vector, while its tied row still trains. As the decoder
            starts from `pad_token_id`, this is T2T's zero start vector. With `False` the start token has a learned
            embedding.
        fused_initialisation (`bool`, defaults to `True`):
            Whether Glorot's bound is that of the one matrix in which W^Q, W^K and W^V are stored, which gives them the
            authors' gain of 1/sqrt(2), or that of each by itself.
        label_smoothing (`float`, defaults to 0.1): eps_ls (section 5.4).
        label_smoothing_type (`"t2t"` or `"uniform"`, defaults to `"t2t"`):
            How eps_ls is spread: over the other V - 1 tokens, with a constant subtracted that makes the best loss 0
            (the authors' code), or over all V tokens (`torch.nn.functional.cross_entropy`).
        pad_token_id, eos_token_id, decoder_start_token_id (`int`, default to 0, 1, 0): T2T's ids.

    Raises:
        StrictDataclassError: A value has the wrong type, is out of range or contradicts another value; the message
            says what is allowed.
    """

    model_type = "vaswani"
    keys_to_ignore_at_inference = ["cache", "past_key_values"]  # by its newer and older name
    attribute_map = {
        "hidden_size": "d_model",
        "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
    }

    vocab_size: int = 37_000
    decoder_vocab_size: int | None = None
    d_model: int = 512
    d_ff: int = 2048
    decoder_d_ff: int | None = None
    encoder_layers: int = 6
    decoder_layers: int = 6
    encoder_attention_heads: int = 8
    decoder_attention_heads: int = 8
    d_k: int | None = None
    d_v: int | None = None
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    activation_function: str = "relu"
    norm_position: Literal["post", "pre"] = "post"
    decoder_norm_position: Literal["post", "pre"] | None = None
    final_norm: bool | None = None
    layer_norm_eps: float = 1e-6
    layer_norm_deviation: Literal["biased", "unbiased"] = "biased"
    position_encoding: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    position_layout: Literal["interleaved", "concatenated"] = "interleaved"
    position_divisor: Literal["half", "half_minus_one"] = "half"
    position_offset: int = 0
    max_position_embeddings: int | None = None
    attention_bias: bool = False
    feed_forward_bias: bool = True
    softmax_bias: bool = False
    scale_embedding: bool = True
    scale_attention: bool = True
    source_space_embedding: bool = False
    share_embeddings: Literal["all", "target", "none"] = "all"
    zero_pad_embedding: bool = True
    fused_initialisation: bool = True
    label_smoothing: float | int = 0.1
    label_smoothing_type: Literal["t2t", "uniform"] = "t2t"
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool | None = None
    pad_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 1
    bos_token_id: int | None = None
    decoder_start_token_id: int | None = 0

    def __setattr__(self, name: str, value):
        """Set a field, and the fields that follow from it."""
        super().__setattr__(name, value)
        if name == "vocab_size" and self.share_embeddings == "all":
            super().__setattr__("decoder_vocab_size", value)
        elif name == "share_embeddings":
            super().__setattr__("tie_word_embeddings", value != "none")
        elif name == "tie_word_embeddings" and value is False:
            super().__setattr__("share_embeddings", "none")

    @classmethod
    def from_preset(cls, name: str, **overrides) -> "VaswaniConfig":
        """The configuration called `name` in `PRESETS` (base, big, every row of Table 3, ...), with fields overridden.

        Raises:
            ValueError: The preset does not exist; the message lists all presets.
        """
        if name not in PRESETS:
            raise ValueError(f"Unknown preset {name!r}. Choose one of: {', '.join(PRESETS)}.")
        return cls(**{**PRESETS[name], **overrides})

    @classmethod
    def from_dict(cls, config_dict: dict, **kwargs):
        """Read a configuration, as the library does; in the installed package without `custom_pipelines`.

        `pipeline("translation", model=folder)` then uses the package's own pipeline, and needs no permission to run
        code. The copy of this file in a Hub repository keeps the entry: there the pipeline is another file beside it.
        """
        if cls.__module__.startswith("vaswani_transformer."):
            config_dict = {name: value for name, value in config_dict.items() if name != "custom_pipelines"}
        return super().from_dict(config_dict, **kwargs)

    def __post_init__(self, **kwargs):
        # Filled in, because `get_text_config(decoder=True)` reads every `decoder_*` field.
        if self.decoder_vocab_size is None:
            self.decoder_vocab_size = self.vocab_size
        if self.decoder_d_ff is None:
            self.decoder_d_ff = self.d_ff
        if self.decoder_norm_position is None:
            self.decoder_norm_position = self.norm_position
        if self.tie_word_embeddings is None:
            self.tie_word_embeddings = self.share_embeddings != "none"
        super().__post_init__(**kwargs)

    @property
    def longest_sequence(self) -> int | None:
        """The maximum number of tokens in a sequence, or None if unlimited."""
        if self.position_encoding != "learned":
            return None
        return self.max_position_embeddings - self.position_offset

    def check_length(self, length: int):
        """Check that the learned position table, if any, has rows for `length` tokens.

        Raises:
            ValueError: The sequence is too long.
        """
        limit = self.longest_sequence
        if limit is not None and length > limit:
            raise ValueError(
                f"A sequence of {length} tokens is too long: the learned positions of this model end at {limit} "
                "(`max_position_embeddings`). Split the text."
            )

    def validate_sizes(self):
        for name in SIZES:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` is {value}; it must be at least 1.")
            if value is not None and value > MAX_SIZES[name]:
                raise ValueError(f"`{name}` is {value}; it must be at most {MAX_SIZES[name]}.")
        for heads in ("encoder_attention_heads", "decoder_attention_heads"):
            if (self.d_k is None or self.d_v is None) and self.d_model % getattr(self, heads):
                raise ValueError(
                    f"`d_model` ({self.d_model}) is not divisible by `{heads}` ({getattr(self, heads)}). Choose a "
                    "divisor, or set both `d_k` and `d_v`."
                )

    def validate_layer_norm(self):
        if self.layer_norm_eps <= 0:
            raise ValueError(f"`layer_norm_eps` is {self.layer_norm_eps}; it must be greater than 0.")

    def validate_probabilities(self):
        for name in ("dropout", "attention_dropout", "activation_dropout", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}; it must be at least 0 and less than 1.")

    def validate_positions(self):
        if self.position_encoding == "learned" and self.max_position_embeddings is None:
            raise ValueError(
                "`position_encoding` is 'learned', which needs `max_position_embeddings`: the rows of the table, which "
                "are the maximum number of tokens plus `position_offset`."
            )
        if self.position_encoding == "sinusoidal" and (self.d_model % 2 or self.d_model < 4):
            raise ValueError(f"`d_model` is {self.d_model}; sinusoidal positions need an even number of at least 4.")
        if self.position_offset < 0:
            raise ValueError(f"`position_offset` is {self.position_offset}; it must be at least 0.")

    def validate_embeddings(self):
        if self.share_embeddings == "all" and self.decoder_vocab_size != self.vocab_size:
            raise ValueError(
                f"`share_embeddings` is 'all', but `vocab_size` ({self.vocab_size}) and `decoder_vocab_size` "
                f"({self.decoder_vocab_size}) differ. With two vocabularies use 'target' or 'none'."
            )
        if self.tie_word_embeddings != (self.share_embeddings != "none"):
            raise ValueError(
                f"`tie_word_embeddings={self.tie_word_embeddings}` contradicts `share_embeddings="
                f"{self.share_embeddings!r}`. Set only `share_embeddings`: 'all', 'target' or 'none'."
            )
        for name in ("pad_token_id", "decoder_start_token_id"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < self.decoder_vocab_size:
                raise ValueError(f"`{name}` is {value}; it must be an id below {self.decoder_vocab_size}.")

    def validate_activation(self):
        from transformers.activations import ACT2FN

        if self.activation_function not in ACT2FN:
            raise ValueError(
                f"`activation_function` is {self.activation_function!r}; choose one of {', '.join(sorted(ACT2FN))}."
            )


__all__ = ["VaswaniConfig"]
