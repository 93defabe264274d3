"""8-bit weights, for fast translation on a CPU and files a quarter the size of float32's.

    model = AutoModelForSeq2SeqLM.from_pretrained(path, dtype="int8")  # or quantization_config=Int8Config()

Every matrix becomes integers from -127 to 127 with a scale for each row, embeddings included; tied matrices stay tied.
In a product the activations are rounded, too, each row by its own range, so that a translation does not depend on what
else is in the batch. No calibration is needed. LayerNorms, biases, positions and attention itself stay in float32.
`from_pretrained` finds the method in transformers' registry of quantisation methods.

This is our own code, not torchao's, because torchao's int8 linear maps, without `torch.compile`, take longer than
float32 for the few rows of a decoding step, and because it has no matrix that an embedding and a linear map can share.

Shapes: R rows of a product, V rows of an embedding.
"""

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.quantizers import HfQuantizer, register_quantization_config, register_quantizer
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING
from transformers.utils.quantization_config import QuantizationConfigMixin


METHOD = "vaswani_int8"
MAX_INT8 = 127
MIN_SCALE = 1e-12  # for a row of zeros

logger = logging.getLogger(__name__)


@functools.cache
def has_int8_products() -> bool:
    """Whether this CPU has instructions for int8 products (AVX512-VNNI, AVX-VNNI or AMX) and torch uses them."""
    capabilities = torch.cpu.get_capabilities()
    names = ("avx512_vnni", "avx_vnni", "amx_int8")
    has_operators = hasattr(torch.ops.onednn, "qlinear_prepack") and torch.backends.mkldnn.is_available()
    return has_operators and any(capabilities.get(name) for name in names)


# Modules -------------------------------------------------------------------------------------------------------------


def quantize_rows(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[out, in] -> int8 [out, in] and float32 scales [out], whose product is about the weight."""
    weight = weight.detach().float()
    scale = (weight.abs().amax(dim=-1) / MAX_INT8).clamp(min=MIN_SCALE)
    return (weight / scale.unsqueeze(-1)).round().to(torch.int8), scale


class Int8Weight(nn.Module):
    """An int8 matrix [out, in] with a float32 scale for each row."""

    def __init__(self, rows: int, columns: int, device: torch.device | str | None = None):
        super().__init__()
        weight = torch.empty(rows, columns, dtype=torch.int8, device=device)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.weight_scale = nn.Parameter(torch.empty(rows, device=device), requires_grad=False)

    def _apply(self, fn, *args, **kwargs):
        """Move the module.

        Raises:
            ValueError: The call would change the dtype, which an int8 model cannot.
        """
        dtype = fn(self.weight_scale.new_empty(0)).dtype
        if dtype != torch.float32:
            raise ValueError(
                f"A model in int8 cannot be converted to {dtype}. Call `model.dequantize()` first, or load it with "
                "this `dtype`."
            )
        return super()._apply(fn, *args, **kwargs)

    def dequantize(self) -> torch.Tensor:
        """[out, in] in float32"""
        return self.weight.float() * self.weight_scale.unsqueeze(-1)


class Int8Embedding(Int8Weight):
    """An embedding with an int8 matrix: ids [...] -> [..., D] in float32."""

    @property
    def num_embeddings(self) -> int:
        return self.weight.shape[0]

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = ids.flatten()
        embedded = self.weight.index_select(0, rows).float().mul_(self.weight_scale.index_select(0, rows).unsqueeze(-1))
        return embedded.view(*ids.shape, -1)


class Int8Linear(Int8Weight):
    """x W^T + b with an int8 matrix W: x [..., in] -> [..., out], in the dtype of x.

    On a CPU without int8 products, on other devices, and for gradients of x, W is dequantised first.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool, device: torch.device | str | None = None):
        super().__init__(out_features, in_features, device)
        self.in_features, self.out_features = in_features, out_features
        self.bias = nn.Parameter(torch.empty(out_features, device=device), requires_grad=False) if bias else None
        self.cache: Any = None  # what `cached` last computed
        self.cache_state: tuple[int, int | None] | None = None  # the state of the weight that it was computed from

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        needs_gradient = x.requires_grad and torch.is_grad_enabled()
        if needs_gradient or not self.is_fast():
            weight = self.dequantize() if needs_gradient else self.cached(self.dequantize)
            bias = None if self.bias is None else self.bias.to(x.dtype)
            return nn.functional.linear(x, weight.to(x.dtype), bias)
        return self.product(x.reshape(-1, self.in_features)).view(*x.shape[:-1], -1).to(x.dtype)

    def is_fast(self) -> bool:
        return self.weight.device.type == "cpu" and has_int8_products()

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """x [R, in] in any floating-point dtype -> [R, out] in float32."""
        return self.cached(self.packed_product)(x)

    def packed_product(self) -> "PackedProduct":
        return PackedProduct(self.weight, self.weight_scale, self.bias)

    def cached(self, compute: Callable[[], Any]) -> Any:
        """The result of `compute`, called once for each state of the weight."""
        state = self.weight.data_ptr(), None if self.weight.is_inference() else self.weight._version
        if self.cache_state != state:
            self.cache, self.cache_state = compute(), state
        return self.cache

    def __getstate__(self) -> dict:
        return {**vars(self), "cache": None, "cache_state": None}  # a packed matrix cannot be copied


