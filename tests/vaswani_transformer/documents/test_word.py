"""Word documents: formats follow their words, and all other parts and elements stay."""

import io
import random
import struct
import zipfile

import pytest
from docx import Document
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from fake_pipeline import SENTENCES, few, identity, reversed_words, reversing, texts_of, unchanged
from hypothesis import given
from lxml import etree

from vaswani_transformer.documents import DocumentError, translate_content


SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def saved(document) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def docx(*parts: str) -> bytes:
    """Returns a document with formats, a table, a header, a break and a tab; a word in italics is made of `parts`."""
    document = Document()
    document.add_heading("The title", 0)
    parts = parts or ("it", "alic ")  # Word splits runs like this
    paragraph = document.add_paragraph("A ")
    paragraph.add_run("bold ").bold = True
    paragraph.add_run("word and ")
    for part in parts:
        paragraph.add_run(part).italic = True
    paragraph.add_run("ones.\nAnother\tline.")
    document.add_table(1, 1).cell(0, 0).text = "In a cell"
    document.sections[0].header.paragraphs[0].text = "On top"
    document.sections[0].footer.paragraphs[0].text = "Below it"
    return saved(document)


def opened(content: bytes):
    return Document(io.BytesIO(content))


def paragraph_of(*parts: str) -> bytes:
    """Returns a document with one paragraph made of WordprocessingML."""
    document = Document()
    document.element.body.insert(0, parse_xml(f"<w:p {nsdecls('w', 'r', 'm')}>{''.join(parts)}</w:p>"))
    return saved(document)


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{f"<w:rPr>{properties}</w:rPr>" if properties else ""}<w:t xml:space="preserve">{text}</w:t></w:r>'


def parts_of(content: bytes) -> dict[str, bytes]:
    """Returns the parts of a package, XML in canonical form and without xml:space."""
    parts = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            parts[name] = archive.read(name)
            if name.endswith((".xml", ".rels")):
                root = etree.fromstring(parts[name])
                for element in root.iter(qn("w:t")):
                    element.attrib.pop(SPACE, None)
                parts[name] = etree.tostring(root, method="c14n")
    return parts


def first_paragraph(content: bytes) -> str:
    """Returns the first paragraph in short: "b:two" for a bold word, brackets for other elements, no spaces."""
    parts: list[tuple[str, str]] = []
    collect(opened(content).paragraphs[0]._p, "", parts)
    merged: list[str] = []
    for i, (mark, text) in enumerate(parts):
        if i and not text.startswith("[") and parts[i - 1][0] == mark and not parts[i - 1][1].startswith("["):
            merged[-1] += text
        else:
            merged.append(f"{mark}:{text}" if mark else text)
    return " ".join(merged)


def collect(parent, mark: str, parts: list[tuple[str, str]]):
    """Collects each text and each other element below a parent, with the formats and links around it."""
    for child in parent:
        name = etree.QName(child).localname
        if name == "r":
            properties = child.find(qn("w:rPr"))
            formats = [] if properties is None else [etree.QName(element).localname for element in properties]
            collect(child, mark + "+".join(formats), parts)
        elif name == "hyperlink":
            collect(child, mark + "link ", parts)
        elif name == "t":
            if text := (child.text or "").replace(" ", ""):
                parts.append((mark, text))
        elif name not in ("rPr", "proofErr"):
            parts.append(("", f"[{name}]"))


# What stays ----------------------------------------------------------------------------------------------------------


def test_an_identity_translation_keeps_the_canonical_xml_of_every_part():
    content = docx("italic ")
    before, after = parts_of(content), parts_of(unchanged(".docx", content))
    assert {name for name in before if before[name] != after.get(name)} == set()
    assert before.keys() == after.keys()


@few
@given(SENTENCES, SENTENCES)
def test_paragraphs_and_cells_stay(paragraphs, cells):
    document = Document()
    for sentence in paragraphs:
        document.add_paragraph(sentence)
    table = document.add_table(1, len(cells))
    for cell, sentence in zip(table.rows[0].cells, cells, strict=True):
        cell.text = sentence
    content = saved(document)
    assert parts_of(unchanged(".docx", content)) == parts_of(content)
    assert texts_of(".docx", content) == [*paragraphs, *cells]


