"""Times of day and dates."""

import datetime
import random

from .numerals import EN_ONES, FR_ONES, english_suffix, number_words, ordinal_digits, ordinal_words
from .values import Draw, Value, kept_as, ways, with_later


# Times of day

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
        return with_later(value, lambda rng: spoken_time(rng.randint(1, 5), rng.choice([0, 15, 30])))
    if kind == "digital":
        hour = rng.choice([rng.randint(7, 22), rng.randint(0, 23)])
        minute = rng.choice([0, 0, 15, 30, 45, rng.randrange(5, 60, 5), rng.randint(1, 59)])
        value = digital_time(hour, minute or 30 * (hour % 12 == 0))  # avoids 12 p.m., which is ambiguous
        return with_later(value, lambda rng: digital_time((hour + rng.randint(1, 8)) % 24, rng.choice([15, 30, 45])))
    minute = rng.choice([0, 0, 15, 30, 30, 45, *range(0, 60, 5)])
    if kind == "with part of day":
        hour = rng.randint(1, 10)
        part = "afternoon" if hour < 5 else rng.choice(["morning", "evening"]) if hour > 5 else "morning"
    else:
        hour, part = rng.randint(1, 12 if minute else 11), None  # avoids twelve o'clock, which is noon in French
    value = spoken_time(hour, minute, part)
    return with_later(value, lambda rng: spoken_time((hour + rng.randint(0, 4)) % 11 + 1, rng.choice([0, 15, 30, 45])))


def noon_or_midnight(noon: bool) -> Value:
    def write(language, form, rng):
        if language == "en":
            return "noon" if noon else "midnight"
        if language == "de":
            return ways(rng, "zwölf Uhr mittags", "12 Uhr mittags") if noon else "Mitternacht"
        return "midi" if noon else "minuit"

    return write


def spoken_time(hour: int, minute: int, part: str | None = None) -> Value:
    """Return a spoken time, from an hour of 1 to 12 and minutes in steps of five: half past nine, halb zehn."""
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
        return ways(rng, f"half past {EN_ONES[hour]}", f"{EN_ONES[hour]} thirty")
    number, near, where = (minute, hour, "past") if minute < 30 else (60 - minute, following, "to")
    if number == 15:
        return ways(rng, f"quarter {where} {EN_ONES[near]}", f"a quarter {where} {EN_ONES[near]}")
    return f"{number_words(number, 'en')} {where} {EN_ONES[near]}"


def _french_hour(hour: int) -> str:
    return "midi" if hour == 12 else "une heure" if hour == 1 else f"{FR_ONES[hour]} heures"


