"""Generated pairs: both sides say the same, each in its language's way, and a recipe can ask for them."""

import datetime
import itertools
import random
import re
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training import expressions
from training.data import _state
from training.expressions import PLACES, VALUES, carriers, fill, generate, numerals, place_names
from training.expressions.abbreviations import ABBREVIATIONS, SHORT, titled
from training.expressions.numerals import number_words, ordinal_digits, ordinal_words
from training.expressions.place_names import Places, with_article
from training.expressions.quantities import SIGNS, digits, goods, large_money, measure, money, percent, rate
from training.expressions.schedules import days, duration, hours
from training.expressions.times import (
    MONTHS,
    SHORT_MONTHS,
    decade,
    digital_time,
    noon_or_midnight,
    spoken_time,
    weekday,
    written_date,
)
from training.expressions.values import LANGUAGES, contract
from training.parallel_text import check_files, read_pairs
from training.recipe import Source, load_recipe


DIRECTIONS = list(itertools.permutations(LANGUAGES, 2))
TABLES = {
    "de": [("Munich", "München", "city:cldr"), ("Berlin", "Berlin", "city:cldr"), ("Georgia", "Georgien", "country:x")],
    "fr": [("Cairo", "Le Caire", "city:cldr"), ("Oslo", "Oslo", "city:cldr"), ("Vienna", "Vienne", "city:x")],
}


def table(source: str, target: str) -> list[tuple[str, ...]]:
    rows = TABLES[source if target == "en" else target]
    return [(other, english, kind) for english, other, kind in rows] if target == "en" else rows


def in_all(value, form="") -> tuple[str, ...]:
    """The usual way of each language."""
    return tuple(value(language, form, None) for language in LANGUAGES)


# Exact texts ---------------------------------------------------------------------------------------------------------

NUMBERS = {
    0: ("zero", "null", "zéro"),
    1: ("one", "eins", "un"),
    17: ("seventeen", "siebzehn", "dix-sept"),
    21: ("twenty-one", "einundzwanzig", "vingt et un"),
    30: ("thirty", "dreißig", "trente"),
    66: ("sixty-six", "sechsundsechzig", "soixante-six"),
    70: ("seventy", "siebzig", "soixante-dix"),
    71: ("seventy-one", "einundsiebzig", "soixante et onze"),
    80: ("eighty", "achtzig", "quatre-vingts"),
    81: ("eighty-one", "einundachtzig", "quatre-vingt-un"),
    91: ("ninety-one", "einundneunzig", "quatre-vingt-onze"),
    97: ("ninety-seven", "siebenundneunzig", "quatre-vingt-dix-sept"),
    99: ("ninety-nine", "neunundneunzig", "quatre-vingt-dix-neuf"),
    100: ("one hundred", "hundert", "cent"),
    101: ("one hundred and one", "hunderteins", "cent un"),
    180: ("one hundred and eighty", "hundertachtzig", "cent quatre-vingts"),
    200: ("two hundred", "zweihundert", "deux cents"),
    280: ("two hundred and eighty", "zweihundertachtzig", "deux cent quatre-vingts"),
    1000: ("one thousand", "tausend", "mille"),
    1001: ("one thousand and one", "tausendeins", "mille un"),
    1100: ("one thousand one hundred", "tausendeinhundert", "mille cent"),
    1999: (
        "one thousand nine hundred and ninety-nine",
        "tausendneunhundertneunundneunzig",
        "mille neuf cent quatre-vingt-dix-neuf",
    ),
    2000: ("two thousand", "zweitausend", "deux mille"),
    7316: (
        "seven thousand three hundred and sixteen",
        "siebentausenddreihundertsechzehn",
        "sept mille trois cent seize",
    ),
}


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_in_words(number):
    assert tuple(number_words(number, language) for language in LANGUAGES) == NUMBERS[number]


def test_every_number_has_words_of_its_own():
    for language in LANGUAGES:
        assert len({number_words(number, language) for number in range(10_000)}) == 10_000
    with pytest.raises(ValueError, match="10000 is not a number from 0 to 9999"):
        number_words(10_000, "en")


def test_french_feminine_numbers():
    feminine = [number_words(number, "fr", feminine=True) for number in (1, 21, 71, 81, 91, 100, 121)]
    assert feminine == [
        *(
            "une",
            "vingt et une",
            "soixante et onze",
            "quatre-vingt-une",
            "quatre-vingt-onze",
            "cent",
            "cent vingt et une",
        )
    ]


