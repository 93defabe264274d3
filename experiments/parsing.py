"""Parsing (section 6.3): sentences to trees.

    python -m experiments parsing --data DATA --work RUNS --jobs 2
    python -m experiments.parsing parse "The cells were cultured in serum ." --model RUNS/parsing/in-order-seed1/model
    python -m experiments.parsing score DATA/craft_treebank/test.mrg.xz --model RUNS/parsing/in-order-seed1/model

Question: "to evaluate if the Transformer can generalize to other tasks we performed experiments on English constituency
parsing". Does it learn this from 25,000 trees with no change to the model? Is it better to name a constituent before
its words, as the paper did, or after the first of them (in-order)? And to say the part of speech of each word, or to
have one symbol for all words, as Vinyals et al. 2015 had?

Design: the paper's four layers, narrower, trained with Muon, not the paper's Adam, on CRAFT, biomedical articles; other
articles for the test. The target is the tree without its words, which are restored from the sentence; "untagged" has
the same symbol for each of them. The search (beam 4) may only take what can still become one whole tree over the words,
so that every output is one. F1 of labelled constituents by evalb's rules (COLLINS.prm), all lengths, with an interval
over sentences. The paper has 91.3 on the Wall Street Journal from 40,000 sentences. Parsers made for the task were
trained on CRAFT, with other articles for the test, by Verspoor et al. 2012 (doi 10.1186/1471-2105-13-207).

The forms with parts of speech had only 800 of the 3,000 steps, in float32 on an AMD EPYC, where all would have taken
three hours each; "score" gave their F1:

    python -m training.train experiments/recipes/parsing.yaml --data RUNS/parsing/data --output RUNS/brackets \\
      --set data.train.0.path=brackets-train.tsv --set data.validation.0.path=brackets-dev.tsv --set seed=1 \\
      --set optimisation.max_steps=800 --set optimisation.cooldown_steps=400 --set optimisation.precision=float32 \\
      --set checkpointing.average_last=1
"""

import argparse
import json
import lzma
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from vaswani_transformer.loading import load

from . import figures
from .intervals import bootstrap
from .lab import ExperimentError, Lab, Run
from .tables import Column, markdown
from .trees import (
    END,
    LINEARISATIONS,
    SPELLED,
    WORD,
    Leaf,
    State,
    Tree,
    build,
    compare,
    read_tree,
    rest,
    total,
)


TITLE = "Parsing (section 6.3)"
PARTS = ("train", "dev", "test")
LABELS = (
    "ADJP ADVP CAPTION CIT CONJP FRAG HEADING INTJ LST NAC NML NP PP PRN PRT QP RRC S SBAR SBARQ SINV SQ TITLE UCP VP "
    "WHADJP WHADVP WHNP WHPP X"
).split()
TAGS = (
    "NN IN JJ NNS DT , CD VBN . HYPH CC -RRB- -LRB- RB VBD NNP SYM VBZ VBG VB VBP TO PRP : FW WDT MD LS PRP$ JJR WRB "
    "RBR RP EX RBS POS JJS '' `` NNPS AFX PDT WP WP$"
).split()  # the most frequent first, which an output that was cut off is completed with
FALLS = 0.01  # nats, from the last validation but one to the last
LENGTHS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60), (61, 1000))  # words


class Form(NamedTuple):
    """How a tree is written."""

    order: str  # of LINEARISATIONS
    is_tagged: bool

    @property
    def name(self) -> str:
        return self.order if self.is_tagged else f"{self.order}-untagged"

    @property
    def is_in_order(self) -> bool:
        return self.order == "in-order"

    @property
    def words(self) -> list[str]:
        """The symbols that a word may have."""
        return [WORD + SPELLED.get(tag, tag) for tag in TAGS] if self.is_tagged else [WORD]

    def linearise(self, tree: Tree) -> list[str]:
        return LINEARISATIONS[self.order](tree, self.is_tagged)


FORMS = {form.name: form for form in (Form(order, tagged) for tagged in (True, False) for order in LINEARISATIONS)}


def read_trees(path: Path) -> list[Tree]:
    """The trees of a file.

    Raises:
        ExperimentError: it is not compressed with xz, or a line is not a tree; the message says which.
    """
    with lzma.open(path, "rt", encoding="utf-8") as file:
        try:
            return [read_tree(line) for line in file]
        except (ValueError, EOFError, lzma.LZMAError) as error:
            raise ExperimentError(f"{path}: {error}") from error


