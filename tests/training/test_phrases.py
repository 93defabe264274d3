"""The phrases are complete, and a translation counts as right only if it says the same."""

import json
import unicodedata
from collections import Counter

import pytest
from tiny_checkpoint import tiny_checkpoint

from training.files import read_lines
from training.models import load
from training.phrases import (
    FORMS,
    KINDS,
    LANGUAGES,
    PATH,
    Phrase,
    count_right,
    format_phrases,
    is_right,
    main,
    measure_phrases,
    normalise,
    read_phrases,
)


ROWS = [line.split("\t") for line in read_lines(PATH)]


def test_each_row_has_a_kind_and_three_languages():
    assert all(len(row) == 1 + len(LANGUAGES) for row in ROWS)
    counts = Counter(row[0] for row in ROWS)
    assert tuple(counts) == KINDS
    assert counts["greeting"] >= 60 and counts["word"] == 150 and counts["term"] == 60


def test_no_wording_is_empty_repeated_or_decomposed():
    for _, *cells in ROWS:
        for cell in cells:
            wordings = cell.split(" | ")
            assert len(wordings) == len(set(wordings)), cell
            for wording in wordings:
                assert wording and wording == " ".join(wording.split()) and "|" not in wording
                assert unicodedata.is_normalized("NFC", wording)


def test_no_row_is_a_duplicate():
    for column in range(1, 4):
        repeated = Counter(row[column].split(" | ")[0] for row in ROWS)
        assert {text for text, count in repeated.items() if count > 1} <= {"Bonjour", "Salut"}


@pytest.mark.parametrize(
    ("languages", "count"), [(("en", "de"), 275), (("de", "en"), 275), (("en", "fr"), 275), (("fr", "en"), 273)]
)
def test_a_direction_has_each_text_once(languages, count):
    phrases = read_phrases(*languages)
    assert len(phrases) == count == len({phrase.text for phrase in phrases})
    assert all(is_right(phrase, phrase.accepted[0]) for phrase in phrases)


def test_the_same_text_of_two_rows_accepts_the_translations_of_both():
    accepted = next(phrase.accepted for phrase in read_phrases("fr", "en") if phrase.text == "Bonjour")
    assert {"Hello", "Good morning"} <= set(accepted)


@pytest.mark.parametrize("languages", [("en", "it"), ("", "de"), ("en", "en")])
def test_other_directions_are_refused(languages):
    with pytest.raises(ValueError, match="phrases for the language|are both 'en'"):
        read_phrases(*languages)


@pytest.mark.parametrize(
    ("kind", "accepted", "translation"),
    [
        ("greeting", "Ça va ?", "Ça va?"),
        ("greeting", "Ça va ?", "ça va\u202f?"),
        ("greeting", "Ça va ?", unicodedata.normalize("NFD", "Ça va ?")),
        ("greeting", "Nein, danke", "Nein danke!"),
        ("greeting", "Je t'aime", "Je t\u2019aime."),
        ("greeting", "Tschüss", "Tschüß"),
        ("word", "œuf", "Oeuf"),
        ("word", "Apfel", "der Apfel"),
        ("word", "Apfel", "Ein Apfel."),
        ("word", "eau", "l'eau"),
        ("word", "pain", "du pain"),
        ("word", "argent", "de l'argent"),
        ("word", "to eat", "eat"),
        ("word", "sing", "to sing"),
        ("term", "onion", "An onion"),
    ],
)
def test_differences_that_do_not_matter(kind, accepted, translation):
    assert is_right(Phrase(kind, "", (accepted,)), translation)


@pytest.mark.parametrize(
    ("kind", "accepted", "translation"),
    [
        ("greeting", "Wie geht es Ihnen?", "Wie geht es ihnen?"),
        ("greeting", "Das macht nichts", "Macht nichts"),
        ("greeting", "Au revoir", "Au revoir, Clara"),
        ("word", "Apfel", "Äpfel"),
        ("word", "water", ""),
        ("word", "water", "the"),
        ("word", "mûr", "mur"),
        ("term", "âne", "ane"),
        ("term", "ail", "l'aile"),
        ("term", "thimble", "he thimble"),
    ],
)
def test_differences_that_matter(kind, accepted, translation):
    assert not is_right(Phrase(kind, "", (accepted,)), translation)


