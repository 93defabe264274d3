"""JSON and YAML: which texts are translated, by keys, and that everything else stays."""

import json
import re

import pytest
import yaml
from fake_pipeline import SENTENCE, Shouting, few, identity, reversed_words, shouted, texts_of, translated, unchanged
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.documents.data import BOOLEAN, is_chosen
from vaswani_transformer.documents.inline import flatten, join_texts, split_texts
from vaswani_transformer.documents.messages import as_nodes, as_text
from vaswani_transformer.documents.translator import with_markup


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def values_with(texts):
    """Returns values of all types with these texts."""
    return st.recursive(
        st.none() | st.booleans() | st.integers() | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=8,
    )


def strings_in(value) -> list[str]:
    if isinstance(value, str):
        return [value]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for child in children for text in strings_in(child)]


# JSON ----------------------------------------------------------------------------------------------------------------


@few
@given(values_with(ANY_TEXT), st.sampled_from([None, 2, "\t"]), st.booleans(), st.sampled_from(["", " ", "\n", "\r\n"]))
def test_any_json_comes_back(value, indent, ascii_only, around):
    text = around + json.dumps(value, indent=indent, ensure_ascii=ascii_only) + around
    assert unchanged(".json", text) == text
    assert strings_in(json.loads(shouted(".json", text))) == [capitals(old) for old in strings_in(value)]


def capitals(text: str) -> str:
    """Returns a text as a shouting translator writes it."""
    nodes = as_nodes(text)
    new = (with_markup(part, flatten(part), Shouting().record(flatten(part).text)) for part in split_texts(nodes))
    return as_text(join_texts(nodes, (piece.nodes for piece in new)))


@pytest.mark.parametrize(
    "text",
    [
        r'"a\/b c"',
        r'"a \u00E9 b"',
        r'"é \u2026 b"',
        r'"\ud83d\ude00 a"',
        '{"a" : "b c" ,"a":"d e"}',
        '[1e5, -0.0, NaN, 1.50, "a b"]',
        '{"k\\"": "a b", "": "c"}',
        '{"a": {}, "b": [[], [""]]}\n\n',
    ],
)
def test_the_way_json_is_written_stays(text):
    assert unchanged(".json", text) == text


@pytest.mark.parametrize(
    "text, expected",
    [
        (r'"a \u00e9"', r'"\u00e9 a"'),
        ('"a é"', '"é a"'),
        ('{"a b": "c d"}', '{"a b": "d c"}'),
        ('{"a": "b c", "a": "d e"}', '{"a": "c b", "a": "e d"}'),
        ('"one two\\nthree four"', '"two one\\nfour three"'),
        (r'"one \" two"', r'"two \" one"'),
    ],
)
def test_texts_of_json_are_translated_and_escaped_as_before(text, expected):
    assert reversed_words(".json", text) == expected


@pytest.mark.parametrize(
    "keys, expected",
    [
        ([], {"title": "two one", "menu": {"text": "two one", "items": ["two one"]}}),
        (["title"], {"title": "two one", "menu": {"text": "one two", "items": ["one two"]}}),
        (["text"], {"title": "one two", "menu": {"text": "two one", "items": ["one two"]}}),
        (["menu.*"], {"title": "one two", "menu": {"text": "two one", "items": ["two one"]}}),
        (["menu.items.0", "t*"], {"title": "two one", "menu": {"text": "two one", "items": ["two one"]}}),
        (["none"], {"title": "one two", "menu": {"text": "one two", "items": ["one two"]}}),
    ],
)
def test_keys_choose_texts(keys, expected):
    data = {"title": "one two", "menu": {"text": "one two", "items": ["one two"]}}
    assert json.loads(reversed_words(".json", json.dumps(data), keys=keys)) == expected
    assert yaml.safe_load(reversed_words(".yaml", yaml.safe_dump(data, sort_keys=False), keys=keys)) == expected


def test_patterns_match_the_path_or_the_last_key_with_its_case():
    assert is_chosen("a.b.title", ["title"]) and is_chosen("a.b.title", ["a.*.title"]) and is_chosen("", [])
    assert not is_chosen("a.Title", ["title"]) and not is_chosen("title.b", ["title"])


# YAML ----------------------------------------------------------------------------------------------------------------


@few
@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), SENTENCE, min_size=1, max_size=5))
def test_values_and_comments_of_yaml_stay(values):
    text = "# stays\n" + yaml.safe_dump(values, allow_unicode=True, sort_keys=False)
    assert unchanged(".yaml", text) == text


