"""HTML: which texts are translated, and that tags, attributes, scripts and comments stay."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from fake_pipeline import SENTENCE, count_calls, few, identity, reversed_words, shouted, texts_of, translated, unchanged
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_transformer.documents import Options
from vaswani_transformer.documents.html import read


EXAMPLE = Path(__file__).with_name("examples").joinpath("example.html").read_text(encoding="utf-8")


def in_element(tag: str):
    return st.builds(lambda inner: f"<{tag}>{inner}</{tag}>", st.deferred(lambda: PHRASE))


OBJECT = st.sampled_from(
    [
        '<img src="a.png" alt="a cat">',
        "<code>x y</code>",
        "<!-- x -->",
        '<b translate="no">x y</b>',
        "m<sup>2</sup>",
        "&nbsp;&copy; &amp &lt;x",
        "{{ name }}",
        "<br class=x>",
        "<wbr/>",
    ]
)
PHRASE = st.lists(SENTENCE | OBJECT | in_element("b") | in_element("em") | in_element("a"), min_size=1, max_size=3)
PHRASE = PHRASE.map(" ".join)
BLOCK = st.builds('<{0} class="a">{1}</{0}>\n'.format, st.sampled_from(["p", "h1", "li", "td", "div"]), PHRASE)


@few
@given(st.lists(BLOCK, min_size=1, max_size=4).map("".join))
def test_texts_with_inline_elements_stay(text):
    page = f"<!DOCTYPE html>\n<body>\n{text}</body>"
    assert unchanged(".html", page) == page
    assert skeleton(shouted(".html", page)) == skeleton(page)


def skeleton(page: str) -> list:
    """Returns the tags of a page in their order, as another parser reads them, with their addresses and classes."""
    tags = BeautifulSoup(page, "html5lib" if find_spec("html5lib") else "html.parser").find_all(True)
    return [(tag.name, tag.get("href"), tag.get("src"), tag.get("class"), tag.parent.name) for tag in tags]


PIECES = st.sampled_from(
    "<p> <P > </p> <b> </b> <i/class=x> </i> <a/href=?a=1&copy=2> </a> <br> <br/> <td> <li> <ul> </ul> "
    "<pre> </pre> <script> </script> <!-- --> <! <? </ < > & &amp; &copy &nbsp; <img/alt=cat> "
    '<sup> </sup> <span/translate=no> </span> {{ }} {% <x- <a" =" \' one two'.split(" ")
)


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=14), st.sampled_from(["", " ", "\n", "\r\n", "\t"]))
def test_any_soup_of_tags_comes_back(pieces, separator):
    page = separator.join(pieces)
    assert unchanged(".html", page) == page
    tags = "</?[a-zA-Z]"
    for change in (shouted, reversed_words):
        assert len(re.findall(tags, change(".html", page))) == len(re.findall(tags, page))


@few
@given(st.lists(BLOCK, min_size=1, max_size=4).map("".join))
def test_reversed_words_keep_all_elements(text):
    before, after = (BeautifulSoup(page, "html.parser") for page in (text, reversed_words(".html", text)))
    assert sorted(tag.name for tag in after.find_all(True)) == sorted(tag.name for tag in before.find_all(True))


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
        "<p>{{ one.two }}</p>",
        '<link rel="stylesheet" title="one two">',
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
        "<p class=x>a <B>b</B></p>",
        "<p>a\n b</p>",
        "<p>a<p>b<ul><li>c<li>d</ul><table><td>e<td>f",
        "<b>b <i>c</b> d</i>",
        '<a href="?a=1&copy=2&reg=3&lang=en">b</a>',
        "<p>&copy; &eacute; AT&T &#8217; &nbsp;x",
        "<a <a <a",
        '<p title="a b',
        "a <!-- b",
        "<p>10&nbsp;km &nbsp; far</p>",
        '<br class="x" clear="all">a<BR>',
    ],
)
def test_the_way_a_page_is_written_stays(text):
    assert unchanged(".html", text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<span>120 m</span><span class=a>2</span><span> of land</span>", "120 m of land"),
        ("120 m<span class=a>2</span> of land", "120 m of land"),
        ("<span>H</span><span class=a>2</span><span>O here</span>", "H2O here"),
        ("page <span>2</span> of it", "page 2 of it"),
    ],
)
def test_a_number_in_a_span_after_a_letter_is_an_index(text, expected):
    assert texts_of(".html", text) == [expected]
    assert unchanged(".html", text) == text
    assert shouted(".html", text) == re.sub(r"\b(?!(?:span|class|a)\b)\w+", lambda match: match[0].upper(), text)


def test_a_line_end_in_a_text_is_a_space():
    assert texts_of(".html", "<p>one\n  two\tthree</p>")[0] == "one two three"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>&copy; AT&T &#8217; 1 &lt; 2&nbsp;km", "<p>&copy; AT&T &#8217; 1 &lt; 2&nbsp;KM"),
        ("<input type=submit value='Send it'>", "<input type=submit value='SEND IT'>"),
        ("<p>one <kbd>x</kbd> <a title='a > b'>two</a>", "<p>ONE <kbd>x</kbd> <a title='A > B'>TWO</a>"),
        ("<title>a <b> c</title>", "<title>A &lt;B&gt; C</title>"),
        ("<p>\n  one\n</p>\n", "<p>\n  ONE\n</p>\n"),
        ("one\n<p> two <b>x </b>\n", "ONE\n<p> TWO <b>X </b>\n"),
    ],
)
def test_markup_stays_to_the_letter_where_words_change(text, expected):
    assert shouted(".html", text) == expected


def test_links_side_by_side_are_texts_of_their_own():
    assert texts_of(".html", "<a href=a>Home</a> <a href=b>About us</a>") == ["Home", "About us"]


@pytest.mark.parametrize("shape", ["<br ", '<a href="', "<!--", "<b>x ", "</", "<b>x</b> ", "&", "<p>x<a b=c", "{{ "])
def test_hostile_pages_are_read_in_linear_time(shape):
    def steps(number: int) -> int:
        return count_calls(lambda: read(shape * number, Options()))

    assert steps(800) < 3 * steps(400) + 100


def test_the_page_names_its_new_language():
    translator = identity("de")
    assert '<html lang="de">' in translated(".html", EXAMPLE, translator)
    assert translated(".html", "<p>x</p>", translator) == "<p>x</p>"
