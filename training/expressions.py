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

import datetime
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from .invented import COUNTRIES, NAMES_ALONE, people
from .variations import Pair


LANGUAGES = ("en", "de", "fr")
TABLES = Path(__file__).with_name("carriers.tsv"), Path(__file__).with_name("places.tsv")

ALONE = 0.25  # this share are expressions without a sentence around them
OTHER_WAY = 0.4  # this share of a source's values are not written in the usual way
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

# A value, written: (language, form, rng). The rng is given for a source, which may be written in any way, and is None
# for a target.
Value = Callable[[str, str, random.Random | None], str]


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


@cache
def carriers() -> dict[str, tuple[list[dict[str, str]], list[dict[str, str]]]]:
    """By group: texts without a sentence around the value, and sentences; each by language."""
    groups: dict[str, tuple[list, list]] = {}
    for line in TABLES[0].read_text(encoding="utf-8").splitlines():
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


def _with_later(value: Value, later: Callable[[random.Random], Value]) -> Value:
    """The value, which knows what to draw where a second follows: from nine to five, from $20 to $30."""
    value.later = later
    return value


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


def _ways(rng: random.Random | None, usual: str, *others: str) -> str:
    return rng.choice(others) if rng and others and rng.random() < OTHER_WAY else usual


# Numbers in words ----------------------------------------------------------------------------------------------------

EN_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
EN_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
DE_ONES = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
).split()
DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
FR_ONES = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf"
).split()
FR_TENS = "vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()


def number_words(number: int, language: str, feminine: bool = False) -> str:
    """A number of 0 to 9999 in words; `feminine` is for French: vingt et une heures."""
    if not 0 <= number <= 9999:
        raise ValueError(f"{number} is not a number from 0 to 9999")
    words = {"en": _english, "de": _german, "fr": _french}[language](number)
    # Before 1 stands a word, "et" or a hyphen; onze is another word.
    return re.sub(r"\bun$", "une", words) if feminine else words


def _english(number: int) -> str:
    thousands, rest = divmod(number, 1000)
    hundreds, below = divmod(rest, 100)
    words = [f"{EN_ONES[thousands]} thousand"] * (thousands > 0) + [f"{EN_ONES[hundreds]} hundred"] * (hundreds > 0)
    if below or not words:
        words += ["and"] * bool(words)
        tens, ones = divmod(below, 10)
        words.append(EN_ONES[below] if below < 20 else EN_TENS[tens - 2] + (f"-{EN_ONES[ones]}" if ones else ""))
    return " ".join(words)


def _german(number: int) -> str:
    thousands, rest = divmod(number, 1000)
    hundreds, below = divmod(rest, 100)
    words = "".join(
        ("" if count == 1 and name in ("tausend", "hundert") and not (name == "hundert" and thousands) else
         DE_ONES[count].replace("eins", "ein")) + name
        for count, name in ((thousands, "tausend"), (hundreds, "hundert"))
        if count
    )  # fmt: skip
    tens, ones = divmod(below, 10)
    if below and below < 20 or not words and not below:
        return words + DE_ONES[below]
    ones_words = DE_ONES[ones].replace("eins", "ein") + "und" if ones else ""
    return words + (ones_words + DE_TENS[tens - 2] if below else "")


def _french(number: int) -> str:
    thousands, rest = divmod(number, 1000)
    hundreds, below = divmod(rest, 100)
    words = [] if not thousands else ["mille"] if thousands == 1 else [FR_ONES[thousands], "mille"]
    if hundreds:
        words += [FR_ONES[hundreds]] * (hundreds > 1) + ["cents" if hundreds > 1 and not below else "cent"]
    if below or not words:
        tens, ones = divmod(below, 10)
        if below < 20:
            words.append(FR_ONES[below])
        elif below == 80:
            words.append("quatre-vingts")
        else:
            ones += 10 * (tens in (7, 9))
            joint = " et " if ones in (1, 11) and tens < 8 else "-"
            words.append(FR_TENS[tens - 2] + (joint + FR_ONES[ones] if ones else ""))
    return " ".join(words)


# Ordinals up to 99 as words; from 100 on as digits only.
EN_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth"}
EN_ORDINALS |= {"nine": "ninth", "twelve": "twelfth"}
DE_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}
FR_ORDINALS = {"cinq": "cinquième", "neuf": "neuvième", "vingts": "vingtième"}


def ordinal_words(number: int, language: str, form: str = "") -> str:
    """An ordinal of 1 to 99 in words; `form` is the German ending (e, en, er, es) or the French gender (f or none)."""
    if not 1 <= number <= 99:
        raise ValueError(f"{number} is not a number from 1 to 99")
    words = number_words(number, language)
    if language == "en":
        head, last = re.fullmatch(r"(.*?)(\w+)", words).groups()
        return head + EN_ORDINALS.get(last, last[:-1] + "ieth" if last.endswith("y") else last + "th")
    if language == "de":
        return DE_ORDINALS.get(number, words + ("t" if number < 20 else "st")) + (form or "e")
    if number == 1:
        return "première" if form == "f" else "premier"
    head, last = re.fullmatch(r"(.*?)(\w+)", words).groups()
    return head + FR_ORDINALS.get(last, last.removesuffix("e") + "ième")


def ordinal_digits(number: int, language: str, form: str = "") -> str:
    if language == "de":
        return f"{number}."
    if language == "fr":
        return ("1re" if form == "f" else "1er") if number == 1 else f"{number}e"
    return f"{number}{_english_suffix(number)}"