@pytest.mark.parametrize(
    "hour, minute, texts",
    [
        (9, 0, ("nine o'clock", "neun Uhr", "neuf heures")),
        (1, 0, ("one o'clock", "ein Uhr", "une heure")),
        (9, 5, ("five past nine", "fünf nach neun", "neuf heures cinq")),
        (9, 15, ("quarter past nine", "Viertel nach neun", "neuf heures et quart")),
        (9, 20, ("twenty past nine", "zwanzig nach neun", "neuf heures vingt")),
        (9, 25, ("twenty-five past nine", "fünf vor halb zehn", "neuf heures vingt-cinq")),
        (9, 30, ("half past nine", "halb zehn", "neuf heures et demie")),
        (12, 30, ("half past twelve", "halb eins", "midi et demi")),
        (9, 35, ("twenty-five to ten", "fünf nach halb zehn", "dix heures moins vingt-cinq")),
        (11, 45, ("quarter to twelve", "Viertel vor zwölf", "midi moins le quart")),
        (12, 45, ("quarter to one", "Viertel vor eins", "une heure moins le quart")),
        (9, 55, ("five to ten", "fünf vor zehn", "dix heures moins cinq")),
    ],
)
def test_spoken_times(hour, minute, texts):
    assert in_all(spoken_time(hour, minute)) == texts


def test_other_times():
    evening = spoken_time(9, 30, "evening")
    assert in_all(evening) == ("half past nine in the evening", "halb zehn abends", "neuf heures et demie du soir")
    assert in_all(noon_or_midnight(True)) == ("noon", "zwölf Uhr mittags", "midi")
    assert in_all(noon_or_midnight(False)) == ("midnight", "Mitternacht", "minuit")
    assert in_all(digital_time(21, 30)) == ("9:30 p.m.", "21:30 Uhr", "21 h 30")
    assert in_all(digital_time(9, 0)) == ("9 a.m.", "9 Uhr", "9 h")
    assert in_all(digital_time(0, 5)) == ("12:05 a.m.", "0:05 Uhr", "0 h 05")
    assert in_all(digital_time(12, 30)) == ("12:30 p.m.", "12:30 Uhr", "12 h 30")


def test_a_source_is_written_in_more_than_one_way():
    value, rng = digital_time(21, 30), random.Random(1)
    written = {language: {value(language, "", rng) for _ in range(300)} for language in LANGUAGES}
    assert written["en"] == {"9:30 p.m.", "9:30 PM", "9:30 pm", "9:30pm", "21:30"}
    assert written["de"] == {"21:30 Uhr", "21.30 Uhr"}
    assert written["fr"] == {"21 h 30", "21h30", "21:30"}
    alone = {value(language, "alone", rng) for _ in range(300) for language in LANGUAGES}
    assert alone == set().union(*written.values()) - {"21:30"}


def test_weekdays():
    assert in_all(weekday(0)) == ("Monday", "Montag", "lundi")
    assert in_all(weekday(0), "every") == ("Mondays", "montags", "le lundi")


def test_dates():
    first, other = datetime.date(2025, 5, 1), datetime.date(2025, 3, 14)
    assert in_all(written_date(first)) == ("May 1", "1. Mai", "1er mai")
    assert in_all(written_date(other, year=True)) == ("March 14, 2025", "14. März 2025", "14 mars 2025")
    in_sentence = written_date(other, weekday="in sentence")
    assert in_all(in_sentence) == ("Friday, March 14", "Freitag, dem 14. März", "vendredi 14 mars")
    assert in_all(written_date(other, weekday="alone"))[1] == "Freitag, 14. März"
    numeric, rng = written_date(first, year=True, numeric=True), random.Random(1)
    assert in_all(numeric) == ("May 1, 2025", "01.05.2025", "01/05/2025")
    assert {numeric("en", "", rng) for _ in range(50)} == {"2025-05-01"}  # 01/05 would be January 5 to others
    assert in_all(decade(90, False)) == ("1990s", "1990er Jahre", "années 1990")
    assert in_all(decade(80, True)) == ("eighties", "Achtzigerjahre", "années quatre-vingt")


