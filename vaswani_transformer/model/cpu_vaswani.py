"""Linear maps and dropout with faster kernels for CPUs. Linear maps give the same results as torch's own."""

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
    """Whether this is an Intel CPU, on which MKL, torch's own choice, uses the widest instructions."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "GenuineIntel" in platform.processor()  # as Windows writes it


INTEL = is_intel()
ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise") and not INTEL
MKL = INTEL and torch.backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear")
# Products with so few rows wait for the weights from memory. MKL reads them once if they are in its own order.
REORDERED_ROWS = range(2, 17)
# For each linear map: the state of the weight that was reordered, and the reordered weight.
reordered: WeakKeyDictionary[nn.Module, tuple] = WeakKeyDictionary()


def linear(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """`layer(x)`: x [..., in] -> [..., out]. For float32 inference on a CPU by another maker than Intel, oneDNN runs.

    torch's own choice there, MKL, takes up to twice as long (benchmarks/README.md); on Intel CPUs MKL is faster.
    The layer stays a plain `nn.Linear`, so that tools which look for this class (quantisation, LoRA) find it.
    """
    if not (x.device.type == "cpu" and x.dtype == torch.float32 and takes_onednn(layer)):
        return layer(x)
    return torch.ops.mkldnn._linear_pointwise(x.contiguous(), layer.weight, layer.bias, "none", [], "")


def fast_linear(layer: nn.Module, rows: int = 0) -> Callable[[torch.Tensor], torch.Tensor]:
    """`layer` as a function x [R, in] -> [R, out] for many calls without gradients. The kernel is chosen once, here.

    `rows` is the R of most calls, if it is known.
    """
    if rows in REORDERED_ROWS and MKL and is_plain_float32(layer):
        mkl, weight, bias = torch.ops.mkl._mkl_linear.default, layer.weight, layer.bias
        reordered_weight = reorder_weight(layer, rows)
        return lambda x: mkl(x, reordered_weight, weight, bias, rows)  # for another number of rows MKL takes `weight`
    if takes_onednn(layer):
        onednn = torch.ops.mkldnn._linear_pointwise.default
        weight, bias = layer.weight, layer.bias
        return lambda x: onednn(x, weight, bias, "none", [], "")
    if isinstance(layer, Int8Linear) and layer.is_fast() and not is_hooked(layer):
        return layer.cached(layer.packed_product)
    if is_plain(layer):
        return partial(nn.functional.linear, weight=layer.weight, bias=layer.bias)
    return lambda x: layer(x.unsqueeze(1)).squeeze(1)  # the model calls it with [B, T, in]


def reorder_weight(layer: nn.Module, rows: int) -> torch.Tensor:
    """The weight in MKL's order for products with this number of rows, computed once for each state of the weight."""
    weight = layer.weight
    state = weight.data_ptr(), None if weight.is_inference() else weight._version, rows
    known_state, result = reordered.get(layer, (None, None))
    if known_state != state:
        result = torch.ops.mkl._mkl_reorder_linear_weight(weight.detach(), rows)
        reordered[layer] = state, result  # another thread may replace it: return `result`, which is for these rows
    return result


def takes_onednn(layer: nn.Module) -> bool:
    """Whether oneDNN's float32 product can replace `layer`."""
    return ONEDNN and is_plain_float32(layer)


def is_plain_float32(layer: nn.Module) -> bool:
    """Whether another kernel can replace `layer`: a plain product in float32 on a CPU, for inference."""
    return (
        is_inference() and is_plain(layer) and layer.weight.dtype == torch.float32 and layer.weight.device.type == "cpu"
    )


def is_inference() -> bool:
    """Whether this is plain inference: no gradients (oneDNN's product has none), compiler, tracing or autocast."""
    return not (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
    )


def is_plain(layer: nn.Module) -> bool:
    """Whether `layer` only computes its product: not quantised, adapted, sharded, hooked or offloaded."""
    return type(layer) is nn.Linear and type(layer.weight) is nn.Parameter and not is_hooked(layer)


def is_hooked(layer: nn.Module) -> bool:
    """Whether `layer` has forward hooks or a replaced `forward`, or there are global hooks."""
    is_changed = layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer)
    return bool(is_changed or torch_module._has_any_global_hook())


def autocast_type(x: torch.Tensor) -> torch.Tensor:
    """Returns `x` in the dtype of CPU autocast if autocast is on, otherwise `x` itself.

    In a stack that starts in bfloat16, the residual sums and layer norms between its products are in bfloat16, too.
    Otherwise, each product would convert its input, which takes a fifth of a training step. With a trained mini model,
    the cosine similarity to the float32 gradient is 0.9991 instead of 0.9995.
    """
    if x.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return x
    return x.to(torch.get_autocast_dtype("cpu"))


def dropout(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    """Inverted dropout (section 5.4): x [...] -> [...]. On a CPU the rate is a multiple of 2^-16."""
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return nn.functional.dropout(x, p=p)
    # One 64-bit draw serves four elements: a quarter of the time of nn.functional.dropout, a tenth of a training step.
    bits = torch.empty(x.numel() // 4 + 1, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    mask = bits[: x.numel()].view(x.shape) >= round(p * 2**16) - 2**15
    return x * mask.to(x.dtype).mul_(1.0 / (1.0 - p))
