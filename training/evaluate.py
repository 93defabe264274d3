"""Score a model on test sets. Each score has its name, its signature and a 95% confidence interval.

vaswani evaluate MODEL --recipe mini-en-de --data DATA                         # a recipe's test sets
vaswani evaluate MODEL --tsv newstest2014.tsv.xz --tsv newstest2013.tsv.xz     # columns of TSV files
vaswani evaluate MODEL --source test.en --reference test.de                    # two text files
vaswani evaluate MODEL --sacrebleu wmt14/full/en-de                            # a test set that sacrebleu downloads
"""

from __future__ import annotations

import json
import platform
import re
import shlex
import tarfile
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaswani_transformer.system.command_line import count, count_or_zero, make_app, option_groups, run_app
from vaswani_transformer.system.console import errors_as_messages
from vaswani_transformer.system.extras import missing_package
from vaswani_transformer.system.files import check_writable

from .files import atomic_file, read_lines
from .models import load, recorded_fact, source_language, translate
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

SETS = "Test sets (you can combine several)"
SCORES = "Scores (always included: chrF and cased sacreBLEU, 13a)"
TRANSLATION, RESULTS = "Translation", "Results"


@dataclass(kw_only=True)
class Options:
    """The options of `vaswani evaluate`."""

    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of an included checkpoint, a folder or a Hub id.")]
    recipe: Annotated[
        Path | None, typer.Option("--recipe", metavar="RECIPE", rich_help_panel=SETS, help="The recipe's test sets.")
    ] = None
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            rich_help_panel=SETS,
            help="Folder that the recipe's paths are relative to.",
        ),
    ] = Path(".")
    tsv: Annotated[
        list[Path] | None,
        typer.Option(
            "--tsv",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            rich_help_panel=SETS,
            help="A TSV file, or a compressed one (.xz, .gz). Repeat it for more files.",
        ),
    ] = None
    source_column: Annotated[
        int,
        typer.Option(
            "--source-column",
            parser=count_or_zero,
            metavar="N",
            rich_help_panel=SETS,
            help="Column of the source in --tsv, counted from 0.",
        ),
    ] = 0
    target_column: Annotated[
        int,
        typer.Option(
            "--target-column",
            parser=count_or_zero,
            metavar="N",
            rich_help_panel=SETS,
            help="Column of the reference in --tsv, counted from 0.",
        ),
    ] = 1
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            rich_help_panel=SETS,
            help="A text file, one sentence per line.",
        ),
    ] = None
    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            rich_help_panel=SETS,
            help="Its translation, line by line.",
        ),
    ] = None
    sacrebleu: Annotated[
        list[str] | None,
        typer.Option(
            "--sacrebleu",
            metavar="SET/PAIR",
            rich_help_panel=SETS,
            help="A test set that sacrebleu downloads, such as wmt14/full/en-de (all of newstest2014). Repeat it for "
            "more sets.",
        ),
    ] = None
    paper_bleu: Annotated[
        bool,
        typer.Option(
            "--paper-bleu",
            rich_help_panel=SCORES,
            help="Add the paper's BLEU: Moses tokens, German compounds split, multi-bleu.",
        ),
    ] = False
    lowercase_tokenised: Annotated[
        bool,
        typer.Option(
            "--lowercase-tokenised",
            rich_help_panel=SCORES,
            help="Add Multi30k's BLEU: lowercased Moses tokens, multi-bleu.",
        ),
    ] = False
    target_language: Annotated[
        str | None,
        typer.Option(
            "--target-language",
            metavar="CODE",
            rich_help_panel=SCORES,
            help="Language for these two BLEU scores, such as de. "
            "[dim]\\[default: the one in the recipe or the model's record][/]",
        ),
    ] = None
    resamples: Annotated[
        int,
        typer.Option(
            "--resamples",
            parser=count_or_zero,
            metavar="N",
            rich_help_panel=SCORES,
            help="Number of bootstrap resamples; 0 turns off confidence intervals.",
        ),
    ] = RESAMPLES
    beams: Annotated[
        int | None,
        typer.Option(
            "--beams",
            parser=count,
            metavar="N",
            rich_help_panel=TRANSLATION,
            help="Beam size. [dim]\\[default: the model's; 4 in the paper][/]",
        ),
    ] = None
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            metavar="ALPHA",
            rich_help_panel=TRANSLATION,
            help="Length penalty. [dim]\\[default: the model's; 0.6 in the paper][/]",
        ),
    ] = None
    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size", parser=count, metavar="N", rich_help_panel=TRANSLATION, help="Sentences in a batch."
        ),
    ] = 32
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", rich_help_panel=TRANSLATION, help="cpu, cuda, cuda:1 or mps.")
    ] = "cpu"
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            rich_help_panel=RESULTS,
            help="JSON file for samples and all scores, including the tokenised ones.",
        ),
    ] = None
    hypotheses: Annotated[
        Path | None,
        typer.Option(
            "--hypotheses",
            metavar="FOLDER",
            rich_help_panel=RESULTS,
            help="Folder for the translations, with one text file per test set.",
        ),
    ] = None


