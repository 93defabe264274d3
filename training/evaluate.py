"""Score a model on test sets. Each score has its name, its signature and a 95% confidence interval.

python -m training.evaluate MODEL --recipe training/recipes/mini-en-de.yaml --data DATA   # a recipe's test sets
python -m training.evaluate MODEL --tsv newstest2014.tsv.xz --tsv newstest2013.tsv.xz     # columns of TSV files
python -m training.evaluate MODEL --source test.en --reference test.de                    # two text files
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shlex
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sacrebleu

from vaswani_transformer import catalogue
from vaswani_transformer.system.command_line import stop, whole_number, whole_number_or_zero
from vaswani_transformer.system.files import check_writable

from .files import read_lines, whole_file
from .models import load, recorded_language, source_language, translate
from .parallel_text import Pair, read_pairs
from .recipe import Source, load_recipe
from .scores import CHRF, LOWER_CASED, PAPER, PAPER_GERMAN, RESAMPLES, SACREBLEU, pick_samples, score
from .user_lines import format_lines, lines_of, measure_model


if TYPE_CHECKING:  # importing torch and transformers takes seconds, so it waits until the command line is parsed
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


# Scoring -------------------------------------------------------------------------------------------------------------


def evaluate_pairs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[Pair],
    *,
    num_beams: int | None = None,
    batch_size: int = 32,
    resamples: int = 0,
    language: str | None = None,
    paper: bool = False,
    lower_cased: bool = False,
    progress: bool = False,
    **generate_kwargs: Any,
) -> tuple[dict[str, dict], list[str]]:
    """Translate the sources of (source, reference) pairs; return the scores of `score`, and the translations.

    The model stays on its device and in its mode, so a training run can call this between two steps; `num_beams=1` is
    fastest. Settings that are not given come from the model's `generation_config`.
    """
    if num_beams is not None:
        generate_kwargs["num_beams"] = num_beams
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    translations = translate(model, tokenizer, sources, batch_size, progress, **generate_kwargs)
    scores = score(translations, references, language, paper=paper, lower_cased=lower_cased, resamples=resamples)
    return scores, translations


# The command ---------------------------------------------------------------------------------------------------------


def read_test_sets(arguments: argparse.Namespace) -> dict[str, list[Pair]]:
    """Return the pairs of every test set, by name.

    Raises:
        OSError, ValueError: A test set cannot be read, is empty, or has a different number of sources and references.
    """
    sets: dict[str, list[Pair]] = {}

    def add(name: str, pairs: list[Pair], path: object):
        if not pairs:
            raise ValueError(f"{path} has no pairs.")
        sets[str(path) if name in sets else name] = pairs

    if arguments.recipe:
        recipe = load_recipe(arguments.recipe)
        for source in recipe.data.test:
            add(source.title, read_pairs(source, arguments.data), source.path or source.dataset or source.generator)
    for path in arguments.tsv:
        columns = {"source_column": arguments.source_column, "target_column": arguments.target_column}
        add(path.name, read_pairs(Source(path=str(path), **columns)), path)
    if arguments.source:
        sides = [list(read_lines(path)) for path in (arguments.source, arguments.reference)]
        if len(sides[0]) != len(sides[1]):
            counts = f"{arguments.source} has {len(sides[0])} lines, {arguments.reference} {len(sides[1])}"
            raise ValueError(f"{counts}; they must match line by line.")
        add(arguments.source.name, list(zip(*sides, strict=True)), arguments.source)
    if not sets:
        raise ValueError(f"{arguments.recipe} has no test sets (data.test).")
    return sets


def target_language(arguments: argparse.Namespace, model: str) -> str | None:
    """Return the target language that the command line, the recipe or the model's record names."""
    if arguments.target_language:
        return arguments.target_language.lower()
    if arguments.recipe:
        return load_recipe(arguments.recipe).target_language
    return recorded_language(model, "target_language")


def format_scores(scores: dict[str, dict]) -> str:
    """Format one line per score: name, value with its confidence interval, signature."""
    width = max(map(len, scores))
    lines = []
    for name, scored in scores.items():
        confidence = f" ± {scored['confidence_95']:.2f}" if "confidence_95" in scored else ""
        lines.append(f"  {name:<{width}}  {scored['value']:6.2f}{confidence}  {scored['signature']}")
    return "\n".join(lines)


def save_hypotheses(folder: Path, name: str, translations: Sequence[str]):
    """Write one translation per line, in the order of the test set."""
    with whole_file(folder / f"{file_name(name)}.txt") as file:
        file.write_text("".join(" ".join(t.split()) + "\n" for t in translations), encoding="utf-8")


def file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("_.")


