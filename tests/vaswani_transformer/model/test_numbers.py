"""Numbers, times and dates of texts."""

from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vaswani_transformer.model.checks_vaswani import differing_numbers, find_problems
from vaswani_transformer.model.number_forms_vaswani import copied_numbers, format_time
from vaswani_transformer.model.numbers_vaswani import LANGUAGES, NEUTRAL, read_numbers
from vaswani_transformer.model.spans_vaswani import Replaced


MARKS = {"en": [".,"], "de": [",.", ", ", ",'"], "fr": [", ", ",\u00a0", ",\u202f"]}  # for decimals and for thousands
WRITTEN = [(language, *marks) for language, several in MARKS.items() for marks in several]
AMOUNTS = st.decimals(0, 10**9 - 1, allow_nan=False, places=2)


def write(value: Decimal, decimal: str, thousands: str) -> str:
    """As a language writes it; by `format`, which is Python's."""
    return f"{value:,}".replace(".", "#").replace(",", thousands).replace("#", decimal)


def values(text: str, language: str) -> list[set]:
    return [set(number.values) for number in read_numbers(text, LANGUAGES[language])]


@given(AMOUNTS, st.sampled_from(WRITTEN))
def test_a_written_number_is_read_again(value, writing):
    language, *marks = writing
    assert values(f"x {write(value, *marks)} x", language) == [{value}]
    assert value in read_numbers(write(value, *marks), NEUTRAL)[0].values


@given(AMOUNTS, st.sampled_from(WRITTEN), st.sampled_from(WRITTEN))
def test_languages_write_the_same_number(value, writing, other_writing):
    (language, *marks), (other, *other_marks) = writing, other_writing
    texts = (f"$ {write(value, *pair)} $" for pair in (marks, other_marks))
    assert differing_numbers(*texts, (language, other)) == ([], [])


@given(AMOUNTS, st.sampled_from(WRITTEN), st.sampled_from(WRITTEN), st.data())
def test_another_digit_is_noticed(value, writing, other_writing, data):
    (language, *marks), (other, *other_marks) = writing, other_writing
    source, translation = write(value, *marks), write(value, *other_marks)
    place = data.draw(st.sampled_from([i for i, c in enumerate(translation) if c.isdigit()]))
    digit = data.draw(st.sampled_from([c for c in "0123456789" if c != translation[place]]))
    changed = translation[:place] + digit + translation[place + 1 :]
    assume(Decimal(value) > 1)
    assert find_problems(f"It is {source} now.", f"Es ist {changed} da.", (language, other))


WORDS = st.sampled_from(
    "at from to the a first two both eleven hundred million halb zehn Uhr neuf heures et demie 1st 2. 3e 9:30 p.m."
    " 21h30 1,234.56 1.234,56 14.3.2025 3/14/2025 [15,21] 0171-555 0199 1980s 2.14.1 20 % 5 € $5 200 g 2kg XIXe"
    " quarter past noon midi . , - and und".split(" ")
)


@given(st.lists(WORDS, min_size=1, max_size=12).map(" ".join), st.sampled_from([*LANGUAGES, None]))
def test_a_text_has_the_numbers_of_itself(text, language):
    assert differing_numbers(text, text, (language, language)) == ([], [])


@given(st.integers(0, 24 * 60 - 1), st.sampled_from(list(LANGUAGES)), st.sampled_from(list(LANGUAGES)))
def test_times_of_day_are_read_again(moment, language, other):
    source, translation = (format_time(moment, LANGUAGES[code]) for code in (language, other))
    assert [("time", moment)] == [value for value in values(source, language)[0] if isinstance(value, tuple)]
    assert differing_numbers(source, translation, (language, other)) == ([], [])


