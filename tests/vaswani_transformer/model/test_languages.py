"""Texts in another language than the model's."""

import pytest
from tiny_checkpoint import PAIRS, tiny_checkpoint

from vaswani_transformer import TranslationPipeline, load
from vaswani_transformer.model import languages_vaswani
from vaswani_transformer.model.languages_vaswani import language_warnings, other_language


@pytest.mark.parametrize(
    "text, source_language, language",
    [
        ("Me gustaría reservar una mesa para cuatro personas.", "en", "es"),
        ("Vorrei prenotare un tavolo per quattro persone.", "de", "it"),
        ("Ik wil graag een tafel voor vier personen reserveren.", "fr", "nl"),
        ("Musimy zakończyć projekt przed końcem miesiąca.", "en", "pl"),
        ("Elle a perdu son passeport à l'aéroport.", "en", "fr"),
        ("Ich habe heute leider keine Zeit.", "en", "de"),
        ("We will meet again next week in the office.", "de", "en"),
    ],
)
def test_sentences_in_another_language_are_recognised(text, source_language, language):
    assert other_language(text, source_language) == language
    assert other_language(text, language) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Tom fährt.",
        "Jean-Pierre Müller, Geneviève Dupont, José García López",
        "Bundesministerium der Finanzen",
        "São Paulo, Brasília, Belo Horizonte",
        "200 g flour, 2 eggs, 1 tsp salt",
        "std::vector<int> v; v.push_back(1);",
        "Hauptstraße 5, 10115 Berlin",
        "12:30 - 14:00",
        "Mr and Mrs Kowalczyk live in Łódź.",
        "sudo apt-get install libreoffice-l10n-de",
        "docker run -it ubuntu bash",
        "const x = await fetch(url);",
        "https://example.de/das/ist/eine/deutsche/adresse",
        "My sister said: Guten Tag, wie geht es Ihnen? And then she left the room.",
    ],
)
def test_names_titles_lists_code_and_short_texts_are_left_alone(text):
    assert other_language(text, "en") is None


@pytest.mark.parametrize(
    "text", ["pip install vaswani-transformer", 'git commit -m "fix"', "const x = await fetch(url);"]
)
def test_code_is_left_alone_in_other_languages_than_english(text):
    assert other_language(text, "de") is None


def test_a_language_that_is_unknown_is_not_checked(monkeypatch):
    text = "Ich habe heute leider keine Zeit."
    assert language_warnings(text, None) == language_warnings(text, "xx") == []
    monkeypatch.setattr(languages_vaswani, "LanguageIdentifier", None)
    assert language_warnings(text, "en") == []


def test_the_pipeline_warns_about_the_text():
    model, tokenizer = load(tiny_checkpoint(), dtype="float32")
    translate = TranslationPipeline(model=model, tokenizer=tokenizer)
    warning = "the text seems to be in German, but the model translates from English"
    [record] = translate("Ich habe heute leider keine Zeit.", source_language="en", tries_again=False)
    assert warning in record["warnings"]
    assert "warnings" not in translate(next(iter(PAIRS)), source_language="en")[0]
