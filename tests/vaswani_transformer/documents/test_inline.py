"""Markup that follows its words: nothing is lost or repeated, and the result is always well-formed."""

import re

import pytest
from fake_pipeline import count_calls, shouted
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_transformer.documents.inline import (
    Element,
    Fixed,
    Node,
    Object,
    expanded,
    flatten,
    has_markup,
    join_texts,
    script,
    split_texts,
    text_of,
    transfer_markup,
)
from vaswani_transformer.model.spans_vaswani import words


LEAVES = (
    st.sampled_from(["a ", "dog ", "runs, ", "so ", "{0} ", "x. ", " ", "H", "é"])
    | st.integers(0, 99).map(Object)
    | st.builds(lambda number: script(number, ["2"]), st.integers(0, 99))
)
NODES = st.recursive(
    st.lists(LEAVES, max_size=4),
    lambda inner: st.lists(LEAVES | st.builds(Element, st.integers(0, 99), inner, st.booleans()), max_size=4),
    max_leaves=12,
)


def shown(nodes) -> str:
    """Returns nodes as text, with elements in square and objects in angle brackets."""
    parts = []
    for node in nodes:
        if isinstance(node, Element):
            parts.append(f"[{node.origin}:{shown(node.nodes)}]")
        elif isinstance(node, Fixed):
            parts.append(shown(node.nodes))
        else:
            parts.append(f"<{node.origin}>" if isinstance(node, Object) else node)
    return "".join(parts)


def markup(nodes) -> list:
    """Returns the origins of all elements and objects, at any depth."""
    result = []
    for node in nodes:
        if not isinstance(node, str):
            result += [] if isinstance(node, Fixed) else [(type(node).__name__, node.origin)]
            result += markup(getattr(node, "nodes", []))
    return sorted(result)


def translated(nodes: list[Node], translate) -> list[Node]:
    """Translates each text among the nodes with a function: line -> (translation, alignments)."""
    new = []
    for part in split_texts(nodes):
        line = flatten(part)
        new.append(transfer_markup(line, *translate(line))[0])
    return join_texts(nodes, iter(new))


def copied(line):
    return line.text, [(span, span) for span in words(line.text)]


@settings(max_examples=400)
@given(NODES, st.data())
def test_no_translation_loses_or_repeats_markup(nodes, data):
    def translate(line):
        assert all(line.text[a:b] for (a, b), _ in line.runs)
        choices = st.sampled_from([*line.objects, "wort ", "und ", ". "])
        translation = "".join(data.draw(st.lists(choices, max_size=8)))
        targets, sources = words(translation), words(line.text)
        alignments = [(data.draw(st.sampled_from(sources)), target) for target in targets] if sources else []
        return translation, alignments

    assert markup(translated(nodes, translate)) == markup(nodes)


@settings(max_examples=400)
@given(NODES, st.randoms())
def test_no_translation_loses_words(nodes, random):
    def reorder(line):
        placeholders = [match.span() for match in re.finditer(r"\{\d\}", line.text)]
        spans = [span for span in words(line.text) if not any(a <= span[0] < b for a, b in placeholders)]
        spans += placeholders
        random.shuffle(spans)
        translation, alignments = "", []
        for begin, end in spans:
            alignments.append(((begin, end), (len(translation), len(translation) + end - begin)))
            translation += line.text[begin:end] + " "
        return translation, alignments

    def characters(nodes) -> list[str]:
        return sorted(c for node in nodes for c in all_text(node) if not c.isspace())

    def all_text(node) -> str:
        return node if isinstance(node, str) else "".join(map(all_text, getattr(node, "nodes", ())))

    assert characters(translated(nodes, reorder)) == characters(nodes)


@settings(max_examples=400)
@given(NODES)
def test_a_copied_text_keeps_its_markup(nodes):
    assert shown(join_texts(nodes, iter(split_texts(nodes)))) == shown(nodes)


def transferred(nodes, translation: str, pairs: str) -> str:
    """Transfers markup by pairs of word numbers, such as "0-1 1-0"."""
    return shown(transfer(nodes, translation, pairs)[0])


def transfer(nodes, translation: str, pairs: str):
    line = flatten(nodes)
    source, target = words(line.text), words(translation)
    links = [tuple(map(int, pair.split("-"))) for pair in pairs.split()]
    return transfer_markup(line, translation, [(source[i], target[j]) for i, j in links])


def test_an_element_surrounds_the_translation_of_its_words():
    nodes = ["The ", Element("b", ["red house"]), " is big."]
    result = transferred(nodes, "La maison rouge est grande.", "0-0 2-1 1-2 3-3 4-4 5-5")
    assert result == "La [b:maison rouge] est grande."


