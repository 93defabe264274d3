"""Recognises inflected forms of words, such as plurals and cases, and names, with simplemma's dictionaries.

A stemmer is smaller, but treats words of different meaning alike: "bank" and "banking", "port" and "porte".
"""

import unicodedata
from functools import cache

from transformers.utils import logging


try:
    import simplemma
    from simplemma.strategies import DefaultDictionaryFactory
except ImportError:  # code that was loaded from the Hub also runs without it
    simplemma = None

logger = logging.get_logger(__name__)
VERB_ENDINGS = {"en": ("ed", "ing")}  # an English verb form needs another translation than the noun
MAX_CHANGED_LETTERS = 2  # at the end of the base form: policy, policies; Zentrum, Zentren


def is_supported(language: str | None) -> bool:
    """Return whether the forms of words in this language are known."""
    if simplemma is None:
        logger.warning_once(
            "The glossary finds its terms only as they are written. To find plurals and cases, too: "
            "pip install simplemma"
        )
        return False
    return language is not None and has_dictionary(language)


@cache
def has_dictionary(language: str) -> bool:
    try:
        simplemma.lemmatize("a", lang=language)
    except ValueError:
        return False
    return True


def is_known_in_lower_case(word: str, language: str) -> bool | None:
    """Return whether the dictionary has a word in lower case, not with a capital; None if it has both or neither."""
    if simplemma is None or not has_dictionary(language):
        return None
    dictionary = dictionaries().get_dictionary(language)
    in_lower_case, with_capital = word.lower() in dictionary, word.capitalize() in dictionary
    return None if in_lower_case == with_capital else in_lower_case


def spelling_with_capitals(word: str, language: str) -> str | None:
    """Return a word as the dictionary has it, such as "Iraq" or "NATO"; None if it has it in lower case or not at all.

    Other dictionaries than the English one have hardly any names, or have nearly all words in lower case, too.
    """
    if simplemma is None or language != "en":
        return None
    dictionary = dictionaries().get_dictionary(language)
    if word.lower() in dictionary:
        return None
    return next((spelling for spelling in (word.capitalize(), word.upper()) if spelling in dictionary), None)


def has_word(word: str, language: str) -> bool | None:
    """Return whether the dictionary has a word, in lower case or with a capital; None without a dictionary."""
    if simplemma is None:
        return None
    dictionary = dictionaries().get_dictionary(language)
    return word.lower() in dictionary or word.capitalize() in dictionary


def accented_forms(word: str, language: str) -> list[str]:
    """Return the words in lower case that differ from `word` only by accents; none if the dictionary has `word`."""
    if simplemma is None or word in dictionaries().get_dictionary(language):
        return []
    return accented_words(language).get(word, [])


@cache
def accented_words(language: str) -> dict[str, list[str]]:
    """Return the dictionary's words with accents, by their letters without them."""
    words: dict[str, list[str]] = {}
    for word in dictionaries().get_dictionary(language):
        if (plain := without_accents(word)) != word:
            words.setdefault(plain, []).append(word)
    return words


@cache
def dictionaries() -> "DefaultDictionaryFactory":
    return DefaultDictionaryFactory()


def lemma(word: str, language: str) -> str:
    """Return the base form of a word, in lower case."""
    return simplemma.lemmatize(word, lang=language).lower()


def is_inflected(word: str, base: str, language: str, in_phrase: bool = False) -> bool:
    """Return whether a word is an inflected form of `base`.

    `in_phrase` is for words of a longer term, which need not be base forms themselves: "geschlossener Kreislauf".
    """
    word_form, base_form = word.lower(), base.lower()
    if not shares_beginning(word_form, base_form) or word_form.endswith(VERB_ENDINGS.get(language, ())):
        return False
    word_lemma = lemma(word, language)
    if word_lemma == base_form or (in_phrase and word_lemma == lemma(base, language)):
        return True
    # Plurals that are missing in the dictionary. In French they are often in it as forms of verbs: "vannes".
    return word_form == base_form + "s" and (language == "fr" or not simplemma.is_known(word, lang=language))


def shares_beginning(word: str, base: str) -> bool:
    """Return whether a word begins like `base`, apart from accents: "Häuser" like "Haus", not "peut" like "pouvoir"."""
    return without_accents(word).startswith(without_accents(base)[: max(2, len(base) - MAX_CHANGED_LETTERS)])


def without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
