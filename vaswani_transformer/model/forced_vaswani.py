"""Teacher forcing: how likely given translations are, and the loop that puts pairs of texts through a model in batches.

Shapes: B pairs, S source tokens, T target tokens, V vocabulary.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .spans_vaswani import Span


Pair = tuple[str, str]  # a source and its translation
Result = TypeVar("Result")
MAX_PAIRS = 32  # in a batch


@torch.no_grad()
def forced_logits(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], target_ids: torch.Tensor) -> torch.Tensor:
    """Return the logits at each position of given translations: [B, T, V], in float32.

    Args:
        model: A sequence-to-sequence model.
        inputs: `input_ids` [B, S] and, if there is padding, `attention_mask` [B, S].
        target_ids: The translations [B, 1 + T], the start token first.
    """
    return model(**inputs, decoder_input_ids=target_ids[:, :-1], use_cache=False).logits.float()


@torch.no_grad()
def forced_log_probs(
    model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], target_ids: torch.Tensor
) -> torch.Tensor:
    """Return the log-probability of each target token after the tokens before it: [B, T], in float32.

    The arguments are those of `forced_logits`. Positions of padding hold arbitrary values.
    """
    logits = forced_logits(model, inputs, target_ids)
    # Not `log_softmax(...).gather(...)`, which would need a second tensor [B, T, V].
    return logits.gather(-1, target_ids[:, 1:, None]).squeeze(-1) - logits.logsumexp(dim=-1)


@dataclass(frozen=True)
class PairBatch:
    """Pairs of texts as token ids, on the model's device.

    Args:
        pairs: The texts.
        inputs: `input_ids` and `attention_mask` of the sources, [B, S].
        target_ids: The targets [B, 1 + T], the start token first.
        target_lengths: Tokens in each target, without the start token and padding.
        source_offsets, target_offsets: For each text the spans of its tokens, in characters, without the start token
            and padding. Tokens without text, such as the end of the sentence, have empty spans. Slow tokenizers give no
            offsets: see `check_offsets`.
    """

    pairs: Sequence[Pair]
    inputs: dict[str, torch.Tensor]
    target_ids: torch.Tensor
    target_lengths: list[int]
    source_offsets: list[list[Span]]
    target_offsets: list[list[Span]]


def encode_pairs(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair]) -> PairBatch:
    """Tokenize pairs of texts into one batch."""
    sources, targets = (list(texts) for texts in zip(*pairs, strict=True))
    has_offsets = tokenizer.is_fast
    settings = {
        "padding": True,
        "return_tensors": "pt",
        "return_attention_mask": True,
        "return_offsets_mapping": has_offsets,
        "verbose": False,
    }
    source, target = tokenizer(sources, **settings), tokenizer(text_target=targets, **settings)
    ids = target["input_ids"].to(model.device)
    start = torch.full_like(ids[:, :1], model.config.decoder_start_token_id)
    return PairBatch(
        pairs=pairs,
        inputs={name: source[name].to(model.device) for name in ("input_ids", "attention_mask")},
        target_ids=torch.cat([start, ids], dim=1),
        target_lengths=target["attention_mask"].sum(dim=1).tolist(),
        source_offsets=token_offsets(source) if has_offsets else [],
        target_offsets=token_offsets(target) if has_offsets else [],
    )


def token_offsets(encoded: Mapping[str, torch.Tensor]) -> list[list[Span]]:
    """Return the spans of each text's tokens, without padding."""
    lengths = encoded["attention_mask"].sum(dim=1).tolist()
    rows = encoded["offset_mapping"].tolist()
    return [[(begin, end) for begin, end in row[:length]] for row, length in zip(rows, lengths, strict=True)]


def map_pairs(
    function: Callable[[PairBatch], Iterable[Result]],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[Pair],
    batch_size: int = MAX_PAIRS,
) -> list[Result]:
    """Return the result of each pair, in the order of `pairs`.

    `function` gets batches of pairs of similar length, and gives one result for each pair of its batch.
    """
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
    results: dict[int, Result] = {}
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        batch = encode_pairs(model, tokenizer, [pairs[i] for i in indices])
        results.update(zip(indices, function(batch), strict=True))
    return [results[i] for i in range(len(pairs))]


def mean_log_probs_outside(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[Pair],
    spans: Sequence[Sequence[Span]],
) -> list[float]:
    """Return the mean log-probability of the tokens of each translation that are not in its `spans`.

    Raises:
        ValueError: the tokenizer is a slow one.
    """
    check_offsets(tokenizer)

    def token_log_probs(batch: PairBatch) -> list[tuple[torch.Tensor, list[Span]]]:
        log_probs = forced_log_probs(model, batch.inputs, batch.target_ids).cpu()  # [B, T]
        return list(zip(log_probs, batch.target_offsets, strict=True))

    means = []
    results = map_pairs(token_log_probs, model, tokenizer, pairs)
    for (log_probs, offsets), excluded in zip(results, spans, strict=True):
        is_outside = word_mask(offsets, excluded).sum(dim=0) == 0
        means.append(float(log_probs[: len(offsets)][is_outside].mean()))
    return means


# Words ---------------------------------------------------------------------------------------------------------------


def check_offsets(tokenizer: PreTrainedTokenizerBase):
    """Refuse a tokenizer that does not say where in a text its tokens are.

    Raises:
        ValueError: the tokenizer is a slow one.
    """
    if not tokenizer.is_fast:
        raise ValueError(
            "Alignments and confidence need a fast tokenizer, one with a tokenizer.json: "
            f"{type(tokenizer).__name__} does not say where in a text its tokens are."
        )


def word_mask(offsets: Sequence[Span], spans: Sequence[Span]) -> torch.Tensor:
    """Return which tokens are parts of which word: [words, tokens], 0 or 1.

    A token that overlaps a word is part of it. Tokens without text are part of none.
    """
    rows = [[float(a < end and b > begin and a < b) for a, b in offsets] for begin, end in spans]
    return torch.tensor(rows).reshape(len(spans), len(offsets))
