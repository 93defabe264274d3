"""Inline markup: word alignments carry bold words, links and the like from a text to its translation.

A translatable text is a list of nodes: strings, elements with nodes of their own, and objects, which have a place among
the words but no words, such as an image or a piece of code. The model sees only the words, with {0}, {1}, ... for the
objects.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..model.spans_vaswani import Span, words


@dataclass(eq=False)
class Element:
    """Markup around nodes.

    Args:
        origin: The markup as the format represents it.
        nodes: The nodes inside.
        is_whole: The translation has this element only once, like a link. Other elements, like bold text, are repeated
            if their words move apart.
    """

    origin: Any
    nodes: "list[Node]" = field(default_factory=list)
    is_whole: bool = True


@dataclass(eq=False)
class Object:
    """Something among the words that is not translated; `origin` is what the format represents it by."""

    origin: Any


Node = str | Element | Object
Path = tuple[Element, ...]  # the elements around a place, outermost first
Placed = tuple[str | Object, Path]


@dataclass
class Line:
    """The text that the model sees, and the place of every node in it.

    Attributes:
        text: The words, with placeholders for the objects among them.
        runs: The span of each string in the text, with the elements around it.
        objects: The object that each placeholder represents.
        before, after: Objects and spaces before the first word and after the last one, which the model need not see.
    """

    text: str = ""
    runs: list[tuple[Span, Path]] = field(default_factory=list)
    objects: dict[str, Placed] = field(default_factory=dict)
    before: list[Placed] = field(default_factory=list)
    after: list[Placed] = field(default_factory=list)


class Piece(NamedTuple):
    """A word of a translation, the text between two words, or a placeholder."""

    text: str
    span: Span
    is_object: bool


# From nodes to text --------------------------------------------------------------------------------------------------


def flatten(nodes: Sequence[Node]) -> Line:
    """Join the text of the nodes, with a placeholder for each object among its words."""
    leaves = list(leaves_of(nodes))
    with_words = [i for i, (leaf, _) in enumerate(leaves) if isinstance(leaf, str) and leaf.strip()]
    first, last = (with_words[0], with_words[-1]) if with_words else (len(leaves), len(leaves))
    full_text, line = "".join(map(text_of, nodes)), Line()
    for i, (leaf, path) in enumerate(leaves):
        begin = len(line.text)
        if not first <= i <= last:
            (line.before if i < first else line.after).append((leaf, path))
        elif isinstance(leaf, str):
            line.text += leaf
            line.runs.append(((begin, len(line.text)), path))
        else:
            number = len(line.objects)
            while f"{{{number}}}" in full_text or f"{{{number}}}" in line.objects:
                number += 1
            line.objects[f"{{{number}}}"] = leaf, path
            line.text += f"{{{number}}}"
    return line


def leaves_of(nodes: Sequence[Node], path: Path = ()) -> Iterator[tuple[str | Object, Path]]:
    """Yield the strings and objects in their order, each with the elements around it."""
    for node in nodes:
        if isinstance(node, Element):
            yield from leaves_of(node.nodes, (*path, node))
        elif node != "":
            yield node, path


def text_of(node: Node) -> str:
    return node if isinstance(node, str) else "".join(map(text_of, getattr(node, "nodes", ())))


def has_markup(nodes: Sequence[Node]) -> bool:
    return any(not isinstance(node, str) for node in nodes)


# Tags that may have no partner ---------------------------------------------------------------------------------------


def close_tag(stack: list[Element], tag: str) -> bool:
    """Close the innermost open element whose closing tag this is; return False if there is none.

    Args:
        stack: The open elements, outermost first. The origin of each is its opening and its closing tag.
        tag: A closing tag.
    """
    for i in reversed(range(1, len(stack))):
        opening, closing = stack[i].origin
        if closing.lower() == tag.lower():
            unwrap(stack, i + 1)
            stack.pop().origin = opening, tag
            return True
        if not opening.startswith("<"):
            return False
    return False


def unwrap(stack: list[Element], size: int):
    """Shorten a stack; each element that is removed has no closing tag, so its opening tag becomes an object."""
    while len(stack) > size:
        element = stack.pop()
        stack[-1].nodes[-1:] = [Object(element.origin[0]), *element.nodes]


# From the translation to nodes ---------------------------------------------------------------------------------------


def transfer_markup(line: Line, translation: str, alignments: Sequence[tuple[Span, Span]]) -> list[Node]:
    """Return the translation as nodes, with each element around the words that translate its words.

    An element without such words is put around the word at its relative position. Objects whose placeholder is missing
    from the translation come last.

    Args:
        line: The source text.
        translation: Its translation, with placeholders.
        alignments: Pairs of spans, of a source word and of a word that translates it.
    """
    pieces: list[Piece] = []
    paths: list[Path | None] = []
    for piece in split_pieces(translation, line.objects):
        if piece.is_object:
            pieces.append(piece)
            paths.append(line.objects[piece.text][1])
            continue
        for part, path in split_at_markup(piece, find_source(piece.span, alignments, line), line):
            pieces.append(part)
            paths.append(path)
    translated = {piece.text for piece in pieces if piece.is_object}
    after = [placed for name, placed in line.objects.items() if name not in translated] + line.after
    before_paths, after_paths = [path for _, path in line.before], [path for _, path in after]
    paths = fill_gaps([*before_paths, *paths, *after_paths])[len(before_paths) :][: len(pieces)]
    restore_lost_elements(line, pieces, paths, len(translation))
    leaves: list[str | Object] = [line.objects[p.text][0] if p.is_object else p.text for p in pieces]
    leaves = [leaf for leaf, _ in line.before] + leaves + [leaf for leaf, _ in after]
    return build_tree(leaves, keep_largest_parts(leaves, [*before_paths, *paths, *after_paths]))


def split_pieces(translation: str, objects: dict[str, Any]) -> list[Piece]:
    """Split a translation into words, the text between them, and placeholders; repeated placeholders are left out."""
    names = "|".join(map(re.escape, objects)) or r"(?!)"
    pieces, placed = [], set()
    for part in re.finditer(rf"{names}|\s+|[^\s{{]+|\{{", translation):
        if part[0] in objects:
            if part[0] not in placed:
                pieces.append(Piece(part[0], part.span(), True))
            placed.add(part[0])
            continue
        last = part.start()
        for begin, end in words(part[0]) or [(0, len(part[0]))]:
            begin, end = begin + part.start(), end + part.start()
            if begin > last:
                pieces.append(Piece(translation[last:begin], (last, begin), False))
            pieces.append(Piece(translation[begin:end], (begin, end), False))
            last = end
        if part.end() > last:
            pieces.append(Piece(translation[last : part.end()], (last, part.end()), False))
    return pieces


def find_source(span: Span, alignments: Sequence[tuple[Span, Span]], line: Line) -> Span | None:
    """Return the span of the source word that this span translates, or None if there is none, as for a space."""
    for (begin, end), (target_begin, target_end) in alignments:
        if target_begin < span[1] and span[0] < target_end and any(b < end and begin < e for (b, e), _ in line.runs):
            return begin, end
    return None


def split_at_markup(piece: Piece, source: Span | None, line: Line) -> list[tuple[Piece, Path | None]]:
    """Pair a piece with the elements around its source word.

    A word that the translation copies is split at the markup inside it, as in H<sub>2</sub>O. Other words take the
    elements around the beginning of their source.
    """
    if source is None:
        return [(piece, None)]
    begin, end = source
    runs = [(max(b, begin), min(e, end), path) for (b, e), path in line.runs if b < end and begin < e]
    if piece.text != line.text[begin:end]:
        return [(piece, runs[0][2])]
    shift = piece.span[0] - begin
    return [(Piece(line.text[b:e], (b + shift, e + shift), False), path) for b, e, path in runs]


def fill_gaps(paths: list[Path | None]) -> list[Path]:
    """Replace each None by the path before it, or by the shared part of both neighbours.

    A space between two bold words is bold. Only elements that may be repeated extend over a gap; a link ends with its
    last word.
    """
    filled: list[Path] = []
    for path in paths:
        filled.append(path if path is not None else filled[-1] if filled else ())
    after: Path = ()
    for i in reversed(range(len(paths))):
        if paths[i] is None:
            common = common_prefix(filled[i], after)
            if any(element.is_whole for element in filled[i][len(common) :]):
                filled[i] = common
        else:
            after = filled[i]
    return filled


def common_prefix(first: Path, second: Path) -> Path:
    length = 0
    while length < min(len(first), len(second)) and first[length] is second[length]:
        length += 1
    return first[:length]


def restore_lost_elements(line: Line, pieces: list[Piece], paths: list, length: int):
    """Put each element that has lost its words around the word at its relative position that has no markup yet."""
    placed = {id(element) for path in paths for element in path}
    for (begin, end), path in line.runs:
        if not line.text[begin:end].strip() or all(id(element) in placed for element in path):
            continue
        position = (begin + end) / 2 / max(1, len(line.text)) * length
        free = [i for i, piece in enumerate(pieces) if not piece.is_object and piece.text.strip() and not paths[i]]
        if free:
            nearest = min(free, key=lambda i: abs(sum(pieces[i].span) / 2 - position))
            paths[nearest] = path
            placed |= {id(element) for element in path}


def keep_largest_parts(leaves: list[str | Object], paths: list[Path]) -> list[Path]:
    """Remove each whole element from all places but the uninterrupted one with the most words."""
    is_word = [isinstance(leaf, str) and bool(leaf.strip()) for leaf in leaves]
    for element in {id(e): e for path in paths for e in path if e.is_whole}.values():
        runs: list[list[int]] = []
        for i, path in enumerate(paths):
            if element not in path:
                continue
            is_next = runs and runs[-1][-1] == i - 1
            # Two neighbours under different parents cannot share the element either.
            if is_next and parents_of(element, paths[i - 1]) == parents_of(element, path):
                runs[-1].append(i)
            else:
                runs.append([i])
        for run in sorted(runs, key=lambda run: (sum(is_word[i] for i in run), len(run)))[:-1]:
            for i in run:
                paths[i] = tuple(e for e in paths[i] if e is not element)
    return paths


def parents_of(element: Element, path: Path) -> Path:
    return path[: path.index(element)]


def build_tree(leaves: list[str | Object], paths: list[Path]) -> list[Node]:
    """Nest leaves into the elements around each; neighbouring leaves share their elements."""
    nodes: list[Node] = []
    stack: list[tuple[Element, Element]] = []  # open elements: of the source, and their copies in the translation
    for leaf, path in zip(leaves, paths, strict=True):
        common = len(common_prefix(tuple(original for original, _ in stack), path))
        del stack[common:]
        for element in path[common:]:
            new = Element(element.origin, [], element.is_whole)
            (stack[-1][1].nodes if stack else nodes).append(new)
            stack.append((element, new))
        siblings = stack[-1][1].nodes if stack else nodes
        if isinstance(leaf, str) and siblings and isinstance(siblings[-1], str):
            siblings[-1] += leaf
        else:
            siblings.append(leaf)
    return nodes
