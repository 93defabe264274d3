"""`vaswani translate report.docx --output report.de.docx`: one document, as a whole."""

from pathlib import Path

import typer

from ..documents import SUFFIXES, DocumentError, DocumentTranslator, translate_document
from .console import Failure, warn


WARNINGS_SHOWN = 5


def document_in(texts: list[str] | None, input: Path | None, output: Path | None) -> Path | None:
    """The document that the arguments mean, if they do: --input, or a text that is a file's name, with --output.

    A plain text given by --input is translated line by line, as ever.
    """
    if input is not None:
        return input if input.suffix.lower() in {*SUFFIXES} - {".txt"} else None
    if output is None or not texts or len(texts) > 1 or Path(texts[0]).suffix.lower() not in SUFFIXES:
        return None
    if Path(texts[0]).is_file():
        return Path(texts[0])
    if output.suffix.lower() == Path(texts[0]).suffix.lower():
        raise typer.BadParameter(f"There is no file {texts[0]}.", param_hint="TEXT")
    return None


def check_arguments(document: Path, output: Path | None, lines_only: dict[str, bool]):
    """Refuses what has no meaning for a document, and an output that would be of another kind."""
    if output is None:
        raise typer.BadParameter(
            f"A document needs a file to be written to: --output {document.stem}.XX{document.suffix}",
            param_hint="--output",
        )
    if output.suffix.lower() != document.suffix.lower():
        raise typer.BadParameter(
            f"{document.name} stays a {document.suffix} file; the output is called {output.name}.",
            param_hint="--output",
        )
    if output.exists() and output.samefile(document):
        raise typer.BadParameter("The output file is the document itself. Choose another name.", param_hint="--output")
    if asked := [name for name, is_asked in lines_only.items() if is_asked]:
        raise typer.BadParameter(f"{', '.join(asked)}: for lines, not for documents.")


def translate(document: Path, output: Path, keys: list[str], translator: DocumentTranslator):
    """Writes the translated document, and says what needs a look.

    Raises:
        Failure: it cannot be translated, read or written.
    """
    try:
        translate_document(document, output, translator, keys)
    except (DocumentError, OSError) as error:
        raise Failure(f"Cannot translate the document: {error}") from error
    for warning in translator.warnings[:WARNINGS_SHOWN]:
        warn(warning)
    if len(translator.warnings) > WARNINGS_SHOWN:
        warn(f"{len(translator.warnings)} places need a look.")
