"""Headings in Title Case, with the tokenizers and a model of the included checkpoints."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_transformer import TranslationPipeline, checkpoint_path, load
from vaswani_transformer.model import lemmas_vaswani
from vaswani_transformer.model.titles_vaswani import names_in, title_in_sentence_case


@cache
def opened(name: str):
    return load(checkpoint_path(name))


def sentence_case(text: str, language: str = "en", **settings) -> str | None:
    name = f"mini-{language}-en" if language in ("de", "fr") else "mini-en-de"
    recased = title_in_sentence_case(text, opened(name)[1], language, **settings)
    return recased and recased.text


@pytest.fixture(scope="module")
def translate():
    model, tokenizer = opened("mini-en-de")
    return TranslationPipeline(model=model, tokenizer=tokenizer, device="cpu")


@pytest.mark.parametrize(
    "language, text, wanted",
    [
        ("en", "The Quick Guide To Cooking Onions", "The quick guide to cooking onions"),
        ("en", "How to Install the Printer", "How to install the printer"),
        ("en", "Barack Obama Meets Angela Merkel In Berlin", "Barack Obama meets Angela Merkel in Berlin"),
        ("en", "I Don't Want To Go To School On Tuesday", "I don't want to go to school on Tuesday"),
        ("en", "World War II Ended In 1945.", "World war II ended in 1945."),
        ("en", "Getting Started With The iPhone, NASA's USB Cable And {Name}",
         "Getting started with the iPhone, NASA's USB cable and {Name}"),
        ("en", "Plan B Is The Best", "Plan B is the best"),
        ("de", "Die Besten Rezepte Für Den Sommer", "Die besten Rezepte für den Sommer"),
        ("de", "Wie Man Den Drucker Installiert", "Wie man den Drucker installiert"),
        ("fr", "L'Été Dernier À Paris", "L'été dernier à Paris"),
        ("fr", "Guide Rapide Pour Cuisiner les Oignons", "Guide rapide pour cuisiner les oignons"),
    ],
)  # fmt: skip
def test_headings_get_the_case_of_a_sentence_and_keep_their_names(language, text, wanted):
    assert sentence_case(text, language) == wanted


@pytest.mark.parametrize(
    "language, text",
    [
        ("en", "New York"),
        ("en", "Tom Loves Mary"),
        ("en", "United States of America"),
        ("en", "The Lord of the Rings is a novel."),
        ("en", "Tom was an Eagle Scout."),
        ("en", "THE QUICK GUIDE"),
        ("en", "John Smith, Paris, Tokyo and London"),
        ("en", "Attendees: Tom Baker, Rose Gardener, Grace Young"),
        ("en", "Published by Penguin Random House, London"),
        ("en", "Bill to: Brightwater Consulting Ltd"),
        ("fr", "Jean-Baptiste Chevalier"),
        ("en", ""),
        ("en", "%S {Quick} <Guide> http://A.Example/B"),
        ("de", "Haus, Hof und Garten"),
        ("de", "Sehr geehrte Damen und Herren"),
        ("de", "Gib dem Ganzen eine Chance."),
        ("de", "Eine Verfassung mit der Brechstange in Ägypten"),
        ("fr", "Notre-Dame de Paris"),
        ("fr", "Rue de la République"),
        ("es", "La Casa De Los Espíritus"),
    ],
)
def test_other_texts_stay(language, text):
    assert sentence_case(text, language) is None


def test_names_of_the_same_text_and_terms_of_a_glossary_stay():
    text = "A Guide To The Quick Rust"
    assert sentence_case(text) == "A guide to the quick rust"
    names = names_in(["We like the language Rust very much.", "Quick Rust Guide"])
    assert names == {"Rust"}
    assert sentence_case(text, names=names) == "A guide to the quick Rust"
    assert sentence_case(text, fixed=[(15, 20)]) == "A guide to the Quick rust"


def test_without_its_dictionary_the_tokenizer_decides(monkeypatch):
    monkeypatch.setattr(lemmas_vaswani, "simplemma", None)
    assert sentence_case("How To Install The Quick Printer") == "How to install the quick Printer"


WORDS = [
    "The",
    "the",
    "Quick",
    "Straße",
    "ŉ",
    "ǅ",
    "É",
    "I",
    "Don't",
    "L'Été",
    "iPhone",
    "%s",
    "{A}",
    "5",
    "日",
    ".",
    "To",
]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(WORDS)).map(" ".join), st.sampled_from(["en", "de", "fr"]))
def test_only_the_case_of_a_text_changes(text, language):
    recased = title_in_sentence_case(text, opened("mini-en-de")[1], language)
    if recased is not None:
        assert recased.text.upper() == text.upper()
        assert all(text[slice(*old)].upper() == recased.text[slice(*new)].upper() for old, new in recased.places)


def test_a_heading_is_translated_as_in_sentence_case(translate):
    plain = translate("Where is the dog in the house?", return_alignments=True, return_confidence=True)
    heading = translate("Where Is the Dog In The House?", return_alignments=True, return_confidence=True)
    assert heading == plain
    [mixed] = translate("# Where Is The Dog In The House?\n\nThe dog is in the house.")
    assert mixed["translation_text"].startswith(f"# {plain[0]['translation_text']}\n\n")


def test_a_glossary_works_in_headings(translate):
    [record] = translate("Where Is The Dog Of Apple In The House?", glossary={"dog": "Dackel", "Apple": []})
    assert all(word in record["translation_text"] for word in ("Dackel", "Apple"))
