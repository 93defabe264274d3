"""Positions, and sentences longer than those seen in training.

    python -m experiments length --data DATA --work RUNS --jobs 2

Question: section 3.5 chose sinusoids over learned positions, which were equally good, "because it may allow the model
to extrapolate to sequence lengths longer than the ones encountered during training". Does it? And what do positions
contribute at all? Without any, the decoder still sees an order through its mask, but the encoder sees none.

Design:

- Each run is recipes/documentation.yaml, where no side is longer than 40 tokens.
- Three encodings: sinusoids, learned positions (rows beyond the 40th keep their initial values), and none; two seeds
  each.
- The test is held-out documentation and news, grouped by the length of the longer side.
- We measure the loss per token, with intervals over seeds and sentences, and greedy translations of the first 150 pairs
  of each group: sacreBLEU, and their length relative to the reference.

Compare encodings within a group, not one group with another: nearly all sentences of over 60 tokens are news, which the
models were not trained on, and most short ones are documentation.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sacrebleu

from vaswani_transformer import translate_texts
from vaswani_transformer.loading import load, load_tokenizer

from . import figures
from .intervals import Design, Interval, differences
from .lab import Lab, Run
from .tables import Column, markdown


TITLE = "Length: positions beyond those seen"
SEEDS = (1, 2)
ENCODINGS = {
    "sinusoidal": [],
    "learned": ["model.position_encoding=learned", "model.max_position_embeddings=512"],
    "none": ["model.position_encoding=none"],
}
TESTS = ("en-de/docs_dev.tsv.xz", "en-de/adobe_dev.tsv.xz", "en-de/newstest2013.tsv.xz")
BOUNDS = (20, 40, 60, 80, 100)  # tokens of the longer side
SEEN = 40
TRANSLATED = 150  # at most, of each group


def groups(lengths: np.ndarray) -> dict[str, np.ndarray]:
    """The sentences of each length: {"21 to 40": indices}"""
    names = [f"{low + 1} to {high}" for low, high in zip((0, *BOUNDS), BOUNDS, strict=False)] + [f"over {BOUNDS[-1]}"]
    group = np.searchsorted(BOUNDS, lengths)
    return {name: np.flatnonzero(group == i) for i, name in enumerate(names)}


def run(lab: Lab) -> dict[str, Any]:
    runs = lab.train("length", "documentation", ENCODINGS, seeds=SEEDS)
    pairs = [pair for name in TESTS for pair in lab.pairs(name)]
    losses_by_test = [lab.losses([run.model for run in runs], name) for name in TESTS]
    losses = {run.name: np.concatenate(run_losses) for run, *run_losses in zip(runs, *losses_by_test, strict=True)}
    tokenizer = load_tokenizer(runs[0].model)
    sides = zip(*(tokenizer([pair[i] for pair in pairs])["input_ids"] for i in (0, 1)), strict=True)
    indices_by_group = groups(np.array([max(map(len, ids)) for ids in sides]))
    results = []
    for run in runs:
        translated = scores(run, pairs, indices_by_group)
        for group, indices in indices_by_group.items():
            nats, tokens = losses[run.name][indices].sum(axis=0)
            result = {"encoding": run.row, "seed": run.seed, "length": group, "loss": round(nats / tokens, 4)}
            results.append({**result, **translated[group]})
    by_encoding = np.array([[losses[run.name] for run in runs if run.row == encoding] for encoding in ENCODINGS])
    differences = {group: beside_sinusoids(by_encoding[:, :, indices]) for group, indices in indices_by_group.items()}
    return {"groups": differences, "translated": TRANSLATED, "results": results}


def beside_sinusoids(losses: np.ndarray) -> dict[str, Any]:
    """Pair and token counts of a group, and each encoding's difference from sinusoids with its interval.

    losses [encodings, seeds, N, 2]: nats and tokens of each pair.
    """
    tokens = losses[0, 0, :, 1]
    intervals = differences(Design(list(ENCODINGS), losses[..., 0], tokens), "sinusoidal")
    counts = {"pairs": len(tokens), "tokens": int(tokens.sum())}
    return counts | {name: interval.rounded() for name, interval in intervals.items()}


def scores(
    run: Run, pairs: list[tuple[str, str]], indices_by_group: dict[str, np.ndarray]
) -> dict[str, dict[str, float]]:
    """BLEU and relative length of greedy translations of the first sentences of each group."""
    model, tokenizer = load(run.model)
    results = {}
    for group, indices in indices_by_group.items():
        sources, references = zip(*(pairs[i] for i in indices[:TRANSLATED]), strict=True)
        translations = translate_texts(model, tokenizer, list(sources), num_beams=1)
        words = [sum(len(text.split()) for text in texts) for texts in (translations, references)]
        bleu = sacrebleu.corpus_bleu(translations, [list(references)]).score
        results[group] = {"sacrebleu_greedy": round(bleu, 2), "words_of_reference": round(words[0] / words[1], 3)}
    return results


# The report ----------------------------------------------------------------------------------------------------------


def means(results: dict[str, Any], encoding: str, key: str) -> np.ndarray:
    """[lengths], over the seeds"""
    values = [
        [result[key] for result in results["results"] if result["encoding"] == encoding and result["length"] == name]
        for name in results["groups"]
    ]
    return np.array(values).mean(axis=1)


def finding(results: dict[str, Any]) -> str:
    longest = list(results["groups"])[-1]
    _, low, high = results["groups"][longest]["learned"]  # the loss minus that with sinusoids
    verdict = "holds" if low > 0 else "fails" if high < 0 else "cannot be resolved"
    words = [means(results, encoding, "words_of_reference")[-1] for encoding in ENCODINGS]
    return (
        f"The paper's hypothesis that sinusoids extrapolate better than learned positions {verdict}. For pairs of "
        f"{longest} tokens, translations by models trained to {SEEN} tokens have between {min(words):.0%} and "
        f"{max(words):.0%} of the reference's words."
    )


def facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the rows of the explorer's table: what was measured, and the result."""
    longest = list(results["groups"])[-1]
    difference = Interval(*results["groups"][longest]["learned"])
    verdict = "yes" if difference.low > 0 else "no" if difference.high < 0 else "cannot be resolved"
    words = [means(results, encoding, "words_of_reference")[-1] for encoding in ENCODINGS]
    return [
        ("Sinusoids extrapolate better than learned positions", verdict),
        (
            f"Loss of learned positions minus that of sinusoids, pairs of {longest} tokens",
            f"{difference} nats".replace("-", "−"),
        ),
        (
            f"Words in translations of pairs of {longest} tokens, after training to {SEEN} tokens",
            f"{min(words):.0%} to {max(words):.0%} of the reference's",
        ),
    ]


