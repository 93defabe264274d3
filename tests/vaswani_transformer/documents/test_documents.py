"""What all formats have in common: which module translates what, files, encodings, line ends, and damaged content."""

import random
import re
import sys
from pathlib import Path

import pytest
from fake_pipeline import WORD, few, identity, reversed_words, reversing, texts_of, translated, unchanged
from hypothesis import example, given
from hypothesis import strategies as st
from test_epub import epub
from test_opendocument import p as odt
from test_presentation import pptx
from test_spreadsheet import xlsx
from test_word import docx

from vaswani_transformer.documents import (
    FORMATS,
    SUFFIXES,
    DocumentError,
    translate_content,
    translate_document,
)


pytestmark = pytest.mark.quick

EXAMPLES = {path.suffix: path.read_bytes() for path in Path(__file__).parent.glob("examples/*")} | {
    ".docx": docx(),
    ".pptx": pptx("<a:r><a:t>one two</a:t></a:r>"),
    ".xlsx": xlsx("<si><t>one two</t></si>"),
    ".odt": odt("one two"),
    ".epub": epub("<p>one two</p>"),
}
TEXT_EXAMPLES = {suffix: content.decode() for suffix, content in EXAMPLES.items() if FORMATS[suffix].is_text}


def test_every_module_has_an_example():
    formats = {(row.module, row.function) for row in FORMATS.values()}
    assert {(FORMATS[suffix].module, FORMATS[suffix].function) for suffix in EXAMPLES} == formats


def test_the_guide_lists_every_suffix():
    guide = Path(__file__).parents[3].joinpath("docs/guide/documents.md").read_text(encoding="utf-8")
    listed = {suffix for row in re.findall(r"^\| (\..*?) \|", guide, re.MULTILINE) for suffix in row.split()}
    assert listed == set(SUFFIXES)


# Round trips ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", TEXT_EXAMPLES)
def test_an_identity_translation_keeps_every_byte(suffix):
    assert unchanged(suffix, TEXT_EXAMPLES[suffix]) == TEXT_EXAMPLES[suffix]


@pytest.mark.parametrize("suffix", sorted({*TEXT_EXAMPLES} - {".html"}))
def test_windows_line_ends_stay(suffix):
    text = TEXT_EXAMPLES[suffix].replace("\n", "\r\n")
    assert unchanged(suffix, text) == text


def test_windows_line_ends_inside_html_texts_become_spaces():
    text = TEXT_EXAMPLES[".html"].replace("\n", "\r\n")
    assert unchanged(".html", text).replace("\r\n", "\n") == TEXT_EXAMPLES[".html"]


@pytest.mark.parametrize("suffix", TEXT_EXAMPLES)
def test_a_byte_order_mark_stays(suffix):
    content = b"\xef\xbb\xbf" + EXAMPLES[suffix]
    assert unchanged(suffix, content) == content
    assert not any("\ufeff" in text for text in texts_of(suffix, content))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("suffix", TEXT_EXAMPLES)
def test_the_encoding_of_a_byte_order_mark_stays(suffix, encoding):
    content = ("\ufeff" + TEXT_EXAMPLES[suffix]).encode(encoding)
    assert unchanged(suffix, content) == content
    assert texts_of(suffix, content) == texts_of(suffix, TEXT_EXAMPLES[suffix])


@few
@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("\ufeff")
@example("a\r\n\r\n b \n\tc\n")
@example(" ")
def test_any_plain_text_comes_back(text):
    assert unchanged(".txt", text) == text


@pytest.mark.parametrize("suffix, template", [(".txt", "{}\n"), (".md", "{}\n"), (".html", "<p>{}</p>")])
@few
@given(words=st.lists(WORD, min_size=2, max_size=5))
def test_words_reversed_twice_are_the_original(suffix, template, words):
    text = template.format(" ".join(words))
    once = reversed_words(suffix, text)
    assert reversed_words(suffix, once) == text
    assert words == words[::-1] or once != text


def test_suffixes_may_be_in_capitals():
    assert translate_content(b"one two", "A.TXT", reversing()) == b"two one"


# Files ---------------------------------------------------------------------------------------------------------------