def read_command_line(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        prog="vaswani evaluate",
        usage="%(prog)s MODEL [options]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="a folder, a checkpoint that ships with the package, a Hub id")
    sets = parser.add_argument_group("test sets; several can be given")
    sets.add_argument("--recipe", type=Path, help="the recipe's test sets")
    sets.add_argument("--data", type=Path, default=Path("."), help="the folder that the recipe's paths start from")
    sets.add_argument("--tsv", type=Path, action="append", default=[], help="a TSV file, .xz and .gz too; repeatable")
    sets.add_argument(
        "--source-column", type=whole_number_or_zero, default=0, metavar="I", help="of --tsv, from 0; default: 0"
    )
    sets.add_argument(
        "--target-column", type=whole_number_or_zero, default=1, metavar="I", help="of --tsv, from 0; default: 1"
    )
    sets.add_argument("--source", type=Path, help="a text file, one sentence a line")
    sets.add_argument("--reference", type=Path, help="its translation, line by line")
    scores = parser.add_argument_group("scores; sacreBLEU (cased, 13a) and chrF are always given")
    scores.add_argument(
        "--paper-bleu", action="store_true", help="also the paper's: Moses tokens, German compounds split, multi-bleu"
    )
    scores.add_argument(
        "--lowercase-tokenised", action="store_true", help="also Multi30k's: lower-cased Moses tokens, multi-bleu"
    )
    scores.add_argument(
        "--target-language", metavar="CODE", help="for these two, e.g. de; default: as the recipe or the model says"
    )
    scores.add_argument(
        "--resamples",
        type=whole_number_or_zero,
        default=RESAMPLES,
        metavar="N",
        help=f"of the bootstrap, or 0; default: {RESAMPLES}",
    )
    search = parser.add_argument_group("translation")
    search.add_argument("--beams", type=whole_number, metavar="N", help="default: the model's own; the paper's is 4")
    search.add_argument("--alpha", type=float, help="length penalty; default: the model's own; the paper's is 0.6")
    search.add_argument("--batch-size", type=whole_number, default=32, metavar="N", help="sentences; default: 32")
    search.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, mps; default: cpu")
    results = parser.add_argument_group("results")
    results.add_argument(
        "--output", type=Path, metavar="FILE", help="JSON with scores and samples, the tokenised scores among them"
    )
    results.add_argument("--hypotheses", type=Path, metavar="FOLDER", help="a text file of translations for each set")
    words = sys.argv[1:] if arguments is None else arguments
    arguments = parser.parse_args(words)
    arguments.words = words
    if not (arguments.recipe or arguments.tsv or arguments.source or arguments.reference):
        parser.error("give --recipe, --tsv, or --source and --reference")
    if bool(arguments.source) != bool(arguments.reference):
        parser.error("--source needs --reference, and the other way round")
    if arguments.output and arguments.output.is_dir():
        parser.error(f"--output: {arguments.output} is a folder, not a file")
    if arguments.hypotheses and arguments.hypotheses.is_file():
        parser.error(f"--hypotheses: {arguments.hypotheses} is a file, not a folder")
    return parser, arguments


def main(arguments: list[str] | None = None):
    parser, arguments = read_command_line(arguments)
    from vaswani_transformer.loading import check_device

    tokenised = arguments.paper_bleu or arguments.lowercase_tokenised
    try:
        source = catalogue.resolve(arguments.model)
        check_device(arguments.device)
        for path in filter(None, (arguments.output, arguments.hypotheses)):
            check_writable(path)
        sets = read_test_sets(arguments)
        if arguments.hypotheses and len({file_name(name) for name in sets}) < len(sets):
            raise ValueError("--hypotheses: the names of two test sets give the same file name.")
        language = target_language(arguments, source)
        if tokenised and not language:
            raise ValueError("tokenised BLEU needs --target-language: neither a recipe nor the model names it.")
        if tokenised and not find_spec("sacremoses"):
            raise ValueError("tokenised BLEU needs sacremoses: pip install sacremoses")
        model, tokenizer = load(source, arguments.device)
    except (OSError, ValueError) as error:
        stop(parser, error)
    # What is recorded is complete where it can be: which score a paper gives is not known beforehand.
    record_all = bool(arguments.output and language and find_spec("sacremoses"))

    given = {"num_beams": arguments.beams, "length_penalty": arguments.alpha}
    settings = {name: value for name, value in given.items() if value is not None}
    results = []
    for name, pairs in sets.items():
        start = time.perf_counter()
        sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
        try:
            translations = translate(model, tokenizer, sources, arguments.batch_size, progress=True, **settings)
        except ValueError as error:  # search settings that cannot be used
            stop(parser, error)
        seconds = time.perf_counter() - start
        scores = score(
            translations,
            references,
            language,
            paper=arguments.paper_bleu or record_all,
            lower_cased=arguments.lowercase_tokenised or record_all,
            resamples=arguments.resamples,
        )
        shown = {SACREBLEU, CHRF} | ({PAPER, PAPER_GERMAN} if arguments.paper_bleu else set())
        shown |= {LOWER_CASED} if arguments.lowercase_tokenised else set()
        print(f"{name}: {len(pairs):,} sentence{'s' if len(pairs) > 1 else ''} in {seconds:.0f} s")
        print(format_scores({n: s for n, s in scores.items() if n in shown}), flush=True)
        if arguments.hypotheses:
            save_hypotheses(arguments.hypotheses, name, translations)
        samples = pick_samples(pairs, translations)
        results.append(
            {"dataset": name, "sentences": len(pairs), "seconds": round(seconds, 1), **scores, "samples": samples}
        )
    report = {**circumstances(arguments, model, settings), "results": results}
    if arguments.recipe and (lines := lines_of(source_language(source, arguments.recipe) or "")):
        report["user_lines"] = measure_model(lines, model, tokenizer, arguments.batch_size, **settings)
        print(format_lines(report["user_lines"]))
    if arguments.output:
        with whole_file(arguments.output) as file:
            file.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def command_line(arguments: argparse.Namespace) -> str:
    """Return the command that reproduces the scores, without local folders and without the options for output files."""
    data, words = str(arguments.data), []
    given = iter(arguments.words)
    for word in given:
        if word.partition("=")[0] in ("--output", "--hypotheses"):
            if "=" not in word:
                next(given)
            continue
        path = Path(word)
        words.append("DATA" if word == data else path.name if path.is_absolute() else word)
    return shlex.join(["python", "-m", "training.evaluate", *words])


def circumstances(arguments: argparse.Namespace, model: PreTrainedModel, settings: dict) -> dict:
    """Return the conditions under which the scores were measured."""
    import torch
    import transformers

    config = model.generation_config
    return {
        "command": command_line(arguments),
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
    }


if __name__ == "__main__":
    main()
