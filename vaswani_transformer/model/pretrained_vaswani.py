"""What transformers expects of a model: features it supports, initial weights, loading, saving and resizing."""

import copy
import os
import re

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_utils import PreTrainedModel

from .configuration_vaswani import VaswaniConfig
from .int8_vaswani import Int8Config, is_int8


# Arguments of `from_pretrained` that locate a checkpoint.
LOCATION_ARGUMENTS = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")


def is_untied(arguments: dict) -> bool:
    """Whether the arguments of `from_pretrained`, or a configuration among them, ask for three separate matrices."""
    shares = arguments.get("share_embeddings"), getattr(arguments.get("config"), "share_embeddings", None)
    return arguments.get("tie_word_embeddings") is False or "none" in shares


class VaswaniPreTrainedModel(PreTrainedModel):
    """Base class of all models: initial weights, loading and saving."""

    config: VaswaniConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True
    _no_split_modules = ["VaswaniEncoderLayer", "VaswaniDecoderLayer"]
    _skip_keys_device_placement = ["cache", "past_key_values"]  # by its newer and older name

    # All projections of attention, for peft: `LoraConfig(target_modules=list(model.lora_targets))`. The usual names
    # "q_proj" and "v_proj" would only match the queries of cross-attention, because the other projections are fused.
    lora_targets = ("qkv_proj", "q_proj", "kv_proj", "out_proj")

    def __init__(self, config: VaswaniConfig, *args, **kwargs):
        config.validate()  # `from_pretrained(path, field=value)` does not
        vars(config).pop("custom_pipelines", None)  # a model is saved without the pipeline's code
        super().__init__(config, *args, **kwargs)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        """Initialise one module as the authors' code does. The paper does not specify it.

        | parameter                          | distribution                                                         |
        |------------------------------------|----------------------------------------------------------------------|
        | embeddings, pre-softmax, positions | normal, standard deviation d_model^-0.5                              |
        | every other matrix                 | Glorot uniform, for the matrix as it is stored. A fused matrix has   |
        |                                    | more outputs, which gives Q, K and V the authors' gain of 1/sqrt(2). |
        |                                    | Without `fused_initialisation`: for each of the fused matrices       |
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
        """Sources and targets [2, 5] for any vocabulary of 10 tokens or more."""
        ids = torch.tensor([[5, 6, 7, 8, 2], [3, 4, 2, 9, 2]], device=self.device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": ids}

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        """Load a model, as `PreTrainedModel.from_pretrained` does, with two additions.

        `dtype="int8"` is short for `quantization_config=Int8Config()`. With `tie_word_embeddings=False` for a
        checkpoint whose embeddings are shared, source, target and pre-softmax start as copies of the stored matrix.
        """
        path = pretrained_model_name_or_path
        wants_int8 = is_int8(kwargs.get("dtype"))
        if path is None or not (wants_int8 or is_untied(kwargs)):
            return super().from_pretrained(path, *args, **kwargs)
        location = {name: kwargs[name] for name in LOCATION_ARGUMENTS if name in kwargs}
        stored = VaswaniConfig.from_pretrained(path, **location)
        if wants_int8:
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

    def save_pretrained(self, save_directory, *args, **kwargs):
        """Save the model, as `PreTrainedModel.save_pretrained` does, with three additions.

        `AutoModel` can load the folder, too. Embeddings are stored as the configuration shares them, even if it changed
        after the model was built. Weights of an earlier save, in one file or in shards, are removed.
        """
        if self.can_generate():
            auto_map = getattr(self.config, "auto_map", None) or {}
            self.config.auto_map = {
                **auto_map,
                "AutoModel": f"{type(self).__module__.rpartition('.')[-1]}.VaswaniModel",
            }
        if self.config.share_embeddings != "all" and not args[1:2]:
            weights = kwargs.get("state_dict") or self.state_dict()
            if any(is_shared_matrix(name) for name in weights) or self.config.share_embeddings == "none":
                kwargs["state_dict"] = separate_matrices(weights)
        before = weight_files(save_directory)
        super().save_pretrained(save_directory, *args, **kwargs)
        after = weight_files(save_directory)
        if len(after) == 2:  # one file and an index of shards: only one of them is new
            for path, state in after.items():
                if before.get(path) == state:
                    os.remove(path)


def is_shared_matrix(name: str) -> bool:
    return name.startswith(("shared.", "model.shared."))


def separate_matrices(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights without the matrix `shared`, and with a copy of it where embeddings and pre-softmax used it."""
    matrices = re.compile(r"(lm_head|.*embed_tokens)\.weight")
    return {
        name: weight.clone() if matrices.fullmatch(name) else weight
        for name, weight in weights.items()
        if not is_shared_matrix(name)
    }


