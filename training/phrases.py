"""Measure how many greetings, common words and less common words a checkpoint translates correctly.

The phrases are in lines/phrases.tsv: a kind, then the accepted wordings in English, German and French, separated by
" | ". The first wording of a language is the text to translate; an answer is right if it equals an accepted wording of
the other language. Most phrases are also in training/phrases.tsv or training/things.tsv: the score shows how well a
model has learned them by heart, not how well it generalises.

python -m training.phrases mini-en-de --failed                   # an included checkpoint, with its wrong translations
python -m training.phrases RUN/model --form as-is bare capitals  # a finished run
"""

import argparse
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vaswani_transformer.system.command_line import describe_program
from vaswani_transformer.system.console import exit_with_error

from .files import atomic_file, read_lines
from .models import load, recorded_fact, translate, translate_checked


if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PATH = Path(__file__).with_name("lines") / "phrases.tsv"
LANGUAGES = ("en", "de", "fr")
KINDS = ("greeting", "word", "term")
ARTICLE = re.compile(
    r"(?:(?:the|an?|some|to|der|die|das|den|eine?|einen|les?|la|une?|des|du|de la) |(?:de )?l'|d')(?=\w)",
    re.IGNORECASE,
)


class Phrase(NamedTuple):
    kind: str
    text: str
    accepted: tuple[str, ...]


def remove_final_mark(text: str) -> str:
    return text.rstrip(".!? ")


def change_final_mark(text: str) -> str:
    """End a phrase in another way: with "!" instead of "." and "." instead of "!" or nothing; questions stay."""
    if text.endswith("?"):
        return text
    return remove_final_mark(text) + ("!" if text.endswith(".") else ".")


FORMS: dict[str, Callable[[str], str]] = {
    "as-is": str,
    "bare": remove_final_mark,
    "lower": str.lower,
    "capitals": str.upper,
    "punctuated": change_final_mark,
}
# The source no longer shows which words have a capital letter, so the translation need not know either.
CASELESS_FORMS = ("lower", "capitals")


def read_phrases(source_language: str, target_language: str) -> list[Phrase]:
    """Return the phrases of a direction; texts that occur twice, such as "Bonjour", are one phrase.

    Raises:
        ValueError: a language is not en, de or fr, or both are the same.
    """
    for language in (source_language, target_language):
        if language not in LANGUAGES:
            raise ValueError(f"There are no phrases for the language {language!r}. It can be en, de or fr.")
    if source_language == target_language:
        raise ValueError(f"Source and target language are both {source_language!r}.")
    phrases: dict[tuple[str, str], list[str]] = {}
    for line in read_lines(PATH):
        kind, *cells = line.split("\t")
        wordings = dict(zip(LANGUAGES, (cell.split(" | ") for cell in cells), strict=True))
        phrases.setdefault((kind, wordings[source_language][0]), []).extend(wordings[target_language])
    return [Phrase(kind, text, tuple(dict.fromkeys(accepted))) for (kind, text), accepted in phrases.items()]


def normalise(text: str, *, ignore_case: bool = False, ignore_article: bool = False) -> str:
    """Remove the differences that do not make a translation wrong.

    These are final punctuation, commas, typographic apostrophes and spaces, ß and œ, and the case of the first letter.
    The other letters keep theirs ("Wie geht es Ihnen?" is not "Wie geht es ihnen?") unless `ignore_case`.
    `ignore_article` removes an article or "to" at the beginning, whether it fits or not.
    """
    text = unicodedata.normalize("NFC", text)
    for old, new in {"\u2019": "'", "ß": "ss", "œ": "oe", "Œ": "Oe", ",": ""}.items():
        text = text.replace(old, new)
    text = re.sub(r"[\s.!?…]+$", "", " ".join(text.split()))
    if ignore_article:
        text = ARTICLE.sub("", text) if ARTICLE.match(text) else text
    return text.casefold() if ignore_case else text[:1].lower() + text[1:]


def is_right(phrase: Phrase, translation: str, *, ignore_case: bool = False) -> bool:
    """Return True if a translation equals one of the phrase's accepted wordings after `normalise`."""
    settings = {"ignore_case": ignore_case, "ignore_article": phrase.kind != "greeting"}
    accepted = {normalise(wording, **settings) for wording in phrase.accepted}
    return normalise(translation, **settings) in accepted


def count_right(phrases: Sequence[Phrase], translate: Callable[[list[str]], list[str]], form: str = "as-is") -> dict:
    """Count the phrases that `translate` gets right, by kind, and list the others.

    `form` is a key of `FORMS`: how the phrases are written.
    """
    texts = [FORMS[form](phrase.text) for phrase in phrases]
    rated = [
        (phrase.kind, text, translation, is_right(phrase, translation, ignore_case=form in CASELESS_FORMS), phrase)
        for phrase, text, translation in zip(phrases, texts, translate(texts), strict=True)
    ]
    kinds = {kind: [right for other, _, _, right, _ in rated if other == kind] for kind in KINDS}
    return {
        "form": form,
        "phrases": len(phrases),
        "right": sum(right for *_, right, _ in rated),
        "kinds": {kind: f"{sum(rights)} of {len(rights)}" for kind, rights in kinds.items() if rights},
        "failed": [
            {"kind": kind, "source": text, "translation": translation, "accepted": " | ".join(phrase.accepted)}
            for kind, text, translation, right, phrase in rated
            if not right
        ],
    }


def measure_phrases(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    source_language: str,
    target_language: str,
    form: str = "as-is",
    *,
    alone: bool = False,
    batch_size: int = 32,
    **settings: Any,
) -> dict:
    """Return `count_right` of a model's translations, by the pipeline as users get them.

    With `alone`, by the model without the pipeline's checks and retries. `settings` are for `generate`.

    Raises:
        ValueError: a language is not en, de or fr, or both are the same.
    """
    phrases = read_phrases(source_language, target_language)
    translate_with = translate if alone else translate_checked
    return count_right(phrases, lambda texts: translate_with(model, tokenizer, texts, batch_size, **settings), form)


def format_phrases(measured: dict) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in measured["kinds"].items())
    return f"phrases ({measured['form']}): {measured['right']} of {measured['phrases']} right; {kinds}"


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        **describe_program(__spec__, __doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL", help="a folder, an included checkpoint, or a Hub id")
    for side in ("source", "target"):
        parser.add_argument(f"--{side}-language", metavar="CODE", help="en, de or fr; default: the model's own")
    parser.add_argument("--form", choices=FORMS, nargs="+", default=["as-is"], help="how the phrases are written")
    parser.add_argument("--alone", action="store_true", help="without the pipeline's checks and retries")
    parser.add_argument("--failed", action="store_true", help="show the wrong translations")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the counts and wrong translations as JSON")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, mps; default: cpu")
    options = parser.parse_args(arguments)
    try:
        languages = [
            options.source_language or recorded_fact(options.model, "source_language"),
            options.target_language or recorded_fact(options.model, "target_language"),
        ]
        if not all(languages):
            raise ValueError(
                f"{options.model} does not name its languages. Add them, for example "
                "--source-language en --target-language de."
            )
        read_phrases(*languages)
        model, tokenizer = load(options.model, options.device)
    except (OSError, ValueError) as error:
        exit_with_error(error)
    results = []
    for form in options.form:
        results.append(measure_phrases(model, tokenizer, *languages, form, alone=options.alone))
        print(format_phrases(results[-1]), flush=True)
        if options.failed:
            print(*(json.dumps(failed, ensure_ascii=False) for failed in results[-1]["failed"]), sep="\n", flush=True)
    if options.output:
        with atomic_file(options.output) as file:
            file.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