def digital_time(hour: int, minute: int) -> Value:
    """Return a time in digits: 9:30 p.m., 21:30 Uhr, 21 h 30. The form "alone" avoids the ambiguous 21:30."""

    def write(language, form, rng):
        plain = [] if form == "alone" else [f"{hour}:{minute:02}"]
        if language == "en":
            half, twelve = ("a.m.", "p.m.")[hour >= 12], (hour - 1) % 12 + 1
            text = f"{twelve}:{minute:02}" if minute else f"{twelve}"
            short = half.replace(".", "")
            return ways(
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
            return ways(
                rng, full if minute else f"{hour} Uhr", full, f"{hour:02}:{minute:02} Uhr", f"{hour}.{minute:02} Uhr"
            )
        minutes = f"{minute:02}" if minute else ""
        return ways(rng, f"{hour} h {minutes}".strip(), f"{hour}h{minutes}", f"{hour}h{minutes}", *plain)

    return write


# Dates

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
# How sources abbreviate them; the months have their full stops, which some writers leave out.
SHORT_WEEKDAYS = {
    "en": "Mon Tue Wed Thu Fri Sat Sun".split(),
    "de": "Mo Di Mi Do Fr Sa So".split(),
    "fr": "lun mar mer jeu ven sam dim".split(),
}
SHORT_MONTHS = {
    "en": "Jan. Feb. Mar. Apr. May Jun. Jul. Aug. Sept. Oct. Nov. Dec.".split(),
    "de": "Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.".split(),
    "fr": "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.".split(),
}
ABBREVIATED = 0.15  # share of weekdays and months in sources that are abbreviated
ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX XXI".split()


def _any_date(rng: random.Random) -> datetime.date:
    year = rng.choice([rng.randint(2000, 2027), rng.randint(1850, 2027)])
    day = datetime.date(year, 1, 1) + datetime.timedelta(days=rng.randrange(365))
    return day.replace(day=1) if rng.random() < 0.06 else day  # French has an exception, 1er


def written_date(date: datetime.date, year: bool = False, weekday: str = "", numeric: bool = False) -> Value:
    """Return a date with the month in words.

    Args:
        weekday: "in sentence" (am Montag, dem 3. Mai), "alone" (Montag, 3. Mai) or empty.
        numeric: Write 14.03.2025 in German, 14/03/2025 in French, and 2025-03-14 or an unambiguous date in an English
            source. An English target has the month in words, which is never ambiguous.
    """

    def write(language, form, rng):
        day, month = date.day, MONTHS[language][date.month - 1]
        name = WEEKDAYS[language][date.weekday()]
        if rng and rng.random() < ABBREVIATED:
            month = SHORT_MONTHS[language][date.month - 1]
            month = month.rstrip(rng.choice(["", "."])) if year else month.rstrip(".")
        if rng and weekday == "alone" and rng.random() < ABBREVIATED:
            name = SHORT_WEEKDAYS[language][date.weekday()] + rng.choice(["", "."])
        if language == "en":
            if numeric and rng:
                ambiguous = day <= 12
                return ways(rng, f"{date:%Y-%m-%d}", *([] if ambiguous else [f"{date:%m/%d/%Y}", f"{date:%d/%m/%Y}"]))
            th = f"{day}{english_suffix(day)}"
            end, plain = (f", {date.year}", f" {date.year}") if year else ("", "")
            unusual = [f"{day} {month}{plain}", f"{month} {th}{end}", f"{th} {month}{plain}"]
            if not weekday:
                unusual.append(f"the {th} of {month}{plain}")
            text = ways(rng, f"{month} {day}{end}", *unusual)
            return f"{name}, {text}" if weekday else text
        if language == "de":
            end = f" {date.year}" if year else ""
            if numeric:
                return ways(rng, f"{date:%d.%m.%Y}", f"{day}.{date.month}.{date.year}")
            join = {"": "", "alone": f"{name}, ", "in sentence": f"{name}, dem "}[weekday]
            return f"{join}{day}. {month}{end}"
        if numeric:
            return ways(rng, f"{date:%d/%m/%Y}", f"{date:%d.%m.%Y}")
        text = f"{'1er' if day == 1 else day} {month}" + (f" {date.year}" if year else "")
        return f"{name} {text}" if weekday else text

    return write


def _day(rng: random.Random) -> Value:
    date = _any_date(rng)
    return with_later(written_date(date), lambda rng: written_date(date + datetime.timedelta(days=rng.randint(2, 24))))


def _date(rng: random.Random) -> Value:
    return written_date(_any_date(rng), year=True, numeric=rng.random() < 0.3)


def _weekday_date(weekday: str) -> Draw:
    return lambda rng: written_date(_any_date(rng), year=rng.random() < 0.2, weekday=weekday)


def weekday(number: int) -> Value:
    """Return a day of the week; the form "every" gives Mondays, montags, le lundi."""

    def write(language, form, rng):
        name = WEEKDAYS[language][number]
        if form != "every":
            return SHORT_WEEKDAYS[language][number] + "." if rng and rng.random() < ABBREVIATED else name
        return {"en": f"{name}s", "de": f"{name.lower()}s", "fr": f"le {name}"}[language]

    return write


def _named(names: dict[str, list[str]], number: int, end: str = "") -> Value:
    return lambda language, form, rng: names[language][number] + end


def _year(rng: random.Random) -> Value:
    year = rng.choice([rng.randint(1900, 2035), rng.randint(1500, 2035)])
    return with_later(kept_as(str(year)), lambda rng: kept_as(str(year + rng.randint(1, 8))))


def decade(tens: int, in_words: bool) -> Value:
    """Return a decade: 1990s, 1990er Jahre, années 1990; in words, for the 20th century only, nineties."""

    def write(language, form, rng):
        year = 1900 + tens
        if language == "en":
            return number_words(tens, "en")[:-1] + "ies" if in_words else f"{year}s"
        if language == "de":
            if in_words:
                return f"{number_words(tens, 'de').capitalize()}erjahre"
            return ways(rng, f"{year}er Jahre", f"{year}er-Jahre")
        # années quatre-vingt, without the s of the number.
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
        if language == "de":
            return ways(rng, f"{number}. Jahrhundert", f"{number}. Jh.")
        return ways(rng, f"{ROMAN[number - 1]}e siècle", f"{ROMAN[number - 1]}e s.")

    return write


# Keys are the slots of carriers.tsv.
TIMES: dict[str, Draw] = {
    "clock": clock,
    "day": _day,
    "date": _date,
    "weekdate": _weekday_date("in sentence"),
    "lonedate": _weekday_date("alone"),
    "weekday": lambda rng: weekday(rng.randrange(7)),
    "month": lambda rng: _named(MONTHS, rng.randrange(12)),
    "monthyear": lambda rng: _named(MONTHS, rng.randrange(12), f" {rng.randint(1950, 2035)}"),
    "year": _year,
    "recent": lambda rng: kept_as(str(rng.randint(1999, 2030))),
    "decade": _decade,
    "century": _century,
}
