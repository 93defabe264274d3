"""XML as it is written: a tree whose elements and texts know their place in the file.

expat reports the place of everything it reads, expands no external entities and bounds the expansion of internal ones.
lxml and ElementTree would write the whole file again, with other quotes, prefixes and line ends.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

from .document import DocumentError


MAX_DEPTH = 500
MAX_ELEMENTS = 1_000_000  # of a file; a book of a thousand pages has fewer
DECLARATION = re.compile(r"\s*<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z][\w.-]*)[\"']")
TAG_END = re.compile(rb"(?:[^>\"']+|\"[^\"]*\"|'[^']*')*>")
REFERENCE = re.compile(r"&(?:#([0-9]+)|#[xX]([0-9a-fA-F]+)|(\w+));")
ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
# What XML 1.0 cannot represent.
FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


@dataclass(eq=False)
class Text:
    """Characters between two tags: those of the file and, without references, those they stand for."""

    begin: int
    end: int
    source: str
    value: str


@dataclass(eq=False)
class Kept:
    """A comment, a processing instruction or a reference to an entity of the document's own."""

    begin: int
    end: int


@dataclass(eq=False)
class Tree:
    """An element.

    Attributes:
        name: Its name without namespace.
        namespace: Its namespace, or "".
        attributes: Its attributes; names in a namespace are written "{namespace}name".
        begin, end: Its place in the file, in bytes of UTF-8.
        inside, inside_end: The place of its content; both are `end` for an empty tag, such as <a/>.
        children: Its content, in order.
        parent: The element around it.
    """

    name: str
    namespace: str
    attributes: dict[str, str]
    begin: int
    inside: int = 0
    inside_end: int = 0
    end: int = 0
    children: "list[Tree | Text | Kept]" = field(default_factory=list)
    parent: "Tree | None" = None

    @property
    def elements(self) -> "list[Tree]":
        return [child for child in self.children if isinstance(child, Tree)]

    def iter(self, *names: str) -> "Iterator[Tree]":
        """Yield this element and those inside it that have one of the names, in the order of the file."""
        stack = [self]
        while stack:
            element = stack.pop()
            if not names or element.name in names:
                yield element
            stack += reversed(element.elements)

    def find(self, name: str) -> "Tree | None":
        """Return the first child of this name."""
        return next((child for child in self.elements if child.name == name), None)

    @property
    def text(self) -> str:
        """The characters of this element and of those inside it."""
        return "".join(
            child.text if isinstance(child, Tree) else child.value
            for child in self.children
            if not isinstance(child, Kept)
        )


