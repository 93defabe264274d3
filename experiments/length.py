"""Positions, and sentences longer than any seen in training.

    python -m experiments length --data DATA --work RUNS --jobs 2

Question: section 3.5 chose sinusoids over learned positions, which were no worse, "because it may allow the model to
extrapolate to sequence lengths longer than the ones encountered during training". Does it? And what do positions do at
all: without any, the decoder still sees an order through its mask, the encoder none.

Design: recipes/documentation.yaml, no side longer than 40 tokens, trained with sinusoids, with learned positions (rows
beyond the 40th stay as they were drawn), and with none; two seeds each. Tested on held-out documentation and news by
the length of the longer side: the loss of a token, with intervals over seeds and sentences, and greedy translations of
the first 150 pairs of each length (sacreBLEU, and how long they are beside the reference). Compare encodings within a
length, not one length with another: nearly all sentences of over 60 tokens are news, which no model was trained on, and
most of the short ones documentation.
"""

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
TRANSLATED = 150  # sentences of each length, at most


def groups(lengths: np.ndarray) -> dict[str, np.ndarray]:
    """Which sentences are of which length: {"21 to 40": indices}"""
    names = [f"{low + 1} to {high}" for low, high in zip((0, *BOUNDS), BOUNDS, strict=False)] + [f"over {BOUNDS[-1]}"]
    place = np.searchsorted(BOUNDS, lengths)
    return {name: np.flatnonzero(place == i) for i, name in enumerate(names)}


def run(lab: Lab) -> dict[str, Any]:
    runs = lab.train("length", "documentation", ENCODINGS, seeds=SEEDS)
    pairs = [pair for name in TESTS for pair in lab.pairs(name)]
    nats = {}
    for name in TESTS:
        for run, of_pairs_here in zip(runs, lab.losses([run.model for run in runs], name), strict=True):
            nats.setdefault(run.name, []).append(of_pairs_here)
    tokenizer = load_tokenizer(runs[0].model)
    sides = zip(*(tokenizer([pair[i] for pair in pairs])["input_ids"] for i in (0, 1)), strict=True)
    lengths = np.array([max(map(len, ids)) for ids in sides])
    chosen = groups(lengths)
    results = []
    for run in runs:
        losses, translated = np.concatenate(nats[run.name]), scores(run, pairs, chosen)
        for group, indices in chosen.items():
            of_group = losses[indices].sum(axis=0)
            own = {"encoding": run.row, "seed": run.seed, "length": group, "loss": round(of_group[0] / of_group[1], 4)}
            results.append({**own, **translated[group]})
    every = {name: np.concatenate(of_run) for name, of_run in nats.items()}
    losses = np.array([[every[run.name] for run in runs if run.row == encoding] for encoding in ENCODINGS])
    about = {group: beside_sinusoids(losses[:, :, indices]) for group, indices in chosen.items()}
    return {"groups": about, "translated": TRANSLATED, "results": results}


def beside_sinusoids(losses: np.ndarray) -> dict[str, Any]:
    """Of nats and tokens [encodings, seeds, N, 2] of pairs of a length: how many, and intervals of the differences."""
    tokens = losses[0, 0, :, 1]
    found = differences(Design(list(ENCODINGS), losses[..., 0], tokens), "sinusoidal")
    return {"pairs": len(tokens), "tokens": int(tokens.sum())} | {name: one.rounded() for name, one in found.items()}


def scores(run: Run, pairs: list[tuple[str, str]], chosen: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Of greedy translations of the first sentences of each length: BLEU, and words beside the reference's."""
    model, tokenizer = load(run.model)
    found = {}
    for group, indices in chosen.items():
        some = [pairs[i] for i in indices[:TRANSLATED]]
        translations = translate_texts(model, tokenizer, [source for source, _ in some], num_beams=1)
        references = [target for _, target in some]
        words = [sum(len(text.split()) for text in texts) for texts in (translations, references)]
        bleu = sacrebleu.corpus_bleu(translations, [references]).score
        found[group] = {"sacrebleu_greedy": round(bleu, 2), "words_of_reference": round(words[0] / words[1], 3)}
    return found


def means(found: dict[str, Any], encoding: str, key: str) -> np.ndarray:
    """[lengths], over the seeds"""
    values = [
        [one[key] for one in found["results"] if one["encoding"] == encoding and one["length"] == name]
        for name in found["groups"]
    ]
    return np.array(values).mean(axis=1)


def finding(found: dict[str, Any]) -> str:
    seen, names = BOUNDS.index(SEEN), list(found["groups"])
    parts = []
    for encoding in ENCODINGS:
        losses, words = means(found, encoding, "loss"), means(found, encoding, "words_of_reference")
        parts.append(
            f"{encoding} {losses[seen]:.2f} and {losses[-1]:.2f}, where translations have {words[-1]:.0%} of the "
            "reference's words"
        )
    longest = list(found["groups"].values())[-1]["learned"]  # beyond the loss with sinusoids, with its interval
    verdict = "holds" if longest[1] > 0 else "fails" if longest[2] < 0 else "cannot be resolved"
    hope = f"The paper's hope, that sinusoids reach further than learned positions, {verdict}. "
    return (
        f"{hope}Trained to {SEEN} tokens; nats a token of pairs of {names[seen]} and of {names[-1]} tokens "
        f"(of other texts, too): {'; '.join(parts)}."
    )


def report(found: dict[str, Any]) -> str:
    names = list(found["groups"])
    mean = partial(means, found)
    columns = [
        Column(name, right=name != "longer side, tokens") for name in ("longer side, tokens", "pairs", "translated")
    ]
    columns += [
        Column(f"{encoding}: {what}", right=True) for what in ("loss", "BLEU", "words") for encoding in ENCODINGS
    ]
    lines = []
    for i, name in enumerate(names):
        pairs = found["groups"][name]["pairs"]
        line = {"longer side, tokens": name, "pairs": f"{pairs:,}", "translated": min(pairs, found["translated"])}
        for encoding in ENCODINGS:
            line[f"{encoding}: loss"] = f"{mean(encoding, 'loss')[i]:.2f}"
            line[f"{encoding}: BLEU"] = f"{mean(encoding, 'sacrebleu_greedy')[i]:.1f}"
            line[f"{encoding}: words"] = f"{mean(encoding, 'words_of_reference')[i]:.0%}"
        lines.append(line)
    drawn = figures.figure(9, 3.2)
    titles = {"loss": "Loss of a token, nats", "words_of_reference": "Words of the translation / reference"}
    for axes, (key, title) in zip(drawn.subplots(1, 2), titles.items(), strict=True):
        for encoding in ENCODINGS:
            axes.plot(names, mean(encoding, key), marker=".", label=encoding)
        axes.axvline(BOUNDS.index(SEEN) + 0.5, color="#999999", linewidth=0.8)
        axes.set(title=title, xlabel="tokens of the longer side; left of the line: seen in training")
    axes.legend()
    figure = figures.save(drawn, "length", "Loss and length of translations against the length of sentences")
    others = list(ENCODINGS)[1:]
    differing = [
        {columns[0].name: name, **{one: str(Interval(*of_group[one])) for one in others}}
        for name, of_group in found["groups"].items()
    ]
    parts = [
        figure,
        "Means over the seeds. Words: those of the translations, in percent of the references'.",
        markdown(columns, lines),
        "Loss of a token minus that with sinusoids, with intervals of 95%:",
        markdown([columns[0], *(Column(one, right=True) for one in others)], differing),
    ]
    return "\n\n".join(parts)
