"""Measures how sure a checkpoint may be of its words, and keeps that in its generation_config.json.

python -m training.confidence CHECKPOINT tatoeba=PAIRS.tsv.xz docs=PAIRS.tsv.xz --output FIGURES --write

A file has a source and its translation in a line, with a tab between them; `--columns 1 0` takes them the other way.
The texts are translated. A word counts as right if the reference has it; a logistic regression on the model's own
probabilities learns from the odd pairs how likely that is, and the even ones say how well it is calibrated, set by set:
FIGURES gets confidence.json and confidence.svg. Without `--write` the checkpoint stays as it is.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_transformer import catalogue
from vaswani_transformer.system.command_line import whole_number
from vaswani_transformer.system.console import exit_with_error
from vaswani_transformer.system.cpu import cpu_name
from vaswani_transformer.system.files import atomic_file, check_writable

from .parallel_text import read_pairs
from .recipe import Source
from .variations import Pair


if TYPE_CHECKING:  # torch and transformers take seconds to import: they wait until the command line is read
    import torch

    from vaswani_transformer.model.confidence_vaswani import Calibration, Features

BINS, STEPS = 10, 200


def is_right(translation: str, reference: str) -> list[bool]:
    """Of each word of a translation whether the reference has it, as often at least."""
    from vaswani_transformer.model.spans_vaswani import words

    left = Counter(reference[a:b].lower() for a, b in words(reference))
    found = []
    for begin, end in words(translation):
        word = translation[begin:end].lower()
        found.append(left[word] > 0)
        left[word] -= 1
    return found


def calibrate(features: Sequence[Features], right: Sequence[Sequence[bool]]) -> Calibration:
    """The logistic regression whose probabilities fit best, by cross-entropy."""
    import torch

    from vaswani_transformer.model.confidence_vaswani import Calibration

    inputs = torch.cat([inputs_of(of) for of in features])
    labels = torch.tensor([float(x) for of in right for x in of])
    weights = torch.zeros(inputs.shape[1], requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(inputs @ weights, labels)
        loss.backward()
        return loss

    optimiser.step(closure)
    return Calibration(*(round(x, 4) for x in weights.detach().tolist()))


def inputs_of(features: Features) -> torch.Tensor:
    """Of each word what `Calibration` weighs: [words, 3]."""
    import torch

    from vaswani_transformer.model.confidence_vaswani import log_odds

    n = len(features.spans)
    return torch.stack([log_odds(features.log_probs), torch.full((n,), features.of_sentence), torch.ones(n)], dim=1)


def reliability(confidence: Sequence[float], right: Sequence[bool]) -> tuple[float, list[dict[str, float]]]:
    """Expected calibration error, and for each tenth of the scale the words in it, their mean confidence and share."""
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for value, is_so in zip(confidence, right, strict=True):
        bins[min(BINS - 1, int(value * BINS))].append((value, is_so))
    found = [
        {
            "words": len(of),
            "confidence": round(sum(value for value, _ in of) / len(of), 4),
            "right": round(sum(is_so for _, is_so in of) / len(of), 4),
        }
        for of in bins
        if of
    ]
    error = sum(of["words"] * abs(of["confidence"] - of["right"]) for of in found) / max(1, len(right))
    return round(error, 4), found


def correlation(some: Sequence[float], others: Sequence[float]) -> float:
    """Pearson's."""
    import numpy as np

    return round(float(np.corrcoef(some, others)[0, 1]), 3) if len(some) > 1 else 0.0


def ranks(values: Sequence[float]) -> list[float]:
    """With the mean of their ranks for equal ones, so that `correlation` of ranks is Spearman's."""
    import numpy as np

    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    return ((2 * last - counts - 1) / 2)[which].tolist()


