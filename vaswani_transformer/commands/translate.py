"""`vaswani translate`: texts, a file, standard input line by line, or a document."""

import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

import typer

from .. import catalogue
from ..system.command_line import option_groups
from ..system.console import Failure, Warnings, err, errors_as_messages, print_message, report_error
from ..system.processes import in_order, process_pool
from . import documents, models, options
from .glossaries import TermCounter
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


# Lines of a file, and of standard input, that are sorted together, so that lines of similar length share a batch.
FILE_WINDOW, INPUT_WINDOW = 512, 64
WINDOWS_AHEAD = 2  # for each process, so that none waits for the window that is written next
MAX_UNSPLIT_LINE = 1024  # tokens: ten times the training limit of the included checkpoints, and safe on any machine


@option_groups
def translate(
    *,
    text: options.Texts = None,
    input: options.Input = None,
    output: options.Output = None,
    results: options.Results,
    splitting: options.Splitting,
    parts: options.DocumentOptions,
    choice: options.ModelChoice,
    device: options.Device = None,
    dtype: options.DType = "auto",
    batch_size: options.BatchSize = None,
    threads: options.Threads = None,
    processes: options.Processes = 1,
    search: options.Search,
    glossary: options.GlossaryFile = None,
    glossary_report: options.GlossaryReport = None,
):
    """Translate texts, a document, a file, or standard input line by line.

    Each input line is translated to one output line as soon as it is read.
    A suspicious translation (wrong length, missing number or URL) is retried;
    if it still looks wrong, you get a warning.

    [dim]$[/] vaswani translate "A man is riding a bicycle."
    [dim]$[/] vaswani translate --input news.en --output news.de
    [dim]$[/] tail -f chat.log | vaswani translate
    [dim]$[/] vaswani translate report.docx --output report.de.docx
    """
    check_files(text, input, output)
    check_n_best(results.n_best, search.beams)
    document = documents.document_in(text, input, output)
    if document and not parts.show_texts:
        documents.check_arguments(document, output, results, splitting, processes)
    elif not document:
        documents.check_line_output(output)
        if parts.given():
            raise typer.BadParameter("This option works only with documents.", param_hint=parts.given()[0])
    if processes > 1:
        threads = check_processes(processes, input, threads)
    settings = splitting.settings() | search.settings()

    with errors_as_messages(), TermCounter.open(glossary, glossary_report) as terms:
        settings |= terms.settings
        if document and parts.show_texts:
            documents.show_texts(document, parts)
            return
        if document:
            documents.choose_languages(document, parts, choice)
        source = models.choose(choice)
        settings |= choice.languages()
        check_output(output)
        model = source, device, dtype, threads
        if document and output:
            pipeline = models.load_with_status(*model)
            models.note_default_calibration(source, pipeline, results.warnings)
            documents.translate(document, output, parts, pipeline, settings | results.warnings, choice, terms)
            return
        lines, total = open_lines(text, input)
        pipeline = models.load_with_status(*model)
        models.note_default_calibration(source, pipeline, results.settings())
        beams = search.beams or pipeline.model.generation_config.num_beams or 1
        if isinstance(beams, int) and beams > 0:  # `generate` reports any other value from generation_config.json
            check_n_best(results.n_best, beams)
        translator = LineTranslator(pipeline, model, batch_size, settings | results.settings(), processes)
        window = batch_size or INPUT_WINDOW
        if input:
            window = max(window, min(FILE_WINDOW, (total or FILE_WINDOW) // processes))
        elif not text and sys.stdin.isatty():
            err.print("Type a line and press Enter; Ctrl-D ends.", style="dim")
        limit = None if splitting.split else LengthLimit(source, pipeline, translator.warn)
        write_translations(windows(lines, window), total, input, output, translator, limit, results, terms)
        translator.warnings.summarise()
        if limit and limit.refused_lines:
            raise typer.Exit(1)


# Arguments -----------------------------------------------------------------------------------------------------------


def check_files(texts: Sequence[str] | None, input: Path | None, output: Path | None):
    if texts and input:
        raise typer.BadParameter("Pass either texts or --input, not both.")
    if input and output and output.exists() and input.samefile(output):
        raise typer.BadParameter(
            "The output file is the same as the input file. Choose another name.", param_hint="--output"
        )


def check_n_best(n_best: int, beams: int | None):
    if beams is not None and n_best > beams:
        raise typer.BadParameter(
            f"For {n_best} translations, the beam size must be at least {n_best}, but it is {beams}. "
            f"Use --beams {n_best}.",
            param_hint="--n-best",
        )


def check_processes(processes: int, input: Path | None, threads: int | None) -> int:
    """Returns the threads of each process: by default, the cores are divided among the processes."""
    if input is None:
        raise typer.BadParameter(
            "More than one process needs a file to divide. Pass it with --input.", param_hint="--processes"
        )
    return threads or max(1, (os.cpu_count() or 1) // processes)


# Lines ---------------------------------------------------------------------------------------------------------------


def write_translations(
    lines: Iterator[list[str]],
    total: int | None,
    input: Path | None,
    output: Path | None,
    translator: "LineTranslator",
    limit: "LengthLimit | None",
    results: options.Results,
    terms: TermCounter,
):
    """Writes the translations of lists of lines, each list as soon as it is ready."""
    written = 0
    bar_shown = output is not None or (input is not None and not sys.stdout.isatty())
    with open_output(output, input) as target, progress_bar(total, bar_shown) as progress:
        try:
            for window in translator.translate(map(limit.apply, lines) if limit else lines, progress):
                for number, records in enumerate(window, written + 1):
                    translator.warn(number, records[0].get("warnings", []))
                    terms.count(records[0].get("terms", []))
                translations = [
                    format_records(number, records, results.n_best, results.columns)
                    for number, records in enumerate(window, written + 1)
                ]
                with interrupts_held():
                    target.write("".join(translations))
                    target.flush()
                    written += len(window)
        except KeyboardInterrupt:
            if output:
                message = f"{output} holds the translations of the first {written} lines."
                print_message(message, "bold yellow", "interrupted")
            raise


class LineTranslator:
    """Translates lists of lines, in one process or several.

    Args:
        pipeline: The pipeline of this process.
        model: The arguments of `load_pipeline`, for other processes.
        settings: The arguments of the pipeline's `translate`.
    """

    def __init__(
        self, pipeline: Any, model: tuple[Any, ...], batch_size: int | None, settings: dict[str, Any], processes: int
    ):
        self.pipeline, self.model, self.batch_size, self.settings = pipeline, model, batch_size, settings
        self.processes = processes
        self.warnings = Warnings("lines")

    def translate(self, windows: Iterable[list[str]], progress: Callable[[int], object]) -> Iterator[list[list[dict]]]:
        """Yields for each list of lines the pipeline's records of each line, best first.

        Raises:
            Failure: the settings of the search cannot be used, or a process was killed.
        """
        try:
            if self.processes == 1:
                yield from map(TextTranslator(self.pipeline, self.batch_size, self.settings, progress), windows)
                return
            with process_pool(self.processes, load_translator, self.model, self.batch_size, self.settings) as pool:
                submit = partial(pool.submit, operator.call)
                for results in in_order(submit, windows, self.processes * WINDOWS_AHEAD):
                    progress(len(results))
                    yield results
        except BrokenProcessPool as error:
            raise Failure(
                "A process was killed before its work was done. If memory is short, use fewer --processes."
            ) from error
        except ValueError as error:
            raise Failure(f"{catalogue.display_name(self.model[0])} cannot translate: {error}") from error

    def warn(self, line: int, warnings: Sequence[str]):
        if warnings:
            self.warnings.add(f"line {line}: {'; '.join(warnings)}")


class TextTranslator:
    """Translates a list of texts to a list of the pipeline's records; an empty text has only one translation."""

    def __init__(
        self,
        pipeline: Any,
        batch_size: int | None,
        settings: dict[str, Any],
        progress: Callable[[int], object] | None = None,
    ):
        self.pipeline, self.batch_size, self.settings, self.progress = pipeline, batch_size, settings, progress

    def __call__(self, texts: list[str]) -> list[list[dict]]:
        results = self.pipeline.translate(texts, self.batch_size, self.progress, **self.settings)
        for text, records in zip(texts, results, strict=True):
            for record in records:
                if "alignments" in record:
                    record["links"] = moses(text, record["translation_text"], record.pop("alignments"))
        return [records if text.strip() else records[:1] for text, records in zip(texts, results, strict=True)]


def load_translator(model: tuple[Any, ...], batch_size: int | None, settings: dict[str, Any]) -> TextTranslator:
    """Loads a translator in another process; `model` holds the arguments of `load_pipeline`."""
    return TextTranslator(models.load_pipeline(*model), batch_size, settings)


class LengthLimit:
    """For lines that are not split: refuses those that are too long for the model.

    Args:
        warn: Is called with a line's number and warnings if the line is longer than those of the training data.
    """

    def __init__(self, source: str, pipeline: Any, warn: Callable[[int, Sequence[str]], object]):
        self.tokenizer, self.warn = pipeline.tokenizer, warn
        about = catalogue.read_about(Path(source))
        self.name = catalogue.display_name(source)
        self.trained_length = about.max_length if about and about.max_length else self.tokenizer.model_max_length
        self.max_length, self.reason = MAX_UNSPLIT_LINE, f"the limit is {MAX_UNSPLIT_LINE:,} tokens"
        positions = getattr(pipeline.model.config, "longest_sequence", None)
        if positions is not None and positions < self.max_length:
            self.max_length, self.reason = positions, f"{self.name} has learned positions for only {positions:,}"
        self.lines_read = self.refused_lines = 0

    def apply(self, lines: list[str]) -> list[str]:
        """Returns the lines, with "" for those that are too long, and reports these."""
        # No token covers this many characters on average: a longer line is too long, and only its start is tokenized.
        characters = 64 * self.max_length
        starts = [line[:characters] for line in lines]
        lengths = [len(ids) for ids in self.tokenizer(starts, verbose=False)["input_ids"]]
        texts = []
        for number, (line, length) in enumerate(zip(lines, lengths, strict=True), self.lines_read + 1):
            if length > self.max_length or len(line) > characters:
                self.refused_lines += 1
                size = f"{length:,} tokens" if len(line) <= characters else f"{len(line):,} characters"
                report_error(
                    f"line {number} has {size}, but {self.reason}. It was not translated; its output line is empty. "
                    "Leave out --no-split."
                )
                line = ""
            elif length > self.trained_length:
                self.warn(
                    number, [f"it has {length} tokens, but {self.name} was trained on at most {self.trained_length}"]
                )
            texts.append(line)
        self.lines_read += len(lines)
        return texts
