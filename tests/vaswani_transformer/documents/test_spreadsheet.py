"""Excel workbooks: the texts of cells are translated; formulas, numbers and headers of tables stay."""

import pytest
from archives import packed, part_of
from fake_pipeline import SENTENCES, few, reversed_words, shouted, texts_of, unchanged
from hypothesis import given

from vaswani_transformer.documents import DocumentError, read_content
from vaswani_transformer.documents.spreadsheet import column_name, column_number


KINDS = {
    "xl/worksheets/sheet1.xml": "worksheet",
    "xl/sharedStrings.xml": "sharedStrings",
    "xl/tables/table1.xml": "table",
}
HEADERS = {
    "xl/tables/table1.xml": '<table ref="B1:C3"><tableColumns/></table>',
    "xl/worksheets/_rels/sheet1.xml.rels": '<Relationships><Relationship Target="../tables/table1.xml" Type="x/table"/>'
    "</Relationships>",
}
CELLS = '<worksheet><row><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c>{}</row>{}</worksheet>'


def xlsx(texts: str, sheet: str = CELLS.format("", ""), parts: dict[str, str] | None = None) -> bytes:
    rows = "".join(
        f'<Override PartName="/{name}" ContentType="application/x.spreadsheetml.{kind}+xml"/>'
        for name, kind in KINDS.items()
    )
    parts = {
        "[Content_Types].xml": f"<Types>{rows}</Types>",
        "xl/worksheets/sheet1.xml": sheet,
        "xl/sharedStrings.xml": f'<sst xmlns="x" count="9">{texts}</sst>',
        **(parts or {}),
    }
    return packed({name: text.encode() for name, text in parts.items()})


def shared(content: bytes) -> str:
    return part_of(content, "xl/sharedStrings.xml").partition(">")[2].removesuffix("</sst>")


@few
@given(SENTENCES)
def test_texts_come_back(sentences):
    texts = "".join(f"<si><t>{text}</t></si>\r\n" for text in sentences)
    assert unchanged(".xlsx", xlsx(texts)) == xlsx(texts)
    assert shared(shouted(".xlsx", xlsx(texts))) == "".join(f"<si><t>{text.upper()}</t></si>\r\n" for text in sentences)


@pytest.mark.parametrize(
    "texts, expected",
    [
        ("<si><t>one two</t><phoneticPr x='1'/></si>", "<si><t>two one</t><phoneticPr x='1'/></si>"),
        ("<si><t>one&#10;two three</t></si>", None),
        (
            "<si><r><t>one </t></r><r><rPr><b/></rPr><t>two</t></r></si>",
            '<si><r><rPr><b/></rPr><t>two</t></r><r><t xml:space="preserve"> one</t></r></si>',
        ),
        (
            "<si><r><t>one two</t></r><r><t>a<!-- x -->b</t></r></si>",
            "<si><r><t>two one</t></r><r><t>a<!-- x -->b</t></r></si>",
        ),
        ("<si><t>7.5</t></si><si><t/></si><si/>", "<si><t>7.5</t></si><si><t/></si><si/>"),
    ],
)
def test_formats_move_with_their_words(texts, expected):
    expected = expected or '<si><t xml:space="preserve">one\nthree two</t></si>'
    assert shared(reversed_words(".xlsx", xlsx(texts))) == expected


def test_texts_in_sheets_are_translated_and_formulas_stay():
    cell = '<c r="D1" t="inlineStr"><is><t>one two</t></is></c><c r="E1" t="str"><f>"a"&amp;A1</f><v>a x</v></c>'
    content = xlsx("", CELLS.format(cell, ""))
    after = part_of(reversed_words(".xlsx", content), "xl/worksheets/sheet1.xml")
    assert after == CELLS.format(cell.replace("one two", "two one"), "")
    assert read_content(content, "a.xlsx").texts[0].place == "sheet 1, cell D1"


def test_headers_of_tables_stay_because_formulas_refer_to_them():
    content = xlsx("<si><t>one</t></si><si><t>two</t></si>", CELLS.format("", "<tableParts/>"), HEADERS)
    assert texts_of(".xlsx", content) == ["one"]
    assert read_content(content, "a.xlsx").untranslated == {"headers of tables": 1}


@pytest.mark.parametrize("name, number", [("A", 1), ("Z", 26), ("AA", 27), ("XFD", 16384)])
def test_columns_have_names_and_numbers(name, number):
    assert (column_number(name), column_name(number)) == (number, name)


@pytest.mark.parametrize("content", [b"x", packed({"a": b"x"}), packed({"[Content_Types].xml": b"<Types/>"})])
def test_other_files_are_refused(content):
    with pytest.raises(DocumentError, match=r"Not an Excel workbook \(.xlsx\)"):
        unchanged(".xlsx", content)
