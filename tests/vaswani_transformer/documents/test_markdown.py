"""Markdown: which texts are translated, and that every byte outside them stays."""

import random
import re
from contextlib import suppress
from pathlib import Path

import pytest
from fake_pipeline import SENTENCE, count_calls, few, reversed_words, shouted, texts_of, unchanged
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from vaswani_transformer.documents import DocumentError


ROOT = Path(__file__).parents[3]
PARSE = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse
# An inline text: words, and words in marks.
MARKED = st.sampled_from(["{}", "**{}**", "_{}_", "*{}*", "~~{}~~", "`{}`", "[{}](/a)", '[{}](/a "b")', "![{}](/a)"])
MARKED |= st.sampled_from(["<b>{}</b>", "**a *{}***", "[**{}**](/a)", "[{}][ref]", "<http://a.b> {}", "{}<br>"])
INLINE = st.lists(st.builds(str.format, MARKED, SENTENCE), min_size=1, max_size=4).map(" ".join)


def blocks(text: str) -> list:
    """Returns the types of all tokens of a document, with what a reader does not see as text."""
    return [(token.type, token.tag, token.info, token.markup) for token in PARSE(text)]


@few
@given(st.lists(st.tuples(st.sampled_from(["", "# ", "## ", "- ", "1. ", "> ", "> - "]), SENTENCE), min_size=1))
def test_blocks_stay(parts):
    text = "".join(f"{mark}{sentence}\n\n" for mark, sentence in parts)
    assert unchanged(".md", text) == text
    seen = " ".join(texts_of(".md", text))
    assert all(sentence in seen for _, sentence in parts)


@few
@given(INLINE)
def test_inline_marks_stay(text):
    text = f"Start {text}\n\n[ref]: http://x.y\n"
    assert unchanged(".md", text) == text


@few
@given(INLINE)
def test_reversed_words_keep_the_same_inline_marks(text):
    text = f"Start {text}\n\n[ref]: http://x.y\n"

    def marks(document: str) -> list[str]:
        [inline] = [token for token in PARSE(document) if token.type == "inline"]
        return sorted(
            token.content if token.type in ("html_inline", "code_inline") else f"{token.type} {token.attrs}"
            for token in inline.children
            if token.type != "text"
        )

    assert marks(reversed_words(".md", text)) == marks(text)


@few
@given(st.lists(st.lists(SENTENCE, min_size=3, max_size=3), min_size=1, max_size=4))
def test_tables_stay(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    text = "\n".join([lines[0], "|---|:-:|--:|", *lines[1:], ""])
    assert unchanged(".md", text) == text
    assert sorted(texts_of(".md", text)) == sorted(cell for row in rows for cell in row)


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: one two\n---\n",
        "```python\nprint('one two')\n```\n",
        "~~~\none two\n~~~\n",
        "    one two\n",
        "+++\ntitle = 'one two'\n+++\n",
        "<script>\none two\n\nthree\n</script>\n",
        "<!-- one two -->\n",
        "$$\none two\n$$\n",
        "\\begin{align}\none two\n\\end{align}\n",
        "***\n",
        "import Tabs from '@theme/Tabs';\nimport {\n  One,\n  two\n} from 'x';\n",
        "export const one = () => {\n\n  two\n};\n",
        '{% include note.html id="one two" %}\n',
        "{% highlight ruby %}\none two\n{% endhighlight %}\n",
        "{{< highlight go >}}\none two\n{{< /highlight >}}\n",
        "{{< one two >}}\n",
        "{{< code-toggle file=x >}}\none = 'two'\n{{< /code-toggle >}}\n",
        "{: .one-two}\n",
        '--8<-- "one/two.md"\n',
        "--8<--\none.md\ntwo.md\n--8<--\n",
        "[TOC]\n",
        "[[one two]]\n",
        "![[one two.png]]\n",
        ":::\n",
        "::: one.two\n    options:\n      one: two\n",
        "```{code-block} one\ntwo\n```\n",
        ":::{toctree}\none\ntwo\n:::\n",
        "<https://one.two/three>\n",
        "https://one.two/three_four_five*\n",
    ],
)
def test_what_is_not_prose_is_not_translated(text):
    text = f"{text}\n# Title\n"
    assert texts_of(".md", text) == ["Title"]
    assert unchanged(".md", text) == text


