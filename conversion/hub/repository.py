"""Writes the folder of a converted checkpoint: weights, tokenizer, code, settings, card and conversion.json."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.inspection.alignment_head import choose_alignment_head
from vaswani_transformer.system.files import atomic_folder, write_json

from ..converted import Converted
from ..files.folders import check_new
from ..parity.scores import Parity
from .card import conversion_card


def write(
    converted: Converted,
    model: VaswaniForConditionalGeneration,
    checks: Sequence[Parity],
    out: Path,
    name: str | None = None,
):
    """Writes the folder `out`, completely or not at all. `name` is the model's; by default that of the folder.

    conversion.json records the origin and the checks; the card shows them. about.json records the languages for
    `vaswani serve` and the pipeline, if they are known. generation_config.json names the head that aligns words, if
    there is one.

    Raises:
        ConversionError: `out` exists and is not an empty folder.
    """
    check_new(out)
    name = name or out.name
    if converted.tokenizer is not None:
        converted.facts["word_alignments"] = set_alignment_head(converted, model)
    record = {
        "toolkit": converted.toolkit,
        "facts": converted.facts,
        "checks": [check.to_dict() for check in checks],
        "tokenizer": converted.tokenizer is not None,
    }
    with atomic_folder(out) as folder:
        model.save_pretrained(folder)
        if converted.tokenizer is not None:
            converted.tokenizer.save_pretrained(folder)
        write_json(folder / "conversion.json", record)
        if about := describe(converted, model, folder, name):
            write_json(folder / "about.json", about)
        (folder / "README.md").write_text(conversion_card(folder, name), encoding="utf-8")


def set_alignment_head(converted: Converted, model: VaswaniForConditionalGeneration) -> str:
    """Chooses the head that aligns words, writes it into the model's settings, and returns a sentence about it."""
    try:
        choice = choose_alignment_head(model, converted.tokenizer, converted.facts.get("source_language"))
    except (ValueError, ImportError) as error:  # the tokenizer may need sacremoses
        return f"none. {error}"
    model.generation_config.alignment_head = choice.head._asdict()
    return str(choice)


def describe(converted: Converted, model: VaswaniForConditionalGeneration, folder: Path, name: str) -> dict[str, Any]:
    """The contents of about.json (see `catalogue.Checkpoint`); nothing if a language is unknown."""
    languages = {key: converted.facts.get(key) for key in ("source_language", "target_language")}
    if not all(languages.values()):
        return {}
    return {
        "name": name,
        **languages,
        "parameters": model.num_parameters(),
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
        "licence": converted.facts.get("licence") or "",
    }