def _english_suffix(number: int) -> str:
    return "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _nth(number: int, in_words: bool) -> Value:
    def write(language, form, rng):
        return (ordinal_words if in_words else ordinal_digits)(number, language, form)

    return write


def _number_in_words(number: int) -> Value:
    def write(language, form, rng):
        words = number_words(number, language, form == "f")
        if language == "de" and re.match("(hundert|tausend)", words):
            return _ways(rng, words, f"ein{words}")
        if language == "en" and number > 100:
            return _ways(rng, words, words.replace(" and ", " "))
        return words

    return write


def _few(rng: random.Random) -> Value:
    return _number_in_words(rng.choice([rng.randint(2, 12), rng.randint(13, 30), rng.randint(21, 99)]))


def _many(rng: random.Random) -> Value:
    number = rng.choice([rng.randrange(100, 1000, 50), rng.randint(100, 999), rng.randrange(1000, 9999, 100)])
    return _number_in_words(number + (number % 100 == 1))  # hundertein Seiten: nobody is sure


def _bare_number(rng: random.Random) -> Value:
    return _number_in_words(rng.choice([rng.randint(0, 100), rng.randint(0, 999), rng.randint(0, 9999)]))


# Times ---------------------------------------------------------------------------------------------------------------

DE_MINUTES = {0: "{} Uhr", 5: "fünf nach {}", 10: "zehn nach {}", 15: "Viertel nach {}", 20: "zwanzig nach {}"}
DE_MINUTES |= {25: "fünf vor halb {1}", 30: "halb {1}", 35: "fünf nach halb {1}", 40: "zwanzig vor {1}"}
DE_MINUTES |= {45: "Viertel vor {1}", 50: "zehn vor {1}", 55: "fünf vor {1}"}
FR_MINUTES = {0: "{}", 5: "{} cinq", 10: "{} dix", 15: "{} et quart", 20: "{} vingt", 25: "{} vingt-cinq"}
FR_MINUTES |= {30: "{} et demie", 35: "{1} moins vingt-cinq", 40: "{1} moins vingt", 45: "{1} moins le quart"}
FR_MINUTES |= {50: "{1} moins dix", 55: "{1} moins cinq"}
DAY_PARTS = {
    "morning": {"en": "in the morning", "de": "morgens", "fr": "du matin"},
    "afternoon": {"en": "in the afternoon", "de": "nachmittags", "fr": "de l'après-midi"},
    "evening": {"en": "in the evening", "de": "abends", "fr": "du soir"},
}


def clock(rng: random.Random) -> Value:
    [kind] = rng.choices(["noon or midnight", "spoken", "with part of day", "digital"], [5, 37, 8, 50])
    if kind == "noon or midnight":
        value = noon_or_midnight(rng.random() < 0.5)
        return _with_later(value, lambda rng: spoken_time(rng.randint(1, 5), rng.choice([0, 15, 30])))
    if kind == "digital":
        hour = rng.choice([rng.randint(7, 22), rng.randint(0, 23)])
        minute = rng.choice([0, 0, 15, 30, 45, rng.randrange(5, 60, 5), rng.randint(1, 59)])
        value = digital_time(hour, minute or 30 * (hour % 12 == 0))  # 12 p.m. is noon for some, midnight for others
        return _with_later(value, lambda rng: digital_time((hour + rng.randint(1, 8)) % 24, rng.choice([15, 30, 45])))
    minute = rng.choice([0, 0, 15, 30, 30, 45, *range(0, 60, 5)])
    if kind == "with part of day":
        hour = rng.randint(1, 10)
        part = "afternoon" if hour < 5 else rng.choice(["morning", "evening"]) if hour > 5 else "morning"
    else:
        hour, part = rng.randint(1, 12 if minute else 11), None  # twelve o'clock would be noon in French
    value = spoken_time(hour, minute, part)
    return _with_later(value, lambda rng: spoken_time((hour + rng.randint(0, 4)) % 11 + 1, rng.choice([0, 15, 30, 45])))


def noon_or_midnight(noon: bool) -> Value:
    def write(language, form, rng):
        if language == "en":
            return "noon" if noon else "midnight"
        if language == "de":
            return _ways(rng, "zwölf Uhr mittags", "12 Uhr mittags") if noon else "Mitternacht"
        return "midi" if noon else "minuit"

    return write


def spoken_time(hour: int, minute: int, part: str | None = None) -> Value:
    """An hour of 1 to 12 and minutes in steps of five, as people say it: half past nine, halb zehn."""
    following = hour % 12 + 1

    def write(language, form, rng):
        if language == "en":
            text = _english_time(hour, following, minute, rng)
        elif language == "de":
            text = DE_MINUTES[minute].format(*(number_words(h, "de") for h in (hour, following)))
            text = text.replace("eins Uhr", "ein Uhr")
        else:
            text = FR_MINUTES[minute].format(*map(_french_hour, (hour, following)))
            text = text.replace("midi et demie", "midi et demi")
        return f"{text} {DAY_PARTS[part][language]}" if part else text

    return write


def _english_time(hour: int, following: int, minute: int, rng: random.Random | None) -> str:
    if minute == 0:
        return f"{EN_ONES[hour]} o'clock"
    if minute == 30:
        return _ways(rng, f"half past {EN_ONES[hour]}", f"{EN_ONES[hour]} thirty")
    number, near, where = (minute, hour, "past") if minute < 30 else (60 - minute, following, "to")
    if number == 15:
        return _ways(rng, f"quarter {where} {EN_ONES[near]}", f"a quarter {where} {EN_ONES[near]}")
    return f"{number_words(number, 'en')} {where} {EN_ONES[near]}"


