"""How a language writes numbers and times, for numbers that a translation must have or has copied from the source."""

import re
from collections.abc import Collection, Iterator
from decimal import Decimal

from .items_vaswani import outside_kept_items
from .numbers_vaswani import (
    HALF_DAY,
    LANGUAGES,
    NEUTRAL,
    ROMAN,
    SPACES,
    Language,
    Number,
    read_dates,
    read_marks,
    read_numbers,
)
from .spans_vaswani import Span


# What shows that digits with marks are an amount, not a version or a section: "$4.2", "4.2%", "4.2 m", "4.2 million".
SIGN_BEFORE = re.compile(rf"[$€£][{SPACES}]?$")
UNIT_AFTER = re.compile(
    rf"[{SPACES}-]?(?:[$€£%°²³]|(?:[kmcdµ]?[mgl]|km/h|[kMG]?(?:W|Hz|B)|kWh|V|mph|lb|oz|ft)\b)"
    rf"|[{SPACES}](?:de |d['’])?(?:euros?|dollars?|hours?|minutes?|seconds?|stunden?|minuten?|sekunden?|heures?"
    r"|secondes?|percent|prozent|pour cent|times|mal|fois)\b",
    re.IGNORECASE,
)
GROUPS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
DOTTED = re.compile(r"(?<![\w.,/-])\d+(?:\.\d+){2,}(?!\w)")  # 14.03.2025, 2.13.0; GROUPS are numbers
SCALES = {
    10**9: {"en": ("billion", "bn"), "de": ("Milliarden", "Milliarde", "Mrd"), "fr": ("milliards", "milliard", "Md")},
    10**6: {"en": ("million",), "de": ("Millionen", "Million", "Mio"), "fr": ("millions", "million")},
}
THOUSANDS = {"en": ",", "de": ".", "fr": "\u00a0"}
ABBREVIATED_SCALES = {"mio": "Millionen", "mrd": "Milliarden", "bn": "billion"}
ABBREVIATED_SCALE = re.compile(rf"[{SPACES}]?({'|'.join(ABBREVIATED_SCALES)})$", re.IGNORECASE)
END_OF_RANGE = re.compile(r"\d\s?(?:[-–]|to|bis|à)\s?$")
MAX_IN_WORDS = 12  # models know the words of numbers up to this one
HALF_DAY_MARK = re.compile(r"[ap]\.? ?m\.?$", re.IGNORECASE)
FRENCH_TIME = re.compile(r"\d\d? ?h ?\d\d")
# "im 2. Stock", but not "Ich bin 12. Du bist 13."
GERMAN_ORDINAL = re.compile(
    r"\b(?:[Dd](?:er|ie|as|em|en|es)|[Dd]ies\w+|[Jj]ede\w?|[Ii][mn]|[Aa]m|[Zz]u[mr]|[Vv]om|[Bb]eim|[Ee]ine?\w?"
    r"|(?:[Mm]|[Dd]|[Ss])eine?\w?|[Ii]hre?\w?|[Uu]nse?re?\w?)[ ](\d{1,3})\.[ ](?=([^\W\d_]+))"
)
ENGLISH_ORDINAL = re.compile(r"\b(\d+)(?:st|nd|rd|th)\b")
# The 3 of "3 März", which needs a full stop.
GERMAN_DAY = re.compile(rf"(?<![\w.,:/-])\d{{1,2}}(?= (?i:{LANGUAGES['de'].month.pattern}))")
# Mistakes of models such as "15:30 p.m." and "9-18 a.m.".
LATE_HOUR = re.compile(
    r"(?<![\w:.,])(?:(\d\d?)((?::[0-5]\d)?)(\s?[-–]\s?| to ))?(1[3-9]|2[0-3])((?::[0-5]\d)?)"
    r"[ \u00a0]?[AaPp]\.? ?[Mm]\b\.?"
)
# The 14 of "14 to 6 p.m.", another mistake of models.
LATE_BEGINNING = re.compile(
    r"(?<![\w:.,])(1[3-9]|2[0-3])"
    r"(?=(?::[0-5]\d)?(?:\s?[-–]\s?| to )(?:\d|1[0-2])(?::[0-5]\d)?[ \u00a0]?[Pp]\.? ?[Mm]\b)"
)