def read_test_sets(arguments: Options) -> dict[str, list[Pair]]:
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
    for path in arguments.tsv or ():
        columns = {"source_column": arguments.source_column, "target_column": arguments.target_column}
        add(path.name, read_pairs(Source(path=str(path), **columns)), path)
    if arguments.source:
        sides = [list(read_lines(path)) for path in (arguments.source, arguments.reference)]
        if len(sides[0]) != len(sides[1]):
            counts = f"{len(sides[0]):,} and {len(sides[1]):,}"
            raise ValueError(
                f"{arguments.source} and {arguments.reference} must have the same number of lines, but have {counts}."
            )
        add(arguments.source.name, list(zip(*sides, strict=True)), arguments.source)
    for name in arguments.sacrebleu or ():
        add(name, read_sacrebleu(name), name)
    if not sets:
        raise ValueError(f"{arguments.recipe} has no test sets (data.test).")
    return sets


def read_sacrebleu(name: str) -> list[Pair]:
    """Return the pairs of a test set of sacrebleu, such as wmt14/full/en-de; it is downloaded on its first use.

    Raises:
        ValueError: sacrebleu does not have the set or cannot download it, or the set has several references.
    """
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    test_set, _, languages = name.rpartition("/")
    if test_set not in DATASETS or languages not in DATASETS[test_set].langpairs:
        raise ValueError(
            f"sacrebleu has no test set {name!r}. Give the set and the languages, such as wmt14/full/en-de; "
            "`sacrebleu --list` lists them."
        )
    dataset = DATASETS[test_set]
    try:
        files = dict(zip(dataset.fieldnames(languages), dataset.get_files(languages), strict=True))
        references = [file for field, file in files.items() if field.startswith("ref")]
        if len(references) > 1:
            raise ValueError(f"{name} has several references for each sentence; use a set with one.")
        return list(zip(read_lines(files["src"]), read_lines(references[0]), strict=True))
    except (OSError, EOFError, tarfile.TarError, zlib.error, SystemExit) as error:  # SystemExit: a wrong MD5
        raise ValueError(
            f"sacrebleu cannot provide {name}: {error}. Check the network. After an interrupted download, delete "
            f"{Path(SACREBLEU_DIR, test_set)}."
        ) from error


def target_language(arguments: Options, model: str) -> str | None:
    """Return the target language that the command line, the recipe, the model's record or a test set names."""
    if arguments.target_language:
        return arguments.target_language.lower()
    if arguments.recipe:
        return load_recipe(arguments.recipe).target_language
    named = [name.rpartition("-")[2] for name in arguments.sacrebleu or ()]
    return recorded_fact(model, "target_language") or next(iter(named), None)


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
    with atomic_file(folder / f"{file_name(name)}.txt") as file:
        file.write_text("".join(" ".join(t.split()) + "\n" for t in translations), encoding="utf-8")