@pytest.mark.parametrize(
    "parts",
    [
        [run("one "), run("two", "<w:b/>"), run(" three")],
        [
            run("one "),
            "<w:r><w:fldChar w:fldCharType='begin'/></w:r>",
            run("PAGE"),
            "<w:r><w:fldChar w:fldCharType='end'/></w:r>",
            run(" two"),
        ],
        ["<w:pPr><w:jc w:val='center'/></w:pPr>", run("one"), "<w:r><w:br/></w:r>", run("two", "<w:i/>")],
        [run("one "), '<w:hyperlink w:anchor="a">', run("two", "<w:u w:val='single'/>"), "</w:hyperlink>"],
        [run("one "), "<m:oMath><m:r><m:t>x+y</m:t></m:r></m:oMath>", run(" two")],
        [run("one"), "<w:r><w:footnoteReference w:id='2'/></w:r>", run(" two", "<w:b/>")],
        ["<w:bookmarkStart w:id='0' w:name='a'/>", run("one two"), "<w:bookmarkEnd w:id='0'/>"],
    ],
)
def test_formats_links_fields_formulas_and_notes_stay(parts):
    content = paragraph_of(*parts)
    after = unchanged(".docx", content)
    assert first_paragraph(after) == first_paragraph(content)
    assert opened(after).paragraphs[0].text == opened(content).paragraphs[0].text


def test_a_document_without_text_stays():
    content = paragraph_of("<w:r><w:tab/></w:r>")
    assert parts_of(unchanged(".docx", content)) == parts_of(content)


# What is translated --------------------------------------------------------------------------------------------------


def test_all_paragraphs_are_translated_and_keep_their_styles():
    document = opened(reversed_words(".docx", docx()))
    title, paragraph = document.paragraphs[:2]
    assert title.text == "title The" and title.style.name == "Title"
    assert [run.text.strip() for run in paragraph.runs if run.bold] == ["bold"]
    assert [run.text.strip() for run in paragraph.runs if run.italic] == ["italic"]
    assert document.tables[0].cell(0, 0).text == "cell a In"
    assert document.sections[0].header.paragraphs[0].text == "top On"
    assert document.sections[0].footer.paragraphs[0].text == "it Below"


def test_breaks_and_tabs_end_lines_of_text():
    content = paragraph_of("<w:r><w:t>a b</w:t><w:br/><w:t>c d</w:t><w:tab/><w:t>e f</w:t></w:r>")
    assert opened(reversed_words(".docx", content)).paragraphs[0].text == "b a\nd c\tf e"


@pytest.mark.parametrize(
    "parts, expected",
    [
        ([run("one "), run("two", "<w:b/>"), run(" three")], "three b:two one"),
        ([run("o", "<w:b/>"), run("ne", "<w:b/>"), "<w:proofErr w:type='spellEnd'/>", run(" two")], "two b:one"),
        ([run("one "), '<w:hyperlink w:anchor="a">', run("two"), "</w:hyperlink>"], "link :two one"),
        ([run("H"), run("2", "<w:vertAlign w:val='subscript'/>"), run("O is")], "isH vertAlign:2 O"),
        ([run("one "), "<m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>", run(" two")], "two [oMath] one"),
        ([run("one"), "<w:r><w:footnoteReference w:id='2'/></w:r>", run(" two")], "two [footnoteReference] one"),
        ([run("one"), "<w:r><w:footnoteReference w:id='2'/></w:r>"], "one [footnoteReference]"),
        (
            ["<w:bookmarkStart w:id='0' w:name='a'/>", run("one "), "<w:bookmarkEnd w:id='0'/>", run("two")],
            "[bookmarkStart] twoone [bookmarkEnd]",
        ),
    ],
)
def test_formats_and_objects_move_with_their_words(parts, expected):
    assert first_paragraph(reversed_words(".docx", paragraph_of(*parts))) == expected


def test_footnotes_are_translated():
    document = Document()
    document.add_paragraph("One")
    notes = f'<w:footnotes {nsdecls("w")}><w:footnote w:id="2"><w:p>{run("one two")}</w:p></w:footnote></w:footnotes>'
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    part = Part(PackURI("/word/footnotes.xml"), kind, notes.encode(), document.part.package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    with zipfile.ZipFile(io.BytesIO(reversed_words(".docx", saved(document)))) as archive:
        assert b">two one</w:t>" in archive.read("word/footnotes.xml")


def test_characters_that_xml_forbids_are_left_out():
    translator = identity()
    translator.pipeline.record = lambda text: {"translation_text": "one\x01two\x1f"}
    content = translate_content(paragraph_of(run("text")), "a.docx", translator)
    assert opened(content).paragraphs[0].text == "onetwo"


# Errors --------------------------------------------------------------------------------------------------------------


def test_a_file_that_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr("vaswani_transformer.documents.limits.MAX_UNPACKED_BYTES", 1000)
    with pytest.raises(DocumentError, match="a.docx: The file unpacks to .* bytes; the limit is 1,000."):
        translate_content(docx(), "a.docx", reversing())


def test_a_part_that_unpacks_to_many_times_its_size_is_refused(monkeypatch):
    bomb = paragraph_of("<w:r/>" * 300_000)
    with pytest.raises(DocumentError, match="a.docx: word/document.xml in the file unpacks to more than 200 times"):
        translate_content(bomb, "a.docx", reversing())
    monkeypatch.setattr("vaswani_transformer.documents.limits.MAX_RATIO", 10**9)
    monkeypatch.setattr("vaswani_transformer.documents.limits.MAX_TAGS", 300_000)
    with pytest.raises(DocumentError, match="a.docx: The file has more than 300,000 XML tags, which is the limit."):
        translate_content(bomb, "a.docx", reversing())


def test_another_kind_of_zip_is_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "hello")
    with pytest.raises(DocumentError, match=r"a.docx: Not a Word document \(.docx\), or the file is damaged"):
        translate_content(file.getvalue(), "a.docx", reversing())