def test_days_and_hours():
    assert in_all(days(0, 4)) == ("Monday to Friday", "Montag bis Freitag", "du lundi au vendredi")
    assert in_all(days(5, 6), "from") == ("from Saturday to Sunday", "von Samstag bis Sonntag", "du samedi au dimanche")
    assert in_all(hours(540, 1080)) == ("9 a.m. to 6 p.m.", "9 bis 18 Uhr", "9 h à 18 h")
    half_past = in_all(hours(570, 1080), "from")
    assert half_past == ("from 9:30 a.m. to 6 p.m.", "von 9:30 bis 18:00 Uhr", "de 9 h 30 à 18 h")
    rng = random.Random(1)
    sources = {language: {days(0, 4)(language, "", rng) for _ in range(300)} for language in LANGUAGES}
    assert sources["en"] >= {"Mon-Fri", "Mon.-Fri.", "Monday-Friday"} and sources["de"] >= {"Mo-Fr", "Mo. bis Fr."}
    assert sources["fr"] >= {"lun-ven", "Lun-Ven", "du lun. au ven.", "lundi à vendredi"}
    sources = {language: {hours(540, 1080)(language, "", rng) for _ in range(600)} for language in LANGUAGES}
    assert sources["en"] >= {"9am-6pm", "9am to 6pm", "9 AM - 6 PM"}
    assert sources["de"] >= {"9-18 Uhr", "9:00–18:00 Uhr", "9 Uhr bis 18 Uhr"} and sources["fr"] >= {
        "9h-18h",
        "9h à 18h",
    }
    sources = {hours(1020, 1140)("en", "", rng) for _ in range(600)}
    assert sources >= {"5–7pm", "5-7 PM", "5pm to 7pm"} and hours(540, 780)("en", "", None) == "9 a.m. to 1 p.m."
    assert not any(text.startswith("9-") for text in (hours(540, 780)("en", "", rng) for _ in range(600)))


def test_durations():
    assert in_all(duration(0, 45)) == ("45 minutes", "45 Minuten", "45 minutes")
    assert in_all(duration(1, 0)) == ("1 hour", "1 Stunde", "1 heure")
    assert in_all(duration(2, 30)) == ("2.5 hours", "2,5 Stunden", "2 heures et demie")
    assert in_all(duration(1, 20))[1:] == ("1 Stunde und 20 Minuten", "1 heure et 20 minutes")
    rng = random.Random(1)
    sources = {language: {duration(1, 30)(language, "", rng) for _ in range(300)} for language in LANGUAGES}
    assert sources["en"] >= {"1.5 hrs", "an hour and a half"} and sources["de"] >= {"1,5 Std.", "anderthalb Stunden"}
    assert sources["fr"] >= {"1h30", "1,5 heure", "une heure et demie"}


def test_titles():
    assert in_all(titled("Day", True)) == ("Mr. Day", "Herr Day", "M. Day")
    assert in_all(titled("Day", True), "acc")[1] == "Herrn Day" and in_all(titled("Day", False), "acc")[1] == "Frau Day"
    assert in_all(titled("Day", True), "dear") == ("Dear Mr. Day", "Sehr geehrter Herr Day", "Cher Monsieur Day")
    assert in_all(titled("Day", False), "dear") == ("Dear Mrs. Day", "Sehr geehrte Frau Day", "Chère Madame Day")


def test_only_sources_have_abbreviations():
    short, rng = ABBREVIATIONS["short"](random.Random(1)), random.Random(1)
    assert in_all(short, "about") == ("about", "etwa", "environ")
    assert {short("de", "about", rng) for _ in range(99)} == {*SHORT["about"]["de"]}
    used = {form for kinds in carriers().values() for carrier in itertools.chain(*kinds)
            for form in re.findall(r"\{short\d?:(\w+)\}", carrier["en"])}  # fmt: skip
    assert used == {*SHORT} and all({*texts} == {*LANGUAGES} for texts in SHORT.values())


def test_amounts():
    assert in_all(money("1250.50", "$")) == ("$1,250.50", "1.250,50 $", "1 250,50 $")
    assert in_all(money("20", "€", in_words=True)) == ("20 euros", "20 Euro", "20 euros")
    assert in_all(money("5", "CHF")) == ("CHF 5", "5 CHF", "5 CHF")
    assert in_all(large_money("3.5", "million", "$")) == (
        "$3.5 million",
        "3,5 Millionen Dollar",
        "3,5 millions de dollars",
    )
    assert in_all(large_money("2", "billion", "€")) == ("€2 billion", "2 Milliarden Euro", "2 milliards d'euros")
    assert in_all(large_money("1", "million", "€")) == ("€1 million", "1 Million Euro", "1 million d'euros")
    assert in_all(percent("3.5")) == ("3.5%", "3,5 %", "3,5 %")


