"""Documents that are zip archives: parts with texts are edited, all other parts stay byte for byte."""

import io
import lzma
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from .document import Document, DocumentError, Languages, Span, Text, Translated, are_equal
from .inline import Node
from .limits import check_archive
from .xml import Xml


OLE = b"\xd0\xcf\x11\xe0"  # how files of Office before 2007, and encrypted ones, begin
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,  # an unknown kind of compression
    RuntimeError,  # a password
    KeyError,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    IndexError,
)


class Archive:
    """A zip file.

    Attributes:
        content: The file.
        names: The names of its parts.
    """

    def __init__(self, content: bytes, kind: str):
        """Read the directory of a file.

        Args:
            content: The file.
            kind: What it should be, such as "a Word document (.docx)".

        Raises:
            DocumentError: The file is not a zip archive, is damaged, or is too large when unpacked.
        """
        self.content, self.kind = content, kind
        if content.startswith(OLE):
            raise DocumentError(f"Not {kind}: it has a password or an older format. Save it without one as {kind}.")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
            check_archive(self._zip)
        except DocumentError:
            raise
        except DAMAGE as error:
            raise self._damage(error) from error
        parts = self._zip.infolist()
        self.names = [part.filename for part in parts]
        if len(set(self.names)) < len(parts):
            raise self._damage("two parts have the same name")

    def __getitem__(self, name: str) -> bytes:
        """Return a part.

        Raises:
            DocumentError: The part is missing or damaged.
        """
        try:
            return self._zip.read(name)
        except DAMAGE as error:
            raise self._damage(error) from error

    def with_types(self, types: dict[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the name of each part of a Microsoft Office file whose type ends with a key of `types`, and its value.

        The parts are in the order of `types`, and slide10.xml follows slide9.xml.

        Raises:
            DocumentError: The file has no list of types.
        """
        overrides, defaults = {}, {}
        for row in Xml(self["[Content_Types].xml"]).root.elements:
            kind = row.attributes.get("ContentType", "")
            if row.name == "Override":
                overrides[row.attributes.get("PartName", "").lstrip("/").lower()] = kind
            elif row.name == "Default":
                defaults[row.attributes.get("Extension", "").lower()] = kind
        endings = {}
        for name in sorted(self.names, key=numbers_by_value):
            kind = overrides.get(name.lower()) or defaults.get(name.rpartition(".")[2].lower(), "")
            endings.setdefault(kind.rpartition(".")[2], []).append(name)
        for ending, value in types.items():
            for name in endings.get(ending, []):
                yield name, value

    def replaced(self, parts: dict[str, bytes]) -> bytes:
        """Return the file with other bytes in some of its parts.

        Raises:
            DocumentError: A part is damaged.
        """
        output = io.BytesIO()
        with zipfile.ZipFile(output, "w") as target:
            target.comment = self._zip.comment
            for part in self._zip.infolist():
                new = zipfile.ZipInfo(part.filename, part.date_time)
                for name in ("compress_type", "external_attr", "internal_attr", "create_system", "comment"):
                    setattr(new, name, getattr(part, name))
                content = parts[part.filename] if part.filename in parts else self[part.filename]
                target.writestr(new, content)
        return output.getvalue()

    def _damage(self, error: object) -> DocumentError:
        return DocumentError(f"Not {self.kind}, or the file is damaged ({error}).")


def numbers_by_value(name: str) -> list:
    """Return a key that sorts names as people do."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,9})", name)]


@dataclass
class XmlPart:
    """A part in XML; the places of its texts and of other edits are in bytes."""

    xml: Xml
    texts: Sequence[Span]
    untranslated: Counter[str] = field(default_factory=Counter)
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def write(self, translated: Sequence[Translated]) -> bytes:
        changed = [
            (text.begin, text.end, text.render(new.nodes))
            for text, new in zip(self.texts, translated, strict=True)
            if not are_equal(new.nodes, text.nodes)
        ]
        return self.xml.edited([*self.edits, *changed])


@dataclass
class ArchiveDocument:
    """A file that has been read.

    Args:
        archive: The file.
        parts: Its parts with texts, by their names.
        further: Other parts with the bytes that they get if a text changes.
    """

    archive: Archive
    parts: dict[str, Document]
    further: dict[str, bytes] = field(default_factory=dict)
    languages: Languages = (None, None)

    @property
    def texts(self) -> list[Text]:
        return [text for part in self.parts.values() for text in part.texts]

    @property
    def untranslated(self) -> Counter[str]:
        return sum((part.untranslated for part in self.parts.values()), Counter())

    def write(self, translated: Sequence[Translated]) -> bytes:
        remaining, changed = iter(translated), {}
        for name, part in self.parts.items():
            new = part.write(list(islice(remaining, len(part.texts))))
            if new != self.archive[name]:
                changed[name] = new
        return self.archive.replaced(self.further | changed) if changed else self.archive.content


class Markup(NamedTuple):
    """Source text around texts, as in a drawing with text boxes: there is one more part than texts."""

    parts: tuple[str, ...]
    spans: tuple[Span, ...] = ()
    sources: tuple[str, ...] = ()  # the texts as they are in the file

    def write(self, texts: Sequence[list[Node]]) -> str:
        written = [self.parts[0]]
        for span, source, nodes, part in zip(self.spans, self.sources, texts, self.parts[1:], strict=True):
            written += [source if are_equal(nodes, span.nodes) else span.render(nodes), part]
        return "".join(written)


def markup(xml: Xml, begin: int, end: int, spans: Sequence[Span] = (), before: str = "", after: str = "") -> Markup:
    """Return a part of a file as markup.

    Args:
        xml: The file.
        begin, end: The part.
        spans: Texts inside it.
        before, after: What is written around it.
    """
    parts, sources, last = [], [], begin
    for span in spans:
        parts.append(xml.slice(last, span.begin))
        sources.append(xml.slice(span.begin, span.end))
        last = span.end
    parts.append(xml.slice(last, end))
    parts[0] = before + parts[0]
    parts[-1] += after
    return Markup(tuple(parts), tuple(spans), tuple(sources))
