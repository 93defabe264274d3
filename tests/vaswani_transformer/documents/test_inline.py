"""Markup that follows its words: nothing is lost or repeated, and the result is always well-formed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_transformer.documents.inline import (
    Element,
    Object,
    close_tag,
    flatten,
    has_markup,
    text_of,
    transfer_markup,
    unwrap,
)
from vaswani_transformer.model.spans_vaswani import words


WORDS = st.sampled_from(["a ", "dog ", "runs, ", "so ", "{0} ", "x. ", " "])
NODES = st.recursive(
    st.lists(WORDS | st.integers(0, 99).map(Object), max_size=4),
    lambda inner: st.lists(
        WORDS | st.integers(0, 99).map(Object) | st.builds(Element, st.integers(0, 99), inner, st.booleans()),
        max_size=4,
    ),
    max_leaves=12,
)


def shown(nodes) -> str:
    """Returns nodes as text, with elements in square and objects in angle brackets."""
    parts = []
    for node in nodes:
        if isinstance(node, Element):
            parts.append(f"[{node.origin}:{shown(node.nodes)}]")
        else:
            parts.append(f"<{node.origin}>" if isinstance(node, Object) else node)
    return "".join(parts)


def everything(nodes, kind) -> list:
    """Returns all nodes of a kind, at any depth."""
    result = []
    for node in nodes:
        result += [node] if isinstance(node, kind) else []
        result += everything(getattr(node, "nodes", []), kind)
    return result


@settings(max_examples=200)
@given(NODES, st.data())
def test_no_alignment_loses_or_repeats_text_and_objects(nodes, data):
    line = flatten(nodes)
    assert all(line.text[a:b] for (a, b), _ in line.runs)
    translation = "".join(data.draw(st.lists(st.sampled_from([*line.objects, "wort ", "und ", ". "]), max_size=8)))
    targets, sources = words(translation), words(line.text)
    alignments = [(data.draw(st.sampled_from(sources)), target) for target in targets] if sources else []
    result = transfer_markup(line, translation, alignments)
    for placeholder in line.objects:
        translation = translation.replace(placeholder, "")
    before, after = ("".join(x for x, _ in side if isinstance(x, str)) for side in (line.before, line.after))
    assert text_of(Element(0, result)) == before + translation + after
    assert sorted(id(o) for o in everything(result, Object)) == sorted(id(o) for o in everything(nodes, Object))
    whole = [e.origin for e in everything(result, Element) if e.is_whole]
    originals = [e.origin for e in everything(nodes, Element) if e.is_whole]
    assert all(whole.count(origin) <= originals.count(origin) for origin in whole)


@settings(max_examples=200)
@given(NODES)
def test_an_identity_translation_keeps_text_and_objects_in_their_order(nodes):
    line = flatten(nodes)
    result = transfer_markup(line, line.text, [(span, span) for span in words(line.text)])
    assert [leaf for leaf in unnested(result)] == [leaf for leaf in unnested(nodes)]


def unnested(nodes) -> list:
    """Returns the strings and objects, with neighbouring strings joined."""
    leaves = []
    for node in nodes:
        for leaf in unnested(node.nodes) if isinstance(node, Element) else [node]:
            if isinstance(leaf, str) and leaves and isinstance(leaves[-1], str):
                leaves[-1] += leaf
            elif leaf != "":
                leaves.append(leaf)
    return leaves


def transferred(nodes, translation: str, pairs: str) -> str:
    """Transfers markup by pairs of word numbers, such as "0-1 1-0"."""
    line = flatten(nodes)
    source, target = words(line.text), words(translation)
    links = [tuple(map(int, pair.split("-"))) for pair in pairs.split()]
    return shown(transfer_markup(line, translation, [(source[i], target[j]) for i, j in links]))


def test_an_element_surrounds_the_translation_of_its_words():
    nodes = ["The ", Element("b", ["red house"]), " is big."]
    result = transferred(nodes, "La maison rouge est grande.", "0-0 2-1 1-2 3-3 4-4 5-5")
    assert result == "La [b:maison rouge] est grande."


def test_elements_stay_nested():
    nodes = [Element("a", ["see ", Element("b", ["this"]), " page"]), " now"]
    assert transferred(nodes, "jetzt diese Seite sehen", "3-0 1-1 2-2 0-3") == "jetzt [a:[b:diese] Seite sehen]"


@pytest.mark.parametrize(
    "is_whole, expected", [(True, "Ich nehme jetzt [x:es ab]"), (False, "Ich [x:nehme ]jetzt [x:es ab]")]
)
def test_a_split_element_keeps_its_largest_part_or_is_repeated(is_whole, expected):
    nodes = ["I ", Element("x", ["take it off"], is_whole), " now"]
    assert transferred(nodes, "Ich nehme jetzt es ab", "0-0 1-1 4-2 2-3 3-4") == expected


def test_an_element_without_translated_words_goes_to_its_relative_position():
    nodes = ["one two ", Element("a", ["three"])]
    assert transferred(nodes, "eins zwei drei", "0-0 1-1 1-2") == "eins zwei [a:drei]"


def test_a_link_ends_with_its_last_word_and_bold_extends_to_the_next_bold_word():
    nodes = [Element("b", ["one"], False), " ", Element("a", ["two"]), " three"]
    assert transferred(nodes, "one two three", "0-0 1-1 2-2") == "[b:one ][a:two] three"
    nodes = [Element("b", ["one two"], False), " three"]
    assert transferred(nodes, "eins zwei drei", "0-0 1-1 2-2") == "[b:eins zwei ]drei"


def test_a_copied_word_keeps_the_markup_inside_it():
    nodes = ["Drink H", Element("sub", ["2"]), "O now"]
    assert transferred(nodes, "Trink jetzt H2O", "0-0 2-1 1-2") == "Trink jetzt H[sub:2]O"
    assert transferred(nodes, "Trink jetzt H2O!", "0-0 2-1 1-2") == "Trink jetzt H[sub:2]O!"


def test_a_translated_word_takes_the_markup_of_its_beginning():
    assert (
        transferred([Element("b", ["un"]), "kind word"], "unfreundliches Wort", "0-0 1-1") == "[b:unfreundliches] Wort"
    )


def test_only_objects_among_words_have_placeholders():
    nodes = [Object("i"), "see ", Element("b", [Object("x"), "{0} and "]), Object("y"), "go", Object("z")]
    line = flatten(nodes)
    assert line.text == "see {1}{0} and {2}go"
    result = transfer_markup(line, line.text, [(span, span) for span in words(line.text)])
    assert shown(result) == "<i>see [b:<x>{0} and] <y>go<z>"


def test_a_lost_object_comes_last_and_a_repeated_placeholder_once():
    nodes = ["see ", Object("x"), " and ", Object("y"), " there", Object("z")]
    assert transferred(nodes, "siehe {1} und {1} dort", "0-0") == "siehe <y> und  dort<x><z>"


def test_outer_spaces_keep_their_place_beside_objects():
    nodes = [" ", Object("x"), "  ", "one", Element("b", [" ", Object("y")]), " "]
    line = flatten(nodes)
    assert line.text == "one"
    assert shown(transfer_markup(line, "eins", [((0, 3), (0, 4))])) == " <x>  eins[b: <y>] "


def test_text_without_words_has_no_line():
    nodes = [" ", Object("x"), "\v"]
    assert flatten(nodes).text == ""
    assert shown(transfer_markup(flatten(nodes), "", [])) == " <x>\v"


def test_plain_text_has_no_markup():
    assert not has_markup(["a", "b"]) and has_markup([Object(1)])


def nested(*tags: str) -> list:
    """Nests tags and words as the formats do."""
    top = Element(("", ""))
    stack = [top]
    for tag in tags:
        if tag.startswith("</"):
            if not close_tag(stack, tag):
                stack[-1].nodes.append(Object(tag))
        elif tag.startswith("<"):
            stack.append(Element((tag, f"</{tag[1:]}")))
            stack[-2].nodes.append(stack[-1])
        else:
            stack[-1].nodes.append(tag)
    unwrap(stack, 1)
    return top.nodes


@pytest.mark.parametrize(
    "tags, expected",
    [
        ("<i> a <b> b </b> c </i>", "[('<i>', '</i>'):a[('<b>', '</b>'):b]c]"),
        ("<i> a <b> b </i> c </b>", "[('<i>', '</i>'):a<<b>>b]c<</b>>"),
        ("<i> a <b> b", "<<i>>a<<b>>b"),
        ("a </i> b", "a<</i>>b"),
        ("<I> a </i>", "[('<I>', '</i>'):a]"),
    ],
)
def test_a_tag_without_a_partner_is_an_object(tags, expected):
    assert shown(nested(*tags.split())) == expected
