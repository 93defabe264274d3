"""Calibrate a checkpoint's confidence: how likely each word of a translation is to be right.

python -m training.release confidence CHECKPOINT tatoeba=PAIRS.tsv.xz docs=PAIRS.tsv.xz --output FACTS --write

A file has one pair per line, source and translation separated by a tab; `--columns 1 0` swaps them. The sources are
translated, and a word counts as right if the reference contains it. A logistic regression on the model's own
probabilities is fitted to every other pair and measured on the rest, set by set. FACTS gets confidence.json and
confidence.svg; `--write` stores the calibration in the checkpoint's generation_config.json.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vaswani_transformer.locating import checkpoint_path
from vaswani_transformer.system.command_line import whole_number
from vaswani_transformer.system.console import warn
from vaswani_transformer.system.cpu import cpu_name
from vaswani_transformer.system.files import atomic_file, check_writable

from .models import load
from .parallel_text import read_pairs
from .recipe import Source
from .variations import Pair


if TYPE_CHECKING:  # importing torch and transformers takes seconds, so it waits until the command line is parsed
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from vaswani_transformer.model.confidence_vaswani import Calibration, Features

BINS = 10  # of the reliability diagram
MAX_ITERATIONS = 200  # of the regression


def is_right(translation: str, reference: str) -> list[bool]:
    """Mark each word of a translation that the reference contains, at most as often as it occurs there."""
    from vaswani_transformer.model.spans_vaswani import words

    unused = Counter(reference[begin:end].lower() for begin, end in words(reference))
    marks = []
    for begin, end in words(translation):
        word = translation[begin:end].lower()
        marks.append(unused[word] > 0)
        unused[word] -= 1
    return marks


def calibrate(features: Sequence[Features], right: Sequence[Sequence[bool]]) -> Calibration:
    """Fit the logistic regression with the least cross-entropy."""
    import torch

    from vaswani_transformer.model.confidence_vaswani import Calibration

    inputs = torch.cat([regression_inputs(sentence) for sentence in features])
    labels = torch.tensor([float(mark) for marks in right for mark in marks])
    weights = torch.zeros(inputs.shape[1], requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=MAX_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(inputs @ weights, labels)
        loss.backward()
        return loss

    optimiser.step(closure)
    return Calibration(*(round(weight, 4) for weight in weights.detach().tolist()))


def regression_inputs(features: Features) -> torch.Tensor:
    """Return the inputs that `Calibration` weighs: [words, 3]."""
    import torch

    from vaswani_transformer.model.confidence_vaswani import log_odds

    n = len(features.spans)
    return torch.stack([log_odds(features.log_probs), torch.full((n,), features.mean_log_prob), torch.ones(n)], dim=1)


def reliability(confidence: Sequence[float], right: Sequence[bool]) -> tuple[float, list[dict[str, float]]]:
    """Return the expected calibration error, and the words, mean confidence and share right of each bin."""
    rows: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for value, mark in zip(confidence, right, strict=True):
        rows[min(BINS - 1, int(value * BINS))].append((value, mark))
    bins = [
        {
            "words": len(row),
            "confidence": round(sum(value for value, _ in row) / len(row), 4),
            "right": round(sum(mark for _, mark in row) / len(row), 4),
        }
        for row in rows
        if row
    ]
    error = sum(row["words"] * abs(row["confidence"] - row["right"]) for row in bins) / max(1, len(right))
    return round(error, 4), bins


def correlations(confidence: Sequence[float], quality: Sequence[float]) -> dict[str, float]:
    """Return Pearson's and Spearman's correlation; 0 if all values of either are equal, which leaves both undefined."""
    from scipy import stats

    undefined = min(len(set(confidence)), len(set(quality))) < 2
    tests = {"correlation with sentence chrF": stats.pearsonr, "correlation of ranks": stats.spearmanr}
    return {
        name: 0.0 if undefined else round(float(test(confidence, quality).statistic), 3) for name, test in tests.items()
    }


def plot(results: list[dict], path: Path):
    """Draw the reliability diagram as SVG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "confidence"
    figure, axis = pyplot.subplots(figsize=(4.6, 4.2))
    axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for result in results:
        points = [(row["confidence"], row["right"]) for row in result["bins"]]
        label = f"{result['set']}: error {result['expected calibration error']:.3f}"
        axis.plot(*zip(*points, strict=True), marker="o", label=label)
    axis.set(xlabel="confidence", ylabel="share of words found in the reference", xlim=(0, 1), ylim=(0, 1))
    axis.legend()
    figure.tight_layout()
    with atomic_file(path) as partial:
        figure.savefig(partial, format="svg", metadata={"Date": None})
    pyplot.close(figure)


class Row(NamedTuple):
    """A translated pair: what the model says of its words, and which of them the reference has."""

    translation: str
    features: Features
    right: list[bool]
    reference: str


