"""Which word of the source each word of a translation translates: one head of cross-attention says it.

The head is the checkpoint's own. `alignment_head` in generation_config.json names its layer and number, from 0, and
when it looks: where a word is "produced", or one step later, where it is "read". The project's `experiments alignment`
finds it, and says how good it is.

Shapes: B pairs, S source tokens, T target tokens, D = d_model, H heads, K = d_k.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .spans_vaswani import Span, words


WHEN = {"produced": 0, "read": 1}  # steps after the one that gives the token
MOST_PAIRS = 32  # that go through the model at once


class AlignmentHead(NamedTuple):
    """A head of cross-attention, counted from 0, and when it looks at the word that is translated."""

    layer: int
    head: int
    when: str

    @classmethod
    def of(cls, model: PreTrainedModel) -> "AlignmentHead":
        """That of the checkpoint's record.

        Raises:
            ValueError: it has none, or names one that the model does not have.
        """
        kept = getattr(model.generation_config, "alignment_head", None)
        if kept is None:
            raise ValueError(
                "This checkpoint does not say which of its heads aligns words: generation_config.json has no "
                '`alignment_head`, such as {"layer": 0, "head": 1, "when": "read"}.'
            )
        config = model.config
        try:
            head = cls(kept["layer"], kept["head"], kept["when"])
            exists = 0 <= head.layer < config.decoder_layers and 0 <= head.head < config.decoder_attention_heads
        except (KeyError, TypeError):
            exists = False
        if not exists or head.when not in WHEN:
            raise ValueError(f"`alignment_head` is {kept!r}; the decoder has no such head.")
        return head


def align(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    head: AlignmentHead | None = None,
) -> list[list[tuple[int, int]]]:
    """For each pair of texts the links (i, j): word i of the source is what word j of the target translates.

    Each word of the target has one, unless the source has no words. `head` is by default the checkpoint's.

    Raises:
        ValueError: the checkpoint names no head, or its tokenizer does not say where in a text its tokens are.
    """
    head = head or AlignmentHead.of(model)
    if not tokenizer.is_fast:
        raise ValueError("Alignment needs a tokenizer that gives `return_offsets_mapping`: one of a tokenizer.json.")
    found: list[list[tuple[int, int]]] = [[] for _ in pairs]
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
    for start in range(0, len(order), MOST_PAIRS):
        some = order[start : start + MOST_PAIRS]
        sources, targets = zip(*(pairs[i] for i in some), strict=True)
        plain = {"padding": True, "return_tensors": "pt", "return_offsets_mapping": True, "verbose": False}
        source, target = tokenizer(list(sources), **plain), tokenizer(text_target=list(targets), **plain)
        weights = attention_weights(model, source, target, head).cpu()
        for row, i in enumerate(some):
            of_source = by_word(source["offset_mapping"][row].tolist(), words(sources[row]))
            of_target = by_word(target["offset_mapping"][row].tolist(), words(targets[row]))
            if len(of_source) and len(of_target):
                largest = (of_target @ weights[row] @ of_source.T).argmax(dim=-1)
                found[i] = [(word, j) for j, word in enumerate(largest.tolist())]
    return found


def by_word(tokens: Sequence[Sequence[int]], spans: Sequence[Span]) -> torch.Tensor:
    """Which tokens are parts of which word: [words, tokens], 0 or 1. Padding and ends of sentences have no text."""
    return torch.tensor([[float(a < end and b > start and a < b) for a, b in tokens] for start, end in spans])


@torch.no_grad()
def attention_weights(model: PreTrainedModel, source: dict, target: dict, head: AlignmentHead) -> torch.Tensor:
    """The weights of one head for each token of the target, teacher-forced: [B, T, S], whatever the kernel."""
    device, pad = model.device, model.config.pad_token_id or 0
    mask, ids = source["attention_mask"].to(device), target["input_ids"].to(device)
    start = torch.full_like(ids[:, :1], model.config.decoder_start_token_id)
    ids = torch.cat([start, ids.masked_fill(~target["attention_mask"].bool().to(device), pad)], dim=1)
    outputs = model.base_model(
        input_ids=source["input_ids"].to(device),
        attention_mask=mask,
        decoder_input_ids=ids,
        use_cache=False,
        output_hidden_states=True,
    )
    layer, cross = model.base_model.decoder.layers[head.layer], model.base_model.decoder.layers[head.layer].cross_attn
    x, memory = outputs.decoder_hidden_states[head.layer], outputs.encoder_last_hidden_state
    x = layer.add_and_norm(x, layer.self_attn, layer.self_attn_norm, attention_mask=causal_mask(model, x))
    x = layer.cross_attn_norm(x) if layer.pre_norm else x
    keys, _ = cross.kv_proj(memory).split((cross.num_heads * cross.d_k, cross.num_heads * cross.d_v), dim=-1)
    query, key = (cross.split_heads(y, cross.d_k)[:, head.head].float() for y in (cross.q_proj(x), keys))
    scores = query @ key.transpose(1, 2) * cross.scaling  # [B, 1 + T, S]
    weights = scores.masked_fill(mask.unsqueeze(1) == 0, float("-inf")).softmax(dim=-1)
    shift = WHEN[head.when]
    return weights[:, shift : shift + ids.shape[1] - 1]


def causal_mask(model: PreTrainedModel, x: torch.Tensor) -> torch.Tensor | None:
    """What keeps each token from those after it: [1, 1, T, T]; None where the kernel does so by itself."""
    if "flash" in (model.config._attn_implementation or ""):
        return None
    length = x.shape[1]
    return torch.full((length, length), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device).triu(1)[None, None]