def write_pairs(trees: dict[str, list[Tree]], folder: Path):
    """The trees as training reads them: sentence and symbols, a file for each part and form."""
    folder.mkdir(exist_ok=True)
    for name, form in FORMS.items():
        for part, of_part in trees.items():
            lines = (f"{sentence(tree)}\t{' '.join(form.linearise(tree))}\n" for tree in of_part)
            (folder / f"{name}-{part}.tsv").write_text("".join(lines), encoding="utf-8")


def sentence(tree: Tree) -> str:
    return " ".join(leaf.word for leaf in tree.leaves())


# Parsing with a trained model ----------------------------------------------------------------------------------------


class Grammar:
    """Which tokens may follow a prefix, for sentences of known numbers of words: `prefix_allowed_tokens_fn`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, words: Sequence[int], form: Form):
        symbols = [*form.words, *(kind + label for label in LABELS for kind in "oc")]
        plain = {"add_special_tokens": False, "verbose": False}
        self.tokens = {symbol: tuple(tokenizer(text_target=symbol, **plain)["input_ids"]) for symbol in symbols}
        self.symbols = {ids: symbol for symbol, ids in self.tokens.items()}
        self.first = {ids[0] for ids in self.symbols}
        self.end = tokenizer.eos_token_id
        self.starts = [State(count, form.is_in_order, LABELS, form.words) for count in words]
        self.known: dict[tuple[int, tuple[int, ...]], tuple[State | None, tuple[int, ...]]] = {}

    def __call__(self, sentence: int, ids: torch.Tensor) -> list[int]:
        prefix = tuple(ids.tolist()[1:])  # without the start token
        state, begun = self.read(sentence, prefix)
        if state is None:
            return [self.end]
        allowed = set()
        symbols = state.allowed()
        if begun:  # a symbol of several tokens, or the beginning of a longer one
            for symbol in symbols:
                of_symbol = self.tokens.get(symbol, ())
                if of_symbol[: len(begun)] == begun and len(of_symbol) > len(begun):
                    allowed.add(of_symbol[len(begun)])
            if begun not in self.symbols or self.symbols[begun] not in symbols:
                return sorted(allowed) or [self.end]
            symbols = state.after(self.symbols[begun]).allowed()
        allowed |= {self.end if symbol == END else self.tokens[symbol][0] for symbol in symbols}
        return sorted(allowed)

    def read(self, sentence: int, ids: tuple[int, ...]) -> tuple[State | None, tuple[int, ...]]:
        """The state after all symbols but the last, which may go on, and the tokens of this one.

        The state is None where the tree has ended, and in a beam of probability 0: with few tokens allowed a search has
        such beams.
        """
        if not ids:
            return self.starts[sentence], ()
        if (sentence, ids) not in self.known:
            state, begun = self.read(sentence, ids[:-1])
            if begun and self.goes_on(begun, ids[-1]):
                begun = (*begun, ids[-1])
            else:
                state, begun = self.step(state, begun), ids[-1:]
            if begun[0] not in self.first:
                state = None
            self.known[sentence, ids] = state, begun
        return self.known[sentence, ids]

    def step(self, state: State | None, begun: tuple[int, ...]) -> State | None:
        """The state after the symbol of these tokens, if it is one that may come."""
        if not begun:
            return state
        symbol = self.symbols.get(begun, "")
        return state.after(symbol) if state is not None and symbol in state.allowed() else None

    def goes_on(self, begun: tuple[int, ...], token: int) -> bool:
        longer = (*begun, token)
        return any(ids[: len(longer)] == longer for ids in self.symbols)

    def symbols_of(self, sentence: int, ids: Sequence[int]) -> list[str]:
        """The symbols of an output; one that was cut off is brought to its end."""
        found: list[str] = []
        begun: tuple[int, ...] = ()
        state = self.starts[sentence]
        for token in (*ids, self.end):
            if begun and not self.goes_on(begun, token):
                if self.symbols.get(begun) in state.allowed():  # else it was cut off inside a symbol
                    found.append(self.symbols[begun])
                    state = state.after(found[-1])
                begun = ()
            if token == self.end:
                break
            begun = (*begun, token)
        return [*found, *rest(state)]


@torch.no_grad()
def parse(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[Leaf]],
    form: Form,
    beams: int = 4,
    batch: int = 32,
) -> list[Tree]:
    """The tree of each sentence, given as its words."""
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    found: dict[int, Tree] = {}
    for start in range(0, len(order), batch):
        some = order[start : start + batch]
        inputs = tokenizer(
            [" ".join(leaf.word for leaf in sentences[i]) for i in some], padding=True, return_tensors="pt"
        )
        lengths = [len(sentences[i]) for i in some]
        grammar = Grammar(tokenizer, lengths, form)
        outputs = model.generate(
            **inputs,
            num_beams=beams,
            max_new_tokens=8 * max(lengths) + 20,
            min_new_tokens=None,
            prefix_allowed_tokens_fn=grammar,
        )
        for row, (i, ids) in enumerate(zip(some, outputs.tolist(), strict=True)):
            found[i] = build(grammar.symbols_of(row, ids[1:]), sentences[i], form.is_in_order)
    return [found[i] for i in range(len(sentences))]


# The experiment ------------------------------------------------------------------------------------------------------


def run(lab: Lab) -> dict[str, Any]:
    trees = {part: read_trees(lab.path(f"craft_treebank/{part}.mrg.xz")) for part in PARTS}
    folder = lab.folder("parsing") / "data"
    write_pairs(trees, folder)
    settings = {
        name: [f"data.train.0.path={name}-train.tsv", f"data.validation.0.path={name}-dev.tsv"] for name in FORMS
    }
    runs = replace(lab, data=folder).train("parsing", "parsing", settings)
    found = {one.row: measure(one, trees["test"]) for one in runs}
    return {"sentences": len(trees["test"]), "forms": found}


def measure(one: Run, gold: list[Tree]) -> dict[str, Any]:
    """What a trained parser gets right; its trees are written into the folder of its run."""
    model, tokenizer = load(one.model)
    parsed = parse(model, tokenizer, [list(tree.leaves()) for tree in gold], FORMS[one.row])
    (one.folder / "test.mrg").write_text("".join(f"{tree}\n" for tree in parsed), encoding="utf-8")
    losses = {str(line["step"]): line["validation_loss"] for line in one.log() if "validation_loss" in line}
    return summarise(parsed, gold) | {
        "parameters": one.facts["parameters"],
        "hours": round(one.facts["hours"], 2),
        "steps": one.facts["steps"],
        "validation": {step: round(loss, 4) for step, loss in losses.items()},
        "freely": free_share(model, tokenizer, gold[:500], FORMS[one.row]),
    }


def summarise(parsed: Sequence[Tree], gold: Sequence[Tree]) -> dict[str, Any]:
    """F1 and its parts in percent, f1 with its interval."""
    scores = [compare(tree, right) for tree, right in zip(parsed, gold, strict=True)]
    lengths = [len(list(tree.leaves())) for tree in gold]
    of_lengths = {
        f"{low} to {high}" if high < 1000 else f"over {low - 1}": [
            score for score, length in zip(scores, lengths, strict=True) if low <= length <= high
        ]
        for low, high in LENGTHS
    }
    everything = total(scores)
    return {
        "f1": bootstrap(lambda indices: total(scores[i] for i in indices).f1, len(scores)).rounded(2),
        "precision": round(100 * everything.right / everything.found, 2),
        "recall": round(100 * everything.right / everything.gold, 2),
        "exact": round(100 * sum(s.right == s.found == s.gold for s in scores) / len(scores), 2),
        "by_length": {name: round(total(some).f1, 2) for name, some in of_lengths.items() if some},
    }


@torch.no_grad()
def free_share(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, trees: Sequence[Tree], form: Form) -> float:
    """How many greedy outputs are one whole tree over the words although nothing sees to it."""
    whole = 0
    for tree in trees:
        inputs = tokenizer([sentence(tree)], return_tensors="pt")
        leaves = list(tree.leaves())
        ids = model.generate(**inputs, num_beams=1, max_new_tokens=8 * len(leaves) + 20)
        try:
            build(tokenizer.decode(ids[0], skip_special_tokens=True).split(), leaves, form.is_in_order)
            whole += 1
        except ValueError:
            pass
    return round(whole / len(trees), 3)


def finding(found: dict[str, Any]) -> str:
    forms = found["forms"]
    most = max(of_run["steps"] for of_run in forms.values())
    parts = [
        f"{name} {of_run['f1'][0]:.1f}"
        + (f" after {of_run['steps']:,} of {most:,} steps" if of_run["steps"] < most else "")
        for name, of_run in forms.items()
    ]
    ends = [list(of_run["validation"].values())[-2:] for of_run in forms.values()]
    falls = " The loss was still falling when training ended." if any(a - b > FALLS for a, b in ends) else ""
    untagged = {order: Form(order, is_tagged=False).name for order in LINEARISATIONS}
    pairs = {
        order: (forms[order], forms[untagged[order]])
        for order in LINEARISATIONS
        if {order, untagged[order]} <= forms.keys()
    }
    gains = ", ".join(f"{one['f1'][0] - other['f1'][0]:+.1f} ({order})" for order, (one, other) in pairs.items())
    if any(one["steps"] != other["steps"] for one, other in pairs.values()):
        tags = " Whether parts of speech help cannot be said of different numbers of steps."
    else:
        tags = f" Parts of speech in place of one symbol for all words: {gains}." if gains else ""
    return (
        f"F1 on {found['sentences']:,} sentences of other biomedical articles: {', '.join(parts)}, with one seed "
        f"each: which order is better cannot be resolved.{tags}{falls}"
    )


def report(found: dict[str, Any]) -> str:
    lines = []
    for name, of_run in found["forms"].items():
        value, low, high = of_run["f1"]
        line = {"form": name, "F1": f"{value:.1f} ({low:.1f} to {high:.1f})"}
        line |= {key: f"{of_run[key]:.1f}" for key in ("precision", "recall")} | {"exact": f"{of_run['exact']:.1f}%"}
        line |= {"steps": f"{of_run['steps']:,}"}
        lines.append({**line, "whole trees without constraint": f"{of_run['freely']:.1%}", "hours": of_run["hours"]})
    columns = [Column(name, right=name != "form") for name in lines[0]]
    drawn = figures.figure(6, 2.8)
    axes = drawn.subplots()
    for name, of_run in found["forms"].items():
        axes.plot(list(of_run["by_length"]), list(of_run["by_length"].values()), marker=".", label=name)
    axes.set(title="F1 by the length of the sentence", xlabel="words", ylabel="F1")
    axes.legend()
    losses = "; ".join(
        f"{name} {', '.join(f'{loss:.2f}' for loss in of_run['validation'].values())}"
        for name, of_run in found["forms"].items()
    )
    text = (
        "Intervals are over sentences, not over seeds. Whole trees without constraint: of 500 greedy outputs. Loss of "
        f"a held-out token on the way, nats: {losses}."
    )
    return "\n\n".join([figures.save(drawn, "parsing", "F1 against sentence length"), markdown(columns, lines), text])


# The command ---------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog="python -m experiments.parsing",
        description="Prints the trees of sentences, or scores a parser on trees made by people.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    of_parse = commands.add_parser("parse", help="prints the tree of each sentence")
    of_parse.add_argument("sentences", nargs="+", metavar="SENTENCE", help="words and marks may be joined as usual")
    of_score = commands.add_parser("score", help="prints F1 by evalb's rules, in percent, with an interval of 95%%")
    of_score.add_argument("trees", type=Path, metavar="FILE.mrg.xz", help="a tree in brackets on each line")
    for one in (of_parse, of_score):
        one.add_argument("--model", type=Path, required=True, help="RUNS/parsing/in-order-seed1/model")
    options = parser.parse_args(arguments)
    try:
        model, tokenizer = load(options.model)
        form = find_form(options.model)
        if options.command == "score":
            gold = read_trees(options.trees)
            if not gold:
                raise ValueError(f"{options.trees} holds no trees.")
            parsed = parse(model, tokenizer, [list(tree.leaves()) for tree in gold], form)
            print(json.dumps(summarise(parsed, gold), indent=1))
            return
        texts = [[Leaf("XX", word) for word in tokens(text)] for text in options.sentences]
        if not all(texts):
            raise ValueError("A sentence has no words.")
    except (OSError, ValueError, ExperimentError) as error:
        sys.exit(f"{parser.prog}: {error}")
    for tree in parse(model, tokenizer, texts, form):
        print(tree.pretty())


def tokens(text: str) -> list[str]:
    """Much as the treebank has them: marks by themselves, numbers and "n't" whole, round brackets by their names."""
    found = re.findall(r"\d+(?:[.,]\d+)+|\w+?(?=n't\b)|n't\b|'s\b|\w+|[^\w\s]", text)
    return [{"(": "-LRB-", ")": "-RRB-"}.get(word, word) for word in found]


def find_form(model: Path) -> Form:
    """That of the trees which a parser was trained on, by the recipe in its folder.

    Raises:
        ValueError: it is no parser.
    """
    recipe = json.loads((model / "training.json").read_text(encoding="utf-8"))["recipe"]
    if recipe["name"] != "parsing":
        raise ValueError(f"{model} is not a parser: its recipe is {recipe['name']!r}.")
    return FORMS[recipe["data"]["train"][0]["path"].removesuffix("-train.tsv")]


if __name__ == "__main__":
    main()