def measure(folder: str, sets: dict[str, list[Pair]], beams: int | None) -> tuple[Calibration, list[dict]]:
    """Fit the calibration to every other pair, and measure it on the rest of each set."""
    model, tokenizer = load(folder, "cpu")
    rows_by_set = {name: translate_pairs(model, tokenizer, pairs, beams) for name, pairs in sets.items()}
    calibration = fit([row for rows in rows_by_set.values() for row in rows[1::2]])
    return calibration, [{"set": name} | measure_rows(calibration, rows[::2]) for name, rows in rows_by_set.items()]


def translate_pairs(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair], beams: int | None = None
) -> list[Row]:
    """Translate the sources, and compare the words of the translations with the references."""
    from vaswani_transformer import translate_texts
    from vaswani_transformer.model.confidence_vaswani import word_features

    settings = {} if beams is None else {"num_beams": beams}
    translations = translate_texts(model.eval(), tokenizer, [source for source, _ in pairs], **settings)
    features = word_features(model, tokenizer, [(s, t) for (s, _), t in zip(pairs, translations, strict=True)])
    return [
        Row(translation, sentence, is_right(translation, reference), reference)
        for translation, sentence, (_, reference) in zip(translations, features, pairs, strict=True)
    ]


def fit(rows: Sequence[Row]) -> Calibration:
    """Fit the calibration to the words of some pairs. Warn if it trusts words less that the model finds likelier."""
    calibration = calibrate([row.features for row in rows], [row.right for row in rows])
    if calibration.word + calibration.sentence < 0:
        warn(
            "Words that the model finds likelier were right less often. Do the columns of the pairs have the "
            "checkpoint's languages, the source first?"
        )
    return calibration


def measure_rows(calibration: Calibration, rows: Sequence[Row]) -> dict[str, Any]:
    """Return how well a calibration tells the words of some pairs that are right, and orders their translations."""
    from sacrebleu.metrics import CHRF

    from vaswani_transformer.model.confidence_vaswani import mean_confidence

    word_confidences, sentence_confidences = [], []
    for row in rows:
        confidence = calibration.probabilities(row.features).tolist()
        word_confidences += confidence
        sentence_confidences.append(mean_confidence(list(zip(row.features.spans, confidence, strict=True))))
    quality = [CHRF().sentence_score(row.translation, [row.reference]).score for row in rows]
    error, bins = reliability(word_confidences, [mark for row in rows for mark in row.right])
    return {
        "sentences": len(rows),
        "words": len(word_confidences),
        "expected calibration error": error,
        **correlations(sentence_confidences, quality),
        "bins": bins,
    }


def store(folder: Path, **entries: NamedTuple):
    """Write entries such as `confidence` into generation_config.json, and leave its other settings as they are."""
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    settings |= {name: entry._asdict() for name, entry in entries.items()}
    with atomic_file(file) as partial:
        partial.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def add_options(parser: argparse.ArgumentParser):
    parser.add_argument("model", metavar="CHECKPOINT", help="an included checkpoint, or a folder")
    parser.add_argument("sets", nargs="+", metavar="NAME=FILE", help="pairs that the model was not trained on")
    parser.add_argument(
        "--columns", type=int, nargs=2, default=[0, 1], help="columns of the source and the translation (default: 0 1)"
    )
    parser.add_argument("--limit", type=whole_number, default=1000, help="use this many pairs per set (default: 1,000)")
    parser.add_argument("--beams", type=whole_number, help="beam size (default: the checkpoint's)")
    parser.add_argument("--output", type=Path, required=True, help="folder for confidence.json and confidence.svg")
    parser.add_argument("--write", action="store_true", help="store the calibration in the checkpoint")


def run(options: argparse.Namespace):
    """Run the step as the command line asks.

    Raises:
        OSError, ValueError: A file cannot be read or written, or there are fewer than two pairs.
    """
    check_writable(options.output)
    folder = checkpoint_path(options.model)
    source_column, target_column = options.columns
    sets = {}
    for name, _, file in (entry.partition("=") for entry in options.sets):
        source = Source(path=file, source_column=source_column, target_column=target_column)
        sets[name] = read_pairs(source)[: options.limit]
    if sum(map(len, sets.values())) < 2:
        raise ValueError("Too few pairs: at least two are needed, one to fit and one to measure.")
    calibration, results = measure(folder, sets, options.beams)
    options.output.mkdir(parents=True, exist_ok=True)
    report = {
        "checkpoint": Path(folder).resolve().name,  # its folder's name, because a new checkpoint has no about.json yet
        "settings": {"sets": {name: len(pairs) for name, pairs in sets.items()}, "beams": options.beams},
        "machine": {"processor": cpu_name(), "python": platform.python_version()},
        "versions": {name: version(name) for name in ("torch", "transformers")},
        "calibration": calibration._asdict(),
        "results": results,
    }
    with atomic_file(options.output / "confidence.json") as partial:
        partial.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    plot(results, options.output / "confidence.svg")
    if options.write:
        store(Path(folder), confidence=calibration)
    for result in results:
        print(json.dumps({name: value for name, value in result.items() if name != "bins"}))
