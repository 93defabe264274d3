"""Heads switched off, and what a model makes of a sentence without each of them.

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


Place = tuple[str, str, int]  # stack ("encoder", "decoder"), kind ("self_attn", "cross_attn"), layer
Head = tuple[str, str, int, int]  # the same, and the head
STACKS = ("encoder", "decoder")
SUBLAYERS = ("self_attn", "cross_attn", "feed_forward")


def twin_of(model: PreTrainedModel) -> PreTrainedModel:
    """A second set of modules with the same weights, in evaluation mode: hooks and settings are its own."""
    weights = {id(weight): weight for weight in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, memo=weights).eval()


def head_names(model: PreTrainedModel) -> list[Head]:
    """Every head of the model, from the encoder's first layer to the decoder's last."""
    return [(*place, head) for place, attention in attentions_of(model).items() for head in range(attention.num_heads)]


def attentions_of(model: PreTrainedModel) -> dict[Place, VaswaniAttention]:
    """Every multi-head attention by stack, kind and layer."""
    found = {}
    for stack in STACKS:
        for index, layer in enumerate(getattr(model.base_model, stack).layers):
            for kind in SUBLAYERS[:2]:
                if hasattr(layer, kind):
                    found[stack, kind, index] = getattr(layer, kind)
    return found


def check_heads(model: PreTrainedModel, heads: Iterable[Head]):
    """Refuses a head that the model does not have, with a ValueError that says which there are."""
    known = set(head_names(model))
    for head in heads:
        if tuple(head) not in known:
            config = model.config
            raise ValueError(
                f"There is no head {head[3]} in layer {head[2]} of {head[0]}.{head[1]}: the encoder has "
                f"{config.encoder_layers} layers of {config.encoder_attention_heads} heads, the decoder "
                f"{config.decoder_layers} of {config.decoder_attention_heads}, all counted from 0."
            )


@contextmanager
def without_heads(model: PreTrainedModel, heads: Iterable[Head]) -> Iterator[PreTrainedModel]:
    """Inside the block these heads give nothing: zeros take their place in Concat(head_1, ..., head_h) W^O.

    It holds for whatever runs the model, `generate` among it, in every thread.

    Raises:
        ValueError: there is no such head; the message says which there are.
    """
    heads = list(heads)
    check_heads(model, heads)
    attentions = attentions_of(model)
    factors: dict[Place, torch.Tensor] = {}
    for stack, kind, layer, head in heads:
        ones = torch.ones(1, attentions[stack, kind, layer].num_heads)
        factors.setdefault((stack, kind, layer), ones)[0, head] = 0.0
    with scaled_heads(model, factors):
        yield model


@contextmanager
def scaled_heads(model: PreTrainedModel, factors: dict[Place, torch.Tensor]) -> Iterator[None]:
    """Inside the block each head's output is multiplied by its factor: [B, H], or [1, H] for all sentences."""

    def scaling(factor: torch.Tensor) -> Callable:
        def scale(module: nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            heads = inputs[0].unflatten(-1, (factor.shape[1], -1))  # [rows, T, H, V]
            by_row = factor.to(heads)
            if len(by_row) > 1:  # in beam search a sentence has a row for each beam
                by_row = by_row.repeat_interleave(len(heads) // len(by_row), dim=0)
            return ((heads * by_row[:, None, :, None]).flatten(-2),)

        return scale

    attentions = attentions_of(model)
    hooks = [attentions[place].out_proj.register_forward_pre_hook(scaling(f)) for place, f in factors.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


# Each head by itself -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ablation:
    """A sentence without one head: log P of the translation that the whole model gives, and what comes instead.

    `target_ids` [1 + T] is the translation without the head, the start token first, and `score` its log P / length
    penalty. The whole model's are under the head None.
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
    """What each head by itself does for a sentence; by default first the whole model, then every head.

    In a batch every row lacks another head. `max_time` is in seconds, for the search of each batch.

    source_ids [1, S], target_ids [1, 1 + T], the start token first.
    """
    twin, heads = twin_of(model), [None, *head_names(model)] if heads is None else heads
    results: list[Ablation] = []
    for start in range(0, len(heads), batch_size):
        batch = heads[start : start + batch_size]
        sources, targets = source_ids.expand(len(batch), -1), target_ids.expand(len(batch), -1)
        with scaled_heads(twin, one_off_in_each_row(twin, batch)):
            log_probs = forced_log_probs(twin, {"input_ids": sources}, targets).sum(dim=-1).tolist()
            found = search(twin, sources, num_beams, alpha, max_time)
        for row, head in enumerate(batch):
            ids = found.sequences[row]
            length = int((ids[1:] != model.config.pad_token_id).sum()) + 1
            score = found.sequences_scores[row].item()
            results.append(Ablation(head, log_probs[row], ids[:length].cpu(), score))
    return results


def one_off_in_each_row(model: PreTrainedModel, heads: Sequence[Head | None]) -> dict[Place, torch.Tensor]:
    """Factors [B, H] with which row i lacks head i of the list, or none."""
    attentions = attentions_of(model)
    factors: dict[Place, torch.Tensor] = {}
    for row, (stack, kind, layer, head) in ((i, head) for i, head in enumerate(heads) if head is not None):
        ones = torch.ones(len(heads), attentions[stack, kind, layer].num_heads)
        factors.setdefault((stack, kind, layer), ones)[row, head] = 0.0
    return factors


# Running the model ---------------------------------------------------------------------------------------------------


def search(
    twin: PreTrainedModel,
    source_ids: torch.Tensor,
    num_beams: int | None = None,
    alpha: float | None = None,
    max_time: float | None = None,
    watch: Callable[[BeamSearch], BeamSearch] = lambda search: search,
) -> VaswaniBeamOutput:
    """What `generate` finds for sources [B, S], by the paper's search for any number of beams, one included.

    `watch` is given the search before its first step, and gives the one that is taken.

    Raises:
        TimeoutError: it took longer than `max_time` seconds.
    """
    start_search = twin._start_search

    def start(input_ids: torch.Tensor, config, *others) -> BeamSearch:
        started = start_search(input_ids, config, *others)
        started.alpha = started.alpha if alpha is None else alpha
        if config.num_beams == 1:  # with which it finds what the library's greedy search does
            started.early_stopping = True
        return watch(started)

    def beam_search(model, input_ids, logits_processor, stopping_criteria, generation_config, **model_kwargs):
        return model._beam_search(input_ids, logits_processor, stopping_criteria, generation_config, **model_kwargs)

    settings = {"num_beams": num_beams, "max_time": max_time}
    settings = {name: value for name, value in settings.items() if value is not None}
    begun = time.perf_counter()
    twin._start_search = start
    try:
        output = twin.generate(
            source_ids,
            custom_generate=beam_search,  # `generate` would use the library's loop for one beam
            return_dict_in_generate=True,
            do_sample=False,
            num_return_sequences=1,
            **settings,
        )
    finally:
        del twin._start_search
    if max_time is not None and time.perf_counter() - begun > max_time:
        raise TimeoutError(f"The search took longer than {max_time:g} seconds: give a shorter sentence.")
    return output
