"""Files of translators, by translate-toolkit: gettext (.po, .pot), XLIFF (.xliff, .xlf) and TMX.

Only entries without a translation are translated. An entry with a warning is marked for review, in gettext as fuzzy.
"""

import copy
import io
import string
from typing import Any

from .inline import Element, Node, Object
from .translator import DocumentError, DocumentTranslator


INLINE_ELEMENTS = {"g", "mrk", "hi", "pc"}  # of XLIFF and TMX, around words; the others have none


def translate_gettext(content: bytes, translator: DocumentTranslator) -> bytes:
    """Add the missing translations to a gettext file; raises as `translate` does."""
    return translate(content, ".po", translator)


def translate_xliff(content: bytes, translator: DocumentTranslator) -> bytes:
    """Add the missing translations to an XLIFF file; raises as `translate` does."""
    return translate(content, ".xlf", translator)


def translate_tmx(content: bytes, translator: DocumentTranslator) -> bytes:
    """Add the missing translations into the target language to a TMX file; raises as `translate` does."""
    return translate(content, ".tmx", translator)


def translate(content: bytes, suffix: str, translator: DocumentTranslator) -> bytes:
    """Add the missing translations to a file.

    Raises:
        DocumentError: The file is damaged or in another format, or has no texts.
    """
    store = open_store(content, suffix)
    if suffix == ".po":
        check_charset(store.encoding)
    try:
        if suffix == ".tmx":
            store.settargetlanguage(translator.target_language)
        units = [unit for unit in store.units if unit.source and unit.istranslatable() and not has_target(unit)]
    except Exception as error:
        raise unreadable(error) from error
    if not any(unit.source for unit in store.units):
        raise DocumentError("The file has no texts to translate.")
    segments = [(unit, nodes) for unit in units for nodes in source_nodes(unit)]
    translated, warnings = translator.with_warnings([nodes for _, nodes in segments])
    targets: dict[int, list[list[Node]]] = {}
    doubtful = set()
    for (unit, _), nodes, unit_warnings in zip(segments, translated, warnings, strict=True):
        targets.setdefault(id(unit), []).append(nodes)
        if unit_warnings:
            doubtful.add(id(unit))
    for unit in units:
        set_target(unit, targets[id(unit)], translator.target_language)
        if id(unit) in doubtful:
            mark_for_review(unit)
    if translator.target_language:
        set_language(store, translator.target_language)
    output = io.BytesIO()
    store.serialize(output)
    return output.getvalue()


def open_store(content: bytes, suffix: str) -> Any:
    """Parse a file with translate-toolkit.

    Raises:
        DocumentError: The file is damaged or in another format.
    """
    from translate.storage import factory

    stream = io.BytesIO(content)
    stream.name = f"file{suffix}"  # the factory chooses the format by the name
    try:
        return factory.getobject(stream)
    except Exception as error:
        raise unreadable(error) from error


def check_charset(charset: str):
    """Check that a gettext file can be written in the charset of its header, before anything is translated.

    Raises:
        DocumentError: It cannot: gettext needs a charset that extends ASCII.
    """
    try:
        if string.printable.encode(charset) == string.printable.encode("ascii"):
            return
    except (LookupError, UnicodeError):
        pass
    raise DocumentError(f"The charset {charset!r} in the header is not one for gettext. Convert the file to UTF-8.")


def unreadable(error: Exception) -> DocumentError:
    """The error for a damaged file; translate-toolkit has no common exception for them."""
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return DocumentError(f"The file is damaged, or not in the format of its suffix: {reason.rstrip('.')}.")


# Entries -------------------------------------------------------------------------------------------------------------


def has_target(unit) -> bool:
    return bool(unit.target) and any(str(text).strip() for text in getattr(unit.target, "strings", [unit.target]))


def source_nodes(unit) -> list[list[Node]]:
    """The texts of an entry: one, or in gettext the singular and the plural."""
    if (xml := text_element(unit, "source")) is not None:
        return [nodes_from_xml(xml)]
    return [[str(text)] for text in getattr(unit.source, "strings", [unit.source])]


def set_target(unit, texts: list[list[Node]], language: str | None):
    plain = ["".join(node for node in nodes if isinstance(node, str)) for nodes in texts]
    if text_element(unit, "source") is None:
        unit.target = plain if len(plain) > 1 else plain[0]
        return
    unit.settarget(plain[0] or " ", language or "xx")
    if hasattr(unit, "markapproved"):
        unit.markapproved(False)  # only a person approves
    write_xml(text_element(unit, "target"), texts[0])


def mark_for_review(unit):
    if text_element(unit, "source") is None:
        unit.markfuzzy()
    else:
        unit.markreviewneeded()


def set_language(store, language: str):
    """Write the target language into the header, in gettext with its plural forms."""
    from translate.lang.data import languages

    if hasattr(store, "updateheader"):
        header = {"Language": language}
        if (forms := languages.get(language)) is not None:
            header["Plural_Forms"] = f"nplurals={forms[1]}; plural={forms[2]};"
        store.updateheader(add=True, **header)
    elif hasattr(store, "settargetlanguage"):
        store.settargetlanguage(language)


# XML -----------------------------------------------------------------------------------------------------------------


def text_element(unit, side: str) -> Any:
    """The XML element with an entry's "source" or "target"; None in gettext, or if there is none."""
    dom = getattr(unit, f"{side}_dom", None)
    if dom is None:
        return None
    return dom if not unit.textNode or local_name(dom) == unit.textNode else dom.find(f".//{{*}}{unit.textNode}")


def local_name(element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def nodes_from_xml(element) -> list[Node]:
    nodes: list[Node] = [element.text or ""]
    for child in element:
        has_words = local_name(child) in INLINE_ELEMENTS and "".join(child.itertext()).strip()
        nodes += [Element(child, nodes_from_xml(child)) if has_words else Object(child), child.tail or ""]
    return [node for node in nodes if node != ""]


def write_xml(element, nodes: list[Node]):
    """Replace the content of an element by nodes."""
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
