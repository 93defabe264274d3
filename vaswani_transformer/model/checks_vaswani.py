"""What a translation must keep, and signs of a bad translation that can be checked without understanding it.

translate-toolkit's `filters.checks` do not serve here: they are under the GPL, this file travels to repositories on the
Hub, and they report failed checks, not the numbers and items that a retry must produce.
"""

import re
from collections import Counter

from .items_vaswani import kept_items, outside_kept_items


NUMBER = re.compile(r"\d+(?:[.,'’ \u00a0\u202f]\d{3}(?!\d))*")  # with its thousands; decimals count as another number
WRITTEN_NUMBER = re.compile(r"\d+(?:[.,:/'’]\d+)*")
UNIT = "mm|cm|km|m|mg|kg|g|ml|cl|l|kW|W|V|Hz|kHz|MHz|GHz|°C|°F|%"  # spelled the same in every language
MEASURE = re.compile(rf"(?<![$£€\w.,])(\d+(?:[.,]\d+)*)[ \u00a0\u202f-]?({UNIT})(?![\w%])")
WORDS_FOR_UNITS = {
    "%": "p(?:er cent|our cent|ercent|rozent)",
    "°C": r"[dg]\w{3}",
    "cm": r"[cz]\w{3}",
    "cl": r"[cz]\w{3}",
}
OTHER_DECIMALS = str.maketrans(".,", ",.")
CLOCK = re.compile(r"\d\s*[ap]\.?m\b|\bo['’]clock\b|\bUhr\b|\d\s*h(?:eures?)?\b", re.IGNORECASE)
MAX_SPELLED_OUT = 12  # numbers up to this one may be written as words
# A text may have 2.5 times as many characters as its translation, and 40 more, and the reverse.
MAX_LENGTH_RATIO, LENGTH_MARGIN = 2.5, 40
MAX_REPETITIONS = 3  # of the same words or letters in a row
MAX_REPEATED_WORDS = 8  # in a group of words whose repetitions are counted


def find_problems(source: str, translation: str) -> list[str]:
    """Describe what looks wrong with a translation: a longer list is worse, an empty one is good."""
    if not any(character.isalnum() for character in translation):
        return ["the translation is empty"]
    problems = []
    if len(translation) > MAX_LENGTH_RATIO * len(source) + LENGTH_MARGIN:
        problems.append("the translation is much longer than the source")
    if len(source) > MAX_LENGTH_RATIO * len(translation) + LENGTH_MARGIN:
        problems.append("the translation is much shorter than the source")
    if count_repetitions(translation) > max(MAX_REPETITIONS, count_repetitions(source)):
        problems.append("the translation repeats itself")
    problems += [f"{item} is missing" for item in missing_items(source, translation)]
    if numbers := differing_numbers(source, translation):
        problems.append(f"numbers differ: {', '.join(numbers)}")
    else:
        problems += [f"{measure} is missing" for measure in missing_measures(source, translation)]
    if "\ufffd" in translation and "\ufffd" not in source:
        problems.append("a broken character was removed")
    return problems


def required_forms(source: str, translation: str) -> list[tuple[str, ...]]:
    """Return the texts that a better translation must contain, each as a tuple of accepted forms.

    These are the numbers and measures that `translation` does not have, and the numbers, measures and word-like items
    that it has, so that the better translation does not lose them.
    """
    text = outside_kept_items(source)
    numbers, measures = WRITTEN_NUMBER.findall(text), [match[0] for match in MEASURE.finditer(text)]
    missing = missing_numbers(source, translation) + missing_measures(source, translation)
    preserved = [item for item in (*kept_items(source), *measures, *numbers) if item in translation]
    required = []
    for item in dict.fromkeys(missing + preserved):
        is_word = re.fullmatch(r"\w.*\w|\d", item)
        is_part_of_measure = item in numbers and any(item in measure for measure in measures)
        if is_word and not is_part_of_measure:
            required.append((item, item.translate(OTHER_DECIMALS)) if item in measures else (item,))
    return required


def missing_numbers(source: str, translation: str) -> list[str]:
    """Return the numbers that the translation does not have, as the source writes them."""
    differing = differing_numbers(source, translation)
    written = WRITTEN_NUMBER.findall(outside_kept_items(source))
    return [n for n in written if n not in translation and any(digits(x) in differing for x in NUMBER.findall(n))]


def missing_measures(source: str, translation: str) -> list[str]:
    """Return the numbers with a unit, as the source writes them, that have another unit or none in the translation."""
    missing = []
    for match in MEASURE.finditer(outside_kept_items(source)):
        number, unit = match.groups()
        # Most units become words with the same first letter: mg, Milligramm.
        unit_word = WORDS_FOR_UNITS.get(unit, rf"{re.escape(unit[0])}\w{{3}}")
        unit_after = rf"[ \u00a0\u202f-]?(?:{re.escape(unit)}(?![A-Za-z])|(?i:{unit_word}))"
        written = re.sub("[.,]", "[.,'’ \u00a0\u202f]?", number)
        has_number = re.search(rf"(?<!\d){written}(?!\d)", translation)
        is_spelled_out = int(digits(number)) <= MAX_SPELLED_OUT and not has_number
        if not is_spelled_out and not re.search(rf"(?<!\d){written}{unit_after}", translation):
            missing.append(match[0])
    return missing


def missing_items(source: str, translation: str) -> list[str]:
    """Return the items to keep that occur less often in the translation than in the source."""
    items = Counter(kept_items(source))
    return [item for item, count in items.items() if translation.count(item) < count]


def differing_numbers(source: str, translation: str) -> list[str]:
    """Return the digits of numbers that are missing in the translation or that only the translation has.

    Small numbers may become words, and words may become small numbers. They count only if one is missing and the
    translation has another one instead. Times of the day are not compared: every language writes them in its own way.
    """
    if CLOCK.search(source) or CLOCK.search(translation):
        return []
    source_numbers, translation_numbers = (
        Counter(map(digits, NUMBER.findall(outside_kept_items(text)))) for text in (source, translation)
    )
    missing, extra = source_numbers - translation_numbers, translation_numbers - source_numbers
    large = [number for number in (*missing, *extra) if int(number) > MAX_SPELLED_OUT]
    return large or (sorted(missing) if missing and extra else [])


def digits(number: str) -> str:
    """Return the digits of a number, without separators and leading zeros."""
    return re.sub(r"\D", "", number).lstrip("0") or "0"


def count_repetitions(text: str) -> int:
    """Return how many times in a row the same words, or the same letters inside a word, occur at most."""
    words = text.lower().split()
    highest = 1
    for length in range(1, min(MAX_REPEATED_WORDS, len(words) // 2) + 1):
        repeated = 0  # words in a row that equal the word `length` places before
        for i in range(length, len(words)):
            repeated = repeated + 1 if words[i] == words[i - length] else 0
            highest = max(highest, repeated // length + 1)
    for match in re.finditer(r"([^\W\d]{2,8}?)\1{3,}", text.lower()):
        highest = max(highest, len(match[0]) // len(match[1]))
    return highest
