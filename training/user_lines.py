"""Measure robustness on lines as users type them: addresses, placeholders, tags, typing errors, several sentences.

The lines are translated twice: by the pipeline, which checks each translation and retries suspicious ones, and by the
model alone.

lines/{en,de,fr}.tsv have 200 lines each, written for this purpose: kind, text, and what a translation must keep. They
are not in any training data.

python -m training.user_lines mini-en-de            # the lines in the model's source language
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vaswani_transformer.system.command_line import describe_program
from vaswani_transformer.system.console import exit_with_error

from .files import read_lines
from .models import load, source_language, translate, translate_checked


if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

FOLDER = Path(__file__).with_name("lines")
# Lines of these kinds have strings that a translation must copy.
COPIED = ("url", "email", "number", "placeholder", "printf", "tag", "emoji", "name", "list", "odd")


class Line(NamedTuple):
    kind: str
    text: str
    required: str  # strings to copy, separated by " | "; for `typo` the corrected text, for `several` the sentences


def lines_of(language: str) -> list[Line]:
    """Return the 200 lines of a source language; an empty list for other languages."""
    path = FOLDER / f"{language}.tsv"
    return [Line(*line.split("\t")) for line in read_lines(path)] if path.is_file() else []


def passes(line: Line, translation: str, corrected: str = "") -> bool:
    """Return True if a translation meets the requirement of its kind of line, whatever its quality is otherwise.

    `corrected` is the translation of the text without typing errors.
    """
    if line.kind in COPIED and line.kind not in ("list", "odd"):
        wanted, plain = Counter(line.required.split(" | ")), _plain(translation)
        return all(sum(map(plain.count, _notations(_plain(text)))) >= count for text, count in wanted.items())
    if line.kind == "odd":
        return translation.strip() == line.text
    if line.kind == "list":
        return translation.startswith(line.required)
    if line.kind == "capitals":
        return translation == translation.upper() and _has_similar_length(line.text, translation)
    if line.kind == "no_final_punctuation":
        return not translation.rstrip().endswith((".", "!", "?")) and _has_similar_length(line.text, translation)
    if line.kind == "typo":
        import sacrebleu

        return sacrebleu.sentence_chrf(translation, [corrected]).score >= 60
    sentences = len(re.findall(r"[.!?…]+(?=\s|$)", translation))
    return sentences >= int(line.required) and _has_similar_length(line.text, translation)


def _plain(text: str) -> str:
    """Remove spaces: "25 kg" may be written "25kg", or with a no-break space."""
    return re.sub(r"\s", "", text)


def _notations(text: str) -> set[str]:
    """Return the ways to write a string to copy: the French write 14:30 as 14h30."""
    return {text, re.sub(r"^(\d\d?):(\d\d)$", r"\1h\2", text)}


def _has_similar_length(source: str, translation: str) -> bool:
    return 0.5 * len(source) <= len(translation) <= 2 * len(source) + 10


def measure_lines(lines: Sequence[Line], translate: Callable[[list[str]], list[str]]) -> dict:
    """Count the lines of each kind that pass, and list the lines that fail.

    "kept" is the share of lines with strings to copy whose translation has all of them.
    """
    corrected = [line.required if line.kind == "typo" else "" for line in lines]
    translations = translate([*(line.text for line in lines), *corrected])
    rated = [
        (line, translation, passes(line, translation, right))
        for line, translation, right in zip(lines, translations, translations[len(lines) :], strict=False)
    ]
    kinds = {kind: [passed for line, _, passed in rated if line.kind == kind] for kind in {line.kind for line in lines}}
    copied = [passed for line, _, passed in rated if line.kind in COPIED]
    return {
        "lines": len(lines),
        "passed": sum(passed for *_, passed in rated),
        "kept": round(sum(copied) / len(copied), 4),
        "kinds": {kind: f"{sum(kinds[kind])} of {len(kinds[kind])}" for kind in sorted(kinds)},
        "failed": [
            {"kind": line.kind, "source": line.text, "translation": translation, "kept": line.required}
            for line, translation, passed in rated
            if not passed
        ],
    }


def measure_model(
    lines: Sequence[Line],
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    batch_size: int = 32,
    **settings: Any,
) -> dict:
    """Return `measure_lines` with the pipeline and, under "alone", with the model alone.

    `settings` are passed to `generate`.
    """

    def measure(translate_with: Callable[..., list[str]]) -> dict:
        return measure_lines(lines, lambda texts: translate_with(model, tokenizer, texts, batch_size, **settings))

    return {**measure(translate_checked), "alone": measure(translate)}


def format_lines(measured: dict) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in measured["kinds"].items())
    alone = measured.get("alone")
    return (
        f"lines as users type them: {measured['passed']} of {measured['lines']} pass; "
        f"{measured['kept']:.1%} of those with strings to copy kept all of them\n  {kinds}"
        + (f"\n  the model alone: {alone['passed']} pass, {alone['kept']:.1%} kept all" if alone else "")
    )


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        **describe_program(__spec__, __doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL", help="a folder, an included checkpoint, or a Hub id")
    parser.add_argument("--source-language", metavar="CODE", help="en, de or fr; default: the model's own")
    parser.add_argument("--failed", action="store_true", help="show the lines that fail")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, mps; default: cpu")
    options = parser.parse_args(arguments)
    try:
        language = options.source_language or source_language(options.model)
        lines = lines_of(language or "")
        if not lines:
            raise ValueError(f"There are no test lines for {language!r}. --source-language can be en, de or fr.")
        model, tokenizer = load(options.model, options.device)
    except (OSError, ValueError) as error:
        exit_with_error(error)
    measured = measure_model(lines, model, tokenizer)
    print(format_lines(measured))
    if options.failed:
        print(*(json.dumps(failed, ensure_ascii=False) for failed in measured["failed"]), sep="\n")


if __name__ == "__main__":
    main()
