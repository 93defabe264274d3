"""Opening hours, ranges of weekdays, and durations."""

import random

from .numerals import EN_ONES, FR_ONES, number_words
from .times import SHORT_WEEKDAYS, WEEKDAYS
from .values import Draw, Value, ways


NOON = 12 * 60  # minutes


def days(first: int, last: int) -> Value:
    """Return days of the week: Monday to Friday, Montag bis Freitag, du lundi au vendredi. 0 is Monday.

    The form "from" is for sentences: from Monday to Friday, von Montag bis Freitag.
    """

    def write(language, form, rng):
        begin, end = (WEEKDAYS[language][number] for number in (first, last))
        short = [SHORT_WEEKDAYS[language][number] for number in (first, last)]
        joins = {"en": "{} to {}", "de": "{} bis {}", "fr": "du {} au {}"}
        usual = joins[language].format(begin, end)
        with_dots = joins[language].format(*(f"{name}." for name in short))
        if form == "from":
            return {"en": "from ", "de": "von ", "fr": ""}[language] + ways(rng, usual, with_dots)
        brief = [f"{short[0]}{dash}{short[1]}" for dash in ("-", "–", " - ")]
        brief += [f"{short[0]}.-{short[1]}.", f"{begin}-{end}", with_dots]
        if language == "fr":
            brief += [f"{short[0].capitalize()}-{short[1].capitalize()}", f"{begin} à {end}"]
        return ways(rng, usual, *brief)

    return write


