"""HTML: which texts are translated, and that tags, attributes, scripts and comments stay."""

from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from fake_pipeline import SENTENCE, few, identity, reversed_words, texts_of, translated, unchanged
from hypothesis import given
from hypothesis import strategies as st


EXAMPLE = Path(__file__).with_name("examples").joinpath("example.html").read_text(encoding="utf-8")


def in_element(tag: str):
    return st.builds(lambda inner: f"<{tag}>{inner}</{tag}>", st.deferred(lambda: PHRASE))


OBJECT = st.sampled_from(['<img src="a.png">', "<code>x y</code>", "<!-- x -->", '<b translate="no">x y</b>'])
PHRASE = st.lists(SENTENCE | OBJECT | in_element("b") | in_element("em") | in_element("a"), min_size=1, max_size=3)
PHRASE = PHRASE.map(" ".join)
BLOCK = st.builds('<{0} class="a">{1}</{0}>\n'.format, st.sampled_from(["p", "h1", "li", "td", "div"]), PHRASE)


@few
@given(st.lists(BLOCK, min_size=1, max_size=4).map("".join))
def test_texts_with_inline_elements_stay(text):
    assert unchanged(".html", f"<!DOCTYPE html>\n<body>\n{text}</body>") == f"<!DOCTYPE html>\n<body>\n{text}</body>"


@few
@given(st.lists(BLOCK, min_size=1, max_size=4).map("".join))
def test_reversed_words_keep_all_elements(text):
    before, after = (BeautifulSoup(page, "html.parser") for page in (text, reversed_words(".html", text)))
    assert sorted(tag.name for tag in after.find_all(True)) == sorted(tag.name for tag in before.find_all(True))
    assert sorted(after.get_text().split()) == sorted(before.get_text().split()) or "<" in text


def test_a_page_keeps_its_code_attributes_and_structure():
    text = reversed_words(".html", EXAMPLE)
    after, before = BeautifulSoup(text, "html.parser"), BeautifulSoup(EXAMPLE, "html.parser")
    assert sorted(tag.name for tag in after.find_all(True)) == sorted(tag.name for tag in before.find_all(True))
    untouched = [
        'var a = "<b>";',
        "p { color: red }",
        "<code>ls</code>",
        "<pre>stays\n  here</pre>",
        "<!-- stays -->",
        '<p translate="no">Stays</p>',
        'href="/x?a=1&amp;b=2"',
        '<a name="top"></a>',
    ]
    assert [part for part in untouched if part not in text] == []
    assert "<em>morning</em> Good" in text and "two &lt; One" in text
    assert "<b><i>italic and</i> bold</b> A" in text


@pytest.mark.parametrize(
    "text, expected",
    [
        ('<img alt="one two">', '<img alt="two one">'),
        ('<a title="one two">x</a>', '<a title="two one">x</a>'),
        ('<input placeholder="one two">', '<input placeholder="two one">'),
        ('<p aria-label="one two">x</p>', '<p aria-label="two one">x</p>'),
        ('<b>x <img alt="one two"> y</b>', '<b>y <img alt="two one"> x</b>'),
        ("<title>one two</title>", "<title>two one</title>"),
        ('<meta name="description" content="one two">', '<meta name="description" content="two one">'),
        ('<meta property="og:title" content="one two">', '<meta property="og:title" content="two one">'),
        ("<select><option>one two</option></select>", "<select><option>two one</option></select>"),
        ("<p>one two<br>three four</p>", "<p>two one<br>four three</p>"),
        ("<div>one two<p>three four</p>five six</div>", "<div>two one<p>four three</p>six five</div>"),
        ("<span>one two<p>three four</p></span>", "<span>two one<p>four three</p></span>"),
        ("<p>one <kbd>x y</kbd> two</p>", "<p>two <kbd>x y</kbd> one</p>"),
        ("<p>H<sub>2</sub>O one</p>", "<p>one H<sub>2</sub>O</p>"),
        ('<p><img src="a"> one two <i></i></p>', '<p><img src="a"> two one <i></i></p>'),
    ],
)
def test_what_people_read_is_translated(text, expected):
    assert reversed_words(".html", text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "<script>one two</script>",
        "<style>one two</style>",
        "<pre>one two</pre>",
        "<code>one two</code>",
        "<textarea>one two</textarea>",
        "<!-- one two -->",
        '<p class="notranslate">one two <b>three</b></p>',
        '<div translate="no"><p title="one two">one two</p></div>',
        '<meta name="keywords" content="one two">',
        '<input value="one two">',
        '<a href="one two"></a>',
        '<img alt="  ">',
    ],
)
def test_code_and_protected_elements_are_not_translated(text):
    assert [seen for seen in texts_of(".html", text) if seen.strip()] == []
    assert unchanged(".html", text) == text


@pytest.mark.parametrize(
    "text",
    [
        '<p c="1" a="2" b="3">x</p>',
        '<p>a<br/>b</p><img src="x"/>',
        "<p>a<br />b</p>",
        "<input disabled>",
        '<input disabled="">',
        '<p title="a &amp; &quot;b&quot;">a &lt; b &amp; c</p>'.replace("&quot;", "'"),
        "<!DOCTYPE html>\n<p>a</p>\n\n",
        "<p>a\u00a0b \u2028 c</p>".replace(" \u2028 ", " "),
        "just text",
        "",
    ],
)
def test_the_way_a_page_is_written_stays(text):
    assert unchanged(".html", text) == text


def test_a_line_end_in_a_text_is_a_space():
    assert texts_of(".html", "<p>one\n  two\tthree</p>")[0] == "one two three"


def test_no_break_spaces_stay():
    assert unchanged(".html", "<p>10&nbsp;km &nbsp; far</p>") == "<p>10\u00a0km \u00a0 far</p>"


def test_the_page_names_its_new_language():
    translator = identity("de")
    assert '<html lang="de">' in translated(".html", EXAMPLE, translator)
    assert translated(".html", "<p>x</p>", translator) == "<p>x</p>"
