"""Constituency trees: reading them, writing them as symbols in a row and back, and comparing them as evalb does."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Union


WORD, END = "w", "</s>"  # the symbols of a word, whichever it is, and of the end of the tree
SPELLED = {  # tags that are not of letters, as their symbols have them
    ",": "COMMA", ".": "STOP", ":": "COLON", "``": "OPENQUOTE", "''": "CLOSEQUOTE", "-LRB-": "LRB", "-RRB-": "RRB",
    "PRP$": "PRPS", "WP$": "WPS", "$": "DOLLAR", "#": "HASH",
}  # fmt: skip
MOST_OPENED = 12  # constituents that may be opened between two words: in treebanks there are fewer

# What evalb leaves out by COLLINS.prm, which is how parsers are compared: the root, and punctuation.
DELETED = {"TOP", "", "-NONE-", ",", ":", "``", "''", "."}
EQUAL = {"PRT": "ADVP"}


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
        """A line for each constituent that holds others."""
        if all(isinstance(child, Leaf) for child in self.children):
            return f"{'  ' * depth}{self}"
        lines = [child.pretty(depth + 1) if isinstance(child, Tree) else f"{'  ' * (depth + 1)}{child}"
                 for child in self.children]  # fmt: skip
        return f"{'  ' * depth}({self.label}\n" + "\n".join(lines) + ")"


# Reading -------------------------------------------------------------------------------------------------------------


def read_tree(text: str) -> Tree:
    """A tree in brackets as treebanks have it: without empty elements, and labels without functions and indices.

    Raises:
        ValueError: the brackets do not match, or nothing is in them.
    """
    stack: list[list] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) < 2:
                raise ValueError(f"A bracket too many in {text!r}.")
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise ValueError(f"{len(stack) - 1} brackets are not closed in {text!r}.")
    roots = [root for root in map(_node, stack[0]) if root is not None]
    if len(roots) != 1 or isinstance(roots[0], Leaf):
        raise ValueError(f"Not one tree: {text!r}.")
    return roots[0]


def _node(parts: list | str) -> Tree | Leaf | None:
    """The node of what was in a pair of brackets; None where only empty elements were."""
    if isinstance(parts, str):
        raise ValueError(f"{parts!r} stands outside all brackets.")
    if len(parts) > 1 and all(isinstance(part, str) for part in parts):
        return None if parts[0] == "-NONE-" else Leaf(parts[0], "".join(parts[1:]))  # a few words have a space inside
    named = bool(parts) and isinstance(parts[0], str)
    children = tuple(child for child in map(_node, parts[1:] if named else parts) if child is not None)
    if not children:
        return None
    if not named:  # the outer pair of a treebank's line
        return children[0] if len(children) == 1 else Tree("TOP", children)
    return Tree(bare(parts[0]), children)


def bare(label: str) -> str:
    """NP-SBJ-1 -> NP"""
    return label if label.startswith("-") else re.split(r"[-=|]", label)[0]


# As a sequence of symbols --------------------------------------------------------------------------------------------
#
# "oNP" opens a noun phrase, "cNP" closes it, and "wDT" is the next word, a determiner, or "w" whatever it is: letters
# only, so that a tokenizer keeps a symbol whole. A sequence has no words: they are the sentence's, in its order.


def brackets(tree: Tree, is_tagged: bool = True) -> list[str]:
    """Each constituent's label before its children (Vinyals et al. 2015): (S (NP wDT wNN) (VP wVBD))."""
    symbols = [f"o{tree.label}"]
    for child in tree.children:
        symbols += word(child, is_tagged) if isinstance(child, Leaf) else brackets(child, is_tagged)
    return [*symbols, f"c{tree.label}"]


def in_order(tree: Tree, is_tagged: bool = True) -> list[str]:
    """Each constituent's label after its first child (Liu and Zhang 2017): wDT (NP wNN ) (S wVBD (VP ) )."""
    first, *others = (
        word(child, is_tagged) if isinstance(child, Leaf) else in_order(child, is_tagged) for child in tree.children
    )
    return [*first, f"o{tree.label}", *(symbol for child in others for symbol in child), f"c{tree.label}"]


def word(leaf: Leaf, is_tagged: bool) -> list[str]:
    """The symbol of a word, with its part of speech or without."""
    return [WORD + SPELLED.get(leaf.tag, leaf.tag)] if is_tagged else [WORD]


def tag_of(symbol: str) -> str:
    """The part of speech in a word's symbol; "" where it has none."""
    letters = symbol.removeprefix(WORD)
    return next((tag for tag, spelled in SPELLED.items() if spelled == letters), letters)


LINEARISATIONS = {"brackets": brackets, "in-order": in_order}


