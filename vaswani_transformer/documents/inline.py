"""Inline markup: bold words, links and the like are carried from a text to its translation by word alignment.

A translatable text is a list of nodes: words, elements with nodes of their own, and objects, which have no words but a
place, such as an image or a piece of code. The model sees the words alone, with {0}, {1}, ... in the place of objects.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..model.spans_vaswani import Span, words


@dataclass(eq=False)
class Element:
    """Markup around nodes.

    `origin` is the format's own. One that must stay whole, such as a link, stands once in the translation; others may
    be written several times, around words that have been moved apart.
    """

    origin: Any
    nodes: "list[Node]" = field(default_factory=list)
    is_whole: bool = True


@dataclass(eq=False)
class Object:
    """What stands between words and is not translated."""

    origin: Any


Node = str | Element | Object
Path = tuple[Element, ...]  # the elements around a place, from the outermost


Placed = tuple[Object, Path]


@dataclass
class Line:
    """What the model sees of nodes, and where in it they are.

    Objects before the first word and after the last need no placeholder.
    """

    text: str = ""
    runs: list[tuple[Span, Path]] = field(default_factory=list)  # of words
    objects: dict[str, Placed] = field(default_factory=dict)  # by what stands for each
    before: list[Placed] = field(default_factory=list)
    after: list[Placed] = field(default_factory=list)


def flat(nodes: Sequence[Node]) -> Line:
    """The text of the nodes, with a placeholder for each object among its words."""
    leaves = list(leaves_of(nodes))
    with_words = [i for i, (leaf, _) in enumerate(leaves) if isinstance(leaf, str) and leaf.strip()]
    first, last = (with_words[0], with_words[-1]) if with_words else (len(leaves), len(leaves))
    whole, line = "".join(map(text_of, nodes)), Line()
    for i, (leaf, path) in enumerate(leaves):
        begin = len(line.text)
        if isinstance(leaf, str):
            line.text += leaf
            line.runs.append(((begin, len(line.text)), path))
        elif first < i < last:
            number = len(line.objects)
            while f"{{{number}}}" in whole or f"{{{number}}}" in line.objects:
                number += 1
            line.objects[f"{{{number}}}"] = leaf, path
            line.text += f"{{{number}}}"
        else:
            (line.before if i < first else line.after).append((leaf, path))
    return line


def leaves_of(nodes: Sequence[Node], path: Path = ()) -> Iterator[tuple[str | Object, Path]]:
    for node in nodes:
        if isinstance(node, Element):
            yield from leaves_of(node.nodes, (*path, node))
        else:
            yield node, path


def text_of(node: Node) -> str:
    return node if isinstance(node, str) else "".join(map(text_of, getattr(node, "nodes", ())))


def has_markup(nodes: Sequence[Node]) -> bool:
    return any(not isinstance(node, str) for node in nodes)


def carried_over(line: Line, translation: str, alignments: Sequence[tuple[Span, Span]]) -> list[Node]:
    """The translation with the markup of the line: nodes again, each element around what translates its words.

    Objects that the translation lacks stand at its end, and elements of which no word was found around the word that
    stands where theirs did.
    """
    pieces = cut(translation, line.objects)
    paths = [
        line.objects[text][1] if is_object else path_of(line, span, alignments) for text, span, is_object in pieces
    ]
    smooth(paths)
    place_the_lost(line, pieces, paths, len(translation))
    leaves: list[str | Object] = [line.objects[text][0] if is_object else text for text, _, is_object in pieces]
    there = {text for text, _, is_object in pieces if is_object}
    after = [placed for name, placed in line.objects.items() if name not in there] + line.after
    leaves = [kept for kept, _ in line.before] + leaves + [kept for kept, _ in after]
    paths = [path for _, path in line.before] + paths + [path for _, path in after]
    return tree(leaves, once_each(paths))


Piece = tuple[str, Span, bool]  # a text, where it is, and whether it stands for an object


def cut(translation: str, objects: dict[str, Any]) -> list[Piece]:
    """Words, what stands between them, and the first of each placeholder."""
    names = "|".join(map(re.escape, objects)) or r"(?!)"
    pieces, seen = [], set()
    for part in re.finditer(rf"{names}|\s+|[^\s{{]+|\{{", translation):
        if part[0] in objects:
            if part[0] not in seen:
                pieces.append((part[0], part.span(), True))
            seen.add(part[0])
            continue
        last = part.start()
        for begin, end in words(part[0]) or [(0, len(part[0]))]:
            begin, end = begin + part.start(), end + part.start()
            if begin > last:
                pieces.append((translation[last:begin], (last, begin), False))
            pieces.append((translation[begin:end], (begin, end), False))
            last = end
        if part.end() > last:
            pieces.append((translation[last : part.end()], (last, part.end()), False))
    return pieces


def path_of(line: Line, span: Span, alignments: Sequence[tuple[Span, Span]]) -> Path | None:
    """The elements around the word that this one translates; None for what translates none, such as a space."""
    for (begin, end), (a, b) in alignments:
        if a < span[1] and span[0] < b:
            for (c, d), path in line.runs:
                if begin < d and c < end:
                    return path
    return None


def smooth(paths: list[Path | None]):
    """Gives what has no path that which its neighbours share."""
    before: list[Path | None] = []
    for path in paths:
        before.append(path if path is not None or not before else before[-1])
    after: Path | None = None
    for i in reversed(range(len(paths))):
        if paths[i] is None:
            last, common = before[i] or (), shared(before[i] or (), after or ())
            paths[i] = common if any(element.is_whole for element in last[len(common) :]) else last
        else:
            after = paths[i]


def shared(some: Path, others: Path) -> Path:
    common = []
    for one, other in zip(some, others, strict=False):
        if one is not other:
            break
        common.append(one)
    return tuple(common)


def place_the_lost(line: Line, pieces: list[Piece], paths: list, length: int):
    """Puts each element that has lost its words around the word that stands where they did, in proportion."""
    there = {id(element) for path in paths for element in path}
    for (begin, end), path in line.runs:
        if not line.text[begin:end].strip() or all(id(element) in there for element in path):
            continue
        place = (begin + end) / 2 / max(1, len(line.text)) * length
        free = [i for i, (text, _, is_object) in enumerate(pieces) if not is_object and text.strip() and not paths[i]]
        if free:
            nearest = min(free, key=lambda i: abs(sum(pieces[i][1]) / 2 - place))
            paths[nearest] = path
            there |= {id(element) for element in path}


def once_each(paths: list[Path]) -> list[Path]:
    """Without those places of an element that must be whole which are apart from its largest."""
    for element in {id(e): e for path in paths for e in path if e.is_whole}.values():
        runs: list[list[int]] = []
        for i, path in enumerate(paths):
            if element in path:
                if runs and runs[-1][-1] == i - 1 and depth(paths[i - 1], element) == depth(path, element):
                    runs[-1].append(i)
                else:
                    runs.append([i])
        for run in sorted(runs, key=len)[:-1]:
            for i in run:
                paths[i] = tuple(e for e in paths[i] if e is not element)
    return paths


def depth(path: Path, element: Element) -> Path:
    return path[: path.index(element)]


def tree(leaves: list[str | Object], paths: list[Path]) -> list[Node]:
    """Leaves with the elements around each -> nodes; neighbours share what they have in common."""
    nodes: list[Node] = []
    stack: list[tuple[Element, Element]] = []  # the line's element, and the one that takes its place here
    for leaf, path in zip(leaves, paths, strict=True):
        common = len(shared(tuple(original for original, _ in stack), path))
        del stack[common:]
        for element in path[common:]:
            new = Element(element.origin, [], element.is_whole)
            (stack[-1][1].nodes if stack else nodes).append(new)
            stack.append((element, new))
        into = stack[-1][1].nodes if stack else nodes
        if isinstance(leaf, str) and into and isinstance(into[-1], str):
            into[-1] += leaf
        else:
            into.append(leaf)
    return nodes
