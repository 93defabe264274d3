"""E-books (.epub): chapters are edited in place as HTML, and so are the title and the table of contents.

ebooklib would write the package and the navigation again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from . import html
from .archive import Archive, ArchiveDocument, XmlPart
from .document import Document, DocumentError, Options, Span, Text, Translated
from .inline import Node, text_of
from .xml import Tree, Xml, escaped


KIND = "an e-book (.epub)"
CONTAINER = "META-INF/container.xml"
TITLES = {"title", "description", "subject"}  # of the metadata


@dataclass
class Chapter:
    """A page in the encoding of its file."""

    page: Document
    mark: bytes  # a byte order mark

    @property
    def texts(self) -> Sequence[Text]:
        return self.page.texts

    @property
    def untranslated(self):
        return self.page.untranslated

    def write(self, translated: Sequence[Translated]) -> bytes:
        return self.mark + self.page.write(translated)


def read(content: bytes, options: Options) -> ArchiveDocument:
    """Find the texts of the chapters, in the order of the book's list of files.

    Raises:
        DocumentError: The file is not an e-book, is damaged, is encrypted, or is too large when unpacked.
    """
    archive = Archive(content, KIND)
    if "META-INF/encryption.xml" in archive.names and b"EncryptedKey" in archive["META-INF/encryption.xml"]:
        raise DocumentError("The e-book is encrypted, so it cannot be translated.")
    parts: dict[str, Document] = {}
    for row in Xml(archive[CONTAINER]).root.iter("rootfile"):
        name = row.attributes.get("full-path", "")
        package = Xml(archive[name])
        parts[name] = metadata(package, options)
        for item in package.root.iter("item"):
            path = normpath(join(dirname(name), unquote(item.attributes.get("href", ""))))
            kind = item.attributes.get("media-type")
            if path in archive.names and path not in parts:
                if kind == "application/xhtml+xml":
                    parts[path] = chapter(archive[path], path, options)
                elif kind == "application/x-dtbncx+xml":
                    parts[path] = contents(Xml(archive[path]))
    if not parts:
        raise DocumentError(f"Not {KIND}: it names no package.")
    return ArchiveDocument(archive, parts)


def chapter(source: bytes, path: str, options: Options) -> Chapter:
    mark = b"\xef\xbb\xbf" if source.startswith(b"\xef\xbb\xbf") else b""
    try:
        return Chapter(html.read(source[len(mark) :].decode(), options), mark)
    except UnicodeDecodeError as error:
        raise DocumentError(f"The chapter {path} is not UTF-8. Convert it first.") from error


def metadata(xml: Xml, options: Options) -> XmlPart:
    """Find the title and description of a book; its language becomes that of the translation."""
    holder = xml.root.find("metadata")
    elements = holder.elements if holder else []
    texts = [text for element in elements if element.name in TITLES for text in plain_text(element, element.name)]
    languages = [element for element in elements if element.name == "language" and options.target_language]
    edits = [(element.inside, element.inside_end, options.target_language) for element in languages]
    return XmlPart(xml, texts, edits=[edit for edit in edits if edit[0] < edit[1]])


def contents(xml: Xml) -> XmlPart:
    """Find the texts of a table of contents of EPUB 2."""
    labels = [text for label in xml.root.iter("docTitle", "navLabel") for text in label.iter("text")]
    return XmlPart(xml, [text for label in labels for text in plain_text(label, "table of contents")])


def plain_text(element: Tree, place: str) -> list[Span]:
    if element.elements or not any(c.isalpha() for c in element.text):
        return []
    return [Span([element.text], place, element.inside, element.inside_end, as_xml)]


def as_xml(nodes: Sequence[Node]) -> str:
    return escaped("".join(map(text_of, nodes)))