def hours(begin: int, end: int) -> Value:
    """Return a range of times in digits, given in minutes: 9 a.m. to 6 p.m., 9 bis 18 Uhr, 9 h à 18 h.

    The form "from" is for sentences: from 9 a.m. to 6 p.m., von 9 bis 18 Uhr, de 9 h à 18 h.
    """
    has_minutes = begin % 60 or end % 60

    def write(language, form, rng):
        dashes = ("-", "–", " - ", " – ")
        full = [f"{time // 60}:{time % 60:02}" for time in (begin, end)]
        if language == "en":
            first, last = _english_hour(begin), _english_hour(end)
            usual = f"{first} to {last}"
            compact = [text.replace(" ", "").replace(".", "") for text in (first, last)]
            capitals = [text.replace(".", "").upper() for text in (first, last)]
            spoken = [" to ".join(compact), " to ".join(capitals)]
            if (begin < NOON) == (end < NOON):  # 5–7pm
                compact[0], capitals[0] = first[:-5], first[:-5]
            brief = [dash.join(texts) for dash in dashes for texts in (compact, capitals)]
        elif language == "de":
            numbers = full if has_minutes else [str(begin // 60), str(end // 60)]
            usual = "{} bis {} Uhr".format(*numbers)
            spoken = ["{} Uhr bis {} Uhr".format(*numbers), " bis ".join(full).replace(":", ".") + " Uhr"]
            brief = [dash.join(texts) + " Uhr" for dash in dashes for texts in (numbers, full)]
            brief.append("-".join(full).replace(":", ".") + " Uhr")
        else:
            spaced = [f"{time // 60} h" + (f" {time % 60:02}" if time % 60 else "") for time in (begin, end)]
            compact = [text.replace(" ", "") for text in spaced]
            usual, spoken = " à ".join(spaced), [" à ".join(compact)]
            brief = [dash.join(texts) for dash in dashes for texts in (compact, spaced)]
        if form == "from":
            return {"en": "from ", "de": "von ", "fr": "de "}[language] + ways(rng, usual, *spoken)
        return ways(rng, usual, *spoken, *brief)

    return write


def _english_hour(time: int) -> str:
    hour, minute = divmod(time, 60)
    digits = f"{(hour - 1) % 12 + 1}" + (f":{minute:02}" if minute else "")
    return f"{digits} {'p' if hour >= 12 else 'a'}.m."


HOUR = {"en": ("hour", "hours"), "de": ("Stunde", "Stunden"), "fr": ("heure", "heures")}
MINUTES = {"en": "minutes", "de": "Minuten", "fr": "minutes"}
SHORT_HOURS = {"en": ("hr", "hrs"), "de": ("Std.", "Std."), "fr": ("h", "h")}
SHORT_MINUTES = {"en": ("min", "mins"), "de": ("Min.", "min"), "fr": ("min", "mn")}


def duration(whole_hours: int, minutes: int) -> Value:
    """Return a duration: 2.5 hours, 2,5 Stunden, 2 heures et demie; or 2 hours and 20 minutes; or 20 minutes."""

    def write(language, form, rng):
        in_minutes = f"{minutes} {MINUTES[language]}"
        short_minutes = [f"{minutes} {short}" for short in SHORT_MINUTES[language]]
        if not whole_hours:
            return ways(rng, in_minutes, *short_minutes)
        word, short = (names[language][whole_hours > 1] for names in (HOUR, SHORT_HOURS))
        in_hours, short_hours = f"{whole_hours} {word}", f"{whole_hours} {short}"
        if minutes == 30:
            return _and_a_half(whole_hours, language, rng)
        if minutes:
            both = " et " if language == "fr" else " und " if language == "de" else " and "
            brief = [f"{short_hours} {text}" for text in short_minutes] + [f"{in_hours} {in_minutes}"]
            brief += [f"{whole_hours}h{minutes:02}", f"{whole_hours} h {minutes:02}"] if language == "fr" else []
            return ways(rng, in_hours + both + in_minutes, *brief)
        written = {"en": EN_ONES, "fr": FR_ONES}.get(language, ())
        in_words = "une" if language == "fr" and whole_hours == 1 else number_words(whole_hours, language)
        words = [f"{in_words} {word}"] if written and whole_hours < len(written) else []
        return ways(rng, in_hours, short_hours, f"{whole_hours} h", f"{whole_hours}h", *words)

    return write


def _and_a_half(whole: int, language: str, rng: random.Random | None) -> str:
    _, plural = HOUR[language]
    if language == "en":
        words = f"{number_words(whole, 'en')} and a half {plural}" if whole > 1 else "an hour and a half"
        return ways(rng, f"{whole}.5 hours", f"{whole}.5 hrs", f"{whole}.5 h", f"{whole}½ hours", words)
    if language == "de":
        words = f"{number_words(whole, 'de')}einhalb Stunden" if whole > 1 else "anderthalb Stunden"
        return ways(rng, f"{whole},5 Stunden", f"{whole},5 Std.", f"{whole},5 h", f"{whole}½ Stunden", words)
    word = HOUR["fr"][whole > 1]
    number = "une" if whole == 1 else number_words(whole, "fr")
    brief = [f"{whole}h30", f"{whole} h 30", f"{whole},5 {word}", f"{whole},5 h", f"{number} {word} et demie"]
    return ways(rng, f"{whole} {word} et demie", *brief)


def _days(rng: random.Random) -> Value:
    return days(*rng.choice([(0, 4), (0, 4), (0, 5), (1, 5), (1, 6), (0, 3), (3, 6), (5, 6), (0, 2), (2, 6)]))


def _hours(rng: random.Random) -> Value:
    step = rng.choice([60, 60, 30, 15])
    begin = rng.randrange(6 * 60, 15 * 60, step)
    return hours(begin, rng.randrange(begin + 60, 23 * 60, step))


def _duration(rng: random.Random) -> Value:
    kind = rng.random()
    if kind < 0.35:
        return duration(0, rng.choice([rng.randrange(10, 95, 5), rng.randint(2, 59)]))
    if kind < 0.6:
        return duration(rng.randint(1, 12), 0)
    return duration(rng.randint(1, 6), 30 if kind < 0.85 else rng.choice([10, 15, 20, 40, 45, 50]))


# Keys are the slots of carriers.tsv.
SCHEDULES: dict[str, Draw] = {"days": _days, "hours": _hours, "duration": _duration}