def report(results: dict[str, Any]) -> str:
    names, mean = list(results["groups"]), partial(means, results)
    first = Column("longer side, tokens")
    columns = [first, Column("pairs", right=True), Column("translated", right=True)]
    columns += [
        Column(f"{encoding}: {score}", right=True) for score in ("loss", "BLEU", "words") for encoding in ENCODINGS
    ]
    lines = []
    for i, name in enumerate(names):
        pairs = results["groups"][name]["pairs"]
        line = {first.name: name, "pairs": f"{pairs:,}", "translated": min(pairs, results["translated"])}
        for encoding in ENCODINGS:
            line[f"{encoding}: loss"] = f"{mean(encoding, 'loss')[i]:.2f}"
            line[f"{encoding}: BLEU"] = f"{mean(encoding, 'sacrebleu_greedy')[i]:.1f}"
            line[f"{encoding}: words"] = f"{mean(encoding, 'words_of_reference')[i]:.0%}"
        lines.append(line)
    compared = list(ENCODINGS)[1:]
    intervals = [
        {first.name: name, **{encoding: str(Interval(*group[encoding])) for encoding in compared}}
        for name, group in results["groups"].items()
    ]
    parts = [
        draw(names, mean),
        "Means over seeds: the loss in nats per token, BLEU, and the words of the translations as a share of the "
        "reference's.",
        markdown(columns, lines),
        "Loss per token minus that with sinusoids, with intervals of 95%:",
        markdown([first, *(Column(encoding, right=True) for encoding in compared)], intervals),
    ]
    return "\n\n".join(parts)


def draw(names: list[str], mean: Callable[[str, str], np.ndarray]) -> str:
    figure = figures.figure(9, 3.2)
    titles = {"loss": "Loss per token, nats", "words_of_reference": "Words, translation / reference"}
    for axes, (key, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for encoding in ENCODINGS:
            axes.plot(names, mean(encoding, key), marker=".", label=encoding)
        axes.axvline(BOUNDS.index(SEEN) + 0.5, color="#999999", linewidth=0.8)
        axes.set(title=title, xlabel="tokens of the longer side (left of the line: seen in training)")
    axes.legend()
    return figures.save(figure, "length", "Loss and length of translations against sentence length")
