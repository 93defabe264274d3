"""Writes a converted checkpoint as a repository of the Hub: weights, tokenizer, code, settings and card."""

import json
from collections.abc import Sequence
from pathlib import Path

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.files import whole_folder

from .card import card_of
from .core import ConversionError, Converted
from .verify import Parity


def check_new(out: Path):
    """Raises:
    ConversionError: `out` is something else than a new or empty folder.
    """
    if not out.name:  # "." is where somebody is
        raise ConversionError(f"{out} cannot be made anew; name a new folder.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConversionError(f"{out} is not an empty folder; name another, or remove it.")


def write(converted: Converted, model: VaswaniForConditionalGeneration, checks: Sequence[Parity], out: Path):
    """The folder `out`, whole or not at all; `conversion.json` in it records where it comes from and what was checked,
    and its card says so.

    Raises:
        ConversionError: `out` is something else than a new or empty folder.
    """
    check_new(out)
    record = {
        "toolkit": converted.toolkit,
        "facts": converted.facts,
        "checks": [check.to_dict() for check in checks],
        "tokenizer": converted.tokenizer is not None,
    }
    with whole_folder(out) as folder:
        model.save_pretrained(folder)
        if converted.tokenizer is not None:
            converted.tokenizer.save_pretrained(folder)
        text = json.dumps(record, indent=2, ensure_ascii=False)
        (folder / "conversion.json").write_text(f"{text}\n", encoding="utf-8")
        (folder / "README.md").write_text(card_of(folder, out.name), encoding="utf-8")
