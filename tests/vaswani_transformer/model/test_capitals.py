"""Texts in capitals, with the tokenizers and a model of the included checkpoints."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_transformer import TranslationPipeline, checkpoint_path, load
from vaswani_transformer.model import lemmas_vaswani
from vaswani_transformer.model.capitals_vaswani import (
    in_capitals,
    in_sentence_case,
    label_in_sentence_case,
    with_capital_start,
    without_stress,
)


@cache
def opened(name: str):
    return load(checkpoint_path(name))


def sentence_case(text: str, language: str = "en") -> str | None:
    name = "mini-en-de" if language == "en" else f"mini-{language}-en"
    recased = in_sentence_case(text, opened(name)[1], language)
    return recased and recased.text


@pytest.fixture(scope="module")
def translate():
    model, tokenizer = opened("mini-en-de")
    return TranslationPipeline(model=model, tokenizer=tokenizer, device="cpu")


@pytest.mark.parametrize(
    "language, text, wanted",
    [
        ("en", "WHERE IS THE TRAIN STATION?", "Where is the train station?"),
        ("en", "I LIVE IN LONDON.", "I live in London."),
        ("en", "DON'T PANIC!", "Don't panic!"),
        ("en", "WARNING", "Warning"),
        ("en", "THE USB PORT OF THE PC IS BROKEN", "The USB port of the PC is broken"),
        ("en", "MAX. LOAD 500 kg, OPEN 9AM", "Max. load 500 kg, open 9am"),
        ("en", "KEEP %s, {NAME}, <B>BOLD</B>, MY_VAR, HTTP://A.ORG/B", "Keep %s, {NAME}, <B>bold</B>, MY_VAR, HTTP://A.ORG/B"),
        ("en", "PLAN B FOR LOUIS XIV", "Plan B for Louis XIV"),
        ("en", "NATO AND THE EU LEFT IRAQ IN MARCH", "NATO and the EU left Iraq in March"),
        ("en", "MR. SMITH MAY MARCH ON 14 MARCH, AND DR. LEE?", "Mr. Smith may march on 14 March, and Dr. Lee?"),
        ("en", "OK, NO TV AT 5 PM", "OK, no TV at 5 PM"),
        ("en", "OPEN CONFIG.JSON AT WWW.EXAMPLE.ORG/HELP", "Open CONFIG.JSON at WWW.EXAMPLE.ORG/HELP"),
        ("en", "I'LL WAIT, WE'VE TIME", "I'll wait, we've time"),
        ("de", "AUSSAGE DER EU: DER HUND BEISST, BRD", "Aussage der EU: der Hund beißt, BRD"),
        ("fr", "L'OTAN A EU PEUR", "L'OTAN a eu peur"),
        ("de", "DIE STRASSE IST GESPERRT, DER ZUG FÄHRT", "Die Straße ist gesperrt, der Zug fährt"),
        ("de", "GROẞE STRAẞE", "Große Straße"),
        ("de", "DIE STRAßE WAR GROß", "Die Straße war groß"),
        ("de", "ICH HABE SIE GESEHEN", "Ich habe Sie gesehen"),
        ("fr", "L'ÉTÉ DERNIER, OÙ ÉTAIT-IL À CINQ HEURES ?", "L'été dernier, où était-il à cinq heures ?"),
        ("fr", "ETAT DES LIEUX", "État des lieux"),
        ("fr", "ACCES INTERDIT DU 15 AOUT AU 2 SEPTEMBRE", "Accès interdit du 15 août au 2 septembre"),
        ("fr", "OUVERT DE 9H A 17H, ENTREE A DROITE", "Ouvert de 9H à 17H, entrée à droite"),
        ("fr", "A LOUER : 45 m², IL A LA CLÉ", "À louer : 45 m², il a la clé"),
        ("fr", "PETER EST DEBOUT, OUI OU NON", "Peter est debout, oui ou non"),
        ("en", "20% OFF ALL SHOES", "20% off all shoes"),
    ],
)  # fmt: skip
def test_words_in_capitals_get_the_case_of_the_vocabulary(language, text, wanted):
    assert sentence_case(text, language) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "12", "I", "OK", "NASA", "USB", "HTTP", "USA! USA!", "CEO", "EU, UN, NATO",
     "Do NOT open this door.", "I work at NASA.", "It is A4.",
     "WARNING: Do not open this door", "The END", "MY_VAR {NAME} %S HTTP://A.ORG", "日本", "A", "Title Case Words"],
)  # fmt: skip
def test_other_texts_stay(text):
    assert sentence_case(text) is None


@pytest.mark.parametrize(
    "language, text, wanted",
    [
        ("en", "Please DO NOT reply to this e-mail.", "Please do not reply to this e-mail."),
        ("en", "NEVER touch it, you CAN’T!", "Never touch it, you can’t!"),
        ("de", "Bitte antworten Sie NICHT auf diese E-Mail.", "Bitte antworten Sie nicht auf diese E-Mail."),
        ("fr", "Merci de NE PAS répondre, JAMAIS.", "Merci de ne pas répondre, jamais."),
    ],
)
def test_stressed_words_get_the_case_of_a_sentence(language, text, wanted):
    assert without_stress(text, language).text == wanted


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", None])
def test_acronyms_and_keywords_are_not_stressed(language):
    text = "The NOT NULL column of the WHO in the US, IF NOT EXISTS, ALL_DAY, DO-NOT and NOT-A-NUMBER {NOT} `ALL`"
    assert without_stress(text, language) is None


@pytest.mark.parametrize(
    "language, text, wanted",
    [
        ("en", "WARNING: Do not open this door.", "Warning: Do not open this door."),
        ("en", "PLEASE NOTE: It is OK.", "Please note: It is OK."),
        ("de", "ACHTUNG, STUFE: Sie ist hoch.", "Achtung, Stufe: Sie ist hoch."),
        ("fr", "REMARQUE\u00a0: Nous sommes là.", "Remarque\u00a0: Nous sommes là."),
        ("en", "NATO: They met.", None),
        ("en", "Warning: Do NOT open: IT IS HOT.", None),
        ("en", "WARNING:DO not open.", None),
        ("en", ": it is", None),
        ("en", "WARNING", None),
    ],
)
def test_labels_get_the_case_of_a_sentence(language, text, wanted):
    name = "mini-en-de" if language == "en" else f"mini-{language}-en"
    recased = label_in_sentence_case(text, opened(name)[1], language)
    assert (recased and recased.text) == wanted


def test_the_label_of_a_translation_gets_capitals():
    assert in_capitals("Warnung: Fass es nicht an: es ist heiß.", "WARNING: Don't touch it: it is hot.").text == (
        "WARNUNG: Fass es nicht an: es ist heiß."
    )
    assert in_capitals("Fass es nicht an.", "WARNING: Don't touch it.").text == "Fass es nicht an."


def test_a_label_in_capitals_is_translated(translate):
    [plain] = translate("Warning: Do not open this door.")
    [label] = translate("WARNING: Do not open this door.", return_alignments=True)
    before, mark, after = plain["translation_text"].partition(":")
    assert label["translation_text"] == before.upper() + mark + after
    assert ((0, 7), (0, len(before))) in label["alignments"]


def test_stressed_terms_of_a_glossary_stay():
    assert without_stress("You must NOT use ALL.", "en", [(17, 20)]).text == "You must not use ALL."


def test_terms_of_a_glossary_stay():
    assert in_sentence_case("OPEN THE ACME BOX", opened("mini-en-de")[1], "en", [(9, 13)]).text == "Open the ACME box"


@pytest.mark.parametrize(
    "source, translation, wanted",
    [
        ("THE STREET", "Die Straße", "DIE STRASSE"),
        ("GROẞ", "Groß", "GROẞ"),
        ("SUMMER AT HOME", "L'été à la maison", "L'ÉTÉ À LA MAISON"),
        ("PAY 5 kg TO {name}, %s <b>A</b>", "{name} 5 kg zahlen, %s <b>x</b>", "{name} 5 kg ZAHLEN, %s <b>X</b>"),
        ("BUY AN iPhone AT http://a.org/b", "Kauf ein iPhone: http://a.org/b", "KAUF EIN iPhone: http://a.org/b"),
    ],
)  # fmt: skip
def test_the_translation_gets_capitals_and_items_stay(source, translation, wanted):
    assert in_capitals(translation, source).text == wanted


@pytest.mark.parametrize(
    "source, translation, wanted",
    [
        ("König Karl kam.", "king Karl came.", "King Karl came."),
        ("« Écoute ! » dit-il.", "« listen! » he said.", "« Listen! » he said."),
        ("The iPhone is new.", "iPhone ist neu.", "iPhone ist neu."),
        ("Hund", "dog", "dog"),
        ("the dog", "der Hund", "der Hund"),
        ("In 2010 it was.", "2010 war es.", "2010 war es."),
        ("Zwölf Uhr", "12 o'clock", "12 o'clock"),
        ("", "", ""),
    ],
)
def test_a_translation_begins_with_a_capital_if_its_source_does(source, translation, wanted):
    assert with_capital_start(translation, source, "en").text == wanted


def test_other_languages_begin_as_the_model_says():
    for language in ("af", None):
        assert with_capital_start("'n hond blaf.", "A dog barks.", language).text == "'n hond blaf."


PIECES = [
    "THE",
    "Straße",
    "STRASSE",
    "ß",
    "%s",
    "{a}",
    "I",
    "é",
    "É",
    "'",
    " ",
    " ",
    "ǅ",
    "ŉ",
    "5",
    "KG",
    "日",
    "USB",
    ".",
]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_only_the_case_of_a_text_changes(text):
    recased = in_sentence_case(text, opened("mini-de-en")[1], "de")
    if recased is not None:
        assert recased.text.upper() == recased.original.upper() == text.upper()
        assert all(text[slice(*old)].upper() == recased.text[slice(*new)].upper() for old, new in recased.places)
    assert in_capitals(text, "").text.upper() == text.upper()


def test_without_a_dictionary_unknown_words_keep_their_letters(monkeypatch):
    monkeypatch.setattr(lemmas_vaswani, "simplemma", None)
    assert sentence_case("ETAT DES LIEUX", "fr") == "Etat des lieux"
    assert sentence_case("IT IS IRAQ") == "It is iraq"
    assert sentence_case("DER WEISSE HUND", "de") == "Der Weisse Hund"


# The pipeline --------------------------------------------------------------------------------------------------------


def test_a_text_in_capitals_is_translated_as_in_sentence_case(translate):
    [plain] = translate("The dog is in the house.")
    [capitals] = translate("THE DOG IS IN THE HOUSE.")
    assert capitals == {"translation_text": plain["translation_text"].upper()}
    [mixed] = translate("The dog is in the house. THE DOG IS IN THE HOUSE.\n# THE DOG IS IN THE HOUSE.")
    text = plain["translation_text"]
    assert mixed["translation_text"] == f"{text} {text.upper()}\n# {text.upper()}"


def test_alignments_and_confidences_are_of_the_words_in_capitals(translate):
    settings = dict(return_alignments=True, return_confidence=True, num_return_sequences=2)
    for source in ("The street is closed.", "I love you ❤️"):
        plain, capitals = translate(source, **settings), translate(source.upper(), **settings)
        assert len(plain) == len(capitals) == 2
        for record, upper in zip(plain, capitals, strict=True):
            texts = [(source, record["translation_text"]), (source.upper(), upper["translation_text"])]
            assert "ß" not in texts[1][1] and texts[1][1] == texts[0][1].upper()
            links, upper_links = (
                [(a[slice(*i)].upper(), b[slice(*j)].upper()) for i, j in x["alignments"]]
                for (a, b), x in zip(texts, (record, upper), strict=True)
            )
            assert upper_links == links
            words, upper_words = (
                [(b[slice(*span)].upper(), value) for span, value in x["word_confidences"]]
                for (_, b), x in zip(texts, (record, upper), strict=True)
            )
            assert upper_words == words
            assert upper["confidence"] == record["confidence"]


def test_a_glossary_works_in_capitals(translate):
    glossary = {"dog": "Dackel", "iPhone": [], "NASA": "NASA"}
    [record] = translate("THE DOG OF NASA HAS AN iPhone IN THE HOUSE.", glossary=glossary)
    assert all(word in record["translation_text"] for word in ("DACKEL", "NASA", "iPhone"))
    assert "warnings" not in record


def test_a_stressed_negation_is_translated(translate):
    stressed, plain = (translate(f"Please {words} reply to this e-mail.") for words in ("DO NOT", "do not"))
    assert stressed == plain
    assert "nicht" in stressed[0]["translation_text"]


def test_the_models_own_output_keeps_the_text_as_it_is(translate, monkeypatch):
    texts = []
    monkeypatch.setattr(translate, "preprocess", lambda sentence, **_: texts.append(sentence.model_input) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        translate("THE DOG IS IN THE HOUSE.", split_sentences=False)
    assert texts == ["THE DOG IS IN THE HOUSE."]
