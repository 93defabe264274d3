"""PowerPoint presentations: formats and links follow their words; fields, breaks and all other parts stay."""

import pytest
from archives import packed, part_of
from fake_pipeline import SENTENCE, few, reversed_words, shouted, texts_of, unchanged
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from vaswani_transformer.documents import DocumentError


OFFICE = "application/vnd.openxmlformats-officedocument."
A = "http://schemas.openxmlformats.org/drawingml/2006/main"


def pptx(paragraph: str, **more: str) -> bytes:
    """Returns a presentation of one slide with a paragraph."""
    kinds = {
        "ppt/slides/slide1.xml": "presentationml.slide",
        "ppt/notesSlides/notesSlide1.xml": "presentationml.notesSlide",
        "ppt/diagrams/data1.xml": "drawingml.diagramData",
    }
    rows = "".join(f'<Override PartName="/{name}" ContentType="{OFFICE}{kind}+xml"/>' for name, kind in kinds.items())
    parts = {"[Content_Types].xml": f"<Types>{rows}</Types>", "ppt/media/x.bin": "\x00\x01"}
    for name, text in zip(kinds, [paragraph, more.get("notes", ""), more.get("diagram", "")], strict=True):
        parts[name] = f'<p:sld xmlns:p="p" xmlns:a="{A}" xmlns:r="r"><a:bodyPr/>\n<a:p>{text}</a:p></p:sld>'
    return packed({name: text.encode() for name, text in parts.items()})


def slide(content: bytes) -> str:
    """Returns the inside of the paragraph of the slide."""
    return part_of(content, "ppt/slides/slide1.xml").partition("<a:p>")[2].partition("</a:p>")[0]


def run(text: str, properties: str = "") -> str:
    return f"<a:r>{f'<a:rPr {properties}/>' if properties else ''}<a:t>{text}</a:t></a:r>"


PIECES = st.lists(
    st.one_of(
        st.builds(
            run, SENTENCE, st.sampled_from(["", 'b="1"', 'lang="en-GB" dirty="0"', 'u="sng"', 'baseline="30000"'])
        ),
        st.sampled_from(
            [
                "<a:br/>",
                '<a:br><a:rPr sz="12"/></a:br>',
                '<a:fld id="1" type="slidenum"><a:t>7</a:t></a:fld>',
                run(" "),
                run("a<!-- y -->b"),
                "<a:r><a:t/></a:r>",
                run(", ", 'i="1"'),
                "<!-- x -->",
                "\n  ",
            ]
        ),
    ),
    min_size=1,
    max_size=6,
).map("".join)


@few
@given(PIECES)
def test_paragraphs_come_back(pieces):
    content = pptx(f'<a:pPr lvl="1"/>{pieces}<a:endParaRPr/>')
    assert unchanged(".pptx", content) == content
    for change in (shouted, reversed_words):
        assert inventory(change(".pptx", content)) == inventory(content)


def inventory(content: bytes) -> list:
    root = etree.fromstring(part_of(content, "ppt/slides/slide1.xml").encode())
    ignored = {f"{{{A}}}{name}" for name in ("r", "t", "rPr")}
    return sorted((str(e.tag), sorted(e.attrib.items())) for e in root.iter() if e.tag not in ignored)


@pytest.mark.parametrize(
    "paragraph, expected",
    [
        (run("one two"), run("two one")),
        (run("one ") + run("two", 'b="1"'), run("two", 'b="1"') + run(" one")),
        (run("one ", 'lang="en-US"') + run("two", 'dirty="0"'), run("two one", 'lang="en-US"')),
        (run("one two") + '<a:br><a:rPr sz="1"/></a:br>' + run("three"), None),
        (run("one ") + '<a:fld type="slidenum"><a:t>7</a:t></a:fld>' + run(" two"), None),
    ],
)
def test_formats_move_with_their_words(paragraph, expected):
    words = {"one two": "two one", "one ": "two ", " two": " one"} if expected is None else {}
    for old, new in words.items():
        paragraph_changed = paragraph.replace(f">{old}<", f">{new}<")
        expected = paragraph_changed if expected is None else expected.replace(f">{old}<", f">{new}<")
    assert slide(reversed_words(".pptx", pptx(paragraph))) == expected


def test_links_side_by_side_are_texts_of_their_own():
    link = '<a:r><a:rPr><a:hlinkClick r:id="{}"/></a:rPr><a:t>{}</a:t></a:r>'
    content = pptx(link.format("r1", "one two") + run(" | ") + link.format("r2", "three"))
    assert texts_of(".pptx", content) == ["one two", "three"]


def test_notes_and_diagrams_are_translated_and_other_parts_stay():
    content = pptx(run("one"), notes=run("two"), diagram=run("three"))
    assert texts_of(".pptx", content) == ["one", "two", "three"]
    after = shouted(".pptx", content)
    assert "<a:t>THREE</a:t>" in part_of(after, "ppt/diagrams/data1.xml")
    assert part_of(after, "ppt/media/x.bin") == "\x00\x01"


@pytest.mark.parametrize("content", [b"", packed({"a": b"x"}), packed({"[Content_Types].xml": b"<Types/>"})])
def test_other_files_are_refused(content):
    with pytest.raises(DocumentError, match=r"Not a PowerPoint presentation \(.pptx\)"):
        unchanged(".pptx", content)
