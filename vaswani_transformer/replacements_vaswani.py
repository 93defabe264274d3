"""A text with other words in some places, and which place of the one is which of the other."""

from collections.abc import Iterable

from .words_vaswani import Span


class Replaced:
    """A text in which some spans are replaced.

    Args:
        original: The text.
        replacements: Spans of it in characters, from left to right and apart, each with what takes its place.
    """

    def __init__(self, original: str, replacements: Iterable[tuple[Span, str]] = ()):
        self.original, self.text = original, ""
        self.places: list[tuple[Span, Span]] = []  # of what is replaced: in the original, in the text
        last = 0
        for (begin, end), new in replacements:
            self.text += original[last:begin]
            self.places.append(((begin, end), (len(self.text), len(self.text) + len(new))))
            self.text += new
            last = end
        self.text += original[last:]

    def in_original(self, span: Span) -> Span:
        """A span of the text -> of the original; what lies in a replaced place becomes all of that place."""
        return moved(span, [(new, old) for old, new in self.places])

    def in_text(self, span: Span) -> Span:
        """A span of the original -> of the text."""
        return moved(span, self.places)


def moved(span: Span, places: list[tuple[Span, Span]]) -> Span:
    begin, end = span
    first, last = span
    for (a, b), (c, d) in places:
        if begin >= b:
            first = begin + d - b
        elif begin >= a:
            first = c
        if end > b:
            last = end + d - b
        elif end > a:
            last = d
    return first, last
