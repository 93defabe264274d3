"""The phrases are complete, and a translation is right only if it says one of them."""

import pytest

from training.files import read_lines
from training.phrases import FILE, FORMS, is_right, measure_phrases, read_phrases


def test_every_line_has_a_kind_and_three_languages():
    rows = [line.split("\t") for line in read_lines(FILE)]
    assert all(
        len(row) == 4 and all(wording.strip() == wording != "" for c in row for wording in c.split(" | "))
        for row in rows
    )
    assert {row[0] for row in rows} == {"greeting", "word", "term"}
    english = [row[1] for row in rows]
    assert len(english) == len(set(english))


@pytest.mark.parametrize(
    ("translation", "acceptable", "expected"),
    [
        ("Bonjour !", ["Bonjour", "Salut"], True),
        ("Je m’appelle Clara.", ["Je m'appelle Clara"], True),
        ("la maison", ["maison"], True),
        ("to eat", ["eat"], True),
        ("L'eau", ["eau"], True),
        ("Hello", ["Bonjour"], False),
        ("Comment es-tu ?", ["Comment vas-tu ?"], False),
        ("", ["Bonjour"], False),
    ],
)
def test_marks_case_and_articles_do_not_matter_and_words_do(translation, acceptable, expected):
    assert is_right(translation, acceptable) is expected


def test_what_is_right_is_counted_by_kind():
    phrases = read_phrases("en", "de")
    answers = {FORMS["capitals"](phrase.source): phrase.translations[-1] for phrase in phrases}
    measured = measure_phrases(phrases, lambda texts: [answers[text] for text in texts], "capitals")
    assert measured["failed"] == [] and all(n["right"] == n["phrases"] for n in measured["kinds"].values())
    wrong = measure_phrases(phrases, lambda texts: ["Wiedergabe"] * len(texts))
    assert len(wrong["failed"]) == len(phrases)


def test_other_languages_are_refused():
    with pytest.raises(ValueError, match="en → es"):
        read_phrases("en", "es")
