"""OpenDocument files: formats follow their words; fields, notes, frames and numbers stay where they are."""

import pytest
from archives import packed, part_of
from fake_pipeline import SENTENCE, few, reversed_words, shouted, texts_of, unchanged
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from vaswani_transformer.documents import DocumentError, read_content


NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "table", "style")
)
NAMES += ' xmlns:draw="d" xmlns:fo="f"'
STYLES = (
    '<style:style style:name="B" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>'
    '<style:style style:name="T1" style:family="text"><style:text-properties officeooo:rsid="1"/></style:style>'
    '<style:style style:name="U" style:family="text"><style:text-properties style:text-underline-style="solid"/>'
    '</style:style><style:style style:name="S" style:family="text"><style:text-properties '
    'style:text-position="super 58%"/></style:style>'
).replace("officeooo:", "fo:")


def odt(content: str, styles: str = "") -> bytes:
    root = "<office:document {}><office:automatic-styles>{}</office:automatic-styles>{}</office:document>"
    return packed(
        {
            "mimetype": b"application/vnd.oasis.opendocument.text",
            "content.xml": root.format(NAMES, STYLES, content).encode(),
            "styles.xml": root.format(NAMES, "", styles).encode(),
            "x.bin": bytes(20),
        }
    )


def p(content: str) -> bytes:
    return odt(f'<text:p text:style-name="P">{content}</text:p>')


def inside(content: bytes) -> str:
    """Returns the inside of the first paragraph."""
    return part_of(content, "content.xml").partition('style-name="P">')[2].rpartition("</text:p>")[0]


def span(style: str, text: str) -> str:
    return f'<text:span text:style-name="{style}">{text}</text:span>'


PIECES = st.deferred(lambda: st.lists(PIECE, min_size=1, max_size=4).map("".join))
PIECE = st.one_of(
    SENTENCE,
    st.builds(span, st.sampled_from(["B", "T1", "U", "S", "X"]), PIECES),
    st.builds('<text:a href="x">{}</text:a>'.format, PIECES),
    st.sampled_from(
        [
            "<text:line-break/>",
            "<text:tab/>",
            '<text:s text:c="3"/>',
            "<text:s/>",
            "\n  ",
            "<!-- x -->",
            '<text:bookmark-ref text:ref-name="a">7</text:bookmark-ref>',
            '<text:bookmark text:name="a"/>',
            "<text:page-number>7</text:page-number>",
            "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>a note</text:p>"
            "</text:note-body></text:note>",
            "<draw:frame><draw:text-box><text:p>in a box</text:p></draw:text-box></draw:frame>",
        ]
    ),
)


@few
@given(PIECES)
def test_paragraphs_come_back(pieces):
    content = p(pieces)
    assert unchanged(".odt", content) == content
    for change in (shouted, reversed_words):
        assert inventory(change(".odt", content)) == inventory(content)


def inventory(content: bytes) -> list:
    root = etree.fromstring(part_of(content, "content.xml").encode())
    elements = [e for e in root.iter(etree.Element) if etree.QName(e).localname not in ("span", "s")]
    return sorted((e.tag, sorted(e.attrib.items())) for e in elements)


@pytest.mark.parametrize(
    "content, expected",
    [
        ("one two", "two one"),
        (f"one {span('B', 'two')} three", f"three {span('B', 'two')} one"),
        (f"one {span('T1', 'two')} three", "three two one"),  # the format is only the number of a revision
        ("one<text:tab/>two three<text:line-break/>four", "one<text:tab/>three two<text:line-break/>four"),
        (
            'one <text:page-number a="1">7</text:page-number> two',
            'two <text:page-number a="1">7</text:page-number> one',
        ),
        ('one <text:a href="x">two</text:a>', '<text:a href="x">two</text:a> one'),
        (f"m{span('S', '2')} of", f"of m{span('S', '2')}"),
    ],
)
def test_words_move_with_their_formats(content, expected):
    assert inside(reversed_words(".odt", p(content))) == expected


def test_references_are_words_and_marks_are_invisible():
    mark, reference = '<text:bookmark text:name="a"/>', '<text:bookmark-ref text:ref-name="a">7</text:bookmark-ref>'
    assert texts_of(".odt", p(f"see {reference} of{mark} this")) == ["see {0} of this"]


def test_notes_and_frames_are_texts_of_their_own():
    note = "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>{}</text:p></text:note-body>"
    note += "</text:note>"
    content = p(f"one two{note.format('three four')} five")
    assert sorted(texts_of(".odt", content)) == ["one two five", "three four"]
    assert inside(shouted(".odt", content)) == f"ONE TWO{note.format('THREE FOUR')} FIVE"


def test_deleted_text_and_comments_stay_and_headers_are_translated():
    tracked = "<text:tracked-changes><text:deletion><text:p>gone</text:p></text:deletion></text:tracked-changes>"
    content = odt(
        f"{tracked}<text:h>one</text:h><text:p>two<office:annotation><text:p>why</text:p></office:annotation></text:p>",
        "<style:header><text:p>three</text:p></style:header>",
    )
    assert sorted(texts_of(".odt", content)) == ["one", "three", "two"]
    assert sorted(texts_of(".odt", content, comments=True)) == ["one", "three", "two", "why"]


def test_numbers_and_results_of_formulas_stay():
    cell = "<table:table-cell {}><text:p>{}</text:p></table:table-cell>"
    cells = [
        cell.format('office:value-type="string"', "one"),
        cell.format('office:value-type="float" office:value="1"', "1 x"),
        cell.format('office:value-type="string" table:formula="of:=[.A1]"', "one"),
    ]
    content = odt("".join(cells))
    assert texts_of(".ods", content) == ["one"]
    assert read_content(content, "a.ods").untranslated == {"numbers and results of formulas": 2}


@pytest.mark.parametrize(
    "parts, message",
    [
        ({"a": b"x"}, "Not an OpenDocument file"),
        ({"content.xml": b"<a"}, "The file is not well-formed XML"),
        ({"content.xml": b"x", "META-INF/manifest.xml": b"<manifest:encryption-data/>"}, "The file has a password"),
    ],
)
def test_other_files_are_refused(parts, message):
    with pytest.raises(DocumentError, match=message):
        unchanged(".odp", packed(parts))
