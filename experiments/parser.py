"""A parser: a trained model whose search can only produce complete trees."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .linearisation import END, FORMS, LABELS, Form, State, build, completion
from .trees import Leaf, Tree, sentence


class Grammar:
    """The tokens that may follow a prefix, for sentences of known numbers of words: `prefix_allowed_tokens_fn`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, word_counts: Sequence[int], form: Form):
        symbols = [*form.word_symbols, *(kind + label for label in LABELS for kind in "oc")]
        plain = {"add_special_tokens": False, "verbose": False}
        self.tokens = {symbol: tuple(tokenizer(text_target=symbol, **plain)["input_ids"]) for symbol in symbols}
        self.symbols = {ids: symbol for symbol, ids in self.tokens.items()}
        self.first_tokens = {ids[0] for ids in self.symbols}
        self.end = tokenizer.eos_token_id
        self.starts = [State(count, form.is_in_order, LABELS, form.word_symbols) for count in word_counts]
        self.cache: dict[tuple[int, tuple[int, ...]], tuple[State | None, tuple[int, ...]]] = {}

    def __call__(self, sentence_index: int, ids: torch.Tensor) -> list[int]:
        prefix = tuple(ids.tolist()[1:])  # without the start token
        state, partial = self.read(sentence_index, prefix)
        if state is None:
            return [self.end]
        allowed = set()
        symbols = state.allowed()
        if partial:  # a complete symbol, the beginning of a longer one, or both
            for symbol in symbols:
                tokens = self.tokens.get(symbol, ())
                if tokens[: len(partial)] == partial and len(tokens) > len(partial):
                    allowed.add(tokens[len(partial)])
            if partial not in self.symbols or self.symbols[partial] not in symbols:
                return sorted(allowed) or [self.end]
            symbols = state.after(self.symbols[partial]).allowed()
        allowed |= {self.end if symbol == END else self.tokens[symbol][0] for symbol in symbols}
        return sorted(allowed)

    def read(self, sentence_index: int, ids: tuple[int, ...]) -> tuple[State | None, tuple[int, ...]]:
        """The state before the last symbol, and the tokens of this symbol, which may be incomplete.

        The state is None after the end of the tree, and for impossible prefixes: where few tokens are allowed, some
        beams have probability 0.
        """
        if not ids:
            return self.starts[sentence_index], ()
        if (sentence_index, ids) not in self.cache:
            state, partial = self.read(sentence_index, ids[:-1])
            if partial and self.is_prefix((*partial, ids[-1])):
                partial = (*partial, ids[-1])
            else:
                state, partial = self.step(state, partial), ids[-1:]
            if partial[0] not in self.first_tokens:
                state = None
            self.cache[sentence_index, ids] = state, partial
        return self.cache[sentence_index, ids]

    def step(self, state: State | None, tokens: tuple[int, ...]) -> State | None:
        """The state after the symbol of these tokens; None if that symbol is not allowed."""
        if not tokens:
            return state
        symbol = self.symbols.get(tokens, "")
        return state.after(symbol) if state is not None and symbol in state.allowed() else None

    def is_prefix(self, tokens: tuple[int, ...]) -> bool:
        """Whether a symbol begins with these tokens."""
        return any(ids[: len(tokens)] == tokens for ids in self.symbols)

    def decode(self, sentence_index: int, ids: Sequence[int]) -> list[str]:
        """The symbols of an output; completes an output that was cut off."""
        symbols: list[str] = []
        partial: tuple[int, ...] = ()
        state = self.starts[sentence_index]
        for token in (*ids, self.end):
            if partial and not self.is_prefix((*partial, token)):
                if self.symbols.get(partial) in state.allowed():  # otherwise the symbol itself was cut off
                    symbols.append(self.symbols[partial])
                    state = state.after(symbols[-1])
                partial = ()
            if token == self.end:
                break
            partial = (*partial, token)
        return [*symbols, *completion(state)]


@torch.no_grad()
def parse(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[Leaf]],
    form: Form,
    beams: int = 4,
    batch_size: int = 32,
) -> list[Tree]:
    """The tree of each sentence, given as its words."""
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    trees: dict[int, Tree] = {}
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        texts = [" ".join(leaf.word for leaf in sentences[i]) for i in batch]
        lengths = [len(sentences[i]) for i in batch]
        grammar = Grammar(tokenizer, lengths, form)
        outputs = model.generate(
            **tokenizer(texts, padding=True, return_tensors="pt"),
            num_beams=beams,
            max_new_tokens=8 * max(lengths) + 20,
            min_new_tokens=None,
            prefix_allowed_tokens_fn=grammar,
        )
        for row, (i, ids) in enumerate(zip(batch, outputs.tolist(), strict=True)):
            trees[i] = build(grammar.decode(row, ids[1:]), sentences[i], form.is_in_order)
    return [trees[i] for i in range(len(sentences))]


@torch.no_grad()
def complete_share(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, trees: Sequence[Tree], form: Form
) -> float:
    """The share of greedy outputs that are complete trees over the words although nothing constrains the search."""
    complete = 0
    for tree in trees:
        inputs = tokenizer([sentence(tree)], return_tensors="pt")
        leaves = list(tree.leaves())
        ids = model.generate(**inputs, num_beams=1, max_new_tokens=8 * len(leaves) + 20)
        try:
            build(tokenizer.decode(ids[0], skip_special_tokens=True).split(), leaves, form.is_in_order)
            complete += 1
        except ValueError:
            pass
    return round(complete / len(trees), 3)


def split_words(text: str) -> list[str]:
    """Splits a text nearly as the treebank does: punctuation apart, numbers and "n't" whole, brackets as -LRB-."""
    words = re.findall(r"\d+(?:[.,]\d+)+|\w+?(?=n't\b)|n't\b|'s\b|\w+|[^\w\s]", text)
    return [{"(": "-LRB-", ")": "-RRB-"}.get(word, word) for word in words]


def form_of(model: Path) -> Form:
    """The form of the trees that a parser was trained on, from the recipe in its folder.

    Raises:
        ValueError: the model is not a parser.
    """
    recipe = json.loads((model / "training.json").read_text(encoding="utf-8"))["recipe"]
    if recipe["name"] != "parsing":
        raise ValueError(f"{model} is not a parser: its recipe is {recipe['name']!r}.")
    return FORMS[recipe["data"]["train"][0]["path"].removesuffix("-train.tsv")]
