"""Translate documents and keep everything except their texts.

    translate_document("report.docx", "report.de.docx", DocumentTranslator(pipeline, "de"))

Each format has a module; `FORMATS` lists them by suffix. Their libraries come with
`pip install "vaswani-transformer[documents]"`.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ..system.files import atomic_file
from .translator import DocumentError, DocumentTranslator, missing_library


class Format(NamedTuple):
    """The function that translates a format: (content, translator) -> content, with a list of keys if `has_keys`.

    The content is a string for text formats, which are in UTF-8, and bytes for the others.
    """

    module: str  # of this folder; imported on demand, because its library may be missing
    function: str = "translate"
    is_text: bool = True
    has_keys: bool = False


FORMATS = {
    ".txt": Format("plain"),
    ".md": Format("markdown"),
    ".markdown": Format("markdown"),
    ".html": Format("html"),
    ".htm": Format("html"),
    ".srt": Format("subtitles"),
    ".vtt": Format("subtitles"),
    ".json": Format("data", "translate_json", has_keys=True),
    ".yaml": Format("data", "translate_yaml", has_keys=True),
    ".yml": Format("data", "translate_yaml", has_keys=True),
    ".docx": Format("word", is_text=False),
    ".po": Format("bilingual", "translate_gettext", is_text=False),
    ".pot": Format("bilingual", "translate_gettext", is_text=False),
    ".xliff": Format("bilingual", "translate_xliff", is_text=False),
    ".xlf": Format("bilingual", "translate_xliff", is_text=False),
    ".tmx": Format("bilingual", "translate_tmx", is_text=False),
}
SUFFIXES = sorted(FORMATS)
BOM = "\N{ZERO WIDTH NO-BREAK SPACE}".encode()


def translate_document(
    source: str | Path, output: str | Path, translator: DocumentTranslator, keys: Sequence[str] = ()
):
    """Translate a document into another file, with the same permissions.

    The output is written completely or not at all.

    Args:
        source: The document. Its suffix names the format, which is also that of the output.
        output: The file to write.
        translator: Translates the texts. Afterwards its `warnings` lists the suspicious translations.
        keys: In JSON and YAML, translate only the texts of these keys, such as "title" or "*.text". By default all
            texts are translated.

    Raises:
        DocumentError: The format is unknown, its library is missing, or the file is damaged or in another format.
        OSError: A file cannot be read or written.
    """
    source = Path(source)
    content = translate_content(source.read_bytes(), source.name, translator, keys)
    with atomic_file(output, source.stat().st_mode) as partial:
        partial.write_bytes(content)


def translate_content(content: bytes, name: str, translator: DocumentTranslator, keys: Sequence[str] = ()) -> bytes:
    """Translate a document that is in memory.

    Args:
        content: The bytes of the document.
        name: A file name, whose suffix names the format.
        translator, keys: As for `translate_document`.

    Returns:
        The bytes of the translated document.

    Raises:
        DocumentError: The format is unknown, its library is missing, or the content is damaged or in another format.
    """
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        raise DocumentError(f"{name}: unsupported document format. Supported: {', '.join(SUFFIXES)}.")
    document_format = FORMATS[suffix]
    if keys and not document_format.has_keys:
        with_keys = ", ".join(suffix for suffix in SUFFIXES if FORMATS[suffix].has_keys)
        raise DocumentError(f"{name}: keys can be chosen only in {with_keys} files.")
    try:
        translate = getattr(import_module(f".{document_format.module}", __name__), document_format.function)
        if not document_format.is_text:
            return translate(content, translator)
        bom = BOM if content.startswith(BOM) else b""
        text = content.removeprefix(bom).decode()
        arguments = [list(keys)] if document_format.has_keys else []
        return bom + translate(text, translator, *arguments).encode()
    except ImportError as error:
        raise missing_library(suffix, error) from error
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{name} is not UTF-8 (byte {error.object[error.start]:#04x} at position {error.start}). Convert it first, "
            "e.g. with `iconv -f latin1 -t utf-8`."
        ) from error
    except RecursionError as error:
        raise DocumentError(f"{name}: the document is nested too deeply.") from error
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from error


__all__ = ["FORMATS", "SUFFIXES", "DocumentError", "DocumentTranslator", "translate_content", "translate_document"]