def file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("_.")


app = make_app()


@app.command()
@option_groups
def evaluate(arguments: Options):
    """Score a model on test sets. Each score has its name, its signature and a 95% confidence interval.

    [dim]$[/] vaswani evaluate MODEL --recipe mini-en-de --data DATA
    [dim]$[/] vaswani evaluate MODEL --tsv newstest2014.tsv.xz --tsv newstest2013.tsv.xz
    [dim]$[/] vaswani evaluate MODEL --source test.en --reference test.de
    [dim]$[/] vaswani evaluate MODEL --sacrebleu wmt14/full/en-de
    """
    check_arguments(arguments)
    from vaswani_transformer.loading import check_device
    from vaswani_transformer.locating import locate

    tokenised = arguments.paper_bleu or arguments.lowercase_tokenised
    with errors_as_messages(OSError, ValueError):
        source = locate(arguments.model, arguments.target_language)
        check_device(arguments.device)
        for path in filter(None, (arguments.output, arguments.hypotheses)):
            check_writable(path)
        sets = read_test_sets(arguments)
        if arguments.hypotheses and len({file_name(name) for name in sets}) < len(sets):
            raise ValueError("--hypotheses: the names of two test sets give the same file name.")
        language = target_language(arguments, source)
        if tokenised and not language:
            raise ValueError("Tokenised BLEU needs --target-language: neither a recipe nor the model names it.")
        if tokenised and not find_spec("sacremoses"):
            raise ValueError(missing_package("Tokenised BLEU", "sacremoses", "train"))
        model, tokenizer = load(source, arguments.device)
    # Record every score that can be computed: a paper may report any of them.
    record_all = bool(arguments.output and language and find_spec("sacremoses"))

    given = {"num_beams": arguments.beams, "length_penalty": arguments.alpha}
    settings = {name: value for name, value in given.items() if value is not None}
    results = []
    for name, pairs in sets.items():
        start = time.perf_counter()
        sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
        with errors_as_messages(ValueError):  # search settings that cannot be used
            translations = translate(model, tokenizer, sources, arguments.batch_size, progress=True, **settings)
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
        with atomic_file(arguments.output) as file:
            file.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def check_arguments(arguments: Options):
    """Raises BadParameter for options that do not fit together."""
    if not (arguments.recipe or arguments.tsv or arguments.source or arguments.reference or arguments.sacrebleu):
        raise typer.BadParameter(
            "Test sets are missing. Add --recipe, --tsv, --sacrebleu, or --source and --reference."
        )
    if bool(arguments.source) != bool(arguments.reference):
        raise typer.BadParameter("--source and --reference must be used together.")
    if arguments.output and arguments.output.is_dir():
        raise typer.BadParameter(f"{arguments.output} is a folder, not a file.", param_hint="--output")
    if arguments.hypotheses and arguments.hypotheses.is_file():
        raise typer.BadParameter(f"{arguments.hypotheses} is a file, not a folder.", param_hint="--hypotheses")


def command_line(arguments: Options) -> str:
    """Return the command that reproduces the scores, without local folders and without the options for output files."""
    words = []
    for field in fields(arguments):
        value = getattr(arguments, field.name)
        if value == field.default or field.name in ("output", "hypotheses"):
            continue
        option = [] if field.name == "model" else [f"--{field.name.replace('_', '-')}"]
        if value is True:
            words += option
            continue
        for item in value if isinstance(value, list) else [value]:
            path = Path(item) if isinstance(item, str | Path) else Path()
            text = path.name if path.is_absolute() else str(item)
            words += [*option, "DATA" if field.name == "data" else text]
    return shlex.join(["python", "-m", "training.evaluate", *words])


def circumstances(arguments: Options, model: PreTrainedModel, settings: dict) -> dict:
    """Return the conditions under which the scores were measured."""
    import sacrebleu
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


def main(arguments: Sequence[str] | None = None):
    run_app(app, "vaswani evaluate", arguments)


if __name__ == "__main__":
    main()
