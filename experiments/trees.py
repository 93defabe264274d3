"""Constituency trees: reads them from treebanks, and compares them as evalb does.

nltk.tree could match the brackets, but not remove traces, functions and indices: some 20 lines less for six packages.
"""

import lzma
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Union

from .lab import ExperimentError


# evalb ignores these labels and tags with COLLINS.prm, the usual setting: the root, and punctuation.
IGNORED = {"TOP", "", "-NONE-", ",", ":", "``", "''", "."}
EQUIVALENT = {"PRT": "ADVP"}


@dataclass(frozen=True)
class Leaf:
    """A word with its part of speech."""

    tag: str
    word: str

    def __str__(self) -> str:
        return f"({self.tag} {self.word.replace('(', '-LRB-').replace(')', '-RRB-')})"


@dataclass(frozen=True)
class Tree:
    """A constituent."""

    label: str
    children: tuple[Union["Tree", Leaf], ...]

    def __str__(self) -> str:
        return f"({self.label} {' '.join(map(str, self.children))})"

    def leaves(self) -> Iterator[Leaf]:
        for child in self.children:
            if isinstance(child, Leaf):
                yield child
            else:
                yield from child.leaves()

    def pretty(self, depth: int = 0) -> str:
        """The tree with each constituent that contains constituents on a line of its own."""
        if all(isinstance(child, Leaf) for child in self.children):
            return f"{'  ' * depth}{self}"
        lines = [
            child.pretty(depth + 1) if isinstance(child, Tree) else f"{'  ' * (depth + 1)}{child}"
            for child in self.children
        ]
        return f"{'  ' * depth}({self.label}\n" + "\n".join(lines) + ")"


# Reading -------------------------------------------------------------------------------------------------------------


def read_tree(text: str) -> Tree:
    """Parses a tree in a treebank's brackets. Drops empty elements, and the functions and indices of labels.

    Raises:
        ValueError: the brackets do not match, or they hold no tree.
    """
    stack: list[list] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) < 2:
                raise ValueError(f"Unmatched closing bracket in {text!r}.")
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise ValueError(f"{len(stack) - 1} unclosed brackets in {text!r}.")
    roots = [root for root in map(_node, stack[0]) if root is not None]
    if len(roots) != 1 or isinstance(roots[0], Leaf):
        raise ValueError(f"Expected a single tree, got {text!r}.")
    return roots[0]


def _node(parts: list | str) -> Tree | Leaf | None:
    """The node for the contents of a pair of brackets; None if they hold empty elements only."""
    if isinstance(parts, str):
        raise ValueError(f"{parts!r} is outside the brackets.")
    if len(parts) > 1 and all(isinstance(part, str) for part in parts):
        return None if parts[0] == "-NONE-" else Leaf(parts[0], "".join(parts[1:]))  # a few words contain a space
    named = bool(parts) and isinstance(parts[0], str)
    children = tuple(child for child in map(_node, parts[1:] if named else parts) if child is not None)
    if not children:
        return None
    if not named:  # the outer brackets of a line
        return children[0] if len(children) == 1 else Tree("TOP", children)
    return Tree(strip_functions(parts[0]), children)


def strip_functions(label: str) -> str:
    """NP-SBJ-1 -> NP"""
    return label if label.startswith("-") else re.split(r"[-=|]", label)[0]


def read_trees(path: Path) -> list[Tree]:
    """The trees of a file, one a line; plain text unless its name ends with .xz.

    Raises:
        ExperimentError: the file is not compressed with xz, or a line is not a tree; the message says which.
    """
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        try:
            return [read_tree(line) for line in file]
        except (ValueError, EOFError, lzma.LZMAError) as error:
            raise ExperimentError(f"{path}: {error}") from error


def sentence(tree: Tree) -> str:
    """The words of a tree, joined by spaces."""
    return " ".join(leaf.word for leaf in tree.leaves())


# Comparing -----------------------------------------------------------------------------------------------------------


class Score(NamedTuple):
    """Counts of labelled constituents."""

    correct: int
    predicted: int
    gold: int

    @property
    def f1(self) -> float:
        """In percent."""
        return 200 * self.correct / (self.predicted + self.gold) if self.predicted + self.gold else 100.0


def constituents(tree: Tree, tags: Sequence[str]) -> Counter[tuple[str, int, int]]:
    """Labels and spans by evalb's rules, given the gold tags: words whose tag is ignored take no position."""
    counts: Counter[tuple[str, int, int]] = Counter()
    remaining = iter(tags)

    def visit(node: Tree | Leaf, start: int) -> int:
        if isinstance(node, Leaf):
            return start + (next(remaining) not in IGNORED)
        end = start
        for child in node.children:
            end = visit(child, end)
        if node.label not in IGNORED and end > start:
            counts[EQUIVALENT.get(node.label, node.label), start, end] += 1
        return end

    visit(tree, 0)
    return counts


def compare(predicted: Tree, gold: Tree) -> Score:
    """Scores a tree by the gold tree over the same words."""
    tags = [leaf.tag for leaf in gold.leaves()]
    predicted_spans, gold_spans = constituents(predicted, tags), constituents(gold, tags)
    matches = predicted_spans & gold_spans
    return Score(sum(matches.values()), sum(predicted_spans.values()), sum(gold_spans.values()))


def total(scores: Iterable[Score]) -> Score:
    return Score(*map(sum, zip(*scores, strict=True)))
