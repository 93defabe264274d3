"""The learning rate, the optimisers (section 5.3), and the extra loss of R-Drop."""

import torch
from torch import nn

from .muon import Float32Muon
from .recipe import Optimisation


def learning_rate(step: int, d_model: int, recipe: Optimisation) -> float:
    """Return the rate of equation 3 for step 1, 2, ...

    It rises for `warmup_steps`, then falls with the square root of the step. With `decay_from`, it falls from that
    step on. With `schedule_free`, it stays at its peak.
    """
    decay_from = recipe.decay_from or recipe.warmup_steps
    peak = (d_model * decay_from) ** -0.5 * recipe.learning_rate_scale
    rate = peak * min(1.0, step / recipe.warmup_steps)
    if recipe.optimiser == "schedule_free":
        return rate
    rate *= min(1.0, (decay_from / step) ** 0.5)
    if recipe.cooldown_steps:
        rate *= min(1.0, (recipe.max_steps + 1 - step) / recipe.cooldown_steps)
    return rate


def build_optimisers(model: nn.Module, recipe: Optimisation) -> list[torch.optim.Optimizer]:
    """Return the optimisers that the recipe names.

    - `adam`: the paper's.
    - `muon`: Muon for the matrices inside the layers, and Adam for the rest. Muon (Jordan et al. 2024) orthogonalises
      each matrix's momentum. Its updates are scaled to the usual size of Adam's (Liu et al. 2025, arXiv 2502.16982), so
      the same learning rates fit.
    - `schedule_free`: AdamW without weight decay or schedule, whose result is an average of all weights so far (Defazio
      et al. 2024, arXiv 2405.15682).
    """
    if recipe.optimiser == "schedule_free":
        from schedulefree import AdamWScheduleFree  # imported only if the recipe asks for it

        betas = (recipe.adam_beta1, recipe.adam_beta2)
        return [AdamWScheduleFree(model.parameters(), betas=betas, eps=recipe.adam_epsilon)]
    parameters = dict(model.named_parameters())
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    matrices = {
        name
        for name, parameter in parameters.items()
        if recipe.optimiser == "muon" and parameter.ndim == 2 and "layers." in name and id(parameter) not in embeddings
    }
    adam = torch.optim.Adam(
        [parameter for name, parameter in parameters.items() if name not in matrices],
        betas=(recipe.adam_beta1, recipe.adam_beta2),
        eps=recipe.adam_epsilon,
        fused=True,
    )
    if not matrices:
        return [adam]
    muon_class = torch.optim.Muon if recipe.precision == "bfloat16" else Float32Muon
    muon = muon_class(
        [parameters[name] for name in parameters if name in matrices],
        weight_decay=0.0,
        adjust_lr_fn="match_rms_adamw",
    )
    return [adam, muon]


def show_averages(optimisers: list[torch.optim.Optimizer]):
    """Put Schedule-Free's averaged weights into the model, to validate or save it; other optimisers do nothing."""
    for optimiser in optimisers:
        if hasattr(optimiser, "eval"):
            optimiser.eval()


def hide_averages(optimisers: list[torch.optim.Optimizer]):
    """Put back the weights at which Schedule-Free computes gradients."""
    for optimiser in optimisers:
        if hasattr(optimiser, "train"):
            optimiser.train()


def r_drop_loss(logits: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Return R-Drop's divergence between two samples of dropout, in nats (Liang et al. 2021, arXiv 2106.14448).

    This is the mean of KL(p, q) and KL(q, p), summed over positions.

    Args:
        logits: [2B, T, V], the first sample for all pairs, then the second.
        counted: [B, T], True at the positions to sum.
    """
    first, second = logits.float().log_softmax(dim=-1).chunk(2)
    each = ((first.exp() - second.exp()) * (first - second)).sum(dim=-1) / 2
    return each.masked_fill(~counted, 0.0).sum()