def test_prices_per_unit():
    assert in_all(rate("15", "£", "hour")) == ("£15 an hour", "15 £ pro Stunde", "15 £ de l'heure")
    assert in_all(rate("2.50", "€", "kilo")) == ("€2.50 a kilo", "2,50 € pro Kilo", "2,50 € le kilo")
    rng = random.Random(1)
    sources = {language: {rate("15", "$", "hour")(language, "", rng) for _ in range(300)} for language in LANGUAGES}
    assert sources["en"] >= {"$15/hr", "$15 per hour"} and sources["de"] >= {"15 $/Std.", "15$/h", "15 $ die Stunde"}
    assert sources["fr"] >= {"15 $/h", "15 $ par heure"}


def test_measures():
    flour, oil = {"en": "flour", "de": "Mehl", "fr": "farine"}, {"en": "oil", "de": "Öl", "fr": "huile"}
    beans = {"en": "beans", "de": "Bohnen", "fr": "haricots"}
    assert in_all(goods(measure("200", "g"), flour)) == ("200 g of flour", "200 g Mehl", "200 g de farine")
    assert in_all(goods(measure("1", "spoon"), oil))[2] == "1 cuillère à soupe d'huile"
    assert in_all(goods(measure("2", "cup"), flour)) == ("2 cups of flour", "2 Tassen Mehl", "2 tasses de farine")
    assert in_all(goods(measure("500", "g"), beans))[2] == "500 g de haricots"
    assert in_all(measure("1.5", "km", True)) == ("1.5 kilometers", "1,5 Kilometer", "1,5 kilomètre")
    assert in_all(measure("8", "GB")) == ("8 GB", "8 GB", "8 Go")


def test_ordinals():
    assert [ordinal_words(n, "en") for n in (1, 2, 3, 5, 8, 9, 12, 20, 21, 90)] == (
        "first second third fifth eighth ninth twelfth twentieth twenty-first ninetieth".split()
    )
    assert [ordinal_words(n, "de", "en") for n in (1, 3, 7, 8, 12, 20, 31)] == (
        "ersten dritten siebten achten zwölften zwanzigsten einunddreißigsten".split()
    )
    assert [ordinal_words(n, "fr") for n in (1, 2, 4, 5, 9, 11, 80)] == (
        "premier deuxième quatrième cinquième neuvième onzième quatre-vingtième".split()
    )
    assert ordinal_words(1, "fr", "f") == "première" and ordinal_words(21, "fr", "f") == "vingt et unième"
    assert [
        ordinal_digits(n, "en") for n in (1, 2, 3, 11, 12, 13, 21, 22)
    ] == "1st 2nd 3rd 11th 12th 13th 21st 22nd".split()
    assert [ordinal_digits(1, "de"), ordinal_digits(1, "fr"), ordinal_digits(1, "fr", "f")] == ["1.", "1er", "1re"]


@pytest.mark.parametrize(
    "text, contracted",
    [
        ("[de]une heure", "d'une heure"),
        ("à partir [de]21 h 30", "à partir de 21 h 30"),
        ("[de]onze heures [à]midi", "de onze heures à midi"),
        ("[de]Oslo [à]Le Caire", "d'Oslo au Caire"),
        ("[de]Le Havre", "du Havre"),
        ("[à]La Haye", "à La Haye"),
        ("près [de]les Alpes", "près des Alpes"),
        ("[de]l'Elbe", "de l'Elbe"),
        ("[de]Édimbourg [à]Hambourg", "d'Édimbourg à Hambourg"),
        ("[de]Hambourg", "de Hambourg"),
        ("[de]huile", "d'huile"),
        ("2 millions [de]habitants", "2 millions d'habitants"),
        ("[de]haricots", "de haricots"),
    ],
)
def test_french_words_join(text, contracted):
    assert contract(text) == contracted


