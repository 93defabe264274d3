"""What the library expects of a model: what it supports, initial weights, loading, saving, resizing."""

import copy

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_utils import PreTrainedModel

from .configuration_vaswani import VaswaniConfig
from .int8_vaswani import Int8Config, is_int8


# Arguments of `from_pretrained` that say where a checkpoint is.
WHERE = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")


def is_untied(arguments: dict) -> bool:
    """Whether arguments of `from_pretrained`, or a configuration among them, ask for three matrices."""
    shares = arguments.get("share_embeddings"), getattr(arguments.get("config"), "share_embeddings", None)
    return arguments.get("tie_word_embeddings") is False or "none" in shares


class VaswaniPreTrainedModel(PreTrainedModel):
    """The base of all models here: loading, saving, and initialisation."""

    config: VaswaniConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True
    _no_split_modules = ["VaswaniEncoderLayer", "VaswaniDecoderLayer"]
    _skip_keys_device_placement = ["cache", "past_key_values"]  # by its newer and older name

    # Every projection of attention, for peft: `LoraConfig(target_modules=list(model.lora_targets))`. The usual names
    # "q_proj" and "v_proj" would adapt the queries of cross-attention only, as our other projections are fused.
    lora_targets = ("qkv_proj", "q_proj", "kv_proj", "out_proj")

    def __init__(self, config: VaswaniConfig, *args, **kwargs):
        config.validate()  # `from_pretrained(path, field=value)` sets fields without it
        vars(config).pop("custom_pipelines", None)  # a saved model does not carry the code of a pipeline
        super().__init__(config, *args, **kwargs)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        """The initialisation of the authors' code; the paper does not say.

        | parameter                          | distribution                                                         |
        |------------------------------------|----------------------------------------------------------------------|
        | embeddings, pre-softmax, positions | normal, standard deviation d_model^-0.5                              |
        | every other matrix                 | Glorot uniform of the matrix as it is stored: a fused one has more   |
        |                                    | outputs, which gives Q, K and V the authors' gain of 1/sqrt(2);      |
        |                                    | without `fused_initialisation` of each of the matrices in it         |
        | LayerNorm                          | scale 1, bias 0                                                      |
        | biases                             | 0                                                                    |
        """
        if isinstance(module, nn.Embedding) or module is getattr(self, "lm_head", None):
            init.normal_(module.weight, std=self.config.d_model**-0.5)
        elif isinstance(module, nn.Linear):
            outputs, inputs = module.weight.shape
            matrices = 1 if self.config.fused_initialisation else getattr(module, "matrices", 1)
            init.xavier_uniform_(module.weight, gain=((inputs + outputs) / (inputs + outputs / matrices)) ** 0.5)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            init.zeros_(module.bias)

    @property
    def dummy_inputs(self) -> dict[str, torch.Tensor]:
        """Sources and targets [2, 5] that any model takes."""
        ids = torch.tensor([[5, 6, 7, 8, 2], [3, 4, 2, 9, 2]], device=self.device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": ids}

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        """As the library's, and with `dtype="int8"`: short for `quantization_config=Int8Config()`.

        With `tie_word_embeddings=False` each matrix begins as a copy of the one that is stored.
        """
        path = pretrained_model_name_or_path
        is_to_be_int8 = is_int8(kwargs.get("dtype"))
        if path is None or not (is_to_be_int8 or is_untied(kwargs)):
            return super().from_pretrained(path, *args, **kwargs)
        stored = VaswaniConfig.from_pretrained(path, **{name: kwargs[name] for name in WHERE if name in kwargs})
        if is_to_be_int8:
            kwargs["dtype"] = torch.float32
            if not getattr(stored, "quantization_config", None):
                kwargs.setdefault("quantization_config", Int8Config())
        if not is_untied(kwargs) or stored.share_embeddings == "none":
            return super().from_pretrained(path, *args, **kwargs)
        for name in ("tie_word_embeddings", "share_embeddings"):
            kwargs.pop(name, None)
        if kwargs.get("config") is not None:
            kwargs["config"] = copy.deepcopy(kwargs["config"])
            kwargs["config"].share_embeddings = stored.share_embeddings
        loaded = super().from_pretrained(path, *args, **kwargs)
        (loaded[0] if isinstance(loaded, tuple) else loaded).untie_embeddings()
        return loaded

    def save_pretrained(self, *args, **kwargs):
        """As the library's; the code that it stores also loads with AutoModel."""
        if self.can_generate():
            auto_map = getattr(self.config, "auto_map", None) or {}
            self.config.auto_map = {
                **auto_map,
                "AutoModel": f"{type(self).__module__.rpartition('.')[-1]}.VaswaniModel",
            }
        super().save_pretrained(*args, **kwargs)


# Other sizes of the vocabularies, and embeddings that are no longer shared (section 3.4, `share_embeddings`) ----------


class VocabularyMixin:
    """For encoder and decoder without the pre-softmax transformation."""

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding):
        if self.config.share_embeddings == "all":
            self.shared = value
            self.decoder.embed_tokens = value
        self.encoder.embed_tokens = value

    def resize_token_embeddings(self, *args, **kwargs) -> nn.Embedding:
        """Resizes the source vocabulary, and the target's with it where they are one."""
        embeddings = super().resize_token_embeddings(*args, **kwargs)
        if self.config.share_embeddings == "all":
            self.config.decoder_vocab_size = embeddings.num_embeddings
        return embeddings

    def untie_embeddings(self):
        """Gives source and target copies of the matrix that they share, for them to train apart."""
        for stack in (self.encoder, self.decoder):
            untie(stack.embed_tokens)
        if hasattr(self, "shared"):
            del self.shared
        self.config.share_embeddings = "none"
        self._tied_weights_keys, self.all_tied_weights_keys = None, {}


def untie(module: nn.Module):
    module.weight = nn.Parameter(module.weight.detach().clone(), requires_grad=module.weight.requires_grad)


class HeadVocabularyMixin:
    """For the whole model, whose pre-softmax transformation has a row for each token of the target."""

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args, **kwargs) -> nn.Embedding:
        """Resizes the source vocabulary, and the target's with it where they are one."""
        if self.config.share_embeddings != "all":
            return self.model.resize_token_embeddings(new_num_tokens, *args, **kwargs)
        embeddings = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        self._resize_target_side(embeddings)
        return embeddings

    def resize_decoder_token_embeddings(self, new_num_tokens: int, mean_resizing: bool = True) -> nn.Embedding:
        """Resizes the target vocabulary and the pre-softmax transformation of a model with two vocabularies.

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

    def untie_embeddings(self):
        """Gives source, target and pre-softmax copies of the matrix that they share, for them to train apart."""
        untie(self.lm_head)
        self.model.untie_embeddings()
        self._tied_weights_keys, self.all_tied_weights_keys = None, {}

    def _resize_target_side(self, embeddings: nn.Embedding):
        self.config.decoder_vocab_size = embeddings.num_embeddings
        # Where the two share a matrix, `resize_token_embeddings` of the library has resized the transformation already.
        if self.lm_head.out_features != embeddings.num_embeddings or self.config.share_embeddings == "none":
            self.lm_head = self._get_resized_lm_head(self.lm_head, embeddings.num_embeddings)
        self.tie_weights()


__all__ = ["HeadVocabularyMixin", "VaswaniPreTrainedModel", "VocabularyMixin"]
