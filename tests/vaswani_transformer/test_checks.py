"""Signs of a poor translation."""

import pytest

from vaswani_transformer.checks_vaswani import kept_items, missing_numbers, problems, times_in_a_row


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
    ],
)
def test_good_translations_have_no_problem(source, translation):
    assert problems(source, translation) == []


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
        ("Write to me@x.org.", "Schreib an mich@x.org.", "lacks me@x.org"),
        ("{a} and {a} and %s", "{a} und %s", "lacks {a}"),
        ("Click <b>here</b>.", "Klicken Sie <b>hier.", "lacks </b>"),
    ],
)  # fmt: skip
def test_what_looks_wrong_is_named(source, translation, problem):
    assert problem in "; ".join(problems(source, translation))


def test_items_to_keep():
    text = (
        "See https://a.org/b(c), www.d.de. Mail x.y@z.co.uk; {name} ${x} {{y}} %s %1$d 100%, <a href='u'>v</a> &nbsp; "
        "`a b` /usr/bin C:\\a\\b.txt and/or --force well-known my_var f_g() @me #tag a < b > c 5% of it"
    )
    assert kept_items(text) == [
        "https://a.org/b(c", "www.d.de", "x.y@z.co.uk", "{name}", "${x}", "{{y}}", "%s", "%1$d", "<a href='u'>", "</a>",
        "&nbsp;", "`a b`", "/usr/bin", "C:\\a\\b.txt", "--force", "my_var", "f_g()", "@me", "#tag",
    ]  # fmt: skip


def test_missing_numbers_are_as_the_source_writes_them():
    assert missing_numbers("It costs 1,234.50 or 77.", "Es kostet 77.") == ["1,234.50"]


def test_repetition_is_counted():
    assert [times_in_a_row(text) for text in ("", "a", "a b c", "a a", "a b a b a b", "so so so so so")] == [
        1,
        1,
        1,
        2,
        3,
        5,
    ]
