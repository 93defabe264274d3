"""Notices texts that are not in the model's source language, which it would translate into nonsense.

py3langid recognises the language. It is sure of most sentences; short texts, names, titles, lists and code are not
checked.
"""

import re
from functools import cache

from .checks_vaswani import outside_kept_items


try:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier
except ImportError:  # code that was loaded from the Hub also runs without it, and does not check the language
    LanguageIdentifier = None

MIN_WORDS = 3  # in lower case; names, titles and lists have fewer
MIN_WORDS_OF_FRAGMENTS = 6  # in texts without a capital and without a full stop, such as commands
MIN_MARGIN = 15  # of the log-likelihood of another language; larger than nearly all of py3langid's mistakes
MAX_CHARACTERS = 2000  # at the start of the text
MARKS = " \t\r\n.,;:!?¿¡…\"'«»„“”‘’()[]-–—*"
WORD = re.compile(r"[^\W\d_]{2,}|[^\W\d_]+['’][^\W\d_]+")


def language_warnings(text: str, source_language: str | None) -> list[str]:
    """Return a warning if a text is in another language than the model's, else nothing."""
    language = other_language(text, source_language) if source_language else None
    if language is None:
        return []
    return [f"the text seems to be in {name(language)}, but the model translates from {name(source_language)}"]


def other_language(text: str, language: str) -> str | None:
    """Return the code of the language that a text is in if it is certainly not in `language`, else None."""
    text = outside_kept_items(text[:MAX_CHARACTERS])
    if LanguageIdentifier is None or not has_enough_words(text):
        return None
    ranked = identifier().rank(text)
    best, highest = ranked[0]
    log_likelihood = dict(ranked).get(language)  # None if py3langid does not know the language
    if log_likelihood is None or highest - log_likelihood <= MIN_MARGIN:
        return None
    # A foreign name does not make a sentence foreign: "Mr and Mrs Kowalczyk live in Łódź."
    without_names = dict(identifier().rank(" ".join(word for word in text.split() if word.islower())))
    return best if without_names[best] > without_names[language] else None


def has_enough_words(text: str) -> bool:
    """Return whether a text has enough words in lower case to be a sentence."""
    words = [word for word in (word.strip(MARKS) for word in text.split()) if word.islower() and WORD.fullmatch(word)]
    is_sentence = not text.strip(MARKS)[:1].islower() or text.rstrip("\"'»”’) ").endswith((".", "!", "?", "…"))
    return len(words) >= (MIN_WORDS if is_sentence else MIN_WORDS_OF_FRAGMENTS)


@cache
def identifier() -> "LanguageIdentifier":
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=False)


def name(code: str) -> str:
    """Return the English name of a language, or its code if the name is unknown."""
    # The names of 99 languages, from a library that is a dependency anyway.
    from transformers.models.whisper.tokenization_whisper import LANGUAGES

    return LANGUAGES.get(code, code).title()
