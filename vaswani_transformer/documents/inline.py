"""Inline markup: word alignments carry bold words, links and the like from a text to its translation.

A translatable text is a list of nodes: strings, elements with nodes of their own, and objects, which have a place among
the words but no words, such as an image or a piece of code. The model sees only the words, with {0}, {1}, ... for the
objects. Each element and each object of the source is in the translation exactly once.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from ..model.spans_vaswani import Span, words


@dataclass(eq=False)
class Element:
    """Markup around nodes.

    Args:
        origin: The markup as the format represents it.
        nodes: The nodes inside.
        is_link: Several links with only spaces or marks between them are texts of their own, as in a menu.
        texts: Texts that belong to the markup and are translated by themselves, such as the title of a link.
    """

    origin: Any
    nodes: "list[Node]" = field(default_factory=list)
    is_link: bool = False
    texts: "list[list[Node]]" = field(default_factory=list)


@dataclass(eq=False)
class Object:
    """Something among the words that is not translated.

    Args:
        origin: What the format represents it by.
        is_word: It has the part of a word in its sentence, like a piece of code. Other objects, such as images, are not
            shown to the model before the first word and after the last one.
        texts: Texts that belong to it and are translated by themselves, such as the description of an image.
    """

    origin: Any
    is_word: bool = False
    texts: "list[list[Node]]" = field(default_factory=list)


@dataclass(eq=False)
class Fixed:
    """Nodes that stay as they are.

    Args:
        nodes: The nodes.
        is_glued: They belong to the word before them, like the mark of a footnote, and the model does not see them.
    """

    nodes: "list[Node]"
    is_glued: bool = False


Node = str | Element | Object | Fixed
Path = tuple[Element, ...]  # the elements around a place, outermost first

# What a superscript or a subscript of a word may be: a number, a mark or the end of an ordinal, as in 1st and 1er.
SCRIPT = re.compile(r"[\d\W]{1,4}|st|nd|rd|th|er|re|e|ème|es|o|a", re.IGNORECASE)


def text_of(node: Node) -> str:
    """Return the words of a node."""
    if isinstance(node, str):
        return node
    return "".join(map(text_of, node.nodes)) if isinstance(node, Element) else ""


def has_words(node: Node) -> bool:
    return re.search(r"\w", text_of(node)) is not None


def has_markup(nodes: Sequence[Node]) -> bool:
    return any(not isinstance(node, str) for node in nodes)


def is_glued(node: Node) -> bool:
    if isinstance(node, Element):
        return bool(node.nodes) and all(map(is_glued, node.nodes))
    return isinstance(node, Fixed) and node.is_glued


def script(origin: Any, nodes: list[Node]) -> Node:
    """Return a superscript or a subscript: glued to its word if it is a number or a mark, otherwise an element."""
    element = Element(origin, nodes)
    return Fixed([element], is_glued=True) if SCRIPT.fullmatch(text_of(element)) else element


# Texts within texts --------------------------------------------------------------------------------------------------


def split_texts(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the parts of a text that are translated by themselves.

    Markup around the whole text, and objects and spaces before its first word and after its last one, need not be
    translated with it. Links side by side are texts of their own. The texts of markup and objects come last.
    """
    return separate_texts(nodes) + [
        part for holder in holders(nodes) for text in holder.texts for part in split_texts(text)
    ]


def join_texts(nodes: Sequence[Node], texts: Iterator[list[Node]]) -> list[Node]:
    """Return the nodes with the texts that `split_texts` finds in them replaced, in their order."""
    joined = join_separate(nodes, texts)
    # Markup is copied when it moves; the list of its texts tells which one it is.
    new = {id(holder.texts): [join_texts(text, texts) for text in holder.texts] for holder in holders(nodes)}
    return with_texts(expanded(joined), new) if new else expanded(joined)


def separate_texts(nodes: Sequence[Node]) -> list[list[Node]]:
    _, core, _ = trimmed(nodes)
    if not are_separate(core):
        return [core] if core else []
    return [text for node in core if isinstance(node, Element) for text in separate_texts(node.nodes)]