def test_places_with_articles():
    rows = {row["en"]: with_article(row) for rows in place_names._named_places().values() for row in rows}

    def forms(name, *wanted):
        return [[rows[name](language, form, None) for form in wanted] for language in ("de", "fr")]

    roles = "in", "to", "from"
    assert forms("France", *roles) == [
        ["in Frankreich", "nach Frankreich", "aus Frankreich"],
        ["en France", "en France", "de France"],
    ]
    assert forms("Japan", *roles)[1] == ["au Japon", "au Japon", "du Japon"]
    assert forms("the Netherlands", *roles) == [
        ["in den Niederlanden", "in die Niederlande", "aus den Niederlanden"],
        ["aux Pays-Bas", "aux Pays-Bas", "des Pays-Bas"],
    ]
    assert forms("Switzerland", *roles)[0] == ["in der Schweiz", "in die Schweiz", "aus der Schweiz"]
    assert forms("Iran", *roles) == [["im Iran", "in den Iran", "aus dem Iran"], ["en Iran", "en Iran", "d'Iran"]]
    assert forms("Alsace", "in", "to")[0] == ["im Elsass", "ins Elsass"]
    assert forms("Cuba", *roles)[1] == ["à Cuba", "à Cuba", "de Cuba"]
    assert forms("Israel", "in", "from")[1] == ["en Israël", "d'Israël"]
    assert forms("the Alps", "lies", "away", "near") == [
        ["liegen die Alpen", "von den Alpen", "zu den Alpen"], ["se trouvent les Alpes", "les Alpes", "les Alpes"]
    ]  # fmt: skip
    assert forms("the Black Sea", "away")[0] == ["vom Schwarzen Meer"]
    assert forms("the Rhine", "acc")[0] == ["den Rhein"]


# Values read back ----------------------------------------------------------------------------------------------------

WORDS = {
    language: {number_words(n, language, feminine): n for feminine in (False, True) for n in range(10_000)}
    for language in LANGUAGES
}


def number_in(text: str, language: str) -> Decimal:
    """The one number in digits in a text, read by the marks of the language."""
    [parsed_number] = re.findall(r"-?\d[\d.,\u00a0\u202f ]*\d|-?\d", text)
    thousands, point = {"en": (",", "."), "de": (".", ","), "fr": (" ", ",")}[language]
    return Decimal(re.sub("[\u00a0\u202f]", " ", parsed_number).replace(thousands, "").replace(point, "."))


def minutes_in(text: str, language: str) -> int:
    """A digital time as minutes since midnight."""
    hour, minute = re.match(r"(\d+)\D*(\d*)", text).groups()
    hour, minute = int(hour), int(minute or 0)
    if language == "en" and (half := re.search(r"([ap])\.?m", text, re.I)):
        hour = hour % 12 + 12 * (half[1].lower() == "p")
    return 60 * hour + minute


def spoken_minutes_in(text: str, language: str) -> int:
    """A spoken time as minutes of twelve hours."""
    words = {number_words(n, language): n for n in range(60)} | {"ein": 1, "une": 1, "quarter": 15, "Viertel": 15}
    if language == "en":
        text = re.sub("^a quarter", "quarter", text)
        if whole := re.fullmatch(r"(\w+) (o'clock|thirty)", text):
            return words[whole[1]] * 60 + 30 * (whole[2] == "thirty")
        near, sign, hour = re.fullmatch(r"([\w-]+) (past|to) (\w+)", text).groups()
        return words[hour] * 60 + (30 if near == "half" else words[near] * (1 if sign == "past" else -1))
    if language == "de":
        if whole := re.fullmatch(r"(\w+) Uhr", text):
            return words[whole[1]] * 60
        near, sign, half, hour = re.fullmatch(r"(?:(\w+) (nach|vor) )?(halb )?(\w+)", text).groups()
        return words[hour] * 60 - 30 * bool(half) + (words[near] * (1 if sign == "nach" else -1) if near else 0)
    hour, rest = re.fullmatch(r"(midi|\w+ heures?)(.*)", text).groups()
    start = 12 if hour == "midi" else words[hour.split()[0]]
    parts = {"": 0, " et quart": 15, " et demie": 30, " et demi": 30, " moins le quart": -15}
    rest = parts[rest] if rest in parts else words[rest.split()[-1]] * (-1 if "moins" in rest else 1)
    return start * 60 + rest


