"""Signs of a bad translation."""

import pytest

from vaswani_transformer.model.checks_vaswani import (
    count_repetitions,
    find_problems,
    missing_numbers,
    required_forms,
)


@pytest.mark.parametrize(
    "source, translation",
    [
        ("A man rides a bicycle.", "Ein Mann fährt Fahrrad."),
        ("It costs 1,234.50 euros.", "Es kostet 1.234,50 Euro."),
        ("In 1990, 12,000 people came.", "En 1990, 12\u202f000 personnes sont venues."),
        ("Two of the 3 dogs.", "Zwei der drei Hunde."),
        ("He has twelve.", "Er hat 12."),
        ("It starts at 7:30 p.m.", "Es beginnt um 19.30 Uhr."),
        ("On 05/06.", "Am 5.6."),
        ("No, no, no, no!", "Nein, nein, nein, nein!"),
        ("See https://a.org/b (<b>here</b>).", "Siehe https://a.org/b (<b>hier</b>)."),
        ("Yes", "Ja"),
        ("Add 1.5 kg, 20% and 3 m.", "Fügen Sie 1,5 kg, 20 Prozent und 3 Meter hinzu."),
        ("A 5-km run at 1,500 m and 30 °C.", "Une course de 5\u00a0km à 1\u202f500 m et 30 degrés."),
        ("It is 30 cm long.", "Es ist 30 Zentimeter lang."),
        ("{{ days }} left on 10.0.0.1 👩‍🍳", "Noch {{ days }} auf 10.0.0.1 👩‍🍳"),
    ],
)
def test_good_translations_have_no_problems(source, translation):
    assert find_problems(source, translation) == []


@pytest.mark.parametrize(
    "source, translation, problem",
    [
        ("Hello there.", "", "empty"),
        ("Hello there.", "...", "empty"),
        ("Hello.", "Hallo, " * 20, "much longer"),
        ("A man rides a bicycle through the park. " * 4, "Ein Mann.", "much shorter"),
        ("I am tired of it.", "Ich bin es es es es leid.", "repeats"),
        ("I am tired of it all the time.", "Ich bin es leid, " * 4, "repeats"),
        ("It is a question of law.", "Es ist eine Rechtsrechtsrechtsrechtsfrage.", "repeats"),
        ("In 1985 it was.", "Es war 1958.", "numbers differ: 1985, 1958"),
        ("I have 17 cats.", "Ich habe Katzen.", "numbers differ: 17"),
        ("I have cats.", "Ich habe 17 Katzen.", "numbers differ: 17"),
        ("I have 3 cats.", "Ich habe 8 Katzen.", "numbers differ: 3"),
        ("Write to me@x.org.", "Schreib an mich@x.org.", "me@x.org is missing"),
        ("{a} and {a} and %s", "{a} und %s", "{a} is missing"),
        ("Click <b>here</b>.", "Klicken Sie <b>hier.", "</b> is missing"),
        ("Run <code>npm install</code>.", "Starten Sie <code>npm-Installation</code>.", "</code> is missing"),
        ("Between **a** and **b**.", "Zwischen **a* und **b**.", "** is missing"),
        ("Please *do not* park.", "Bitte *nicht parken.", "* is missing"),
        ("See [the notes](a/b.html).", "Siehe die Notizen](a/b.html).", "[ is missing"),
        ("{{ days }} days", "{{ Tage }} Tage", "{{ days }} is missing"),
        ("%d%% used", "%d% benutzt", "%% is missing"),
        ("Port 1 of 10.0.0.138.", "Port 1 von 10.0.138.", "10.0.0.138 is missing"),
        ("Error 0x80070057.", "Fehler 0 80070057.", "0x80070057 is missing"),
        ("Call +33 1 99 00 47 32.", "Ruf +33 1 99,00 47 32 an.", "+33 1 99 00 47 32 is missing"),
        ("The :name field", "Das Feld : Name", ":name is missing"),
        ("Dinner 👩‍🍳!", "Essen 👩!", "👩‍🍳 is missing"),
        ("Take 500 mg twice.", "Nimm zweimal 500 Tabletten.", "500 mg is missing"),
        ("It is 175 cm wide.", "Es ist 175 km breit.", "175 cm is missing"),
        ("Tomás left.", "Tom\ufffds ging.", "broken"),
    ],
)  # fmt: skip
def test_problems_are_described(source, translation, problem):
    assert problem in "; ".join(find_problems(source, translation))


def test_missing_numbers_are_as_the_source_writes_them():
    assert missing_numbers("It costs 1,234.50 or 77.", "Es kostet 77.") == ["1,234.50"]


def test_a_better_translation_must_contain_missing_numbers_and_what_was_there():
    source = "Add 1.5 kg of {x} and 200 ml at www.a.org/b by 17:30, 12 times <b>or</b> 9."
    translation = "1,5 Kilo {x} und 200 ml bei www.a.org/b um 17:30, 12 Mal <b>oder</b> 8."
    assert required_forms(source, translation) == [("9",), ("www.a.org/b",), ("200 ml", "200 ml"), ("17:30",), ("12",)]
    assert required_forms("It is 1.5 kg.", "Es sind 1.5 Stück.") == [("1.5 kg", "1,5 kg")]


def test_repetition_is_counted():
    assert [count_repetitions(text) for text in ("", "a", "a b c", "a a", "a b a b a b", "so so so so so")] == [
        1,
        1,
        1,
        2,
        3,
        5,
    ]
