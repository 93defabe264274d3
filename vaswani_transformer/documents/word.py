"""Word documents (.docx): translate paragraphs, tables, headers, footers and notes; formats follow their words."""

import copy
import io
import re
import zipfile

from docx import Document
from docx.oxml.ns import qn
from lxml import etree

from .inline import Element, Node, Object
from .limits import check_archive
from .translator import DocumentError, DocumentTranslator


PARAGRAPH, RUN, TEXT, LINK = qn("w:p"), qn("w:r"), qn("w:t"), qn("w:hyperlink")
BREAK, TAB, FIELD = qn("w:br"), qn("w:tab"), qn("w:fldChar")
PROPERTIES = {qn("w:pPr"), qn("w:rPr")}
DROPPED = {qn("w:proofErr"), qn("w:lastRenderedPageBreak")}  # Word writes them itself when it opens the document
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
NO_TEXT = PROPERTIES | DROPPED
PARTS = "header", "footer", "footnotes", "endnotes"  # the parts with texts besides the main document
LINE_ENDS = {BREAK: "\v", TAB: "\x1c"}  # the pipeline ends a line of text at these characters


def translate(content: bytes, translator: DocumentTranslator) -> bytes:
    """Translate the texts of a document.

    Raises:
        DocumentError: The file is not a Word document, is damaged, or is too large when unpacked.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_archive(archive)
        document = Document(io.BytesIO(content))
        parts = {part: root for part in document.part.package.iter_parts() if (root := root_of(part)) is not None}
    except (DocumentError, MemoryError, RecursionError):
        raise
    except Exception as error:
        raise unreadable(error) from error
    roots = [document.element, *parts.values()]
    if any(True for root in roots for _ in root.iter(etree.Entity)):
        raise DocumentError("The document has XML entities, which Word documents may not have. Save it again in Word.")
    paragraphs = [p for root in roots for p in root.iter(PARAGRAPH)]
    segments = [merge_runs(as_nodes(paragraph)) for paragraph in paragraphs]
    with_text = [i for i, nodes in enumerate(segments) if any(map(has_text, nodes))]
    for i, nodes in zip(with_text, translator([segments[i] for i in with_text]), strict=True):
        rewrite(paragraphs[i], nodes)
    for part, root in parts.items():
        if not hasattr(part, "element"):
            part._blob = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
    output = io.BytesIO()
    try:
        document.save(output)
    except (TypeError, ValueError, AttributeError, KeyError) as error:  # python-docx does not check all it reads
        raise unreadable(error) from error
    return output.getvalue()


def unreadable(error: Exception) -> DocumentError:
    """The error for a damaged file; zipfile, zlib, lxml and python-docx have no common exception for them."""
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return DocumentError(f"Not a Word document (.docx), or the file is damaged ({reason}).")


def root_of(part):
    """The XML of a part with texts, or None for other parts; python-docx parses headers, but not notes."""
    name = str(part.partname).rpartition("/")[2]
    if not name.startswith(PARTS) or not name.endswith(".xml"):
        return None
    if hasattr(part, "element"):
        return part.element
    return etree.fromstring(part.blob, etree.XMLParser(resolve_entities=False, no_network=True))


# From a paragraph to nodes -------------------------------------------------------------------------------------------


def as_nodes(parent) -> list[Node]:
    """Convert a paragraph or a link: links and runs become elements; fields, images and notes become objects.

    Anchors, such as the ends of a bookmark, have no place among the words; `rewrite` leaves them in the paragraph.
    """
    nodes: list[Node] = []
    field: list = []
    for child in parent:
        if is_comment(child):
            continue
        if field or is_field(child, "begin"):
            field.append(child)
            if is_field(child, "end"):
                nodes.append(Object(field))
                field = []
        elif child.tag == LINK:
            nodes.append(Element(child, merge_runs(as_nodes(child))))
        elif child.tag == RUN:
            parts = [as_node(part) for part in child if not is_comment(part) and part.tag not in NO_TEXT]
            nodes.append(Element(child, parts, is_whole=False))
        elif child.tag.endswith("}oMath"):
            nodes.append(Object([child]))
    return nodes + ([Object(field)] if field else [])


def is_comment(child) -> bool:
    """Whether a child is a comment or a processing instruction."""
    return not isinstance(child.tag, str)


def is_field(child, kind: str) -> bool:
    """Whether a run is the "begin" or the "end" of a field."""
    return any(mark.get(qn("w:fldCharType")) == kind for mark in child.findall(FIELD))


def as_node(part) -> Node:
    """Convert a part of a run."""
    if part.tag == TEXT:
        return "".join(part.xpath("text()"))  # `part.text` would end at a comment
    return LINE_ENDS.get(part.tag) or Object(part)


def has_text(node: Node) -> bool:
    return bool(node.strip()) if isinstance(node, str) else any(map(has_text, getattr(node, "nodes", ())))


def merge_runs(nodes: list[Node]) -> list[Node]:
    """Merge neighbouring runs of the same format; Word splits runs wherever something was edited."""
    merged: list[Node] = []
    for node in nodes:
        last = merged[-1] if merged else None
        are_runs = all(isinstance(x, Element) and not x.is_whole for x in (node, last))
        if are_runs and format_of(node) == format_of(last):
            last.nodes += node.nodes
        else:
            merged.append(node)
    return merged


def format_of(run: Element) -> bytes:
    properties = run.origin.find(qn("w:rPr"))
    return b"" if properties is None else etree.tostring(properties)


# From nodes to a paragraph -------------------------------------------------------------------------------------------


def rewrite(paragraph, nodes: list[Node]):
    """Replace the runs of a paragraph by the nodes; anchors between the runs come after them."""
    is_old = (RUN, LINK, *DROPPED)
    children = [child for child in paragraph if not is_comment(child)]
    old = [child for child in children if child.tag in is_old or child.tag.endswith("}oMath")]
    index = paragraph.index(old[0])
    for child in old:
        paragraph.remove(child)
    new = etree.Element(PARAGRAPH)
    append(new, nodes, into_run=False)
    for child in reversed(list(new)):
        paragraph.insert(index, child)


def append(parent, nodes: list[Node], into_run: bool):
    """Append nodes to a paragraph, a link or a run; only in a run they need no run of their own."""
    for node in nodes:
        if isinstance(node, Element):
            new = etree.SubElement(parent, node.origin.tag, node.origin.attrib)
            new.extend(copy.deepcopy(child) for child in node.origin if child.tag in PROPERTIES)
            append(new, node.nodes, into_run=node.origin.tag == RUN)
        elif isinstance(node, Object) and isinstance(node.origin, list):
            parent.extend(node.origin)
        else:
            write(parent if into_run else etree.SubElement(parent, RUN), node)


def write(run, node: str | Object):
    """Write a text or an object into a run."""
    if isinstance(node, Object):
        run.append(node.origin)
        return
    for part in re.split(r"([\v\x1c])", node):
        if part in LINE_ENDS.values():
            etree.SubElement(run, BREAK if part == LINE_ENDS[BREAK] else TAB)
        elif part:
            text = etree.SubElement(run, TEXT)
            text.text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", part)
            text.set(SPACE, "preserve")