def test_elements_stay_nested():
    nodes = [Element("a", ["see ", Element("b", ["this"]), " page"]), " now"]
    assert transferred(nodes, "jetzt diese Seite sehen", "3-0 1-1 2-2 0-3") == "jetzt [a:[b:diese] Seite sehen]"


def test_an_element_whose_words_move_apart_keeps_most_of_them():
    nodes = ["I ", Element("x", ["take it off"]), " now"]
    assert transferred(nodes, "Ich nehme es jetzt ab", "0-0 1-1 2-2 4-3 3-4") == "Ich [x:nehme es] jetzt ab"


def test_an_element_without_translated_words_goes_to_the_nearest_word_and_is_reported():
    nodes = ["one two ", Element("a", ["three"])]
    result, lost = transfer(nodes, "eins zwei drei", "0-0 1-1 1-2")
    assert shown(result) == "eins zwei [a:drei]"
    assert [(text_of(element), place) for element, place in lost] == [("three", "moved")]


def test_an_element_never_wraps_a_mark_alone():
    nodes = ["See ", Element("a", ["here"]), ", please."]
    assert transferred(nodes, "Bitte siehe, hier.", "3-0 0-1 1-2 2-2 4-4") == "Bitte [a:siehe], hier."


def test_a_mark_takes_the_markup_of_marks_only():
    nodes = ["A ", Element("b", ["red"]), ", big ", Element("i", ["house!"]), " here"]
    result = transferred(nodes, "Hier ein rot, großes Haus!", "6-0 0-1 1-2 1-3 3-4 4-5 4-6 5-6")
    assert result == "Hier ein [b:rot], großes [i:Haus!]"


def test_a_word_apart_from_its_element_joins_a_neighbour_with_the_same_markup():
    nodes = [Element("x", ["Now "]), Element("y", ["a man"]), Element("x", [" is reading a book"])]
    result = transferred(nodes, "Jetzt liest ein Mann ein Buch", "0-0 4-1 1-2 2-3 5-4 6-5")
    assert result == "[x:Jetzt liest] [y:ein Mann] [x:ein Buch]"
    nodes[2].origin = "z"
    result = transferred(nodes, "Jetzt liest ein Mann ein Buch", "0-0 4-1 1-2 2-3 5-4 6-5")
    assert result == "[x:Jetzt] liest [y:ein Mann] [z:ein Buch]"


def test_an_element_takes_a_word_of_a_neighbour_if_all_words_have_markup():
    nodes = [Element("b", ["Sign"]), " ", Element("a", ["up"])]
    assert transferred(nodes, "Jetzt anmelden", "0-0 0-1") == "[b:Jetzt] [a:anmelden]"


def test_an_element_keeps_its_words_if_the_translation_has_no_word_for_it():
    nodes = [Element("b", ["Sign"]), " ", Element("a", ["up"])]
    result, lost = transfer(nodes, "Anmelden", "0-0 1-0")
    assert shown(result) == "[b:Anmelden] [a:up]"
    assert [(element.origin, place) for element, place in lost] == [("a", "untranslated")]


def test_links_side_by_side_are_texts_of_their_own():
    nodes = [Element("a", ["Previous"], is_link=True), " | ", Element("b", [Element("i", ["Next"])], is_link=True)]
    assert split_texts(nodes) == [["Previous"], ["Next"]]
    assert shown(join_texts(nodes, iter([["Zurück"], ["Weiter"]]))) == "[a:Zurück] | [b:[i:Weiter]]"


def test_markup_around_a_whole_text_stays_around_it():
    nodes = [" ", Object("icon"), Element("b", [" ", Element("i", ["Two dogs. ", Object("x")])]), "."]
    assert split_texts(nodes) == [["Two dogs."]]
    assert shown(join_texts(nodes, iter([["Zwei Hunde."]]))) == " <icon>[b: [i:Zwei Hunde. <x>]]."


def test_marks_before_the_first_word_belong_to_the_text():
    nodes = ["«", Element("b", ["Yes"]), "», he said."]
    assert flatten(split_texts(nodes)[0]).text == "«Yes», he said."


def test_code_before_the_first_word_belongs_to_the_text():
    nodes = [Object("ls", is_word=True), " lists files."]
    assert flatten(split_texts(nodes)[0]).text == "{0} lists files."
    nodes[0].is_word = False
    assert flatten(split_texts(nodes)[0]).text == "lists files."