def _french_hour(hour: int) -> str:
    return "midi" if hour == 12 else "une heure" if hour == 1 else f"{FR_ONES[hour]} heures"


def digital_time(hour: int, minute: int) -> Value:
    """A time of 24 hours: 9:30 p.m., 21:30 Uhr, 21 h 30. With the form "alone" no 21:30, which could be anything."""

    def write(language, form, rng):
        plain = [] if form == "alone" else [f"{hour}:{minute:02}"]
        if language == "en":
            half, twelve = ("a.m.", "p.m.")[hour >= 12], (hour - 1) % 12 + 1
            text = f"{twelve}:{minute:02}" if minute else f"{twelve}"
            short = half.replace(".", "")
            return _ways(
                rng,
                f"{text} {half}",
                f"{text} {short.upper()}",
                f"{text} {short}",
                f"{text}{short}",
                f"{twelve}:{minute:02} {half}",
                *plain,
            )
        if language == "de":
            full = f"{hour}:{minute:02} Uhr"
            return _ways(
                rng, full if minute else f"{hour} Uhr", full, f"{hour:02}:{minute:02} Uhr", f"{hour}.{minute:02} Uhr"
            )
        minutes = f"{minute:02}" if minute else ""
        return _ways(rng, f"{hour} h {minutes}".strip(), f"{hour}h{minutes}", f"{hour}h{minutes}", *plain)

    return write


# Dates ---------------------------------------------------------------------------------------------------------------

MONTHS = {
    "en": "January February March April May June July August September October November December".split(),
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(),
}
WEEKDAYS = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split(),
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche".split(),
}
ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX XXI".split()


def _any_date(rng: random.Random) -> datetime.date:
    year = rng.choice([rng.randint(2000, 2027), rng.randint(1850, 2027)])
    day = datetime.date(year, 1, 1) + datetime.timedelta(days=rng.randrange(365))
    return day.replace(day=1) if rng.random() < 0.06 else day  # 1er is French's exception


def written_date(date: datetime.date, year: bool = False, weekday: str = "", numeric: bool = False) -> Value:
    """A date in words; `weekday` is "in sentence" (am Montag, dem 3. Mai), "alone" (Montag, 3. Mai) or empty.

    `numeric` is 14.03.2025 in German and 14/03/2025 in French. Such a date stands for 2025-03-14 in an English source;
    an English target has the month in words, which nobody can mistake.
    """

    def write(language, form, rng):
        day, month = date.day, MONTHS[language][date.month - 1]
        name = WEEKDAYS[language][date.weekday()]
        if language == "en":
            if numeric and rng:
                ambiguous = day <= 12
                return _ways(rng, f"{date:%Y-%m-%d}", *([] if ambiguous else [f"{date:%m/%d/%Y}", f"{date:%d/%m/%Y}"]))
            th = f"{day}{_english_suffix(day)}"
            end, plain = (f", {date.year}", f" {date.year}") if year else ("", "")
            others = [f"{day} {month}{plain}", f"{month} {th}{end}", f"{th} {month}{plain}"]
            if not weekday:
                others.append(f"the {th} of {month}{plain}")
            text = _ways(rng, f"{month} {day}{end}", *others)
            return f"{name}, {text}" if weekday else text
        if language == "de":
            end = f" {date.year}" if year else ""
            if numeric:
                return _ways(rng, f"{date:%d.%m.%Y}", f"{day}.{date.month}.{date.year}")
            join = {"": "", "alone": f"{name}, ", "in sentence": f"{name}, dem "}[weekday]
            return f"{join}{day}. {month}{end}"
        if numeric:
            return _ways(rng, f"{date:%d/%m/%Y}", f"{date:%d.%m.%Y}")
        text = f"{'1er' if day == 1 else day} {month}" + (f" {date.year}" if year else "")
        return f"{name} {text}" if weekday else text

    return write


def _day(rng: random.Random) -> Value:
    date = _any_date(rng)
    return _with_later(written_date(date), lambda rng: written_date(date + datetime.timedelta(days=rng.randint(2, 24))))


def _date(rng: random.Random) -> Value:
    return written_date(_any_date(rng), year=True, numeric=rng.random() < 0.3)


def _weekday_date(weekday: str) -> Callable[[random.Random], Value]:
    return lambda rng: written_date(_any_date(rng), year=rng.random() < 0.2, weekday=weekday)


def weekday(number: int) -> Value:
    """A day of the week; the form "every" is on Mondays, montags, le lundi."""

    def write(language, form, rng):
        name = WEEKDAYS[language][number]
        if form != "every":
            return name
        return {"en": f"{name}s", "de": f"{name.lower()}s", "fr": f"le {name}"}[language]

    return write


def _named(names: dict[str, list[str]], number: int, end: str = "") -> Value:
    return lambda language, form, rng: names[language][number] + end


def _year(rng: random.Random) -> Value:
    year = rng.choice([rng.randint(1900, 2035), rng.randint(1500, 2035)])
    return _with_later(_kept_as(str(year)), lambda rng: _kept_as(str(year + rng.randint(1, 8))))


