"""Paragraphs of Word, PowerPoint and Excel: from runs, which are pieces of text with a format, to nodes and back."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .archive import Markup
from .inline import Element, Fixed, Node, Object, script, text_of
from .xml import Kept, Tree


# A run of these characters may take the format of its neighbour.
MARKS = re.compile(r"[\s.,;:!?()\[\]\"'“”„‘’«»–—…/-]*")

FURTHER_LINE_ENDS = "\x1d\x1e\f"


class Run(NamedTuple):
    """The format of a piece of text.

    key: What readers see of the format; neighbours with equal keys are one text.
    start, end: The source text around the content.
    is_script: The text is a superscript or a subscript.
    shows_spaces: Spaces are visible, because they are underlined, for example.
    is_hidden: Readers do not see the text.
    """

    key: tuple
    start: str
    end: str
    is_script: bool = False
    shows_spaces: bool = False
    is_hidden: bool = False
    is_link: bool = False


@dataclass(eq=False)
class Anchor(Fixed):
    """What the model does not see, such as a bookmark; it follows the word before it.

    Args:
        is_visible: Readers see it, such as the mark of a footnote.
    """

    is_glued: bool = True
    is_visible: bool = False


@dataclass
class Group:
    """Neighbouring runs of one format, with the anchors between them; or another node, without a run."""

    run: Run | None
    nodes: list[Node] = field(default_factory=list)
    last: int = -1  # the index of the last string

    def add(self, text: str, anchors: Sequence[Anchor] = ()):
        """Add text; anchors inside a word move behind it, so that the model sees the word."""
        is_invisible = bool(anchors) and not any(anchor.is_visible for anchor in anchors)
        if self.last >= 0 and is_invisible and self.nodes[self.last][-1:].isalnum():
            head = re.match(r"\w*", text)[0]
            self.nodes[self.last] += head
            text = text[len(head) :]
        self.nodes += anchors
        if self.last >= 0 and self.last == len(self.nodes) - 1:
            self.nodes[self.last] += text
        elif text:
            self.last = len(self.nodes)
            self.nodes.append(text)


def anchor(origin: Markup, is_visible: bool = False) -> Anchor:
    return Anchor([Object(origin)], is_visible=is_visible)


def is_anchor(node: Node) -> bool:
    return isinstance(node, Anchor)


def has_entities(element: Tree) -> bool:
    """Whether an element with text has comments or entities of the document's own, which stay."""
    return any(isinstance(child, Kept) for child in element.children)


def is_run(node: Node) -> bool:
    return isinstance(node, Element) and isinstance(node.origin, Run)


def base_run(nodes: Iterable[Node]) -> Run | None:
    """Return the format of most characters, or None without any."""
    sizes: Counter[tuple] = Counter()
    runs: dict[tuple, Run] = {}
    for run in all_runs(nodes):
        sizes[run.origin.key] += len(text_of(run).strip())
        runs.setdefault(run.origin.key, run.origin)
    plain = [key for key in sizes if not runs[key].is_script and not runs[key].is_link]
    return runs[max(plain or sizes, key=sizes.__getitem__)] if sizes else None


def all_runs(nodes: Iterable[Node]) -> Iterator[Element]:
    for node in nodes:
        if is_run(node):
            yield node
        elif isinstance(node, Element):
            yield from all_runs(node.nodes)


def merged(nodes: Sequence[Node], base: Run) -> list[Node]:
    """Return nodes in which runs of the base format are strings, and neighbours of one format are one element."""
    merger = Merger(base)
    for node in nodes:
        if is_anchor(node):
            merger.anchors.append(node)
        elif is_run(node):
            merger.add(node.origin, text_of(node))
        else:
            if isinstance(node, Element):
                node.nodes = merged(node.nodes, base)
            merger.close(node)
    return [node for group in merger.groups for node in as_nodes(group, base)] + merger.anchors


@dataclass
class Merger:
    """Collects groups.

    Attributes:
        anchors: Those since the last group.
        is_in_word: The text ends within a word.
        is_formatted: A part of this word has another format than the base.
    """

    base: Run
    groups: list[Group] = field(default_factory=list)
    anchors: list[Anchor] = field(default_factory=list)
    is_in_word: bool = False
    is_formatted: bool = False

    def close(self, node: Node):
        self.groups.append(Group(None, [*self.anchors, node]))
        self.anchors, self.is_in_word = [], False

    def add(self, run: Run, text: str):
        last = self.groups[-1].run if self.groups else None
        is_drawn = run.shows_spaces and text != " "  # the place for a signature, for example
        if run.key != self.base.key and not is_drawn and MARKS.fullmatch(text):
            run = last if last and not last.is_script else self.base
        is_plain = run.key == self.base.key
        head = re.match(r"\w*", text)[0] if self.is_in_word else ""
        if head and self.is_formatted and last and not is_plain and not run.is_script and not last.is_script:
            # A translated word has one format.
            self.append(last, head)
            text = text[len(head) :]
        elif not head:
            self.is_formatted = False
        if text:
            self.append(run, text)
            end = re.search(r"\w*$", text[-50:])[0]
            self.is_in_word = bool(end)
            self.is_formatted = not is_plain or (self.is_formatted and len(end) == len(text))

    def append(self, run: Run, text: str):
        if not self.groups or self.groups[-1].run is None or self.groups[-1].run.key != run.key:
            self.groups.append(Group(run, self.anchors))
            self.groups[-1].add(text)
        else:
            self.groups[-1].add(text, self.anchors)
        self.anchors = []


def as_nodes(group: Group, base: Run) -> list[Node]:
    if group.run is None or group.run.key == base.key:
        return group.nodes
    first = next((i for i, node in enumerate(group.nodes) if not is_anchor(node)), len(group.nodes))
    before, nodes = group.nodes[:first], group.nodes[first:]
    if not nodes:
        return before
    if group.run.is_script:
        return [*before, script(group.run, nodes)]
    return [*before, Element(group.run, nodes, group.run.is_link)]


def write_source(node: Object) -> str:
    """Write an object as it is in the file, with its texts."""
    return node.origin.write(node.texts)


def write(
    nodes: Sequence[Node],
    base: Run,
    write_text: Callable[[str, Run], str],
    write_object: Callable[[Object], str] = write_source,
) -> str:
    """Write nodes: strings in runs, by `write_text`, and elements by their source text."""

    def written(nodes: Sequence[Node], run: Run) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, str):
                if node:
                    yield write_text(node, run)
            elif isinstance(node, Object):
                yield write_object(node)
            elif is_run(node):
                yield from written(node.nodes, node.origin)
            elif isinstance(node, Element):
                yield node.origin[0]
                yield from written(node.nodes, base)
                yield node.origin[1]
            else:
                yield from written(node.nodes, run)

    return "".join(written(nodes, base))


@dataclass
class Marks:
    """The characters of line ends, and what they represent; each spelling of a break has its own, while there are some.

    The pipeline ends a line of text at these characters.
    """

    sources: dict[str, str] = field(default_factory=dict)

    def add(self, source: str, preferred: str = "") -> str | None:
        """Return the character of a break, or None if none is left."""
        characters = preferred + FURTHER_LINE_ENDS
        known = next((c for c in characters if self.sources.get(c, source) == source), None)
        if known:
            self.sources[known] = source
        return known

    def split(self, text: str) -> list[str]:
        """Split a text into strings and the characters of breaks."""
        return re.split(f"([{''.join(self.sources)}])", text) if self.sources else [text]