@pytest.mark.parametrize(
    "text, expected",
    [
        ("A **bold** word\n", "word **bold** A\n"),
        ("See [the *big* page](/a 'T') now\n", "now [page *big* the](/a 'T') See\n"),
        ("Type `ls -l` now\n", "now `ls -l` Type\n"),
        ("See <http://a.b> now\n", "now <http://a.b> See\n"),
        ("Mail <me@a.b> now\n", "now <me@a.b> Mail\n"),
        ("One <b>two</b> three\n", "three <b>two</b> One\n"),
        ("One ![alt](/a.png) two\n", "two ![alt](/a.png) One\n"),
        ("One two\n===\n", "two One\n===\n"),
        ("> 1. one two\n", "> 1. two one\n"),
        ("# One two #\n", "# two One #\n"),
        ("| a b | c d |\n|---|---|\n| e f | a b |\n", "| b a | d c |\n|---|---|\n| f e | b a |\n"),
        ("| a \\| b |\n|---|\n", "| b \\| a |\n|---|\n"),
    ],
)
def test_words_move_with_their_marks(text, expected):
    assert reversed_words(".md", text) == expected


@pytest.mark.parametrize("text", ["one #\n", "one -\n", "one >\n", "*two *one\n", "b> a <\n", "`b a`` c\n"])
def test_a_translation_does_not_become_other_markup(text):
    after = reversed_words(".md", text)
    assert blocks(after) == blocks(text)
    [before], [inline] = ([t for t in PARSE(document) if t.type == "inline"] for document in (text, after))
    assert [child.type for child in inline.children] == ["text"]
    assert sorted(inline.children[0].content.replace(" ", "")) == sorted(before.children[0].content.replace(" ", ""))


def test_a_long_paragraph_is_wrapped_to_its_width_behind_its_marks():
    sentence = "one two three four five six seven eight nine ten"
    text = f"> - {sentence}\n>   {sentence}\n>   {sentence}\n"
    after = reversed_words(".md", text)
    lines = after.splitlines()
    assert all(line.startswith(("> - ", ">   ")) and len(line) <= len(sentence) + 4 for line in lines)
    assert blocks(after) == blocks(text)
    words = [word for line in lines for word in line[4:].split()]
    assert words == (sentence.split() * 3)[::-1]


@pytest.mark.parametrize("mark", ["12.", "+", "#", "1)"])
def test_no_wrapped_line_begins_a_block(mark):
    words = " ".join(f"word{i}" for i in range(7))
    for shift in range(3):  # so that the mark begins a line in one of them
        text = f"{words}\n{'x ' * shift}{words} {mark} {words}\n"
        assert blocks(reversed_words(".md", text)) == blocks(text)


def test_hard_line_breaks_stay():
    text = "one two\\\nthree four\n"
    assert unchanged(".md", text) == text
    assert reversed_words(".md", text) == "two one\\\nfour three\n"
    text = f"Straße\\\n{'ß ' * 60}two  \nthree\n"  # longer in capitals
    assert shouted(".md", text) == f"STRASSE\\\n{'SS ' * 60}TWO  \nTHREE\n"


def test_only_line_ends_end_lines():
    text = "One\x0ctwo\u2028three here.\n\n# A title\n\n```\ncode\n```\n"
    assert unchanged(".md", text) == text
    after = reversed_words(".md", text)
    assert "# title A" in after and "```\ncode\n```" in after


def test_labels_of_links_keep_their_spelling():
    text = "See [this page][My Ref] and ![that][my ref].\n\n[My Ref]: http://x.y\n"
    after = reversed_words(".md", text)
    assert "[page this][My Ref]" in after and after.endswith("[My Ref]: http://x.y\n")


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "docs/guide/texts.md"])
@pytest.mark.parametrize("translate", [unchanged, reversed_words])
def test_real_pages_keep_their_blocks_and_code(page, translate):
    before = (ROOT / page).read_text(encoding="utf-8")
    after = translate(".md", before)
    assert blocks(after) == blocks(before)
    for fence in re.findall(r"^```.*?^```", before, re.DOTALL | re.MULTILINE):
        assert fence in after


# Identity and shouting -----------------------------------------------------------------------------------------------


