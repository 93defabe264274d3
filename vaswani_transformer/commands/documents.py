"""`vaswani translate report.docx --output report.de.docx`: one document, as a whole."""

import os
from pathlib import Path
from typing import Any

import typer

from ..documents import (
    ADVICE,
    FORMATS,
    SUFFIXES,
    DocumentError,
    DocumentTranslator,
    read_content,
    translate_document,
)
from ..documents.document import primary
from ..documents.inline import flatten, split_texts
from ..system.console import Failure, Warnings, err
from ..system.files import check_regular
from .glossaries import TermCounter
from .options import DocumentOptions, ModelChoice, Results, Splitting


# Formats that users try. A text with such a suffix is taken for the name of a file, like one with a supported suffix.
UNSUPPORTED = {*ADVICE}
PLAIN = {".rst", ".tex"}  # those of them that are lines of text


def document_in(texts: list[str] | None, input: Path | None, output: Path | None) -> Path | None:
    """Returns the document to translate, given by --input or as the only text; None for lines.

    A plain text file given by --input is translated line by line.

    Raises:
        BadParameter: a text is the name of a file that cannot be translated as a document, such as a pipe.
    """
    if input is not None:
        return regular(input, "--input") if input.suffix.lower() in {*SUFFIXES} - {".txt"} else None
    names = [text for text in texts or [] if is_file_name(text, output)]
    if not names:
        return None
    if problem := file_problem(names[0], len(texts or []), output):
        raise typer.BadParameter(
            f"{problem} To translate the name itself, pass it on standard input.", param_hint="TEXT"
        )
    return regular(Path(names[0]), "TEXT")


def regular(document: Path, parameter: str) -> Path:
    """Returns a document, which is read several times.

    Raises:
        BadParameter: it is a pipe or a device.
    """
    try:
        check_regular(document)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=parameter) from error
    return document


def is_file_name(text: str, output: Path | None) -> bool:
    """Whether a text is the name of an existing file or folder, or a word that ends like the name of a document."""
    suffix = Path(text).suffix.lower()
    is_word = "://" not in text and not any(map(str.isspace, text))
    return (
        os.path.exists(text)  # which takes a text of any length, too
        or (is_word and suffix in {*SUFFIXES, *UNSUPPORTED})
        or bool(suffix and output and suffix == output.suffix.lower())
    )


def file_problem(name: str, texts: int, output: Path | None) -> str | None:
    """Returns why a file, given as one of `texts` texts, cannot be translated as a document; None if it can."""
    suffix, exists = Path(name).suffix.lower(), os.path.exists(name)
    if texts > 1 or os.path.isdir(name):
        kind = "is a folder" if os.path.isdir(name) else "is a file" if exists else "looks like a file"
        return f"{name} {kind}. Translate one document at a time."
    if exists and suffix not in UNSUPPORTED and (suffix not in SUFFIXES or (suffix == ".txt" and not output)):
        return f"{name} is a file. To translate its lines, use --input {name}."
    if suffix not in SUFFIXES:
        advice = f" {ADVICE[suffix]}" if suffix in ADVICE else ""
        return (
            f"Unsupported format: {name}.{advice} Supported: {', '.join(SUFFIXES)}; --input translates any UTF-8 file "
            "line by line."
        )
    return None if exists else f"File not found: {name}."


def check_line_output(output: Path | None):
    """Checks the name of an output file of lines.

    Raises:
        BadParameter: it is that of a document, which programs could not open.
    """
    suffix = output.suffix.lower() if output else ""
    if suffix in UNSUPPORTED - PLAIN or (suffix in FORMATS and not FORMATS[suffix].is_text):
        raise typer.BadParameter(
            f"Lines are written as plain text, not as {suffix}. Choose a name that ends in .txt.",
            param_hint="--output",
        )


def check_arguments(document: Path, output: Path | None, results: Results, splitting: Splitting, processes: int):
    """Checks that the arguments suit a document.

    Raises:
        BadParameter: they do not.
    """
    if output is None:
        raise typer.BadParameter(
            f"A document needs an output file, such as --output {document.stem}.translated{document.suffix}",
            param_hint="--output",
        )
    if output.suffix.lower() != document.suffix.lower():
        raise typer.BadParameter(
            f"The output must have the format of {document.name}. Choose a name that ends in {document.suffix}, not "
            f"{output.name}.",
            param_hint="--output",
        )
    if output.exists() and output.samefile(document):
        raise typer.BadParameter("The output file is the document itself. Choose another name.", param_hint="--output")
    for_lines = {
        "--n-best": results.n_best > 1,
        "--scores": results.scores,
        "--confidence": results.confidence,
        "--alignments": results.alignments,
        "--no-split": not splitting.split,
        "--processes": processes > 1,
    }
    if unsuitable := [name for name, is_given in for_lines.items() if is_given]:
        raise typer.BadParameter(f"These options work with lines, not with documents: {', '.join(unsuitable)}")


def choose_languages(document: Path, parts: DocumentOptions, choice: ModelChoice):
    """Chooses the languages that the document names, unless a checkpoint or languages were chosen.

    Raises:
        Failure: the document cannot be read.
    """
    if choice.checkpoint is None and choice.source_language is None and choice.to is None:
        source, target = read(document, parts).languages
        choice.source_language, choice.to = primary(source) or None, primary(target) or None


def show_texts(document: Path, parts: DocumentOptions):
    """Prints each text of a document with its place, and counts what stays as it is.

    Raises:
        Failure: the document cannot be read.
    """
    content = read(document, parts)
    for text in content.texts:
        for nodes in split_texts(text.nodes):
            line = " | ".join(flatten(nodes).text.splitlines())
            print(f"{text.place}\t{line}" if text.place else line)
    counts = [f"{reason} ({number:,})" for reason, number in content.untranslated.items()]
    if counts:
        err.print(f"Unchanged: {', '.join(counts)}", style="dim", highlight=False)


def read(document: Path, parts: DocumentOptions) -> Any:
    try:
        return read_content(document.read_bytes(), document.name, parts.for_reading())
    except (DocumentError, OSError) as error:
        raise Failure(f"Cannot read the document: {error}") from error


def translate(
    document: Path,
    output: Path,
    parts: DocumentOptions,
    pipeline: Any,
    settings: dict[str, Any],
    choice: ModelChoice,
    terms: TermCounter,
):
    """Writes the translated document and prints its warnings.

    Raises:
        Failure: the document cannot be translated, read or written.
    """
    record = pipeline.training_texts
    target = choice.to or record.target_language or None
    source_language = choice.source_language or record.source_language
    translator = DocumentTranslator(pipeline, target, settings, source_language=source_language)
    try:
        translate_document(document, output, translator, parts.for_reading())
    except (DocumentError, OSError) as error:
        raise Failure(f"Cannot translate the document: {error}") from error
    terms.count(translator.terms)
    warnings = Warnings("passages")
    for warning in translator.warnings:
        warnings.add(warning)
    warnings.summarise()
