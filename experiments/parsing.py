"""Parsing (section 6.3): sentences to trees.

    python -m experiments parsing --data DATA --work RUNS --jobs 2
    python -m experiments.parsing parse "The cells were cultured in serum ." --model RUNS/parsing/in-order-seed1/model
    python -m experiments.parsing score DATA/craft_treebank/test.mrg.xz --model RUNS/parsing/in-order-seed1/model

Question: "to evaluate if the Transformer can generalize to other tasks we performed experiments on English constituency
parsing" (section 6.3).

- Does the unchanged model learn to parse from 25,000 trees?
- Is it better to name a constituent before its words, as the paper did, or after the first of them ("in-order")?
- Is it better to predict the part of speech of each word, or to have one symbol for all words ("untagged"), as in
  Vinyals et al. 2015?

Design:

- Model: the paper's four layers, narrower, and trained with Muon, not with Adam as in the paper.
- Data: CRAFT, biomedical articles. Other articles are held out for the test.
- Target: the tree without its words, which are taken from the sentence.
- Search: beam 4, restricted to symbols that can still become a complete tree, so every output is one.
- Score: F1 of labelled constituents by evalb's rules (COLLINS.prm), all lengths, with an interval over sentences.

For comparison, the paper reports 91.3 on the Wall Street Journal after training on 40,000 sentences. Verspoor et al.
2012 (doi 10.1186/1471-2105-13-207) trained dedicated parsers on CRAFT, with a different split. The command of
`experiments/dedicated_parser.py` trains one on the split used here.

What would an F1 of 75 need? The form brackets had 52.1 after 5,000 steps (with a cooldown of 500) and 67.9 after
10,000. If the gain of a doubling stays the same, 75 takes about 14,000 steps, six hours of one thread. Up to 30 words
it has more than 75 already, and up to 20 words more than the dedicated parser. That one searches a chart, and keeps its
F1 in long sentences.

The forms were not trained alike:

- brackets: 10,000 steps in bfloat16 on an AMD EPYC (transformers 5.24.0), by the command below;
- in-order: 800 steps in float32 on an AMD EPYC, without attention dropout;
- the untagged forms: 3,000 steps in float32 on an Intel Xeon, without attention dropout.

Train one form, then measure it with `score`:

    python -m training.train experiments/recipes/parsing.yaml --data RUNS/parsing/data --output RUNS/brackets \\
      --set data.train.0.path=brackets-train.tsv --set data.validation.0.path=brackets-dev.tsv --set seed=1
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vaswani_transformer.loading import load

from . import figures
from .intervals import bootstrap
from .lab import ExperimentError, Lab, Run, read_results
from .linearisation import FORMS, LINEARISATIONS, Form
from .parser import complete_share, form_of, parse, split_words
from .tables import Column, bullets, markdown
from .trees import Leaf, Tree, compare, read_trees, sentence, total


TITLE = "Parsing (section 6.3)"
PARTS = ("train", "dev", "test")
FALLING = 0.01  # nats between the last two validations: the loss was still falling
LENGTHS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60), (61, 1000))  # words


def run(lab: Lab) -> dict[str, Any]:
    trees = {part: read_trees(lab.path(f"craft_treebank/{part}.mrg.xz")) for part in PARTS}
    folder = lab.folder("parsing") / "data"
    write_pairs(trees, folder)
    settings = {
        name: [f"data.train.0.path={name}-train.tsv", f"data.validation.0.path={name}-dev.tsv"] for name in FORMS
    }
    runs = replace(lab, data=folder).train("parsing", "parsing", settings)
    forms = {run.row: measure(run, trees["test"]) for run in runs}
    # Trained in another environment; see `dedicated_parser`.
    dedicated = (read_results("parsing") or {}).get("dedicated", {})
    return {"sentences": len(trees["test"]), "forms": forms, "dedicated": dedicated}


def write_pairs(trees: dict[str, list[Tree]], folder: Path):
    """Writes training files of sentences and symbols, one for each part and form."""
    folder.mkdir(exist_ok=True)
    for name, form in FORMS.items():
        for part, part_trees in trees.items():
            lines = (f"{sentence(tree)}\t{' '.join(form.linearise(tree))}\n" for tree in part_trees)
            (folder / f"{name}-{part}.tsv").write_text("".join(lines), encoding="utf-8")


def measure(run: Run, gold: list[Tree]) -> dict[str, Any]:
    """The scores of a trained parser; writes its trees into the run's folder."""
    model, tokenizer = load(run.model)
    parsed = parse(model, tokenizer, [list(tree.leaves()) for tree in gold], FORMS[run.row])
    (run.folder / "test.mrg").write_text("".join(f"{tree}\n" for tree in parsed), encoding="utf-8")
    losses = {str(line["step"]): line["validation_loss"] for line in run.log() if "validation_loss" in line}
    return summarise(parsed, gold) | {
        "parameters": run.facts["parameters"],
        "hours": round(run.facts["hours"], 2),
        "steps": run.facts["steps"],
        "validation": {step: round(loss, 4) for step, loss in losses.items()},
        "freely": complete_share(model, tokenizer, gold[:500], FORMS[run.row]),
    }