def test_a_file_is_translated_into_another(tmp_path):
    (tmp_path / "a.txt").write_text("one two\n")
    translate_document(str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), reversing())
    assert (tmp_path / "a.txt").read_text() == "one two\n"
    assert (tmp_path / "b.txt").read_text() == "two one\n"


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        translate_document(tmp_path / "a.txt", tmp_path / "b.txt", identity())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.xyz", b"", "a.xyz: unsupported document format. Supported: .arb, .docx, .epub, .htm"),
        ("noSuffix", b"", "noSuffix: unsupported document format."),
        ("a.pdf", b"%PDF", "a.pdf: unsupported document format. It stores letters at positions, not sentences."),
        ("a.rst", b"", "a.rst: unsupported document format. Convert it to Markdown first, e.g. with pandoc, or"),
        ("a.doc", b"", "a.doc: unsupported document format. Save it as .docx or .odt first. Supported: .arb, .docx"),
        ("a.docx", b"no zip", "a.docx: Not a Word document (.docx), or the file is damaged"),
        ("a.json", b"{", "a.json: Not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2"),
        ("a.json", b"[" * 100_000, "a.json: Not valid JSON: "),
        ("a.yaml", b"a: [", "a.yaml: Not valid YAML: while parsing a flow node"),
        ("a.srt", b"Hello", "a.srt: No cues: expected lines of times, such as 00:00:01,000 --> 00:00:04,000."),
        ("a.html", b"\x00", "a.html: Not an HTML file: it contains NUL characters."),
        ("a.xlf", b"<a>", "a.xlf: The file is not well-formed XML: no element found: line 1, column 3."),
        ("a.xlf", b"<a/>", "a.xlf: Not an XLIFF file: its outermost element is <a>."),
        ("a.tmx", b"Hello", "a.tmx: The file is not well-formed XML: syntax error: line 1, column 0."),
        ("a.po", b"Hello", "a.po: Line 1 is not gettext: Hello"),
        ("a.po", b"", "a.po: The file has no texts to translate."),
        ("a.tmx", b"<tmx/>", "a.tmx: The file has no texts to translate."),
        ("a.html", b"<b>x " * 3000 + b"</b>" * 3000, "a.html: the document is nested too deeply."),
        ("a.md", b"*" * 3000 + b"x" + b"*" * 3000, "a.md: the document is nested too deeply."),
        ("a.md", b"> " * 3000 + b"x", "a.md: the document is nested too deeply."),
        ("a.ipynb", b"[]", "a.ipynb: Not a notebook of version 4: it has no list of cells."),
        ("a.md", b"caf\xe9", "a.md is not UTF-8 (byte 0xe9 at position 3). Convert it first, e.g. with `iconv"),
        ("a.json", b"\xff\xfe{", "a.json is not UTF-8"),
    ],
)
def test_an_error_names_the_file_and_its_fault_and_leaves_the_output(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    output = tmp_path / f"out{Path(name).suffix}"
    output.write_bytes(b"before")
    with pytest.raises(DocumentError, match=f"^{re.escape(message)}"):
        translate_document(tmp_path / name, output, identity())
    assert output.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({name, output.name})


@pytest.mark.parametrize("suffix", sorted(suffix for suffix, row in FORMATS.items() if not row.has_keys))
def test_only_some_formats_have_keys(suffix):
    message = "keys can be chosen only in .arb, .json, .markdown, .md, .mdx, .properties, .strings, .yaml, .yml files"
    with pytest.raises(DocumentError, match=message):
        translated(suffix, b"", identity(), keys=["a"])


@pytest.mark.parametrize(
    "suffix, library, module",
    [
        (".md", "markdown_it", "markdown"),
        (".yaml", "ruamel.yaml", None),
    ],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch, suffix, library, module):
    monkeypatch.setitem(sys.modules, library, None)
    for name in list(sys.modules):
        if module and name.startswith(f"vaswani_transformer.documents.{module}"):
            monkeypatch.delitem(sys.modules, name)
    message = rf"^The format {suffix} needs {library}.*, which is not installed: pip install .*documents"
    with pytest.raises(DocumentError, match=message):
        unchanged(suffix, EXAMPLES[suffix])


@pytest.mark.parametrize("number", [60, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("suffix", EXAMPLES)
def test_a_damaged_file_gives_an_error_or_a_document(suffix, number):
    content, rng = EXAMPLES[suffix], random.Random(suffix)
    marks = [b"<", b">", b"*", b"[", b"]", b"\n", b"{", b"-->", b'"', b"`", b"|", b"&", b": "]
    for _ in range(number):
        damaged = bytearray(content)
        for _ in range(rng.randrange(1, 6)):
            kind, at = rng.randrange(4), rng.randrange(len(damaged) + 1)
            if kind == 0:
                damaged[at : at + rng.randrange(40)] = b""
            elif kind == 1:
                damaged[at:at] = bytes(rng.randrange(256) for _ in range(3))
            elif kind == 2:
                damaged[at:at] = rng.choice(marks)
            else:
                damaged[at:] = b""
        try:
            assert isinstance(translate_content(bytes(damaged), f"a{suffix}", reversing()), bytes)
        except DocumentError as error:
            assert str(error).startswith(f"a{suffix}")


@pytest.mark.parametrize(
    "suffix, content",
    [
        (".json", b'["a \\ud800"]'),
        (".json", b'{"a": "Two \\udc00 dogs"}'),
        (".yaml", b'- "a \\ud800"\n'),
        (
            ".po",
            b'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-7\\n"\n\nmsgid "+2AA- dogs"\nmsgstr ""\n',
        ),
    ],
)
def test_half_a_character_is_an_error(suffix, content):
    """JSON can contain the halves of a surrogate pair alone; no other format and no model can."""
    with pytest.raises(DocumentError, match=f"^a{suffix}: "):
        translate_content(content, f"a{suffix}", identity())
