"""Scores a model on test sets: sacreBLEU and chrF, each with its signature.

python -m training.evaluate MODEL --recipe training/recipes/mini-en-de.yaml --data DATA   # a recipe's test sets
python -m training.evaluate MODEL --source test.en --reference test.de                    # or any parallel text
"""

import argparse
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import sacrebleu
import torch
import transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani_transformer import TranslationPipeline

from .data import Pair, load_split, read_pairs
from .recipe import load_recipe


def translate(pipeline: TranslationPipeline, texts: Sequence[str], batch_size: int = 32) -> list[str]:
    """Translations in the order of `texts`; sentences of like length share a batch."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    results = pipeline([texts[i] for i in order], batch_size=batch_size)
    by_place = dict(zip(order, results, strict=True))
    return [by_place[i]["translation_text"] for i in range(len(texts))]


def score(translations: Sequence[str], references: Sequence[str]) -> dict[str, dict]:
    """{"sacreBLEU": {"value", "signature"}, "chrF": {...}} of cased, detokenised text."""
    scores = {}
    for name, metric in (("sacreBLEU", sacrebleu.BLEU()), ("chrF", sacrebleu.CHRF())):
        value = metric.corpus_score(list(translations), [list(references)]).score
        scores[name] = {"value": round(value, 2), "signature": str(metric.get_signature())}
    return scores


def pick_samples(pairs: Sequence[Pair], translations: Sequence[str], count: int = 4) -> list[dict]:
    """`count` translations from each end and the middle of the test set, ordered by sentence chrF."""
    metric = sacrebleu.CHRF()
    rated = [
        {"source": s, "reference": r, "translation": t, "chrF": round(metric.sentence_score(t, [r]).score, 1)}
        for (s, r), t in zip(pairs, translations, strict=True)
    ]
    # Evenly from worst to best, so that the choice is nobody's.
    rated.sort(key=lambda sample: (sample["chrF"], sample["source"]))
    places = [round(i * (len(rated) - 1) / max(3 * count - 1, 1)) for i in range(3 * count)]
    return [rated[i] for i in sorted(set(places))]


def test_sets(arguments: argparse.Namespace) -> dict[str, list[Pair]]:
    if not arguments.recipe:
        sides = [path.read_text(encoding="utf-8").splitlines() for path in (arguments.source, arguments.reference)]
        if len(sides[0]) != len(sides[1]):
            raise ValueError(f"{arguments.source} has {len(sides[0])} lines, {arguments.reference} {len(sides[1])}.")
        return {arguments.source.name: list(zip(*sides, strict=True))}
    recipe = load_recipe(arguments.recipe)
    sets = {source.name or source.path: read_pairs(source, arguments.data) for source in recipe.data.test}
    held_out = load_split(recipe.data, arguments.data, recipe.seed)[2]
    if held_out:
        names = [source.name or source.path for source in recipe.data.train if source.held_out]
        sets[f"{' and '.join(names)}, held out"] = held_out
    return sets


def main():
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a folder or a Hub id")
    parser.add_argument("--recipe", type=Path, help="score the recipe's test sets and what it held out")
    parser.add_argument("--data", type=Path, default=Path("."), help="the folder that the recipe's paths start from")
    parser.add_argument("--source", type=Path, help="a text file, one sentence a line")
    parser.add_argument("--reference", type=Path, help="its translation, line by line")
    parser.add_argument("--beams", type=int, help="default: the model's own, 4")
    parser.add_argument("--alpha", type=float, help="length penalty; default: the model's own, 0.6")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path, help="a JSON file for scores and samples")
    arguments = parser.parse_args()
    if not arguments.recipe and not (arguments.source and arguments.reference):
        parser.error("give --recipe, or --source and --reference")
    try:
        sets = test_sets(arguments)
    except (OSError, ValueError) as error:
        parser.error(str(error))

    model = AutoModelForSeq2SeqLM.from_pretrained(arguments.model)
    given = {"num_beams": arguments.beams, "length_penalty": arguments.alpha}
    settings = {name: value for name, value in given.items() if value is not None}
    pipeline = TranslationPipeline(
        model=model, tokenizer=AutoTokenizer.from_pretrained(arguments.model), device=arguments.device, **settings
    )
    results = []
    for name, pairs in sets.items():
        start = time.perf_counter()
        translations = translate(pipeline, [source for source, _ in pairs], arguments.batch_size)
        seconds = time.perf_counter() - start
        scores = score(translations, [reference for _, reference in pairs])
        results.append(
            {
                "dataset": name,
                "sentences": len(pairs),
                "seconds": round(seconds, 1),
                **scores,
                "samples": pick_samples(pairs, translations),
            }
        )
        values = "  ".join(f"{metric} {scores[metric]['value']:.2f}" for metric in scores)
        print(f"{name}: {values}  ({len(pairs):,} sentences in {seconds:.0f} s)", flush=True)
    if arguments.output:
        config = model.generation_config
        report = {
            "command": f"python -m training.evaluate {arguments.model}"
            + (f" --recipe {arguments.recipe} --data DATA" if arguments.recipe else ""),
            "beams": settings.get("num_beams", config.num_beams),
            "alpha": settings.get("length_penalty", config.length_penalty),
            "batch_size": arguments.batch_size,
            "device": arguments.device,
            "threads": torch.get_num_threads(),
            "versions": {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "transformers": transformers.__version__,
                "sacrebleu": sacrebleu.__version__,
            },
            "results": results,
        }
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
