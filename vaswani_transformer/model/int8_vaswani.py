"""Weights of 8 bits, for fast translation on a CPU and files of a quarter of float32's size.

    model = AutoModelForSeq2SeqLM.from_pretrained(path, dtype="int8")  # or quantization_config=Int8Config()

Every matrix becomes whole numbers from -127 to 127 and a scale for each of its rows; embeddings too, and the
pre-softmax matrix that is tied to them stays tied. In a product the other side is rounded as it comes, each row by its
own range, so that a translation does not depend on what else is in the batch. No calibration is needed. LayerNorms,
biases, positions and attention itself stay in float32. `from_pretrained` finds it in transformers' registry of
quantisation methods.

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
LARGEST = 127
SMALLEST_SCALE = 1e-12  # of a row of zeros

logger = logging.getLogger(__name__)


@functools.cache
def has_int8_products() -> bool:
    """Whether this CPU multiplies 8-bit numbers in one instruction (AVX512-VNNI, AVX-VNNI or AMX) and torch uses it."""
    abilities = torch.cpu.get_capabilities()
    names = ("avx512_vnni", "avx_vnni", "amx_int8")
    has_operators = hasattr(torch.ops.onednn, "qlinear_prepack") and torch.backends.mkldnn.is_available()
    return has_operators and any(abilities.get(name) for name in names)


# Modules -------------------------------------------------------------------------------------------------------------


def quantize_rows(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[out, in] -> int8 [out, in] and float32 scales [out]: weight is about int8 * scale."""
    weight = weight.detach().float()
    scale = (weight.abs().amax(dim=-1) / LARGEST).clamp(min=SMALLEST_SCALE)
    return (weight / scale.unsqueeze(-1)).round().to(torch.int8), scale


class Int8Weight(nn.Module):
    """An int8 matrix [out, in] with a float32 scale for each row."""

    def __init__(self, rows: int, columns: int, device: torch.device | str | None = None):
        super().__init__()
        weight = torch.empty(rows, columns, dtype=torch.int8, device=device)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.weight_scale = nn.Parameter(torch.empty(rows, device=device), requires_grad=False)

    def _apply(self, *args, **kwargs):
        """Moves, but never rounds: the scales stay in float32 when a model is cast."""
        scale = self.weight_scale.data
        super()._apply(*args, **kwargs)
        if self.weight_scale.dtype != torch.float32:
            self.weight_scale = nn.Parameter(scale.to(self.weight_scale.device), requires_grad=False)
        return self

    def dequantized(self) -> torch.Tensor:
        """[out, in] in float32"""
        return self.weight.float() * self.weight_scale.unsqueeze(-1)


class Int8Embedding(Int8Weight):
    """Rows of an int8 matrix: ids [...] -> [..., D] in float32."""

    @property
    def num_embeddings(self) -> int:
        return self.weight.shape[0]

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = ids.flatten()
        embedded = self.weight.index_select(0, rows).float().mul_(self.weight_scale.index_select(0, rows).unsqueeze(-1))
        return embedded.view(*ids.shape, -1)


class Int8Linear(Int8Weight):
    """x W^T + b for an int8 matrix W: x [..., in] -> [..., out], in the floating type of x.

    On a CPU without int8 products, on other devices, and for gradients of x, W is taken for the floating numbers that
    it stands for.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool, device: torch.device | str | None = None):
        super().__init__(out_features, in_features, device)
        self.in_features, self.out_features = in_features, out_features
        self.bias = nn.Parameter(torch.empty(out_features, device=device), requires_grad=False) if bias else None
        self.prepared: Any = None
        self.prepared_from: tuple[int, int | None] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        needs_gradient = x.requires_grad and torch.is_grad_enabled()
        if needs_gradient or not self.is_fast():
            weight = self.dequantized() if needs_gradient else self.prepare(self.dequantized)
            bias = None if self.bias is None else self.bias.to(x.dtype)
            return nn.functional.linear(x, weight.to(x.dtype), bias)
        return self.product(x.reshape(-1, self.in_features).float()).view(*x.shape[:-1], -1).to(x.dtype)

    def is_fast(self) -> bool:
        return self.weight.device.type == "cpu" and has_int8_products()

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """x [R, in] -> [R, out] in float32."""
        return self.prepare(self.packed)(x)

    def packed(self) -> "PackedProduct":
        return PackedProduct(self.weight, self.weight_scale, self.bias)

    def prepare(self, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for the weights as they are."""
        stamp = self.weight.data_ptr(), None if self.weight.is_inference() else self.weight._version
        if self.prepared_from != stamp:
            self.prepared, self.prepared_from = make(), stamp
        return self.prepared

    def __getstate__(self) -> dict:
        return {**vars(self), "prepared": None, "prepared_from": None}  # what is packed cannot be copied


class PackedProduct:
    """x W^T + b for a matrix W in the order in which the CPU wants it: x [R, in] -> [R, out] in float32.

    Each row of x becomes numbers q from 0 to 255: x = q * step + lowest. So x W^T is `step` times the product of whole
    numbers q W^T, and `lowest` times the sums of W's rows.
    """

    def __init__(self, weight: torch.Tensor, weight_scale: torch.Tensor, bias: torch.Tensor | None):
        self.columns, self.bias = weight.shape[1], bias
        self.matrix = torch.ops.onednn.qlinear_prepack(weight, None), weight_scale, torch.zeros(len(weight)).char()
        self.sums = weight.sum(dim=-1, dtype=torch.float32) * weight_scale
        self.round = torch.ops.quantized.embedding_bag_byte_prepack.default
        self.multiply = torch.ops.onednn.qlinear_pointwise.default

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.round(x)  # q, then step and lowest, as the bytes of two floats
        q, ranges = rows.split((self.columns, 8), dim=1)
        if self.columns % 4:  # floats cannot begin there
            ranges = ranges.clone(memory_format=torch.contiguous_format)
        step, lowest = ranges.view(torch.float32).unbind(dim=1)
        y = self.multiply(q.contiguous(), 1.0, 0, *self.matrix, None, 1.0, 0, torch.float32, "none", [], "")
        step = step.unsqueeze(1)
        y = y.mul_(step) if self.bias is None else torch.addcmul(self.bias, y, step, out=y)
        return y.addr_(lowest, self.sums)


