"""Trees as sequences of symbols: writes them, reads them back, and says which symbols may come next.

"oNP" opens a noun phrase and "cNP" closes it. "wDT" is the next word, a determiner; "w" is the next word in a form
without parts of speech. Symbols consist of letters, so that the tokenizer keeps them whole. A sequence has no words:
they are taken from the sentence, in order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from .trees import Leaf, Tree


WORD, END = "w", "</s>"  # prefix of all words' symbols; end of the tree
SPELLED = {  # tags that are not letters, as they appear in symbols
    ",": "COMMA", ".": "STOP", ":": "COLON", "``": "OPENQUOTE", "''": "CLOSEQUOTE", "-LRB-": "LRB", "-RRB-": "RRB",
    "PRP$": "PRPS", "WP$": "WPS", "$": "DOLLAR", "#": "HASH",
}  # fmt: skip
LABELS = (
    "ADJP ADVP CAPTION CIT CONJP FRAG HEADING INTJ LST NAC NML NP PP PRN PRT QP RRC S SBAR SBARQ SINV SQ TITLE UCP VP "
    "WHADJP WHADVP WHNP WHPP X"
).split()
TAGS = (
    "NN IN JJ NNS DT , CD VBN . HYPH CC -RRB- -LRB- RB VBD NNP SYM VBZ VBG VB VBP TO PRP : FW WDT MD LS PRP$ JJR WRB "
    "RBR RP EX RBS POS JJS '' `` NNPS AFX PDT WP WP$"
).split()  # the most frequent first: it completes outputs that were cut off
MAX_OPENED = 12  # constituents between two words, more than treebanks have


def brackets(tree: Tree, is_tagged: bool = True) -> list[str]:
    """Names each constituent before its children (Vinyals et al. 2015): (S (NP wDT wNN) (VP wVBD))."""
    symbols = [f"o{tree.label}"]
    for child in tree.children:
        symbols += word(child, is_tagged) if isinstance(child, Leaf) else brackets(child, is_tagged)
    return [*symbols, f"c{tree.label}"]


def in_order(tree: Tree, is_tagged: bool = True) -> list[str]:
    """Names each constituent after its first child (Liu and Zhang 2017): wDT (NP wNN ) (S wVBD (VP ) )."""
    first, *rest = (
        word(child, is_tagged) if isinstance(child, Leaf) else in_order(child, is_tagged) for child in tree.children
    )
    return [*first, f"o{tree.label}", *(symbol for child in rest for symbol in child), f"c{tree.label}"]


def word(leaf: Leaf, is_tagged: bool) -> list[str]:
    """The symbol of a word, with or without its part of speech."""
    return [word_symbol(leaf.tag) if is_tagged else WORD]


def word_symbol(tag: str) -> str:
    return WORD + SPELLED.get(tag, tag)


def tag_of(symbol: str) -> str:
    """The part of speech of a word's symbol; "" if it has none."""
    letters = symbol.removeprefix(WORD)
    return next((tag for tag, spelled in SPELLED.items() if spelled == letters), letters)


LINEARISATIONS = {"brackets": brackets, "in-order": in_order}


class Form(NamedTuple):
    """A way to write a tree: the order of its symbols, and whether words have parts of speech."""

    order: str  # a key of LINEARISATIONS
    is_tagged: bool

    @property
    def name(self) -> str:
        return self.order if self.is_tagged else f"{self.order}-untagged"

    @property
    def is_in_order(self) -> bool:
        return self.order == "in-order"

    @property
    def word_symbols(self) -> list[str]:
        return [word_symbol(tag) for tag in TAGS] if self.is_tagged else [WORD]

    def linearise(self, tree: Tree) -> list[str]:
        return LINEARISATIONS[self.order](tree, self.is_tagged)


FORMS = {form.name: form for form in (Form(order, tagged) for tagged in (True, False) for order in LINEARISATIONS)}


