"""Texts cut into sentences and the parts between them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_transformer.model import sentences_vaswani
from vaswani_transformer.model.sentences_vaswani import BREAKS, clauses, has_words, parts


def sentences(text, language="en"):
    return [part.text for part in parts(text, language) if part.is_sentence]


# Pieces of random texts: words, marks, items to keep, all kinds of spacing.
PIECES = st.sampled_from(
    [*"abz.!?;:,()-*•>«»\"'’ \t\n\r", "\r\n", "\u2028", "\u00a0", "Dr. ", "z. B. ", "3. ", "12.5",
     "https://a.b/c?d=e. ", "{name}", "%s", "<b>", "日本", "😀", "Hello. ", "M. Dupont ", "\x00"]
)  # fmt: skip


@settings(max_examples=300)
@given(
    st.lists(PIECES, max_size=40).map("".join) | st.text(st.characters(codec="utf-8"), max_size=60),
    st.sampled_from(["en", "de", "fr", "xx", None]),
)
def test_joined_parts_are_the_text(text, language):
    pieces = parts(text, language)
    assert "".join(part.text for part in pieces) == text
    assert all(part.text == part.text.strip() and has_words(part.text) for part in pieces if part.is_sentence)


@pytest.mark.parametrize(
    "language, text, expected",
    [
        ("en", "He left. She stayed!  Why?", ["He left.", "She stayed!", "Why?"]),
        ("en", "Dr. Smith paid $3.50 at 3 p.m. on Monday.", ["Dr. Smith paid $3.50 at 3 p.m. on Monday."]),
        ("en", "See fig. 3 of J. Doe. It is new.", ["See fig. 3 of J. Doe.", "It is new."]),
        ("de", "Am 3. Mai kam Dr. Müller z. B. nach Berlin. Er ging.",
         ["Am 3. Mai kam Dr. Müller z. B. nach Berlin.", "Er ging."]),
        ("de", "3. Mai ist morgen.", ["3. Mai ist morgen."]),
        ("de", "Im 20. Jahrhundert lebte er im 2. Stock. Jede 3. Frau auch.",
         ["Im 20. Jahrhundert lebte er im 2. Stock.", "Jede 3. Frau auch."]),
        ("de", "Am Sonntag, 3. November, und im 19. und 20. Jahrhundert.",
         ["Am Sonntag, 3. November, und im 19. und 20. Jahrhundert."]),
        ("de", "Ich bin 12. Du bist 13.", ["Ich bin 12.", "Du bist 13."]),
        ("de", "„Wirklich?“ fragte sie. „Ja!“ sagte er.", ["„Wirklich?“ fragte sie.", "„Ja!“ sagte er."]),
        ("en", "are you there? i am. good!", ["are you there?", "i am.", "good!"]),
        ("de", "Dipl.-Ing. Meier, geb. Schulz, zahlt zzgl. Versand.",
         ["Dipl.-Ing. Meier, geb. Schulz, zahlt zzgl. Versand."]),
        ("en", "On Tues. Fig. Two of vol. Three was shown.", ["On Tues. Fig. Two of vol. Three was shown."]),
        ("fr", "Mgr. Martin, bd. Raspail, fut à Rome en 50 av. J.-C. Là.",
         ["Mgr. Martin, bd. Raspail, fut à Rome en 50 av. J.-C. Là."]),
        ("fr", "M. Dupont est parti. Mme Durand et MM. A. Blanc aussi, cf. art. 3 !",
         ["M. Dupont est parti.", "Mme Durand et MM. A. Blanc aussi, cf. art. 3 !"]),
        ("en", "One line\nand another\r\n\r\n\tthird", ["One line", "and another", "third"]),
        ("en", "- first\n  * second\n1. third\n2) fourth\n> quoted\n(a) fifth",
         ["first", "second", "third", "fourth", "quoted", "fifth"]),
    ],
)  # fmt: skip
def test_sentences(language, text, expected):
    assert sentences(text, language) == expected


def test_without_the_library_a_line_is_a_sentence(monkeypatch, caplog):
    monkeypatch.setattr(sentences_vaswani, "segment", None)
    sentences_vaswani.logger.warning_once.cache_clear()
    monkeypatch.setattr(sentences_vaswani.logger, "propagate", True)
    assert sentences("One is. Two are.\nThree.") == ["One is. Two are.", "Three."]
    assert "pip install sentencex" in caplog.text


@pytest.mark.parametrize(
    "text",
    ["", " ", "-", "???", "12345", "3.14 %", "😀", "https://example.org/a?b=c", "me@example.org", "{name}", "%s", "x",
     "%(n)d", "<br/>", "`code here`", "/usr/bin/env", r"C:\Users\me", "snake_case", "@someone", "--option", "..\n--\n"],
)  # fmt: skip
def test_text_without_words_is_not_a_sentence(text):
    assert sentences(text) == []


def test_a_sentence_with_an_endless_word_is_not_translated():
    assert sentences("A" + "b" * 300 + " word.") == []


@given(st.lists(st.sampled_from(["one", "two,", "three;", "four:", "(five", "–", "six."]), min_size=1, max_size=60))
def test_clauses_fit_and_joined_are_the_sentence(words):
    sentence = " ".join(words)
    pieces = clauses(sentence, lambda text: len(text.split()) <= 5)
    assert "".join(pieces) == sentence
    assert all(len(clause.split()) <= 5 for clause in pieces)


def test_a_sentence_is_split_at_the_best_place():
    def fits(text):
        return len(text) < 63

    sentence = "When the rain had stopped, we went out, all of us together; nobody said a word about it."
    assert clauses(sentence, fits) == [sentence[:60], sentence[60:]]
    assert sentence[:60].endswith("together; ")
    assert clauses("short, very; short", fits) == ["short, very; short"]
    assert clauses("x" * 100, fits) == ["x" * 100]
    assert len(BREAKS) == 4
