"""The loss: cross-entropy with label smoothing (section 5.4), in blocks that keep its memory small."""

import math

import torch
from torch import nn


class SmoothedCrossEntropy(torch.autograd.Function):
    """-sum_v q(v) log p(v) for q = `on` at the label and `off` elsewhere: logits [N, V], labels [N] -> [N] in float32.

    The arithmetic is in float32 (in float64 for such logits) but goes through a block of rows at a time, so that
    half-precision logits are never copied whole to float32, and no [N, V] tensor of log-probabilities is kept for the
    backward pass, which computes them again.
    """

    ROWS = 64

    @staticmethod
    def forward(ctx, logits, labels, on: float, off: float):
        dtype = torch.promote_types(logits.dtype, torch.float32)
        losses = []
        rows = SmoothedCrossEntropy.ROWS
        for block, label in zip(logits.split(rows), labels.split(rows), strict=True):
            log_p = block.log_softmax(dim=-1, dtype=dtype)
            # the sum over v as a term of the label and, where there is smoothing, one of all tokens
            loss = (off - on) * log_p.gather(-1, label.unsqueeze(-1)).squeeze(-1)
            if off:
                loss -= off * log_p.sum(dim=-1)
            losses.append(loss)
        ctx.save_for_backward(logits, labels)
        ctx.on, ctx.off = on, off
        return torch.cat(losses)

    @staticmethod
    def backward(ctx, grad_losses):
        logits, labels = ctx.saved_tensors
        grads = torch.empty_like(logits)
        rows = SmoothedCrossEntropy.ROWS
        for grad, block, label, grad_loss in zip(
            *(x.split(rows) for x in (grads, logits, labels, grad_losses)), strict=True
        ):
            step = block.softmax(dim=-1, dtype=grad_losses.dtype).sub_(ctx.off)
            # p(v) - q(v), where q(v) is `on` at the label and `off` elsewhere: `off` is subtracted above, the rest here
            step.scatter_add_(-1, label.unsqueeze(-1), step.new_full((len(label), 1), ctx.off - ctx.on))
            grad.copy_(step.mul_(grad_loss.unsqueeze(-1)))
        return grads, None, None, None


def label_smoothed_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    smoothing: float,
    smoothing_type: str,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Mean loss of the tokens whose label is not -100: logits [B, T, V], labels [B, T] -> [].

    "t2t" spreads `smoothing` over the V - 1 other tokens and takes off the entropy of that distribution, so that the
    best loss is 0, as in the authors' code. "uniform" spreads it over all V.
    Divides by `num_items_in_batch` where given, so that the micro-steps of one batch add up to the batch's own mean.
    """
    vocab_size = logits.shape[-1]
    labels = labels.reshape(-1).to(logits.device)
    counted = labels.ne(-100)
    if smoothing_type == "t2t":
        on, off = 1.0 - smoothing, smoothing / max(vocab_size - 1, 1)
        entropy = -on * math.log(on) - (smoothing * math.log(off) if off else 0.0)
    else:
        off = smoothing / vocab_size  # the label has its share, too
        on, entropy = 1.0 - smoothing + off, 0.0
    logits, targets = logits.reshape(-1, vocab_size), labels.clamp(min=0)
    if torch.compiler.is_compiling():  # compilers fuse the conversion, and would unroll our loop over blocks
        losses = nn.functional.cross_entropy(
            logits.float(), targets, reduction="none", label_smoothing=off * vocab_size
        )
    else:
        losses = SmoothedCrossEntropy.apply(logits, targets, on, off)
    total = (losses - entropy).masked_fill(~counted, 0.0).sum()
    return total / (counted.sum() if num_items_in_batch is None else num_items_in_batch)