INDENTS = ["", "  ", "> ", "- ", "1. ", "   ", "\t", "    "]
PIECES = [
    "word",
    "Two words.",
    "**b** ",
    "*",
    "_i_",
    "`c d`",
    "[l](u 't')",
    "[r]",
    "![a *b*](i)",
    "<b>x</b>",
    "<br>",
    "<div>",
    "</div>",
    "&nbsp;",
    "\\*",
    "  \n",
    "\\\n",
    "| a | b |",
    "|---|---|",
    "\\|",
    "# h #",
    "===",
    "---",
    "```",
    "~~~ x",
    "{{ x }}",
    "{% y %}",
    "{#id}",
    "{",
    "}",
    "$x$",
    "$$",
    "$5",
    ":::tip T",
    ":::",
    '!!! note "T"',
    '=== "T"',
    "[^1]",
    "[^1]: n",
    "[r]: u 't'",
    ": def",
    "<!-- c -->",
    "-->",
    "[!NOTE]",
    "import a from 'b'",
    "<Tab x={1} label='L'>",
    "</Tab>",
    "<https://a.b>",
    "https://a.b/c_d_e.",
    "[[w]]",
    "\x00",
    "\x0b",
    "\u2028",
    "é",
    "--8<--",
    "[ ] t",
    "\t",
    "/// x | T",
    "+++",
]
LINES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(INDENTS), max_size=3).map("".join),
        st.lists(st.sampled_from(PIECES), max_size=4),
        st.sampled_from(["\n", "\n", "\n\n", "\r\n", "\r", ""]),
    ),
    max_size=12,
).map(lambda lines: "".join(indent + " ".join(pieces) + end for indent, pieces, end in lines))


@settings(max_examples=300)
@given(LINES, st.sampled_from([".md", ".mdx"]))
def test_any_document_comes_back(text, suffix):
    assert unchanged(suffix, text) == text


@pytest.mark.parametrize("blank", ["\xa0", "\v", "\f", "\u2028"])
@pytest.mark.parametrize(("before", "text"), [("", "word *a*"), ("> ", "> word *a*"), ("- ", "  word *a*\n  word")])
def test_a_paragraph_after_a_line_that_only_looks_blank(blank, before, text):
    document = f"{before}{blank}\n{text}\n"
    assert unchanged(".md", document) == document
    after = shouted(".md", document)
    assert "word" not in after and after.count("*A*") == 1 and after.lower().split() == document.split()


@settings(max_examples=150)
@given(LINES, st.sampled_from([".md", ".mdx"]))
def test_any_document_can_be_shouted_and_reversed(text, suffix):
    for translate in (shouted, reversed_words):
        after = translate(suffix, text)
        assert after.count("<https://a.b>") == text.count("<https://a.b>")
        assert isinstance(unchanged(suffix, after), str)


CAPITALS = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def skeleton(text: str) -> list:
    """Returns the tokens of a document with their addresses, but without words and line ends."""
    tokens = []
    for token in CAPITALS.parse(text):
        tokens.append((token.type, token.tag, token.markup))
        for child in token.children or []:
            if child.type not in ("text", "softbreak", "text_special"):
                address = child.attrs.get("href", child.attrs.get("src"))
                content = "" if child.type == "image" else child.content
                tokens.append((child.type, child.markup, address, content))
    return tokens


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["", "# ", "- ", "1. ", "> ", "> - "]), INLINE), min_size=1, max_size=4))
def test_shouting_keeps_the_structure(parts):
    text = "\n\n".join(f"{mark}Start {inline}" for mark, inline in parts) + "\n\n[ref]: http://x.y\n"
    after = shouted(".md", text)
    assert skeleton(after.replace("][REF]", "][ref]")) == skeleton(text)