@pytest.mark.parametrize(
    "language, text, value",
    [
        ("en", "twelve", 12), ("en", "twenty-one", 21), ("en", "two hundred and five", 205), ("en", "a thousand", 1000),
        ("en", "three hundred twenty-one thousand and six", 321_006), ("en", "two million", 2_000_000),
        ("en", "3.5 million", 3_500_000), ("en", "2 bn", 2_000_000_000),
        ("de", "zwölf", 12), ("de", "einundzwanzig", 21), ("de", "zweihundertfünf", 205), ("de", "tausend", 1000),
        ("de", "dreihunderteinundzwanzigtausendsechs", 321_006), ("de", "zwei Millionen", 2_000_000),
        ("de", "3,5 Mio.", 3_500_000), ("de", "neunzehnhundert", 1900),
        ("fr", "douze", 12), ("fr", "vingt et un", 21), ("fr", "deux cent cinq", 205), ("fr", "mille", 1000),
        ("fr", "soixante et onze", 71), ("fr", "quatre-vingts", 80), ("fr", "quatre-vingt-dix-sept", 97),
        ("fr", "trois cent vingt et un mille six", 321_006), ("fr", "3,5 millions", 3_500_000),
    ],
)  # fmt: skip
def test_number_words(language, text, value):
    [number] = [number for number in read_numbers(text, LANGUAGES[language]) if number.is_required]
    assert number.values == {Decimal(value)}


@pytest.mark.parametrize(
    "language, text",
    [
        ("en", "once, both, the second dozen of millions"), ("de", "einmal, beide, der dritte, außer Acht, Millionen"),
        ("fr", "un vélo neuf, la première douzaine, vingt pour-cent, 10 pour cent, une heure"),
        ("de", "einsam, erst am Montag, das Achtelfinale"),
    ],
)  # fmt: skip
def test_words_that_need_no_number(language, text):
    required = [number.text for number in read_numbers(text, LANGUAGES[language]) if number.is_required]
    assert required == {"fr": ["vingt", "10"]}.get(language, [])


@pytest.mark.parametrize(
    "language, text, times",
    [
        ("en", "half past nine", {570, 1290}), ("en", "ten to five", {290, 1010}), ("en", "12:15 a.m.", {15}),
        ("de", "halb zehn", {570, 1290}), ("de", "Viertel vor neun", {525, 1245}), ("de", "10 Uhr", {600}),
        ("de", "10 Uhr abends", {600, 1320}), ("de", "9 Uhr 30", {570}),
        ("fr", "neuf heures et demie", {570, 1290}), ("fr", "dix heures moins le quart", {585, 1305}),
        ("fr", "21 h 30", {1290}), ("fr", "à dix heures deux hommes", {600, 1320}), ("fr", "midi", {720}),
    ],
)  # fmt: skip
def test_times(language, text, times):
    number = read_numbers(text, LANGUAGES[language])[0]
    assert {value[1] for value in number.values if isinstance(value, tuple)} == times


@pytest.mark.parametrize(
    "languages, text, wanted",
    [
        ("en de", "It costs $1,250.50 or 12,500 yen", "It costs $1.250,50 or 12.500 yen"),
        ("en fr", "€349.50, 2.4 billion, 4.5 m, 19.5%", "€349,50, 2,4 billion, 4,5 m, 19,5%"),
        ("en fr", "12,500 people", "12\u00a0500 people"),
        ("de en", "1.249,99 €, 9,58 Sekunden, 12.500", "1,249.99 €, 9.58 Sekunden, 12,500"),
        ("fr en", "70,000 livres, 42,195 km", "70,000 livres, 42.195 km"),
        ("fr en", "1 249,99 €, 1 850 €, 4,5 m", "1,249.99 €, 1,850 €, 4.5 m"),
        ("fr de", "1 249,99 €, 4,5 m", "1.249,99 €, 4,5 m"),
        ("en de", "9AM-5:30PM, 8 a.m.", "9 Uhr-17:30 Uhr, 8 Uhr"),
        ("en fr", "at 9:47 p.m.", "at 21 h 47"),
        ("fr en", "à 21h47 ou 18 h 30.", "à 9:47 p.m. ou 6:30 p.m."),
        ("en de", "4 - 6 pm, 11:30–1 pm, 9 to 5 p.m.", "16 bis 18 Uhr, 11:30 bis 13 Uhr, 9 bis 17 Uhr"),
        ("en fr", "2–5:30 pm", "14 h à 17 h 30"),
    ],
)  # fmt: skip
def test_copied_numbers_get_the_form_of_the_other_language(languages, text, wanted):
    assert Replaced(text, copied_numbers(text, text, tuple(languages.split()))).text == wanted


