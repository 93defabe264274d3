"""Translation memories: the pairs in translators' files (TMX, XLIFF, gettext), to learn from."""

import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from . import CATALOGUES, EXTRA
from .inline import flat
from .translator import DocumentError


Pair = tuple[str, str]


class Memory(NamedTuple):
    """Pairs of a text and its translation, and their languages where they are known, such as "en" and "de"."""

    pairs: list[Pair]
    source_language: str | None
    target_language: str | None


def is_memory(path: Path) -> bool:
    return path.suffix.lower() in CATALOGUES


def read_memory(path: Path, source_language: str | None = None, target_language: str | None = None) -> Memory:
    """The pairs of a file that have a translation which is not marked as doubtful.

    Inline elements without a text of their own are `{0}`, `{1}` on both sides. Of a TMX file with several languages the
    two are chosen; by default its header's source language, and the only other one.

    Raises:
        DocumentError: it is damaged or of another format; translate-toolkit is missing; or the languages are not in it,
            or not the only ones.
        OSError: it cannot be read.
    """
    try:
        from translate.storage import factory
    except ImportError as error:
        raise DocumentError(f"For {path.suffix} files install the documents extra: {EXTRA} ({error.name}).") from error
    stream = io.BytesIO(path.read_bytes())
    stream.name = path.name
    try:
        store = factory.getobject(stream)
        if path.suffix.lower() == ".tmx":
            texts = [texts_by_language(entry) for entry in store.units]
            header = store.document.getroot().find("{*}header")
            said = (primary((header.get("srclang") if header is not None else None) or ""), None)
        else:
            pairs = [pair for entry in store.units if is_sure(entry) for pair in pairs_of(entry)]
            said = primary(store.getsourcelanguage() or ""), primary(store.gettargetlanguage() or "")
    except Exception as error:  # each format has errors of its own
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DocumentError(f"{path.name}: It cannot be read: {reason}.") from error
    source, target = source_language or said[0] or None, target_language or said[1] or None
    if path.suffix.lower() == ".tmx":
        source, target = chosen(path.name, Counter(code for text in texts for code in text), source, target)
        pairs = [(text[source], text[target]) for text in texts if source in text and target in text]
    return Memory([(a.strip(), b.strip()) for a, b in pairs if a.strip() and b.strip()], source, target)


def chosen(name: str, languages: Counter[str], source: str | None, target: str | None) -> tuple[str, str]:
    """The two languages of a TMX file. Raises DocumentError, with those that it has, where they are not clear."""
    listed = ", ".join(f"{code} ({number:,})" for code, number in languages.most_common()) or "no texts"
    if source not in languages:
        raise DocumentError(f"{name} has {listed}: say from which language with --from.")
    others = [code for code in languages if code != source]
    if target is None and len(others) == 1:
        return source, others[0]
    if target not in others:
        raise DocumentError(f"{name} has {listed}: say into which language with --to.")
    return source, target


def primary(language: str) -> str:
    """ "en" for "en-US"; "" for TMX's "*all*"."""
    return language.replace("_", "-").partition("-")[0].strip("*").lower().removeprefix("all")


def texts_by_language(entry: Any) -> dict[str, str]:
    """Of a TMX entry its text in each language."""
    from .catalogues import of_xml

    found = {}
    for node in entry.getlanguageNodes():
        language = node.get("{http://www.w3.org/XML/1998/namespace}lang") or node.get("lang") or ""
        segment = node.find("{*}seg")
        if segment is not None:
            found.setdefault(primary(language), flat(of_xml(segment)).text)
    return found


def is_sure(entry: Any) -> bool:
    """Whether an entry of gettext or XLIFF is a text, and nobody has marked its translation as doubtful."""
    from .catalogues import xml_of

    target = xml_of(entry, "target")
    if target is None:
        return bool(entry.source) and entry.istranslatable() and not entry.isfuzzy()
    return not re.match("new|needs", target.get("state", ""))


def pairs_of(entry: Any) -> Iterator[Pair]:
    """Of an entry of gettext or XLIFF: one, or the singular's and the plural's."""
    from .catalogues import of_xml, xml_of

    source, target = xml_of(entry, "source"), xml_of(entry, "target")
    if source is not None:
        if target is not None:
            yield flat(of_xml(source)).text, flat(of_xml(target)).text
        return
    sources, targets = (
        [str(s) for s in getattr(side, "strings", [side or ""])] for side in (entry.source, entry.target)
    )
    yield sources[0], targets[0]
    if len(sources) > 1 < len(targets):
        yield sources[1], targets[-1]
