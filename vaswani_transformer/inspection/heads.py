"""Switching heads off, and the translations of a sentence without each of them.

```python
with without_heads(model, [("encoder", "self_attn", 0, 3)]):
    model.generate(**inputs)
```

Shapes: B sentences, S source tokens, T target tokens, H heads, V = d_v.
"""

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel

from ..model.beam_search_vaswani import BeamSearch
from ..model.forced_vaswani import forced_log_probs
from ..model.generation_vaswani import VaswaniBeamOutput
from ..model.modeling_vaswani import VaswaniAttention


Site = tuple[str, str, int]  # stack ("encoder" or "decoder"), kind ("self_attn" or "cross_attn"), layer
Head = tuple[str, str, int, int]  # a site and the number of the head
STACKS = ("encoder", "decoder")
SUBLAYERS = ("self_attn", "cross_attn", "feed_forward")


def shared_copy(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of the model that shares its weights, in evaluation mode. Hooks and settings of the copy are separate."""
    weights = {id(weight): weight for weight in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, memo=weights).eval()


def head_names(model: PreTrainedModel) -> list[Head]:
    """All heads of the model, from the encoder's first layer to the decoder's last."""
    return [(*site, head) for site, attention in attentions_of(model).items() for head in range(attention.num_heads)]


def attentions_of(model: PreTrainedModel) -> dict[Site, VaswaniAttention]:
    """All multi-head attentions, by stack, kind and layer."""
    attentions = {}
    for stack in STACKS:
        for index, layer in enumerate(getattr(model.base_model, stack).layers):
            for kind in SUBLAYERS[:2]:
                if hasattr(layer, kind):
                    attentions[stack, kind, index] = getattr(layer, kind)
    return attentions


def check_heads(model: PreTrainedModel, heads: Iterable[Head]):
    """Check that the model has these heads.

    Raises:
        ValueError: It does not have one of them; the message says which heads exist.
    """
    known = set(head_names(model))
    for head in heads:
        if tuple(head) not in known:
            config = model.config
            raise ValueError(
                f"Head {head[3]} in layer {head[2]} of {head[0]}.{head[1]} does not exist: the encoder has "
                f"{config.encoder_layers} layers of {config.encoder_attention_heads} heads, the decoder "
                f"{config.decoder_layers} of {config.decoder_attention_heads}, all counted from 0."
            )


@contextmanager
def without_heads(model: PreTrainedModel, heads: Iterable[Head]) -> Iterator[PreTrainedModel]:
    """Switch heads off inside a `with` block: zeros replace them in Concat(head_1, ..., head_h) W^O (section 3.2.2).

    The change applies to everything that runs the model, such as `generate`, in all threads.

    Args:
        model: A `VaswaniForConditionalGeneration`.
        heads: Each head as (stack, kind, layer, number), such as ("encoder", "self_attn", 0, 3), counted from 0.

    Yields:
        The model.

    Raises:
        ValueError: A head does not exist; the message says which heads exist.
    """
    heads = list(heads)
    check_heads(model, heads)
    attentions = attentions_of(model)
    factors: dict[Site, torch.Tensor] = {}
    for stack, kind, layer, head in heads:
        ones = torch.ones(1, attentions[stack, kind, layer].num_heads)
        factors.setdefault((stack, kind, layer), ones)[0, head] = 0.0
    with scaled_heads(model, factors):
        yield model


@contextmanager
def scaled_heads(model: PreTrainedModel, factors: dict[Site, torch.Tensor]) -> Iterator[None]:
    """Multiply each head's output by its factor inside a `with` block: [B, H], or [1, H] for all sentences."""

    def scaling(factor: torch.Tensor) -> Callable:
        def scale(module: nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            heads = inputs[0].unflatten(-1, (factor.shape[1], -1))  # [rows, T, H, V]
            row_factors = factor.to(heads)
            if len(row_factors) > 1:  # in beam search a sentence has a row for each beam
                row_factors = row_factors.repeat_interleave(len(heads) // len(row_factors), dim=0)
            return ((heads * row_factors[:, None, :, None]).flatten(-2),)

        return scale

    attentions = attentions_of(model)
    hooks = [attentions[site].out_proj.register_forward_pre_hook(scaling(f)) for site, f in factors.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


# One head at a time --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ablation:
    """A sentence translated without one head.

    Attributes:
        head: The head, or None for the whole model.
        log_prob_of_original: log P, without the head, of the whole model's translation.
        target_ids: The translation without the head, the start token first: [1 + T].
        score: Its log P divided by the length penalty.
    """

    head: Head | None
    log_prob_of_original: float
    target_ids: torch.Tensor
    score: float


@torch.no_grad()
def ablate_heads(
    model: PreTrainedModel,
    source_ids: torch.Tensor,
    target_ids: torch.Tensor,
    num_beams: int | None = None,
    alpha: float | None = None,
    heads: Sequence[Head | None] | None = None,
    batch_size: int = 64,
    max_time: float | None = None,
) -> list[Ablation]:
    """Translate a sentence without each of its heads, one at a time.

    Args:
        source_ids: [1, S].
        target_ids: The whole model's translation [1, 1 + T], the start token first.
        num_beams, alpha: The settings of the search; by default the checkpoint's.
        heads: The heads, or None for the whole model; by default the whole model, then all heads.
        batch_size: Rows of a batch, in each of which another head is off.
        max_time: Maximum seconds for the search of each batch.

    Raises:
        TimeoutError: A search took longer than `max_time`.
    """
    copied = shared_copy(model)
    heads = [None, *head_names(model)] if heads is None else heads
    results: list[Ablation] = []
    for start in range(0, len(heads), batch_size):
        batch = heads[start : start + batch_size]
        sources, targets = source_ids.expand(len(batch), -1), target_ids.expand(len(batch), -1)
        with scaled_heads(copied, single_head_factors(copied, batch)):
            log_probs = forced_log_probs(copied, {"input_ids": sources}, targets).sum(dim=-1).tolist()
            output = search(copied, sources, num_beams, alpha, max_time)
        for row, head in enumerate(batch):
            ids = output.sequences[row]
            length = int((ids[1:] != model.config.pad_token_id).sum()) + 1
            score = output.sequences_scores[row].item()
            results.append(Ablation(head, log_probs[row], ids[:length].cpu(), score))
    return results


def single_head_factors(model: PreTrainedModel, heads: Sequence[Head | None]) -> dict[Site, torch.Tensor]:
    """Factors [B, H] that switch off head i of the list in row i, or no head if it is None."""
    attentions = attentions_of(model)
    factors: dict[Site, torch.Tensor] = {}
    for row, (stack, kind, layer, head) in ((i, head) for i, head in enumerate(heads) if head is not None):
        ones = torch.ones(len(heads), attentions[stack, kind, layer].num_heads)
        factors.setdefault((stack, kind, layer), ones)[row, head] = 0.0
    return factors


# Running the model ---------------------------------------------------------------------------------------------------


def search(
    model: PreTrainedModel,
    source_ids: torch.Tensor,
    num_beams: int | None = None,
    alpha: float | None = None,
    max_time: float | None = None,
    start_search: Callable[..., BeamSearch] = BeamSearch,
) -> VaswaniBeamOutput:
    """Run `generate` for sources [B, S] with the paper's search, also for one beam.

    `start_search` is called as `BeamSearch` is, and returns the search to run.

    Raises:
        TimeoutError: The search took longer than `max_time` seconds.
    """

    def start(prompt: torch.Tensor, **settings) -> BeamSearch:
        if alpha is not None:
            settings["alpha"] = alpha
        if settings["num_beams"] == 1:
            settings["early_stopping"] = True  # then one beam gives what greedy search gives
        return start_search(prompt, **settings)

    def beam_search(model, input_ids, logits_processor, stopping_criteria, generation_config, **model_kwargs):
        processed = logits_processor, stopping_criteria, generation_config
        return model._beam_search(input_ids, *processed, start_search=start, **model_kwargs)

    settings = {"num_beams": num_beams, "max_time": max_time}
    settings = {name: value for name, value in settings.items() if value is not None}
    begin = time.perf_counter()
    output = model.generate(
        source_ids,
        custom_generate=beam_search,  # otherwise `generate` runs greedy search for one beam
        return_dict_in_generate=True,
        do_sample=False,
        num_return_sequences=1,
        **settings,
    )
    if max_time is not None and time.perf_counter() - begin > max_time:
        raise TimeoutError(f"The search took longer than {max_time:g} seconds: give a shorter sentence.")
    return output
