"""Documents of every format: what is translated, what stays, and what damaged files give."""

import io
import json
import random
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from docx import Document
from fake_pipeline import turned_round, unchanged
from markdown_it import MarkdownIt

from vaswani_transformer.documents import SUFFIXES, DocumentError, translate_content, translate_document


pytestmark = pytest.mark.quick


ROOT = Path(__file__).parents[3]
EXAMPLES = {path.suffix: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("examples/*")}


def docx() -> bytes:
    document = Document()
    document.add_heading("The title", 0)
    paragraph = document.add_paragraph("A ")
    paragraph.add_run("bold").bold = True
    for part in (" word and ", "it", "alic"):
        paragraph.add_run(part).italic = "al" in part or part == "it"
    paragraph.add_run(" ones.\nAnother\tline.")
    document.add_table(1, 1).cell(0, 0).text = "In a cell"
    document.sections[0].header.paragraphs[0].text = "On top"
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def examples() -> dict[str, bytes]:
    return {**{suffix: text.encode() for suffix, text in EXAMPLES.items()}, ".docx": docx()}


def translated(suffix: str, content: str | bytes | None = None, translator=None, keys=()) -> str:
    content = EXAMPLES[suffix] if content is None else content
    content = content.encode() if isinstance(content, str) else content
    return translate_content(content, f"file{suffix}", translator or turned_round(), keys).decode()


@pytest.mark.parametrize("suffix", [".txt", ".md", ".vtt", ".json", ".html", ".srt", ".yaml"])
def test_a_translation_into_the_same_is_the_same_file(suffix):
    wanted = EXAMPLES[suffix]
    assert translated(suffix, translator=unchanged()) == wanted


@pytest.mark.parametrize("suffix", [".txt", ".md", ".vtt", ".json", ".html", ".srt"])
def test_line_ends_of_windows_stay(suffix):
    wanted = EXAMPLES[suffix].replace("\n", "\r\n")
    assert translated(suffix, wanted, unchanged()).replace("\r\n", "\n") == EXAMPLES[suffix]
    assert suffix == ".html" or translated(suffix, wanted, unchanged()) == wanted


def test_odd_separators_are_no_line_ends_of_markdown():
    text = "One\x0ctwo\u2028three here.\n\n# A title\n\n```\ncode\n```\n"
    assert translated(".md", text, unchanged()) == text
    assert "# title A" in translated(".md", text) and "```\ncode\n```" in translated(".md", text)


def test_every_format_has_an_example():
    assert {*examples(), ".markdown", ".htm", ".yml", ".pot", ".xliff"} == set(SUFFIXES)


def test_real_markdown_keeps_its_structure():
    """Our own pages: what a reader sees is the same, and so are all blocks."""
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "docs" / "guide" / "texts.md"):
        before = page.read_text(encoding="utf-8")
        for translator in (unchanged(), turned_round()):
            after = translated(".md", before, translator)
            parse = MarkdownIt("commonmark").enable("table").parse
            kinds = [[(t.type, t.tag, t.info) for t in parse(text)] for text in (before, after)]
            assert kinds[0] == kinds[1]
        for fence in re.findall(r"^```.*?^```", before, re.DOTALL | re.MULTILINE):
            assert fence in after


def test_html_keeps_code_attributes_and_is_well_formed():
    text = translated(".html")
    soup, before = BeautifulSoup(text, "html.parser"), BeautifulSoup(EXAMPLES[".html"], "html.parser")
    assert sorted(tag.name for tag in soup.find_all(True)) == sorted(tag.name for tag in before.find_all(True))
    for kept in (
        'var a = "<b>";', "p { color: red }", "<code>ls</code>", "<pre>stays\n  here</pre>", "<!-- stays -->",
        '<p translate="no">Stays</p>', 'href="/x?a=1&amp;b=2"', '<a name="top"></a>', "two &lt; One",
    ):  # fmt: skip
        assert kept in text
    assert "<em>morning</em> Good" in text and '<html lang="de">' in translated(".html", translator=in_german())
    assert 'alt="it of Picture"' in text and 'placeholder="name Your"' in text and "<title>title The</title>" in text
    assert "<b><i>italic and</i> bold</b> A" in text


def in_german():
    translator = unchanged()
    translator.target_language = "de"
    return translator


def test_subtitles_keep_times_and_sentences_go_over_cues():
    translator = unchanged()
    text = translated(".srt", translator=translator)
    assert text == EXAMPLES[".srt"]
    assert any("He went home" in seen and "and slept." in seen for seen in translator.pipeline.seen)
    turned = translated(".srt")
    assert re.findall(r".*-->.*", turned) == re.findall(r".*-->.*", EXAMPLES[".srt"])
    assert all(cue.strip() for cue in re.split(r"\n\n", turned.strip()))


def test_keys_choose_what_is_translated():
    data = json.loads(translated(".json", keys=["title", "menu.*"]))
    assert data == {"title": "title The", "n": [1, None, True], "menu": {"text": "here {name} A", "id": "x1"}}
    assert json.loads(translated(".json", keys=["text"]))["title"] == "The title"
    text = translated(".yaml", keys=["title", "text"])
    assert text == EXAMPLES[".yaml"].replace("The title", "title The").replace("One dog", "dog One")