def summarise(parsed: Sequence[Tree], gold: Sequence[Tree]) -> dict[str, Any]:
    """F1 with its interval, precision, recall, exact matches, and F1 by length, all in percent."""
    scores = [compare(tree, gold_tree) for tree, gold_tree in zip(parsed, gold, strict=True)]
    lengths = [len(list(tree.leaves())) for tree in gold]
    scores_by_length = {
        f"{low} to {high}" if high < 1000 else f"over {low - 1}": [
            score for score, length in zip(scores, lengths, strict=True) if low <= length <= high
        ]
        for low, high in LENGTHS
    }
    whole = total(scores)
    return {
        "f1": bootstrap(lambda indices: total(scores[i] for i in indices).f1, len(scores)).rounded(2),
        "precision": round(100 * whole.correct / whole.predicted, 2),
        "recall": round(100 * whole.correct / whole.gold, 2),
        "exact": round(100 * sum(s.correct == s.predicted == s.gold for s in scores) / len(scores), 2),
        "by_length": {name: round(total(group).f1, 2) for name, group in scores_by_length.items() if group},
    }


def read_both(parsed_path: Path, gold_path: Path) -> tuple[list[Tree], list[Tree]]:
    """The trees of two files.

    Raises:
        ValueError: The trees are not of the same sentences.
    """
    parsed, gold = read_trees(parsed_path), read_trees(gold_path)
    if list(map(sentence, parsed)) != list(map(sentence, gold)):
        raise ValueError(f"{parsed_path} and {gold_path} are not trees of the same sentences.")
    return parsed, gold


# The report ----------------------------------------------------------------------------------------------------------


def finding(results: dict[str, Any]) -> str:
    forms = results["forms"]
    max_steps = max(scores["steps"] for scores in forms.values())
    best, scores = max(forms.items(), key=lambda item: item[1]["f1"][0])
    sentences = [
        f"The best form, {best}, has an F1 of {scores['f1'][0]:.1f} on {results['sentences']:,} sentences of other "
        "biomedical articles.",
        "One seed each does not tell which order is better.",
        *compare_tags(forms),
    ]
    shorter = [f"{name} ({scores['steps']:,})" for name, scores in forms.items() if scores["steps"] < max_steps]
    if shorter:
        sentences.append(f"Some forms were trained for fewer than {max_steps:,} steps: {', '.join(shorter)}.")
    for name, dedicated in results.get("dedicated", {}).items():
        sentences.append(f"{name}, {dedicated['trained']}, has {dedicated['f1'][0]:.1f}.")
    ends = [list(scores["validation"].values())[-2:] for scores in forms.values()]
    if any(before - last > FALLING for before, last in ends):
        sentences.append("The loss was still falling when training ended.")
    return " ".join(sentences)


def compare_tags(forms: dict[str, Any]) -> list[str]:
    """A sentence that compares the forms with and without parts of speech, if both were trained."""
    pairs = {
        order: (forms[Form(order, True).name], forms[Form(order, False).name])
        for order in LINEARISATIONS
        if {Form(order, True).name, Form(order, False).name} <= forms.keys()
    }
    if not pairs:
        return []
    if any(tagged["steps"] != untagged["steps"] for tagged, untagged in pairs.values()):
        return ["The forms with and without parts of speech cannot be compared: they had different numbers of steps."]
    gains = [f"{tagged['f1'][0] - untagged['f1'][0]:+.1f} ({order})" for order, (tagged, untagged) in pairs.items()]
    return [f"Gain from parts of speech, compared with one symbol for all words: {', '.join(gains)}."]