DIRECTION = st.sampled_from(DIRECTIONS)
SEEDS = st.randoms(use_true_random=False)


def written(value, direction, rng) -> list[tuple[str, str]]:
    source, target = direction
    return [(value(source, "", rng), source), (value(target, "", None), target)]


@settings(max_examples=300)
@given(st.integers(0, 23), st.integers(0, 59), DIRECTION, SEEDS)
def test_digital_times_are_the_same(hour, minute, direction, rng):
    assert [minutes_in(*side) for side in written(digital_time(hour, minute), direction, rng)] == [
        60 * hour + minute
    ] * 2


@settings(max_examples=300)
@given(st.integers(1, 12), st.sampled_from(range(0, 60, 5)), DIRECTION, SEEDS)
def test_spoken_times_are_the_same(hour, minute, direction, rng):
    read = [spoken_minutes_in(*side) % 720 for side in written(spoken_time(hour, minute), direction, rng)]
    assert read == [(60 * hour + minute) % 720] * 2


@settings(max_examples=300)
@given(
    st.dates(datetime.date(1850, 1, 1), datetime.date(2100, 1, 1)),
    DIRECTION,
    SEEDS,
    st.booleans(),
    st.sampled_from(["", "alone", "in sentence"]),
)
def test_dates_are_the_same(date, direction, rng, numeric, weekday):
    def read(text, language):
        if iso := re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text):
            return tuple(map(int, iso.groups()))
        numbers = list(map(int, re.findall(r"\d+", text)))
        months = zip(MONTHS[language], SHORT_MONTHS[language], strict=True)
        names = (rf"\b({month}|{short.rstrip('.')})\b" for month, short in months)
        if named := [i for i, name in enumerate(names, start=1) if re.search(name, text)]:
            return numbers[-1], named[0], numbers[0]
        day, month, year = numbers
        return (year, day, month) if language == "en" and month > 12 else (year, month, day)

    value = written_date(date, True, "" if numeric else weekday, numeric)
    assert [read(*side) for side in written(value, direction, rng)] == [(date.year, date.month, date.day)] * 2


@settings(max_examples=300)
@given(st.integers(0, 10**7), st.integers(0, 99), st.sampled_from(SIGNS), DIRECTION, SEEDS)
def test_amounts_are_the_same(whole, cents, sign, direction, rng):
    number = f"{whole}.{cents:02}"
    prices = written(money(number, sign), direction, rng)
    assert [number_in(*side) for side in prices] == [Decimal(number)] * 2 and all(sign in text for text, _ in prices)
    distances = written(measure(number, "km"), direction, rng)
    assert [number_in(*side) for side in distances] == [Decimal(number)] * 2


@settings(max_examples=500)
@given(st.integers(0, 9999), DIRECTION, SEEDS)
def test_number_words_are_the_same(number, direction, rng):
    for text, language in written(numerals._number_in_words(number), direction, rng):
        usual = re.sub("^ein(?=hundert|tausend)", "", text) if language == "de" else text
        parsed_number = WORDS[language].get(usual)
        assert parsed_number == number or language == "en" and text == number_words(number, "en").replace(" and ", " ")


@settings(max_examples=400)
@given(DIRECTION, st.integers(0, 10**6))
def test_sentences_keep_the_marks_of_their_language(direction, seed):
    """The numbers of both sides of any number carrier are the same, with marks removed."""
    rng = random.Random(seed)
    carrier = {language: "{number} {number2} {interval} {version} {phone}" for language in LANGUAGES}
    source, target = fill(rng, carrier, *direction, Places(*direction, ()))
    bare = [re.sub(r"[\s.,\u00a0\u202f]", "", text) for text in (source, target)]
    assert bare[0] == bare[1]


# Whole pairs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source, target", DIRECTIONS)
def test_every_carrier_fills_in_every_direction(source, target):
    names = Places(source, target, table(source, target) if "en" in (source, target) else TABLES["de"])
    for group, kinds in carriers().items():
        for carrier in itertools.chain(*kinds):
            for seed in range(5):
                for text in fill(random.Random(seed), carrier, source, target, names):
                    assert text == text.strip() and "  " not in text, (group, text)
                    assert not re.search(r"[{}]|\[(de|à)\]|\.\.|\bà les?\b|\bde les?\b|\bà l'$", text), (group, text)
                    assert not re.search(r"\bde (une|un|huile|eau|avril|août|octobre)\b", text), text