def decade(tens: int, in_words: bool) -> Value:
    """The 1990s, die 1990er Jahre, les années 1990; in words (only of the 20th century) nineties."""

    def write(language, form, rng):
        year = 1900 + tens
        if language == "en":
            return number_words(tens, "en")[:-1] + "ies" if in_words else f"{year}s"
        if language == "de":
            if in_words:
                return f"{number_words(tens, 'de').capitalize()}erjahre"
            return _ways(rng, f"{year}er Jahre", f"{year}er-Jahre")
        # Not "quatre-vingts", as for a count.
        return f"années {number_words(tens, 'fr').removesuffix('s')}" if in_words else f"années {year}"

    return write


def _decade(rng: random.Random) -> Value:
    tens = rng.choice([*range(20, 100, 10), 110, 100])
    return decade(tens, tens < 100 and rng.random() < 0.3)


def _century(rng: random.Random) -> Value:
    number, in_words = rng.randint(5, 21), rng.random() < 0.4

    def write(language, form, rng):
        if language == "en":
            words = ordinal_words(number, "en")
            return f"{words if in_words and rng else ordinal_digits(number, 'en')} century"
        return f"{number}. Jahrhundert" if language == "de" else f"{ROMAN[number - 1]}e siècle"

    return write


# Numbers, money, measures --------------------------------------------------------------------------------------------


def digits(number: str, language: str) -> str:
    """A number as Python writes it ("1250.50") with a language's marks: 1,250.50, 1.250,50 or 1 250,50."""
    whole, _, decimals = number.partition(".")
    thousands, point = {"en": (",", "."), "de": (".", ","), "fr": (" ", ",")}[language]
    whole = f"{int(whole):,}".replace(",", thousands)
    return f"{whole}{point}{decimals}" if decimals else whole


SIGNS = ["$", "€", "£", "CHF"]
CURRENCIES = {  # (singular, plural)
    "$": {"en": ("dollar", "dollars"), "de": ("Dollar", "Dollar"), "fr": ("dollar", "dollars")},
    "€": {"en": ("euro", "euros"), "de": ("Euro", "Euro"), "fr": ("euro", "euros")},
    "£": {"en": ("pound", "pounds"), "de": ("Pfund", "Pfund"), "fr": ("livre", "livres")},
    "CHF": {
        "en": ("Swiss franc", "Swiss francs"),
        "de": ("Schweizer Franken", "Schweizer Franken"),
        "fr": ("franc suisse", "francs suisses"),
    },
}
LARGE = {
    "million": {"en": ("million", "million"), "de": ("Million", "Millionen"), "fr": ("million", "millions")},
    "billion": {"en": ("billion", "billion"), "de": ("Milliarde", "Milliarden"), "fr": ("milliard", "milliards")},
}


def _plural(number: str, language: str) -> bool:
    """French counts by the plural from 2 on, the others all but 1."""
    return float(number) >= 2 if language == "fr" else float(number) != 1


def _currency(rng: random.Random) -> str:
    return rng.choices(SIGNS, [35, 45, 12, 8])[0]


def money(number: str, currency: str, in_words: bool = False) -> Value:
    """$1,250.50, 1.250,50 $, 1 250,50 $; in words 20 euros, 20 Euro, 20 euros."""

    def write(language, form, rng):
        text = digits(number, language)
        if in_words:
            return f"{text} {CURRENCIES[currency][language][_plural(number, language)]}"
        if language == "en":
            return f"{currency} {text}" if currency == "CHF" else f"{currency}{text}"
        return f"{text} CHF" if currency == "CHF" else _ways(rng, f"{text} {currency}", f"{text}{currency}")

    return write


def _money(rng: random.Random) -> Value:
    number = rng.choice(
        [
            str(rng.randint(2, 99)),
            str(rng.randrange(100, 3000, 10)),
            f"{rng.randint(0, 99)}.{rng.randint(1, 99):02}",
            f"{rng.randint(1, 300)}.{rng.choice([50, 99, 90, 95])}",
            f"{rng.randint(1000, 19999)}.{rng.randint(1, 99):02}",
            str(rng.randrange(1000, 250_000, 500)),
        ]
    )
    currency, in_words = _currency(rng), "." not in number and rng.random() < 0.45
    higher = f"{float(number) * 1.25 + 1:.{2 if '.' in number else 0}f}"
    return _with_later(money(number, currency, in_words), lambda rng: money(higher, currency, in_words))


def _large_number(rng: random.Random) -> str:
    return rng.choice([str(rng.randint(1, 20)), str(rng.randint(2, 900)), f"{rng.randint(1, 99)}.{rng.randint(1, 9)}"])


def large_money(number: str, scale: str, currency: str) -> Value:
    """$3.5 million, 3,5 Millionen Dollar, 3,5 millions de dollars."""

    def write(language, form, rng):
        amount = f"{digits(number, language)} {LARGE[scale][language][_plural(number, language)]}"
        unit = CURRENCIES[currency][language][1]
        if language == "fr":
            return contract(f"{amount} [de]{unit}")
        if language == "de":
            return f"{amount} {unit}"
        sign = f"{currency} " if currency == "CHF" else currency
        return _ways(rng, f"{sign}{amount}", f"{amount} {unit}")

    return write


def percent(number: str) -> Value:
    """3.5%, 3,5 %, 3,5 %."""

    def write(language, form, rng):
        text = digits(number, language)
        if language == "en":
            return _ways(rng, f"{text}%", f"{text} percent", f"{text} per cent")
        word = {"de": "Prozent", "fr": "pour cent"}[language]
        return _ways(rng, f"{text} %", f"{text}%", f"{text} {word}")

    return write


