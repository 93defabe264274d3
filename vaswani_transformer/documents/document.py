"""What a format's module makes of a file: its texts with their places, and the file with other texts in these places.

A document is the original with its translated texts replaced. `TextDocument` does this for formats that are text.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .inline import Element, Node, Object, expanded


Languages = tuple[str | None, str | None]


class DocumentError(ValueError):
    """The document cannot be translated; the message says why."""


@dataclass(frozen=True)
class Options:
    """What a user can choose.

    Args:
        keys: In JSON, YAML, .properties, .strings and the front matter of Markdown, translate the texts of these keys,
            such as "title" or "*.text". By default all texts are translated, but none of a front matter.
        comments: Translate the comments of Word documents.
        keep_anchors: In Markdown, give each heading the anchor that its original has.
        target_language: A code such as "de", for formats that record the language; set by `translate_content`.
    """

    keys: Sequence[str] = ()
    comments: bool = False
    keep_anchors: bool = False
    target_language: str | None = None


@dataclass
class Text:
    """A text that people read.

    Args:
        nodes: Its words and markup.
        place: Where it is, such as "line 12" or "cell B2".
    """

    nodes: list[Node]
    place: str


class Translated(NamedTuple):
    """A translated text, and warnings about it."""

    nodes: list[Node]
    warnings: Sequence[str] = ()


class Document(Protocol):
    """A file that has been read.

    Attributes:
        texts: The texts to translate, in their order.
        untranslated: What is left alone, such as "code blocks", and how often.
        languages: The source and the target language that the file names, such as "en-US"; None if it does not.
    """

    texts: Sequence[Text]
    untranslated: Counter[str]
    languages: Languages

    def write(self, translated: Sequence[Translated]) -> bytes:
        """Return the file with each of its texts replaced.

        Raises:
            DocumentError: The format cannot represent a translation.
        """


@dataclass
class Span(Text):
    """A text with its place in the content.

    Args:
        begin, end: Its place, in characters.
        render: Writes nodes in the format; for the nodes of the original it need not give the same text.
    """

    begin: int
    end: int
    render: Callable[[list[Node]], str]


@dataclass
class TextDocument:
    """A file in a text format.

    Args:
        content: The file as text, as it is: with its line ends, and without a byte order mark.
        texts: The texts, without overlaps.
        untranslated, languages: As in `Document`.
        edits: Other changes, such as that of a recorded language: spans of the content and their new text.
    """

    content: str
    texts: Sequence[Span]
    untranslated: Counter[str] = field(default_factory=Counter)
    languages: Languages = (None, None)
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def write(self, translated: Sequence[Translated]) -> bytes:
        edits = list(self.edits)
        for text, (nodes, _) in zip(self.texts, translated, strict=True):
            # Many spellings mean the same; a text that has not changed keeps its own.
            if not are_equal(nodes, text.nodes):
                edits.append((text.begin, text.end, text.render(nodes)))
        parts, last = [], 0
        for begin, end, new in sorted(edits, key=lambda edit: edit[:2]):
            parts += [self.content[last:begin], new]
            last = end
        return "".join([*parts, self.content[last:]]).encode()


def primary(language: str | None) -> str:
    """Return "en" for "en-US" and "en_GB", and "" for None and TMX's "*all*"."""
    return (language or "").replace("_", "-").partition("-")[0].strip("*").lower().removeprefix("all")


def check_languages(recorded: Languages, wanted: Languages):
    """Raise DocumentError if a file names other languages than those of the translation."""
    for side, file_language, language in zip(("from", "into"), recorded, wanted, strict=True):
        if primary(file_language) and primary(language) and primary(file_language) != primary(language):
            raise DocumentError(
                f"The file is for a translation {side} {file_language}, but this one is {side} {language}. Choose "
                "another checkpoint, or change the language that the file names."
            )


def are_equal(first: Sequence[Node], second: Sequence[Node]) -> bool:
    """Return whether two texts have the same words, elements and objects in the same order."""
    return shape(first) == shape(second)


def shape(nodes: Sequence[Node]) -> list:
    """Return nodes as values that can be compared; markup is equal if it has the same origin."""
    values: list = []
    for node in expanded(nodes):
        if isinstance(node, str):
            values.append(node)
        elif isinstance(node, Element | Object):
            content = shape(node.nodes) if isinstance(node, Element) else None
            values.append((id(node.origin), content, [shape(text) for text in node.texts]))
    return values
