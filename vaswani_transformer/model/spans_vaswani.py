"""Spans of a text: its words, and the places where other words take theirs."""

import re
from collections.abc import Iterable


Span = tuple[int, int]  # where something begins and ends in its text, in characters


def words(text: str) -> list[Span]:
    """Words and marks of punctuation; "don't" and "77.8" are words."""
    return [match.span() for match in re.finditer(r"\w+(?:[-'’.,]\w+)*|[^\w\s]", text)]


def shortened(text: str, length: int = 40) -> str:
    """The start of a text, in quotes."""
    text = " ".join(text.split())
    return f'"{text}"' if len(text) <= length else f'"{text[:length].rsplit(" ", 1)[0]} ..."'


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
