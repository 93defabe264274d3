"""Any document that is translated into the same words is the same document, and every text of it is translated once."""

import io
import json

import pytest
import yaml
from bs4 import BeautifulSoup
from docx import Document
from fake_pipeline import turned_round, unchanged
from hypothesis import example, given, settings
from hypothesis import strategies as st
from translate.storage.pypo import pofile

from vaswani_transformer.documents import SUFFIXES, translate_content


# Words of one kind of script, and punctuation that no format takes for markup.
WORD = st.text(st.characters(categories=["Lu", "Ll", "Lo"], max_codepoint=0x2FFF), min_size=1, max_size=6)
SENTENCE = st.builds(
    lambda words, end: " ".join(words) + end,
    st.lists(WORD, min_size=1, max_size=5),
    st.sampled_from(["", ".", "?", ","]),
)
SENTENCES = st.lists(SENTENCE, min_size=1, max_size=5)


def same(suffix: str, text: str) -> str:
    """The document after a translation in which nothing changes."""
    return translate_content(text.encode(), f"file{suffix}", unchanged()).decode()


def seen(suffix: str, content: bytes) -> str:
    """All texts that were translated, one after the other."""
    translator = unchanged()
    translate_content(content, f"file{suffix}", translator)
    return " ".join(translator.pipeline.seen)


# Any text at all -----------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("\ufeff")
@example("a\r\n\r\n b \n\tc\n")
def test_any_plain_text_comes_back(text):
    assert same(".txt", text) == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_any_json_comes_back(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert json.loads(same(".json", text)) == value


# Texts in the places that a format has for them -----------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(["", "# ", "## ", "- ", "1. ", "> "]), SENTENCE), min_size=1, max_size=6))
def test_blocks_of_markdown_keep_their_marks(blocks):
    text = "".join(f"{mark}{sentence}\n\n" for mark, sentence in blocks)
    assert same(".md", text) == text
    for _, sentence in blocks:
        assert sentence in seen(".md", text.encode())


@given(st.lists(st.tuples(st.sampled_from(["p", "h1", "li", "td", "title"]), SENTENCE), min_size=1, max_size=5))
def test_elements_of_html_keep_their_texts(parts):
    text = "<!DOCTYPE html>\n" + "".join(f'<{tag} class="a">{sentence}</{tag}>\n' for tag, sentence in parts)
    before, after = (BeautifulSoup(page, "html.parser") for page in (text, same(".html", text)))
    assert after == before
    for _, sentence in parts:
        assert sentence in seen(".html", text.encode())


@given(SENTENCES, st.sampled_from([".srt", ".vtt"]))
def test_cues_keep_their_times_and_texts(sentences, suffix):
    point = "," if suffix == ".srt" else "."
    cues = [
        f"{i + 1}\n00:00:{i:02}{point}000 --> 00:00:{i:02}{point}900\n{sentence}\n"
        for i, sentence in enumerate(sentences)
    ]
    text = ("WEBVTT\n\n" if suffix == ".vtt" else "") + "\n".join(cues)
    assert same(suffix, text) == text


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), SENTENCE, min_size=1, max_size=5))
def test_yaml_keeps_its_values_and_comments(values):
    text = "# stays\n" + yaml.safe_dump(values, allow_unicode=True, sort_keys=False)
    assert same(".yaml", text) == text


@given(st.dictionaries(SENTENCE, st.sampled_from(["", "Fertig"]), min_size=1, max_size=5))
def test_a_catalogue_gets_what_it_lacks_and_keeps_what_it_has(entries):
    text = "".join(f'msgid "{source}"\nmsgstr "{target}"\n\n' for source, target in entries.items())
    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    after = pofile.parsestring(same(".po", header + text).encode())
    found = {str(unit.source): str(unit.target) for unit in after.units if not unit.isheader()}
    assert found == {source: target or source for source, target in entries.items()}


@settings(max_examples=10)  # a .docx takes python-docx a while
@given(SENTENCES, SENTENCES)
def test_a_word_document_keeps_its_paragraphs_and_cells(paragraphs, cells):
    document = Document()
    for sentence in paragraphs:
        document.add_paragraph(sentence)
    table = document.add_table(1, len(cells))
    for cell, sentence in zip(table.rows[0].cells, cells, strict=True):
        cell.text = sentence
    file = io.BytesIO()
    document.save(file)
    after = Document(io.BytesIO(translate_content(file.getvalue(), "file.docx", unchanged())))
    assert [paragraph.text for paragraph in after.paragraphs] == paragraphs
    assert [cell.text for cell in after.tables[0].rows[0].cells] == cells
    for sentence in (*paragraphs, *cells):
        assert sentence in seen(".docx", file.getvalue())


@pytest.mark.parametrize("suffix", [".tmx", ".xlf"])
@given(sentences=SENTENCES)
def test_a_memory_gets_a_target_for_each_source(suffix, sentences):
    if suffix == ".tmx":
        units = "".join(f'<tu><tuv xml:lang="en"><seg>{text}</seg></tuv></tu>' for text in sentences)
        text = f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'
    else:
        units = "".join(
            f'<trans-unit id="{i}"><source>{text}</source></trans-unit>' for i, text in enumerate(sentences)
        )
        text = (
            '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" '
            f'source-language="en" datatype="plaintext"><body>{units}</body></file></xliff>'
        )
    translator = unchanged()
    translator.target_language = "de"
    after = BeautifulSoup(translate_content(text.encode(), f"file{suffix}", translator), "xml")
    targets = after.find_all("target") if suffix == ".xlf" else after.find_all("seg")[1::2]
    assert [target.text for target in targets] == sentences


# Words turned round --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".txt", ".md", ".html"])
@given(words=st.lists(WORD, min_size=2, max_size=5))
def test_words_turned_round_twice_are_where_they_were(suffix, words):
    text = " ".join(words)
    text = f"<p>{text}</p>" if suffix == ".html" else f"{text}\n"
    once = translate_content(text.encode(), f"file{suffix}", turned_round())
    assert translate_content(once, f"file{suffix}", turned_round()).decode() == text
    assert words == words[::-1] or once.decode() != text


def test_every_format_is_tried_here():
    tried = {".txt", ".md", ".json", ".html", ".srt", ".vtt", ".yaml", ".po", ".docx", ".tmx", ".xlf"}
    assert tried | {".markdown", ".htm", ".yml", ".pot", ".xliff"} == set(SUFFIXES)
