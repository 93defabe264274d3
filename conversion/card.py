"""The card (README.md) of a converted checkpoint, made of what was recorded when it was converted."""

import json
import re
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from safetensors import SafetensorError, safe_open

from vaswani_transformer import VaswaniConfig

from . import reading
from .core import ConversionError


TEMPLATE = Path(__file__).with_name("card_template.md")
# What cards say until they are published, those of our own checkpoints too.
HUB_ID = "PATH OR HUB ID OF THIS MODEL"


def card_of(folder: Path, name: str) -> str:
    """The text of README.md for the checkpoint in `folder`, of its conversion.json, config.json and weights.

    Raises:
        ConversionError: one of these files is not there or cannot be read.
    """
    record = read_json(folder / "conversion.json")
    if not isinstance(record.get("toolkit"), str):
        raise ConversionError(f"{folder / 'conversion.json'} does not say of which toolkit the model was converted.")
    config = VaswaniConfig.from_pretrained(folder)
    facts = dict(record.get("facts") or {})
    languages = [facts.pop(key, None) for key in ("source_language", "target_language")]
    licence, differences = facts.pop("licence", None), facts.pop("tokenizer_differences", None) or []
    scores = read_scores(folder)
    card = ModelCard.from_template(
        ModelCardData(
            language=[language for language in languages if language] or None,
            license=licence or "unknown",
            library_name="transformers",
            pipeline_tag="translation",
            metrics=["sacrebleu"] if scores else None,
            tags=["vaswani", "attention-is-all-you-need", f"converted-from-{record['toolkit']}"],
            model_name=name if scores else None,
            eval_results=eval_results(scores),
        ),
        template_path=str(TEMPLATE),
        name=name,
        hub_id=HUB_ID,
        toolkit=record["toolkit"],
        files=facts.pop("files", None) or {},
        facts={key: said(value) for key, value in facts.items() if value not in (None, "", [], {})},
        languages=" → ".join(map(str, languages)) if all(languages) else "not recorded",
        licence=licence or "not recorded",
        extra_packages=" sacremoses" if uses_moses(folder) else "",
        checks=record.get("checks") or [],
        scores=scores,
        tokenizer=record.get("tokenizer", False),
        differences=differences,
        config=config,
        search=search_of(read_json(folder / "generation_config.json")),
        parameters=sum(count_parameters(file) for file in sorted(folder.glob("model*.safetensors"))),
        cell=cell,
        both=both,
    )
    # A template's conditions leave blank lines behind.
    return re.sub(r"\n{3,}", "\n\n", str(card)).rstrip() + "\n"


def uses_moses(folder: Path) -> bool:
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and "moses_source" in read_json(settings)


def read_json(path: Path) -> dict[str, Any]:
    """As `reading.read_json`, but a file that is not there is a ConversionError too."""
    try:
        return reading.read_json(path)
    except FileNotFoundError:
        raise ConversionError(f"There is no {path}.") from None


def read_scores(folder: Path) -> list[dict]:
    """The scores in about.json or scores.json: "dataset", "metric", "value", "signature" of each; [] without."""
    file = next((folder / name for name in ("about.json", "scores.json") if (folder / name).is_file()), None)
    if file is None:
        return []
    said = read_json(file)
    try:
        scores = said.get("scores") or [] if file.name == "about.json" else [
            {"dataset": result["dataset"], "metric": metric, **score}
            for result in said["results"]
            for metric, score in result.items()
            if isinstance(score, dict) and "signature" in score
        ]  # fmt: skip
        return [{name: score[name] for name in ("dataset", "metric", "value", "signature")} for score in scores]
    except (KeyError, TypeError, AttributeError) as error:
        raise ConversionError(f"{file} does not hold scores as evaluation writes them: {error!r}.") from None


def eval_results(scores: list[dict]) -> list[EvalResult] | None:
    """As the card's metadata has them (`model-index`)."""
    return [
        EvalResult(
            task_type="translation",
            dataset_type=score["dataset"],
            dataset_name=score["dataset"],
            metric_type=score["metric"].lower(),
            metric_name=score["metric"],
            metric_value=score["value"],
        )
        for score in scores
    ] or None


def count_parameters(file: Path) -> int:
    """Those in a safetensors file, of which only the header is read.

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


def search_of(generation: dict[str, Any]) -> str:
    """A generation_config.json in words.

    Raises:
        ConversionError: it holds other things than numbers where numbers belong.
    """
    names = "num_beams", "length_penalty", "length_penalty_offset"
    beams, alpha, offset = (generation.get(name) for name in names)
    if wrong := [name for name in names if not isinstance(generation.get(name), int | float | None)]:
        raise ConversionError(f"generation_config.json has no number as {', '.join(wrong)}.")
    if (beams or 1) == 1:
        return "greedy"
    offset = 5 if offset is None else offset
    length = f"(({offset:g} + length) / {offset + 1:g})" if offset else "length"
    return f"beam {beams}, ranked by log P / {length}^{1.0 if alpha is None else alpha:g}"


def both(encoder: Any, decoder: Any) -> str:
    """One value of encoder and decoder, or two."""
    return str(encoder) if encoder == decoder else f"{encoder} (encoder), {decoder} (decoder)"


def said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def cell(text: str) -> str:
    """A text as one cell of a table in Markdown, shown as it is."""
    text = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"[\\|*`\[\]]|\b_|_\b", r"\\\g<0>", text)