def join_separate(nodes: Sequence[Node], texts: Iterator[list[Node]]) -> list[Node]:
    before, core, after = trimmed(nodes)
    if not are_separate(core):
        core = next(texts) if core else []
    else:
        core = [replace(x, nodes=join_separate(x.nodes, texts)) if isinstance(x, Element) else x for x in core]
    return [*before, *core, *after]


def holders(nodes: Sequence[Node]) -> Iterator[Element | Object]:
    """Yield the markup and objects that have texts, at any depth."""
    for node in nodes:
        if isinstance(node, Element | Object) and node.texts:
            yield node
        if isinstance(node, Element | Fixed):
            yield from holders(node.nodes)


def with_texts(nodes: Sequence[Node], texts: dict[int, list[list[Node]]]) -> list[Node]:
    """Return the nodes with other texts in their markup and objects."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Element):
            node = replace(node, nodes=with_texts(node.nodes, texts))
        if isinstance(node, Element | Object):
            node = replace(node, texts=texts.get(id(node.texts), node.texts))
        result.append(node)
    return result


def trimmed(nodes: Sequence[Node]) -> tuple[list[Node], list[Node], list[Node]]:
    """Return the spaces and objects before a text, the text, and what follows it; without words all comes before."""
    if not any(map(has_words, nodes)):
        return list(nodes), [], []
    first, last = 0, len(nodes)
    while is_outside(nodes[first]):
        first += 1
    while is_outside(nodes[last - 1]) and not is_glued(nodes[last - 1]):
        last -= 1
    before, core, after = list(nodes[:first]), list(nodes[first:last]), list(nodes[last:])
    if isinstance(start := core[0], str):
        core[0] = start.lstrip()
        before.append(start[: len(start) - len(core[0])])
    if isinstance(end := core[-1], str):
        core[-1] = end.rstrip()
        after.insert(0, end[len(core[-1]) :])
    return before, core, after


def is_outside(node: Node) -> bool:
    return not node.strip() if isinstance(node, str) else not has_words(node) and not getattr(node, "is_word", False)


def are_separate(nodes: Sequence[Node]) -> bool:
    """Whether all words are in one element, or in links side by side."""
    with_words = [node for node in nodes if has_words(node)]
    if any(isinstance(node, str) for node in with_words) or any(getattr(node, "is_word", False) for node in nodes):
        return False
    return bool(with_words) and (len(with_words) == 1 or all(getattr(node, "is_link", False) for node in with_words))


def expanded(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes with those in `Fixed` ones in their place, and neighbouring strings joined."""
    result: list[Node] = []
    for node in nodes:
        for new in expanded(node.nodes) if isinstance(node, Fixed) else [node]:
            if isinstance(new, Element):
                new = replace(new, nodes=expanded(new.nodes))
            if isinstance(new, str) and result and isinstance(result[-1], str):
                result[-1] += new
            elif new != "":
                result.append(new)
    return result


# From nodes to text --------------------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """Neighbouring objects, the elements around them, and the end of the text before them."""

    nodes: list[Node]
    path: Path
    position: int


@dataclass
class Line:
    """The text that the model sees, and the place of every node in it.

    Attributes:
        text: The words, with placeholders for the objects among them.
        runs: The span of each string in the text, with the elements around it.
        objects: What each placeholder represents.
        glued: Objects without a placeholder, which follow a word.
        elements: The elements with words, each with its path, which ends with itself, and the span of its content.
    """

    text: str = ""
    runs: list[tuple[Span, Path]] = field(default_factory=list)
    objects: dict[str, Kept] = field(default_factory=dict)
    glued: list[Kept] = field(default_factory=list)
    elements: list[tuple[Path, Span]] = field(default_factory=list)


def flatten(nodes: Sequence[Node]) -> Line:
    """Join the text of the nodes, with a placeholder for each object among its words."""
    line = Line()
    add(line, nodes, (), "".join(map(text_of, nodes)))
    return line


