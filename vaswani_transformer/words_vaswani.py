"""Where in a text its words are, and its first few in quotes."""

import re


Span = tuple[int, int]  # where something begins and ends in its text, in characters


def words(text: str) -> list[Span]:
    """Words and marks of punctuation; "don't" and "77.8" are words."""
    return [match.span() for match in re.finditer(r"\w+(?:[-'’.,]\w+)*|[^\w\s]", text)]


def shortened(text: str, length: int = 40) -> str:
    """The start of a text, in quotes."""
    text = " ".join(text.split())
    return f'"{text}"' if len(text) <= length else f'"{text[:length].rsplit(" ", 1)[0]} ..."'
