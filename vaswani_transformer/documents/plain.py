"""Plain text: the pipeline itself keeps line ends, blank lines and indents."""

from .translator import DocumentTranslator


def translate(text: str, translator: DocumentTranslator) -> str:
    """Translate a text of any length."""
    return translator.texts([text])[0]