def add(line: Line, nodes: Sequence[Node], path: Path, all_text: str):
    """Add nodes to a line, with placeholders that differ from everything in `all_text`."""
    for kind, members in groupby(formulas_kept(nodes), kind_of):
        if kind in ("object", "glued"):
            add_kept(line, Kept([*members], path, len(line.text)), kind, all_text)
            continue
        for node in members:
            begin = len(line.text)
            if isinstance(node, Element):
                index = len(line.elements)
                line.elements.append(((*path, node), (begin, begin)))
                add(line, node.nodes, (*path, node), all_text)
                line.elements[index] = (*path, node), (begin, len(line.text))
            elif isinstance(node, str) and node:
                line.text += node
                line.runs.append(((begin, len(line.text)), path))


def kind_of(node: Node) -> str:
    if isinstance(node, str):
        return "text"
    return "element" if has_words(node) else "glued" if is_glued(node) else "object"


def add_kept(line: Line, group: Kept, kind: str, all_text: str):
    if kind == "glued" and line.text.strip():
        line.glued.append(group)
        return
    number = len(line.objects)
    while f"{{{number}}}" in all_text or f"{{{number}}}" in line.objects:
        number += 1
    line.objects[f"{{{number}}}"] = group
    line.text += f"{{{number}}}"


