"""`vaswani translate report.docx --output report.de.docx`: one document, as a whole."""

import os
from pathlib import Path
from typing import Any

import typer

from ..documents import SUFFIXES, DocumentError, DocumentTranslator, translate_document
from ..system.console import Failure, Warnings
from .glossaries import TermCounter
from .options import Results, Splitting


def document_in(texts: list[str] | None, input: Path | None, output: Path | None) -> Path | None:
    """Returns the document to translate: --input, or with --output a text that is the name of a file; None for lines.

    A plain text file given by --input is translated line by line.
    """
    if input is not None:
        return input if input.suffix.lower() in {*SUFFIXES} - {".txt"} else None
    if output is None or not texts or len(texts) > 1:
        return None
    document = Path(texts[0])
    suffix, exists = document.suffix.lower(), os.path.isfile(document)  # which takes a text of any length, too
    if not suffix or not (exists or suffix == output.suffix.lower()):
        return None
    if suffix not in SUFFIXES:
        raise typer.BadParameter(
            f"Unsupported format: {document}. Supported are {', '.join(SUFFIXES)}; --input translates any UTF-8 file "
            "line by line.",
            param_hint="TEXT",
        )
    if not exists:
        raise typer.BadParameter(f"File not found: {document}", param_hint="TEXT")
    return document


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
        raise typer.BadParameter(f"For lines only, not for documents: {', '.join(unsuitable)}")


def translate(
    document: Path,
    output: Path,
    keys: list[str],
    pipeline: Any,
    settings: dict[str, Any],
    language: str | None,
    terms: TermCounter,
):
    """Writes the translated document and prints its warnings; `language` is the target language if it is given.

    Raises:
        Failure: the document cannot be translated, read or written.
    """
    record = pipeline.training_texts
    translator = DocumentTranslator(pipeline, language or record.target_language or None, settings)
    try:
        translate_document(document, output, translator, keys)
    except (DocumentError, OSError) as error:
        raise Failure(f"Cannot translate the document: {error}") from error
    terms.count(translator.terms)
    warnings = Warnings("passages")
    for warning in translator.warnings:
        warnings.add(warning)
    warnings.summarise()
