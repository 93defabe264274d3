"""Word documents: formats follow their words, and all other parts and elements stay, byte for byte."""

import io
import re
import zipfile

import pytest
from docx import Document
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from fake_pipeline import SENTENCE, SENTENCES, few, identity, reversed_words, reversing, shouted, texts_of, unchanged
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from vaswani_transformer.documents import DocumentError, read_content, translate_content
from vaswani_transformer.documents.xml import Xml


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
    """Returns the parts of a package."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def main_part(content: bytes) -> str:
    """Returns the main part as it is in the file, without attributes for spaces."""
    return parts_of(content)["word/document.xml"].decode().replace(' xml:space="preserve"', "")


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


FIELD = (
    "<w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText> {} </w:instrText></w:r>"
    "<w:r><w:fldChar w:fldCharType='separate'/></w:r>{}<w:r><w:fldChar w:fldCharType='end'/></w:r>"
)
PIECES = st.deferred(lambda: st.lists(PIECE, min_size=1, max_size=4).map("".join))
PIECE = st.one_of(
    st.builds(run, SENTENCE, st.sampled_from(["", "<w:b/>", "<w:i/><w:u w:val='single'/>", "<w:lang w:val='en-GB'/>"])),
    st.builds("<w:ins w:id='1' w:author='x'>{}</w:ins>".format, PIECES),
    st.builds("<w:hyperlink r:id='rId1'>{}</w:hyperlink>".format, PIECES),
    st.builds("<w:sdt><w:sdtPr><w:id w:val='7'/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>".format, PIECES),
    st.builds(FIELD.format, st.sampled_from(["PAGE", 'HYPERLINK "x"', "TOC"]), PIECES),
    st.sampled_from(
        [
            run(" "),
            run(" ", "<w:u w:val='single'/>"),
            run("2", "<w:vertAlign w:val='superscript'/>"),
            "<w:r><w:t>a</w:t><w:br/><w:tab/><w:t>b</w:t><w:noBreakHyphen/><w:br w:type='page'/></w:r>",
            "<w:del w:id='2'><w:r><w:delText>gone</w:delText></w:r></w:del>",
            "<w:bookmarkStart w:id='0' w:name='a'/>",
            "<w:proofErr w:type='spellStart'/>",
            "<w:r><w:footnoteReference w:id='2'/></w:r>",
            "<!-- x -->",
            "<m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>",
            f"<w:r><w:pict><w:txbxContent><w:p>{run('in a box')}</w:p></w:txbxContent></w:pict></w:r>",
            "<w:r><w:fldChar w:fldCharType='end'/></w:r>",
            "\n  ",
        ]
    ),
)
RUNS = {qn(name) for name in ("w:r", "w:t", "w:rPr")}


def inventory(content: bytes) -> list:
    """Returns the elements of a document in alphabetical order, without runs."""
    root = etree.fromstring(parts_of(content)["word/document.xml"])
    formats = {child for element in root.iter(qn("w:rPr")) for child in element.iter()}
    elements = [e for e in root.iter() if e not in formats and e.tag not in RUNS]
    return sorted((str(element.tag), sorted(element.attrib.items())) for element in elements)


@few
@given(PIECES)
def test_paragraphs_of_all_kinds_come_back(pieces):
    content = paragraph_of(pieces)
    assert unchanged(".docx", content) == content
    assert inventory(shouted(".docx", content)) == inventory(content)
    assert inventory(reversed_words(".docx", content)) == inventory(content)


def test_an_identity_translation_keeps_every_byte():
    content = docx()
    assert unchanged(".docx", content) == content


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
    assert unchanged(".docx", content) == content
    assert texts_of(".docx", content) == [*paragraphs, *cells]


def test_only_the_text_of_a_changed_part_changes():
    content = docx()
    before, after = parts_of(content), parts_of(shouted(".docx", content))
    assert list(before) == list(after)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"word/document.xml", "word/header1.xml", "word/footer1.xml"}
    words = ["The title", "A ", "bold ", "word and ", "italic ", "ones.", "Another", "line.", "In a cell"]
    expected = before["word/document.xml"].decode().replace(">it<", ">italic <", 1)
    expected = re.sub(r"<w:r><w:rPr><w:i/></w:rPr><w:t[^>]*>alic </w:t></w:r>", "", expected)
    for word in words:
        expected = expected.replace(f">{word}<", f">{word.upper()}<")
    without = re.compile(r' xml:space="preserve"|</w:r><w:r>')
    assert without.sub("", after["word/document.xml"].decode()) == without.sub("", expected)


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
    assert unchanged(".docx", content) == content
    after = shouted(".docx", content)
    assert first_paragraph(after).upper() == first_paragraph(content).upper()
    assert opened(after).paragraphs[0].text.upper() == opened(content).paragraphs[0].text.upper()


def test_a_document_without_text_stays():
    content = paragraph_of("<w:r><w:tab/></w:r>")
    assert shouted(".docx", content) == content


@pytest.mark.parametrize("attributes", ['w:type="page"', 'w:type="column"', 'w:type="textWrapping" w:clear="all"'])
def test_breaks_keep_their_attributes(attributes):
    content = paragraph_of(f"<w:r><w:t>a b</w:t><w:br {attributes}/><w:t>c d</w:t><w:br/></w:r>")
    expected = f"<w:t>b a</w:t><w:br {attributes}/><w:t>d c</w:t><w:br/>"
    assert expected in main_part(reversed_words(".docx", content))
    assert texts_of(".docx", content)[0].split()[1:3] == ["b", "c"]


def test_hyphens_are_characters_of_the_text():
    content = paragraph_of("<w:r><w:t>a co</w:t><w:noBreakHyphen/><w:t>op</w:t></w:r>")
    assert texts_of(".docx", content) == ["a co\u2011op"]
    assert "<w:t>A CO</w:t><w:noBreakHyphen/><w:t>OP</w:t>" in main_part(shouted(".docx", content))


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
        ([run("one"), "<w:r><w:footnoteReference w:id='2'/></w:r>", run(" two")], "twoone [footnoteReference]"),
        ([run("one"), "<w:r><w:footnoteReference w:id='2'/></w:r>"], "one [footnoteReference]"),
        (
            ["<w:bookmarkStart w:id='0' w:name='a'/>", run("one "), "<w:bookmarkEnd w:id='0'/>", run("two")],
            "[bookmarkStart] twoone [bookmarkEnd]",
        ),
    ],
)
def test_formats_and_objects_move_with_their_words(parts, expected):
    assert first_paragraph(reversed_words(".docx", paragraph_of(*parts))) == expected


@pytest.mark.parametrize(
    "parts, expected",
    [
        # Tracked insertions are read in place, as are moves, content controls and the like.
        ([run("one "), "<w:ins w:id='1'>", run("two"), "</w:ins>", run(" three")], ["one two three"]),
        (["<w:ins w:id='1'>", run("one two"), "</w:ins>"], ["one two"]),
        (["<w:moveTo w:id='1'>", run("one two"), "</w:moveTo>"], ["one two"]),
        ([run("one "), "<w:smartTag w:element='x'>", run("two"), "</w:smartTag>"], ["one two"]),
        ([run("one "), "<w:bdo w:val='rtl'>", run("two"), "</w:bdo>"], ["one two"]),
        ([run("one "), "<w:sdt><w:sdtContent>", run("two"), "</w:sdtContent></w:sdt>"], ["one two"]),
        ([run("one "), "<w:del w:id='1'><w:r><w:delText>x</w:delText></w:r></w:del>", run("two")], ["one two"]),
        # Fields have the part of a word.
        ([run("page "), "<w:fldSimple w:instr='PAGE'>", run("7"), "</w:fldSimple>", run(" of")], ["page {0} of"]),
        ([run("page "), FIELD.format("PAGE", run("7")), run(" of")], ["page {0} of"]),
        ([run("one "), FIELD.format('HYPERLINK "a"', run("two"))], ["one two"]),
        ([run("one "), FIELD.format("TOC", run("two"))], ["one two"]),
        ([run("re"), "<w:bookmarkStart w:id='0' w:name='a'/>", run("d one")], ["red one"]),
        ([run("x", "<w:vanish/>"), run("one")], ["one"]),
        ([run("T", "<w:b/>"), run("h"), run("is", "<w:i/>"), run(" one")], ["This one"]),
        ([run("one"), run(", ", "<w:b/>"), run("two")], ["one, two"]),
        ([run("one"), run(" ", "<w:u w:val='single'/>"), run("two")], ["one two"]),
        ([run("Sign: "), run("      ", "<w:u w:val='single'/>"), run(" here")], ["Sign: {0} here"]),
        ([run("m"), run("2", "<w:vertAlign w:val='superscript'/>"), run(" of land")], ["m of land"]),
    ],
)
def test_the_model_sees_words_and_fields(parts, expected):
    assert texts_of(".docx", paragraph_of(*parts)) == expected


def test_the_mark_of_a_note_stays_between_a_word_and_a_number():
    content = paragraph_of(run("one two"), "<w:r><w:endnoteReference w:id='2'/></w:r>", run("6"))
    assert first_paragraph(shouted(".docx", content)) == "ONETWO [endnoteReference] 6"


def test_comments_of_xml_inside_a_text_stay():
    content = paragraph_of(run("one "), "<w:r><w:t>two<!-- x --> three</w:t></w:r>")
    assert "<w:t>two<!-- x --> three</w:t>" in main_part(shouted(".docx", content))


def test_the_texts_of_text_boxes_are_translated_where_they_are():
    box = "<w:r><w:pict><w:txbxContent><w:p><w:pPr/>{}</w:p><w:p>{}</w:p></w:txbxContent></w:pict></w:r>"
    content = paragraph_of(run("one two"), box.format(run("three four"), run("five six", "<w:b/>")))
    assert texts_of(".docx", content) == ["one two", "three four", "five six"]
    expected = [run("two one"), box.format(run("four three"), run("six five", "<w:b/>"))]
    clean = main_part(paragraph_of(*expected))
    assert main_part(reversed_words(".docx", content)) == clean


def test_a_link_in_a_field_is_a_link():
    parts = [FIELD.format('HYPERLINK "a"', run("one two")), run(" | "), FIELD.format('HYPERLINK "b"', run("three"))]
    assert texts_of(".docx", paragraph_of(*parts)) == ["one two", "three"]


def test_a_table_of_contents_is_updated_on_opening_if_a_text_has_changed():
    content = paragraph_of(FIELD.format('TOC \\o "1-3"', run("one two")))
    assert unchanged(".docx", content) == content
    settings = etree.fromstring(parts_of(shouted(".docx", content))["word/settings.xml"])
    names = [etree.QName(child).localname for child in settings]
    assert names.index("updateFields") < min(names.index("compat"), names.index("rsids"))
    assert names.index("updateFields") > names.index("characterSpacingControl")
    assert b"updateFields" not in parts_of(shouted(".docx", docx()))["word/settings.xml"]


def test_a_field_over_several_paragraphs_stays_around_its_texts():
    start = FIELD.format("TOC", run("one two")).rpartition("<w:r>")[0]
    content = paragraph_of(start)
    assert texts_of(".docx", content) == ["one two"]
    assert main_part(reversed_words(".docx", content)) == main_part(content).replace("one two", "two one")


def test_fields_that_cross_other_markup_are_left_alone_and_counted():
    mark = "<w:r><w:fldChar w:fldCharType='{}'/></w:r>"
    parts = [
        "<w:ins w:id='1'>",
        mark.format("begin"),
        run("one"),
        "</w:ins>",
        run(" two"),
        mark.format("end"),
        run("x"),
    ]
    content = paragraph_of(*parts)
    assert shouted(".docx", content) == content
    reason = "paragraphs with fields that cross other markup"
    assert read_content(content, "a.docx").untranslated == {reason: 1}


def test_comments_are_translated_by_choice():
    document = Document()
    paragraph = document.add_paragraph("one two")
    document.add_comment(paragraph.runs, "three four", "x")
    content = saved(document)
    assert texts_of(".docx", content) == ["one two"]
    assert sorted(texts_of(".docx", content, comments=True)) == ["one two", "three four"]


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


def test_elements_inside_each_other_have_a_limit():
    many = 60
    content = paragraph_of("<w:ins w:id='1'>" * many, run("one"), "</w:ins>" * many)
    with pytest.raises(DocumentError, match="paragraph 1: more than 50 elements are inside each other"):
        texts_of(".docx", content)


def test_the_work_grows_with_the_length_of_a_paragraph(monkeypatch):
    calls = []
    monkeypatch.setattr("vaswani_transformer.documents.xml.Xml.slice", counted(Xml.slice, calls))
    sizes = []
    for number in (100, 200):
        calls.clear()
        parts = [run("a", "<w:b/>"), "<w:bookmarkStart w:id='0' w:name='a'/>", run("b"), FIELD.format("PAGE", run("1"))]
        texts_of(".docx", paragraph_of("".join(parts * number), "<w:r>" + "<w:t>a</w:t><w:br/>" * number + "</w:r>"))
        sizes.append(sum(calls))
    assert sizes[1] < 2.2 * sizes[0]


def counted(function, calls: list[int]):
    def count(xml, begin, end):
        calls.append(end - begin)
        return function(xml, begin, end)

    return count
