"""Tests a model on lines as users type them: addresses, placeholders, tags, capitals, typing errors, several sentences.

Twice: as the command and the pipeline translate, which look at each translation and try again where something is
missing, and by the model alone.

lines/{en,de,fr}.tsv hold 200 lines each, written for this purpose: their kind, the text, and what a translation has to
keep. None of them is in any training data.

python -m training.user_lines mini-en-de            # the lines of the model's source language
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import sacrebleu

from vaswani_transformer.system.console import exit_with_error

from .files import read_lines


if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

FOLDER = Path(__file__).with_name("lines")
# Lines of these kinds hold strings that stay as they are.
COPIED = ("url", "email", "number", "placeholder", "printf", "tag", "emoji", "name", "list", "odd")


class Line(NamedTuple):
    kind: str
    text: str
    kept: str  # the strings to keep, between " | "; for `typo` the text without errors, for `several` their number


def lines_of(language: str) -> list[Line]:
    """The 200 lines of a source language, or none where it has no file."""
    path = FOLDER / f"{language}.tsv"
    return [Line(*line.split("\t")) for line in read_lines(path)] if path.is_file() else []


def passes(line: Line, translation: str, corrected: str = "") -> bool:
    """Whether a translation does what its kind of line asks for; `corrected` is that of the text without typing errors.

    This says nothing of how good a translation is otherwise.
    """
    if line.kind in COPIED and line.kind not in ("list", "odd"):
        wanted, plain = Counter(line.kept.split(" | ")), _plain(translation)
        return all(plain.count(_plain(text)) >= count for text, count in wanted.items())
    if line.kind == "odd":
        return translation.strip() == line.text
    if line.kind == "list":
        return translation.startswith(line.kept)
    if line.kind == "capitals":
        return translation == translation.upper() and _is_of_like_length(line.text, translation)
    if line.kind == "no_final_punctuation":
        return not translation.rstrip().endswith((".", "!", "?")) and _is_of_like_length(line.text, translation)
    if line.kind == "typo":
        return sacrebleu.sentence_chrf(translation, [corrected]).score >= 60
    sentences = len(re.findall(r"[.!?…]+(?=\s|$)", translation))
    return sentences >= int(line.kept) and _is_of_like_length(line.text, translation)


def _plain(text: str) -> str:
    """Without spaces: "25 kg" may be written "25kg", or with a space that does not break."""
    return re.sub(r"\s", "", text)


def _is_of_like_length(source: str, translation: str) -> bool:
    return 0.5 * len(source) <= len(translation) <= 2 * len(source) + 10


def measure_lines(lines: Sequence[Line], translate: Callable[[list[str]], list[str]]) -> dict:
    """How many lines of each kind pass, and those that do not.

    "kept" is the share of the lines with something to copy that kept it all.
    """
    corrected = [line.kept if line.kind == "typo" else "" for line in lines]
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
            {"kind": line.kind, "source": line.text, "translation": translation, "kept": line.kept}
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
    """`measure_lines` by the pipeline, with that by the model alone under "alone"; `settings` are for `generate`."""
    from transformers import pipeline

    from .evaluate import translate  # which measures with this module

    translator = pipeline("translation", model=model, tokenizer=tokenizer, device=model.device)

    def translate_checked(texts: list[str]) -> list[str]:
        return [record["translation_text"] for record in translator(texts, batch_size=batch_size, **settings)]

    def translate_alone(texts: list[str]) -> list[str]:
        return translate(model, tokenizer, texts, batch_size, **settings)

    return {**measure_lines(lines, translate_checked), "alone": measure_lines(lines, translate_alone)}


def format_lines(measured: dict) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in measured["kinds"].items())
    alone = measured.get("alone")
    return (
        f"lines as users type them: {measured['passed']} of {measured['lines']} pass; "
        f"what is to be copied was kept in {measured['kept']:.1%}\n  {kinds}"
        + (f"\n  the model alone: {alone['passed']}, kept in {alone['kept']:.1%}" if alone else "")
    )


def main(arguments: list[str] | None = None):
    from .evaluate import load, source_language  # which measures with this module

    parser = argparse.ArgumentParser(
        prog="python -m training.user_lines", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL", help="a folder, a checkpoint that ships with the package, a Hub id")
    parser.add_argument("--source-language", metavar="CODE", help="en, de or fr; default: the model's own")
    parser.add_argument("--failed", action="store_true", help="show the lines that do not pass")
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
