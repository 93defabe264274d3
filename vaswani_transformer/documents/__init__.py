"""Documents: their texts are translated, and all else stays as it is.

    translate_document("report.docx", "report.de.docx", DocumentTranslator(pipeline, "de"))

Each format has a module, which takes a file's content and gives the translated one; the libraries for them come with
`pip install "vaswani-transformer[documents]"`.
"""

from collections.abc import Sequence
from pathlib import Path

from ..system.files import atomic_file
from .translator import DocumentError, DocumentTranslator


TEXT = {".txt", ".md", ".markdown", ".html", ".htm", ".srt", ".vtt", ".json", ".yaml", ".yml"}  # in UTF-8
CATALOGUES = {".po", ".pot", ".xliff", ".xlf", ".tmx"}
WITH_KEYS = {".json", ".yaml", ".yml"}
SUFFIXES = sorted({*TEXT, *CATALOGUES, ".docx"})
EXTRA = 'pip install "vaswani-transformer[documents]"'


def translate_document(
    source: str | Path, output: str | Path, translator: DocumentTranslator, keys: Sequence[str] = ()
):
    """Writes the translation of a document, whole or not at all.

    Args:
        source, output: Files of the same format, which the source's suffix names.
        translator: What translates the texts; afterwards it holds what is to be said of them.
        keys: For JSON and YAML the keys whose texts are translated, such as "title" or "*.text"; by default all are.

    Raises:
        DocumentError: the format is unknown, its library is missing, or the file is not what its name says.
        OSError: a file cannot be read or written.
    """
    source = Path(source)
    content = translate_content(source.read_bytes(), source.name, translator, keys)
    with atomic_file(output) as partial:
        partial.write_bytes(content)


def translate_content(content: bytes, name: str, translator: DocumentTranslator, keys: Sequence[str] = ()) -> bytes:
    """A document's bytes -> those of its translation; `name` tells the format by its suffix. Raises as above."""
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise DocumentError(f"{name}: unknown kind of document. Known: {', '.join(SUFFIXES)}.")
    if keys and suffix not in WITH_KEYS:
        raise DocumentError(f"{name}: only {', '.join(sorted(WITH_KEYS))} have keys.")
    try:
        if suffix == ".docx":
            from . import word

            return word.translate(content, translator)
        if suffix in CATALOGUES:
            from . import catalogues

            return catalogues.translate(content, name, translator)
        mark = b"\xef\xbb\xbf" if content.startswith(b"\xef\xbb\xbf") else b""
        return mark + translate_text(content.removeprefix(mark).decode(), suffix, translator, list(keys)).encode()
    except ImportError as error:
        raise DocumentError(f"For {suffix} files install the documents extra: {EXTRA} ({error.name}).") from error
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{name} is not UTF-8 (byte {error.object[error.start]:#04x} at position {error.start}). Convert it first, "
            "e.g. with `iconv -f latin1 -t utf-8`."
        ) from error
    except RecursionError as error:
        raise DocumentError(f"{name}: Its parts stand too deeply in each other.") from error
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from error


def translate_text(text: str, suffix: str, translator: DocumentTranslator, keys: list[str]) -> str:
    if suffix in (".html", ".htm"):
        from . import html

        return html.translate(text, translator)
    if suffix in (".md", ".markdown"):
        from . import markdown

        return markdown.translate(text, translator)
    if suffix in (".srt", ".vtt"):
        from . import subtitles

        return subtitles.translate(text, translator)
    if suffix in WITH_KEYS:
        from . import data

        return (data.translate_json if suffix == ".json" else data.translate_yaml)(text, translator, keys)
    return translator.texts([text])[0]


__all__ = ["SUFFIXES", "DocumentError", "DocumentTranslator", "translate_content", "translate_document"]
