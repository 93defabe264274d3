"""Glossaries: which words they match, their file format, and their effect in the pipeline."""

import logging
import math

import pytest
from tiny_checkpoint import PAIRS, tiny_checkpoint

from vaswani_transformer import TranslationPipeline, load
from vaswani_transformer.model import lemmas_vaswani, pipeline_translation, texts_vaswani
from vaswani_transformer.model.glossary_vaswani import Glossary, are_kept, spellings
from vaswani_transformer.model.spans_vaswani import Replaced


@pytest.fixture(scope="module")
def translate():
    model, tokenizer = load(tiny_checkpoint(), dtype="float32")
    return TranslationPipeline(model=model, tokenizer=tokenizer)


@pytest.mark.parametrize(
    "text, terms_in_text",
    [
        ("My bank is the World Bank.", ["bank", "World Bank"]),
        ("Bank! BANK, banks; embankment", ["Bank", "BANK"]),
        ("the world bank", ["bank"]),
        ("C++ and C++11 use .NET and ASP.NET, not c++", ["C++", ".NET"]),
        ("a bank account, an account", ["bank account", "account"]),
        ("été, Été", ["été", "Été"]),
        ("", []),
    ],
)
def test_terms_are_whole_words(text, terms_in_text):
    terms = ["bank", "World Bank", "bank account", "account", "C++", ".NET", "été"]
    uses = Glossary(dict.fromkeys(terms, "x")).uses(text)
    assert [text[slice(*use.span)] for use in uses] == terms_in_text


def test_a_term_without_a_translation_stays_unchanged():
    [use] = Glossary({"bank": []}).uses("The Bank.")
    assert use == ((4, 8), ("Bank",), "bank")


@pytest.mark.parametrize(
    "language, terms, text, in_text",
    [
        ("en", ["valve"], "Valves, VALVES and a valve", ["Valves", "VALVES", "valve"]),
        ("en", ["policy", "child"], "policies, police, children", ["policies", "children"]),
        ("en", ["datasheet"], "datasheets", ["datasheets"]),
        ("en", ["bank", "order", "import"], "banking, ordered, important, orders", ["orders"]),
        ("en", ["bearing"], "It bears two bearings.", ["bearings"]),
        ("en", ["Apple", "PLC"], "apple, apples, Apples, Apple", ["Apple"]),
        ("en", ["pressure valve", "valve"], "pressure valves; pressure; valves", ["pressure valves", "valves"]),
        ("en", ["World Bank account"], "World Bank accounts, world bank accounts", ["World Bank accounts"]),
        ("en", ["C++"], "C++, C++11", ["C++"]),
        ("de", ["Ventil", "Haus"], "Ventile, Ventils, Häusern", ["Ventile", "Ventils", "Häusern"]),
        ("de", ["Bericht", "Lager"], "Wir berichten. Die Berichte, die Lage", ["Berichte"]),
        ("de", ["geschlossener Kreislauf"], "des geschlossenen  Kreislaufs", ["geschlossenen  Kreislaufs"]),
        ("fr", ["vanne", "journal", "devoir"], "Les vannes, journaux; il doit", ["vannes", "journaux"]),
        ("fr", ["robinet principal"], "robinets principaux", ["robinets principaux"]),
        ("xx", ["valve"], "valves, valve", ["valve"]),
        (None, ["valve"], "valves, valve", ["valve"]),
    ],
)
def test_terms_match_inflected_forms(language, terms, text, in_text):
    uses = Glossary(dict.fromkeys(terms, "x")).uses(text, language)
    assert [text[slice(*use.span)] for use in uses] == in_text


def test_the_exact_form_wins():
    glossary = Glossary({"valve": "a", "valves": "b", "Valves": "c"})
    assert [use.forms for use in glossary.uses("Valves, valves, valve, VALVE", "en")] == [
        ("c",),
        ("b",),
        ("a",),
        ("a",),
    ]