# Models --------------------------------------------------------------------------------------------------------------


def quantize(model: PreTrainedModel) -> PreTrainedModel:
    """A loaded model in int8, itself and not a copy; what is int8 already stays as it is."""
    if getattr(model, "quantization_method", None) != METHOD:
        model.hf_quantizer = Int8Quantizer(Int8Config(), pre_quantized=False)
        model.hf_quantizer.validate_environment()
        model.is_quantized, model.quantization_method = True, METHOD
        model.hf_quantizer.postprocess_model(model)
    return model


def is_int8(dtype: object) -> bool:
    """Whether a `dtype` as `from_pretrained` and `pipeline` take it asks for int8."""
    return dtype in ("int8", torch.int8)


def replace_matrices(model: nn.Module):
    """Gives every linear map and token embedding an int8 matrix in place of its own; ties stay."""
    made: dict[int, tuple[nn.Parameter, ...]] = {}
    for parent, name, module in replaceable(model):
        if id(module.weight) not in made:
            values = quantize_rows(module.weight)
            made[id(module.weight)] = tuple(nn.Parameter(value, requires_grad=False) for value in values)
        replacement = int8_of(module, "meta")
        replacement.weight, replacement.weight_scale = made[id(module.weight)]
        if getattr(module, "bias", None) is not None:
            replacement.bias = nn.Parameter(module.bias.detach().float(), requires_grad=False)
        setattr(parent, name, replacement.train(module.training))
    tie_scales(model)


def replaceable(model: nn.Module) -> list[tuple[nn.Module, str, nn.Module]]:
    """Parent, name and module of each matrix that is quantised. Learned positions stay as they are."""
    return [
        (parent, name, module)
        for parent in model.modules()
        for name, module in parent.named_children()
        if type(module) is nn.Linear or (type(module) is nn.Embedding and name in ("embed_tokens", "shared"))
    ]


def int8_of(module: nn.Module, device: str) -> Int8Weight:
    """An empty int8 module in the shape of a linear map or an embedding."""
    if isinstance(module, nn.Embedding):
        return Int8Embedding(*module.weight.shape, device)
    return Int8Linear(module.in_features, module.out_features, module.bias is not None, device)


def tie_scales(model: nn.Module):
    """Where matrices are tied, so are their scales."""
    for module in model.modules():
        for name in ("_tied_weights_keys", "all_tied_weights_keys"):
            if tied := getattr(module, name, None):
                scales = {f"{to}_scale": f"{source}_scale" for to, source in tied.items() if to.endswith(".weight")}
                setattr(module, name, {**tied, **scales})


@dataclass
class Int8Config(QuantizationConfigMixin):
    """`from_pretrained(path, quantization_config=Int8Config())`: there is nothing to choose."""

    def __init__(self, **kwargs):
        self.quant_method = METHOD


class Int8Quantizer(HfQuantizer):
    """Loads a checkpoint of ours in int8, from floating weights or from int8 ones that were saved."""

    requires_calibration = False

    def validate_environment(self, *args, **kwargs):
        if not has_int8_products():
            logger.warning(
                "This CPU has no instructions for int8 products (AVX512-VNNI, AVX-VNNI or AMX): the model works, but "
                "takes the time and the memory of float32."
            )

    def update_dtype(self, dtype: torch.dtype) -> torch.dtype:
        return torch.float32  # of what is not int8

    def _process_model_before_weight_loading(self, model, **kwargs):
        if self.pre_quantized:
            for parent, name, module in replaceable(model):
                setattr(parent, name, int8_of(module, "meta"))
            tie_scales(model)

    def _process_model_after_weight_loading(self, model, **kwargs):
        if not self.pre_quantized:
            replace_matrices(model)
        return model

    def _dequantize(self, model, dtype: torch.dtype | None = None):
        made: dict[int, nn.Parameter] = {}
        for parent in list(model.modules()):
            for name, module in list(parent.named_children()):
                if isinstance(module, Int8Weight):
                    if id(module.weight) not in made:
                        made[id(module.weight)] = nn.Parameter(module.dequantized().to(dtype))
                    setattr(parent, name, float_of(module, made[id(module.weight)]))
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


def float_of(module: Int8Weight, weight: nn.Parameter) -> nn.Module:
    """A linear map or an embedding with this matrix."""
    if isinstance(module, Int8Embedding):
        embedding = nn.Embedding(*weight.shape, device="meta")
        embedding.weight = weight
        return embedding
    layer = nn.Linear(module.in_features, module.out_features, bias=module.bias is not None, device="meta")
    layer.weight = weight
    if module.bias is not None:
        layer.bias = nn.Parameter(module.bias.detach().to(weight.dtype))
    return layer


if METHOD not in AUTO_QUANTIZER_MAPPING:  # this file may also come with a checkpoint of the Hub
    register_quantization_config(METHOD)(Int8Config)
    register_quantizer(METHOD)(Int8Quantizer)