def test_case_is_ignored_where_the_source_has_none():
    phrase = Phrase("greeting", "", ("Wie geht es Ihnen?",))
    assert is_right(phrase, "WIE GEHT ES IHNEN?", ignore_case=True) and not is_right(phrase, "WIE GEHT ES IHNEN?")
    assert normalise("WEISS", ignore_case=True) == normalise("weiß", ignore_case=True)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("as-is", ["Hello", "How are you?", "Help!", "I agree."]),
        ("bare", ["Hello", "How are you", "Help", "I agree"]),
        ("lower", ["hello", "how are you?", "help!", "i agree."]),
        ("capitals", ["HELLO", "HOW ARE YOU?", "HELP!", "I AGREE."]),
        ("punctuated", ["Hello.", "How are you?", "Help.", "I agree!"]),
    ],
)
def test_forms(form, expected):
    phrases = [Phrase("greeting", text, ("x",)) for text in ("Hello", "How are you?", "Help!", "I agree.")]
    seen = []
    count_right(phrases, lambda texts: seen.extend(texts) or texts, form)
    assert seen == expected


@pytest.mark.parametrize("form", FORMS)
def test_counts_by_kind_and_the_wrong_translations(form):
    phrases = [
        Phrase("greeting", "Bye", ("Tschüss",)),
        Phrase("word", "apple", ("Apfel",)),
        Phrase("word", "bread", ("Brot", "Laib")),
    ]
    translations = ["Playback", "APFEL" if form == "capitals" else "Apfel", "Fisch"]
    measured = count_right(phrases, lambda texts: translations, form)
    assert (measured["form"], measured["phrases"], measured["right"]) == (form, 3, 1)
    assert measured["kinds"] == {"greeting": "0 of 1", "word": "1 of 2"}
    assert measured["failed"] == [
        {"kind": "greeting", "source": FORMS[form]("Bye"), "translation": "Playback", "accepted": "Tschüss"},
        {"kind": "word", "source": FORMS[form]("bread"), "translation": "Fisch", "accepted": "Brot | Laib"},
    ]
    assert format_phrases(measured) == f"phrases ({form}): 1 of 3 right; greeting 0 of 1, word 1 of 2"


@pytest.fixture
def short_list(monkeypatch, tmp_path):
    path = tmp_path / "phrases.tsv"
    path.write_text("greeting\tHello\tHallo\tBonjour\nword\tto eat\tessen\tmanger\n", encoding="utf-8")
    monkeypatch.setattr("training.phrases.PATH", path)


@pytest.mark.parametrize("alone", [False, True])
def test_a_model_is_measured(short_list, alone):
    model, tokenizer = load(str(tiny_checkpoint()), "cpu")
    measured = measure_phrases(model, tokenizer, "en", "fr", alone=alone, num_beams=1, max_new_tokens=3)
    assert measured["phrases"] == 2 and measured["failed"], "a checkpoint for en-de does not know French"
    assert measured["failed"][-1]["accepted"] == "manger" and measured["failed"][-1]["translation"]


def test_the_command_writes_a_record_for_each_form(short_list, tmp_path, capsys):
    record = tmp_path / "record.json"
    languages = ["--source-language", "en", "--target-language", "fr"]
    main([str(tiny_checkpoint()), *languages, "--form", "bare", "lower", "--failed", "--output", str(record)])
    assert [measured["form"] for measured in json.loads(record.read_text(encoding="utf-8"))] == ["bare", "lower"]
    printed = capsys.readouterr().out
    assert "phrases (bare): " in printed and "phrases (lower): " in printed
    assert printed.count('"source": "to eat"') == 2, "a checkpoint for en-de does not know French"


def test_the_command_needs_the_languages(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert "Add them, for example --source-language" in capsys.readouterr().err