def report(results: dict[str, Any]) -> str:
    lines, losses = [], []
    for name, scores in results["forms"].items():
        value, low, high = scores["f1"]
        line = {"form": name, "F1": f"{value:.1f} ({low:.1f} to {high:.1f})"}
        line |= {key: f"{scores[key]:.1f}" for key in ("precision", "recall")} | {"exact": f"{scores['exact']:.1f}%"}
        line |= {"steps": f"{scores['steps']:,}"}
        lines.append({**line, "complete if unconstrained": f"{scores['freely']:.1%}", "hours": scores["hours"]})
        losses.append({"form": name} | {f"{int(step):,}": f"{loss:.2f}" for step, loss in scores["validation"].items()})
    columns = [Column(name, right=name != "form") for name in lines[0]]
    steps = sorted({int(step) for scores in results["forms"].values() for step in scores["validation"]})
    notes = [
        "Intervals are over sentences, not over seeds.",
        "Complete if unconstrained: the share of 500 greedy outputs that are complete trees without the restriction.",
    ]
    parsers = results["forms"] | results.get("dedicated", {})
    lengths = list(dict.fromkeys(length for scores in parsers.values() for length in scores["by_length"]))
    by_length = [
        {"parser": name} | {length: f"{f1:.1f}" for length, f1 in scores["by_length"].items()}
        for name, scores in parsers.items()
    ]
    loss_columns = [Column("form"), *(Column(f"{step:,}", right=True) for step in steps)]
    return "\n\n".join(
        [
            draw(parsers),
            markdown(columns, lines),
            bullets(notes),
            "F1 by the number of words:",
            markdown([Column("parser"), *(Column(length, right=True) for length in lengths)], by_length),
            "Validation loss by step, in nats per token:",
            markdown(loss_columns, losses),
        ]
    )


def draw(parsers: dict[str, Any]) -> str:
    figure = figures.figure(6, 2.8)
    axes = figure.subplots()
    for name, scores in parsers.items():
        axes.plot(list(scores["by_length"]), list(scores["by_length"].values()), marker=".", label=name)
    axes.set(title="F1 by sentence length", xlabel="words", ylabel="F1")
    axes.legend()
    return figures.save(figure, "parsing", "F1 against sentence length")


# The command ---------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog="python -m experiments.parsing",
        description="Prints the trees of sentences, scores a parser on a treebank, or cleans the treebank.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    parse_command = commands.add_parser("parse", help="print the tree of each sentence")
    parse_command.add_argument("sentences", nargs="+", metavar="SENTENCE", help="plain text")
    score_command = commands.add_parser("score", help="print F1 by evalb's rules, in percent, with an interval of 95%%")
    score_command.add_argument("trees", type=Path, metavar="FILE.mrg.xz", help="gold trees in brackets, one a line")
    parsed_by = score_command.add_mutually_exclusive_group(required=True)
    for group, is_required in ((parse_command, True), (parsed_by, False)):
        group.add_argument(
            "--model",
            type=Path,
            required=is_required,
            help="a trained parser, such as RUNS/parsing/in-order-seed1/model",
        )
    parsed_by.add_argument("--parsed", type=Path, metavar="FILE", help="another parser's trees of the same sentences")
    clean_command = commands.add_parser("clean", help="write trees without traces, functions and indices")
    clean_command.add_argument("folder", type=Path, help="folder with train.mrg.xz, dev.mrg.xz and test.mrg.xz")
    clean_command.add_argument("output", type=Path, help="folder for train.mrg, dev.mrg and test.mrg")
    options = parser.parse_args(arguments)
    try:
        if options.command == "clean":
            options.output.mkdir(parents=True, exist_ok=True)
            for part in PARTS:
                trees = read_trees(options.folder / f"{part}.mrg.xz")
                lines = (f"{tree}\n" if tree.label == "TOP" else f"(TOP {tree})\n" for tree in trees)
                (options.output / f"{part}.mrg").write_text("".join(lines), encoding="utf-8")
            return
        if options.command == "score" and options.parsed:
            print(json.dumps(summarise(*read_both(options.parsed, options.trees)), indent=1))
            return
        model, tokenizer = load(options.model)
        form = form_of(options.model)
        if options.command == "score":
            gold = read_trees(options.trees)
            if not gold:
                raise ValueError(f"{options.trees} holds no trees.")
            parsed = parse(model, tokenizer, [list(tree.leaves()) for tree in gold], form)
            print(json.dumps(summarise(parsed, gold), indent=1))
            return
        sentences = [[Leaf("XX", word) for word in split_words(text)] for text in options.sentences]
        if not all(sentences):
            raise ValueError("A sentence has no words.")
    except (OSError, ValueError, ExperimentError) as error:
        sys.exit(f"{parser.prog}: {error}")
    for tree in parse(model, tokenizer, sentences, form):
        print(tree.pretty())


if __name__ == "__main__":
    main()
