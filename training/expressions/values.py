"""Writing a value in each language: shared by numerals, times, quantities and places."""

import random
import re
from collections.abc import Callable


LANGUAGES = ("en", "de", "fr")
OTHER_WAY = 0.4  # share of the values in sources that have an unusual spelling

# A value is a function from (language, form, rng) to its text. A source has an rng, which chooses among spellings; a
# target has None, and the usual spelling.
Value = Callable[[str, str, random.Random | None], str]
Draw = Callable[[random.Random], Value]


def with_later(value: Value, later: Draw) -> Value:
    """Attach to a value how to draw a second, later one: from nine to five, from $20 to $30."""
    value.later = later
    return value


def kept_as(text: str) -> Value:
    """Return a value with the same text in every language."""
    return lambda language, form, rng: text


def ways(rng: random.Random | None, usual: str, *unusual: str) -> str:
    """Return the usual spelling, or for a source sometimes one of the unusual ones."""
    return rng.choice(unusual) if rng and unusual and rng.random() < OTHER_WAY else usual


MUTE_H = ("habitant", "heure", "huile", "hiver", "homme")


def contract(text: str) -> str:
    """Contract each French [de] and [à] with the next word: d'une heure, du Caire, aux Pays-Bas."""
    text = re.sub(r"\[de\](le) ", "du ", text, flags=re.I)
    text = re.sub(r"\[de\](les) ", "des ", text, flags=re.I)
    text = re.sub(r"\[à\](le) ", "au ", text, flags=re.I)
    text = re.sub(r"\[à\](les) ", "aux ", text, flags=re.I)
    text = re.sub(r"\[de\](?=([^\W\d]+))", lambda m: "d'" if elides(m[1]) else "de ", text)
    return text.replace("[de]", "de ").replace("[à]", "à ")


def elides(word: str) -> bool:
    """Return True if de becomes d' before the word. h counts as aspirated, except in a few common words."""
    word = word.lower()
    return word.startswith((*"aàáâäåeéèêëiíîïoóôöuúûüœ", *MUTE_H)) and not word.startswith(("onz", "oui", "ouag"))