def test_catalogues_get_what_they_lack():
    po = translated(".po")
    assert 'msgstr "%s Good"' in po and 'msgstr[1] "dogs %d"' in po and 'msgstr "Fertig"' in po
    xlf = translated(".xlf")
    assert re.search(r'<target[^>]*>here <x id="2"/> is <g id="1">man</g> A</target>', xlf)
    assert "Fertig" in xlf and 'approved="yes"' not in xlf
    tmx = re.sub(r">\s+<", "><", translated(".tmx", translator=in_german()))
    assert '<tuv xml:lang="de"><seg>Good <hi>morning</hi></seg></tuv>' in tmx


def test_what_needs_a_look_is_marked_in_a_catalogue():
    translator = unchanged()
    record = translator.pipeline.record
    translator.pipeline.record = lambda text: record(text) | ({"warnings": ["odd"]} if "Good" in text else {})
    assert '#, fuzzy\nmsgid "Good %s"' in translated(".po", translator=translator)
    assert translator.warnings == ['"Good %s": odd']


def test_word_documents_keep_formats_with_their_words():
    document = Document(io.BytesIO(translate_content(docx(), "a.docx", turned_round())))
    title, paragraph = document.paragraphs[:2]
    assert title.text == "title The" and title.style.name == "Title"
    assert [run.text.strip() for run in paragraph.runs if run.bold] == ["bold"]
    assert [run.text.strip() for run in paragraph.runs if run.italic] == ["italic"]
    assert document.tables[0].cell(0, 0).text == "cell a In"
    assert document.sections[0].header.paragraphs[0].text == "top On"
    same = Document(io.BytesIO(translate_content(docx(), "a.docx", unchanged()))).paragraphs[1]
    assert same.text == "A bold word and italic ones.\nAnother\tline."


# What is wrong -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.xyz", b"", "unknown kind of document. Known: .docx, .htm"),
        ("a.docx", b"no zip", "a.docx: It is no Word document"),
        ("a.json", b"{", "a.json: It is no JSON"),
        ("a.yaml", b"a: [", "a.yaml: It is no YAML"),
        ("a.srt", b"Hello", "a.srt: It has no line of times"),
        ("a.html", b"\x00", "a.html: It is no HTML"),
        ("a.xlf", b"<a>", "a.xlf: It cannot be read"),
        ("a.tmx", b"Hello", "a.tmx: It cannot be read"),
        ("a.po", b"", "a.po: It has no texts"),
        ("a.html", b"<b>" * 3000 + b"x", "a.html: Its parts stand too deeply in each other."),
        ("a.md", b"*" * 3000 + b"x" + b"*" * 3000, "a.md: Its parts stand too deeply"),
        ("a.md", b"\xff", "a.md is not UTF-8 (byte 0xff at position 0)"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    output = tmp_path / f"out{Path(name).suffix}"
    output.write_bytes(b"before")
    with pytest.raises(DocumentError, match=re.escape(message)):
        translate_document(tmp_path / name, output, unchanged())
    assert output.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({name, output.name})


def test_a_few_aliases_do_not_stand_for_billions_of_texts():
    pairs = zip("abcdefghijklm", "bcdefghijklmn", strict=True)
    lists = "".join(f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}]\n" for old, new in pairs)
    content = f'a: &a ["one two"]\n{lists}o: [*n]\n'  # n stands for 4 ** 13 texts
    assert translated(".yaml", content) == content.replace("one two", "two one")


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(monkeypatch):
    monkeypatch.setattr("vaswani_transformer.documents.word.MOST_BYTES", 1000)
    with pytest.raises(DocumentError, match="a.docx: It unpacks to .* bytes; the limit is 1,000"):
        translate_content(docx(), "a.docx", unchanged())


@pytest.mark.parametrize("suffix", [".tmx", ".xlf"])
def test_other_files_of_the_machine_are_not_read_into_a_document(tmp_path, suffix):
    (tmp_path / "secret").write_text("from another file")
    root = "<tmx" if suffix == ".tmx" else "<xliff"
    entity = f'<!DOCTYPE x [<!ENTITY y SYSTEM "file://{tmp_path}/secret">]>'
    content = EXAMPLES[suffix].replace(root, entity + root, 1)
    content = content.replace("</source>", "&y;</source>").replace("</seg>", "&y;</seg>")
    assert "&y;" in content
    assert "from another file" not in translated(suffix, content, unchanged())


def test_keys_are_for_json_and_yaml():
    with pytest.raises(DocumentError, match="only .json, .yaml, .yml have keys"):
        translated(".txt", keys=["a"])


@pytest.mark.parametrize("number", [60, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("suffix", examples())
def test_a_damaged_file_gives_an_error_or_a_document(suffix, number):
    content, rng = examples()[suffix], random.Random(suffix)
    for _ in range(number):
        damaged = bytearray(content)
        for _ in range(rng.randrange(1, 6)):
            kind, at = rng.randrange(4), rng.randrange(len(damaged) + 1)
            if kind == 0:
                damaged[at : at + rng.randrange(40)] = b""
            elif kind == 1:
                damaged[at:at] = bytes(rng.randrange(256) for _ in range(3))
            elif kind == 2:
                damaged[at:at] = rng.choice(
                    [b"<", b">", b"*", b"[", b"]", b"\n", b"{", b"-->", b'"', b"`", b"|", b"&", b": "]
                )
            else:
                damaged[at:] = b""
        try:
            translate_content(bytes(damaged), f"a{suffix}", turned_round())
        except DocumentError:
            pass