# Comments, entities and damage ---------------------------------------------------------------------------------------


COMMENT, INSTRUCTION = "<!-- a comment -->", "<?pi an instruction?>"


@pytest.mark.parametrize("mark", [COMMENT, INSTRUCTION])
@pytest.mark.parametrize(
    "parts",
    [
        ("{mark}", run("Two dogs run.")),
        (run("Two dogs"), "{mark}", run(" run.")),
        ("<w:r>{mark}<w:t>Two dogs run.</w:t></w:r>",),
        ("<w:r><w:t>Two {mark}dogs run.</w:t></w:r>",),
        ("<w:hyperlink>{mark}" + run("Two dogs run.") + "</w:hyperlink>",),
    ],
    ids=["before", "between runs", "in a run", "in a text", "in a link"],
)
def test_comments_and_instructions_are_not_text(mark, parts):
    content = paragraph_of(*(part.format(mark=mark) for part in parts))
    assert opened(content).paragraphs[0]._p.xpath("//comment() | //processing-instruction()")
    translator = reversing()
    [paragraph, *_] = opened(translate_content(content, "a.docx", translator)).paragraphs
    assert translator.pipeline.seen == ["Two dogs run."]
    assert paragraph.text.split() == [".", "run", "dogs", "Two"]


def with_part(content: bytes, name: str, change) -> bytes:
    """Returns an archive with another content of a part."""
    output = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in archive.namelist():
            part = archive.read(entry)
            new.writestr(entry, change(part) if entry == name else part)
    return output.getvalue()


@pytest.mark.parametrize("place", ["<w:t>Two &x; dogs</w:t>", "<w:t>Two</w:t>&x;"])
def test_entities_are_refused(place):
    """Their words would be lost. Word documents may not have them."""

    def change(part: bytes) -> bytes:
        part = part.replace(b"<w:document", b'<!DOCTYPE w:document [<!ENTITY x "brown">]><w:document', 1)
        return part.replace(b"<w:t>Two</w:t>", place.encode())

    content = with_part(paragraph_of("<w:r><w:t>Two</w:t></w:r>"), "word/document.xml", change)
    with pytest.raises(DocumentError, match=r"a.docx: The document has XML entities"):
        translate_content(content, "a.docx", identity())


def damage(content: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(rng.randrange(1, 5)):
        start = rng.randrange(len(damaged))
        if rng.randrange(4):
            damaged[start] = rng.randrange(256)
        else:
            del damaged[start : start + rng.randrange(1, 9)]
    return bytes(damaged)


def outcome(content: bytes) -> str:
    """Translates what may be damaged, which gives a document or the one error that documents have."""
    try:
        opened(translate_content(content, "a.docx", reversing()))
    except DocumentError as error:
        assert str(error).startswith("a.docx: ")
        return "refused"
    return "translated"


def test_a_damaged_archive_gives_an_error_or_a_document():
    content, rng = docx(), random.Random(2017)
    outcomes = [outcome(damage(content, rng)) for _ in range(250)]
    assert outcomes.count("refused") > 50


@pytest.mark.parametrize(
    "name", ["word/document.xml", "word/_rels/document.xml.rels", "_rels/.rels", "[Content_Types].xml"]
)
def test_a_damaged_part_gives_an_error_or_a_document(name):
    content, rng = docx(), random.Random(name)
    outcomes = [outcome(with_part(content, name, lambda part: damage(part, rng))) for _ in range(60)]
    assert "refused" in outcomes


@pytest.mark.parametrize(
    "offset, value", [(4, 990), (6, 1), (8, 97), (10, 0xFFFF)], ids=["version", "flags", "kind", "time"]
)
def test_archives_that_need_other_programs(offset, value):
    """Such as a newer version of the format, encryption or another compression."""
    damaged = bytearray(docx())
    position = 0
    while (position := damaged.find(b"PK\x01\x02", position)) >= 0:
        struct.pack_into("<H", damaged, position + offset + 2, value)
        position += 4
    position = -1
    while (position := damaged.find(b"PK\x03\x04", position + 1)) >= 0:
        struct.pack_into("<H", damaged, position + offset, value)
    assert outcome(bytes(damaged)) == ("translated" if offset == 10 else "refused")