@few
@given(
    values_with(SENTENCE | ANY_TEXT.filter(lambda text: not re.search(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]", text))),
    st.sampled_from(["", '"', "'", "|", ">"]),
    st.sampled_from([None, False, True]),
    st.sampled_from([None, 4, 8]),
    st.sampled_from([20, 1000]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_yaml_comes_back_and_its_texts_are_translated(value, style, is_flow, indent, width, newline):
    settings = {"default_style": style or None, "default_flow_style": is_flow, "indent": indent, "width": width}
    text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, **settings).replace("\n", newline)
    assert unchanged(".yaml", text) == text
    old = yaml.safe_load(text)
    assert strings_in(yaml.safe_load(shouted(".yaml", text))) == [expected(text) for text in strings_in(old)]


def expected(text: str) -> str:
    return text if BOOLEAN.fullmatch(text) else capitals(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: \"x y\"\nb: 'x y'\nc: x y\nd: it's\ne: ''\nf:\n",
        "a: 012\nb: 0x1F\nc: 1_000\nd: 1.0\ne: 1e3\nf: yes\ng: 2020-01-01\nh: x y\n",
        "a: |\n  x y\n  z\nb: |-\n  x y\n",
        "a: [x y, 'z w']\nb: {c: d e}\n",
        "- x y\n- - z w\n  - 1\n",
        "a:\n- x y\n- z w\n",
        "a:\n  - x y\n  - b: z w\n",
        "---\na: x y\n",
        "a: x y\n---\nb: z w\n",
        "a: !tag x y\n",
        "a: &b\n  c: x y\nd: *b\n",
        "a:  # one\n  b: x y  # two\n\n  # three\n  c: z w\n# four\n",
        "a: x y\r\nb:\r\n  - z w\r\n",
        "# only a comment\n",
        "# first\n---\na: x y\n...\n---\n",
        "d: &d {a: x y}\nb:\n    <<: *d\n    c: z w\n",
        "a: &b x y\nc: *b\n",
        '{ "a" : x y ,  b: z w }\n',
        "a: |2\n    x y\n   z\nb: >+\n  z w\n  x\n\n\n",
        "a: 1\n\n\n# and no texts\nb:   [ 2,3 ]",
        "",
    ],
)
def test_the_way_yaml_is_written_stays(text):
    assert unchanged(".yaml", text) == text


def test_comments_keys_and_quotes_stay_around_translated_texts():
    text = "# one two\none two: 'three four'  # five six\nb: \"seven eight\"\n"
    expected = "# one two\none two: 'four three'  # five six\nb: \"eight seven\"\n"
    assert reversed_words(".yaml", text) == expected


def test_a_document_may_be_a_single_text():
    assert reversed_words(".yaml", "--- 'one two'\n").split() == ["---", "'two", "one'"]
    assert reversed_words(".json", '"one two"') == '"two one"'


def test_aliases_of_aliases_are_translated_once():
    pairs = zip("abcdefghijklm", "bcdefghijklmn", strict=True)
    lists = "".join(f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}]\n" for old, new in pairs)
    content = f'a: &a ["one two"]\n{lists}o: [*n]\n'  # n represents 4 ** 13 texts
    assert texts_of(".yaml", content) == ["one two"]
    assert reversed_words(".yaml", content) == content.replace("one two", "two one")


# Messages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "new"),
    [
        ("AT&T and R&D", "AT&T AND R&D"),
        ("Click <b>here</b> or [url=a]there[/url]", "CLICK <b>HERE</b> OR [url=a]THERE[/url]"),
        ("{n, plural, one {no end", "{N, PLURAL, ONE {NO END"),
        ("{n, plural, =0 {no} other {{n} of <b>all</b>}}", "{n, plural, =0 {NO} other {{n} OF <b>ALL</b>}}"),
    ],
)
def test_messages_keep_their_placeholders_and_frames(message, new):
    for suffix in (".json", ".yaml", ".arb"):
        assert json.loads(shouted(suffix, json.dumps({"a": message}))) == {"a": new}


@few
@given(st.text("{}<>/bi[]%s$#,&_ one plural", max_size=60))
def test_any_message_comes_back(message):
    assert as_text(as_nodes(message)) == message
    assert as_text(join_texts(as_nodes(message), iter(split_texts(as_nodes(message))))) == message


@pytest.mark.parametrize("word", ["No", "OFF", "y", "true"])
def test_words_that_yaml_reads_as_booleans_stay(word):
    assert shouted(".yaml", f"restart: {word}\nquoted: '{word}'\n") == f"restart: {word}\nquoted: '{word.upper()}'\n"


def test_a_translation_is_quoted_where_yaml_would_misread_it():
    for text, new in [("a b", "'No'"), ("c d", "'x: y'"), ("e f", "'- x'"), ("g h", "'12'"), ("i j", "'a #b'")]:
        translator = identity()
        translator.pipeline.record = lambda _, new=new: {"translation_text": new[1:-1]}
        assert translated(".yaml", f"k: {text}\n", translator) == f"k: {new}\n"


def test_metadata_of_arb_stays():
    content = '{"@@locale": "en", "hello": "Hello you", "@hello": {"description": "Says hello"}}'
    assert shouted(".arb", content) == content.replace("Hello you", "HELLO YOU")