def count(number: str, scale: str | None = None) -> Value:
    """So many of what the form names: 3 million people, 3 Millionen Menschen, 3 millions de personnes."""

    def write(language, form, rng):
        text = digits(number, language)
        if scale:
            text += f" {LARGE[scale][language][_plural(number, language)]}"
            return contract(f"{text} [de]{form}") if language == "fr" else f"{text} {form}"
        return f"{text} {form}"

    return write


def _count(rng: random.Random) -> Value:
    if rng.random() < 0.3:
        return count(rng.choice([str(rng.randint(1, 20)), f"{rng.randint(1, 20)}.{rng.randint(1, 9)}"]), "million")
    return count(str(rng.choice([rng.randint(1001, 99_999), rng.randrange(1000, 900_000, 1000)])))


UNIT_WORDS = {  # by sign: singular and plural
    "kg": {"en": ("kilogram", "kilograms"), "de": ("Kilogramm", "Kilogramm"), "fr": ("kilogramme", "kilogrammes")},
    "g": {"en": ("gram", "grams"), "de": ("Gramm", "Gramm"), "fr": ("gramme", "grammes")},
    "l": {"en": ("liter", "liters"), "de": ("Liter", "Liter"), "fr": ("litre", "litres")},
    "ml": {
        "en": ("milliliter", "milliliters"),
        "de": ("Milliliter", "Milliliter"),
        "fr": ("millilitre", "millilitres"),
    },
    "m": {"en": ("meter", "meters"), "de": ("Meter", "Meter"), "fr": ("mètre", "mètres")},
    "km": {"en": ("kilometer", "kilometers"), "de": ("Kilometer", "Kilometer"), "fr": ("kilomètre", "kilomètres")},
    "cm": {
        "en": ("centimeter", "centimeters"),
        "de": ("Zentimeter", "Zentimeter"),
        "fr": ("centimètre", "centimètres"),
    },
    "spoon": {"en": ("tablespoon", "tablespoons"), "de": ("Esslöffel", "Esslöffel")}
    | {"fr": ("cuillère à soupe", "cuillères à soupe")},
    "teaspoon": {"en": ("teaspoon", "teaspoons"), "de": ("Teelöffel", "Teelöffel")}
    | {"fr": ("cuillère à café", "cuillères à café")},
    "cup": {"en": ("cup", "cups"), "de": ("Tasse", "Tassen"), "fr": ("tasse", "tasses")},
    "kilo": {"en": ("kilo", "kilos"), "de": ("Kilo", "Kilo"), "fr": ("kilo", "kilos")},
}
FRENCH_UNITS = {"kB": "ko", "MB": "Mo", "GB": "Go", "TB": "To"}


def measure(number: str, unit: str, in_words: bool = False) -> Value:
    """2.5 kg, 2,5 kg, 2,5 kg; in words 2.5 kilograms and so on. Bytes are octets in French: 5 MB, 5 MB, 5 Mo."""
    in_words = in_words and unit in UNIT_WORDS or unit in ("spoon", "teaspoon", "cup", "kilo")

    def write(language, form, rng):
        text = digits(number, language)
        if in_words:
            word = UNIT_WORDS[unit][language][_plural(number, language)]
            if language == "en" and re.search("(lit|met)er", word):
                word = _ways(rng, word, re.sub("(lit|met)er", r"\1re", word))
            return f"{text} {word}"
        sign = FRENCH_UNITS.get(unit, unit) if language == "fr" else unit
        return _ways(rng, f"{text} {sign}", f"{text}{sign}")

    return write


def _measure(*choices: tuple[list[str] | range, str], in_words: float = 0.3) -> Callable[[random.Random], Value]:
    def draw(rng):
        numbers, unit = rng.choice(choices)
        return measure(str(rng.choice(numbers)), unit, rng.random() < in_words)

    return draw


def _decimals(low: int, high: int) -> list[str]:
    return [f"{whole}.{tenth}" for whole in range(low, high) for tenth in range(1, 10)]


FOODS = [  # after g and kg
    {"en": en, "de": de, "fr": fr}
    for en, de, fr in (
        row.split("=")
        for row in (
            "flour=Mehl=farine sugar=Zucker=sucre butter=Butter=beurre rice=Reis=riz "
            "potatoes=Kartoffeln=pommes+de+terre apples=Äpfel=pommes cheese=Käse=fromage "
            "onions=Zwiebeln=oignons tomatoes=Tomaten=tomates "
            "carrots=Karotten=carottes mushrooms=Pilze=champignons meat=Fleisch=viande ham=Schinken=jambon "
            "chocolate=Schokolade=chocolat pasta=Nudeln=pâtes salt=Salz=sel coffee=Kaffee=café bread=Brot=pain "
            "cherries=Kirschen=cerises almonds=Mandeln=amandes beans=Bohnen=haricots spinach=Spinat=épinards "
            "strawberries=Erdbeeren=fraises lentils=Linsen=lentilles honey=Honig=miel fish=Fisch=poisson "
            "walnuts=Walnüsse=noix oranges=Orangen=oranges shrimp=Garnelen=crevettes raisins=Rosinen=raisins+secs "
            "grapes=Weintrauben=raisin asparagus=Spargel=asperges garlic=Knoblauch=ail pears=Birnen=poires"
        ).split()
    )
]
POWDERS = [food for food in FOODS if food["en"] in ("flour", "sugar", "rice", "lentils", "almonds", "raisins")]
SPOONFULS = [food for food in FOODS if food["en"] in ("flour", "sugar", "honey", "salt", "butter", "coffee")]
LIQUIDS = [
    {"en": en, "de": de, "fr": fr}
    for en, de, fr in (
        row.split("=")
        for row in (
            "water=Wasser=eau milk=Milch=lait oil=Öl=huile olive+oil=Olivenöl=huile+d'olive cream=Sahne=crème "
            "orange+juice=Orangensaft=jus+d'orange apple+juice=Apfelsaft=jus+de+pomme wine=Wein=vin tea=Tee=thé "
            "vinegar=Essig=vinaigre soup=Suppe=soupe coffee=Kaffee=café"
        ).split()
    )
]