def test_texts_of_markup_are_translated_by_themselves():
    image = Object("img", texts=[["A cat"]])
    nodes = ["See ", Element("a", [image, "this"], texts=[["The title"]]), "."]
    assert split_texts(nodes)[1:] == [["The title"], ["A cat"]]
    line = flatten(split_texts(nodes)[0])
    main, _ = transfer_markup(line, "Siehe {0}dies.", [((4, 11), (6, 10))])
    [_, link, _] = join_texts(nodes, iter([main, ["Der Titel"], ["Eine Katze"]]))
    assert link.texts == [["Der Titel"]]
    assert [node.texts for node in link.nodes if isinstance(node, Object)] == [[["Eine Katze"]]]


@pytest.mark.parametrize("mark", ["2", "1", "*", "st", "er", "TM"])
def test_a_script_that_is_a_number_or_a_mark_belongs_to_its_word(mark):
    node = script("sup", [mark])
    assert isinstance(node, Element) == (mark == "TM")


def test_a_glued_object_follows_the_translation_of_its_word():
    nodes = ["The man", script("sup", ["1"]), " opens 5 m", script("sup", ["2"]), " now."]
    line = flatten(nodes)
    assert line.text == "The man opens 5 m now."
    result = transferred(nodes, "Jetzt öffnet der Mann 5 m.", "5-0 2-1 0-2 1-3 3-4 4-5 6-6")
    assert result == "Jetzt öffnet der Mann[sup:1] 5 m[sup:2]."


def test_a_glued_object_in_markup_stays_in_it():
    nodes = ["Take ", Element("b", ["five m", script("sup", ["2"])]), " now"]
    assert transferred(nodes, "Jetzt fünf m nehmen", "0-3 1-1 2-2 3-0") == "Jetzt [b:fünf m[sup:2]] nehmen"
    nodes = [Element("b", ["Five houses"]), script("sup", ["2"]), " stand."]
    assert transferred(nodes, "Fünf Häuser stehen.", "0-0 1-1 2-2 3-3") == "[b:Fünf Häuser][sup:2] stehen."


def test_a_word_with_an_index_inside_it_stays_as_it_is():
    nodes = ["Drink C", script("sub", ["6"]), "H", script("sub", ["12"]), "O", script("sub", ["6"]), " now"]
    line = flatten(nodes)
    assert line.text == "Drink {0} now"
    assert transferred(nodes, "Trink jetzt {0}", "0-0 2-1") == "Trink jetzt C[sub:6]H[sub:12]O[sub:6]"


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (["two", Fixed([Object("note")], is_glued=True), "6 now"], "two now"),
        (["two", Fixed([Object("note")], is_glued=True), "and now"], "two{0}and now"),
        ([Element("b", ["two"]), Fixed([Object("note")], is_glued=True), "and now"], "two{0}and now"),
        (["猫", Fixed([Object("note")], is_glued=True), "です"], "猫です"),
    ],
)
def test_the_mark_of_a_footnote_is_not_an_index(nodes, text):
    assert flatten(nodes).text == text
    assert shown(expanded(transfer_markup(flatten(nodes), text, [])[0])).count("<note>") == 1


def test_a_copied_word_keeps_the_markup_inside_it():
    nodes = ["Use Type", Element("i", ["Script"]), " now"]
    assert transferred(nodes, "Nutze jetzt TypeScript!", "0-0 2-1 1-2") == "Nutze jetzt Type[i:Script]!"


def test_a_translated_word_takes_the_markup_inside_it():
    nodes = ["un", Element("b", ["kind"]), " word"]
    assert transferred(nodes, "unfreundliches Wort", "0-0 1-1") == "[b:unfreundliches] Wort"


def test_placeholders_differ_from_the_text():
    line = flatten(["see ", Element("b", [Object("x"), "{0} and "]), Object("y"), Object("z"), "go"])
    assert line.text == "see {1}{0} and {2}go"


def test_an_object_without_its_placeholder_follows_the_word_it_followed():
    nodes = ["see ", Object("x"), " and ", Object("y"), " there"]
    assert transferred(nodes, "siehe {1} dort {1}", "0-0") == "siehe <x> <y> dort "


def test_plain_text_has_no_markup():
    assert not has_markup(["a", "b"]) and has_markup([Object(1)])


@pytest.mark.parametrize("shape", ["<b>word</b> ", "<b>word</b> <i>word</i> ", "word <b>two <i>words</i></b> "])
def test_many_formats_in_a_paragraph_take_linear_time(shape):
    def steps(number: int) -> int:
        return count_calls(lambda: shouted(".html", f"<p>{shape * number}</p>"))

    assert steps(200) < 3 * steps(100) + 100
