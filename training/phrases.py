"""Counts the greetings, common words and less common words that a checkpoint translates right.

python -m training.phrases mini-en-de --failed
python -m training.phrases mini-en-de --form bare        # without final punctuation; also lower, capitals, stop

lines/phrases.tsv has 40 greetings, 107 common words and 30 less common ones in English, German and French: each cell
holds all acceptable wordings, and the first is what is translated. Most of them are in phrases.tsv, which the included
checkpoints read in training: this measures what a model has learned by heart, and in which spellings it knows it.
"""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from vaswani_transformer.command_line import stop

from .files import read_lines
from .variations import FINAL_PUNCTUATION


FILE = Path(__file__).with_name("lines") / "phrases.tsv"
LANGUAGES = ("en", "de", "fr")
FORMS: dict[str, Callable[[str], str]] = {
    "written": lambda text: text,
    "bare": lambda text: FINAL_PUNCTUATION.sub("", text),
    "stop": lambda text: text if text.endswith("?") else FINAL_PUNCTUATION.sub("", text) + ".",
    "lower": str.lower,
    "capitals": str.upper,
}
# A dictionary's forms of a word: "to eat", "the house", "une maison", "l'eau".
ARTICLE = re.compile(r"^(to|the|an?|der|die|das|eine?|le|la|les|une?|des) |^l'")


class Phrase(NamedTuple):
    kind: str
    source: str
    translations: list[str]  # acceptable ones


def read_phrases(source_language: str, target_language: str) -> list[Phrase]:
    """The phrases of a direction.

    Raises:
        ValueError: there are none for one of the languages.
    """
    if not {source_language, target_language} <= set(LANGUAGES):
        raise ValueError(f"Phrases exist for {', '.join(LANGUAGES)} only, not {source_language} → {target_language}.")
    phrases = []
    for line in read_lines(FILE):
        kind, *cells = line.split("\t")
        wordings = dict(zip(LANGUAGES, (cell.split(" | ") for cell in cells), strict=True))
        phrases.append(Phrase(kind, wordings[source_language][0], wordings[target_language]))
    return phrases


def is_right(translation: str, acceptable: Sequence[str]) -> bool:
    """Whether a translation is one of the acceptable wordings, whatever its case, final marks and leading article."""
    return _plain(translation) in map(_plain, acceptable)


def _plain(text: str) -> str:
    text = FINAL_PUNCTUATION.sub("", text.replace("’", "'").strip(" ¡¿")).casefold()
    return ARTICLE.sub("", " ".join(text.split()))


def measure_phrases(phrases: Sequence[Phrase], translate: Callable[[list[str]], list[str]], form: str = "written"):
    """How many phrases of each kind are right in a spelling of `FORMS`, and those that are not."""
    sources = [FORMS[form](phrase.source) for phrase in phrases]
    translated = list(zip(phrases, sources, translate(sources), strict=True))
    right = [is_right(translation, phrase.translations) for phrase, _, translation in translated]
    counts = {}
    for kind in dict.fromkeys(phrase.kind for phrase in phrases):
        passed = [ok for ok, phrase in zip(right, phrases, strict=True) if phrase.kind == kind]
        counts[kind] = {"right": sum(passed), "phrases": len(passed)}
    failed = [
        {"kind": phrase.kind, "source": source, "translation": translation, "acceptable": phrase.translations}
        for ok, (phrase, source, translation) in zip(right, translated, strict=True)
        if not ok
    ]
    return {"form": form, "kinds": counts, "failed": failed}


def main(arguments: list[str] | None = None):
    from transformers import pipeline

    from .evaluate import load

    parser = argparse.ArgumentParser(
        prog="python -m training.phrases", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL", help="an included checkpoint, a folder, or a Hub id")
    parser.add_argument("--from", dest="source", metavar="LANGUAGE", help="en, de or fr; default: the model's own")
    parser.add_argument("--to", dest="target", metavar="LANGUAGE", help="likewise")
    parser.add_argument("--form", choices=[*FORMS, "all"], default="written", help="how the phrases are spelled")
    parser.add_argument("--failed", action="store_true", help="show the phrases that are wrong")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, mps; default: cpu")
    options = parser.parse_args(arguments)
    try:
        known_source, known_target = _languages(options.model)
        phrases = read_phrases(options.source or known_source, options.target or known_target)
        model, tokenizer = load(options.model, options.device)
    except (OSError, ValueError) as error:
        stop(parser, error)
    translator = pipeline("translation", model=model, tokenizer=tokenizer, device=model.device)

    def translate(texts: list[str]) -> list[str]:
        return [record["translation_text"] for record in translator(texts, batch_size=32)]

    for form in FORMS if options.form == "all" else [options.form]:
        measured = measure_phrases(phrases, translate, form)
        kinds = ", ".join(f"{kind} {n['right']} of {n['phrases']}" for kind, n in measured["kinds"].items())
        print(f"{form:<9} {kinds}", flush=True)
        if options.failed:
            print(*(json.dumps(failed, ensure_ascii=False) for failed in measured["failed"]), sep="\n", flush=True)


def _languages(model: str) -> tuple[str, str]:
    """Source and target language of a checkpoint or of a run's result; empty where it does not say."""
    from vaswani_transformer import catalogue

    folder = Path(catalogue.resolve(model))
    if about := catalogue.read_about(folder):
        return about.source_language, about.target_language
    if (folder / "training.json").is_file():
        recipe = json.loads((folder / "training.json").read_text(encoding="utf-8"))["recipe"]
        return recipe["source_language"], recipe["target_language"]
    return "", ""


if __name__ == "__main__":
    main()