def test_each_group_has_twelve_sentences_and_slots_that_agree():
    for group, (alone, sentences) in carriers().items():
        assert alone and len(sentences) >= 12, group
        for carrier in alone + sentences:
            slots = [sorted(re.findall(r"\{(\w+)", text)) for text in carrier.values()]
            assert slots[0] == slots[1] == slots[2], carrier
            assert carrier["fr"].endswith(" ?") == carrier["en"].endswith("?"), carrier
    used = {name for kinds in carriers().values() for carrier in itertools.chain(*kinds)
            for name in re.findall(r"\{([a-z]+)", carrier["en"])}  # fmt: skip
    assert used >= set(VALUES) and used - set(VALUES) == {"city", "name", "person", "country", "nature"}


@pytest.mark.parametrize("name", ["expressions", "places"])
def test_the_same_seed_makes_the_same_pairs(name):
    make = [list(generate(name, "en", "fr", seed, 50, TABLES["fr"])) for seed in (1, 1, 2)]
    assert make[0] == make[1] != make[2] and len(make[0]) == 50


def test_a_target_is_written_in_one_way():
    pairs = list(generate("expressions", "de", "en", 1, 4000))
    assert not any(
        re.search(r"\d ?(AM|PM|am|pm)\b|\d{4}-\d\d-\d\d|percent|\d(kg|ml|km)\b", target) for _, target in pairs
    )
    french = [target for _, target in generate("expressions", "en", "fr", 1, 4000)]
    assert not any(re.search(r"\u00a0|\u202f|\dh\d|\d[%€]", target) for target in french)
    assert any("\u202f" in source for source, _ in generate("expressions", "fr", "en", 1, 1000))


def test_cities_are_cities_and_a_name_has_one_translation():
    rows = [
        ("Kyiv", "Kiew", "city:cldr"), ("Kiev", "Kiew", "city:x"), ("Easter Island", "Osterinsel", "city:cldr"),
        ("Santa Cruz", "Santa Cruz de la Sierra", "city:x"), ("Red", "Rot", "river:x"), ("Jordan", "Jordan", "a:x"),
        ("Jordan", "Jordanien", "country:x"), ("Frankfurt", "Frankfurt am Main", "city:x"),
    ]  # fmt: skip
    there, back = Places("en", "de", rows), Places("de", "en", [(de, en, kind) for en, de, kind in rows])
    assert {("Kyiv", "Kiew"), ("Kiev", "Kiew"), ("London", "London"), ("Frankfurt", "Frankfurt")} <= set(there.cities)
    assert not {"Easter Island", "Santa Cruz", "Red", "Jordan"} & {english for english, _ in there.cities}
    assert dict(there.names)["Jordan"] == "Jordanien" and "Red" not in dict(there.names)
    assert dict(back.cities)["Kiew"] == "Kyiv"


def test_names_that_differ_are_met_most():
    rows = [(f"Sames{i}", f"Sames{i}", "city:x") for i in range(300)] + [("Munich", "München", "city:x")]
    counts = Counter(
        "München" in target for source, target in generate("places", "en", "de", 1, 2000, rows) if "Munich" in source
    )
    assert counts[True] > 100 and not counts[False]


def test_a_place_needs_a_table_and_languages_must_be_known():
    with pytest.raises(ValueError, match="no cities"):
        list(generate("places", "en", "de", 1, 1))
    for pair in (("en", "en"), ("en", "it")):
        with pytest.raises(ValueError, match="pairs are generated between two of en, de, fr, not"):
            list(generate("expressions", *pair, 1, 1))
    assert set(PLACES) | set(expressions.EXPRESSIONS) == set(carriers())


def test_numbers_of_each_language():
    assert [digits("1234.56", language) for language in LANGUAGES] == ["1,234.56", "1.234,56", "1 234,56"]
    assert digits("-7", "de") == "-7" and digits("1000000", "fr") == "1 000 000"


# Recipes -------------------------------------------------------------------------------------------------------------

RECIPE = """
name: plain
source_language: en
target_language: de
preset: tiny
vocab_size: 300
seed: 5
data:
  train:
    - {generator: expressions, pairs: 20}
    - {generator: places, pairs: 30, path: places.tsv}
"""


