"""Generated pairs with times, dates, hours, money, measures, numbers, abbreviations and places, rare in corpora.

`carriers.tsv` has sentences in English, German and French; `places.tsv` has countries, rivers and mountains with their
articles. A value is drawn for each slot of a sentence and written in both languages: half past nine, halb zehn, neuf
heures et demie. The source uses any of the usual spellings ("9:30 PM", "9.30 Uhr", "21h30"); the target always the
same one ("9:30 p.m.", "9:30 Uhr", "21 h 30"), so that the model has one answer to learn.

In carriers, `{slot}` is a value, `{slot2}` another value of its kind, and `{slot:form}` a grammatical form. The French
`[de]` and `[à]` contract with the next word: d'Oslo, du Caire, à partir d'une heure.

On the target side, spaces in French numbers and before units and signs are plain, as almost everywhere in the corpora.
Some of the sources have no-break spaces (U+00A0, U+202F).
"""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from ..variations import Pair
from .abbreviations import ABBREVIATIONS
from .numerals import NUMERALS
from .place_names import Places
from .quantities import QUANTITIES
from .schedules import SCHEDULES
from .times import TIMES
from .values import LANGUAGES, Value, contract


CARRIERS = Path(__file__).with_name("carriers.tsv")

ALONE = 0.25  # share of expressions without a sentence around them
# Percentage of each group of carriers.tsv.
EXPRESSIONS = {
    "time": 15,
    "schedule": 10,
    "duration": 7,
    "date": 14,
    "amount": 12,
    "measure": 10,
    "ordinal": 6,
    "words": 7,
    "number": 5,
    "short": 8,
    "combined": 6,
}
PLACES = {"city": 60, "country": 28, "nature": 12}


def expressions(rng: random.Random, source_language: str, target_language: str, places: Sequence = ()) -> Pair:
    """Draw a pair with a time, date, amount, measure, ordinal or number, alone or in a sentence. `places` is unused."""
    return _pair(rng, source_language, target_language, EXPRESSIONS, Places(source_language, target_language, ()))


def places(rng: random.Random, source_language: str, target_language: str, places: "Places") -> Pair:
    """Draw a pair with names of places, sometimes also of people, alone or in a sentence."""
    return _pair(rng, source_language, target_language, PLACES, places)


GENERATORS = {"expressions": expressions, "places": places}


def generate(
    name: str, source_language: str, target_language: str, seed: int, count: int, table: Iterable[Sequence[str]] = ()
) -> Iterator[Pair]:
    """Yield `count` pairs of a generator; the same arguments yield the same pairs. Short pairs may repeat.

    Args:
        table: Rows of (name in the source language, name in the target language, kind) for the generator "places".

    Raises:
        ValueError: A language is not in `LANGUAGES`, both are the same, or the table has no city.
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
    """Return why pairs of these languages cannot be generated, or None."""
    if {source_language, target_language} <= set(LANGUAGES) and source_language != target_language:
        return None
    return f"pairs are generated between two of {', '.join(LANGUAGES)}, not {source_language} and {target_language}"


# Sentences -----------------------------------------------------------------------------------------------------------

SLOT = re.compile(r"\{([a-z]+)(\d?)(?::(\w+))?\}")


VALUES = NUMERALS | TIMES | QUANTITIES | SCHEDULES | ABBREVIATIONS


@cache
def carriers() -> dict[str, tuple[list[dict[str, str]], list[dict[str, str]]]]:
    """Return, for each group, the carriers without a sentence and the sentences; each is a dict by language."""
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
    """Fill a carrier with the same values in both languages."""
    values: dict[str, Value] = {}
    for name, number, _ in SLOT.findall(carrier["en"]):
        draw, first = VALUES.get(name) or getattr(names, name), values.get(name)
        if number and hasattr(first, "later"):
            values[name + number] = first.later(rng)
            continue
        value = draw(rng)
        while number and first and _same(first, value):  # avoids "from Paris to Paris"
            value = draw(rng)
        values.setdefault(name + number, value)
    return _write(carrier, source, values, rng), _write(carrier, target, values, None)


def _same(first: Value, second: Value) -> bool:
    return any(first(language, "", None) == second(language, "", None) for language in LANGUAGES)


def _write(carrier: dict[str, str], language: str, values: dict[str, Value], rng: random.Random | None) -> str:
    template = carrier[language]
    text = SLOT.sub(lambda slot: values[slot[1] + slot[2]](language, slot[3] or "", rng), template)
    text = contract(text) if language == "fr" else text
    text = text.replace("..", ".")  # the period of "p.m." also ends the sentence
    if template[-1] in ".!?":
        text = text[0].upper() + text[1:]
    if language == "fr" and rng and rng.random() < 0.15:
        space = rng.choice("\u00a0\u202f")
        text = re.sub(r"(?<=\d) (?=\d|[€$£%°h]|[kKMGT]?o\b|k?g\b|[kc]?m\b|[cm]?l\b)| (?=[?!])", space, text)
    return text
