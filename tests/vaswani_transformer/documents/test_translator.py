"""DocumentTranslator: what it asks of the pipeline, and what it does with warnings and missing alignments."""

from fake_pipeline import Pipeline, identity, reversing

from vaswani_transformer.documents import DocumentTranslator
from vaswani_transformer.documents.inline import Element, Object
from vaswani_transformer.documents.translator import guess_alignments


BOLD = [["A ", Element("b", ["red"]), " house"]]


def shown(nodes) -> list:
    return [(node.origin, shown(node.nodes)) if isinstance(node, Element) else node for node in nodes]


def test_the_order_of_segments_stays_with_and_without_markup():
    segments = [["one two"], *BOLD, ["three four"], ["a ", Object("x"), " b"]]
    first, second, third, fourth = reversing()(segments)
    assert (first, third) == (["two one"], ["four three"])
    assert shown(second) == ["house ", ("b", ["red"]), " A"]
    assert [node.origin if isinstance(node, Object) else node for node in fourth] == ["b ", "x", " a"]


def test_alignments_are_requested_only_for_segments_with_markup():
    translator = identity()
    translator([["plain"], *BOLD])
    assert [call["return_alignments"] for call in translator.pipeline.settings] == [False, True]
    assert translator.pipeline.seen == ["plain", "A red house"]


def test_settings_and_progress_reach_the_pipeline():
    counts = []
    translator = DocumentTranslator(Pipeline(), settings={"num_beams": 2}, progress=counts.append)
    assert translator.texts(["one", "two"]) == ["one", "two"]
    assert all(call["num_beams"] == 2 for call in translator.pipeline.settings)
    assert counts == [2, 0]


def test_a_checkpoint_that_cannot_align_is_not_asked_to():
    translator = identity()
    translator.pipeline.can_align = False
    translator.pipeline.record = lambda text: {"translation_text": "ein rotes Haus"}
    [nodes] = translator(BOLD)
    assert not any(call["return_alignments"] for call in translator.pipeline.settings)
    assert shown(nodes) == ["ein ", ("b", ["rotes"]), " Haus"]


def test_guessed_alignments_go_by_position():
    assert guess_alignments("a b", "c d e f") == [
        ((0, 1), (0, 1)),
        ((0, 1), (2, 3)),
        ((2, 3), (4, 5)),
        ((2, 3), (6, 7)),
    ]
    assert guess_alignments("a b c d", "e f") == [((0, 1), (0, 1)), ((4, 5), (2, 3))]
    assert guess_alignments("", "a") == guess_alignments("a", "") == []


def test_warnings_quote_their_text_once():
    translator = identity()
    record = translator.pipeline.record
    known = {"one": ["empty"], "two. three.": ['"three.": empty', "odd"]}
    translator.pipeline.record = lambda text: record(text) | {"warnings": known.get(text, [])}
    _, warnings = translator.with_warnings([["one"], ["fine"], ["two. three."]])
    assert warnings == [["empty"], [], ['"three.": empty', "odd"]]
    assert translator.warnings == ['"one": empty', '"three.": empty', '"two. three.": odd']
    translator.texts(["one"])
    assert translator.warnings[3:] == ['"one": empty']


def test_spaces_around_a_text_stay_and_are_not_translated():
    translator = reversing()
    assert translator([[" ", "one two", "  "], [" \t"]]) == [[" two one  "], [" \t"]]
    assert translator.pipeline.seen == ["one two", ""]
    assert translator.texts([" ", ""]) == [" ", ""]
