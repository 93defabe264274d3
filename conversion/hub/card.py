"""The cards (README.md) of converted checkpoints, made from their records, and of exported ones."""

import json
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from vaswani_transformer.cards import HUB_ID, card_metadata, render_card

from ..files.text import read_json_object
from ..options import ConversionError


def conversion_card(folder: Path, name: str) -> str:
    """Returns the text of README.md for the converted checkpoint in `folder`.

    Raises:
        ConversionError: conversion.json, config.json or the weights are damaged.
        FileNotFoundError: one of these files is missing.
    """
    from vaswani_transformer import VaswaniConfig  # imports torch, which --help does not need

    record = read_json_object(folder / "conversion.json")
    if not isinstance(record.get("toolkit"), str):
        raise ConversionError(f"{folder / 'conversion.json'} does not name the toolkit of the original model.")
    config = VaswaniConfig.from_pretrained(folder)
    facts = dict(record.get("facts") or {})
    languages = [facts.pop(key, None) for key in ("source_language", "target_language")]
    licence, differences = facts.pop("licence", None), facts.pop("tokenizer_differences", None) or []
    scores = read_scores(folder)
    return render_card(
        card_metadata(
            name,
            languages,
            licence or "unknown",
            metrics=["sacrebleu"] if scores else [],
            scores=scores,
            tags=[f"converted-from-{record['toolkit']}"],
        ),
        title=name,
        checkpoint=f'"{HUB_ID}"',
        example="TEXT",
        toolkit=record["toolkit"],
        files=facts.pop("files", None) or {},
        facts={key: in_words(value) for key, value in facts.items() if value not in (None, "", [], {})},
        languages=" → ".join(map(str, languages)) if all(languages) else "not recorded",
        licence=licence or "not recorded",
        extra_packages=" sacremoses" if uses_moses(folder) else "",
        checks=record.get("checks") or [],
        scores=scores,
        tokenizer=record.get("tokenizer", False),
        differences=differences,
        config=config,
        search=describe_search(read_json_object(folder / "generation_config.json")),
        parameters=sum(count_parameters(file) for file in sorted(folder.glob("model*.safetensors"))),
        both=both,
    )


def uses_moses(folder: Path) -> bool:
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and "moses_source" in read_json_object(settings)


def read_scores(folder: Path) -> list[dict]:
    """Reads scores with "dataset", "metric", "value" and "signature" from about.json or scores.json; may be []."""
    for name, select in (("about.json", lambda record: record.get("scores") or []), ("scores.json", evaluated)):
        if not (file := folder / name).is_file():
            continue
        try:
            scores = select(read_json_object(file))
            if scores:
                return [{key: score[key] for key in ("dataset", "metric", "value", "signature")} for score in scores]
        except (KeyError, TypeError, AttributeError) as error:
            raise ConversionError(
                f"{file} does not contain scores in the format of `vaswani evaluate`: {error!r}."
            ) from None
    return []


def evaluated(record: dict) -> list[dict]:
    """The scores in a file written by `vaswani evaluate`."""
    return [
        {"dataset": result["dataset"], "metric": metric, **score}
        for result in record["results"]
        for metric, score in result.items()
        if isinstance(score, dict) and "signature" in score
    ]


def count_parameters(file: Path) -> int:
    """Counts the parameters in a safetensors file, from its header.

    Raises:
        ConversionError: it is damaged.
    """
    count = 0
    try:
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():
                size = 1
                for length in tensors.get_slice(name).get_shape():
                    size *= length
                count += size
    except SafetensorError as error:
        raise ConversionError(f"{file} is damaged: {error}.") from None
    return count


def describe_search(generation: dict[str, Any]) -> str:
    """Describes a generation_config.json in words.

    Raises:
        ConversionError: a setting is not a number.
    """
    names = "num_beams", "length_penalty", "length_penalty_offset"
    beams, alpha, offset = (generation.get(name) for name in names)
    if wrong := [name for name in names if not isinstance(generation.get(name), int | float | None)]:
        raise ConversionError(f"Settings in generation_config.json that are not numbers: {', '.join(wrong)}.")
    if (beams or 1) == 1:
        return "greedy"
    offset = 5 if offset is None else offset
    length = f"(({offset:g} + length) / {offset + 1:g})" if offset else "length"
    return f"beam {beams}, ranked by log P / {length}^{1.0 if alpha is None else alpha:g}"


def both(encoder: Any, decoder: Any) -> str:
    """One value if both stacks have the same, else both values."""
    return str(encoder) if encoder == decoder else f"{encoder} (encoder), {decoder} (decoder)"


def in_words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


# The card of an exported model --------------------------------------------------------------------------------------


START = "## How to Get Started"


def exported_card(card: str, start: str, library: str) -> str:
    """Adapts the card of a checkpoint to another runtime: replaces the section on getting started and the library.

    The other sections, including the licence, stay.
    """
    head, mark, rest = card.partition(f"\n{START}")
    rest = rest.partition("\n## ")
    after = f"\n## {rest[2]}" if rest[1] else "\n"
    if not mark:
        head, after = card.rstrip() + "\n", "\n"
    card = f"{head}\n{START}\n\n{start.strip()}\n{after}"
    return re.sub(r"(?m)\Alibrary_name: .*$|(?<=\n)library_name: .*$", f"library_name: {library}", card, count=1)
