"""How a value is written in each language: what numerals, times, quantities and places share."""

import random
import re
from collections.abc import Callable


LANGUAGES = ("en", "de", "fr")
OTHER_WAY = 0.4  # this share of a source's values are not written in the usual way

# A value, written: (language, form, rng). The rng is given for a source, which may be written in any way, and is None
# for a target.
Value = Callable[[str, str, random.Random | None], str]
Draw = Callable[[random.Random], Value]


def with_later(value: Value, later: Draw) -> Value:
    """The value, which knows what to draw where a second follows: from nine to five, from $20 to $30."""
    value.later = later
    return value


def kept_as(text: str) -> Value:
    return lambda language, form, rng: text


def ways(rng: random.Random | None, usual: str, *others: str) -> str:
    return rng.choice(others) if rng and others and rng.random() < OTHER_WAY else usual


MUTE_H = ("habitant", "heure", "huile", "hiver", "homme")


def contract(text: str) -> str:
    """French with each [de] and [à] joined to what follows: d'une heure, du Caire, aux Pays-Bas."""
    text = re.sub(r"\[de\](le) ", "du ", text, flags=re.I)
    text = re.sub(r"\[de\](les) ", "des ", text, flags=re.I)
    text = re.sub(r"\[à\](le) ", "au ", text, flags=re.I)
    text = re.sub(r"\[à\](les) ", "aux ", text, flags=re.I)
    text = re.sub(r"\[de\](?=([^\W\d]+))", lambda m: "d'" if elides(m[1]) else "de ", text)
    return text.replace("[de]", "de ").replace("[à]", "à ")


def elides(word: str) -> bool:
    """Whether de becomes d' before the word; h counts as aspirated but for a few common words."""
    word = word.lower()
    return word.startswith((*"aàáâäåeéèêëiíîïoóôöuúûüœ", *MUTE_H)) and not word.startswith(("onz", "oui", "ouag"))
