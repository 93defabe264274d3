"""Word documents (.docx): paragraphs, tables, headers, footers and notes; formats go where the words go."""

import copy
import io
import re
import zipfile

from docx import Document
from docx.opc.exceptions import PackageNotFoundError
from docx.oxml.ns import qn
from lxml import etree

from .inline import Element, Node, Object
from .translator import DocumentError, DocumentTranslator


PARAGRAPH, RUN, TEXT, LINK, BREAK, TAB, FIELD = (
    qn(f"w:{n}") for n in ("p", "r", "t", "hyperlink", "br", "tab", "fldChar")
)
PROPERTIES = {qn("w:pPr"), qn("w:rPr")}
DROPPED = {qn("w:proofErr"), qn("w:lastRenderedPageBreak")}  # what Word makes anew
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
PARTS = "header", "footer", "footnotes", "endnotes"  # that have texts, besides the document itself
MOST_BYTES = 2**28  # unpacked
MARKS = {BREAK: "\v", TAB: "\x1c"}  # which end a line of text


def translate(content: bytes, translator: DocumentTranslator) -> bytes:
    """The document with its texts translated.

    Raises:
        DocumentError: it is no Word document, or a damaged one.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > MOST_BYTES:
            raise DocumentError(f"It unpacks to {size:,} bytes; the limit is {MOST_BYTES:,}.")
        document = Document(io.BytesIO(content))
        parts = {part: root for part in document.part.package.iter_parts() if (root := root_of(part)) is not None}
    except DocumentError:
        raise
    except (PackageNotFoundError, zipfile.BadZipFile, KeyError, ValueError, OSError, etree.XMLSyntaxError) as error:
        raise DocumentError(f"It is no Word document, or a damaged one ({error}).") from error
    paragraphs = [p for root in [document.element, *parts.values()] for p in root.iter(PARAGRAPH)]
    segments = [merged(as_nodes(paragraph)) for paragraph in paragraphs]
    chosen = [i for i, nodes in enumerate(segments) if any(map(has_text, nodes))]
    for i, nodes in zip(chosen, translator([segments[i] for i in chosen]), strict=True):
        rewrite(paragraphs[i], nodes)
    for part, root in parts.items():
        if not hasattr(part, "element"):
            part._blob = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def root_of(part):
    """The XML of a part with texts: a header's own, or parsed from a part that python-docx does not know."""
    name = str(part.partname).rpartition("/")[2]
    if not name.startswith(PARTS) or not name.endswith(".xml"):
        return None
    if hasattr(part, "element"):
        return part.element
    return etree.fromstring(part.blob, etree.XMLParser(resolve_entities=False, no_network=True))


# Out of a paragraph --------------------------------------------------------------------------------------------------


def as_nodes(parent) -> list[Node]:
    """What stands in a paragraph or a link: links and runs are elements, fields, images and notes are objects.

    Anchors, such as the ends of a bookmark, have no place among the words; `rewrite` leaves them where they are.
    """
    nodes: list[Node] = []
    field: list = []
    for child in parent:
        if field or is_field(child, "begin"):
            field.append(child)
            if is_field(child, "end"):
                nodes.append(Object(field))
                field = []
        elif child.tag == LINK:
            nodes.append(Element(child, merged(as_nodes(child))))
        elif child.tag == RUN:
            nodes.append(
                Element(child, [of_run(part) for part in child if part.tag not in PROPERTIES | DROPPED], False)
            )
        elif child.tag.endswith("}oMath"):
            nodes.append(Object([child]))
    return nodes + ([Object(field)] if field else [])


def is_field(child, kind: str) -> bool:
    return any(mark.get(qn("w:fldCharType")) == kind for mark in child.findall(FIELD))


def of_run(part) -> Node:
    return (part.text or "") if part.tag == TEXT else MARKS.get(part.tag) or Object(part)


def has_text(node: Node) -> bool:
    return bool(node.strip()) if isinstance(node, str) else any(map(has_text, getattr(node, "nodes", ())))


def merged(nodes: list[Node]) -> list[Node]:
    """Neighbouring runs of one format as one: Word cuts runs wherever something was edited."""
    found: list[Node] = []
    for node in nodes:
        last = found[-1] if found else None
        are_runs = all(isinstance(x, Element) and not x.is_whole for x in (node, last))
        if are_runs and format_of(node) == format_of(last):
            last.nodes += node.nodes
        else:
            found.append(node)
    return found


def format_of(run: Element) -> bytes:
    found = run.origin.find(qn("w:rPr"))
    return b"" if found is None else etree.tostring(found)


# And back ------------------------------------------------------------------------------------------------------------


def rewrite(paragraph, nodes: list[Node]):
    """Puts the nodes into the paragraph, before the anchors at its end."""
    old = [
        child for child in paragraph if child.tag in (RUN, LINK) or child.tag in DROPPED or child.tag.endswith("}oMath")
    ]
    place = paragraph.index(old[0])
    for child in old:
        paragraph.remove(child)
    new = etree.Element(PARAGRAPH)
    append(new, nodes, old_run=None)
    for child in reversed(list(new)):
        paragraph.insert(place, child)


def append(parent, nodes: list[Node], old_run):
    """Writes nodes into a paragraph, a link or, with `old_run`, a run."""
    for node in nodes:
        if isinstance(node, Element):
            new = etree.SubElement(parent, node.origin.tag, node.origin.attrib)
            new.extend(copy.deepcopy(child) for child in node.origin if child.tag in PROPERTIES)
            append(new, node.nodes, old_run=new if node.origin.tag == RUN else None)
        elif isinstance(node, Object) and isinstance(node.origin, list):
            parent.extend(node.origin)
        else:
            run = parent if old_run is not None else etree.SubElement(parent, RUN)
            write(run, node)


def write(run, node: str | Object):
    if isinstance(node, Object):
        run.append(node.origin)
        return
    for part in re.split(r"([\v\x1c])", node):
        if part in MARKS.values():
            etree.SubElement(run, BREAK if part == "\v" else TAB)
        elif part:
            text = etree.SubElement(run, TEXT)
            text.text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", part)
            text.set(SPACE, "preserve")
