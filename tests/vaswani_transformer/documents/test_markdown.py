"""Markdown: which texts are translated, and that structure, marks, line ends and code stay."""

import re
from pathlib import Path

import pytest
from fake_pipeline import SENTENCE, few, reversed_words, texts_of, unchanged
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt


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
        "<div>one two</div>\n",
        "<!-- one two -->\n",
        "[ref]: http://x.y 'one two'\n",
        "***\n",
    ],
)
def test_code_front_matter_html_and_definitions_are_not_translated(text):
    text = f"{text}\n# Title\n"
    assert texts_of(".md", text) == ["Title"]
    assert unchanged(".md", text) == text


@pytest.mark.parametrize(
    "text, expected",
    [
        ("A **bold** word\n", "word **bold** A\n"),
        ("See [the *big* page](/a 'T') now\n", 'now [page *big* the](/a "T") See\n'),
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
