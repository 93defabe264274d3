"""`vaswani translate`: texts, a file or standard input, line by line."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import typer

from .. import catalogue
from ..documents.translator import DocumentTranslator
from . import documents, options, workers
from .console import Failure, err, failures_are_messages, report_error, say, warn
from .lines import (
    check_output,
    format_records,
    interrupts_held,
    moses,
    open_lines,
    open_output,
    progress_bar,
    windows,
)


WARNINGS_SHOWN = 5
FOR_LINES = {"num_return_sequences", "return_scores"}  # settings that documents have no place for
# Lines of a file, and of what arrives, that are sorted together, so that lines of similar length share a batch.
LINES_OF_A_FILE, ARRIVING_LINES = 512, 64


def translate(
    text: options.Texts = None,
    input: options.Input = None,
    output: options.Output = None,
    n_best: options.NBest = 1,
    scores: options.Scores = False,
    confidence: options.Confidence = False,
    min_confidence: options.MinConfidence = None,
    alignments: options.Alignments = False,
    split: options.Split = True,
    longest: options.Longest = None,
    glossary: options.GlossaryFile = None,
    key: options.Keys = None,
    source_language: options.From = None,
    to: options.To = None,
    checkpoint: options.Checkpoint = None,
    device: options.Device = None,
    dtype: options.DType = "auto",
    batch_size: options.BatchSize = None,
    threads: options.Threads = None,
    processes: options.Processes = 1,
    beams: options.Beams = None,
    alpha: options.Alpha = None,
    shortlist: options.ShortlistUsed = False,
):
    """Translate texts, a file, or standard input line by line.

    Each input line gives one output line, as soon as it is read, whether it holds a paragraph, a sentence or nothing.
    What looks wrong in a translation, by its length, by numbers or URLs that it lacks, is tried again, and said.

    [dim]$[/] vaswani translate "A man is riding a bicycle."
    [dim]$[/] vaswani translate --input news.en --output news.de
    [dim]$[/] tail -f chat.log | vaswani translate
    [dim]$[/] vaswani translate report.docx --output report.de.docx
    """
    if text and input:
        raise typer.BadParameter("Give either texts or --input, not both.")
    if input and output and output.exists() and input.samefile(output):
        raise typer.BadParameter(
            "The output file is the same as the input file. Choose another name.", param_hint="--output"
        )
    check_n_best(n_best, beams)
    if document := documents.document_in(text, input, output):
        for_lines = {"--n-best": n_best > 1, "--scores": scores, "--confidence": confidence, "--alignments": alignments}
        for_lines |= {"--no-split": not split, "--processes": processes > 1}
        documents.check_arguments(document, output, for_lines)
    elif key:
        raise typer.BadParameter("Keys are for JSON and YAML files.", param_hint="--key")
    if processes > 1:
        threads = check_processes(processes, input, threads)
    settings = {"num_beams": beams, "length_penalty": alpha, "num_return_sequences": n_best, "return_scores": scores}
    settings = {name: value for name, value in settings.items() if value is not None}
    settings |= {"shortlist": True} if shortlist else {}
    settings |= {"return_alignments": True} if alignments else {}
    settings |= {"return_confidence": True} if confidence else {}
    settings |= {} if min_confidence is None else {"min_confidence": min_confidence}
    columns = ["score"] * scores + ["confidence"] * confidence

    with failures_are_messages():
        settings |= {"glossary": read_glossary(glossary)} if glossary else {}
        source = choose(checkpoint, source_language, to)
        check_output(output)
        if document and output:
            translator = Translator((source, device, dtype, threads), batch_size, split, longest, settings)
            documents.translate(document, output, key or [], translator.for_documents(to))
            return
        lines, total = open_lines(text, input)
        translator = Translator((source, device, dtype, threads), batch_size, split, longest, settings, processes)
        beams = beams or translator.pipeline.model.generation_config.num_beams or 1
        if isinstance(beams, int):  # `generate` refuses what a generation_config.json may have in its place
            check_n_best(n_best, beams)
        if not text and not input and sys.stdin.isatty():
            err.print("Type a line and press Enter; Ctrl-D ends.", style="dim")
        window = batch_size or ARRIVING_LINES
        if input:
            window = max(window, min(LINES_OF_A_FILE, (total or LINES_OF_A_FILE) // processes))
        bar_shown = output is not None or (input is not None and not sys.stdout.isatty())
        written = 0
        with open_output(output) as target, progress_bar(total, bar_shown) as progress:
            try:
                for results in translator.translate(windows(lines, window), progress):
                    for i, records in enumerate(results, written + 1):
                        translator.pass_on(i, records[0].get("warnings", []))
                    translations = [format_records(written + i, r, n_best, columns) for i, r in enumerate(results, 1)]
                    with interrupts_held():
                        target.write("".join(translations))
                        target.flush()
                        written += len(results)
            except KeyboardInterrupt:
                if output:
                    say(f"{output} holds the translations of the first {written} lines.", "bold yellow", "interrupted")
                raise
        translator.summarise_warnings()
        if translator.refused_lines:
            raise typer.Exit(1)


def check_n_best(n_best: int, beams: int | None):
    if beams is not None and n_best > beams:
        raise typer.BadParameter(
            f"For {n_best} translations the beam size must be at least {n_best}, but it is {beams}. "
            f"Use --beams {n_best}.",
            param_hint="--n-best",
        )


def check_processes(processes: int, input: Path | None, threads: int | None) -> int:
    """Threads of each process: by default the cores are shared out."""
    if input is None:
        raise typer.BadParameter(
            "Several processes share the lines of a file: give it by --input.", param_hint="--processes"
        )
    return threads or max(1, (os.cpu_count() or 1) // processes)


def read_glossary(file: Path):
    from ..model.glossary_vaswani import Glossary

    try:
        return Glossary.from_file(file)
    except (OSError, ValueError) as error:
        raise Failure(f"Cannot read the glossary: {error}") from error


def choose(checkpoint: str | None, source_language: str | None, to: str | None) -> str:
    """The folder or the Hub id of the model that the options ask for.

    Raises:
        Failure: there is none; the message says what there is instead.
    """
    try:
        if checkpoint is None:
            source = catalogue.for_languages(source_language, to)
        else:
            source = catalogue.resolve(checkpoint)
        about = catalogue.read_about(Path(source))
    except ValueError as error:
        raise Failure(str(error)) from error
    if about:
        check_language("--from", source_language, about.source_language, f"{about.name} translates from")
        check_language("--to", to, about.target_language, f"{about.name} translates into")
    return source


def check_language(option: str, asked: str | None, language: str, what: str):
    if asked and asked.lower() != language:
        raise Failure(f"{what} {language!r}, not {asked!r}. Leave out {option}, or choose another --checkpoint.")


class Translator:
    """A loaded model with the options of one command.

    Args:
        model: The arguments of `load_pipeline`.
    """

    def __init__(
        self,
        model: tuple,
        batch_size: int | None,
        split: bool,
        longest: int | None,
        settings: dict,
        processes: int = 1,
    ):
        self.model, self.batch_size, self.settings, self.processes = model, batch_size, settings, processes
        self.split = split
        self.settings |= {"longest_sentence": longest} if split else {"split_sentences": False}
        about = catalogue.read_about(Path(model[0]))
        self.name = about.name if about else model[0]
        with err.status(f"Loading {self.name}") if err.is_terminal else nullcontext():
            self.pipeline = load_pipeline(*model)
        config, tokenizer = self.pipeline.model.config, self.pipeline.tokenizer
        self.trained_length = about.max_length if about and about.max_length else tokenizer.model_max_length
        self.remedy = "Leave out --no-split, or raise the limit with --max-source-length."
        self.longest = longest or options.LONGEST_LINE
        self.limit = f"the limit is {self.longest:,} tokens"
        positions = getattr(config, "longest_sequence", None)
        if positions is not None and positions < self.longest:
            self.longest, self.limit = positions, f"{self.name} has learned positions for only {positions:,}"
            self.remedy = "Leave out --no-split."
        self.lines_read = self.refused_lines = self.warnings = 0

    def for_documents(self, to: str | None) -> DocumentTranslator:
        about = catalogue.read_about(Path(self.model[0]))
        asked = {name: value for name, value in self.settings.items() if name not in FOR_LINES}
        return DocumentTranslator(self.pipeline, to or (about.target_language if about else None), asked)

    def translate(self, windows: Iterable[list[str]], progress: Callable[[int], object]) -> Iterator[list[list[dict]]]:
        """Lists of lines -> for each line the pipeline's records, best first.

        Where lines are not split, one that is too long counts as empty.

        Raises:
            Failure: the search settings of the checkpoint are not usable, or a process was killed.
        """
        texts = windows if self.split else map(self.without_long_lines, windows)
        try:
            if self.processes == 1:
                yield from map(TextTranslator(self.pipeline, self.batch_size, self.settings, progress), texts)
                return
            with workers.started(self.processes, load_translator, self.model, self.batch_size, self.settings) as pool:
                submit = partial(pool.submit, workers.run)
                for results in workers.in_order(submit, texts, self.processes * workers.AHEAD):
                    progress(len(results))
                    yield results
        except ValueError as error:
            raise Failure(f"{self.name} cannot translate: {error}") from error

    def without_long_lines(self, lines: list[str]) -> list[str]:
        """The lines, with "" for those over the limit; says which are longer than the limit or the training data."""
        # No token spans this many characters on average: a longer line is too long, and only its start is looked at.
        characters = 64 * self.longest
        starts = [line[:characters] for line in lines]
        lengths = [len(ids) for ids in self.pipeline.tokenizer(starts, verbose=False)["input_ids"]]
        texts = []
        for number, (line, length) in enumerate(zip(lines, lengths, strict=True), self.lines_read + 1):
            if length > self.longest or len(line) > characters:
                self.refused_lines += 1
                size = f"{length:,} tokens" if len(line) <= characters else f"{len(line):,} characters"
                report_error(
                    f"line {number} has {size}; {self.limit}. It was not translated (its output line is empty). "
                    f"{self.remedy}"
                )
                line = ""
            elif length > self.trained_length:
                self.pass_on(
                    number,
                    [f"it has {length} tokens, and {self.name} has learned from {self.trained_length} at most"],
                )
            texts.append(line)
        self.lines_read += len(lines)
        return texts

    def pass_on(self, line: int, warnings: list[str]):
        """Says what a user should know of a line's translation; of many lines the first few, and how many."""
        self.warnings += bool(warnings)
        if warnings and self.warnings <= WARNINGS_SHOWN:
            warn(f"line {line}: {'; '.join(warnings)}")

    def summarise_warnings(self):
        if self.warnings > WARNINGS_SHOWN:
            warn(f"{self.warnings} lines need a look.")


