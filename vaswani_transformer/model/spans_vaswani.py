"""Spans of a text: its words, and places where other words replace them."""

import re
from collections.abc import Iterable
from typing import Any


Span = tuple[int, int]  # where something begins and ends in its text, in characters


def words(text: str) -> list[Span]:
    """Return the spans of words and punctuation marks; "don't" and "77.8" are words."""
    return [match.span() for match in re.finditer(r"\w+(?:[-'’.,]\w+)*|[^\w\s]", text)]


def shortened(text: str, length: int = 40) -> str:
    """Return the start of a text, in quotes."""
    text = " ".join(text.split())
    return f'"{text}"' if len(text) <= length else f'"{text[:length].rsplit(" ", 1)[0]} ..."'


def overlaps(span: Span, spans: Iterable[Span]) -> bool:
    return any(span[0] < end and begin < span[1] for begin, end in spans)


class Replaced:
    """A text in which some spans are replaced.

    Args:
        original: The text.
        replacements: Spans of the text, from left to right and without overlaps, each with its replacement.

    Attributes:
        text: The text with the replacements.
        places: For each replacement its span in `original` and its span in `text`.
    """

    def __init__(self, original: str, replacements: Iterable[tuple[Span, str]] = ()):
        self.original, self.text = original, ""
        self.places: list[tuple[Span, Span]] = []
        last = 0
        for (begin, end), new in replacements:
            self.text += original[last:begin]
            self.places.append(((begin, end), (len(self.text), len(self.text) + len(new))))
            self.text += new
            last = end
        self.text += original[last:]

    def in_original(self, span: Span) -> Span:
        """Map a span of `text` to `original`; a part of a replacement maps to the whole place."""
        return map_span(span, [(new, old) for old, new in self.places])

    def in_text(self, span: Span) -> Span:
        """Map a span of `original` to `text`; a part of a replaced place maps to the whole replacement."""
        return map_span(span, self.places)


def replace_in(translation: dict[str, Any], replaced: Replaced):
    """Replace the text of a pipeline record; update its spans, and drop those of removed words."""

    def moved(span: Span) -> Span:
        return replaced.in_text(span)

    translation["translation_text"] = replaced.text
    if "alignments" in translation:
        pairs = [(source, moved(target)) for source, target in translation["alignments"]]
        translation["alignments"] = [(source, (begin, end)) for source, (begin, end) in pairs if begin < end]
    if "word_confidences" in translation:
        values = [(moved(span), confidence) for span, confidence in translation["word_confidences"]]
        translation["word_confidences"] = [((begin, end), value) for (begin, end), value in values if begin < end]


def map_span(span: Span, places: list[tuple[Span, Span]]) -> Span:
    """Map a span from one text to another, given the pairs of spans in which they differ."""
    begin, end = span
    new_begin, new_end = span
    for (old_first, old_last), (new_first, new_last) in places:
        if begin >= old_last:
            new_begin = begin + new_last - old_last
        elif begin >= old_first:
            new_begin = new_first
        if end > old_last:
            new_end = end + new_last - old_last
        elif end > old_first:
            new_end = new_last
    return new_begin, new_end
