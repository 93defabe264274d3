"""Excel workbooks (.xlsx): the texts of cells, charts and text boxes are edited in place.

Formulas, names of sheets and the headers of tables, to which formulas refer, stay. openpyxl would write every part
again, without what it does not know.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from posixpath import dirname, join, normpath

from .archive import Archive, ArchiveDocument, XmlPart, markup
from .document import DocumentError, Options, Span
from .inline import Element, Object, has_words
from .presentation import drawing
from .runs import Run, anchor, base_run, has_entities, merged, write
from .xml import Kept, Tree, Xml, escaped, qualified


KIND = "an Excel workbook (.xlsx)"
DRAWINGS = {"drawing+xml": "drawing", "chart+xml": "chart", "diagramData+xml": "diagram"}


def read(content: bytes, options: Options) -> ArchiveDocument:
    """Find the texts of a workbook.

    Raises:
        DocumentError: The file is not a workbook, is damaged, or is too large when unpacked.
    """
    archive = Archive(content, KIND)
    sheets = [name for name, _ in archive.with_types({"worksheet+xml": ""})]
    if not sheets:
        raise DocumentError(f"Not {KIND}: it has no sheets.")
    parts, headers = {}, set()
    for number, name in enumerate(sheets, 1):
        source = archive[name]
        # Sheets can be huge; most of them have numbers and references to shared texts only.
        if b"inlineStr" in source or b"tableParts" in source:
            xml = Xml(source)
            cells = set(header_cells(archive, name))
            headers |= {shared_index(cell) for cell in xml.root.iter("c") if cell.attributes.get("r") in cells}
            inline = [cell for cell in xml.root.iter("c") if cell.find("is") is not None]
            texts = [
                span
                for cell in inline
                if cell.attributes.get("r") not in cells
                for span in spans(xml, cell.find("is"), f"sheet {number}, cell {cell.attributes.get('r', '')}")
            ]
            parts[name] = XmlPart(xml, texts)
    for name, _ in archive.with_types({"sharedStrings+xml": ""}):
        parts[name] = shared_texts(Xml(archive[name]), headers)
    for name, kind in archive.with_types(DRAWINGS):
        parts[name] = drawing(Xml(archive[name]), kind)
    return ArchiveDocument(archive, parts)


def shared_texts(xml: Xml, headers: set[int]) -> XmlPart:
    """Find the texts that cells share."""
    texts, untranslated = [], Counter()
    for number, item in enumerate(element for element in xml.root.elements if element.name == "si"):
        new = list(spans(xml, item, f"text {number + 1}"))
        if number in headers:
            untranslated["headers of tables"] += len(new)
        else:
            texts += new
    return XmlPart(xml, texts, +untranslated)


def shared_index(cell: Tree) -> int:
    value = cell.find("v")
    is_shared = cell.attributes.get("t") == "s" and value is not None and value.text.strip().isdecimal()
    return int(value.text) if is_shared and len(value.text) < 10 else -1


def header_cells(archive: Archive, sheet: str) -> Iterator[str]:
    """Yield the cells, such as "B2", of the headers of a sheet's tables."""
    relations = join(dirname(sheet), "_rels", sheet.rpartition("/")[2] + ".rels")
    if relations not in archive.names:
        return
    for row in Xml(archive[relations]).root.elements:
        target = row.attributes.get("Target", "")
        name = target.lstrip("/") if target.startswith("/") else normpath(join(dirname(sheet), target))
        if not row.attributes.get("Type", "").endswith("/table") or name not in archive.names:
            continue
        table = Xml(archive[name]).root
        area = re.fullmatch(r"([A-Z]{1,3})(\d{1,7})(?::([A-Z]{1,3})\d{1,7})?", table.attributes.get("ref", ""))
        if area and table.attributes.get("headerRowCount") != "0":
            first, last = column_number(area[1]), column_number(area[3] or area[1])
            yield from (f"{column_name(number)}{area[2]}" for number in range(first, last + 1))


def column_number(name: str) -> int:
    number = 0
    for letter in name:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def column_name(number: int) -> str:
    name = ""
    while number:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


def spans(xml: Xml, item: Tree, place: str) -> Iterator[Span]:
    """Yield the text of a cell."""
    places = [i for i, x in enumerate(item.children) if isinstance(x, Tree) and x.name in ("r", "t")]
    if not places:
        return
    content = item.children[places[0] : places[-1] + 1]
    nodes = []
    for child in content:
        if isinstance(child, Tree) and child.name in ("r", "t"):
            text = child if child.name == "t" else child.find("t")
            if text is not None and has_entities(text):
                nodes.append(Object(markup(xml, child.begin, child.end)))
            elif text is not None and text.text:
                nodes.append(Element(run_of(xml, child, text), [text.text]))
        elif isinstance(child, Tree | Kept):
            nodes.append(anchor(markup(xml, child.begin, child.end)))
    if not (base := base_run(nodes)):
        return
    nodes = merged(nodes, base)
    if any(map(has_words, nodes)):
        name = qualified(xml.slice(item.begin, item.inside), "t")
        render = partial(write, base=base, write_text=partial(write_text, name=name))
        yield Span(nodes, place, content[0].begin, content[-1].end, render)


def run_of(xml: Xml, element: Tree, text: Tree) -> Run:
    if element is text:
        return Run((), "", "")
    properties = element.find("rPr")
    formats = properties.elements if properties is not None else []
    return Run(
        ("r", *(xml.slice(x.begin, x.end) for x in formats)),
        xml.slice(element.begin, text.begin),
        xml.slice(text.end, element.end),
        is_script=any(x.name == "vertAlign" and x.attributes.get("val") != "baseline" for x in formats),
        shows_spaces=any(x.name in ("u", "strike") for x in formats),
    )


def write_text(text: str, run: Run, name: str) -> str:
    space = ' xml:space="preserve"' if text != text.strip() or "\n" in text else ""
    return f"{run.start}<{name}{space}>{escaped(text)}</{name}>{run.end}"