def goods(amount: Value, good: dict[str, str]) -> Value:
    """200 g of flour, 200 g Mehl, 200 g de farine."""

    def write(language, form, rng):
        name, how_much = good[language].replace("+", " "), amount(language, "", rng)
        if language == "fr":
            return contract(f"{how_much} [de]{name}")
        return f"{how_much} of {name}" if language == "en" else f"{how_much} {name}"

    return write


def _food(rng: random.Random) -> Value:
    kind = rng.random()
    if kind < 0.65:
        amount = _measure((range(50, 1000, 50), "g"), (range(20, 600, 5), "g"), (["1", "2", "3", "1.5", "2.5"], "kg"),
                          (["1", "2", "3", "5"], "kilo"))(rng)  # fmt: skip
        return goods(amount, rng.choice(FOODS))
    if kind < 0.9:
        amount = measure(str(rng.randint(1, 6)), rng.choice(["spoon", "teaspoon"]))
        return goods(amount, rng.choice([*SPOONFULS, *LIQUIDS[2:4]]))
    return goods(measure(str(rng.randint(1, 4)), "cup"), rng.choice(POWDERS))


def _liquid(rng: random.Random) -> Value:
    amount = _measure((range(50, 800, 25), "ml"), (["1", "2", "3", "1.5", "0.5", "2.5"], "l"))(rng)
    return goods(amount, rng.choice(LIQUIDS))


def _number(rng: random.Random) -> Value:
    number = rng.choice(
        [
            f"{rng.randint(0, 99)}.{rng.randint(1, 9)}",
            f"{rng.randint(0, 9)}.{rng.randint(1, 999):03}",
            f"{rng.randint(1000, 99_999)}.{rng.randint(1, 99):02}",
            str(rng.randint(1000, 99_999)),
            str(rng.randint(100_000, 9_999_999)),
        ]
    )
    higher = f"{float(number) * rng.uniform(1.1, 3) + 0.1:.{len(number.partition('.')[2])}f}"

    def value(number):
        return lambda language, form, rng: digits(number, language)

    return _with_later(value(number), lambda rng: value(higher))


# What is the same in all three.


def _kept_as(text: str) -> Value:
    return lambda language, form, rng: text


def _kept(*patterns: str) -> Callable[[random.Random], Value]:
    """Each 0 of a pattern is a digit, each 1 one that is not zero, each A a capital."""

    def draw(rng):
        numbers = {"0": "0123456789", "1": "123456789", "A": "ABCDEFGHKLMNPRSTUVWXYZ"}
        text = "".join(rng.choice(numbers[c]) if c in numbers else c for c in rng.choice(patterns))
        return _kept_as(text)

    return draw


def _interval(rng: random.Random) -> Value:
    low = rng.randint(0, 90)
    text = rng.choice(["[{},{}]", "[{}, {}]", "({}, {})"]).format(low, low + rng.randint(1, 60))
    return _kept_as(text)


def _range(rng: random.Random) -> Value:
    low = rng.randint(1, 300)
    return _kept_as(f"{low}-{low + rng.randint(1, 40)}")


def _score(rng: random.Random) -> Value:
    low = rng.randint(0, 4)
    high = low + rng.randint(1, 3)

    def write(language, form, rng):
        if language == "en":
            return _ways(rng, f"{high}-{low}", f"{high} to {low}")
        return f"{high}:{low}" if language == "de" else _ways(rng, f"{high} à {low}", f"{high}-{low}")

    return write


