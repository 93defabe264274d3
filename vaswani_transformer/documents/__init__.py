"""Translate documents and keep everything except their texts.

    translate_document("report.docx", "report.de.docx", DocumentTranslator(pipeline, "de"))

Each format has a module with a function `read`; `FORMATS` lists them by suffix. Their libraries come with
`pip install "vaswani-transformer[documents]"`.
"""

import codecs
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ..system.files import atomic_file
from .document import Document, DocumentError, Options, Text, Translated, check_languages
from .translator import DocumentTranslator, missing_library


class Format(NamedTuple):
    """The function that reads a format: (content, options) -> Document.

    The content is a string for text formats, which are in UTF-8, and bytes for the others.
    """

    module: str  # of this folder; imported on demand, because its library may be missing
    function: str = "read"
    is_text: bool = True
    has_keys: bool = False


FORMATS = {
    ".txt": Format("plain"),
    ".md": Format("markdown", has_keys=True),
    ".markdown": Format("markdown", has_keys=True),
    ".mdx": Format("markdown", "read_mdx", has_keys=True),
    ".ipynb": Format("notebook"),
    ".html": Format("html"),
    ".htm": Format("html"),
    ".srt": Format("subtitles"),
    ".vtt": Format("subtitles"),
    ".json": Format("data", "read_json", has_keys=True),
    ".arb": Format("data", "read_json", has_keys=True),
    ".yaml": Format("data", "read_yaml", has_keys=True),
    ".yml": Format("data", "read_yaml", has_keys=True),
    ".properties": Format("pairs", "read_properties", is_text=False, has_keys=True),
    ".strings": Format("pairs", "read_strings", has_keys=True),
    ".docx": Format("word", is_text=False),
    ".pptx": Format("presentation", is_text=False),
    ".xlsx": Format("spreadsheet", is_text=False),
    ".odt": Format("opendocument", is_text=False),
    ".odp": Format("opendocument", is_text=False),
    ".ods": Format("opendocument", is_text=False),
    ".epub": Format("epub", is_text=False),
    ".po": Format("gettext", is_text=False),
    ".pot": Format("gettext", is_text=False),
    ".xliff": Format("xliff", is_text=False),
    ".xlf": Format("xliff", is_text=False),
    ".tmx": Format("tmx", is_text=False),
}
SUFFIXES = sorted(FORMATS)
# What to do with formats that users try, by suffix.
ADVICE = {
    ".pdf": "It stores letters at positions, not sentences. Translate the document that it was made from.",
    **dict.fromkeys((".doc", ".rtf", ".pages", ".wpd"), "Save it as .docx or .odt first."),
    **dict.fromkeys((".ppt", ".key"), "Save it as .pptx first."),
    **dict.fromkeys((".xls", ".numbers"), "Save it as .xlsx first."),
    ".odg": "Save it as .odp first, or translate the document that it is a part of.",
    ".rst": "Convert it to Markdown first, e.g. with pandoc, or translate the .po files that Sphinx makes from it.",
    ".tex": "Convert it to Markdown or .docx first, e.g. with pandoc.",
}
# Byte order marks and their encodings; that of UTF-32 begins like that of UTF-16.
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def translate_document(
    source: str | Path, output: str | Path, translator: DocumentTranslator, options: Options | None = None
):
    """Translate a document into another file, with the same permissions.

    The output is written completely or not at all.

    Args:
        source: The document. Its suffix names the format, which is also that of the output.
        output: The file to write.
        translator: Translates the texts. Afterwards its `warnings` lists the suspicious translations.
        options: What to translate, and how.

    Raises:
        DocumentError: The format is unknown, its library is missing, or the file is damaged or in another format.
        OSError: A file cannot be read or written.
    """
    source = Path(source)
    content = translate_content(source.read_bytes(), source.name, translator, options)
    with atomic_file(output, source.stat().st_mode) as partial:
        partial.write_bytes(content)


def translate_content(
    content: bytes, name: str, translator: DocumentTranslator, options: Options | None = None
) -> bytes:
    """Translate a document that is in memory.

    Args:
        content: The bytes of the document.
        name: A file name, whose suffix names the format.
        translator, options: As for `translate_document`.

    Returns:
        The bytes of the translated document.

    Raises:
        DocumentError: The format is unknown, its library is missing, or the content is damaged or in another format.
    """
    options = replace(options or Options(), target_language=translator.target_language)
    document = read_content(content, name, options)
    try:
        check_languages(document.languages, (translator.source_language, translator.target_language))
        written = document.write(translator(document.texts))
    except RecursionError as error:
        raise DocumentError(f"{name}: the document is nested too deeply.") from error
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from error
    mark, encoding = encoding_of(content, name)
    return written if encoding == "utf-8" and not mark else mark + written.decode().encode(encoding)


def read_content(content: bytes, name: str, options: Options | None = None) -> Document:
    """Find the texts of a document that is in memory.

    Args:
        content, name, options: As for `translate_content`.

    Raises:
        DocumentError: As for `translate_content`.
    """
    options = options or Options()
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        raise DocumentError(f"{name}: {unsupported(suffix)}")
    document_format = FORMATS[suffix]
    if options.keys and not document_format.has_keys:
        with_keys = ", ".join(suffix for suffix in SUFFIXES if FORMATS[suffix].has_keys)
        raise DocumentError(f"{name}: keys can be chosen only in {with_keys} files.")
    try:
        read = getattr(import_module(f".{document_format.module}", __name__), document_format.function)
        if not document_format.is_text:
            return read(content, options)
        mark, encoding = encoding_of(content, name)
        return read(content.removeprefix(mark).decode(encoding), options)
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


def unsupported(suffix: str) -> str:
    """Return the message about a format that cannot be translated."""
    return f"unsupported document format. {ADVICE.get(suffix, '')} Supported: {', '.join(SUFFIXES)}.".replace("  ", " ")


def encoding_of(content: bytes, name: str) -> tuple[bytes, str]:
    """Return the byte order mark of a text format, and the encoding that it means; UTF-8 without a mark."""
    if FORMATS[Path(name).suffix.lower()].is_text:
        for mark, encoding in MARKS.items():
            if content.startswith(mark):
                return mark, encoding
    return b"", "utf-8"


__all__ = [
    "ADVICE",
    "FORMATS",
    "SUFFIXES",
    "Document",
    "DocumentError",
    "DocumentTranslator",
    "Options",
    "Text",
    "Translated",
    "read_content",
    "translate_content",
    "translate_document",
    "unsupported",
]
