"""Holds a converted model against its source: the same logits, the same best tokens, the same translations.

What the source's own toolkit computed comes recorded, as `reference.npz` and `reference.json` beside the checkpoint, or
from the toolkit itself where it is installed.

reference.npz: `input_ids` and `attention_mask` [N, S], `decoder_input_ids` and `decoder_attention_mask` [N, T], and
`logits` or `log_probs` [N, T, V], all padded on the right. Other arrays are passed over.
reference.json: optionally `peer`, its name and version, and `generate`. That holds, under a name such as "greedy",
"beam4_lenpen0.6" (ranked by log P / length^0.6) or "beam4_alpha0.6" (by the paper's penalty), a list of hypotheses for
each sentence, best first, each with its `ids`, or with its `tokens` where the vocabulary is known.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from transformers import GenerationConfig

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.generation_vaswani import length_penalty

from .core import ConversionError
from .reading import read_json, read_npz


TOLERANCE = 1e-4


@dataclass(frozen=True)
class Parity:
    """How a converted model compares with `against`, over `positions` target tokens of `sentences` sentences.

    Of the `translations`, beam search may find others that are as good by the source's own ranking or better: toolkits
    stop searching by rules of their own.
    """

    against: str
    sentences: int
    positions: int
    max_difference: float
    best_tokens_agree: bool
    translations: int = 0
    translations_agree: int = 0
    translations_better: int = 0
    not_compared: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        same = self.best_tokens_agree and self.translations_agree + self.translations_better == self.translations
        return same and self.max_difference < TOLERANCE

    def __str__(self) -> str:
        searched = (
            f", {self.translations_agree} of {self.translations} translations the same" if self.translations else ""
        )
        if self.translations_better:
            searched += f", {self.translations_better} better by its own ranking"
        if self.not_compared:
            searched += f"; not compared: {', '.join(self.not_compared)}"
        return (
            f"{self.against}: largest difference {self.max_difference:.1e} over {self.positions:,} positions of "
            f"{self.sentences:,} sentences, best tokens {'the same' if self.best_tokens_agree else 'NOT the same'}"
            f"{searched}"
        )

    def to_dict(self) -> dict:
        return {**asdict(self), "tolerance": TOLERANCE}


@torch.no_grad()
def compare(
    model: VaswaniForConditionalGeneration, inputs: Mapping[str, torch.Tensor], scores: torch.Tensor, against: str,
    log_probs: bool = False,
) -> Parity:  # fmt: skip
    """`scores` [N, T, V], logits or log-probabilities of the source's toolkit for `inputs`, and what the model gives.

    A vocabulary to which conversion added tokens that are never produced, such as padding, is compared without them.

    Raises:
        ConversionError: `inputs` and `scores` are of another model, or hold nothing to compare.
    """
    inputs = dict(inputs)
    check_shapes(model, inputs, scores)
    real = inputs.pop("decoder_attention_mask").bool()
    logits = model(**inputs, use_cache=False).logits.float()
    if (logits.softmax(dim=-1)[..., scores.shape[-1] :] > 0).any():
        raise ConversionError.of("The reference is not of this model", [f"its scores are of {scores.shape[-1]} tokens"])
    logits = logits[..., : scores.shape[-1]]
    if log_probs:
        logits, scores = logits.log_softmax(dim=-1), scores.log_softmax(dim=-1)
    difference = (logits - scores)[real]
    best, expected = logits[real].argmax(dim=-1), scores[real].argmax(dim=-1)
    return Parity(
        against=against,
        sentences=len(real),
        positions=int(real.sum()),
        max_difference=float(difference.abs().max()),
        best_tokens_agree=bool(torch.equal(best, expected)),
    )


def check_shapes(model: VaswaniForConditionalGeneration, inputs: Mapping[str, torch.Tensor], scores: torch.Tensor):
    config, problems = model.config, []
    for side, size in (("", config.vocab_size), ("decoder_", config.decoder_vocab_size)):
        ids, mask = inputs[f"{side}input_ids"], inputs[f"{side}attention_mask"]
        if ids.dim() != 2 or ids.shape != mask.shape or not mask.any():
            problems.append(f"{side}input_ids {list(ids.shape)} with {side}attention_mask {list(mask.shape)}")
        elif not 0 <= int(ids.min()) <= int(ids.max()) < size:
            problems.append(f"{side}input_ids up to {int(ids.max())} of {size} tokens")
    wanted = [*inputs["decoder_input_ids"].shape, config.decoder_vocab_size]
    if list(scores.shape[:-1]) != wanted[:-1] or scores.shape[-1] > wanted[-1]:
        problems.append(f"scores {list(scores.shape)} instead of {wanted}")
    if len(inputs["input_ids"]) != len(inputs["decoder_input_ids"]):
        problems.append("sources and targets of different numbers")
    if problems:
        raise ConversionError.of("The reference is not of this model", problems)


def compare_recorded(
    model: VaswaniForConditionalGeneration, arrays: Path, record: Path | None = None, tokens: Sequence[str] = ()
) -> Parity:
    """Against a `reference.npz` and, where there is one, its `reference.json`; see the module.

    `tokens` are the target vocabulary in the order of its ids, for hypotheses that are recorded as tokens.

    Raises:
        ConversionError: the files are not what the module describes, or are of a model of another size.
    """
    record = record or arrays.with_suffix(".json")
    said = read_json(record) if record.is_file() else {}
    try:
        found = {name: torch.from_numpy(array) for name, array in read_npz(arrays).items()}
    except TypeError as error:
        raise ConversionError(f"{arrays} is no reference: {error}") from None
    names = ("input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask")
    if missing := [name for name in names if name not in found]:
        raise ConversionError(f"{arrays} is no reference: it lacks {', '.join(missing)}.")
    kind = next((name for name in ("logits", "log_probs") if name in found), None)
    if kind is None:
        raise ConversionError(f"{arrays} is no reference: it has neither logits nor log_probs.")
    inputs = {name: found[name].long() for name in names}
    parity = compare(model, inputs, found[kind].float(), said.get("peer", str(arrays)), kind == "log_probs")
    searches = said.get("generate") or {}
    try:
        same, better, count, others = compare_searches(model, inputs, searches, tokens)
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise ConversionError(f"{record} does not hold translations as a reference does: {error}") from error
    return replace(parity, translations=count, translations_agree=same, translations_better=better, not_compared=others)


SEARCH = re.compile(r"(greedy|beam(?P<beams>\d+))(_(?P<kind>[a-z_]+?)_?(?P<alpha>\d[\d.]*)?)?")
# k of ((k + length) / (k + 1))^alpha
OFFSETS = {"lenpen": 0, "lp": 0, "normalize": 0, "alpha": 5}
OFFSETS |= {"avg": 1, "gnmt_alpha": 6}  # OpenNMT-py's: it counts the start token too


@torch.no_grad()
def compare_searches(
    model: VaswaniForConditionalGeneration, inputs: Mapping[str, torch.Tensor], searches: Mapping[str, list],
    tokens: Sequence[str] = (),
) -> tuple[int, int, int, tuple[str, ...]]:  # fmt: skip
    """How many of the recorded best hypotheses our search finds, for how many it finds better ones, and of how many;
    and the names of searches that are not known here, or have tokens that are not."""
    own = model.generation_config
    try:  # what a recorded search does not name, such as a limit, is unset
        model.generation_config = copy.deepcopy(own)
        model.generation_config.update(max_length=None, forced_eos_token_id=None)
        return _compare_searches(model, inputs, searches, tokens)
    finally:
        model.generation_config = own


def _compare_searches(
    model: VaswaniForConditionalGeneration, inputs: Mapping[str, torch.Tensor], searches: Mapping[str, list],
    tokens: Sequence[str],
) -> tuple[int, int, int, tuple[str, ...]]:  # fmt: skip
    numbers = {token: number for number, token in enumerate(tokens)}
    same = better = count = 0
    others = []
    for name, sentences in searches.items():
        settings = SEARCH.fullmatch(name)
        # How greedy search would rank does not matter.
        known = settings is not None and (settings["beams"] is None or (settings["kind"] or "lenpen") in OFFSETS)
        if not known or not all(isinstance(s, list) and s for s in sentences):
            others.append(name)
            continue
        recorded = [[ids_of(hypothesis, numbers) for hypothesis in sentence] for sentence in sentences]
        if None in (sentence[0] for sentence in recorded):
            others.append(name)
            continue
        config = copy.deepcopy(model.generation_config)
        config.num_beams = int(settings["beams"] or 1)
        config.length_penalty = float(settings["alpha"] or 1)
        config.length_penalty_offset = OFFSETS.get(settings["kind"] or "lenpen", 0)
        config.max_new_tokens = max(len(sentence[0]) for sentence in recorded) + 10
        if model.config.position_encoding == "learned":
            last = model.config.max_position_embeddings - model.config.position_offset
            config.max_new_tokens = min(config.max_new_tokens, last)
        source, mask = inputs["input_ids"], inputs["attention_mask"]
        found = model.generate(source, attention_mask=mask, generation_config=config).tolist()
        for i, (ours, sentence) in enumerate(zip(found, recorded, strict=True)):
            one, theirs = {"input_ids": source[i, None], "attention_mask": mask[i, None]}, sentence[0]
            cut = without_end(theirs, model) == theirs  # no end: perhaps it ran into a limit of its toolkit's
            if cut and without_end(ours[1:], model) != theirs:
                config.max_new_tokens = max(len(ids) for ids in sentence if ids is not None)
                ours = model.generate(**one, generation_config=config)[0].tolist()
            agrees = without_end(ours[1:], model) == without_end(theirs, model)
            same += agrees
            better += not agrees and config.num_beams > 1 and outranks(model, one, ours[1:], theirs, config)
            count += 1
    return same, better, count, tuple(others)


def outranks(
    model: VaswaniForConditionalGeneration, source: Mapping[str, torch.Tensor], ours: list[int], theirs: list[int],
    config: GenerationConfig,
) -> bool:  # fmt: skip
    """Whether `ours` is as good as `theirs` or better by the penalised log P of `config`. An end may be unrecorded."""
    end = model.config.eos_token_id

    def rank(ids: list[int]) -> float:
        ids = torch.tensor([model.config.decoder_start_token_id, *ids])
        log_probs = model(**source, decoder_input_ids=ids[None, :-1], use_cache=False).logits[0].log_softmax(dim=-1)
        penalty = length_penalty(len(ids) - 1, config.length_penalty, config.length_penalty_offset)
        return float(log_probs.gather(-1, ids[1:, None]).sum() / penalty)

    ended = [[*without_end(ids, model), end] for ids in (ours, theirs)]
    ours = ended[0] if end in ours else without_end(ours, model)
    return rank(ours) >= max(rank(ids) for ids in ([ended[1]] if end in theirs else [ended[1], theirs]) if ids)


def ids_of(hypothesis: Mapping, numbers: Mapping[str, int]) -> list[int] | None:
    """Of a recorded hypothesis; None where it has none, or tokens that the vocabulary lacks."""
    if "ids" in hypothesis or not numbers:
        return hypothesis.get("ids")
    tokens = hypothesis.get("tokens")
    ids = [numbers.get(token) for token in (tokens.split() if isinstance(tokens, str) else tokens or [])]
    return None if tokens is None or None in ids else ids


def without_end(ids: list[int], model: VaswaniForConditionalGeneration) -> list[int]:
    ends = {model.config.eos_token_id, model.config.pad_token_id}
    end = next((i for i, token in enumerate(ids) if token in ends), len(ids))
    return ids[:end]


def check_it_runs(model: VaswaniForConditionalGeneration):
    """Raises:
    ConversionError: the model gives what is no number, for a source of random tokens.
    """
    config = model.config
    first = max(i for i in (config.pad_token_id, config.eos_token_id, 3) if i is not None) + 1
    source = torch.arange(first, first + 6)[None] % config.vocab_size
    logits = model(input_ids=source, decoder_input_ids=torch.full((1, 1), config.decoder_start_token_id)).logits
    if not logits.isfinite().all():
        raise ConversionError("The converted model gives scores that are not numbers: its weights are damaged.")