VALUES: dict[str, Callable[[random.Random], Value]] = {
    "clock": clock,
    "day": _day,
    "date": _date,
    "weekdate": _weekday_date("in sentence"),
    "lonedate": _weekday_date("alone"),
    "weekday": lambda rng: weekday(rng.randrange(7)),
    "month": lambda rng: _named(MONTHS, rng.randrange(12)),
    "monthyear": lambda rng: _named(MONTHS, rng.randrange(12), f" {rng.randint(1950, 2035)}"),
    "year": _year,
    "recent": lambda rng: _kept_as(str(rng.randint(1999, 2030))),
    "decade": _decade,
    "century": _century,
    "money": _money,
    "bigmoney": lambda rng: large_money(_large_number(rng), rng.choice([*LARGE]), _currency(rng)),
    "percent": lambda rng: percent(rng.choice([str(rng.randint(2, 95)), f"{rng.randint(0, 30)}.{rng.randint(1, 9)}"])),
    "count": _count,
    "food": _food,
    "liquid": _liquid,
    "weight": _measure((range(2, 40), "kg"), (_decimals(1, 25), "kg"), (range(100, 950, 50), "g")),
    "distance": _measure((range(2, 30), "km"), (_decimals(1, 12), "km"), (range(200, 950, 50), "m"), in_words=0.5),
    "length": _measure((range(15, 300, 5), "cm"), (_decimals(1, 6), "m"), (range(2, 12), "m"), in_words=0.4),
    "temperature": _measure((range(-12, 38), "°C"), (_decimals(5, 32), "°C")),
    "oven": _measure((range(140, 240, 10), "°C")),
    "speed": _measure((range(20, 150, 10), "km/h")),
    "storage": _measure((range(2, 900), "kB"), (range(2, 900), "MB"), (range(2, 600), "GB"), (_decimals(1, 9), "GB"),
                        (_decimals(1, 9), "MB"), (range(1, 9), "TB")),
    "nth": lambda rng: _nth(rng.randint(1, rng.choice([6, 12])), rng.random() < 0.65),
    "nnth": lambda rng: _nth(rng.randint(1, rng.choice([12, 31, 99])), rng.random() < 0.65),
    "n": _few,
    "age": lambda rng: _number_in_words(rng.randint(60, 99)),
    "nn": _many,
    "bare": _bare_number,
    "number": _number,
    "phone": _kept("+11 10 10000000", "+11 100 1000000", "011 10 00 00 00", "0100/100000", "100-100-0000",
                   "(100) 100-0000", "01 10 00 00 00", "0100 1000000", "+11-10-1000000"),
    "version": _kept("1.0.0", "1.0.10", "1.10.0", "10.0.1", "1.0.0-1"),
    "interval": _interval,
    "range": _range,
    "code": _kept("100000", "A-10000", "AA-100000", "1000-000-0", "A100000", "10000/1"),
    "flight": _kept("AA 100", "AA1000", "AA 1000", "AA100"),
    "room": _kept("10", "100", "1000"),
    "score": _score,
}  # fmt: skip


# Places --------------------------------------------------------------------------------------------------------------

# Cities of the table that people in Europe write about, by their English names: every other city is one of these.
WELL_KNOWN = set(
    "Munich Vienna Warsaw Cologne Nuremberg Hanover Geneva Brussels Antwerp Ghent Bruges Copenhagen Prague Milan Rome "
    "Naples Florence Venice Turin Genoa Athens Moscow Lisbon Seville Nice Strasbourg London Kyiv Bucharest Belgrade "
    "Zürich Zurich Basel Bern Lucerne Gdańsk Kraków Wrocław Poznań Cairo Algiers Beirut Damascus Baghdad Tehran "
    "Jerusalem Havana Beijing Seoul Tokyo Singapore Tunis Dunkirk Dresden Hamburg Frankfurt Leipzig Stuttgart Berlin "
    "Paris Lyon Marseille Bordeaux Toulouse Lille Nantes Madrid Barcelona Valencia Zaragoza Amsterdam Rotterdam Oslo "
    "Stockholm Gothenburg Helsinki Tallinn Riga Vilnius Budapest Sofia Bratislava Ljubljana Zagreb Dublin Edinburgh "
    "Manchester Liverpool Chicago Boston Toronto Montréal Montreal Sydney Melbourne Istanbul Ankara Dubai Marrakesh "
    "Casablanca Mecca Salzburg Innsbruck Graz Linz Düsseldorf Dortmund Bremen Mainz Trier Aachen Freiburg Bologna "
    "Palermo Porto Reykjavik Brunswick Liège Padua Verona Parma Siena Pisa".split()
    + ["New York", "Mexico City", "The Hague", "Saint Petersburg", "New Delhi", "Cape Town", "Tel Aviv", "Los Angeles"]
)
# In the table cities are mixed with islands and stations, which take other prepositions, and with names of offices.
NOT_A_CITY = re.compile(
    r"\b(Islands?|Station|Location|City|Quarter|Vatican|Barbados|Cayman|Canaries|Faroes|Sakhalin|Kamchatka|Galápagos|"
    r"St\. (Vincent|Kitts|Thomas)|South Georgia|Mahé|Thule|Efate|Wallis|Futuna|Pohnpei|Chuuk|Noronha|Guadeloupe|"
    r"Madeira|Azores|Bermuda|Mauritius|Reunion|Base|Luxembourg)\b|[&()/,]"
)
# Where the table has no usual name, by the English one: German, French.
USUAL_NAMES = {
    "London": {"de": "London", "fr": "Londres"},
    "New York": {"de": "New York", "fr": "New York"},
    "Frankfurt": {"de": "Frankfurt", "fr": "Francfort"},
    "Tel Aviv": {"de": "Tel Aviv", "fr": "Tel-Aviv"},
    "St. Petersburg": {"de": "Sankt Petersburg", "fr": "Saint-Pétersbourg"},
    "Santiago": {"de": "Santiago", "fr": "Santiago"},
    "San José": {"de": "San José", "fr": "San José"},
    "Jerusalem": {"de": "Jerusalem", "fr": "Jérusalem"},
}
# Names by themselves that are other words or names, too.
AMBIGUOUS = {"world", "Main", "Inn", "Don", "Po", "Ural", "Galicia"}
CITIES_WITH_CITY = ("Mexico City", "Kuwait City", "Panama City", "Guatemala City", "Ho Chi Minh City", "Quebec City")