class PackedProduct:
    """x W^T + b for an int8 matrix W packed in the CPU's order: x [R, in] in any float dtype -> [R, out] in float32.

    Each row of x becomes integers q from 0 to 255, where x = q * step + lowest. So x W^T is `step` times the product
    of integers q W^T, plus `lowest` times the sums of W's rows.
    """

    def __init__(self, weight: torch.Tensor, weight_scale: torch.Tensor, bias: torch.Tensor | None):
        self.columns, self.bias = weight.shape[1], bias
        self.matrix = torch.ops.onednn.qlinear_prepack(weight, None), weight_scale, torch.zeros(len(weight)).char()
        self.sums = weight.sum(dim=-1, dtype=torch.float32) * weight_scale
        self.round = torch.ops.quantized.embedding_bag_byte_prepack.default
        self.multiply = torch.ops.onednn.qlinear_pointwise.default

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.round(x.float())  # q, then the bytes of two floats: step and lowest
        q, ranges = rows.narrow(1, 0, self.columns), rows
        if self.columns % 4:  # floats must begin at a multiple of 4 bytes
            ranges = rows.narrow(1, self.columns, 8).clone(memory_format=torch.contiguous_format)
        ranges = ranges.view(torch.float32)
        step, lowest = ranges.narrow(1, -2, 1), ranges.select(1, -1)  # [R, 1] and [R]
        y = self.multiply(q.contiguous(), 1.0, 0, *self.matrix, None, 1.0, 0, torch.float32, "none", [], "")
        y = y.mul_(step) if self.bias is None else torch.addcmul(self.bias, y, step, out=y)
        return y.addr_(lowest, self.sums)


# Models --------------------------------------------------------------------------------------------------------------


def quantize(model: PreTrainedModel) -> PreTrainedModel:
    """Convert a loaded model to int8, in place, and return it. A model that is int8 already does not change.

    Args:
        model: Any model of transformers. Its linear maps, and its token embeddings called `embed_tokens` or `shared`,
            get int8 matrices [out, in] with float32 scales [out]. Weights can no longer be trained.

    On a CPU without int8 products a warning says that nothing becomes faster.
    """
    if getattr(model, "quantization_method", None) != METHOD:
        model.hf_quantizer = Int8Quantizer(Int8Config(), pre_quantized=False)
        model.hf_quantizer.validate_environment()
        model.is_quantized, model.quantization_method = True, METHOD
        model.hf_quantizer.postprocess_model(model)
    return model


def is_int8(dtype: object) -> bool:
    """Whether a `dtype` argument of `from_pretrained` or `pipeline` means int8."""
    return dtype in ("int8", torch.int8)


def replace_matrices(model: nn.Module):
    """Replace every linear map and token embedding by its int8 version. Tied matrices stay tied."""
    quantized: dict[int, tuple[nn.Parameter, ...]] = {}  # by the matrix's identity, so that ties are found
    for parent, name, module in quantizable_modules(model):
        if id(module.weight) not in quantized:
            values = quantize_rows(module.weight)
            quantized[id(module.weight)] = tuple(nn.Parameter(value, requires_grad=False) for value in values)
        replacement = empty_int8(module, "meta")
        replacement.weight, replacement.weight_scale = quantized[id(module.weight)]
        if getattr(module, "bias", None) is not None:
            replacement.bias = nn.Parameter(module.bias.detach().float(), requires_grad=False)
        setattr(parent, name, replacement.train(module.training))
    tie_scales(model)