def weight_files(folder: str | os.PathLike) -> dict[str, tuple[int, int, int]]:
    """The single file of weights and the index of shards, if they exist, with what changes when they are written."""
    paths = [os.path.join(folder, name) for name in ("model.safetensors", "model.safetensors.index.json")]
    states = {path: os.stat(path) for path in paths if os.path.isfile(path)}
    return {path: (state.st_ino, state.st_mtime_ns, state.st_size) for path, state in states.items()}


# Resizing vocabularies and untying shared embeddings (section 3.4, `share_embeddings`) --------------------------------


class VocabularyMixin:
    """Resizing and untying for the encoder and decoder without the pre-softmax transformation."""

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding):
        if self.config.share_embeddings == "all":
            self.shared = value
            self.decoder.embed_tokens = value
        self.encoder.embed_tokens = value

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize the source vocabulary, and the target's if both have the same size, which counts as one vocabulary.

        Returns:
            The source embedding.
        """
        has_one_vocabulary = self.config.decoder_vocab_size == self.config.vocab_size
        embeddings = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        if has_one_vocabulary:
            self._resize_target_embeddings(embeddings.num_embeddings, mean_resizing)
        return embeddings

    def _resize_target_embeddings(self, new_num_tokens: int, mean_resizing: bool = True) -> nn.Embedding:
        if self.decoder.embed_tokens.num_embeddings != new_num_tokens:  # not shared with the source
            self.decoder.embed_tokens = self._get_resized_embeddings(
                self.decoder.embed_tokens, new_num_tokens, mean_resizing=mean_resizing
            )
        self.config.decoder_vocab_size = self.decoder.embed_tokens.num_embeddings
        return self.decoder.embed_tokens

    def untie_embeddings(self):
        """Give source and target a copy each of the matrix that they share, so that they train separately."""
        for stack in (self.encoder, self.decoder):
            untie(stack.embed_tokens)
        if hasattr(self, "shared"):
            del self.shared
        self.config.share_embeddings = "none"
        self._tied_weights_keys, self.all_tied_weights_keys = None, {}


def untie(module: nn.Module):
    module.weight = nn.Parameter(module.weight.detach().clone(), requires_grad=module.weight.requires_grad)


class HeadVocabularyMixin:
    """Resizing and untying for the whole model, whose pre-softmax transformation has a row per target token."""

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize the source vocabulary, and the target's if both have the same size, which counts as one vocabulary.

        The pre-softmax transformation follows the target. If these are two vocabularies that happen to have the same
        size, call `resize_decoder_token_embeddings` afterwards with the target's size.

        Returns:
            The source embedding.
        """
        if self.config.share_embeddings == "all":
            embeddings = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
            self.config.decoder_vocab_size = embeddings.num_embeddings
        else:
            embeddings = self.model.resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        self._resize_head(mean_resizing)
        return embeddings

    def resize_decoder_token_embeddings(self, new_num_tokens: int, mean_resizing: bool = True) -> nn.Embedding:
        """Resize the target vocabulary and the pre-softmax transformation of a model with two vocabularies.

        Returns:
            The target embedding.

        Raises:
            ValueError: Source and target share one matrix.
        """
        if self.config.share_embeddings == "all":
            raise ValueError("Source and target share one vocabulary. Call `resize_token_embeddings` instead.")
        embeddings = self.model._resize_target_embeddings(new_num_tokens, mean_resizing)
        self._resize_head(mean_resizing)
        return embeddings

    def untie_embeddings(self):
        """Give source, target and pre-softmax a copy each of the matrix that they share, to train separately."""
        untie(self.lm_head)
        self.model.untie_embeddings()
        self._tied_weights_keys, self.all_tied_weights_keys = None, {}

    def _resize_head(self, mean_resizing: bool):
        """Give the pre-softmax transformation a row for each target token."""
        if self.lm_head.out_features != self.config.decoder_vocab_size:
            self.lm_head = self._get_resized_lm_head(
                self.lm_head, self.config.decoder_vocab_size, mean_resizing=mean_resizing
            )
        self.tie_weights()


__all__ = ["HeadVocabularyMixin", "VaswaniPreTrainedModel", "VocabularyMixin"]