@pytest.mark.parametrize(
    "languages, text",
    [
        ("en de", "Version 3.11 or 3.11.2, section 4.2, 10.0.0.1, 05/31/2025, 2025-02-28, 3-1, 17, 9:30, [15,21]"),
        ("de en", "Version 3.11.2, Abschnitt 4.2, 28.02.2025, am 1.3., 3:1, 80er"),
        ("fr en", "code 839 201, version 4.2, 01 99 00 47 32, 8 h, 31/05/2025"),
        ("en de", "It takes 2 h 45 or 1 h 10 min."),  # durations
        ("fr en", "Cuisson : 1 h 10, 2 h 45 de trajet, dure environ 3 h 05, 1 h 20 min"),
        ("en en", "It costs $1,250.50."),
        ("en es", "It costs $1,250.50."),
    ],
)
def test_other_copied_numbers_stay(languages, text):
    assert list(copied_numbers(text, text, tuple(languages.split()))) == []


@given(AMOUNTS, st.sampled_from(WRITTEN), st.sampled_from(list(LANGUAGES)))
def test_the_form_of_the_other_language_has_the_same_value(value, writing, other):
    language, *marks = writing
    text = f"{write(value, *marks)} €"
    copied = Replaced(text, copied_numbers(text, text, (language, other))).text
    assert values(copied, other) == [{value}] or (language == other and copied == text)


def test_only_the_digits_need_to_be_copied():
    """The words and units around them are translated."""
    texts = "It lost 2.4 billion dollars.", "Sie hat 2.4 Milliarden Dollar verloren."
    assert Replaced(texts[1], copied_numbers(*texts, ("en", "de"))).text == "Sie hat 2,4 Milliarden Dollar verloren."


@pytest.mark.parametrize(
    "languages, source, translation, wanted",
    [
        ("en de", "$1,250.50", "$1.250.50 oder 1,250,50", "$1.250,50 oder 1.250,50"),
        ("en fr", "$1,250.50", "1.250.50 $", "1\u00a0250,50 $"),
        ("fr en", "1 250,50 €", "1,250,50 €", "1,250.50 €"),
        ("de en", "1.250.500 Leute", "1.250.500 people", "1,250,500 people"),
        ("de en", "im 2. Stock und der 1. FC", "in the 2. floor, the 1. FC", "in the 2nd floor, the 1. FC"),
        ("de en", "der 2. Platz im 2. Stock", "the 2. place on the 2. floor", "the 2nd place on the 2nd floor"),
        ("fr en", "les 2e, 11e et 21e", "the 2th, 11st, 21th, 5th", "the 2nd, 11th, 21st, 5th"),
        ("fr en", "à 15 h 30 et 9 h", "at 15:30 p.m. and 9 a.m.", "at 3:30 p.m. and 9 a.m."),
        ("de en", "9–18 Uhr, 8:00-12:30", "9–18 a.m., 8:00-12:30", "9 a.m.–6 p.m., 8:00-12:30"),
        ("de en", "um 6.15 Uhr", "at 6:15 a.m.", "at 6:15 a.m."),
        ("de en", "14 bis 18 Uhr", "14 to 18 p.m. or 14 to 6 p.m.", "2 p.m. to 6 p.m. or 2 to 6 p.m."),
        (
            "en de",
            "3 March, 12 Dec",
            "am 3 März und 12 Dez, Mai 10, 2 Mainzer",
            "am 3. März und 12. Dez, Mai 10, 2 Mainzer",
        ),
        ("en de", "by the 31st", "bis zum 31st. Und der 2nd Platz", "bis zum 31. Und der 2. Platz"),
        ("en fr", "by the 31st", "avant le 31st, le 1st mai, la 2nd fois", "avant le 31, le 1er mai, la 2e fois"),
        ("de en", "am 14.03.2025", "on 14,03,2025.", "on 14.03.2025."),
        ("de en", "am 24.12. und 31.12.", "on 24,12. and 31.12.", "on 24.12. and 31.12."),
        ("de en", "Version 2.13.0", "version 2,13,0", "version 2.13.0"),
        ("en de", "$1,250.50, version 3.11.2", "Version 3.11.2 $125.050", "Version 3.11.2 $125.050"),
    ],
)
def test_wrong_marks_between_the_same_digits_are_mended(languages, source, translation, wanted):
    assert Replaced(translation, copied_numbers(source, translation, tuple(languages.split()))).text == wanted