def quantizable_modules(model: nn.Module) -> list[tuple[nn.Module, str, nn.Module]]:
    """The parent, name and module of each matrix to quantise. Learned positions stay as they are."""
    return [
        (parent, name, module)
        for parent in model.modules()
        for name, module in parent.named_children()
        if type(module) is nn.Linear or (type(module) is nn.Embedding and name in ("embed_tokens", "shared"))
    ]


def empty_int8(module: nn.Module, device: str) -> Int8Weight:
    """An uninitialised int8 module with the shape of a linear map or an embedding."""
    if isinstance(module, nn.Embedding):
        return Int8Embedding(*module.weight.shape, device)
    return Int8Linear(module.in_features, module.out_features, module.bias is not None, device)


def tie_scales(model: nn.Module):
    """Tie the scales of tied matrices."""
    for module in model.modules():
        for name in ("_tied_weights_keys", "all_tied_weights_keys"):
            if tied := getattr(module, name, None):
                scales = {f"{to}_scale": f"{source}_scale" for to, source in tied.items() if to.endswith(".weight")}
                setattr(module, name, {**tied, **scales})


@dataclass
class Int8Config(QuantizationConfigMixin):
    """The `quantization_config` of `from_pretrained` that loads a model in int8. It has no settings.

    `dtype="int8"` does the same. A model saved in int8 has this configuration in its config.json, and loads in int8
    without any argument.
    """

    def __init__(self, **kwargs):
        self.quant_method = METHOD


class Int8Quantizer(HfQuantizer):
    """Loads a checkpoint in int8, from floating-point or from int8 weights."""

    requires_calibration = False

    def validate_environment(self, *args, **kwargs):
        if not has_int8_products():
            logger.warning(
                "This CPU has no instructions for int8 products (AVX512-VNNI, AVX-VNNI or AMX). The model works, but "
                "needs as much time and memory as in float32."
            )

    def update_dtype(self, dtype: torch.dtype) -> torch.dtype:
        return torch.float32  # for everything that is not int8

    def _process_model_before_weight_loading(self, model, **kwargs):
        if self.pre_quantized:
            for parent, name, module in quantizable_modules(model):
                setattr(parent, name, empty_int8(module, "meta"))
            tie_scales(model)

    def _process_model_after_weight_loading(self, model, **kwargs):
        if not self.pre_quantized:
            replace_matrices(model)
        return model

    def _dequantize(self, model, dtype: torch.dtype | None = None):
        weights: dict[int, nn.Parameter] = {}  # by the int8 matrix's identity, so that tied matrices stay tied
        for parent in list(model.modules()):
            for name, module in list(parent.named_children()):
                if isinstance(module, Int8Weight):
                    if id(module.weight) not in weights:
                        weights[id(module.weight)] = nn.Parameter(module.dequantize().to(dtype))
                    setattr(parent, name, float_module(module, weights[id(module.weight)]))
        for module in model.modules():
            for name in ("_tied_weights_keys", "all_tied_weights_keys"):
                if tied := getattr(module, name, None):
                    setattr(module, name, {to: source for to, source in tied.items() if not to.endswith("_scale")})
        return model

    def is_serializable(self, *args, **kwargs) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return False


def float_module(module: Int8Weight, weight: nn.Parameter) -> nn.Module:
    """The linear map or embedding that `module` replaced, with this matrix."""
    if isinstance(module, Int8Embedding):
        embedding = nn.Embedding(*weight.shape, device="meta")
        embedding.weight = weight
        return embedding
    layer = nn.Linear(module.in_features, module.out_features, bias=module.bias is not None, device="meta")
    layer.weight = weight
    if module.bias is not None:
        layer.bias = nn.Parameter(module.bias.detach().to(weight.dtype))
    return layer


if METHOD not in AUTO_QUANTIZER_MAPPING:  # a checkpoint on the Hub may have its own copy of this file
    register_quantization_config(METHOD)(Int8Config)
    register_quantizer(METHOD)(Int8Quantizer)
