"""Inline markup carried over by alignments: nothing lost, nothing twice, always well-formed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_transformer.documents.inline import Element, Object, carried_over, flat, has_markup, text_of
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
    """Elements in brackets, objects in angles."""
    return "".join(
        node if isinstance(node, str)
        else f"<{node.origin}>" if isinstance(node, Object)
        else f"[{node.origin}:{shown(node.nodes)}]"
        for node in nodes
    )  # fmt: skip


def everything(nodes, kind) -> list:
    found = []
    for node in nodes:
        found += [node] if isinstance(node, kind) else []
        found += everything(getattr(node, "nodes", []), kind)
    return found


@settings(max_examples=200)
@given(NODES, st.data())
def test_text_and_objects_are_all_there_whatever_the_alignments(nodes, data):
    line = flat(nodes)
    assert all(line.text[a:b] for (a, b), _ in line.runs)
    names = data.draw(st.lists(st.sampled_from([*line.objects, "wort ", "und ", ". "]), max_size=8))
    translation = "".join(names)
    spans, of_source = words(translation), words(line.text)
    choose = st.sampled_from(of_source) if of_source else st.nothing()
    pairs = [(data.draw(choose), span) for span in spans] if of_source else []
    found = carried_over(line, translation, pairs)
    for name in line.objects:
        translation = translation.replace(name, "")
    assert text_of(Element(0, found)) == translation
    assert sorted(id(o) for o in everything(found, Object)) == sorted(id(o) for o in everything(nodes, Object))
    whole = [e.origin for e in everything(found, Element) if e.is_whole]
    originals = [e.origin for e in everything(nodes, Element) if e.is_whole]
    assert all(whole.count(origin) <= originals.count(origin) for origin in whole)


def carried(nodes, translation: str, pairs: str) -> str:
    """With words of the source and of the translation as numbers: "0-1 1-0"."""
    line = flat(nodes)
    source, target = words(line.text), words(translation)
    links = [tuple(map(int, pair.split("-"))) for pair in pairs.split()]
    return shown(carried_over(line, translation, [(source[i], target[j]) for i, j in links]))


def test_an_element_is_around_what_translates_its_words():
    nodes = ["The ", Element("b", ["red house"]), " is big."]
    assert carried(nodes, "La maison rouge est grande.", "0-0 2-1 1-2 3-3 4-4 5-5") == "La [b:maison rouge] est grande."


def test_elements_stay_in_each_other():
    nodes = [Element("a", ["see ", Element("b", ["this"]), " page"]), " now"]
    assert carried(nodes, "jetzt diese Seite sehen", "3-0 1-1 2-2 0-3") == "jetzt [a:[b:diese] Seite sehen]"


def test_one_that_must_be_whole_keeps_its_largest_part_and_others_are_repeated():
    nodes = ["I ", Element("x", ["take it off"]), " now"]
    for is_whole, wanted in ((True, "Ich nehme jetzt [x:es ab]"), (False, "Ich [x:nehme ]jetzt [x:es ab]")):
        nodes[1].is_whole = is_whole
        assert carried(nodes, "Ich nehme jetzt es ab", "0-0 1-1 4-2 2-3 3-4") == wanted


def test_an_element_without_a_word_is_put_where_it_stood():
    nodes = ["one two ", Element("a", ["three"])]
    assert carried(nodes, "eins zwei drei", "0-0 1-1 1-2") == "eins zwei [a:drei]"


def test_objects_have_placeholders_only_among_words():
    nodes = [Object("i"), "see ", Element("b", [Object("x"), "{0} and "]), Object("y"), "go", Object("z")]
    line = flat(nodes)
    assert line.text == "see {1}{0} and {2}go"
    assert shown(carried_over(line, line.text, [(s, s) for s in words(line.text)])) == "<i>see [b:<x>{0} and] <y>go<z>"


def test_plain_text_has_no_markup():
    assert not has_markup(["a", "b"]) and has_markup([Object(1)])