@pytest.fixture
def recipe_file(tmp_path):
    path = tmp_path / "plain.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    rows = "".join("\t".join(row) + "\n" for row in TABLES["de"])
    (tmp_path / "places.tsv").write_text(rows, encoding="utf-8")
    return path


def test_a_recipe_generates_pairs_in_its_direction(recipe_file, tmp_path):
    recipe = load_recipe(recipe_file)
    first, second = recipe.data.train
    assert read_pairs(first, tmp_path) == list(generate("expressions", "en", "de", 5, 20))
    assert read_pairs(second, tmp_path) == list(generate("places", "en", "de", 5, 30, TABLES["de"]))
    assert (first.title, second.title) == ("expressions", "places")
    (tmp_path / "back.yaml").write_text("extends: plain.yaml\nreversed: true\n", encoding="utf-8")
    back = load_recipe(tmp_path / "back.yaml").data.train
    assert read_pairs(back[0]) == list(generate("expressions", "de", "en", 5, 20))
    assert read_pairs(back[1], tmp_path) == list(generate("places", "de", "en", 5, 30, table("de", "en")))


def test_a_missing_table_is_named(recipe_file, tmp_path):
    data = load_recipe(recipe_file).data
    check_files(data.train, tmp_path)
    (tmp_path / "places.tsv").unlink()
    with pytest.raises(FileNotFoundError, match="places.tsv"):
        check_files(data.train, tmp_path)


def test_a_row_with_too_few_columns_is_named(recipe_file, tmp_path):
    (tmp_path / "places.tsv").write_text("Munich\tMünchen\tcity\nVienna\tWien\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"places\.tsv, line 2 has 2 columns; column 2 is missing"):
        read_pairs(load_recipe(recipe_file).data.train[1], tmp_path)


@pytest.mark.parametrize(
    "source, message",
    [
        ("{generator: expressions}", "data.train.0: generator needs pairs"),
        ("{generator: places, pairs: 5}", "data.train.0: generator: places needs path"),
        ("{generator: expressions, pairs: 5, path: a.tsv}", "generator: expressions reads no file; leave out path"),
        ("{generator: expressions, pairs: 5, dataset: a/b}", "dataset, target_path and tags do not go with generator"),
        ("{generator: expressions, pairs: 5, source_column: 1}", "columns of a generator are languages"),
        ("{generator: rhymes, pairs: 5}", "data.train.0.generator is 'rhymes'; it must be 'expressions' or 'places'"),
        ("{generator: expressions, pairs: 0}", "data.train.0.pairs is 0; it must be more than 0"),
        ("{path: a.tsv, pairs: 5}", "data.train.0: pairs and seed belong to a generator"),
        ("{pairs: 5}", "data.train.0: pairs and seed belong to a generator"),
    ],
)
def test_recipes_that_ask_for_what_cannot_be(recipe_file, source, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        load_recipe(recipe_file, [f"data.train=[{source}]"])


def test_languages_that_cannot_be_generated(recipe_file):
    with pytest.raises(ValueError, match="data.train.0: pairs are generated between two of en, de, fr, not en and it"):
        load_recipe(recipe_file, ["target_language=it"])
    with pytest.raises(ValueError, match="data.train.1: generator: places needs English on one side"):
        load_recipe(recipe_file, ["source_language=fr"])


def test_the_cache_depends_on_the_settings_and_the_program(recipe_file, tmp_path, monkeypatch):
    def states(overrides=()):
        return [_state(source, tmp_path) for source in load_recipe(recipe_file, list(overrides)).data.train]

    usual = states()
    assert usual == states()
    for overrides in (
        ["seed=6"],
        ["data.train.0.pairs=21", "data.train.1.pairs=31"],
        ["source_language=de", "target_language=en"],
    ):
        assert all(one != other for one, other in zip(usual, states(overrides), strict=True)), overrides
    (tmp_path / "places.tsv").write_text("Rome\tRom\tcity\n", encoding="utf-8")
    assert states()[0] == usual[0] and states()[1] != usual[1]
    monkeypatch.setattr("training.data._content", lambda path: f"another {path.name}")
    assert states()[0] != usual[0]


def test_a_plain_source_has_the_cache_that_it_had(tmp_path):
    (tmp_path / "text.tsv").write_text("a\tb\n", encoding="utf-8")
    assert len(_state(Source(path="text.tsv"), tmp_path)) == 5
