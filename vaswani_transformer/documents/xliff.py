"""XLIFF 1.2 and 2.x: entries without a translation get one, and everything else stays.

An entry with a warning is marked for review. translate-toolkit and the Okapi framework write the whole file again.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .document import DocumentError, Languages, Options, Text, Translated
from .inline import Node
from .messages import Mark, as_nodes, as_text
from .xml import Kept, Tree, Xml, escaped, qualified


WRAPPERS = {"g", "mrk", "pc", "hi"}  # around words
STARTS, ENDS = {"bpt", "bx", "sc", "sm"}, {"ept", "ex", "ec", "em"}  # pairs of tags, which may be in two segments
LANGUAGES = ("srcLang", "source-language"), ("trgLang", "target-language")  # of XLIFF 2 and 1.2
UNTRANSLATED_STATES = {"new", "needs-translation", "initial"}
FIRST_MARK = 0xF0000  # a private character that no text has


class Entry(NamedTuple):
    """A text and where its translation goes.

    unit: The element with the state: <trans-unit>, or <segment> in XLIFF 2.
    source, target: The elements with the texts; without a target there is none yet.
    segments: The elements whose contents are texts: <source>, or those of <seg-source>.
    """

    unit: Tree
    source: Tree
    target: Tree | None
    segments: list[Tree]


@dataclass
class Xliff:
    """A file that has been read; `texts` are those of all segments, in their order.

    Attributes:
        language: The target language to record.
    """

    xml: Xml
    entries: list[Entry]
    texts: Sequence[Text]
    untranslated: Counter[str]
    languages: Languages
    language: str | None

    def write(self, translated: Sequence[Translated]) -> bytes:
        remaining = iter(translated)
        edits = []
        for entry in self.entries:
            new = [next(remaining) for _ in entry.segments]
            edits += self.edits(entry, [as_text(x.nodes, escaped) for x in new], any(x.warnings for x in new))
        if self.language:
            is_new = self.xml.root.attributes.get("version", "").startswith("2")
            for element in [self.xml.root] if is_new else self.xml.root.iter("file"):
                edits.append(
                    set_attribute(self.xml, element, "trgLang" if is_new else "target-language", self.language)
                )
        return self.xml.edited(edits)

    def edits(self, entry: Entry, texts: list[str], is_doubtful: bool) -> list[tuple[int, int, str]]:
        """Return the changes of the file that give an entry its translation."""
        is_segment = entry.unit.name == "segment"
        holder = entry.source if len(entry.segments) == 1 and entry.segments[0] is entry.source else None
        content = texts[0] if holder else self.content_of(entry, texts)
        states = ("initial", "translated") if is_segment else ("needs-review-translation", "translated")
        state = states[not is_doubtful]
        edits = []
        if is_segment or entry.unit.attributes.get("approved") == "yes":
            name, value = ("state", state) if is_segment else ("approved", "no")  # only a person approves
            edits.append(set_attribute(self.xml, entry.unit, name, value))
        if entry.target is not None and entry.target.inside != entry.target.end:
            edits.append((entry.target.inside, entry.target.inside_end, content))
            return edits if is_segment else [*edits, set_attribute(self.xml, entry.target, "state", state)]
        name = qualified(self.xml.slice(entry.source.begin, entry.source.inside), "target")
        attribute = "" if is_segment else f' state="{state}"'
        new = f"<{name}{attribute}>{content}</{name}>"
        if entry.target is not None:
            return [*edits, (entry.target.begin, entry.target.end, new)]
        last = entry.unit.find("seg-source") or entry.source
        return [*edits, (last.end, last.end, self.indent(entry.source) + new)]

    def content_of(self, entry: Entry, texts: list[str]) -> str:
        """Return the content of <seg-source> with other texts in its segments."""
        whole = entry.segments[0].parent
        last, parts = whole.inside, []
        for segment, text in zip(entry.segments, texts, strict=True):
            parts += [self.xml.slice(last, segment.inside), text]
            last = segment.inside_end
        return "".join([*parts, self.xml.slice(last, whole.inside_end)])

    def indent(self, element: Tree) -> str:
        """Return the line end and spaces before an element."""
        before = self.xml.source[: element.begin]
        return re.search(rb"(?:\r?\n[ \t]*)?\Z", before[-200:])[0].decode()


def read(content: bytes, options: Options) -> Xliff:
    """Find the entries without a translation.

    Raises:
        DocumentError: The file is damaged, not in XLIFF, or names another target language than that of the translator.
    """
    xml = Xml(content)
    if xml.root.name != "xliff":
        raise DocumentError(f"Not an XLIFF file: its outermost element is <{xml.root.name}>.")
    units = list(xml.root.iter("trans-unit", "segment"))
    if not units:
        raise DocumentError("The file has no texts to translate.")
    entries, texts, untranslated = [], [], Counter()
    for unit in units:
        source, target = unit.find("source"), unit.find("target")
        if source is None:
            continue
        if not is_translatable(unit):
            untranslated['entries with translate="no"'] += 1
        elif not needs_translation(unit, source, target):
            untranslated["entries with a translation"] += 1
        elif source.text.strip() or source.elements:
            entry = Entry(unit, source, target, segments_of(unit, source))
            name = unit.attributes.get("id") or (unit.parent.attributes.get("id") if unit.parent else "") or ""
            texts += [Text(nodes_of(xml, segment), f"entry {name}".strip()) for segment in entry.segments]
            entries.append(entry)
    return Xliff(xml, entries, texts, untranslated, languages_of(xml), options.target_language if entries else None)


def languages_of(xml: Xml) -> Languages:
    """Return the languages that the file names; those of its first <file> in version 1.2."""
    file = next(xml.root.iter("file"), xml.root)
    attributes = file.attributes | xml.root.attributes
    source, target = ([attributes[name] for name in names if attributes.get(name)] for names in LANGUAGES)
    return (source or [None])[0], (target or [None])[0]


def is_translatable(unit: Tree) -> bool:
    element: Tree | None = unit
    while element is not None:
        if "translate" in element.attributes:
            return element.attributes["translate"] != "no"
        element = element.parent
    return True


def needs_translation(unit: Tree, source: Tree, target: Tree | None) -> bool:
    """Whether a translation is missing; many programs begin with a copy of the source."""
    if target is None or not (target.text.strip() or target.elements):
        return True
    state = (unit if unit.name == "segment" else target).attributes.get("state", "")
    return state in UNTRANSLATED_STATES and target.text == source.text


def segments_of(unit: Tree, source: Tree) -> list[Tree]:
    segmented = unit.find("seg-source")
    segments = [mark for mark in segmented.iter("mrk") if mark.attributes.get("mtype") == "seg"] if segmented else []
    return segments or [source]


def nodes_of(xml: Xml, element: Tree) -> list[Node]:
    """Convert the content of an element; tags in pairs, whether <g> or <bpt> and <ept>, become elements."""
    characters: list[str] = []
    marks: dict[str, Mark] = {}

    def mark(begin: int, end: int, tag: tuple[str, str] | None = None):
        character = chr(FIRST_MARK + len(marks))
        marks[character] = Mark(xml.slice(begin, end), tag)
        characters.append(character)

    for child in element_pieces(element):
        if isinstance(child, Tree):
            kind = "start" if child.name in STARTS else "end" if child.name in ENDS else None
            mark(child.begin, child.end, (pair_name(child), kind) if kind else None)
        elif isinstance(child, tuple):
            wrapper, kind = child
            span = (wrapper.begin, wrapper.inside) if kind == "start" else (wrapper.inside_end, wrapper.end)
            mark(*span, (f"{wrapper.begin}", kind))
        elif isinstance(child, Kept):
            mark(child.begin, child.end)
        else:
            characters.append(child.value)
    return as_nodes("".join(characters), marks)


def element_pieces(element: Tree) -> Iterator:
    """Yield the content of an element; a wrapper comes as its start, its content and its end."""
    for child in element.children:
        if isinstance(child, Tree) and child.name in WRAPPERS and child.inside != child.end:
            yield child, "start"
            yield from element_pieces(child)
            yield child, "end"
        else:
            yield child


def pair_name(element: Tree) -> str:
    """Return what a pair of tags has in common, by the rules of XLIFF 1.2, XLIFF 2 and TMX."""
    attributes = element.attributes
    keys = ("rid", "i", "id") if element.name in STARTS | {"ept", "ex"} else ("startRef", "id")
    kind = {"ept": "bpt", "ex": "bx", "ec": "sc", "em": "sm"}.get(element.name, element.name)
    return f"{kind} {next((attributes[key] for key in keys if key in attributes), '')}"


def set_attribute(xml: Xml, element: Tree, name: str, value: str) -> tuple[int, int, str]:
    """Return the change that gives an element's tag an attribute."""
    tag = xml.slice(element.begin, element.inside)
    match = re.search(rf"(?<=\s){name}\s*=\s*(\"[^\"]*\"|'[^']*')", tag)
    if match:
        begin = element.begin + len(tag[: match.start(1)].encode())
        return begin, begin + len(match[1].encode()), f'"{value}"'
    end = element.begin + len(re.match(r"<[^\s/>]+", tag)[0].encode())
    return end, end, f' {name}="{value}"'