def usual_forms(number: Number, language: Language) -> tuple[str, ...]:
    """Return the forms in which a language writes a number; none if it is ambiguous."""
    months = [value[1] for value in number.values if isinstance(value, tuple) and value[0] == "month"]
    if months:
        return (language.name_of_month(months[0]),) if language.months else ()
    values = [value for value in number.values if isinstance(value, Decimal)]
    half = [value for value in values if value % 1 and not number.text[0].isdigit()]
    times = [value[1] for value in number.values if isinstance(value, tuple)]
    if number.is_duration:
        return (number.text,)
    if times and not half:
        return (format_time(times[0], language),) if len(times) == 1 and language is not NEUTRAL else ()
    if half:
        values = half  # two and a half hours are also 2:30, two and a half years 30 months
    elif len(number.values) != 1 or not values or language is NEUTRAL or ROMAN.fullmatch(number.text):
        return (number.text,)
    value = int(values[0]) if values[0] == int(values[0]) else values[0]
    if number.text[-1].isalpha() and (scaled := forms_with_scale(value, language)):
        return scaled
    whole, _, fraction = f"{value:,f}".partition(".") if isinstance(value, Decimal) else (f"{value:,}", "", "")
    decimals = language.decimal + fraction if fraction else ""
    words = [] if number.text[0].isdigit() else [word for word, n in language.words.items() if n == value]
    in_digits = (whole.replace(",", mark) + decimals for mark in (language.thousands, " ", ""))
    return tuple(dict.fromkeys((*words[:1], *in_digits)))