class TextTranslator:
    """Texts -> for each the pipeline's records; an empty one has no second best."""

    def __init__(
        self, pipeline, batch_size: int | None, settings: dict, progress: Callable[[int], object] | None = None
    ):
        self.pipeline, self.batch_size, self.settings, self.progress = pipeline, batch_size, settings, progress

    def __call__(self, texts: list[str]) -> list[list[dict]]:
        results = self.pipeline.translate(texts, self.batch_size, self.progress, **self.settings)
        for text, records in zip(texts, results, strict=True):
            for record in records:
                if "alignments" in record:
                    record["links"] = moses(text, record["translation_text"], record.pop("alignments"))
        return [records if text.strip() else records[:1] for text, records in zip(texts, results, strict=True)]


def load_translator(model: tuple, batch_size: int | None, settings: dict) -> TextTranslator:
    """In a process of its own; `model` holds the arguments of `load_pipeline`."""
    return TextTranslator(load_pipeline(*model), batch_size, settings)


def cpu_for_int8(device: str | None) -> str:
    """The only device for int8; refuses another with a `Failure`."""
    if device is not None and not device.startswith("cpu"):
        raise Failure(f"int8 is for CPUs. Use --device cpu, or for {device!r} --dtype bfloat16.")
    return "cpu"


def load_pipeline(source: str, device: str | None, dtype: str, threads: int | None = None):
    """The translation pipeline of a folder or a Hub id, with or without a revision.

    Raises:
        Failure: it cannot be loaded, or not on this device.
    """
    import torch
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    from .. import TranslationPipeline, load
    from ..hub import look_on_hub
    from ..loading import check_device
    from ..system.memory import keep_freed_memory

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    hub_logging.set_verbosity_error()
    keep_freed_memory()
    if threads:
        torch.set_num_threads(threads)
    try:
        if device:
            check_device(device)
        if dtype == "int8":
            device = cpu_for_int8(device)
        look_on_hub(source)
        model, tokenizer = load(source, dtype=dtype)
        pipeline = TranslationPipeline(model=model, tokenizer=tokenizer, device=device)
    except (RuntimeError, ValueError) as error:  # the device can be out of memory
        raise Failure(str(error).partition("\n")[0]) from error
    if dtype == "auto" and pipeline.device.type == "cpu" and not getattr(model, "is_quantized", False):
        model.float()
    return pipeline