def formulas_kept(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes with each word that has an index inside it, such as H₂O, fixed as a whole.

    The mark of a footnote right before a number takes it; right before another word, the model sees the mark.
    """
    result: list[Node] = []
    for node in nodes:
        rest = re.match(r"\w+", node) if isinstance(node, str) else None
        if rest and len(result) > 1 and is_glued(result[-1]):
            is_index = any(isinstance(x, Element) for x in getattr(result[-1], "nodes", ()))
            node = (keep_formula if is_index else separate_mark)(result, rest[0]) + node[rest.end() :]
        if node != "":
            result.append(node)
    return result


def keep_formula(result: list[Node], rest: str) -> str:
    """Fix the word and its index at the end of the nodes; return what is left of the rest of the word."""
    start = end_of_word(result[-2])
    if not start:
        return rest
    index, before = result.pop(), result.pop()
    if isinstance(before, str):
        result.append(before[: -len(start)])
    result.append(Fixed([*(before.nodes if isinstance(before, Fixed) else [start]), index, rest]))
    return ""


def separate_mark(result: list[Node], rest: str) -> str:
    """Keep the word before the mark of a footnote apart from that after it; return what is left of the latter."""
    if not re.search(r"\w$", text_of(result[-2])[-1:]):
        return rest
    if rest[0].isdigit():
        result[-1] = Fixed([result[-1], rest], is_glued=True)
        return ""
    if rest[0].lower() != rest[0].upper():  # scripts without case have no spaces between words
        result[-1] = Fixed([result[-1]])
    return rest


def end_of_word(node: Node) -> str:
    """Return the word at the end of a string, or that of a formula."""
    if isinstance(node, Fixed):
        return "" if node.is_glued else end_of_word(node.nodes[-1])
    return re.search(r"\w*$", node)[0] if isinstance(node, str) else ""


# From the translation to nodes ---------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """A part of a translation.

    text: A word, a mark, or the text between two of them.
    span: Its place in the translation; that of what it follows if it has no place of its own.
    group: What it represents, if it is a placeholder or has been lost.
    path: The elements around it; None if nothing tells.
    """

    text: str
    span: Span
    group: Kept | None = None
    path: Path | None = None

    @property
    def is_word(self) -> bool:
        return self.group is not None or re.search(r"\w", self.text) is not None


class Lost(NamedTuple):
    """An element whose words are not in the translation.

    place: Where it is: "moved" to another word, "untranslated" with its own words, or "empty".
    """

    element: Element
    place: str


def transfer_markup(
    line: Line, translation: str, alignments: Sequence[tuple[Span, Span]]
) -> tuple[list[Node], list[Lost]]:
    """Return the translation as nodes, and the elements whose words are not in it.

    Each element is around the words that translate its words. If these are apart, it is around most of them. An element
    without such words is around the nearest word. An object without its placeholder follows the word that it followed.

    Args:
        line: The source text.
        translation: Its translation, with placeholders.
        alignments: Pairs of spans, of a source word and of a word that translates it.
    """
    pieces: list[Piece] = []
    sources = sources_by_character(alignments, line)
    for piece in split_pieces(translation, line.objects):
        is_line_end = len(f"{piece.text}.".splitlines()) > 1
        source = None if is_line_end else find_source(piece.span, alignments, sources)
        pieces += [piece] if piece.group else split_at_markup(piece, source, line)
    placed = {id(piece.group) for piece in pieces}
    for group in line.glued:
        insert(pieces, group, alignments, line, "")
    for group in line.objects.values():
        if id(group) not in placed:
            insert(pieces, group, alignments, line, " ")
    tree = Tree(line, pieces)
    return tree.build((), (0, len(line.text)), 0, len(pieces)), tree.lost


def split_pieces(translation: str, objects: dict[str, Kept]) -> list[Piece]:
    """Split a translation into words, the text between them, and placeholders; repeated placeholders are left out."""
    names = "|".join(map(re.escape, objects)) or r"(?!)"
    pieces, placed = [], set()
    for part in re.finditer(rf"{names}|\s+|[^\s{{]+|\{{", translation):
        if part[0] in objects:
            if part[0] not in placed:
                pieces.append(Piece(part[0], part.span(), objects[part[0]], objects[part[0]].path))
            placed.add(part[0])
            continue
        last = part.start()
        for begin, end in words(part[0]) or [(0, len(part[0]))]:
            begin, end = begin + part.start(), end + part.start()
            if begin > last:
                pieces.append(Piece(translation[last:begin], (last, begin)))
            pieces.append(Piece(translation[begin:end], (begin, end)))
            last = end
        if part.end() > last:
            pieces.append(Piece(translation[last : part.end()], (last, part.end())))
    return pieces


def sources_by_character(alignments: Sequence[tuple[Span, Span]], line: Line) -> dict[int, int]:
    """Return the number of the first alignment with a word of the source, for each character of the translation."""
    has_text = bytearray(len(line.text))
    for (begin, end), _ in line.runs:
        has_text[begin:end] = b"\1" * (end - begin)
    sources: dict[int, int] = {}
    for number, ((begin, end), target) in enumerate(alignments):
        if any(has_text[begin:end]):
            for character in range(*target):
                sources.setdefault(character, number)
    return sources


def find_source(span: Span, alignments: Sequence[tuple[Span, Span]], sources: dict[int, int]) -> Span | None:
    """Return the span of the source word that this span translates, or None if there is none, as for a space."""
    number = min((sources[character] for character in range(*span) if character in sources), default=None)
    return None if number is None else alignments[number][0]


def split_at_markup(piece: Piece, source: Span | None, line: Line) -> list[Piece]:
    """Return a piece with the elements around its source word.

    A word that the translation copies is split at the markup inside it. Other words take all of it.
    """
    if source is None:
        return [piece]
    begin, end = source
    first = bisect_right(line.runs, begin, key=lambda run: run[0][1])
    overlapping = takewhile(lambda run: run[0][0] < end, map(line.runs.__getitem__, range(first, len(line.runs))))
    runs = [(max(b, begin), min(e, end), path) for (b, e), path in overlapping]
    if piece.text != line.text[begin:end]:
        path = max((path for _, _, path in runs), key=len)
        # A comma aligned with a bold word is bold only if the source's bold text begins or ends with one.
        is_around = piece.is_word or (path and piece.text.strip() in edges(path[-1]))
        return [piece._replace(path=path)] if is_around else [piece]
    shift = piece.span[0] - begin
    return [Piece(line.text[b:e], (b + shift, e + shift), None, path) for b, e, path in runs]


def edges(element: Element) -> tuple[str, str]:
    """Return the first and the last character of an element's text."""
    text = text_of(element).strip()
    return text[:1], text[-1:]


def insert(pieces: list[Piece], group: Kept, alignments: Sequence[tuple[Span, Span]], line: Line, space: str):
    """Insert an object that has no placeholder in the translation after the word that it followed in the source."""
    end = host_end(pieces, group, alignments, line)
    index = next((i for i, piece in enumerate(pieces) if piece.span[1] > end), len(pieces))
    if index and pieces[index - 1].text.isspace() and not space:
        index -= 1
    before = pieces[index - 1].path if index else ()
    after = next((piece.path for piece in pieces[index:] if piece.path is not None), ())
    is_within = len(common_prefix(before or (), after)) > len(group.path)
    place = pieces[index - 1].span[1] if index else 0
    new = Piece("", (place, place), group, None if is_within else group.path)
    pieces[index:index] = [Piece(space, (place, place)), new] if space else [new]


def host_end(pieces: list[Piece], group: Kept, alignments: Sequence[tuple[Span, Span]], line: Line) -> int:
    """Return the end, in the translation, of what an object followed in the source."""
    before = [k for name, k in line.objects.items() if k.position + len(name) == group.position]
    sources = [span for span in words(line.text) if span[0] < group.position]
    targets = [piece.span for piece in pieces if before and piece.group is before[0]]
    targets = targets or [target for source, target in alignments if sources and source == sources[-1]]
    if targets:
        return max(end for _, end in targets)
    return round(group.position / max(1, len(line.text)) * pieces[-1].span[1]) if pieces else 0


def common_prefix(first: Path, second: Path) -> Path:
    length = 0
    while length < min(len(first), len(second)) and first[length] is second[length]:
        length += 1
    return first[:length]


@dataclass
class Tree:
    """Nests the pieces of a translation into the elements of its source.

    Attributes:
        lost: The elements whose words are not in the translation.
    """

    line: Line
    pieces: list[Piece]
    lost: list[Lost] = field(default_factory=list)
    children: dict[Path, list[tuple[Path, Span]]] = field(default_factory=dict)  # of each element

    def __post_init__(self):
        for path, span in self.line.elements:
            self.children.setdefault(path[:-1], []).append((path, span))

    def build(self, path: Path, source: Span, begin: int, end: int) -> list[Node]:
        """Return the nodes for the pieces from `begin` to `end`, which are inside the elements of `path`."""
        inner = self.children.get(path, [])
        intervals = self.largest_runs(inner, len(path) + 1, begin, end)
        copies: dict[int, list[Node]] = {}
        for child, span in inner:
            if child not in intervals:
                place = self.place_lost(child, relative(span, source), begin, end, intervals, copies)
                self.lost.append(Lost(child[-1], place))
        self.join_neighbours(len(path), intervals, begin, end)
        spans = dict(inner)
        starts = {interval[0]: (child, interval[1]) for child, interval in intervals.items()}
        nodes: list[Node] = []
        i = begin
        while i < end:
            nodes += copies.get(i, [])
            if i in starts:
                child, stop = starts[i]
                nodes.append(replace(child[-1], nodes=self.build(child, spans[child], i, stop)))
                i = stop
            else:
                group = self.pieces[i].group
                nodes += group.nodes if group else [self.pieces[i].text]
                i += 1
        return expanded(nodes + copies.get(end, []))

    def join_neighbours(self, depth: int, intervals: dict[Path, tuple[int, int]], begin: int, end: int):
        """Extend elements over neighbouring words that belong to another element with the same markup.

        In e-books, all words are in such elements, and a word that moved away from its own would lose its format.
        """
        taken = {i for interval in intervals.values() for i in range(*interval)}

        def extend(child: Path, indices: range) -> Iterator[int]:
            for i in indices:
                owner = (self.pieces[i].path or ())[depth : depth + 1]
                if i in taken or (self.pieces[i].is_word and not (owner and owner[0].origin == child[-1].origin)):
                    return
                if self.pieces[i].is_word:
                    yield i

        for child, (first, last) in intervals.items():
            last = max(extend(child, range(last, end)), default=last - 1) + 1
            first = min(extend(child, range(first - 1, begin - 1, -1)), default=first)
            intervals[child] = first, last
            taken.update(range(first, last))

    def largest_runs(
        self, inner: Sequence[tuple[Path, Span]], depth: int, begin: int, end: int
    ) -> dict[Path, tuple[int, int]]:
        """Return for each element the uninterrupted pieces of it that have the most words, if any has some.

        If an element has others inside it, these are all its pieces, unless there are neighbours' beside them.
        """
        runs: dict[Path, list[list[int]]] = {}
        previous: Path | None = None
        numbers: Counter[Path] = Counter()  # of pieces in an element
        for i in range(begin, end):
            if (around := self.pieces[i].path) is None:
                continue
            if (owner := around[:depth]) != previous:
                runs.setdefault(owner, []).append([])
            runs[owner][-1].append(i)
            previous = owner
            numbers[owner] += len(around) >= depth
        total, intervals = numbers.total(), {}
        for path, _ in inner:
            parts = runs.get(path, [])
            counts = [
                (sum(self.has_letters(i) for i in run), sum(self.pieces[i].is_word for i in run)) for run in parts
            ]
            best = max(range(len(parts)), key=counts.__getitem__, default=None)
            if best is None or not any(counts[best]):
                continue
            is_alone = numbers[path] == total
            chosen = [parts[0][0], parts[-1][-1]] if is_alone and path in self.children else parts[best]
            intervals[path] = chosen[0], chosen[-1] + 1
        return intervals

    def has_letters(self, i: int) -> bool:
        return self.pieces[i].group is None and self.pieces[i].is_word

    def place_lost(
        self,
        path: Path,
        position: float,
        begin: int,
        end: int,
        intervals: dict[Path, tuple[int, int]],
        copies: dict[int, list[Node]],
    ) -> str:
        """Put an element that has lost its words around the nearest word without markup at its level.

        Without such a word it takes one from a neighbour that has several; otherwise its words stay untranslated.
        Returns the place, as in `Lost`.
        """
        # Its words may be outside of the element around it.
        is_elsewhere = any(piece.is_word and (piece.path or ())[: len(path)] == path for piece in self.pieces)
        copy = without_objects(path[-1], keep_words=not is_elsewhere)
        if begin == end:
            copies.setdefault(end, []).append(copy)
            return "empty" if is_elsewhere else "untranslated"
        left, right = self.pieces[begin].span[0], self.pieces[end - 1].span[1]
        place = left + position * (right - left)

        def distance(i: int) -> float:
            return abs(sum(self.pieces[i].span) / 2 - place)

        taken = {i for interval in intervals.values() for i in range(*interval)}
        is_free = [i not in taken and not self.pieces[i].group and self.pieces[i].is_word for i in range(begin, end)]
        if free := [begin + i for i, free in enumerate(is_free) if free]:
            nearest = min(free, key=distance)
            intervals[path] = nearest, nearest + 1
            return "moved"
        ends = {}  # words at the end of an interval, which lacks them afterwards
        for owner, interval in intervals.items():
            if len(inside := [i for i in range(*interval) if self.pieces[i].is_word]) > 1:
                ends[inside[0]] = owner, (inside[1], interval[1])
                ends[inside[-1]] = owner, (interval[0], inside[-2] + 1)
        if ends:
            nearest = min(ends, key=distance)
            owner, rest = ends[nearest]
            intervals[owner], intervals[path] = rest, (nearest, nearest + 1)
            return "moved"
        gaps = [i for i in range(begin, end + 1) if not any(a < i < b for a, b in intervals.values())]
        gap = min(gaps, key=lambda i: abs((self.pieces[i].span[0] if i < end else right) - place))
        space_before, space_after = [" "] if gap == end else [], [" "] if gap < end else []
        copies.setdefault(gap, []).extend([*space_before, copy, *space_after])
        return "empty" if is_elsewhere else "untranslated"


def relative(span: Span, around: Span) -> float:
    """Return the relative position of the middle of a span within another."""
    return (sum(span) / 2 - around[0]) / max(1, around[1] - around[0])


def without_objects(element: Element, keep_words: bool) -> Element:
    """Return a copy of an element with the elements in it, without objects."""
    nodes = [without_objects(node, keep_words) if isinstance(node, Element) else node for node in element.nodes]
    kinds = (Element, str) if keep_words else Element
    return replace(element, nodes=[node for node in nodes if isinstance(node, kinds)])
