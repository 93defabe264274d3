"""Reads the numbers of a text, in digits and in words, as its language writes them, and compares those of two texts.

The words are a small table of our own because this file travels to repositories on the Hub, where libraries such as
text2num may not be installed; text2num also reads neither times of day nor the decimal marks of a language.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple


# A number; ("time", minutes since midnight); ("month", 1 to 12); or text to compare as it is, such as a version.
Value = Decimal | tuple[str, int] | str
Values = frozenset[Value]

SPACES = " \u00a0\u202f"
DIGITS = rf"(?<!\d)\d{{1,3}}(?:[{SPACES}]\d{{3}})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,'’]\d+)*"
# A list in brackets or a telephone number, but not a date.
LITERAL = re.compile(
    rf"\[\d+(?:[.,;:][{SPACES}]?\d+)*\]"
    rf"|(?<![\w.,+])(?!\d\d?([./-])\d\d?\1\d)(?:\+\d|\(?0\d)\d*\)?(?:[{SPACES}()/.-]{{1,2}}\d{{2,}})+"
)
MIN_PHONE_DIGITS = 7
# 3/14/2025, 2025-03-14, 14.3.2025, 14.3. and 3/14.
DATE = re.compile(r"(?<![\d.,/-])(\d{1,4})([./-])(\d{1,2})(?:\2(\d{2,4})|(?<=/\d)|(?<=/\d\d)|\.)(?![\d/-]|\.\d)")
DECADE, YEARS_OF = re.compile(r"['’]?s\b|er\b"), re.compile(r"\bannées $", re.IGNORECASE)
# Identifiers such as "LH2490", but not sums and years such as "EUR500" and "FY2020". Others are often written apart.
CODE = re.compile(r"(?<![\w.,/&-])(?!(?:EUR|USD|GBP|CHF|US|FY)\d)[A-Z]{2,4}\d{3,6}(?![\w.,-]*\d)")
# Between a month and its day or year: "3rd of May", "dritten Mai", "May 3", "Mai 2025".
BESIDE_MONTH = re.compile(rf"(?:st|nd|rd|th|er|e[nrms]?|\.|,)?[{SPACES}](?:of |the )?", re.IGNORECASE)
# What follows a number and gives it another value: "two weeks" (14 days, "quinze jours").
PERIODS = {7: "weeks?|wochen?|semaines?", 10: "decades?|jahrzehnten?|décennies?", 12: "dozens?|dutzend|douzaines?"}
PERIOD = re.compile("[ -](?:" + "|".join(f"({words})" for words in PERIODS.values()) + r")\b", re.IGNORECASE)
HOURS = re.compile(rf"[{SPACES}-]?(?:hours?|stunden?|heures?)\b", re.IGNORECASE)
YEARS = re.compile(rf"[{SPACES}-](?:years?|jahren?|ans?|années?)\b", re.IGNORECASE)
FINAL = re.compile(r"e?s? de finale\b")  # "8es de finale" are the last 16
SHORT_SCALES = {"k": 1000, "m": 10**6, "mn": 10**6, "md": 10**9}  # after a space they are units, as in "5 m"
SHORT_SCALE = re.compile(rf"({'|'.join(SHORT_SCALES)})\b|[{SPACES}](mn?|md)(?=[{SPACES}]?[$€£])", re.I)  # $1.7m, 90 M$
VAGUE = re.compile(
    r"\b(?:several|few|many|some|couple of|mehrere\w?|einige\w?|viele\w?|paar|wenige\w?|plusieurs|quelques) $", re.I
)
WORD_ENDING = re.compile("(?:st|t|d)?(?:e[nrms]?|el|eln)|th|ths|s|fold|fach|[iè]+mes?|aines?", re.IGNORECASE)
RANGE = re.compile(rf"[{SPACES}]?(?:[-–—/]|\b(?:to|till|until|and|or|bis|und|oder|à|et|ou|jusqu'à)\b)[{SPACES}]?")
LATE = re.compile(r"abend|nacht|mittag|soir|après-midi|nuit|evening|afternoon|night", re.IGNORECASE)
NOON = re.compile(r"\b(?:noon|midday|midi\b|mittag)|\b(midnight|minuit|mitternacht)", re.IGNORECASE)
# "At 5.13" is a time, too.
DOTTED_TIME, AT = (
    re.compile(r"([01]?\d|2[0-3])[.]([0-5]\d)"),
    re.compile(r"\b(?:at|from|until|by|um|ab|à|vers) $", re.I),
)
# Words beside "2 h 45" that make it a duration in French. In English and German, it is always a duration.
DURATION_AFTER = re.compile(rf"[{SPACES}]?(?:min|mn)\b|[{SPACES}]de (?!l['’]après|la nuit)\w")
DURATION_BEFORE = re.compile(
    r"\b(?:dur\w*|pendant|durant|cuisson|préparation|repos|temps|trajet|vol|marche|attente|retard)[ :\u00a0]*"
    r"(?:(?:de|environ|env\.) |d['’])*$",
    re.IGNORECASE,
)
ROMAN = re.compile(r"\b(?=[IVX])(X{0,3}(?:IX|IV|V?I{0,3}))(?<=[IVX])(e|ème|er|re)?\b(?!['’-]\w)")  # XIXe, Louis XIV
ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10}
ABBREVIATED_YEAR = re.compile("[-–/]")  # 1998/99
ARTICLES = {"eine", "einer", "une"}  # "une heure" is one o'clock or an hour
HALF_DAY, DAY = 12 * 60, 24 * 60  # minutes
OFFSETS = {"half past": 30, "halb": -30, "quarter past": 15, "viertel nach": 15, "quarter to": -15, "viertel vor": -15}
OFFSETS |= {"dreiviertel": -15, "et demi": 30, "et demie": 30, "et quart": 15, "moins le quart": -15}


class Number(NamedTuple):
    """A number in a text.

    text: The number as the text writes it.
    start: The position of its first character.
    values: Its possible values.
    parts: The possible values of its parts, where another language may write them apart: day and month of a date.
    is_required: Whether a translation must have it. Words such as "both" and "twice" are not required.
    is_duration: Whether hours and minutes are a duration, not a time of day.
    """

    text: str
    start: int
    values: Values
    parts: tuple[Values, ...] = ()
    is_required: bool = True
    is_duration: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, eq=False)
class Language:
    """How a language writes numbers. All words are in lower case; "_" is a space in a word, "|" separates words.

    decimal, thousands: The marks. Spaces and apostrophes may always be between thousands.
    small: The words for 0 to 19.
    tens: The words for 20, 30, ..., 90.
    scales: The words for 100, 1,000, a million and so on.
    joint: The pattern between the words of a number.
    halves: The pattern of a number and a half, "#" is any number, "@" a thousand, a million and so on,
        and the groups "noun" and "one" are what is counted.
    hints: "NUMBER=beginning|beginning": beginnings of other words that may translate it, such as ordinals.
    ambiguous: Words that are certainly numbers only together with others.
    months: The names of the months and their abbreviations.
    """

    meridiem: str = r"[ap]m\b"
    decimal: str = ".,"
    thousands: str = ".,"
    small: str = ""
    tens: str = ""
    scales: str = ""
    joint: str = ""
    halves: str = "(?P<whole>(?!))(?P<scale>)"
    hints: str = ""
    ambiguous: str = ""
    months: str = ""

    @cached_property
    def words(self) -> dict[str, int]:
        """The values of the words that always mean a number."""
        places = (*range(20), *range(20, 100, 10), 100, *(1000**n for n in range(1, 5)))
        forms = (*self.small.split(), *self.tens.split(), *self.scales.split())
        return {word.replace("_", " "): n for n, words in zip(places, forms) for word in words.split("|")}  # noqa: B905

    @cached_property
    def values(self) -> dict[str, int]:
        """The numbers of all words and hints."""
        hints = (hint.split("=") for hint in self.hints.split())
        return {word.replace("_", " "): int(n) for n, words in hints for word in words.split("|")} | self.words

    @cached_property
    def scale(self) -> str:
        """The pattern of a thousand, a million and so on."""
        words = sorted((word for word, value in self.words.items() if value >= 1000), key=len, reverse=True)
        return "|".join(words) or "(?!)"

    @cached_property
    def word(self) -> str:
        """The pattern of a number word."""
        words = "|".join(map(re.escape, sorted(self.values, key=len, reverse=True)))
        return rf"(?:{words or '(?!)'})"

    @cached_property
    def sequence(self) -> str:
        """The pattern of number words in a row."""
        return rf"{self.word}(?:{self.joint}{self.word})*"

    @cached_property
    def in_words(self) -> re.Pattern:
        return re.compile(rf"(?<!\w)(?!(?<=pour[ -])cents?\b)({self.sequence})(\w*)", re.IGNORECASE)

    @cached_property
    def in_digits(self) -> re.Pattern:
        return re.compile(rf"({DIGITS})(?:[{SPACES}-]?({self.scale})\b)?", re.IGNORECASE)

    @cached_property
    def and_a_half(self) -> re.Pattern:
        number = rf"\b(?P<whole>\d+(?![.,]\d)|{self.sequence})"
        return re.compile(self.halves.replace("#", number).replace("@", rf"(?P<scale>{self.scale})"), re.IGNORECASE)

    @cached_property
    def time(self) -> re.Pattern:
        hour = rf"(?:\d{{1,2}}(?!\d)|{self.sequence})"
        return re.compile(
            rf"""(?<![\w.,:$€£])(?:(?<!\d-)|(?=\d\d?(?:[:h]\d\d|[ ]?[ap]\.?[ ]?m\b)))
            (?:(?P<before>half\ past|halb|quarter\ past|quarter\ to|viertel\ nach|viertel\ vor|dreiviertel)\ |
               (?!\d+\ to)(?P<apart>{hour})(?:\ min\w+)?\ (?P<side>past|to|nach|vor)\ (?:(?P<half>halb)\ )?)?
            (?P<hour>{hour})(?:[:.h](?P<minute>\d\d)(?!\d|[.,]\d))?
            (?:[{SPACES}]?(?P<mark>o['’]?clock|[ap]\.\ ?m\.?|{self.meridiem}|uhr|heures?|h)(?!\w)
               (?:(?<=[hres])[{SPACES}]
                  (?P<after>et\ demie?|et\ quart|moins\ le\ quart|(?P<less>moins\ )?(?P<later>\d\d|{self.sequence})))?)?
            (?![\w:])""",
            re.IGNORECASE | re.VERBOSE,
        )

    @cached_property
    def month(self) -> re.Pattern:
        ending = "s?" if self.months[:1].isupper() else ""  # "des 14. Novembers", but not "mais"
        names = (rf"(\b(?:{names}){ending}\b)" for names in self.months.split())
        return re.compile("|".join(names) or "(?!)", re.IGNORECASE)

    def name_of_month(self, number: int) -> str:
        return self.months.split()[number - 1].partition("|")[0]

    def value_of(self, word: str) -> int | None:
        """Return the number in digits or in words, or None if there are several."""
        if word.isdecimal():
            return int(word)
        values = [value if is_certain else None for _, _, value, is_certain in self.split_words(word)]
        return values[0] if len(values) == 1 else None

    def split_words(self, words: str) -> Iterator[tuple[int, int, int, bool]]:
        """Yield begin, end and value of each number in a row of words, and whether all its words are number words."""
        begin = end = last_scale = total = group = 0
        is_certain = True
        matches = list(re.finditer(self.word, words, re.IGNORECASE))
        for i, match in enumerate(matches):
            value = self.values[match[0].lower()]
            joint = words[end : match.start()].strip(" -").lower()
            if i and not can_follow(total, group, last_scale, value, joint):
                yield begin, end, total + group, is_certain
                begin, total, group, last_scale, is_certain = match.start(), 0, 0, 0, True
            if value >= 1000:
                total, group, last_scale = total + max(group, 1) * value, 0, value
            else:
                group = max(group, 1) * 100 if value == 100 else group + value
            end = match.end()
            is_certain &= match[0].lower() in self.words
        if matches:
            yield begin, end, total + group, is_certain


def can_follow(total: int, group: int, last_scale: int, value: int, joint: str) -> bool:
    """Return whether a number word continues the number before it, which is `total` and then `group` below 1,000."""
    if joint == "et" and value not in (1, 11):  # "entre deux cent et quatre cent"
        return False
    if value >= 1000:
        return 0 < group and (not last_scale or value < last_scale) and joint == ""
    if value == 100:
        return 0 < group < 100 and joint == ""
    if group % 100 == 0:  # "two hundred and five", "two thousand five"
        return (group or total) > 0 and not (value == 0)
    if group % 100 < 10:  # "fünfundzwanzig"
        return joint == "und" and 20 <= value < 100
    tens = group % 100
    is_next = tens % 10 == 0 and tens >= 20 and (0 < value < 10 or (tens in (60, 80) and 10 <= value < 20))
    return is_next and (joint == "" or (joint == "et" and value in (1, 11)))


LANGUAGES = {
    "en": Language(
        decimal=".",
        thousands=",",
        small="zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
        " seventeen eighteen nineteen",
        tens="twenty thirty forty fifty sixty seventy eighty ninety",
        scales="hundred thousand million billion|bn|thousand_million trillion",
        joint="[- ](?:and )?",
        halves="(?:#(?: ?½|[- ]and[- ](?:a[- ])?half\\b(?! an?\\b)|(?P<noun> [a-z]+) and a half\\b)"
        "|\\ban?(?P<one> [a-z]+) and a half\\b)(?:[ -]@\\b)?",
        hints="1=first|single|once 2=second|twice|both|neither|double|couple|pair|twin|dual|bi 3=third|thrice|tri"
        " 4=quarter|quadr 5=fifth 8=eighth 9=ninth 10=decade 12=twelfth|dozen 14=fortnight 20=twentie 30=thirtie"
        " 40=fortie 50=fiftie 60=sixtie 70=seventie 80=eightie 90=ninetie 100=centur|centen",
        months="January|Jan February|Feb March|Mar April|Apr May June|Jun July|Jul August|Aug September|Sept|Sep"
        " October|Oct November|Nov December|Dec",
    ),
    "de": Language(
        meridiem="(?!)",
        decimal=",",
        thousands=".",
        small="null eins|einen|einem|einer|eines|eine|ein zwei|zwo drei vier fünf sechs sieben acht neun zehn elf zwölf"
        " dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
        tens="zwanzig dreißig|dreissig vierzig fünfzig sechzig siebzig achtzig neunzig",
        scales="hundert tausend million|millionen|mio milliarde|milliarden|mrd billion|billionen",
        joint="(?:und|[ -])?",
        halves="(?:#(?: ?½|einhalb)|\\banderthalb)(?:\\w{0,3} @\\b)?",
        hints="1=erst 2=beid|doppel|verdoppel|paar|halbier|zwilling 3=dritt|quartal 6=halbjahr 7=siebt 10=jahrzehnt"
        " 12=dutzend 16=achtelfinal 100=jahrhundert 1000=jahrtausend",
        ambiguous="Acht millionen milliarden billionen",
        months="Januar|Jänner|Jan|Jän Februar|Feber|Feb März|Mär April|Apr Mai Juni|Jun Juli|Jul August|Aug"
        " September|Sept|Sep Oktober|Okt November|Nov Dezember|Dez",
    ),
    "fr": Language(
        meridiem="(?!)",
        decimal=",",
        thousands=".",
        small="zéro un|une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
        " dix-sept|dix_sept dix-huit|dix_huit dix-neuf|dix_neuf",
        tens="vingt trente quarante cinquante soixante septante"
        " quatre-vingts|quatre-vingt|quatre_vingts|quatre_vingt|huitante nonante",
        scales="cent|cents mille|milles million|millions milliard|milliards billion|billions",
        joint="[- ](?:et[- ])?",
        halves="#(?: ?½|(?: @|(?P<noun>(?! heure) [^\\W\\d_]+))? et demie?\\b(?!-))",
        hints="1=premi 2=second|doubl|couple|paire|jum|bi 3=tiers|tripl|tri 4=quatr|quart 5=cinquième 6=semestr"
        " 9=neuvième 10=décenni 11=onz 12=douz 13=treiz 14=quatorz 15=quinz "
        " 16=seiz|huitième_de_finale|huitièmes_de_finale 30=trent 40=quarant 50=cinquant 60=soixant"
        " 100=siècle 1000=milli",
        ambiguous="neuf cents millions milliards billions",
        months="janvier|janv|jan février|fevrier|févr|fév mars avril|avr mai juin juillet|juil août|aout septembre"
        " octobre|oct novembre|nov décembre|decembre|déc",
    ),
}  # fmt: skip
NEUTRAL = Language()


@lru_cache(maxsize=256)  # a retry reads the same source again
def read_numbers(text: str, language: Language = NEUTRAL) -> tuple[Number, ...]:
    """Return the numbers of a text in their order."""
    whole, numbers = text, list[Number]()
    readers = (read_literals, read_dates, read_times, read_halves, read_roman, read_digits, read_hints, read_words)
    for read in readers:
        for number in read(text, language):
            numbers.append(number)
            # The same characters are not read again.
            text = text[: number.start] + "\0" * len(number.text) + text[number.end :]
    numbers.sort(key=lambda number: number.start)
    numbers = [number._replace(values=number.values | converted(number, whole, language)) for number in numbers]
    require_dates(numbers, text, language)
    for i, (number, following) in enumerate(pairwise(numbers)):
        if not RANGE.fullmatch(text, number.end, following.start):
            continue
        if has_time(following) and not has_time(number):  # "from 2 to 5 p.m.": both are times
            hours = {int(value) for value in number.values if isinstance(value, Decimal) and value <= 24}
            times = {("time", (60 * hour + half) % DAY) for hour in hours for half in (0, HALF_DAY)}
            numbers[i] = number._replace(values=number.values | times)
        elif (scale := scale_of(following.text, language)) > scale_of(number.text, language):  # "12 to 16 thousand"
            scaled = {scale * value for value in number.values if isinstance(value, Decimal)}
            numbers[i] = number._replace(values=number.values | scaled)
        elif re.fullmatch(r"1\d{3}|20\d\d", number.text) and re.fullmatch(r"\d\d", following.text):
            if ABBREVIATED_YEAR.fullmatch(text, number.end, following.start):
                year = Decimal(number.text[:2] + following.text)
                numbers[i + 1] = following._replace(values=following.values | {year})
    return tuple(numbers)


def require_dates(numbers: list[Number], text: str, language: Language):
    """Require the month beside a day or a year, and the day in words beside a month: "14 March", "dritten Oktober"."""
    for i, (number, following) in enumerate(pairwise(numbers)):
        months = [part for part in (number, following) if is_month(part)]
        if len(months) != 1 or not BESIDE_MONTH.fullmatch(text, number.end, following.start):
            continue
        if months[0].text[0].isupper() or language.months[0].islower():  # not "you may 3 times"
            numbers[i : i + 2] = (with_ending(part, text)._replace(is_required=True) for part in numbers[i : i + 2])


def with_ending(number: Number, text: str) -> Number:
    """Return a number in words with the rest of its last word: "dritten", not "dritt"."""
    end = number.end
    while number.text[-1].isalpha() and text[end : end + 1].isalpha():
        end += 1
    return number._replace(text=number.text + text[number.end : end])


def is_month(number: Number) -> bool:
    return any(isinstance(value, tuple) and value[0] == "month" for value in number.values)


def scale_of(number: str, language: Language) -> int:
    """Return 1,000, a million or the like if a number ends with such a word, else 1."""
    value = language.words.get(re.split(rf"[{SPACES}-]", number)[-1].lower(), 1)
    return value if value >= 1000 else 1


def converted(number: Number, text: str, language: Language) -> set[Value]:
    """Return more values of a number, by what follows it in the text: two weeks are 14 days, 1.5 hours 90 minutes."""
    values = {value for value in number.values if isinstance(value, Decimal)}
    more: set[Value] = set()
    # The unit may be inside, as in "a year and a half".
    if YEARS.match(text, number.end) or YEARS.search(number.text):  # 1.5 years are 18 months
        more |= {12 * value for value in values if value % 1}
    if period := PERIOD.match(text, number.end):
        more |= {value * [*PERIODS][(period.lastindex or 1) - 1] for value in values}
        more |= {Decimal(15)} if Decimal(14) in more else set()  # "quinze jours"
    if HOURS.match(text, number.end) or HOURS.search(number.text):
        more |= {("time", int(60 * value)) for value in values if value % 1}
    if FINAL.match(text, number.end):
        more |= {2 * value for value in values}
    if scale := SHORT_SCALE.match(text, number.end):
        more |= {value * SHORT_SCALES[(scale[1] or scale[2]).lower()] for value in values}
    return more


def has_time(number: Number) -> bool:
    return any(isinstance(value, tuple) and value[0] == "time" for value in number.values)


def read_literals(text: str, language: Language) -> Iterator[Number]:
    """Yield lists in brackets, identifiers, and telephone numbers, whose digits may be grouped in another way."""
    for match in CODE.finditer(text):
        yield Number(match[0], match.start(), frozenset({match[0]}))
    for match in LITERAL.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if match[0][0] == "[":
            yield Number(match[0], match.start(), frozenset({re.sub(r"\s", "", match[0])}))
        elif len(digits) >= MIN_PHONE_DIGITS:
            yield Number(match[0], match.start(), frozenset({f"+{digits}"}))


def read_dates(text: str, language: Language) -> Iterator[Number]:
    """Yield dates in digits, whose parts may be in any order."""
    for match in DATE.finditer(text):
        first, mark, second, year = match.groups()
        if not year and (len(first) > 2 or (mark == "." and (language.decimal == "." or not 1 <= int(second) <= 12))):
            continue
        parts = [frozenset({Decimal(part), ("month", int(part))}) for part in (first, second)]
        if year:
            parts.append(frozenset({Decimal(year), 2000 + Decimal(year), 1900 + Decimal(year)}))
        text_of_date = match[0].rstrip(".")
        yield Number(text_of_date, match.start(), frozenset({text_of_date}), tuple(parts))


def read_times(text: str, language: Language) -> Iterator[Number]:
    """Yield times of day. One on a clock of 12 hours has two values."""
    is_late = LATE.search(text) is not None
    for match in language.time.finditer(text):
        before, apart, side, half, hour, minute, mark, after, less, later = match.group(
            "before", "apart", "side", "half", "hour", "minute", "mark", "after", "less", "later"
        )
        before = before or half
        mark = re.sub(r"[ .]", "", (mark or "").lower())
        has_minutes = minute and text[match.end("hour")] in ":h"
        if not (before or apart or mark or has_minutes):
            continue
        end = match.end()
        if later and not less and (language.value_of(later) or 0) % 5 and not later.isdecimal():
            later, end = None, match.start("after")  # "à dix heures deux hommes"
        hours, minutes = language.value_of(hour), language.value_of(apart or later or "0")
        if hours is None or minutes is None or hours > 24 or minutes >= 60:
            continue
        is_before = less or (side or "").lower() in ("to", "vor")
        offset = OFFSETS.get((before or after or "").lower(), int(minute or 0)) + (-minutes if is_before else minutes)
        is_half_day = mark in ("am", "pm")
        if is_half_day:
            hours = hours % 12 + 12 * (mark == "pm")
        moment = (60 * hours + offset) % DAY
        values: set[Value] = {("time", moment)}
        is_exact = hour.isdecimal() and bool(mark) and not mark.startswith("o") and not before and not apart
        if not is_half_day and hours <= 12 and (not is_exact or is_late) and not hour.startswith("0"):
            values.add(("time", (moment + HALF_DAY) % DAY))
        if mark != "pm" and not offset:  # "5 heures" are also five hours
            values.add(Decimal(hours))
        parts = (hours, minutes) if apart and not before else (moment // 60 % 12, moment % 60)
        can_split = not is_half_day and moment % 60
        yield Number(
            text[match.start() : end].rstrip(),
            match.start(),
            frozenset(values),
            tuple(frozenset({Decimal(part), Decimal(part + 12)}) for part in parts) if can_split else (),
            hour not in ARTICLES,
            mark == "h" and bool(minute or later) and is_duration(text, match.start(), end, language),
        )


def is_duration(text: str, start: int, end: int, language: Language) -> bool:
    """Return whether hours and minutes with an "h" between them, such as "2 h 45", are a duration."""
    is_certain = DURATION_AFTER.match(text, end) or DURATION_BEFORE.search(text, 0, start)
    return language is not LANGUAGES["fr"] or is_certain is not None


def read_halves(text: str, language: Language) -> Iterator[Number]:
    """Yield numbers and a half, in digits or in words, with "million" and the like after them."""
    for match in language.and_a_half.finditer(text):
        whole, start, value = match["whole"] or "", match.start(), 1
        if whole.isdecimal():
            value = int(whole)
        elif whole:  # of several numbers the last: "einem viereinhalb Meter langen"
            *_, (begin, _, value, _) = language.split_words(whole)
            start += begin
        scale = language.words[match["scale"].lower()] if match["scale"] else 1
        half = Decimal(scale_of(whole, language)) / 2  # "un million et demi"
        yield Number(text[start : match.end()], start, frozenset({(value + half) * scale}))


def read_roman(text: str, language: Language) -> Iterator[Number]:
    """Yield Roman numerals: ordinals ("XIXe") and those of at least two digits ("Louis XIV").

    Centuries, and numerals that are not ordinals, are required.
    """
    for match in ROMAN.finditer(text):
        digits = [ROMAN_DIGITS[letter] for letter in match[1]]
        signs = (1 if digit >= following else -1 for digit, following in zip(digits, [*digits[1:], 0], strict=True))
        value = sum(digit * sign for digit, sign in zip(digits, signs, strict=True))
        if match[2] or len(digits) > 1:
            is_required = not match[2] or text.startswith(" siècle", match.end())
            yield Number(match[0], match.start(), frozenset({Decimal(value)}), is_required=is_required)


def read_digits(text: str, language: Language) -> Iterator[Number]:
    """Yield numbers in digits, with "million" and the like after them."""
    for match in language.in_digits.finditer(text):
        digits, scale = match.groups()
        readings = read_marks(digits, language) or read_marks(digits, NEUTRAL)
        values: set[Value] = {number * language.words[scale.lower()] if scale else number for number in readings}
        if DECADE.match(text, match.end()) or YEARS_OF.search(text, 0, match.start()):
            values |= {number % 100 if number > 100 else 1900 + number for number in readings}
        if (time := DOTTED_TIME.fullmatch(digits)) and AT.search(text, 0, match.start()):
            values.add(("time", 60 * int(time[1]) + int(time[2])))
        parts = []
        if not read_marks(digits, language):  # a version, or numbers without spaces between them
            values.add(digits)
            parts = re.findall(r"\d+", digits) if "." not in digits else []
        yield Number(match[0], match.start(), frozenset(values), tuple(frozenset({Decimal(part)}) for part in parts))


def read_marks(digits: str, language: Language) -> set[Decimal]:
    """Return the values of a number with marks; none if the language does not write numbers like this."""
    values = set()
    for decimal in language.decimal:
        thousands = language.thousands.replace(decimal, "") + SPACES + "'’"
        pattern = rf"(?:\d{{1,3}}(?:([{thousands}])\d{{3}}(?:\1\d{{3}})*)|\d+)(?:[{decimal}](\d+))?"
        if match := re.fullmatch(pattern, digits):
            fraction = match[2] or ""
            whole = re.sub(r"\D", "", digits[: len(digits) - len(fraction)])
            values.add(Decimal(f"{whole}.{fraction}"))
    return values


def read_hints(text: str, language: Language) -> Iterator[Number]:
    """Yield names of months, noon and midnight, which may translate numbers; `require_dates` requires some months."""
    for match in language.month.finditer(text):
        yield Number(match[0], match.start(), frozenset({("month", match.lastindex or 0)}), is_required=False)
    for match in NOON.finditer(text):
        values = frozenset({("time", 0 if match[1] else HALF_DAY), Decimal(12)})
        yield Number(match[0], match.start(), values, is_required=False)


def read_words(text: str, language: Language) -> Iterator[Number]:
    """Yield numbers in words, and words that may translate a number, which are not required."""
    for match in language.in_words.finditer(text):
        words, ending = match.groups()
        # The last word is a number with an ending ("sechste"), or begins like one: "fünf Millionen Einwohner".
        cut = words.rfind(" ") + 1 if ending and not WORD_ENDING.fullmatch(ending) else 0
        for first, last, is_whole in ((0, cut - 1, True), (cut, len(words), not ending)):
            for begin, end, value, is_certain in language.split_words(words[first : max(first, last)]):
                word, start = words[first + begin : first + end], match.start() + first + begin
                is_clear = is_certain and is_whole and not {word, word.lower()} & {*language.ambiguous.split()}
                is_vague = language.words.get(word.split()[0].lower(), 0) >= 100 and VAGUE.search(text, 0, start)
                is_required = is_clear and value > 1 and not is_vague
                yield Number(word, start, frozenset({Decimal(value)}), is_required=is_required)


def compare_numbers(source: Sequence[Number], translation: Sequence[Number]) -> tuple[list[Number], list[Number]]:
    """Return the numbers of the source that the translation does not have, and those that only the translation has."""
    missing, extra = unmatched(source, translation)
    lost, new = unmatched(list(split_parts(missing)), list(split_parts(extra)))
    lost_places, new_places = ({part.start for part in parts} for parts in (lost, new))
    return (
        [number for number in missing if number.start in lost_places],
        [number for number in extra if number.start in new_places],
    )


def unmatched(source: Sequence[Number], translation: Sequence[Number]) -> tuple[list[Number], list[Number]]:
    """Pair numbers with a common value, and return those on both sides that remain alone."""
    remaining, missing = list(translation), []
    for number in sorted(source, key=lambda number: (not number.is_required, len(number.values))):
        partners = [other for other in remaining if can_match(number, other)]
        if partners:
            remaining.remove(min(partners, key=lambda other: (other.text != number.text, not other.is_required)))
        else:
            missing.append(number)
    return sorted(missing, key=lambda number: number.start), remaining


def can_match(number: Number, other: Number) -> bool:
    """Return whether two numbers have a common value, or the same characters, as a number that was copied."""
    return bool(number.values & other.values) or (number.text == other.text and number.text[0].isdigit())


def split_parts(numbers: Sequence[Number]) -> Iterator[Number]:
    """Yield the parts of each number that has some, and other numbers unchanged."""
    for number in numbers:
        yield from (number._replace(values=part) for part in number.parts or (number.values,))
