"""OpenDocument texts, presentations and spreadsheets (.odt, .odp, .ods): paragraphs are edited in place.

The numbers, dates and results of formulas that a spreadsheet shows stay. odfpy and odfdo would write every part again.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from .archive import Archive, ArchiveDocument, XmlPart, markup
from .document import DocumentError, Options, Span
from .inline import Element, Node, Object, has_words
from .runs import Anchor, Marks, Run, anchor, merged, write, write_source
from .xml import Kept, Text, Tree, Xml, escaped, qualified


KIND = "an OpenDocument file (.odt, .odp, .ods)"
PARTS = {"content.xml": "", "styles.xml": "headers and footers, "}
PARAGRAPHS = {"p", "h"}
# Places of headings, changes, comments and index entries: the model does not see them.
ANCHOR = re.compile(
    r"(?:bookmark|reference-mark|change|toc-mark|alphabetical-index-mark|user-index-mark)(?:-start|-end)?"
    r"|soft-page-break|annotation-end"
)
CONTAINERS = {"a", "meta", "meta-field"}
TEXTS = "urn:oasis:names:tc:opendocument:xmlns:text:"
HIDDEN = {"tracked-changes"}  # deleted text
UNSEEN = {"rsid", "paragraph-rsid", "language", "country", "script"}  # of a format: readers do not see them
DRAWN = {"text-underline-style", "background-color", "text-line-through-style"}
MAX_NESTING = 50
PLAIN = Run((), "", "")


def read(content: bytes, options: Options) -> ArchiveDocument:
    """Find the paragraphs of a document, with its tables, frames, notes, headers and footers.

    Raises:
        DocumentError: The file is not an OpenDocument file, is damaged, has a password, or is too large when unpacked.
    """
    archive = Archive(content, KIND)
    if "content.xml" not in archive.names:
        raise DocumentError(f"Not {KIND}: it has no part content.xml.")
    if "META-INF/manifest.xml" in archive.names and b"encryption-data" in archive["META-INF/manifest.xml"]:
        raise DocumentError("The file has a password. Save it without one first.")
    parts = {}
    for name, place in PARTS.items():
        if name in archive.names:
            part = Part(Xml(archive[name]), place, options)
            parts[name] = XmlPart(part.xml, list(part.spans(part.xml.root)), part.untranslated)
    return ArchiveDocument(archive, parts)


def attribute(element: Tree, name: str) -> str:
    """Return an attribute by its name without namespace."""
    return next((value for key, value in element.attributes.items() if key.rpartition("}")[2] == name), "")


@dataclass
class Part:
    """A part with paragraphs, while its texts are collected.

    Attributes:
        formats: What readers see of each automatic style of text.
    """

    xml: Xml
    place: str
    options: Options
    untranslated: Counter[str] = field(default_factory=Counter)
    formats: dict[str, dict[str, str]] = field(default_factory=dict)
    number: int = 0
    nesting: int = 0

    def __post_init__(self):
        for styles in self.xml.root.iter("automatic-styles"):
            for style in styles.elements:
                if style.name == "style" and attribute(style, "family") == "text":
                    properties = style.find("text-properties")
                    named = properties.attributes.items() if properties is not None else ()
                    seen = {key.rpartition("}")[2]: value for key, value in named}
                    parent = {"parent": attribute(style, "parent-style-name")} if len(style.attributes) > 2 else {}
                    self.formats[attribute(style, "name")] = parent | {
                        key: value for key, value in seen.items() if key.removesuffix("-asian") not in UNSEEN
                    }

    def spans(self, element: Tree) -> Iterator[Span]:
        """Yield the texts of the outermost paragraphs in an element."""
        stack = list(reversed(element.elements))
        while stack:
            element = stack.pop()
            if element.name in PARAGRAPHS and TEXTS in element.namespace:
                self.number += 1
                yield from self.paragraph(element, f"{self.place}paragraph {self.number}")
            elif element.name == "annotation" and not self.options.comments:
                self.untranslated["comments"] += 1
            elif element.name == "table-cell" and is_computed(element):
                self.untranslated["numbers and results of formulas"] += 1
            elif element.name not in HIDDEN:
                stack += reversed(element.elements)

    def paragraph(self, element: Tree, place: str) -> Iterator[Span]:
        paragraph = Paragraph(self, Marks())
        nodes = merged(paragraph.nodes(element, PLAIN, 0), PLAIN)
        if any(map(has_words, nodes)) or has_texts(nodes):
            prefix = qualified(self.xml.slice(element.begin, element.inside), "s")
            render = partial(write_paragraph, name=prefix, marks=paragraph.marks)
            yield Span(nodes, place, element.inside, element.inside_end, render)


def is_computed(cell: Tree) -> bool:
    return attribute(cell, "value-type") not in ("", "string") or attribute(cell, "formula") != ""


def has_texts(nodes: list[Node]) -> bool:
    """Whether an object among the nodes has texts."""
    return any(
        bool(node.texts) if isinstance(node, Object) else not isinstance(node, str) and has_texts(node.nodes)
        for node in nodes
    )


@dataclass
class Paragraph:
    """A paragraph, while its nodes are made."""

    part: Part
    marks: Marks

    def nodes(self, element: Tree, run: Run, depth: int) -> list[Node]:
        if depth > MAX_NESTING:
            raise DocumentError(f"More than {MAX_NESTING} elements are inside each other.")
        nodes: list[Node] = []
        for child in element.children:
            if isinstance(child, Text):
                nodes.append(Element(run, [re.sub(r"[ \t\r\n]+", " ", child.value)]))
            elif isinstance(child, Kept):
                nodes.append(anchor(markup(self.part.xml, child.begin, child.end, (), run.start, run.end)))
            else:
                nodes += self.node(child, run, depth)
        return nodes

    def node(self, element: Tree, run: Run, depth: int) -> list[Node]:
        """Convert an element in a paragraph."""
        xml, name = self.part.xml, element.name
        source = xml.slice(element.begin, element.end)
        if ANCHOR.fullmatch(name):
            return [anchor(markup(xml, element.begin, element.end, (), run.start, run.end))]
        if not element.namespace.startswith(TEXTS):
            return [self.object(element, run)]
        if name == "span":
            return self.nodes(element, self.inner_run(element, run), depth + 1)
        if name == "s":
            count = attribute(element, "c")
            return [Element(run, [" " * (int(count) if count.isdecimal() and len(count) < 4 else 1)])]
        if name in ("tab", "line-break"):
            plain = "\x1c" if name == "tab" else "\v"
            character = self.marks.add(source, plain)
            return [Element(run, [character])] if character else [self.object(element, run)]
        if name in CONTAINERS and element.children:
            start = run.start + xml.slice(element.begin, element.inside)
            end = xml.slice(element.inside_end, element.end) + run.end
            return [Element((start, end), self.nodes(element, PLAIN, depth + 1), is_link=name == "a")]
        return [self.object(element, run)]

    def object(self, element: Tree, run: Run) -> Node:
        """Convert a field, a frame, a note or the like; the paragraphs inside are its texts."""
        self.part.nesting += 1
        if self.part.nesting > MAX_NESTING:
            raise DocumentError(f"More than {MAX_NESTING} frames and notes are inside each other.")
        is_comment = element.name == "annotation" and not self.part.options.comments
        spans = [] if is_comment else list(self.part.spans(element))
        self.part.nesting -= 1
        origin = markup(self.part.xml, element.begin, element.end, spans, run.start, run.end)
        texts = [span.nodes for span in spans]
        if element.name in ("note", "annotation"):
            self.part.untranslated["comments"] += is_comment
            return Anchor([Object(origin, texts=texts)], is_visible=not is_comment)
        is_field = not spans and element.namespace.startswith(TEXTS)
        if not spans:
            self.part.untranslated["fields" if is_field else "objects"] += 1
        return Object(origin, is_field, texts)

    def inner_run(self, span: Tree, run: Run) -> Run:
        """Return the format of a span within another format."""
        xml, name = self.part.xml, attribute(span, "style-name")
        formats = self.part.formats.get(name, {"style": name} if name else {})
        position = formats.get("text-position", "")
        return Run(
            (*run.key, *sorted(formats.items())),
            run.start + xml.slice(span.begin, span.inside),
            xml.slice(span.inside_end, span.end) + run.end,
            run.is_script or (position.startswith(("super", "sub")) or position[:1].isdigit() and position[:2] != "0%"),
            run.shows_spaces or any(formats.get(key, "none") not in ("none", "transparent") for key in DRAWN),
        )


def write_paragraph(nodes: list[Node], name: str, marks: Marks) -> str:
    """Write the content of a paragraph; spaces at its ends, and those after another one, are elements."""
    last = [" "]  # at the start of a paragraph a space is not seen

    def write_text(text: str, run: Run) -> str:
        parts = []
        for part in marks.split(text):
            if part in marks.sources:
                parts.append(marks.sources[part])
            else:
                parts.append(with_spaces(escaped(part), name, last[0]))
            last[0] = part[-1:] or last[0]
        return run.start + "".join(parts) + run.end

    def write_object(node: Object) -> str:
        if node.is_word:
            last[0] = ""
        return write_source(node)

    return write(nodes, PLAIN, write_text, write_object)


def with_spaces(text: str, name: str, before: str) -> str:
    """Write spaces that XML would join to one as elements."""

    def spaces(match: re.Match) -> str:
        is_first = match.start() == 0 and before == " "
        number = len(match[0]) - (not is_first)
        element = f'<{name} {name.rpartition(":")[0]}:c="{number}"/>' if number > 1 else f"<{name}/>"
        return ("" if is_first else " ") + (element if number else "")

    return re.sub(" +", spaces, text)