class Xml:
    """A file.

    Attributes:
        root: Its outermost element.
        source: The file in UTF-8, which places refer to.
    """

    def __init__(self, content: bytes):
        """Parse a file.

        Raises:
            DocumentError: The file is not well-formed, or nested too deeply.
        """
        self.encoding = encoding_of(content)
        try:
            self.source = content.decode(self.encoding).encode()
            "€".encode(self.encoding, errors="xmlcharrefreplace")  # as `edited` will: some only decode
        except (LookupError, UnicodeError) as error:
            raise DocumentError(f"The file is not XML in {self.encoding}: {error}.") from error
        self._top = Tree("", "", {}, 0)
        self._stack = [self._top]
        self._last = 0  # the end of what has been read
        parser = expat.ParserCreate("utf-8", " ")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._stop
        parser.CommentHandler = lambda _: self._keep(b"-->")
        parser.ProcessingInstructionHandler = lambda *_: self._keep(b"?>")
        parser.StartCdataSectionHandler = lambda: self._keep(b"]]>")
        parser.EndDoctypeDeclHandler = lambda: setattr(self, "_last", self._parser.CurrentByteIndex)
        self._parser, self._number = parser, 0
        try:
            parser.Parse(self.source, True)
        except expat.ExpatError as error:
            raise DocumentError(f"The file is not well-formed XML: {error}.") from error
        [self.root] = self._top.elements

    def slice(self, begin: int, end: int) -> str:
        return self.source[begin:end].decode()

    def edited(self, edits: list[tuple[int, int, str]]) -> bytes:
        """Return the file with spans of `source` replaced."""
        parts, last = [], 0
        for begin, end, new in sorted(edits, key=lambda edit: edit[:2]):
            parts += [self.source[last:begin], new.encode()]
            last = end
        text = b"".join([*parts, self.source[last:]]).decode()
        return text.encode(self.encoding, errors="xmlcharrefreplace")

    def _start(self, name: str, attributes: dict[str, str]):
        begin = self._parser.CurrentByteIndex
        self._add_text(begin)
        if len(self._stack) > MAX_DEPTH:
            raise DocumentError(f"The file has more than {MAX_DEPTH} elements inside each other.")
        self._number += 1
        if self._number > MAX_ELEMENTS:
            raise DocumentError(f"The file has more than {MAX_ELEMENTS:,} elements.")
        namespace, _, local = name.rpartition(" ")
        named = {("{" + key.replace(" ", "}") if " " in key else key): value for key, value in attributes.items()}
        element = Tree(local, namespace, named, begin, TAG_END.match(self.source, begin).end())
        element.parent = self._stack[-1] if len(self._stack) > 1 else None
        self._stack[-1].children.append(element)
        self._stack.append(element)
        self._last = element.inside

    def _stop(self, name: str):
        element = self._stack.pop()
        position = self._parser.CurrentByteIndex
        if self.source.startswith(b"</", position) and self.source[element.inside - 2 : element.inside] != b"/>":
            self._stack.append(element)
            self._add_text(position)
            self._stack.pop()
            element.inside_end, element.end = position, self.source.index(b">", position) + 1
        else:
            element.inside_end = element.end = element.inside
        self._last = element.end

    def _keep(self, end: bytes):
        begin = self._parser.CurrentByteIndex
        self._add_text(begin)
        stop = self.source.index(end, begin) + len(end)
        if end == b"]]>":
            value = self.source[begin + len(b"<![CDATA[") : stop - len(end)].decode()
            self._stack[-1].children.append(Text(begin, stop, self.slice(begin, stop), value))
        else:
            self._stack[-1].children.append(Kept(begin, stop))
        self._last = stop

    def _add_text(self, end: int):
        """Add the characters since the last tag; what refers to an entity of the document's own is kept."""
        if len(self._stack) == 1 or end <= self._last:
            return
        begin = last = self._last
        source = self.slice(begin, end)
        children = self._stack[-1].children
        for match in REFERENCE.finditer(source):
            if match[3] and match[3] not in ENTITIES:
                first = begin + len(source[: match.start()].encode())
                if last < first:
                    children.append(self._text(last, first))
                last = first + len(match[0].encode())
                children.append(Kept(first, last))
        if last < end:
            children.append(self._text(last, end))
        self._last = end

    def _text(self, begin: int, end: int) -> Text:
        source = self.slice(begin, end)
        value = REFERENCE.sub(character, source.replace("\r\n", "\n").replace("\r", "\n"))
        return Text(begin, end, source, value)


def character(reference: re.Match) -> str:
    decimal, hexadecimal, name = reference.groups()
    return ENTITIES[name] if name else chr(int(decimal) if decimal else int(hexadecimal, 16))


def encoding_of(content: bytes) -> str:
    """Return the encoding that a file's byte order mark or declaration names."""
    marks = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    for mark, name in marks.items():
        if content.startswith(mark):
            return name
    if content[:4] in (b"<\0?\0", b"\0<\0?"):
        return "utf-16-le" if content[:1] == b"<" else "utf-16-be"
    declaration = DECLARATION.match(content[:200].decode("latin-1"))
    return declaration[1] if declaration else "utf-8"


def escaped(text: str) -> str:
    """Write a text as the content of an element."""
    return escape(FORBIDDEN.sub("", text)).replace("\r", "&#13;")


def qualified(source: str, name: str) -> str:
    """Return a name with the prefix that a tag has, such as "x:target" for the tag <x:source>."""
    prefix, colon, _ = re.match(r"</?([^\s/>]+)", source)[1].rpartition(":")
    return prefix + colon + name