def test_without_its_library_terms_match_exactly_and_a_message_says_so(monkeypatch, caplog):
    monkeypatch.setattr(lemmas_vaswani, "simplemma", None)
    monkeypatch.setattr(lemmas_vaswani.logger, "warning_once", lemmas_vaswani.logger.warning)
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    assert [use.span for use in Glossary({"valve": "x"}).uses("valves, valve", "en")] == [(8, 13)]
    assert "pip install simplemma" in caplog.text


def test_two_uses_of_a_term_need_two_places():
    uses = Glossary({"bicycle": "Rad", "dog": ["Hund", "Hunde"]}).uses("bicycle, bicycle, dog, dog")
    assert are_kept(uses, "Rad, Raddampfer, Hunde Hund") == [True, False, True, True]
    assert are_kept(uses, "RAD, rad, HUND") == [True, False, True, False]


def test_the_counts_of_a_glossary_have_all_its_terms(translate):
    glossary = Glossary({"dogs": ["Katze", "Katzen"], "tree": "Baum", "ACME": []})
    records = translate(["Two dogs run.", "ACME dogs run. dogs run."], glossary=glossary, return_terms=True)
    assert records[0]["terms"] == [{"term": "dogs", "translation": "Katze", "is_kept": True}]
    counts = glossary.counts(records)
    assert [(count.term, count.translation, count.times_seen) for count in counts] == [
        ("dogs", "Katze|Katzen", 3),
        ("tree", "Baum", 0),
        ("ACME", "ACME", 1),
    ]
    assert all(count.times_kept + count.times_missed == count.times_seen for count in counts)
    [whole] = translate(["Two dogs run."], glossary=glossary, return_terms=True, split_sentences=False)
    assert whole["terms"] == records[0]["terms"]
    assert "terms" not in translate(["Two dogs run."], glossary=glossary, return_terms=True, return_tensors=True)[0]
    assert "terms" not in translate("Two dogs run.", glossary=glossary)[0]


def test_a_term_that_a_model_without_the_search_loses_is_a_warning(translate, monkeypatch):
    monkeypatch.setattr(pipeline_translation, "VaswaniGenerationMixin", type("Other", (), {}))
    [record] = translate("Two dogs run.", glossary={"dogs": "Quitte"}, return_terms=True)
    assert "Quitte" not in record["translation_text"]
    assert record["terms"] == [{"term": "dogs", "translation": "Quitte", "is_kept": False}]
    assert "Quitte is missing from the translation" in record["warnings"]


def test_unlikely_words_around_a_term_are_a_warning(translate, monkeypatch):
    monkeypatch.setattr(texts_vaswani, "MIN_LOG_PROB_AROUND_TERMS", 0.0)
    [record] = translate("Two dogs run.", glossary={"dogs": "Katze"})
    assert record["warnings"] == ["check this sentence: the words around the glossary's Katze are unlikely"]
    assert "warnings" not in translate("Two dogs run.", glossary={"cat": "Katze"})[0]
    monkeypatch.setattr(texts_vaswani, "MIN_LOG_PROB_AROUND_TERMS", -math.inf)
    assert "warnings" not in translate("Two dogs run.", glossary={"dogs": "Katze"})[0]


def test_forms_begin_sentences_too():
    assert spellings(["das Haus", "Häuser"]) == ["das Haus", "Das Haus", "Häuser"]


def test_a_file_has_a_term_in_a_line(tmp_path):
    file = tmp_path / "terms.tsv"
    file.write_bytes(
        "\ufeff# English\tGerman\r\nhouse|houses\tHaus | Häuser\r\n\r\nACME\r\nbig  house\tVilla\t\r\n".encode()
    )
    glossary = Glossary.from_file(file)
    assert glossary.forms == {
        "house": ("Haus", "Häuser"),
        "houses": ("Haus", "Häuser"),
        "ACME": (),
        "big house": ("Villa",),
    }
    assert len(glossary) == 4


