"""Punctuation of translations: the mark at the end, and the spaces of French."""

import pytest

from vaswani_transformer.model.punctuation_vaswani import with_final_mark, with_french_spaces


@pytest.mark.parametrize(
    "language, source, translation, wanted",
    [
        ("de", "the invoice (incl. VAT),", "Die Rechnung (inkl. MwSt).", "Die Rechnung (inkl. MwSt),"),
        ("de", "a pint of milk", "Ein Liter Milch.", "Ein Liter Milch"),
        ("en", "Preis (netto)", "Price (net).", "Price (net)"),
        ("de", "Really?", "Wirklich", "Wirklich?"),
        ("de", "Why don't we go?", "Lass uns gehen.", "Lass uns gehen."),
        ("de", "It is over.", "Es ist vorbei", "Es ist vorbei."),
        ("fr", "Two things:", "Deux choses.", "Deux choses:"),
        ("fr", "Two things:", "Deux choses :", "Deux choses :"),
        ("de", "Open until 5 p.m.", "Geöffnet bis 17 Uhr", "Geöffnet bis 17 Uhr"),
        ("en", "Um 17 Uhr", "At 5 p.m.", "At 5 p.m."),  # the mark of an abbreviation
        ("en", "Komm!", "Come.", "Come."),  # German uses more exclamation marks
        ("de", "He said “yes.”", "Er sagte ja, alles.", "Er sagte ja, alles."),
        ("de", "Wait...", "Warte", "Warte"),
        ("de", "", "Nichts.", "Nichts."),
        ("ja", "It is over.", "終わった", "終わった"),
        (None, "It is over.", "Ohi on", "Ohi on"),
    ],
)
def test_a_translation_ends_in_the_mark_of_its_source(language, source, translation, wanted):
    assert with_final_mark(translation, source, language).text == wanted


@pytest.mark.parametrize(
    "translation, wanted",
    [
        ("Prix: 12,99 $", "Prix : 12,99 $"),
        ("Vraiment? Oui!", "Vraiment ? Oui !"),
        ("(Non); « Oui »: 5 %!?", "(Non) ; « Oui » : 5 % !?"),
        (
            "Vraiment ? À 12:30, dans C: ou http://a.org/?b=cd: ok",
            "Vraiment ? À 12:30, dans C: ou http://a.org/?b=cd : ok",
        ),
        ("Le fichier <a:b c: d>", "Le fichier <a:b c: d>"),
    ],
)
def test_french_marks_have_a_space_before_them(translation, wanted):
    assert with_french_spaces(translation, "fr").text == wanted
    assert with_french_spaces(translation, "de").text == translation
