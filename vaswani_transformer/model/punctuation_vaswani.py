"""Punctuation of a translation: the mark at its end, which follows the source, and the spaces of French."""

import re

from .items_vaswani import KEPT_ITEM
from .numbers_vaswani import LANGUAGES
from .spans_vaswani import Replaced, overlaps


FINAL_MARK = re.compile(r"(?<=[\w)\]%°€$£])(?:\s?([.,;:!?]))?$")  # one mark after a word, or none
NO_ABBREVIATION = re.compile(r"(?:[^\W\d_]{4}|\))$")  # before a full stop: not "5 p.m.", "Inc."
FRENCH_MARK = re.compile(r"(?:(?<=[^\W_]{2})|(?<=[)\]»%€$£°]))(?=[:;!?]+(?:\s|$))")  # not in "C: " and "12:30"


def with_final_mark(translation: str, source: str, language: str | None) -> Replaced:
    """Return an English, German or French translation whose final punctuation follows its source.

    A full stop is removed if the source ends without a mark; a missing mark is added; a comma, semicolon or colon is
    copied. List items often end in a comma or without a mark, but models learn to write a full stop. Texts that end in
    quotation marks or several marks stay as they are, and so do other differences, such as "Komm!" and "Come."
    """
    wanted, end = FINAL_MARK.search(source), FINAL_MARK.search(translation)
    if language not in LANGUAGES or not wanted or not end:
        return Replaced(translation)
    mark, is_stop = wanted[1] or "", end[1] == "."
    is_added = not mark and is_stop and NO_ABBREVIATION.search(translation, 0, end.start())
    is_lost = mark and not end[1] and (mark != "." or NO_ABBREVIATION.search(source, 0, wanted.start()))
    if not (is_added or is_lost or (mark in (",", ";", ":") and end[1] != mark)):
        return Replaced(translation)
    return Replaced(translation, [(end.span(), mark)])


def with_french_spaces(translation: str, language: str | None) -> Replaced:
    """Return a French translation with a space before the marks that need one."""
    if language != "fr":
        return Replaced(translation)
    items = [match.span() for match in KEPT_ITEM.finditer(translation)]
    places = (match.span() for match in FRENCH_MARK.finditer(translation))
    return Replaced(translation, ((span, " ") for span in places if not overlaps(span, items)))