@dataclass(frozen=True)
class State:
    """A partial tree, and the symbols that can extend it to a complete tree over the remaining words."""

    words_left: int
    is_in_order: bool
    labels: Sequence[str]
    word_symbols: Sequence[str] = (WORD,)
    open_labels: tuple[str, ...] = ()
    last_symbol: str = ""
    opened: int = 0  # constituents since the last word

    def allowed(self) -> list[str]:
        """The symbols that may come next; END is among them once the tree is complete."""
        return self._in_order() if self.is_in_order else self._brackets()

    @property
    def _openings(self) -> list[str]:
        return [f"o{label}" for label in self.labels] if self.opened < MAX_OPENED else []

    def _brackets(self) -> list[str]:
        if not self.open_labels:
            return [END] if self.last_symbol else self._openings
        symbols = [*self.word_symbols, *self._openings] if self.words_left else []
        has_child = not self.last_symbol.startswith("o")
        if has_child and (len(self.open_labels) > 1 or not self.words_left):  # the root closes after the last word
            symbols.append(f"c{self.open_labels[-1]}")
        return symbols

    def _in_order(self) -> list[str]:
        if not self.last_symbol:
            return [*self.word_symbols]
        ended = not self.last_symbol.startswith("o")  # a word or a constituent, which can become a first child
        symbols = self._openings if ended else []
        if not self.open_labels:
            return [*symbols, END] if not is_word(self.last_symbol) and not self.words_left else symbols
        if self.words_left:
            symbols = [*self.word_symbols, *symbols]
        # A constituent that closes while words are left needs a parent.
        if len(self.open_labels) > 1 or not self.words_left or self._openings:
            symbols.append(f"c{self.open_labels[-1]}")
        return symbols

    def after(self, symbol: str) -> "State":
        """The state after one of the allowed symbols."""
        if is_word(symbol):
            return replace(self, words_left=self.words_left - 1, last_symbol=symbol, opened=0)
        if symbol.startswith("o"):
            labels = (*self.open_labels, symbol[1:])
            return replace(self, open_labels=labels, last_symbol=symbol, opened=self.opened + 1)
        return replace(self, open_labels=self.open_labels[:-1], last_symbol=symbol)


def is_word(symbol: str) -> bool:
    return symbol.startswith(WORD)


def completion(state: State) -> list[str]:
    """The shortest sequence of symbols that completes the tree."""
    symbols = []
    while END not in (allowed := state.allowed()):
        words = [symbol for symbol in allowed if is_word(symbol)]
        closing = [symbol for symbol in allowed if symbol.startswith("c")]
        symbol = [*words, *closing, allowed[-1]][0]
        symbols.append(symbol)
        state = state.after(symbol)
    return symbols


def build(symbols: Iterable[str], leaves: Iterable[Leaf], is_in_order: bool) -> Tree:
    """The tree of a complete sequence of symbols, over these leaves in order, with the symbols' tags.

    Raises:
        ValueError: the sequence is not a single tree over these words.
    """
    words = iter(leaves)
    stack: list[list] = [[]]  # label and children of each open constituent; the first list collects the root
    for symbol in symbols:
        if is_word(symbol):
            leaf = next(words, None)
            if leaf is None:
                raise ValueError("The tree has more words than the sentence.")
            stack[-1].append(replace(leaf, tag=tag_of(symbol) or leaf.tag))
        elif symbol.startswith("o"):
            min_length = 1 if len(stack) == 1 else 3  # a label and its first child stay in their own constituent
            if is_in_order and len(stack[-1]) < min_length:
                raise ValueError(f"{symbol} has no first child.")
            first = [stack[-1].pop()] if is_in_order else []
            stack.append([symbol[1:], *first])
        else:
            if len(stack) == 1 or len(stack[-1]) == 1 or symbol != f"c{stack[-1][0]}":
                raise ValueError(f"{symbol} has no constituent to close.")
            label, *children = stack.pop()
            stack[-1].append(Tree(label, tuple(children)))
    if len(stack) != 1 or len(stack[0]) != 1 or isinstance(stack[0][0], Leaf) or next(words, None) is not None:
        raise ValueError(f"Not a complete tree: {' '.join(symbols)!r}.")
    return stack[0][0]
