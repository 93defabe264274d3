"""What the library wants to know of the model: what it supports, how its weights begin, how it is saved."""

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
    _skip_keys_device_placement = ["past_key_values"]

    # Every projection of attention, for peft: `LoraConfig(target_modules=list(model.lora_targets))`. The usual names
    # "q_proj" and "v_proj" would adapt the queries of cross-attention only, as our other projections are fused.
    lora_targets = ("qkv_proj", "q_proj", "kv_proj", "out_proj")

    def __init__(self, config: VaswaniConfig, *args, **kwargs):
        config.validate()  # `from_pretrained(path, field=value)` sets fields without it
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
        """As the library's; a saved model also carries the code of `pipeline("translation", ...)` and of AutoModel."""
        if self.can_generate():
            # The library copies the files that are imported here, in a function too, so that they load without us.
            from .pipeline_translation import TranslationPipeline

            TranslationPipeline.name_in(self.config)
            auto_map = getattr(self.config, "auto_map", None) or {}
            self.config.auto_map = {
                **auto_map,
                "AutoModel": f"{type(self).__module__.rpartition('.')[-1]}.VaswaniModel",
            }
        super().save_pretrained(*args, **kwargs)


__all__ = ["VaswaniPreTrainedModel"]
