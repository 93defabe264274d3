"""Translation memories: read pairs to train on from TMX, XLIFF and gettext files."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from . import FORMATS
from .inline import flatten
from .translator import DocumentError, missing_library


SUFFIXES = {suffix for suffix, document_format in FORMATS.items() if document_format.module == "bilingual"}

Pair = tuple[str, str]


class Memory(NamedTuple):
    """Pairs of a text and its translation, and their languages, such as "en" and "de", if they are known."""

    pairs: list[Pair]
    source_language: str | None
    target_language: str | None


def is_memory(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def read_memory(path: Path, source_language: str | None = None, target_language: str | None = None) -> Memory:
    """Read the pairs of a file, without empty translations and those marked as doubtful.

    Inline elements without words become `{0}`, `{1}`, ... on both sides.

    Args:
        path: A TMX, XLIFF or gettext file.
        source_language, target_language: In TMX, the two languages to read. By default the source language of the
            header, and the other language if there is only one.

    Raises:
        DocumentError: The file is damaged or in another format, translate-toolkit is missing, or the languages are
            missing or ambiguous.
        OSError: The file cannot be read.
    """
    suffix = path.suffix.lower()
    content = path.read_bytes()
    try:
        from . import bilingual

        store = bilingual.open_store(content, suffix)
    except ImportError as error:
        raise missing_library(suffix, error) from error
    except DocumentError as error:
        raise DocumentError(f"{path.name}: {error}") from error
    try:
        if suffix == ".tmx":
            texts = [texts_by_language(unit) for unit in store.units]
            header = store.document.getroot().find("{*}header")
            recorded = (primary_language((header.get("srclang") if header is not None else None) or ""), None)
        else:
            pairs = [pair for unit in store.units if is_reliable(unit) for pair in pairs_of(unit)]
            recorded = (
                primary_language(store.getsourcelanguage() or ""),
                primary_language(store.gettargetlanguage() or ""),
            )
    except Exception as error:
        raise DocumentError(f"{path.name}: {bilingual.unreadable(error)}") from error
    source, target = source_language or recorded[0] or None, target_language or recorded[1] or None
    if suffix == ".tmx":
        numbers = Counter(language for text in texts for language in text)
        source, target = choose_languages(path.name, numbers, source, target)
        pairs = [(text[source], text[target]) for text in texts if source in text and target in text]
    return Memory([(a.strip(), b.strip()) for a, b in pairs if a.strip() and b.strip()], source, target)


def choose_languages(name: str, numbers: Counter[str], source: str | None, target: str | None) -> tuple[str, str]:
    """Choose the two languages of a TMX file.

    Args:
        name: The name of the file.
        numbers: The number of texts in each language.
        source, target: The languages to read, as far as they are known.

    Raises:
        DocumentError: The languages are missing or ambiguous; the message lists the languages of the file.
    """
    listed = ", ".join(f"{language} ({number:,})" for language, number in numbers.most_common()) or "no texts"
    if source not in numbers:
        raise DocumentError(f"{name} has {listed}: choose the source language with --from.")
    candidates = [language for language in numbers if language != source]
    if target is None and len(candidates) == 1:
        return source, candidates[0]
    if target not in candidates:
        raise DocumentError(f"{name} has {listed}: choose the target language with --to.")
    return source, target


def primary_language(language: str) -> str:
    """Return "en" for "en-US", and "" for TMX's "*all*"."""
    return language.replace("_", "-").partition("-")[0].strip("*").lower().removeprefix("all")


def texts_by_language(unit: Any) -> dict[str, str]:
    """The text of a TMX entry in each language."""
    from .bilingual import nodes_from_xml

    texts = {}
    for node in unit.getlanguageNodes():
        language = node.get("{http://www.w3.org/XML/1998/namespace}lang") or node.get("lang") or ""
        segment = node.find("{*}seg")
        if segment is not None:
            texts.setdefault(primary_language(language), flatten(nodes_from_xml(segment)).text)
    return texts


def is_reliable(unit: Any) -> bool:
    """Whether an entry of gettext or XLIFF is a text whose translation is not marked as doubtful."""
    from .bilingual import text_element

    target = text_element(unit, "target")
    if target is None:
        return bool(unit.source) and unit.istranslatable() and not unit.isfuzzy()
    return not re.match("new|needs", target.get("state", ""))


def pairs_of(unit: Any) -> Iterator[Pair]:
    """Yield the pair of an entry of gettext or XLIFF, and in gettext also that of the plurals."""
    from .bilingual import nodes_from_xml, text_element

    source, target = text_element(unit, "source"), text_element(unit, "target")
    if source is not None:
        if target is not None:
            yield flatten(nodes_from_xml(source)).text, flatten(nodes_from_xml(target)).text
        return
    sources, targets = (
        [str(text) for text in getattr(side, "strings", [side or ""])] for side in (unit.source, unit.target)
    )
    yield sources[0], targets[0]
    if len(sources) > 1 and len(targets) > 1:
        yield sources[1], targets[-1]
