"""Linear maps and dropout with faster kernels on a CPU: the results are the same, only the time is not."""

import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path

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


ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise") and not is_intel()


def linear(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """`layer(x)`: x [..., in] -> [..., out]. Inference in float32 on a CPU that is not Intel's is computed by oneDNN.

    torch's own choice there, MKL, takes up to twice as long (benchmarks/README.md); on Intel's it is the faster one.
    The layer stays a plain `nn.Linear`, so that tools which look for this class (quantisation, LoRA) find it.
    """
    if not (x.device.type == "cpu" and x.dtype == torch.float32 and takes_onednn(layer)):
        return layer(x)
    return torch.ops.mkldnn._linear_pointwise(x.contiguous(), layer.weight, layer.bias, "none", [], "")


def product(layer: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """`layer` as a function x [R, in] -> [R, out], for many calls with no gradient: what can be decided, is decided."""
    if takes_onednn(layer):
        onednn = torch.ops.mkldnn._linear_pointwise.default
        weight, bias = layer.weight, layer.bias
        return lambda x: onednn(x, weight, bias, "none", [], "")
    if isinstance(layer, Int8Linear) and layer.is_fast() and not is_watched(layer):
        return layer.product
    if is_plain(layer):
        return partial(nn.functional.linear, weight=layer.weight, bias=layer.bias)
    return lambda x: layer(x.unsqueeze(1)).squeeze(1)  # as the model gives it: [R, 1, in]


def takes_onednn(layer: nn.Module) -> bool:
    """Whether oneDNN's float32 product can take the place of `layer`."""
    return ONEDNN and is_inference() and is_plain(layer) and layer.weight.dtype == torch.float32 and is_on_cpu(layer)


def is_on_cpu(layer: nn.Module) -> bool:
    return layer.weight.device.type == "cpu"


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