@dataclass(frozen=True)
class State:
    """A tree so far, and what may come next for it to become one whole tree over the words that are left."""

    left: int  # words
    is_in_order: bool
    labels: Sequence[str]
    words: Sequence[str] = (WORD,)  # the symbols that a word may have
    open: tuple[str, ...] = ()
    last: str = ""  # symbol
    opened: int = field(default=0)  # since the last word

    def allowed(self) -> list[str]:
        """The symbols that may come next; where the tree is whole, END is among them."""
        return self._in_order() if self.is_in_order else self._brackets()

    @property
    def _opening(self) -> list[str]:
        return [f"o{label}" for label in self.labels] if self.opened < MOST_OPENED else []

    def _brackets(self) -> list[str]:
        if not self.open:
            return [END] if self.last else self._opening
        symbols = [*self.words, *self._opening] if self.left else []
        has_child = not self.last.startswith("o")
        if has_child and (len(self.open) > 1 or not self.left):  # the root closes after the last word
            symbols.append(f"c{self.open[-1]}")
        return symbols

    def _in_order(self) -> list[str]:
        if not self.last:
            return [*self.words]
        ended = not self.last.startswith("o")  # a word or constituent, which may become a first child
        symbols = self._opening if ended else []
        if not self.open:
            return [*symbols, END] if not is_word(self.last) and not self.left else symbols
        if self.left:
            symbols = [*self.words, *symbols]
        # What is closed with words left must get a parent.
        if len(self.open) > 1 or not self.left or self._opening:
            symbols.append(f"c{self.open[-1]}")
        return symbols

    def after(self, symbol: str) -> "State":
        """The state once an allowed symbol has come."""
        if is_word(symbol):
            return replace(self, left=self.left - 1, last=symbol, opened=0)
        if symbol.startswith("o"):
            return replace(self, open=(*self.open, symbol[1:]), last=symbol, opened=self.opened + 1)
        return replace(self, open=self.open[:-1], last=symbol)


def is_word(symbol: str) -> bool:
    return symbol.startswith(WORD)


def rest(state: State) -> list[str]:
    """The shortest way to a whole tree."""
    symbols = []
    while END not in (allowed := state.allowed()):
        words = [one for one in allowed if is_word(one)]
        symbol = words[0] if words else next((one for one in allowed if one.startswith("c")), allowed[-1])
        symbols.append(symbol)
        state = state.after(symbol)
    return symbols


def build(symbols: Iterable[str], leaves: Iterable[Leaf], is_in_order: bool) -> Tree:
    """The tree of a whole sequence of symbols; its words are the leaves, in their order, with the symbols' tags.

    Raises:
        ValueError: it is not the sequence of one tree over these words.
    """
    words = iter(leaves)
    stack: list[list] = [[]]  # of each open constituent its label and children; the first collects the root
    for symbol in symbols:
        if is_word(symbol):
            leaf = next(words, None)
            if leaf is None:
                raise ValueError("There are more words in the tree than in the sentence.")
            stack[-1].append(replace(leaf, tag=tag_of(symbol) or leaf.tag))
        elif symbol.startswith("o"):
            least = 1 if len(stack) == 1 else 3  # the label is no child, and the first stays where it is
            if is_in_order and len(stack[-1]) < least:
                raise ValueError(f"{symbol} has no first child.")
            first = [stack[-1].pop()] if is_in_order else []
            stack.append([symbol[1:], *first])
        else:
            if len(stack) == 1 or len(stack[-1]) == 1 or symbol != f"c{stack[-1][0]}":
                raise ValueError(f"{symbol} closes nothing.")
            label, *children = stack.pop()
            stack[-1].append(Tree(label, tuple(children)))
    if len(stack) != 1 or len(stack[0]) != 1 or isinstance(stack[0][0], Leaf) or next(words, None) is not None:
        raise ValueError(f"Not one whole tree: {' '.join(symbols)!r}.")
    return stack[0][0]


# Comparing -----------------------------------------------------------------------------------------------------------


class Score(NamedTuple):
    """Constituents of some trees: those that were right, those found, and those there are."""

    right: int
    found: int
    gold: int

    @property
    def f1(self) -> float:
        return 200 * self.right / (self.found + self.gold) if self.found + self.gold else 100.0


def constituents(tree: Tree, tags: Sequence[str]) -> Counter[tuple[str, int, int]]:
    """Labels and spans by evalb's rules: words with these gold tags that it deletes take no place."""
    counts: Counter[tuple[str, int, int]] = Counter()
    remaining = iter(tags)

    def visit(node: Tree | Leaf, start: int) -> int:
        if isinstance(node, Leaf):
            return start + (next(remaining) not in DELETED)
        end = start
        for child in node.children:
            end = visit(child, end)
        if node.label not in DELETED and end > start:
            counts[EQUAL.get(node.label, node.label), start, end] += 1
        return end

    visit(tree, 0)
    return counts


def compare(found: Tree, gold: Tree) -> Score:
    """Of two trees over the same words."""
    tags = [leaf.tag for leaf in gold.leaves()]
    one, other = constituents(found, tags), constituents(gold, tags)
    return Score(sum((one & other).values()), sum(one.values()), sum(other.values()))


def total(scores: Iterable[Score]) -> Score:
    return Score(*map(sum, zip(*scores, strict=True)))