def forms_with_scale(value: Decimal | int, language: Language) -> tuple[str, ...]:
    """Return a large number as digits and a word ("1.2 billion"), or nothing if that takes more than three decimals."""
    for scale, names in SCALES.items():
        if value >= scale and value % (scale // 1000) == 0:
            digits = f"{value / scale:g}".replace(".", language.decimal)
            return tuple(f"{digits} {name}" for name in names[code_of(language)])
    return ()


def code_of(language: Language) -> str:
    return next(code for code, known in LANGUAGES.items() if known is language)


def format_time(moment: int, language: Language) -> str:
    """Return a time of day in digits, such as "21:30 Uhr"."""
    hour, minute = divmod(moment, 60)
    if language is LANGUAGES["de"]:
        return f"{hour}:{minute:02} Uhr" if minute else f"{hour} Uhr"
    if language is LANGUAGES["fr"]:
        return f"{hour} h {minute:02}" if minute else f"{hour} h"
    digits = f"{(hour - 1) % 12 + 1}:{minute:02}" if minute else f"{(hour - 1) % 12 + 1}"
    return f"{digits} {'p' if hour >= 12 else 'a'}.m."


def copied_numbers(
    source: str, translation: str, languages: tuple[str | None, str | None]
) -> Iterator[tuple[Span, str]]:
    """Yield the spans of numbers that a translation copied from its source, with their forms in the target language.

    "$1,250.50" becomes "$1.250,50" in German, and so does "$1.250.50"; "9 AM" becomes "9 Uhr"; "2. floor" becomes
    "2nd floor" in English. Versions, sections and dates get their dots back if the translation has commas instead.

    Args:
        source: The model's input.
        translation: The model's output.
        languages: The codes of both texts' languages. Only English, German and French numbers are changed.
    """
    if languages[0] == languages[1] or not {*languages} <= {*LANGUAGES}:
        return
    source_language, target_language = (LANGUAGES[code] for code in languages)
    text = outside_kept_items(source)
    dotted = [match[0] for match in DOTTED.finditer(text) if not GROUPS.fullmatch(match[0])]
    dotted += [date.text for date in read_dates(text, source_language)]  # "24.12."
    forms = {digits.replace(".", ","): digits for digits in dotted}
    numbers = read_numbers(text, source_language)
    for before, number in zip((None, *numbers), numbers, strict=False):
        if time := time_form(number, target_language):
            if hours := range_of_hours(before, number, text, target_language):
                forms.update([hours])  # "4 - 6 pm" as a whole: both hours change, or neither
            else:
                forms[number.text] = time
        elif amount := amount_form(number, text, languages):
            digits, form = amount
            forms.update({old: form for old in (digits, *(re.sub(r"\D", mark, digits) for mark in ".,"))})
    forms = {old: new for old, new in forms.items() if old != new}
    if languages[1] == "en":
        replacements = [*english_ordinals(source, translation)]
        replacements += ((match.span(), english_hours(match)) for match in LATE_HOUR.finditer(translation))
        late = LATE_BEGINNING.finditer(translation)
        replacements += ((match.span(), str(int(match[1]) - 12)) for match in late)
    else:
        replacements = [*copied_ordinals(translation, languages[1])]
        if languages[1] == "de":
            replacements += ((match.span(), f"{match[0]}.") for match in GERMAN_DAY.finditer(translation))
    if forms:
        copied = re.compile(
            rf"(?<![\w.,/])(?:{'|'.join(map(re.escape, sorted(forms, key=len, reverse=True)))})(?![.,]?\w)"
        )
        for match in copied.finditer(translation):
            is_before_stop = translation.startswith(".", match.end())  # that of "p.m." also ends the sentence
            replacements.append((match.span(), forms[match[0]].rstrip("." if is_before_stop else "")))
    last = 0
    for (begin, end), form in sorted(replacements):
        if begin >= last:  # two rules may find the same place
            yield (begin, end), form
            last = end


def range_of_hours(before: Number | None, number: Number, text: str, language: Language) -> tuple[str, str] | None:
    """Return a range such as "4 - 6 pm", and how German or French writes it; None for anything else."""
    if (
        before is None
        or language is LANGUAGES["en"]
        or text[before.end : number.start].strip() not in ("-", "–", "to", "till", "until")
    ):
        return None
    match = re.fullmatch(r"(\d\d?)(?::(\d\d))?", before.text)
    if not match or int(match[1]) > 12:
        return None
    [last] = [value[1] for value in number.values if isinstance(value, tuple) and value[0] == "time"]
    first = 60 * (int(match[1]) % 12) + int(match[2] or 0)
    first += HALF_DAY * (first + HALF_DAY < last)
    begin, end = (format_time(moment, language) for moment in (first, last))
    joint = " bis " if language is LANGUAGES["de"] else " à "
    return text[before.start : number.end], begin.removesuffix(" Uhr") + joint + end


def english_ordinals(source: str, translation: str) -> Iterator[tuple[Span, str]]:
    """Yield the spans of wrong English ordinals, such as "2th" or "2." copied from German, and the correct forms.

    A German ordinal in a name that is copied with it stays: "1. FC Köln".
    """
    for match in ENGLISH_ORDINAL.finditer(translation):
        yield match.span(), english_ordinal(match[1])
    for digits, word in set(GERMAN_ORDINAL.findall(source)):
        for match in re.finditer(rf"(?<![\w.,]){digits}\.(?=[ ](?!{word}\b)[^\W\d_])", translation):
            yield match.span(), english_ordinal(digits)


def english_hours(match: re.Match) -> str:
    """Return an afternoon time, or a range that ends with one, on a 12-hour clock."""
    hour, minutes, dash, last_hour, last_minutes = match.groups(default="")
    last = f"{int(last_hour) - 12}{last_minutes} p.m."
    if not hour:
        return last
    return f"{(int(hour) - 1) % 12 + 1}{minutes} {'p' if 12 <= int(hour) < 24 else 'a'}.m.{dash}{last}"


def copied_ordinals(translation: str, language: str) -> Iterator[tuple[Span, str]]:
    """Yield the spans of English ordinals in a German or French translation, and their forms in its language."""
    for match in ENGLISH_ORDINAL.finditer(translation):
        following = translation[match.end() :]
        is_day = re.match(rf"\s*(?:$|[.,;:!?)]|{LANGUAGES['fr'].month.pattern})", following, re.IGNORECASE)
        if language == "de":
            yield match.span(), match[1] + ("" if following.startswith(".") else ".")
        else:
            yield match.span(), match[1] + ("er" if match[1] == "1" else "" if is_day else "e")


def english_ordinal(digits: str) -> str:
    ending = "th" if digits[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")
    return digits + ending


def amount_form(number: Number, text: str, languages: tuple[str, str]) -> tuple[str, str] | None:
    """Return the digits of an amount, and how the second language writes them; None for anything else."""
    source_language, target_language = (LANGUAGES[code] for code in languages)
    match = source_language.in_digits.match(number.text)
    digits = match[1] if match else ""
    if not re.search(r"\D", digits) or len(read_marks(digits, source_language)) != 1:
        return None
    is_amount = SIGN_BEFORE.search(text, 0, number.start) or UNIT_AFTER.match(text, number.start + len(digits))
    is_decimal = source_language.decimal == "," and "," in digits
    if is_decimal and GROUPS.fullmatch(digits) and not is_amount:
        return None  # "70,000" in French is probably English for seventy thousand
    if not (is_amount or match[2] or GROUPS.match(digits) or is_decimal):
        return None
    whole, mark, fraction = digits.rpartition(source_language.decimal)
    groups = re.split(r"\D", whole if mark else fraction)
    decimals = target_language.decimal + fraction if mark else ""
    return digits, THOUSANDS[languages[1]].join(groups) + decimals


def digits_for_words(
    lost: Collection[Number], text: str, source_language: Language, language: Language
) -> Iterator[tuple[Span, str]]:
    """Yield spans of numbers in a text, from left to right, with replacements that a model translates better.

    Lost times and numbers in words become digits, which the model copies ("9:30 Uhr" for half past nine). All
    abbreviated months, millions and billions are written out.

    Args:
        lost: The numbers that are missing in the translation.
        text: The source.
        source_language: The language of the source.
        language: The language of the translation.
    """
    if language is NEUTRAL:
        return
    end = 0
    for number in read_numbers(outside_kept_items(text), source_language):
        match = re.compile(rf"(?<!\w){re.escape(number.text)}(?!\w)").search(text, end)
        if not match:
            continue
        begin, end = match.span()
        months = [value[1] for value in number.values if isinstance(value, tuple) and value[0] == "month"]
        if months and number.text[0].isalpha():
            name = source_language.name_of_month(months[0])
            if number.is_required and name.lower() != number.text.lower():
                yield (begin, end + text.startswith(".", end)), name
        elif scale := ABBREVIATED_SCALE.search(number.text):
            full = f"{number.text[: scale.start()]} {ABBREVIATED_SCALES[scale[1].lower()]}"
            yield (begin, end + text.startswith(".", end)), full
        elif number in lost and not END_OF_RANGE.search(text, 0, begin):  # of "5–7 pm", only "7 pm" would change
            if form := in_digits(number, source_language, language):
                yield (begin, end), form


def in_digits(number: Number, source_language: Language, language: Language) -> str | None:
    """Return the digits to copy for a time or a number in words; None for another number."""
    if number.is_duration or number.text.isdecimal():
        return None
    if half := source_language.and_a_half.fullmatch(number.text):
        nouns = half.groupdict()
        return usual_forms(number, language)[0] + (nouns.get("noun") or nouns.get("one") or "")
    if moments := sorted(value[1] for value in number.values if isinstance(value, tuple) and value[0] == "time"):
        form = format_time(moments[0], language)
        return form if len(moments) == 1 else HALF_DAY_MARK.sub("", form).rstrip()
    value = next(iter(number.values))
    is_large = isinstance(value, Decimal) and value > MAX_IN_WORDS
    return f"{value:f}" if is_large and len(number.values) == 1 and number.text[0].isalpha() else None


def time_form(number: Number, language: Language) -> str | None:
    """Return a time on a clock of 12 hours, or with "h" and minutes, as another language writes it."""
    if number.is_duration:
        return None
    is_english, is_french = HALF_DAY_MARK.search(number.text), FRENCH_TIME.fullmatch(number.text)
    moments = [value[1] for value in number.values if isinstance(value, tuple) and value[0] == "time"]
    is_foreign = (is_english and language is not LANGUAGES["en"]) or (is_french and language is not LANGUAGES["fr"])
    return format_time(moments[0], language) if is_foreign and len(moments) == 1 else None