@pytest.mark.parametrize(
    "content, message",
    [
        (b"a\tb\tc\n", "line 1: It has more than two columns"),
        (b"a\tb\n\tc\n", "line 2: A term of the glossary is empty"),
        (b"a\tb\na\tc\n", "line 2: The glossary has 'a' twice, with different"),
        (b"a\tb\xff\n", "not UTF-8"),
    ],
)
def test_an_invalid_file_is_refused(tmp_path, content, message):
    (tmp_path / "terms.tsv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Glossary.from_file(tmp_path / "terms.tsv")


def test_terms_are_in_the_translation_and_other_sentences_do_not_change(translate):
    sources, targets = list(PAIRS), list(PAIRS.values())
    glossary = {"dogs": ["Katze", "Katzen"], "bicycle": "altes Buch"}
    records = translate(sources, glossary=glossary)
    for source, target, record in zip(sources, targets, records, strict=True):
        text = record["translation_text"]
        if "dogs" in source:
            assert "Katze" in text
        elif "bicycle" in source:
            assert "altes buch" in text.lower()
        else:
            assert text == target
    assert translate(sources[1], glossary=Glossary(glossary))[0] == records[1]
    assert "Katze" in translate(" ".join(sources), glossary=glossary, num_beams=1)[0]["translation_text"]
    whole = translate(sources[1], glossary=glossary, split_sentences=False, return_scores=True, num_return_sequences=2)
    assert all("Katze" in record["translation_text"] for record in whole)


def test_a_translation_does_not_depend_on_the_other_sentences_of_its_batch(translate):
    """Not even if these have more terms, for which the search needs more beams."""
    sources = [source for source in PAIRS if " " in source]
    words = ["a", "man", "rides", "dogs", "woman", "long", "old", "park", "child", "sleeps", "and", "cat", "it"]
    glossary = dict(zip(words, ["langes", "Hallo", "Danke", "Katze", "alten", "liest"] * 3, strict=False))
    together = translate(sources, glossary=glossary, return_scores=True)
    for source, record in zip(sources, together, strict=True):
        [alone] = translate(source, glossary=glossary, return_scores=True)
        assert alone["translation_text"] == record["translation_text"]
        assert alone["score"] == pytest.approx(record["score"], abs=1e-4)


def test_a_glossary_of_the_pipeline_holds_for_its_calls(translate):
    glossary = {"dogs": "Katze"}
    with_glossary = TranslationPipeline(model=translate.model, tokenizer=translate.tokenizer, glossary=glossary)
    assert "Katze" in with_glossary("Two dogs run.")[0]["translation_text"]
    assert with_glossary("Two dogs run.", glossary=None)[0]["translation_text"] == PAIRS["Two dogs run."]


def test_alignments_refer_to_the_original_text(translate, monkeypatch):
    monkeypatch.setattr(
        translate.model.generation_config, "alignment_head", {"layer": 0, "head": 0, "when": "produced"}, raising=False
    )
    text = "Two dogs run."
    [record] = translate(text, glossary={"dogs": "langes Buch"}, return_alignments=True)
    for (a, b), (c, d) in record["alignments"]:
        assert text[a:b] in {"Two", "dogs", "run", "."}
        assert record["translation_text"][c:d].strip()


def test_spans_are_mapped_between_a_text_and_its_replacement():
    replaced = Replaced("My dog and my cat.", [((3, 6), "Hund"), ((14, 17), "K")])
    assert replaced.text == "My Hund and my K."
    assert replaced.in_original((0, 2)) == (0, 2)
    assert replaced.in_original((3, 7)) == replaced.in_original((4, 5)) == (3, 6)
    assert replaced.in_original((8, 11)) == (7, 10)
    assert replaced.in_original((16, 17)) == (17, 18)
    assert replaced.in_text((14, 17)) == (15, 16)
    assert replaced.in_text((0, 18)) == (0, 17)
