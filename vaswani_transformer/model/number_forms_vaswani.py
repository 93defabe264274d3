"""How a language writes numbers and times, for numbers that a translation must have or has copied from the source."""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from .items_vaswani import outside_kept_items
from .numbers_vaswani import LANGUAGES, NEUTRAL, ROMAN, SPACES, Language, Number, read_marks, read_numbers
from .spans_vaswani import Span


# What shows that digits with marks are an amount, not a version or a section: "$4.2", "4.2%", "4.2 m", "4.2 million".
SIGN_BEFORE = re.compile(rf"[$€£][{SPACES}]?$")
UNIT_AFTER = re.compile(
    rf"[{SPACES}-]?(?:[$€£%°²³]|(?:[kmcdµ]?[mgl]|km/h|[kMG]?(?:W|Hz|B)|kWh|V|mph|lb|oz|ft)\b)"
    rf"|[{SPACES}](?:de |d['’])?(?:euros?|dollars?|hours?|minutes?|seconds?|stunden?|minuten?|sekunden?|heures?|secondes?"
    r"|percent|prozent|pour cent|times|mal|fois)\b",
    re.IGNORECASE,
)
GROUPS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
THOUSANDS = {"en": ",", "de": ".", "fr": "\u00a0"}
HALF_DAY_MARK = re.compile(r"[ap]\.? ?m\.?$", re.IGNORECASE)
FRENCH_TIME = re.compile(r"\d\d? ?h ?\d\d")


def usual_forms(number: Number, language: Language) -> tuple[str, ...]:
    """Return how a language writes a number: digits in digits, words in both ways; nothing if it may mean several."""
    times = [value[1] for value in number.values if isinstance(value, tuple)]
    if times:
        return (format_time(times[0], language),) if len(times) == 1 and language is not NEUTRAL else ()
    values = [value for value in number.values if isinstance(value, Decimal)]
    if len(number.values) != 1 or not values or language is NEUTRAL or ROMAN.fullmatch(number.text):
        return (number.text,)
    value = int(values[0]) if values[0] == int(values[0]) else values[0]
    whole, _, fraction = f"{value:,f}".partition(".") if isinstance(value, Decimal) else (f"{value:,}", "", "")
    decimals = language.decimal + fraction if fraction else ""
    words = [] if number.text[0].isdigit() else [word for word, n in language.words.items() if n == value]
    in_digits = (whole.replace(",", mark) + decimals for mark in (language.thousands, " ", ""))
    return tuple(dict.fromkeys((*words[:1], *in_digits)))


def format_time(moment: int, language: Language) -> str:
    """Return a time of day in digits, such as "21:30 Uhr"."""
    hour, minute = divmod(moment, 60)
    if language is LANGUAGES["de"]:
        return f"{hour}:{minute:02} Uhr" if minute else f"{hour} Uhr"
    if language is LANGUAGES["fr"]:
        return f"{hour} h {minute:02}" if minute else f"{hour} h"
    digits = f"{(hour - 1) % 12 + 1}:{minute:02}" if minute else f"{(hour - 1) % 12 + 1}"
    return f"{digits} {'p' if hour >= 12 else 'a'}.m."


def copied_numbers(source: str, translation: str, languages: tuple[str | None, str | None]) -> Iterator[tuple[Span, str]]:
    """Yield the spans of numbers and times that the translation has exactly as the source, and how its language has them.

    "$1,250.50" becomes "$1.250,50" in German, "9 AM" becomes "9 Uhr". Versions, sections and dates stay.

    Args:
        source: What the model got.
        translation: What it returned.
        languages: The codes of both texts' languages; others than English, German and French have no numbers to change.
    """
    if languages[0] == languages[1] or not {*languages} <= {*LANGUAGES}:
        return
    source_language, target_language = (LANGUAGES[code] for code in languages)
    text = outside_kept_items(source)
    forms = {
        number.text: form
        for number in read_numbers(text, source_language)
        if (form := time_form(number, target_language) or amount_form(number, text, languages)) and form != number.text
    }
    if forms:
        copied = re.compile(rf"(?<![\w.,/])(?:{'|'.join(map(re.escape, sorted(forms, key=len, reverse=True)))})(?![.,]?\w)")
        yield from ((match.span(), forms[match[0]]) for match in copied.finditer(translation))


def amount_form(number: Number, text: str, languages: tuple[str, str]) -> str | None:
    """Return an amount in digits as the second language writes it; None for anything else."""
    source_language = LANGUAGES[languages[0]]
    match = source_language.in_digits.match(number.text)
    digits = match[1] if match else ""
    if not re.search(r"\D", digits) or len(read_marks(digits, source_language)) != 1:
        return None
    is_amount = SIGN_BEFORE.search(text, 0, number.start) or UNIT_AFTER.match(text, number.start + len(digits))
    if not (is_amount or match[2] or GROUPS.match(digits) or (source_language.decimal == "," and "," in digits)):
        return None
    whole, mark, fraction = digits.rpartition(source_language.decimal)
    groups = re.split(r"\D", whole if mark else fraction)
    decimals = LANGUAGES[languages[1]].decimal + fraction if mark else ""
    return THOUSANDS[languages[1]].join(groups) + decimals + number.text[len(digits) :]


def times_in_target_form(numbers: Iterable[Number], text: str, language: Language) -> Iterator[tuple[Span, str]]:
    """Yield the spans of times in a text, and how another language writes them in digits: "9:30 Uhr" for half past nine.

    A model that does not know the words for a time copies its digits.
    """
    for number in numbers:
        moments = sorted(value[1] for value in number.values if isinstance(value, tuple) and value[0] == "time")
        match = re.search(rf"(?<!\w){re.escape(number.text)}(?!\w)", text)
        if moments and match and language is not NEUTRAL:
            form = format_time(moments[0], language)
            yield match.span(), form if len(moments) == 1 else HALF_DAY_MARK.sub("", form).rstrip()


def time_form(number: Number, language: Language) -> str | None:
    """Return a time on a clock of 12 hours, or with "h" and minutes, as another language writes it."""
    is_english, is_french = HALF_DAY_MARK.search(number.text), FRENCH_TIME.fullmatch(number.text)
    moments = [value[1] for value in number.values if isinstance(value, tuple) and value[0] == "time"]
    is_foreign = (is_english and language is not LANGUAGES["en"]) or (is_french and language is not LANGUAGES["fr"])
    return format_time(moments[0], language) if is_foreign and len(moments) == 1 else None
