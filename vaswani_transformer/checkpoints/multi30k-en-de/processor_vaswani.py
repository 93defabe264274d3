"""`nn.Linear` and dropout, made fast on processors (CPUs): the same functions, whose time alone is different."""

import torch
from torch import nn


def dropout(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    """Inverted dropout (section 5.4). On a processor the rate is exact to 2^-16."""
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return nn.functional.dropout(x, p=p)
    # One 64-bit draw serves four elements: a quarter of the time of nn.functional.dropout, a tenth of a training step.
    bits = torch.empty(x.numel() // 4 + 1, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = bits[: x.numel()].view(x.shape) >= round(p * 2**16) - 2**15
    return x * kept.to(x.dtype).mul_(1.0 / (1.0 - p))


ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class VaswaniLinear(nn.Linear):
    """A linear map, which float32 inference on a processor leaves to oneDNN.

    torch's own choice there, MKL, takes up to twice as long on processors that are not Intel's (benchmarks/README.md).
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        by_onednn = (
            ONEDNN
            and type(self.weight) is nn.Parameter  # not quantised, not distributed
            and x.device.type == "cpu"
            and x.dtype == self.weight.dtype == torch.float32
            and not torch.is_grad_enabled()  # oneDNN's product has no backward pass
            and not torch.is_autocast_enabled("cpu")
            and not torch.compiler.is_compiling()
            and not torch.jit.is_tracing()
        )
        if not by_onednn:
            return super().forward(x)
        return torch.ops.mkldnn._linear_pointwise(x.contiguous(), self.weight, self.bias, "none", [], "")
