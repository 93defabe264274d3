"""E-books: chapters, the title and the table of contents are translated; every other part stays."""

import pytest
from archives import packed, part_of
from fake_pipeline import SENTENCES, few, identity, shouted, texts_of, translated, unchanged
from hypothesis import given

from vaswani_transformer.documents import DocumentError


CONTAINER = '<container><rootfiles><rootfile full-path="OPS/a.opf"/></rootfiles></container>'
PACKAGE = (
    '<package xmlns:dc="d"><metadata><dc:title>A book</dc:title><dc:language>en</dc:language><dc:creator>A B'
    '</dc:creator></metadata><manifest><item href="one%20a.xhtml" media-type="application/xhtml+xml"/>'
    '<item href="toc.ncx" media-type="application/x-dtbncx+xml"/><item href="x.css" media-type="text/css"/></manifest>'
    "</package>"
)
PAGE = '<?xml version="1.0"?>\r\n<html xmlns="http://www.w3.org/1999/xhtml"><body>{}</body></html>'
CONTENTS = "<ncx><navMap><navPoint><navLabel><text>One &amp; all</text></navLabel></navPoint></navMap></ncx>"


def epub(page: str, mark: bytes = b"") -> bytes:
    parts = {
        "mimetype": b"application/epub+zip",
        "META-INF/container.xml": CONTAINER.encode(),
        "OPS/a.opf": PACKAGE.encode(),
        "OPS/one a.xhtml": mark + PAGE.format(page).encode(),
        "OPS/toc.ncx": CONTENTS.encode(),
        "OPS/x.css": b"p {}",
    }
    return packed(parts)


@few
@given(SENTENCES)
def test_chapters_come_back(sentences):
    content = epub("".join(f"<p class='a'>{text} <b>x</b><br/></p>\r\n" for text in sentences))
    assert unchanged(".epub", content) == content


def test_titles_chapters_and_contents_are_translated_and_the_rest_stays():
    content = epub("<p>one <b>two</b>&#160;three</p>", b"\xef\xbb\xbf")
    assert sorted(texts_of(".epub", content)) == ["A book", "One & all", "one two\xa0three"]
    after = shouted(".epub", content)
    assert part_of(after, "OPS/a.opf") == PACKAGE.replace("A book", "A BOOK")
    assert part_of(after, "OPS/toc.ncx") == CONTENTS.replace("One &amp; all", "ONE &amp; ALL")
    page = PAGE.format("<p>ONE <b>TWO</b>&#160;THREE</p>")
    assert part_of(after, "OPS/one a.xhtml") == "\ufeff" + page
    assert part_of(after, "OPS/x.css") == "p {}"


def test_the_language_of_the_book_is_that_of_the_translation():
    after = translated(".epub", epub("<p>one</p>"), identity("de"))
    assert part_of(after, "OPS/a.opf") == PACKAGE.replace(">en<", ">de<")


@pytest.mark.parametrize(
    "parts, message",
    [
        ({"a": b"x"}, "Not an e-book"),
        ({"META-INF/container.xml": b"<container/>"}, "Not an e-book"),
        ({"META-INF/container.xml": CONTAINER.encode()}, "Not an e-book .*OPS/a.opf"),
        ({"META-INF/encryption.xml": b"<EncryptedKey/>"}, "The e-book is encrypted"),
    ],
)
def test_other_files_are_refused(parts, message):
    with pytest.raises(DocumentError, match=message):
        unchanged(".epub", packed(parts))