# What documentation adds to CommonMark -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("See https://a.b/c_d_e?f=1&copy=2. Now\n", "SEE https://a.b/c_d_e?f=1&copy=2. NOW\n"),
        ("```{note} My title\n:class: x y\n\nText\n```\n", "```{note} MY TITLE\n:class: x y\n\nTEXT\n```\n"),
        ("[a]({{ '/b c' | url }}) d\n", "[A]({{ '/b c' | url }}) D\n"),
        ("![a]({{ '/b c' | url }})\n", "![A]({{ '/b c' | url }})\n"),
        ("Then\n{{< figure src='a b' title='A cat' >}}\n", "THEN\n{{< figure src='a b' title='A CAT' >}}\n"),
        ('A {% include x title="[a b](c)" %} b\n', 'A {% include x title="[A B](c)" %} B\n'),
        ('{% include x title="{{ a.b }}" %}\n', '{% include x title="{{ a.b }}" %}\n'),
        ("- [ ] to do\n- [x] done\n", "- [ ] TO DO\n- [x] DONE\n"),
        ("One[^1] two\n\n[^1]: A *note*\n", "ONE[^1] TWO\n\n[^1]: A *NOTE*\n"),
        ("Take $5 and $x^2$ or $10\n", "TAKE $5 AND $x^2$ OR $10\n"),
        ("Term\n: The text\n", "TERM\n: THE TEXT\n"),
        ("*[HTML]: Hyper text\n", "*[HTML]: HYPER TEXT\n"),
        ("&copy; a&nbsp;b &lt;i&gt; &amp; c\n", "&copy; A&nbsp;B &lt;I&gt; &amp; C\n"),
        ("5 \\* 3 snake\\_case here\n", "5 \\* 3 SNAKE\\_CASE HERE\n"),
        ("Run ` b ` and ``a`b``\n", "RUN ` b ` AND ``a`b``\n"),
        ("H<sub>2</sub>O and 5 m<sup>2</sup>\n", "H<sub>2</sub>O AND 5 M<sup>2</sup>\n"),
        ("Press <kbd>Ctrl</kbd>.\n", "PRESS <kbd>Ctrl</kbd>.\n"),
        ("[a b](c 'The \"d\"') x\n", "[A B](c 'THE \"D\"') X\n"),
        ("| a \\| b | <br>c |\n|---|---|\n", "| A \\| B | <br>C |\n|---|---|\n"),
        ("| a |\n|---|\n| <ul><li>b</li><li>c</li></ul> |\n", "| A |\n|---|\n| <ul><li>B</li><li>C</li></ul> |\n"),
        ("[r]: http://x.y 'One \\'two'\n", "[r]: http://x.y 'ONE \\'TWO'\n"),
        (
            "<details open>\n<summary>Click <b>me</b></summary>\n\nText *a*\n\n</details>\n",
            "<details open>\n<summary>CLICK <b>ME</b></summary>\n\nTEXT *A*\n\n</details>\n",
        ),
        (
            '<p>\n  <a href="x">\n    <img alt="A dog">\n  </a>\n  <img alt="A cat"></p>\n',
            '<p>\n  <a href="x">\n    <img alt="A DOG">\n  </a>\n  <img alt="A CAT"></p>\n',
        ),
        ("> [![A dog](x)](y)\n> [![A cat](x)](z)\n", "> [![A DOG](x)](y)\n> [![A CAT](x)](z)\n"),
        (
            '<p align=center>\n  <img src="a_b.png" alt="A dog">\n</p>\n',
            '<p align=center>\n  <img src="a_b.png" alt="A DOG">\n</p>\n',
        ),
        (
            '<a href="?a=1&copy=2&reg=3">One</a><p>two &eacute; \\*<p>three\n',
            '<a href="?a=1&copy=2&reg=3">ONE</a><p>TWO É \\*<p>THREE\n',
        ),
    ],
)
def test_only_words_change(text, expected):
    assert shouted(".md", text) == expected
    assert unchanged(".md", text) == text
    windows = text.replace("\n", "\r\n")
    assert shouted(".md", windows) == expected.replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Open {props.name} and {a + b} now\n", "OPEN {props.name} AND {a + b} NOW\n"),
        ("{a} and {b}\n", "{a} AND {b}\n"),
        ("{/* one\n\ntwo */}\n\nText\n", "{/* one\n\ntwo */}\n\nTEXT\n"),
        (
            "<Tab value='one two' label=\"Get started\">\nText\n</Tab>\n",
            "<Tab value='one two' label=\"GET STARTED\">\nTEXT\n</Tab>\n",
        ),
        (
            "<Card\n  title='Hi you'\n  run={() => {\n    go('a b');\n  }}\n/>\n",
            "<Card\n  title='HI YOU'\n  run={() => {\n    go('a b');\n  }}\n/>\n",
        ),
        ("Use <Tip text={x > 1}>a word</Tip> here\n", "USE <Tip text={x > 1}>A WORD</Tip> HERE\n"),
        ("<div>\n*Text*\n</div>\n", "<div>\n*TEXT*\n</div>\n"),
        ("<>\nText\n</>\n", "<>\nTEXT\n</>\n"),
    ],
)
def test_components_stay(text, expected):
    assert shouted(".mdx", text) == expected
    assert unchanged(".mdx", text) == text


