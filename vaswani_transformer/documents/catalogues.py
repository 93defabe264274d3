"""Translators' files, read and written by translate-toolkit: gettext (.po, .pot), XLIFF (.xliff, .xlf) and TMX.

Only what has no translation yet is translated. An entry of which something is to be said is marked for review, in
gettext as fuzzy.
"""

import copy
import io
from typing import Any

from .inline import Element, Node, Object
from .translator import DocumentError, DocumentTranslator


WITH_TEXT = {"g", "mrk", "hi", "pc"}  # elements of XLIFF and TMX around words; all others are objects among them


def translate(content: bytes, name: str, translator: DocumentTranslator) -> bytes:
    """The file with the missing translations.

    Raises:
        DocumentError: it is damaged, or of another format.
    """
    from translate.storage import factory

    source = io.BytesIO(content)
    source.name = name
    try:
        store = factory.getobject(source)
        if name.lower().endswith(".tmx"):
            store.settargetlanguage(translator.target_language)
        units = [unit for unit in store.units if unit.source and unit.istranslatable() and not has_target(unit)]
    except Exception as error:  # each format has errors of its own
        raise DocumentError(
            f"It cannot be read: {' '.join(str(error).split())[:200] or type(error).__name__}."
        ) from error
    if not any(unit.source for unit in store.units):
        raise DocumentError("It has no texts to translate.")
    texts = [(unit, nodes) for unit in units for nodes in nodes_of(unit)]
    said, results = [], {}
    for (unit, _), nodes, warnings in zip(texts, *translator.with_warnings([nodes for _, nodes in texts]), strict=True):
        results.setdefault(id(unit), []).append(nodes)
        said += [id(unit)] if warnings else []
    for unit in units:
        put(unit, results[id(unit)], translator.target_language)
        if id(unit) in said:
            (unit.markfuzzy if xml_of(unit, "source") is None else unit.markreviewneeded)()
    if translator.target_language:
        name_language(store, translator.target_language)
    out = io.BytesIO()
    store.serialize(out)
    return out.getvalue()


def has_target(unit) -> bool:
    return bool(unit.target) and any(str(text).strip() for text in getattr(unit.target, "strings", [unit.target]))


def name_language(store, language: str):
    from translate.lang.data import languages

    if hasattr(store, "updateheader"):
        header = {"Language": language}
        if (forms := languages.get(language)) is not None:
            header["Plural_Forms"] = f"nplurals={forms[1]}; plural={forms[2]};"
        store.updateheader(add=True, **header)
    elif hasattr(store, "settargetlanguage"):
        store.settargetlanguage(language)


def nodes_of(unit) -> list[list[Node]]:
    """The texts of an entry: one, or the singular and the plural."""
    if (xml := xml_of(unit, "source")) is not None:
        return [of_xml(xml)]
    return [[str(text)] for text in getattr(unit.source, "strings", [unit.source])]


def put(unit, texts: list[list[Node]], language: str | None):
    plain = ["".join(node for node in nodes if isinstance(node, str)) for nodes in texts]
    if xml_of(unit, "source") is None:
        unit.target = plain if len(plain) > 1 else plain[0]
        return
    unit.settarget(plain[0] or " ", language or "xx")
    if hasattr(unit, "markapproved"):
        unit.markapproved(False)  # nobody has looked at it
    write_xml(xml_of(unit, "target"), texts[0])


# XML -----------------------------------------------------------------------------------------------------------------


def xml_of(unit, side: str) -> Any:
    """The element that holds an entry's text, of formats that are XML."""
    dom = getattr(unit, f"{side}_dom", None)
    if dom is None:
        return None
    return dom if not unit.textNode or local_name(dom) == unit.textNode else dom.find(f".//{{*}}{unit.textNode}")


def local_name(element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def of_xml(element) -> list[Node]:
    nodes: list[Node] = [element.text or ""]
    for child in element:
        nodes += [Element(child, of_xml(child)) if local_name(child) in WITH_TEXT else Object(child), child.tail or ""]
    return [node for node in nodes if node != ""]


def write_xml(element, nodes: list[Node]):
    for child in list(element):
        element.remove(child)
    element.text = None
    last = None
    for node in nodes:
        if isinstance(node, str):
            if last is None:
                element.text = (element.text or "") + node
            else:
                last.tail = (last.tail or "") + node
            continue
        last = copy.deepcopy(node.origin)
        last.tail = None
        if isinstance(node, Element):
            write_xml(last, node.nodes)
        element.append(last)
