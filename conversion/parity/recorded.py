"""Compares a converted model with its toolkit's outputs, recorded beside the checkpoint.

reference.npz: `input_ids` and `attention_mask` [N, S], `decoder_input_ids` and `decoder_attention_mask` [N, T], and
`logits` or `log_probs` [N, T, V], all padded on the right. Other arrays are ignored.

reference.json, optional: `peer`, the toolkit's name and version, and `generate`. The latter maps the name of a search,
such as "greedy", "beam4_lenpen0.6" (ranked by log P / length^0.6) or "beam4_alpha0.6" (the paper's penalty), to a list
of hypotheses per sentence, best first. Each has `ids`, or `tokens` if the vocabulary is known.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from transformers import GenerationConfig

from vaswani_transformer import VaswaniForConditionalGeneration

from ..files.arrays import read_npz
from ..files.text import read_json_object
from ..options import ConversionError
from .scores import Parity, compare
from .translations import Verdicts, without_end


INPUTS = ("input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask")
SEARCH = re.compile(r"(greedy|beam(?P<beams>\d+))(_(?P<kind>[a-z_]+?)_?(?P<alpha>\d[\d.]*)?)?")
# k of ((k + length) / (k + 1))^alpha
OFFSETS = {"lenpen": 0, "lp": 0, "normalize": 0, "alpha": 5}
OFFSETS |= {"avg": 1, "gnmt_alpha": 6}  # OpenNMT-py's length includes the start token


def compare_recorded(
    model: VaswaniForConditionalGeneration, arrays: Path, record: Path | None = None, tokens: Sequence[str] = ()
) -> Parity:
    """Compares with a `reference.npz` and, if present, its `reference.json`; see the module's docstring.

    `tokens` is the target vocabulary in the order of its ids, for hypotheses that are recorded as tokens.

    Raises:
        ConversionError: the files have another format or belong to a model of another size.
    """
    record = record or arrays.with_suffix(".json")
    recorded = read_json_object(record) if record.is_file() else {}
    inputs, scores, log_probs = read_reference(arrays)
    parity = compare(model, inputs, scores, str(recorded.get("peer", arrays)), log_probs)
    try:
        verdicts, not_compared = compare_searches(model, inputs, recorded.get("generate") or {}, tokens)
    except (TypeError, ValueError, AttributeError, IndexError, KeyError) as error:
        raise ConversionError(
            f"{record} does not contain translations in the format of a reference: {error}"
        ) from error
    return parity.with_translations(verdicts, not_compared)


def read_reference(path: Path) -> tuple[dict[str, torch.Tensor], torch.Tensor, bool]:
    """Reads inputs and scores [N, T, V], and whether the scores are log-probabilities.

    Raises:
        ConversionError: an array is missing.
    """
    try:
        arrays = {name: torch.from_numpy(array) for name, array in read_npz(path).items()}
    except TypeError as error:
        raise ConversionError(f"{path} is not a reference: {error}") from None
    if missing := [name for name in INPUTS if name not in arrays]:
        raise ConversionError(f"{path} is not a reference: missing {', '.join(missing)}.")
    kind = next((name for name in ("logits", "log_probs") if name in arrays), None)
    if kind is None:
        raise ConversionError(f"{path} is not a reference: neither logits nor log_probs are present.")
    return {name: arrays[name].long() for name in INPUTS}, arrays[kind].float(), kind == "log_probs"


@torch.no_grad()
def compare_searches(
    model: VaswaniForConditionalGeneration,
    inputs: Mapping[str, torch.Tensor],
    searches: Mapping[str, list],
    tokens: Sequence[str] = (),
) -> tuple[Verdicts, tuple[str, ...]]:
    """Compares our translations with the recorded ones. Also returns the searches that cannot be compared."""
    ids = {token: number for number, token in enumerate(tokens)}
    verdicts, not_compared = Verdicts(), []
    for name, sentences in searches.items():
        settings = SEARCH.fullmatch(name)
        # The ranking of greedy search does not matter.
        known = settings is not None and (settings["beams"] is None or (settings["kind"] or "lenpen") in OFFSETS)
        complete = all(isinstance(hypotheses, list) and hypotheses for hypotheses in sentences)
        recorded = (
            [[hypothesis_ids(h, ids) for h in hypotheses] for hypotheses in sentences] if known and complete else []
        )
        if not recorded or None in (hypotheses[0] for hypotheses in recorded):
            not_compared.append(name)
            continue
        verdicts += compare_search(model, inputs, recorded, recorded_search(model, settings, recorded))
    return verdicts, tuple(not_compared)


def recorded_search(model: VaswaniForConditionalGeneration, name: re.Match, recorded: list) -> GenerationConfig:
    """The search settings in a record's name. Others, such as limits, are unset."""
    config = copy.deepcopy(model.generation_config)
    config.update(max_length=None, forced_eos_token_id=None)
    config.num_beams = int(name["beams"] or 1)
    config.length_penalty = float(name["alpha"] or 1)
    config.length_penalty_offset = OFFSETS.get(name["kind"] or "lenpen", 0)
    config.max_new_tokens = max(len(hypotheses[0]) for hypotheses in recorded) + 10
    if model.config.position_encoding == "learned":
        positions = model.config.max_position_embeddings - model.config.position_offset
        config.max_new_tokens = min(config.max_new_tokens, positions)
    return config


def compare_search(
    model: VaswaniForConditionalGeneration, inputs: Mapping[str, torch.Tensor], recorded: list, config: GenerationConfig
) -> Verdicts:
    """Compares one search. `recorded` contains the ids of all hypotheses of each sentence, best first."""
    saved_config = model.generation_config
    try:
        model.generation_config = copy.deepcopy(config)  # generate takes unset values from here
        translations = model.generate(
            inputs["input_ids"], attention_mask=inputs["attention_mask"], generation_config=config
        ).tolist()
        verdicts = Verdicts()
        for row, (ours, hypotheses) in enumerate(zip(translations, recorded, strict=True)):
            source = {name: inputs[name][row, None] for name in ("input_ids", "attention_mask")}
            original, limited = hypotheses[0], copy.deepcopy(config)
            if without_end(original, model) == original != without_end(ours[1:], model):  # cut off at a limit
                limited.max_new_tokens = max(len(ids) for ids in hypotheses if ids is not None)
                ours = model.generate(**source, generation_config=limited)[0].tolist()
            verdicts.add(model, source, ours[1:], original, config)
        return verdicts
    finally:
        model.generation_config = saved_config


def hypothesis_ids(hypothesis: Mapping, numbers: Mapping[str, int]) -> list[int] | None:
    """The ids of a recorded hypothesis; None if there are none or a token is not in the vocabulary."""
    if "ids" in hypothesis or not numbers:
        return hypothesis.get("ids")
    tokens = hypothesis.get("tokens")
    ids = [numbers.get(token) for token in (tokens.split() if isinstance(tokens, str) else tokens or [])]
    return None if tokens is None or None in ids else ids
