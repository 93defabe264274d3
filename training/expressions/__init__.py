"""Pairs of what corpora lack: times, dates, money, measures, ordinals, number words, numbers and places in sentences.

`carriers.tsv` holds the sentences in English, German and French, and `places.tsv` countries, rivers and mountains with
their articles. Each slot of a sentence draws one value and writes it in both languages, each in its own way: half past
nine, halb zehn, neuf heures et demie. The source is written in any of its ways ("9:30 PM", "9.30 Uhr", "21h30"), the
target in one ("9:30 p.m.", "9:30 Uhr", "21 h 30"), so that a model has one answer to learn.

In carriers `{slot}` is a value and `{slot2}` another of its kind; `{slot:form}` asks for a grammatical form, and the
French `[de]` and `[à]` join the word after them: d'Oslo, du Caire, à partir d'une heure.

Spaces in French numbers and before units and signs are plain on the target side, as nearly everywhere in the corpora;
a share of the sources has no-break spaces (U+00A0, U+202F).
"""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from ..variations import Pair
from .numerals import NUMERALS
from .place_names import Places
from .quantities import QUANTITIES
from .times import TIMES
from .values import LANGUAGES, Value, contract


CARRIERS = Path(__file__).with_name("carriers.tsv")

ALONE = 0.25  # this share are expressions without a sentence around them
# Of 100 pairs; the groups of carriers.tsv.
EXPRESSIONS = {
    "time": 20,
    "date": 18,
    "amount": 16,
    "measure": 13,
    "ordinal": 8,
    "words": 10,
    "number": 7,
    "combined": 8,
}
PLACES = {"city": 60, "country": 28, "nature": 12}


def expressions(rng: random.Random, source_language: str, target_language: str, places: Sequence = ()) -> Pair:
    """One pair with a time, date, amount, measure, ordinal or number, alone or in a sentence; `places` are not used."""
    return _pair(rng, source_language, target_language, EXPRESSIONS, Places(source_language, target_language, ()))


def places(rng: random.Random, source_language: str, target_language: str, places: "Places") -> Pair:
    """One pair with names of places, and at times of people, alone or in a sentence."""
    return _pair(rng, source_language, target_language, PLACES, places)


GENERATORS = {"expressions": expressions, "places": places}


def generate(
    name: str, source_language: str, target_language: str, seed: int, count: int, table: Iterable[Sequence[str]] = ()
) -> Iterator[Pair]:
    """`count` pairs of a generator; the same arguments make the same. Short ones are repeated.

    `table` has rows of (name in the source language, name in the target language, kind) for the generator "places".

    Raises:
        ValueError: a language is not one of `LANGUAGES`, both are the same, or the table has no city.
    """
    if problem := language_problem(source_language, target_language):
        raise ValueError(problem)
    names = Places(source_language, target_language, table)
    if name == "places" and not names.cities:
        raise ValueError("The table of places has no cities.")
    rng = random.Random(f"{seed} {name} {source_language} {target_language}")
    for _ in range(count):
        yield GENERATORS[name](rng, source_language, target_language, names)


def language_problem(source_language: str, target_language: str) -> str | None:
    """Why there are no pairs of these languages, or None."""
    if {source_language, target_language} <= set(LANGUAGES) and source_language != target_language:
        return None
    return f"pairs are generated between two of {', '.join(LANGUAGES)}, not {source_language} and {target_language}"


# Sentences -----------------------------------------------------------------------------------------------------------

SLOT = re.compile(r"\{([a-z]+)(\d?)(?::(\w+))?\}")


VALUES = NUMERALS | TIMES | QUANTITIES


@cache
def carriers() -> dict[str, tuple[list[dict[str, str]], list[dict[str, str]]]]:
    """By group: texts without a sentence around the value, and sentences; each by language."""
    groups: dict[str, tuple[list, list]] = {}
    for line in CARRIERS.read_text(encoding="utf-8").splitlines():
        group, *texts = line.split("\t")
        is_sentence = texts[0][-1] in ".!?"
        groups.setdefault(group, ([], []))[is_sentence].append(dict(zip(LANGUAGES, texts, strict=True)))
    return groups


def _pair(rng: random.Random, source: str, target: str, shares: dict[str, int], names: "Places") -> Pair:
    [group] = rng.choices(list(shares), list(shares.values()))
    return fill(rng, rng.choice(carriers()[group][rng.random() >= ALONE]), source, target, names)


def fill(rng: random.Random, carrier: dict[str, str], source: str, target: str, names: "Places") -> Pair:
    """A carrier's text in both languages with the same values."""
    values: dict[str, Value] = {}
    for name, number, _ in SLOT.findall(carrier["en"]):
        draw, first = VALUES.get(name) or getattr(names, name), values.get(name)
        if number and hasattr(first, "later"):
            values[name + number] = first.later(rng)
            continue
        value = draw(rng)
        while first and _same(first, value):  # from Paris to Paris
            value = draw(rng)
        values.setdefault(name + number, value)
    return _write(carrier, source, values, rng), _write(carrier, target, values, None)


def _same(one: Value, other: Value) -> bool:
    return any(one(language, "", None) == other(language, "", None) for language in LANGUAGES)


def _write(carrier: dict[str, str], language: str, values: dict[str, Value], rng: random.Random | None) -> str:
    template = carrier[language]
    text = SLOT.sub(lambda slot: values[slot[1] + slot[2]](language, slot[3] or "", rng), template)
    text = contract(text) if language == "fr" else text
    text = text.replace(".m..", ".m.")  # the period of "p.m." ends the sentence, too
    if template[-1] in ".!?":
        text = text[0].upper() + text[1:]
    if language == "fr" and rng and rng.random() < 0.15:
        space = rng.choice("\u00a0\u202f")
        text = re.sub(r"(?<=\d) (?=\d|[€$£%°h]|[kKMGT]?o\b|k?g\b|[kc]?m\b|[cm]?l\b)| (?=[?!])", space, text)
    return text
