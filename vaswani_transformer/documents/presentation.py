"""PowerPoint presentations (.pptx): the paragraphs of slides, notes, diagrams and charts are edited in place.

python-pptx would write every part again, and knows no diagrams.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from .archive import Archive, ArchiveDocument, XmlPart, markup
from .document import DocumentError, Options, Span
from .inline import Element, Node, Object, has_words
from .runs import Marks, Run, anchor, base_run, has_entities, merged, write
from .xml import Kept, Text, Tree, Xml, escaped, qualified


KIND = "a PowerPoint presentation (.pptx)"
TYPES = {
    "slide+xml": "slide",
    "notesSlide+xml": "notes",
    "diagramData+xml": "diagram",
    "diagramDrawing+xml": "drawing of diagram",
    "chart+xml": "chart",
}
INVISIBLE = set("lang altLang dirty err smtClean smtId noProof bmk".split())  # attributes of a run's format


def read(content: bytes, options: Options) -> ArchiveDocument:
    """Find the paragraphs of slides, notes, diagrams and charts.

    Raises:
        DocumentError: The file is not a presentation, is damaged, or is too large when unpacked.
    """
    archive = Archive(content, KIND)
    if not dict(archive.with_types({"slide+xml": ""})):
        raise DocumentError(f"Not {KIND}: it has no slides.")
    parts, numbers = {}, Counter()
    for name, kind in archive.with_types(TYPES):
        numbers[kind] += 1
        parts[name] = drawing(Xml(archive[name]), f"{kind} {numbers[kind]}")
    return ArchiveDocument(archive, parts)


def drawing(xml: Xml, place: str) -> XmlPart:
    """Find the paragraphs of a part in DrawingML."""
    untranslated: Counter[str] = Counter()
    paragraphs = (element for element in xml.root.iter("p") if is_drawing(element))
    return XmlPart(xml, [span for p in paragraphs for span in spans(xml, p, place, untranslated)], untranslated)


def is_drawing(element: Tree) -> bool:
    return element.namespace.endswith(("/drawingml/2006/main", "/drawingml/main"))


def spans(xml: Xml, paragraph: Tree, place: str, untranslated: Counter[str]) -> Iterator[Span]:
    places = [i for i, x in enumerate(paragraph.children) if isinstance(x, Tree) and not x.name.endswith("Pr")]
    if not places:
        return
    content, marks = paragraph.children[places[0] : places[-1] + 1], Marks()
    nodes = [node for child in content for node in nodes_of(xml, child, marks, untranslated)]
    if not (base := base_run(nodes)):
        return
    nodes = merged(nodes, base)
    if any(map(has_words, nodes)):
        name = qualified(xml.slice(paragraph.begin, paragraph.inside), "t")
        render = partial(write, base=base, write_text=partial(write_text, name=name, marks=marks))
        yield Span(nodes, place, content[0].begin, content[-1].end, render)


def nodes_of(xml: Xml, child: Tree | Text | Kept, marks: Marks, untranslated: Counter[str]) -> list[Node]:
    """Convert a child of a paragraph."""
    if isinstance(child, Text):
        return []
    if isinstance(child, Kept):
        return [anchor(markup(xml, child.begin, child.end))]
    text = child.find("t") if child.name == "r" else None
    if child.name == "r" and not (text and has_entities(text)):
        return [Element(run_of(xml, child, text), [text.text])] if text is not None and text.text else []
    if child.name == "br" and (character := marks.add(xml.slice(child.begin, child.end), "\v")):
        return [Element(Run(("br",), "", ""), [character])]
    untranslated["fields" if child.name == "fld" else "objects"] += 1
    return [Object(markup(xml, child.begin, child.end), is_word=child.name in ("fld", "m"))]


def run_of(xml: Xml, element: Tree, text: Tree) -> Run:
    properties = element.find("rPr")
    start, end = xml.slice(element.begin, text.begin), xml.slice(text.end, element.end)
    if properties is None:
        return Run((), start, end)
    attributes = {name: value for name, value in properties.attributes.items() if name not in INVISIBLE}
    return Run(
        (*sorted(attributes.items()), *(xml.slice(x.begin, x.end) for x in properties.elements)),
        start,
        end,
        is_script=attributes.get("baseline", "0").strip("%") != "0",
        shows_spaces=attributes.get("u", "none") != "none" or properties.find("highlight") is not None,
        is_link=properties.find("hlinkClick") is not None,
    )


def write_text(text: str, run: Run, name: str, marks: Marks) -> str:
    """Write runs with the line ends between them."""
    parts = []
    for part in marks.split(text):
        if part in marks.sources:
            parts.append(marks.sources[part])
        elif part:
            parts.append(f"{run.start}<{name}>{escaped(part)}</{name}>{run.end}")
    return "".join(parts)
