"""Linear maps and dropout with faster kernels on a CPU: the results are the same, only the time is not."""

import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn.modules import module as torch_module

from .int8_vaswani import Int8Linear


def is_intel() -> bool:
    """Whether the CPU is Intel's, for which MKL, torch's own choice, has its widest instructions."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "GenuineIntel" in platform.processor()  # as Windows writes it


INTEL = is_intel()
ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise") and not INTEL
MKL = INTEL and torch.backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear")
# Products with so few rows wait for the weights to come from memory, which MKL reads once if they are packed for it.
PACKED_ROWS = range(2, 17)
packed: WeakKeyDictionary[nn.Module, tuple] = WeakKeyDictionary()  # by linear map: what it was made from, the weight


def linear(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """`layer(x)`: x [..., in] -> [..., out]. Inference in float32 on a CPU that is not Intel's is computed by oneDNN.

    torch's own choice there, MKL, takes up to twice as long (benchmarks/README.md); on Intel's it is the faster one.
    The layer stays a plain `nn.Linear`, so that tools which look for this class (quantisation, LoRA) find it.
    """
    if not (x.device.type == "cpu" and x.dtype == torch.float32 and takes_onednn(layer)):
        return layer(x)
    return torch.ops.mkldnn._linear_pointwise(x.contiguous(), layer.weight, layer.bias, "none", [], "")


def product(layer: nn.Module, rows: int = 0) -> Callable[[torch.Tensor], torch.Tensor]:
    """`layer` as a function x [R, in] -> [R, out], for many calls with no gradient: what can be decided, is decided.

    `rows` is the R that most calls will have, if it is known.
    """
    if rows in PACKED_ROWS and MKL and is_plain_float32(layer):
        mkl, weight, bias, in_order = torch.ops.mkl._mkl_linear.default, layer.weight, layer.bias, pack(layer, rows)
        return lambda x: mkl(x, in_order, weight, bias, rows)  # with other rows it takes the weight as it is
    if takes_onednn(layer):
        onednn = torch.ops.mkldnn._linear_pointwise.default
        weight, bias = layer.weight, layer.bias
        return lambda x: onednn(x, weight, bias, "none", [], "")
    if isinstance(layer, Int8Linear) and layer.is_fast() and not is_watched(layer):
        return layer.prepare(layer.packed)
    if is_plain(layer):
        return partial(nn.functional.linear, weight=layer.weight, bias=layer.bias)
    return lambda x: layer(x.unsqueeze(1)).squeeze(1)  # as the model gives it: [R, 1, in]


def pack(layer: nn.Module, rows: int) -> torch.Tensor:
    """The weight in MKL's order for products of so many rows; made once."""
    weight = layer.weight
    stamp = weight.data_ptr(), None if weight.is_inference() else weight._version, rows
    known, in_order = packed.get(layer, (None, None))
    if known != stamp:
        in_order = torch.ops.mkl._mkl_reorder_linear_weight(weight.detach(), rows)
        packed[layer] = stamp, in_order  # another thread may put its own here: what is returned is that for these rows
    return in_order


def takes_onednn(layer: nn.Module) -> bool:
    """Whether oneDNN's float32 product can take the place of `layer`."""
    return ONEDNN and is_plain_float32(layer)


def is_plain_float32(layer: nn.Module) -> bool:
    """Whether another kernel can take the place of `layer`: a plain product in float32 on a CPU, for inference."""
    return (
        is_inference() and is_plain(layer) and layer.weight.dtype == torch.float32 and layer.weight.device.type == "cpu"
    )


def is_inference() -> bool:
    """Whether nothing follows the computation: no gradient (oneDNN's product has none), no compiler, no autocast."""
    return not (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
    )


def is_plain(layer: nn.Module) -> bool:
    """Whether calling `layer` is its product and nothing else: not quantised, adapted, sharded, hooked, offloaded."""
    return type(layer) is nn.Linear and type(layer.weight) is nn.Parameter and not is_watched(layer)


def is_watched(layer: nn.Module) -> bool:
    """Whether hooks see what goes through `layer`, or something has replaced its `forward`."""
    own = layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer)
    return bool(own or torch_module._has_any_global_hook())


def dropout(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    """Inverted dropout (section 5.4): x [...] -> [...]. On a CPU the rate is exact to 2^-16."""
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return nn.functional.dropout(x, p=p)
    # One 64-bit draw serves four elements: a quarter of the time of nn.functional.dropout, a tenth of a training step.
    bits = torch.empty(x.numel() // 4 + 1, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = bits[: x.numel()].view(x.shape) >= round(p * 2**16) - 2**15
    return x * kept.to(x.dtype).mul_(1.0 / (1.0 - p))
