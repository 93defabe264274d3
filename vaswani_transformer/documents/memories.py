"""Translation memories: read pairs to train on from TMX, XLIFF and gettext files."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from . import FORMATS, gettext, tmx, xliff
from .document import DocumentError, Languages, primary
from .inline import flatten
from .xml import Tree, Xml


SUFFIXES = {suffix for suffix, row in FORMATS.items() if row.module in ("gettext", "xliff", "tmx")}

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
        DocumentError: The file is damaged or in another format, or the languages are missing or ambiguous.
        OSError: The file cannot be read.
    """
    content = path.read_bytes()
    try:
        if path.suffix.lower() == ".tmx":
            return read_tmx(path.name, Xml(content), source_language, target_language)
        if path.suffix.lower() in (".po", ".pot"):
            pairs, languages = gettext_pairs(content)
        else:
            pairs, languages = xliff_pairs(Xml(content))
    except DocumentError as error:
        raise DocumentError(f"{path.name}: {error}") from error
    recorded = [primary(language) or None for language in languages]
    return Memory(with_texts(pairs), source_language or recorded[0], target_language or recorded[1])


def with_texts(pairs: list[Pair]) -> list[Pair]:
    return [(a.strip(), b.strip()) for a, b in pairs if a.strip() and b.strip()]


def read_tmx(name: str, xml: Xml, source: str | None, target: str | None) -> Memory:
    texts = []
    for unit in xml.root.iter("tu"):
        variants = [(tmx.language_of(x), segment) for x in unit.elements if (segment := x.find("seg")) is not None]
        texts.append({language: text_of(xml, segment) for language, segment in reversed(variants)})
    header = next(xml.root.iter("header"), None)
    recorded = primary(header.attributes.get("srclang")) if header else ""
    numbers = Counter(language for text in texts for language in text)
    source, target = choose_languages(name, numbers, source or recorded or None, target)
    pairs = [(text[source], text[target]) for text in texts if source in text and target in text]
    return Memory(with_texts(pairs), source, target)


def xliff_pairs(xml: Xml) -> tuple[list[Pair], Languages]:
    """Return the pairs of a file, without those in a state that asks for work, and its languages."""
    if xml.root.name != "xliff":
        raise DocumentError(f"Not an XLIFF file: its outermost element is <{xml.root.name}>.")
    pairs = []
    for unit in xml.root.iter("trans-unit", "segment"):
        source, target = unit.find("source"), unit.find("target")
        if source is None or target is None:
            continue
        state = (unit if unit.name == "segment" else target).attributes.get("state", "")
        if not re.match("new|needs|initial", state):
            pairs.append((text_of(xml, source), text_of(xml, target)))
    return pairs, xliff.languages_of(xml)


def gettext_pairs(content: bytes) -> tuple[list[Pair], Languages]:
    """Return the pairs of a file that are not fuzzy, and the language that its header names."""
    text, _ = gettext.decoded(content)
    pairs: list[Pair] = []
    language = None
    for entry in gettext.entries_of(text):
        if entry.is_header:
            recorded = entry.translations[0].value if entry.translations else ""
            match = re.search(r"^Language:[ \t]*(\S+)", recorded, re.MULTILINE)
            language = match[1] if match else None
        elif not (entry.flags and "fuzzy" in entry.flags[1]):
            pairs += pairs_of(entry)
    return pairs, (None, language)


def pairs_of(entry: gettext.Entry) -> Iterator[Pair]:
    """Yield the pair of an entry, and that of its plurals."""
    source, plural, targets = entry.find("msgid"), entry.find("msgid_plural"), entry.translations
    if source and targets:
        yield source.value, targets[0].value
    if plural and len(targets) > 1:
        yield plural.value, targets[-1].value


def text_of(xml: Xml, element: Tree) -> str:
    return flatten(xliff.nodes_of(xml, element)).text


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
