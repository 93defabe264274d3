"""Word documents (.docx): paragraphs are edited in place; formats follow their words, and fields and drawings stay.

A paragraph whose text changes is rewritten between its properties and its end, in the source's own markup; nothing else
changes. python-docx would rewrite every part, and knows neither tracked changes nor fields nor text boxes.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from .archive import Archive, ArchiveDocument, Markup, XmlPart, markup
from .document import DocumentError, Options, Span
from .inline import Element, Node, Object, has_words
from .runs import Marks, Run, anchor, base_run, has_entities, merged, write
from .xml import Kept, Text, Tree, Xml, escaped, qualified


KIND = "a Word document (.docx)"
TYPES = {
    "main+xml": "",
    "header+xml": "header, ",
    "footer+xml": "footer, ",
    "footnotes+xml": "footnotes, ",
    "endnotes+xml": "endnotes, ",
    "comments+xml": "comments, ",
}
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
CONTAINERS = set("ins moveTo sdt smartTag customXml dir bdo hyperlink".split())
DELETED = {"del", "moveFrom"}
# What the model does not see: it follows the word before it.
ANCHORS = set("proofErr lastRenderedPageBreak footnoteReference endnoteReference commentReference delText".split())
NOTES = {"footnoteReference", "endnoteReference"}
RANGE = re.compile(r".*(?:Start|End)")  # of bookmarks, comments, permissions, moves
IGNORED = {"lang", "noProof"}  # of a run's format: readers do not see it
SHOWS_SPACES = set("u highlight shd bdr strike dstrike".split())
WORD_FIELDS = {"oMath", "fldSimple", "ruby", "pgNum"}
LINE_ENDS = {"br", "tab", "cr", "ptab"}
HYPHENS = {"noBreakHyphen": "\u2011", "softHyphen": "\xad"}
MAX_NESTING = 50
# What follows w:updateFields in the settings.
AFTER_UPDATE = set(
    """
    hdrShapeDefaults footnotePr endnotePr compat docVars rsids mathPr attachedSchema themeFontLang clrSchemeMapping
    doNotIncludeSubdocsInStats doNotAutoCompressPictures forceUpgrade captions readModeInkLockDown smartTagType
    schemaLibrary shapeDefaults doNotEmbedSmartTags decimalSymbol listSeparator docId chartTrackingRefBased
    """.split()
)


def read(content: bytes, options: Options) -> ArchiveDocument:
    """Find the paragraphs of a document, its tables, text boxes, headers, footers and notes.

    Raises:
        DocumentError: The file is not a Word document, is damaged, or is too large when unpacked.
    """
    archive = Archive(content, KIND)
    parts, has_contents = {}, False
    for name, place in archive.with_types(TYPES):
        if place != "comments, " or options.comments:
            xml = Xml(archive[name])
            part = Part(xml, place)
            parts[name] = XmlPart(xml, list(part.spans(xml.root)), part.untranslated)
            has_contents = has_contents or part.has_contents
    if not parts:
        raise DocumentError(f"Not {KIND}: no part has the type of a document's text.")
    further = {}
    if has_contents:
        settings = dict(archive.with_types({"settings+xml": ""}))
        further = {name: updating_fields(Xml(archive[name])) for name in settings}
    return ArchiveDocument(archive, parts, further)


def updating_fields(settings: Xml) -> bytes:
    """Return the settings with the order to update tables of contents on opening."""
    name = qualified(settings.slice(settings.root.begin, settings.root.inside), "updateFields")
    prefix = name.removesuffix("updateFields")
    new = f'<{name} {prefix}val="true"/>' if prefix else f"<{name}/>"
    if (old := settings.root.find("updateFields")) is not None:
        return settings.edited([(old.begin, old.end, new)])
    if settings.root.inside == settings.root.end:
        return settings.edited([])
    later = [child.begin for child in settings.root.elements if child.name in AFTER_UPDATE]
    place = later[0] if later else settings.root.inside_end
    return settings.edited([(place, place, new)])


# From paragraphs to nodes --------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Atom:
    """A child of a paragraph or of a container in it; what is in a run has this run."""

    node: Tree | Kept
    run: Tree | None = None

    @property
    def name(self) -> str:
        return self.node.name if isinstance(self.node, Tree) else ""

    @property
    def field_end(self) -> str:
        """What a mark of a field is: "begin", "separate" or "end"."""
        return value_of(self.node, "fldCharType") if self.name == "fldChar" else ""


@dataclass
class Part:
    """A part with paragraphs, while its texts are collected."""

    xml: Xml
    place: str
    untranslated: Counter[str] = field(default_factory=Counter)
    has_contents: bool = False
    number: int = 0
    nesting: int = 0

    def spans(self, element: Tree) -> Iterator[Span]:
        """Yield the texts of the outermost paragraphs in an element."""
        for paragraph in outermost(element, "p"):
            self.number += 1
            yield from Paragraph(self, paragraph, f"{self.place}paragraph {self.number}").spans()


def outermost(element: Tree, name: str) -> Iterator[Tree]:
    """Yield the elements of a name that are not in another one, in their order."""
    stack = [element]
    while stack:
        element = stack.pop()
        if element.name == name and is_word(element):
            yield element
        else:
            stack += reversed(element.elements)


def is_word(element: Tree) -> bool:
    return "wordprocessingml" in element.namespace


def value_of(element: Tree, name: str) -> str:
    return element.attributes.get(f"{{{element.namespace}}}{name}", "")


@dataclass
class Paragraph:
    """A paragraph, while its nodes are made.

    Attributes:
        marks: The characters of line ends and hyphens, with what they represent.
    """

    part: Part
    element: Tree
    place: str
    marks: Marks = field(default_factory=Marks)
    runs: dict[int, Run] = field(default_factory=dict)
    loose_fields: int = 0

    @property
    def xml(self) -> Xml:
        return self.part.xml

    def spans(self) -> Iterator[Span]:
        content = content_of(self.element)
        if not content:
            return
        nodes = self.nodes(content, 0)
        base = base_run(nodes) or Run((), f"<{self.name('r')}>", f"</{self.name('r')}>")
        nodes = merged(nodes, base)
        if self.loose_fields > 1 and any(map(has_words, nodes)):
            self.part.untranslated["paragraphs with fields that cross other markup"] += 1
        elif any(map(has_words, nodes)) or has_texts(nodes):
            render = partial(write, base=base, write_text=partial(write_text, name=self.name("t"), marks=self.marks))
            yield Span(nodes, self.place, content[0].begin, content[-1].end, render)

    def name(self, name: str) -> str:
        """Return a name with the prefix of the paragraph."""
        return qualified(self.xml.slice(self.element.begin, self.element.inside), name)

    def nodes(self, children: Sequence[Tree | Text | Kept], depth: int) -> list[Node]:
        if depth > MAX_NESTING:
            raise DocumentError(f"{self.place}: more than {MAX_NESTING} elements are inside each other.")
        atoms: list[Atom] = []
        for child in children:
            if isinstance(child, Tree) and child.name == "r" and is_word(child):
                atoms += [Atom(x, child) for x in child.children if not isinstance(x, Text) and not is_properties(x)]
            elif not isinstance(child, Text):
                atoms.append(Atom(child))
        return self.with_fields(atoms, depth)

    def with_fields(self, atoms: list[Atom], depth: int) -> list[Node]:
        """Convert atoms; a field is an object, but the texts of links and tables of contents are translated."""
        ends = field_ends(atoms)
        nodes: list[Node] = []
        i = 0
        while i < len(atoms):
            if i in ends:
                nodes.append(self.field(atoms[i : ends[i] + 1], depth))
                i = ends[i] + 1
            elif is_field_code(atoms[i]):
                first = i
                while i < len(atoms) and i not in ends and is_field_code(atoms[i]):
                    i += 1
                self.loose_fields += any(atom.field_end for atom in atoms[first:i])
                self.part.has_contents |= instruction(atoms[first:i]).startswith("TOC")
                nodes.append(anchor(self.raw(atoms[first:i])))
            else:
                nodes += self.node(atoms[i], depth)
                i += 1
        return nodes

    def field(self, atoms: list[Atom], depth: int) -> Node:
        middle = next((i for i, atom in enumerate(atoms) if atom.field_end == "separate"), len(atoms))
        code = instruction(atoms[:middle])
        self.part.has_contents |= code.startswith("TOC")
        if depth > MAX_NESTING or not code.startswith(("HYPERLINK", "TOC")) or middle == len(atoms):
            self.part.untranslated["fields"] += 1
            return Object(self.raw(atoms), is_word=True)
        inside = self.with_fields(atoms[middle + 1 : -1], depth + 1)
        start, end = self.raw(atoms[: middle + 1]), self.raw(atoms[-1:])
        return Element((start.write([]), end.write([])), inside, is_link=code.startswith("HYPERLINK"))

    def raw(self, atoms: Sequence[Atom]) -> Markup:
        """Return neighbours as they are."""
        parts = []
        for i, atom in enumerate(atoms):
            source = self.xml.slice(atom.node.begin, atom.node.end)
            if atom.run is not None:
                run = self.run(atom.run)
                starts = i == 0 or atoms[i - 1].run is not atom.run
                ends = i == len(atoms) - 1 or atoms[i + 1].run is not atom.run
                source = (run.start if starts else "") + source + (run.end if ends else "")
            parts.append(source)
        return Markup(("".join(parts),))

    def node(self, atom: Atom, depth: int) -> list[Node]:
        """Convert a child of a run or of a container."""
        element, name = atom.node, atom.name
        if isinstance(element, Kept) or name in ANCHORS or RANGE.fullmatch(name):
            return [anchor(self.raw([atom]), name in NOTES)]
        if name in DELETED:
            self.part.untranslated["deleted texts"] += 1
            return [anchor(self.raw([atom]))]
        if atom.run is None and is_word(element) and name in CONTAINERS:
            return [self.container(element, depth)]
        if name == "fldSimple" and value_of(element, "instr").strip().upper().startswith("HYPERLINK"):
            return [self.container(element, depth)]
        if atom.run is not None and (text := self.text(element)) is not None:
            run = self.run(atom.run)
            if run.is_hidden:
                self.part.untranslated["hidden texts"] += 1
                return [anchor(self.raw([atom]))]
            return [Element(run, [text])] if text else []
        return [self.object(atom)]

    def object(self, atom: Atom) -> Object:
        """Convert a drawing, a formula or the like; the texts of text boxes are its texts."""
        self.part.nesting += 1
        if self.part.nesting > MAX_NESTING:
            raise DocumentError(f"{self.place}: more than {MAX_NESTING} text boxes are inside each other.")
        spans = list(self.part.spans(atom.node))
        self.part.nesting -= 1
        run = self.run(atom.run) if atom.run is not None else None
        before, after = (run.start, run.end) if run else ("", "")
        origin = markup(self.xml, atom.node.begin, atom.node.end, spans, before, after)
        if not spans:
            kind = "formulas" if atom.name.startswith("oMath") else "fields" if atom.name == "fldSimple" else "objects"
            self.part.untranslated[kind] += 1
        return Object(origin, atom.name in WORD_FIELDS, [span.nodes for span in spans])

    def container(self, element: Tree, depth: int) -> Node:
        """Convert a link, an insertion or the like to an element."""
        holder = element.find("sdtContent") if element.name == "sdt" else element
        content = content_of(holder) if holder else []
        if not content:
            return anchor(Markup((self.xml.slice(element.begin, element.end),)))
        start = self.xml.slice(element.begin, content[0].begin)
        end = self.xml.slice(content[-1].end, element.end)
        inside = self.nodes(content, depth + 1)
        return Element((start, end), inside, is_link=element.name in ("hyperlink", "fldSimple"))

    def text(self, element: Tree) -> str | None:
        """Return the characters of a part of a run, or None for an object."""
        if element.name == "t" and not has_entities(element):
            text = element.text.replace("\n", " ")
            return text if element.attributes.get(SPACE) == "preserve" else text.strip()
        source = self.xml.slice(element.begin, element.end)
        if element.name in HYPHENS:
            self.marks.sources[HYPHENS[element.name]] = source
            return HYPHENS[element.name]
        if element.name not in LINE_ENDS:
            return None
        is_plain = element.name in ("br", "tab") and not element.attributes
        return self.marks.add(source, ("\v" if element.name == "br" else "\x1c") if is_plain else "")

    def run(self, element: Tree) -> Run:
        if id(element) in self.runs:
            return self.runs[id(element)]
        properties = element.find("rPr")
        name = qualified(self.xml.slice(element.begin, element.inside), "r")
        inside = properties.end if properties is not None else element.inside
        formats = [x for x in properties.elements if x.name not in IGNORED] if properties is not None else []
        self.runs[id(element)] = Run(
            tuple(self.xml.slice(x.begin, x.end) for x in formats),
            self.xml.slice(element.begin, inside),
            f"</{name}>",
            any(x.name == "vertAlign" and value_of(x, "val") != "baseline" for x in formats),
            any(x.name in SHOWS_SPACES and value_of(x, "val") != "none" for x in formats),
            any(x.name == "vanish" and value_of(x, "val") not in ("0", "false", "off") for x in formats),
        )
        return self.runs[id(element)]


def content_of(element: Tree) -> list[Tree | Text | Kept]:
    """Return the children from the first to the last element, without the properties of a paragraph or container."""
    places = [i for i, x in enumerate(element.children) if isinstance(x, Tree) and not is_properties(x)]
    return element.children[places[0] : places[-1] + 1] if places else []


def is_properties(node: Tree | Text | Kept) -> bool:
    return isinstance(node, Tree) and is_word(node) and node.name.endswith("Pr")


def is_field_code(atom: Atom) -> bool:
    return atom.run is not None and atom.name in ("fldChar", "instrText", "delInstrText")


def field_ends(atoms: Sequence[Atom]) -> dict[int, int]:
    """Return the index of the beginning of each field with that of its end."""
    ends, open_fields = {}, []
    for i, atom in enumerate(atoms):
        if atom.field_end == "begin":
            open_fields.append(i)
        elif atom.field_end == "end" and open_fields:
            ends[open_fields.pop()] = i
    return ends


def instruction(atoms: Sequence[Atom]) -> str:
    """Return what a field does, such as "PAGE"."""
    return "".join(atom.node.text for atom in atoms if atom.name == "instrText").strip().upper()


def has_texts(nodes: Sequence[Node]) -> bool:
    """Whether an object among the nodes has texts."""
    return any(
        bool(node.texts) if isinstance(node, Object) else not isinstance(node, str) and has_texts(node.nodes)
        for node in nodes
    )


# From nodes to paragraphs --------------------------------------------------------------------------------------------


def write_text(text: str, run: Run, name: str, marks: Marks) -> str:
    """Write a run: texts, line ends and hyphens."""
    parts = []
    for part in marks.split(text):
        if part in marks.sources:
            parts.append(marks.sources[part])
        elif part := escaped(part):
            space = ' xml:space="preserve"' if part != part.strip() else ""
            parts.append(f"<{name}{space}>{part}</{name}>")
    return run.start + "".join(parts) + run.end
