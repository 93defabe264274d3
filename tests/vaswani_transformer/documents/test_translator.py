"""DocumentTranslator: what it asks of the pipeline, and what it does with warnings and missing alignments."""

import pytest
from fake_pipeline import Pipeline, identity, reversing

from vaswani_transformer.documents import DocumentError, DocumentTranslator, Text
from vaswani_transformer.documents.inline import Element, Object
from vaswani_transformer.documents.translator import guess_alignments


BOLD = ["A ", Element("b", ["red"]), " house"]


def shown(nodes) -> list:
    return [
        (node.origin, shown(node.nodes)) if isinstance(node, Element) else getattr(node, "origin", node)
        for node in nodes
    ]


def translated(translator: DocumentTranslator, *texts: list) -> list[list]:
    return [shown(text.nodes) for text in translator([Text(nodes, "") for nodes in texts])]


def test_the_order_of_texts_stays_with_and_without_markup():
    texts = ["one two"], BOLD, ["three four"], ["a ", Object("x"), " b"]
    assert translated(reversing(), *texts) == [
        ["two one"],
        ["house ", ("b", ["red"]), " A"],
        ["four three"],
        ["b ", "x", " a"],
    ]


def test_alignments_are_requested_only_for_texts_with_markup():
    translator = identity()
    translated(translator, ["plain"], BOLD)
    assert [call["return_alignments"] for call in translator.pipeline.settings] == [False, True]
    assert translator.pipeline.seen == ["plain", "A red house"]


def test_settings_and_progress_reach_the_pipeline():
    counts = []
    translator = DocumentTranslator(Pipeline(), settings={"num_beams": 2}, progress=counts.append)
    assert translated(translator, ["one"], ["two"]) == [["one"], ["two"]]
    assert all(call["num_beams"] == 2 for call in translator.pipeline.settings)
    assert counts == [2, 0]


def test_a_checkpoint_that_cannot_align_is_not_asked_to():
    translator = identity()
    translator.pipeline.can_align = False
    translator.pipeline.record = lambda text: {"translation_text": "ein rotes Haus"}
    assert translated(translator, BOLD) == [["ein ", ("b", ["rotes"]), " Haus"]]
    assert not any(call["return_alignments"] for call in translator.pipeline.settings)


def test_guessed_alignments_go_by_position():
    assert guess_alignments("a b", "c d e f") == [
        ((0, 1), (0, 1)),
        ((0, 1), (2, 3)),
        ((2, 3), (4, 5)),
        ((2, 3), (6, 7)),
    ]
    assert guess_alignments("a b c d", "e f") == [((0, 1), (0, 1)), ((4, 5), (2, 3))]
    assert guess_alignments("", "a") == guess_alignments("a", "") == []


def test_warnings_name_the_place_and_quote_their_text_once():
    translator = identity()
    record = translator.pipeline.record
    known = {"one": ["empty"], "two. three.": ['"three.": empty', "odd"]}
    translator.pipeline.record = lambda text: record(text) | {"warnings": known.get(text, [])}
    new = translator([Text(["one"], "line 1"), Text(["fine"], "line 2"), Text(["two. three."], "")])
    assert [text.warnings for text in new] == [['"one": empty'], [], ['"three.": empty', '"two. three.": odd']]
    assert translator.warnings == ['line 1, "one": empty', '"three.": empty', '"two. three.": odd']


def test_markup_whose_words_are_lost_is_a_warning():
    translator = identity()
    translator.pipeline.record = lambda text: {"translation_text": "Haus", "alignments": [((6, 11), (0, 4))]}
    assert translated(translator, BOLD) == [[("b", ["Haus"])]]
    assert translator.warnings == ['"A red house": the markup of "red" is around the nearest word']


def test_words_that_stay_untranslated_are_a_warning():
    translator = identity()
    translator.pipeline.record = lambda text: {"translation_text": "Los", "alignments": [((0, 4), (0, 3))]}
    assert translated(translator, [Element("b", ["Sign"]), " ", Element("i", ["up"])]) == [
        [("b", ["Los"]), " ", ("i", ["up"])]
    ]
    assert translator.warnings == ['"Sign up": "up" stays untranslated']


def test_spaces_around_a_text_stay_and_are_not_translated():
    translator = reversing()
    assert translated(translator, [" ", "one two", "  "], [" \t"]) == [[" two one  "], [" \t"]]
    assert translator.pipeline.seen == ["one two"]


def test_the_terms_of_all_texts_are_collected():
    translator = identity()
    translator.pipeline.record = lambda text: {"translation_text": text, "terms": [{"term": text}]}
    translated(translator, ["one"], ["two"])
    assert translator.terms == [{"term": "one"}, {"term": "two"}]


def test_half_a_character_is_an_error():
    with pytest.raises(DocumentError, match=r"Half a character \(\\ud83d\) in the text"):
        translated(identity(), ["Open \ud83d"])
