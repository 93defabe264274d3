"""Plain text: the pipeline itself keeps line ends, blank lines and indents."""

from .document import Options, Span, TextDocument
from .inline import text_of


def read(content: str, options: Options) -> TextDocument:
    """Take a text of any length as one text, whose sentences the pipeline separates."""
    texts = [Span([content], "", 0, len(content), lambda nodes: "".join(map(text_of, nodes)))]
    return TextDocument(content, texts if content.strip() else [])
