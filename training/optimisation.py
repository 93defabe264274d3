"""The learning rate, the optimisers (section 5.3), and what a loss may hold besides cross-entropy."""

import torch
from torch import nn

from .muon import Float32Muon
from .recipe import Optimisation


def learning_rate(step: int, d_model: int, recipe: Optimisation) -> float:
    """Equation 3 for step 1, 2, ...: rises for `warmup_steps`, then falls with the root of the step.

    With `decay_from` it falls from that step on. For `schedule_free` it stays where it has risen to.
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
    """The paper's Adam; with `muon` that one for the matrices inside the layers, and Adam for all else.

    `schedule_free` is AdamW without weight decay or schedule, whose result is an average of all weights so far (Defazio
    et al. 2024, arXiv 2405.15682).

    Muon (Jordan et al. 2024) makes each matrix's momentum orthogonal. Scaled to Adam's usual size of update (Liu et al.
    2025, arXiv 2502.16982), it takes the same learning rates.
    """
    if recipe.optimiser == "schedule_free":
        from schedulefree import AdamWScheduleFree  # only who asks for it needs it installed

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
    kind = torch.optim.Muon if recipe.precision == "bfloat16" else Float32Muon
    muon = kind(
        [parameters[name] for name in parameters if name in matrices],
        weight_decay=0.0,
        adjust_lr_fn="match_rms_adamw",
    )
    return [adam, muon]


def show_averages(optimisers: list[torch.optim.Optimizer]):
    """Puts Schedule-Free's average into the model, to validate and to save; nothing for other optimisers."""
    for optimiser in optimisers:
        if hasattr(optimiser, "eval"):
            optimiser.eval()


def hide_averages(optimisers: list[torch.optim.Optimizer]):
    """Puts the weights at which Schedule-Free takes gradients back."""
    for optimiser in optimisers:
        if hasattr(optimiser, "train"):
            optimiser.train()


def divergence(logits: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Of R-Drop (Liang et al. 2021, arXiv 2106.14448): what two draws of dropout disagree about, in nats.

    The mean of KL(p, q) and KL(q, p), summed over the positions that are `counted`: logits [2B, T, V], those of one
    draw after those of the other, counted [B, T] -> [].
    """
    first, second = logits.float().log_softmax(dim=-1).chunk(2)
    each = ((first.exp() - second.exp()) * (first - second)).sum(dim=-1) / 2
    return each.masked_fill(~counted, 0.0).sum()
