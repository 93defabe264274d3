"""Word alignments: which word of the source each word of a translation translates, read from one cross-attention head.

Every checkpoint has its own such head. `alignment_head` in generation_config.json names its layer and its number, both
counted from 0, and when it attends to the source word: at the step that produces the translation ("produced"), or one
step later, when the decoder reads it ("read"). `inspection/alignment_head.py` chooses this head when a checkpoint is
converted. For the included checkpoints, the project's experiment `alignment` has chosen it.

Shapes: B pairs, S source tokens, T target tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.masking_utils import create_causal_mask

from .forced_vaswani import Pair, PairBatch, check_offsets, map_pairs, word_mask
from .spans_vaswani import words


WHEN = {"produced": 0, "read": 1}  # steps after the one that produces the token
Link = tuple[int, int]  # the numbers of a source word and of a target word


class AlignmentHead(NamedTuple):
    """A cross-attention head, its layer and number counted from 0, and when it attends to the translated word."""

    layer: int
    head: int
    when: str

    @classmethod
    def from_model(cls, model: PreTrainedModel) -> "AlignmentHead":
        """Return the head that the checkpoint's generation_config.json names.

        Raises:
            ValueError: it names none, or one that the model does not have.
        """
        entry = getattr(model.generation_config, "alignment_head", None)
        if entry is None:
            raise ValueError(
                "This checkpoint does not name a head that aligns words, so it has no word alignments. `vaswani "
                "calibrate CHECKPOINT FILE` looks for one in your own translations. In Python, set "
                '`model.generation_config.alignment_head`, such as to {"layer": 0, "head": 1, "when": "read"}.'
            )
        config = model.config
        try:
            head = cls(entry["layer"], entry["head"], entry["when"])
            exists = 0 <= head.layer < config.decoder_layers and 0 <= head.head < config.decoder_attention_heads
        except (KeyError, TypeError):
            exists = False
        if not exists or head.when not in WHEN:
            raise ValueError(
                f"Invalid `alignment_head` in generation_config.json: {entry!r}. "
                f"The decoder has {config.decoder_layers} layers of {config.decoder_attention_heads} heads, counted "
                'from 0; "when" is "produced" or "read".'
            )
        return head


def align(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[Pair],
    head: AlignmentHead | None = None,
) -> list[list[Link]]:
    """Return the links (i, j) of each pair: word j of the target translates word i of the source.

    Each word of the target has one link, unless the source has no words.

    Args:
        model: The model.
        tokenizer: Its tokenizer, a fast one.
        pairs: Sources and their translations.
        head: The head to read; by default the one that the checkpoint names.

    Raises:
        ValueError: the checkpoint names no head, or the tokenizer is a slow one.
    """
    head = head or AlignmentHead.from_model(model)
    check_offsets(tokenizer)

    def links(batch: PairBatch) -> list[list[Link]]:
        return [strongest_links(batch, row, x) for row, x in enumerate(attention_weights(model, batch, head).cpu())]

    return map_pairs(links, model, tokenizer, pairs)


def strongest_links(batch: PairBatch, row: int, weights: torch.Tensor) -> list[Link]:
    """Link each target word of a pair to the source word with the largest weight, of weights [T, S]."""
    weights = word_weights(batch, row, weights)
    return [(i, j) for j, i in enumerate(weights.argmax(dim=-1).tolist())] if weights.numel() else []


def word_weights(batch: PairBatch, row: int, weights: torch.Tensor) -> torch.Tensor:
    """Sum up the weights [..., T, S] of a pair by words: [..., target words, source words]."""
    source, target = batch.pairs[row]
    source_mask = word_mask(batch.source_offsets[row], words(source))  # [source words, its tokens]
    target_mask = word_mask(batch.target_offsets[row], words(target))
    weights = weights[..., : target_mask.shape[1], : source_mask.shape[1]]  # without padding
    return target_mask @ weights @ source_mask.T


@torch.no_grad()
def attention_weights(model: PreTrainedModel, batch: PairBatch, head: AlignmentHead) -> torch.Tensor:
    """Return the weights of one head at each target token, teacher-forced: [B, T, S], in float32.

    The fast kernels compute no weights, so this repeats the layer's own steps as far as the head. A hook could pass the
    layer's input on, but would also see what other threads translate.
    """
    outputs = model.base_model(
        **batch.inputs, decoder_input_ids=batch.target_ids, use_cache=False, output_hidden_states=True
    )
    layer = model.base_model.decoder.layers[head.layer]
    x = outputs.decoder_hidden_states[head.layer]  # the layer's input: [B, 1 + T, D]
    causal_mask = create_causal_mask(model.config, x, None, None)
    x = layer.add_and_norm(x, layer.self_attn, layer.self_attn_norm, attention_mask=causal_mask)
    x = layer.cross_attn_norm(x) if layer.pre_norm else x
    query, key, _ = layer.cross_attn.project_cross(x, outputs.encoder_last_hidden_state, None)
    query, key = query[:, head.head].float(), key[:, head.head].float()
    scores = query @ key.transpose(1, 2) * layer.cross_attn.scaling  # [B, 1 + T, S]
    is_padding = batch.inputs["attention_mask"].unsqueeze(1) == 0
    weights = scores.masked_fill(is_padding, float("-inf")).softmax(dim=-1)
    first = WHEN[head.when]
    return weights[:, first : first + batch.target_ids.shape[1] - 1]