class Places:
    """Names in two languages: the cities of a table, and the countries, regions, rivers and mountains of places.tsv.

    Its methods draw a value of the slot of their name.
    """

    def __init__(self, source: str, target: str, table: Iterable[Sequence[str]]):
        self._languages = source, target
        names: dict[str, tuple[str, str]] = {}
        cities: dict[str, tuple[str, str]] = {}
        # A name has one translation: Jordan is the country, not the river. Rivers called "Red" or "Peace" are left out.
        rows = [row for row in self._completed(table) if not row[2].startswith("river")]
        for *pair, kind in sorted(rows, key=lambda row: not row[2].startswith("country")):
            pair = tuple(pair)
            if not (AMBIGUOUS & set(pair) or re.search(r"Pseudo|Unknown|\bR\.|É\.-U\.", " ".join(pair))):
                names.setdefault(pair[0], pair)
            if kind.startswith("city") and self._is_city(pair):
                cities.setdefault(pair[0], pair)
        self.names = list(names.values())
        self.cities = list(cities.values())
        self._known = [pair for pair in self.cities if WELL_KNOWN & set(pair)]
        self._differing = [pair for pair in self.cities if pair[0] != pair[1]]

    def _completed(self, table: Iterable[Sequence[str]]) -> list[Sequence[str]]:
        """The table with the usual names in place of its own; an empty table stays empty."""
        table, number = list(table), int(self._languages[0] != "en")
        usual = [
            tuple({"en": name, **names}[language] for language in self._languages) + ("city",)
            for name, names in USUAL_NAMES.items()
        ]
        return table and usual + [row for row in table if row[number] not in USUAL_NAMES]

    @staticmethod
    def _is_city(pair: tuple[str, str]) -> bool:
        # Quito is San Francisco de Quito in some tables: a name that holds the other says more than it.
        one, other = sorted(pair, key=len)
        return not (
            any(NOT_A_CITY.search(name) and name not in CITIES_WITH_CITY for name in pair)
            or one != other and re.search(rf"\b{re.escape(one)}\b", other)
        )  # fmt: skip

    def city(self, rng: random.Random) -> Value:
        draw = rng.random()
        some = self._known if draw < 0.5 else self._differing if draw < 0.8 else self.cities
        return self._either(rng.choice(some or self.cities))

    def name(self, rng: random.Random) -> Value:
        return self._either(rng.choice(self.names))

    def _either(self, pair: tuple[str, str]) -> Value:
        names = dict(zip(self._languages, pair, strict=True))
        return lambda language, form, rng: names.get(language, pair[0])

    def person(self, rng: random.Random) -> Value:
        someone = people(rng.choice(COUNTRIES + NAMES_ALONE), rng.getrandbits(32))
        name = someone.first_name()
        if rng.random() < 0.4:
            name += f" {someone.last_name()}"
        return _kept_as(name)

    def country(self, rng: random.Random) -> Value:
        return with_article(rng.choice(_named_places()["country"]))

    def nature(self, rng: random.Random) -> Value:
        return with_article(rng.choice(_named_places()["nature"]))


@cache
def _named_places() -> dict[str, list[dict[str, str]]]:
    kinds: dict[str, list[dict[str, str]]] = {}
    for line in TABLES[1].read_text(encoding="utf-8").splitlines():
        kind, *names = line.split("\t")
        kinds.setdefault(kind, []).append(dict(zip(LANGUAGES, names, strict=True)) | {"kind": kind})
    return kinds


def with_article(place: dict[str, str]) -> Value:
    """A row of places.tsv; the form is empty (nominative) or one of

    - acc, the German accusative;
    - in, to, from, away, near, with their preposition in German and French: im Iran, aus Polen, vom Rhein, zum Rhein;
    - lies, with a verb: is the Rhine, liegt der Rhein.
    """

    def write(language, form, rng):
        if language == "en":
            name = place["en"]
            plural = place["kind"] == "nature" and name.endswith("s") and name != "the Ganges"
            return f"{'are' if plural else 'is'} {name}" if form == "lies" else name
        return _german_place(place["de"], form) if language == "de" else _french_place(place["fr"], form)

    return write


def _german_place(text: str, form: str) -> str:
    text, _, number = text.partition(" (")
    is_plural = bool(number)
    article, _, name = text.partition(" ")
    if article not in ("der", "die", "das"):
        return {"in": "in ", "to": "nach ", "from": "aus ", "lies": "liegt "}.get(form, "") + text
    if form == "lies":
        return f"{'liegen' if is_plural else 'liegt'} {text}"
    if form in ("", "acc"):
        return f"den {name}" if form and article == "der" else text
    if form == "to":
        return f"{'in den' if article == 'der' else 'ins' if article == 'das' else 'in die'} {name}"
    dative = "den" if is_plural else "der" if article == "die" else "dem"
    if is_plural and name.endswith("e"):
        name += "n"
    if article == "das" and " " in name:  # das Schwarze Meer
        name = name.replace(" ", "n ", 1)
    phrase = {"in": f"in {dative}", "from": f"aus {dative}", "away": f"von {dative}", "near": f"zu {dative}"}[form]
    for long, short in (("in dem", "im"), ("von dem", "vom"), ("zu dem", "zum"), ("zu der", "zur")):
        phrase = short if phrase == long else phrase
    return f"{phrase} {name}"


def _french_place(text: str, form: str) -> str:
    text, _, gender = text.partition(" (")
    if form == "lies":
        return f"{'se trouvent' if text.startswith('les ') else 'se trouve'} {text}"
    if form not in ("in", "to", "from"):
        return text
    article, name = re.fullmatch(r"(la |le |les |l'|)(.*)", text).groups()
    if article == "les ":
        return f"{'des' if form == 'from' else 'aux'} {name}"
    if article == "le ":
        return f"{'du' if form == 'from' else 'au'} {name}"
    if form == "from":
        return contract(f"[de]{name}")
    return f"en {name}" if article or elides(name) else f"à {name}"
