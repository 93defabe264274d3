"""Cross-entropy with label smoothing (section 5.4), in blocks of rows that keep its memory small."""

import math

import torch
from torch import nn


class SmoothedCrossEntropy(torch.autograd.Function):
    """-sum_v q(v) log p(v) with q = `on` at the label and `off` elsewhere: logits [N, V], labels [N] -> [N] in float32.

    The arithmetic is in float32 (float64 for float64 logits), one block of rows at a time: half-precision logits are
    never copied as a whole. Log-probabilities [N, V] are not stored for the backward pass, which computes them again.
    """

    ROWS = 64  # in a block

    @staticmethod
    def forward(ctx, logits, labels, on: float, off: float):
        dtype = torch.promote_types(logits.dtype, torch.float32)
        losses = []
        rows = SmoothedCrossEntropy.ROWS
        for block, label in zip(logits.split(rows), labels.split(rows), strict=True):
            log_p = block.log_softmax(dim=-1, dtype=dtype)
            # The sum over v is a term of the label, plus one of all tokens if there is smoothing.
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
            # The gradient is p(v) - q(v). `off` is subtracted everywhere above, and `on - off` at the label here.
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
    """Mean loss of the tokens whose label is not -100 (section 5.4): logits [B, T, V], labels [B, T] -> [].

    Args:
        smoothing: eps_ls, from 0 up to but not including 1.
        smoothing_type: "t2t" spreads `smoothing` over the V - 1 other tokens and subtracts the entropy of that
            distribution, so that the best loss is 0, as in the authors' code. "uniform" spreads it over all V.
        num_items_in_batch: Replaces the number of tokens as the divisor, so that the micro-steps of a batch add up to
            the mean of the whole batch.
    """
    vocab_size = logits.shape[-1]
    labels = labels.reshape(-1).to(logits.device)
    is_counted = labels.ne(-100)
    if smoothing_type == "t2t":
        on, off = 1.0 - smoothing, smoothing / max(vocab_size - 1, 1)
        entropy = -on * math.log(on) - (smoothing * math.log(off) if off else 0.0)
    else:
        off = smoothing / vocab_size  # the label gets its share, too
        on, entropy = 1.0 - smoothing + off, 0.0
    logits, targets = logits.reshape(-1, vocab_size), labels.clamp(min=0)
    if torch.compiler.is_compiling():  # a compiler fuses the conversion, and would unroll our loop over blocks
        losses = nn.functional.cross_entropy(
            logits.float(), targets, reduction="none", label_smoothing=off * vocab_size
        )
    else:
        losses = SmoothedCrossEntropy.apply(logits, targets, on, off)
    total = (losses - entropy).masked_fill(~is_counted, 0.0).sum()
    count = is_counted.sum() if num_items_in_batch is None else num_items_in_batch
    return total / (count + (count == 0))  # without labels the sum is 0, and so is the loss