def plot(results: list[dict], path: Path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "confidence"
    figure, axis = pyplot.subplots(figsize=(4.6, 4.2))
    axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for result in results:
        points = [(of["confidence"], of["right"]) for of in result["bins"]]
        label = f"{result['set']}: error {result['expected calibration error']:.3f}"
        axis.plot(*zip(*points, strict=True), marker="o", label=label)
    axis.set(xlabel="confidence", ylabel="share of words that the reference has", xlim=(0, 1), ylim=(0, 1))
    axis.legend()
    figure.tight_layout()
    with atomic_file(path) as partial:
        figure.savefig(partial, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def measure(folder: str, sets: dict[str, list[Pair]], beams: int | None) -> tuple[Calibration, list[dict]]:
    from sacrebleu.metrics import CHRF

    from vaswani_transformer import translate_texts
    from vaswani_transformer.model.confidence_vaswani import features_of, mean_confidence

    from .evaluate import load

    model, tokenizer = load(folder, "cpu")
    model.eval()
    settings = {} if beams is None else {"num_beams": beams}
    seen = {}
    for name, pairs in sets.items():
        translations = translate_texts(model, tokenizer, [source for source, _ in pairs], **settings)
        features = features_of(model, tokenizer, [(s, t) for (s, _), t in zip(pairs, translations, strict=True)])
        right = [is_right(t, reference) for t, (_, reference) in zip(translations, pairs, strict=True)]
        seen[name] = list(zip(translations, features, right, pairs, strict=True))
    odd = [of for rows in seen.values() for of in rows[1::2]]
    calibration = calibrate([features for _, features, _, _ in odd], [right for _, _, right, _ in odd])
    results = []
    for name, rows in seen.items():
        of_words, right_words, of_sentences, quality = [], [], [], []
        for translation, features, right, (_, reference) in rows[::2]:
            confidence = calibration.of_words(features).tolist()
            of_words += confidence
            right_words += right
            of_sentences.append(mean_confidence(list(zip(features.spans, confidence, strict=True))))
            quality.append(CHRF().sentence_score(translation, [reference]).score)
        error, bins = reliability(of_words, right_words)
        results.append(
            {
                "set": name,
                "sentences": len(quality),
                "words": len(of_words),
                "expected calibration error": error,
                "correlation with sentence chrF": correlation(of_sentences, quality),
                "correlation of ranks": correlation(ranks(of_sentences), ranks(quality)),
                "bins": bins,
            }
        )
    return calibration, results


def keep(folder: Path, calibration: Calibration):
    """Writes it into generation_config.json, which stays as it is otherwise."""
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    settings["confidence"] = calibration._asdict()
    with atomic_file(file) as partial:
        partial.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog="python -m training.confidence", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="CHECKPOINT", help="a checkpoint that ships, or a folder")
    parser.add_argument("sets", nargs="+", metavar="NAME=FILE", help="pairs that it has not learned from")
    parser.add_argument("--columns", type=int, nargs=2, default=[0, 1], help="of the source and of its translation")
    parser.add_argument("--limit", type=whole_number, default=1000, help="pairs of each set (default: 1,000)")
    parser.add_argument("--beams", type=whole_number, help="default: the checkpoint's")
    parser.add_argument("--output", type=Path, required=True, help="the folder for the figures")
    parser.add_argument("--write", action="store_true", help="keep the result in the checkpoint")
    options = parser.parse_args(arguments)
    try:
        check_writable(options.output)
        folder = catalogue.resolve(options.model)
        sets = {}
        for name, _, file in (entry.partition("=") for entry in options.sets):
            source, target = options.columns
            sets[name] = read_pairs(Source(path=file, source_column=source, target_column=target))[: options.limit]
        if sum(map(len, sets.values())) < 2:
            raise ValueError("There are too few pairs: at least two are needed.")
        calibration, results = measure(folder, sets, options.beams)
        options.output.mkdir(parents=True, exist_ok=True)
        with atomic_file(options.output / "confidence.json") as partial:
            report = {
                "checkpoint": Path(folder).name,
                "settings": {"sets": {n: len(of) for n, of in sets.items()}, "beams": options.beams},
                "machine": {"processor": cpu_name(), "python": platform.python_version()},
                "versions": {name: version(name) for name in ("torch", "transformers")},
                "calibration": calibration._asdict(),
                "results": results,
            }
            partial.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        plot(results, options.output / "confidence.svg")
        if options.write:
            keep(Path(folder), calibration)
    except (OSError, ValueError) as error:
        exit_with_error(error)
    for result in results:
        print(json.dumps({name: value for name, value in result.items() if name != "bins"}))


if __name__ == "__main__":
    main()