def test_a_line_in_braces_is_prose_outside_mdx():
    assert shouted(".md", "Use {a + b} now\n") == "USE {A + B} NOW\n"


# Front matter and anchors --------------------------------------------------------------------------------------------


def test_chosen_keys_of_a_front_matter_are_translated():
    text = '---\n# c\ntitle: "One two"  # t\ntags: [a, b]\n---\nText\n'
    assert texts_of(".md", text) == ["Text"]
    assert shouted(".md", text, keys=["title"]) == '---\n# c\ntitle: "ONE TWO"  # t\ntags: [a, b]\n---\nTEXT\n'
    toml = '+++\ntitle = \'One "two"\' # t\n[params]\nnote = "a b"\n+++\nText\n'
    expected = '+++\ntitle = "ONE \\"TWO\\"" # t\n[params]\nnote = "A B"\n+++\nTEXT\n'
    assert shouted(".md", toml, keys=["title", "params.note"]) == expected


def test_a_break_at_the_top_is_not_a_front_matter():
    assert shouted(".md", "---\n\nOne two\n\n---\n") == "---\n\nONE TWO\n\n---\n"


@pytest.mark.parametrize(
    "heading, expected",
    [
        ("# The *first* `x_y`, title!", "# THE *FIRST* `x_y`, TITLE! {#the-first-x_y-title}"),
        ("## One two ##", "## ONE TWO {#one-two} ##"),
        ("One two\n===", "ONE TWO {#one-two}\n==="),
        ("# One {#two}", "# ONE {#two}"),
        ("# One\n\n# One", "# ONE {#one}\n\n# ONE {#one-1}"),
        ("# Über-Größe", "# ÜBER-GRÖSSE {#über-größe}"),
    ],
)
def test_headings_can_keep_their_anchors(heading, expected):
    assert shouted(".md", heading + "\n", keep_anchors=True) == expected + "\n"


# Characters that would be markup -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "this is _un_ kind\n",
        "a **(b)** c\n",
        "`a` *b* `\n",
        "a [b] (c)\n",
        "x | y\n",
        "b [a](x) !\n",
        "2 * 3 * 4 _\n",
        "end :::\n",
        "end import\n",
        "x $$\n",
        "word 1.\n",
        "a <b\n",
        "# one #two\n",
        "end [!NOTE]\n",
        "a ---\n",
        "a ===\n",
    ],
)
def test_reversed_words_stay_words(text):
    after = reversed_words(".md", text)
    assert blocks(after) == blocks(text)
    assert sorted(re.findall(r"\w+", after)) == sorted(re.findall(r"\w+", text))
    [before, new] = [sorted(" ".join(texts_of(".md", t)).split()) for t in (text, after)]
    assert sorted("".join(new)) == sorted("".join(before))


# Damage and time -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".md", ".mdx"])
def test_random_characters_are_a_document(suffix):
    rng = random.Random(1)
    for _ in range(150):
        text = "".join(rng.choice("ab *_`[]()<>!#{}$%:|\\\n\"'=-~/^&;x1.") for _ in range(rng.randrange(80)))
        assert unchanged(suffix, text) == text
        shouted(suffix, text)


def calls(text: str) -> int:
    """Returns how many Python functions are called to read a document and to write it."""

    def read_and_write():
        with suppress(DocumentError):  # nested too deeply
            shouted(".mdx", text)

    return count_calls(read_and_write)


@pytest.mark.parametrize(
    "piece",
    [
        "{{ ",
        "{% ",
        "{",
        "$a ",
        "$$\n",
        "[[",
        "![[",
        "[^",
        "<A b={",
        "<a ",
        "<a>",
        "</a>",
        '<a b="',
        ":::{x}\n",
        "```{note}\n",
        "https://a",
        ":a",
        "**a",
        "a*",
        "_a ",
        "[a](",
        "![",
        "`a",
        "\\",
        "&a;",
        "<!--",
        "--8<--\n",
        "{%highlight\n",
        "import {\n",
        "{a}\n\n",
        "export const a = {\n",
        "!!! x\n",
        "a\n",
        "a | ",
        "> ",
        "- a\n",
        "word ",
        "<br>",
        "<b>x</b>",
        "[a]: b\n",
        "x  \n",
        "| a |\n",
    ],
)
def test_time_is_linear(piece):
    once, twice = calls(piece * 150), calls(piece * 300)
    assert twice < 3 * once + 1000
