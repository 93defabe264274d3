"""Texts of any length as sentences to translate, and what stays as it is between them.

Sentences are found by sentencex; without it (`pip install sentencex`) a line counts as one. Line ends, indents, bullets
and spacing stay, and so does what has no words: numbers, URLs, placeholders, symbols, emoji.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from transformers.utils import logging

from .checks_vaswani import outside_kept_items


try:
    from sentencex import segment
except ImportError:  # a checkpoint's code from the Hub may be used without it
    segment = None

logger = logging.get_logger(__name__)
LINE_END = re.compile(r"(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
# What may stand before the first sentence of a line: quotation marks of e-mail, bullets, "a)", "12)", "(iv)".
MARKER = re.compile(r"\s*(?:(?:[-*+•‣▪◦·–—>#]+|\(?(?:\d{1,3}|[a-z]|[ivx]{1,4})\))\s+)*")
NUMBER = re.compile(r"\d{1,3}\.\s+")  # in German, an ordinal
# Ends of sentences that are none, which sentencex takes for some: "M. Dupont", "art. 3".
ABBREVIATIONS = {
    "fr": "M MM Mme Mmes Mlle Mlles Me Dr Pr St Ste art al chap éd env ex fig p pp vol tél av apr cf",
    "en": "vs fig figs eq sec ch p pp al ed eds approx est",
    "de": "Abs Art Nr Bd Abb Tab Kap Hrsg ca bzw vgl",
}
LONGEST_WORD = 200  # characters; what is longer is no word of any language
# Where a sentence that is too long is split, best first.
BREAKS = [re.compile(pattern) for pattern in (r"(?<=;)\s+", r"(?<=:)\s+|\s+(?=[–—(])", r"(?<=,)\s+", r"\s+")]


class Part(NamedTuple):
    """A sentence to translate, or what stands between two."""

    text: str
    is_sentence: bool


def parts(text: str, language: str | None = None) -> list[Part]:
    """A text cut into sentences and what stays as it is; put together they are the text again."""
    found = []
    for i, line in enumerate(LINE_END.split(text)):
        found += [Part(line, False)] if i % 2 else of_line(line, language)
    return [part for part in found if part.text]


def of_line(line: str, language: str | None = None) -> list[Part]:
    start = MARKER.match(line).end()
    if language != "de" and (number := NUMBER.match(line, start)):
        start = number.end()
    found = [Part(line[:start], False)]
    for sentence in sentences(line[start:], language):
        found += bare(sentence)
    return found


def bare(text: str) -> list[Part]:
    """A sentence without the space around it, and that space."""
    sentence = text.strip()
    before, _, after = text.partition(sentence) if sentence else (text, "", "")
    parts_of_it = Part(before, False), Part(sentence, has_words(sentence)), Part(after, False)
    return [part for part in parts_of_it if part.text]


def sentences(line: str, language: str | None = None) -> list[str]:
    """The sentences of a line, each with the space after it."""
    if segment is None:
        logger.warning_once("Texts are split at line ends only. To split them into sentences: pip install sentencex")
    if segment is None or not line.strip():
        return [line]
    cut = segment(language or "en", line)
    if "".join(cut) != line:
        return [line]
    whole: list[str] = []
    for sentence in cut:
        if whole and is_open(whole[-1], language):
            whole[-1] += sentence
        else:
            whole.append(sentence)
    return whole


def is_open(sentence: str, language: str | None) -> bool:
    """Whether what ends here is not a sentence but an abbreviation, a lone number, or spacing."""
    last = re.search(r"(?:^|[\s(«\"'’])(\w+)\.\s*$", sentence)
    if last is None:
        return not sentence.strip()
    word = last[1]
    return (len(word) == 1 and word.isupper()) or word in ABBREVIATIONS.get(language or "en", "").split()


def has_words(text: str) -> bool:
    """Whether there is anything to translate: a word of two letters or more, outside of what is always kept."""
    if max(map(len, text.split()), default=0) > LONGEST_WORD:  # on which patterns would also take long
        return False
    return re.search(r"[^\W\d_]{2}", outside_kept_items(text)) is not None


def clauses(sentence: str, fits: Callable[[str], bool]) -> list[str]:
    """A sentence cut at clauses, near the middle and again, until each piece fits or has no space in it."""
    if fits(sentence):
        return [sentence]
    for pattern in BREAKS:
        places = [match.end() for match in pattern.finditer(sentence)]
        middle = [place for place in places if 0.2 * len(sentence) <= place <= 0.8 * len(sentence)]
        if pattern is BREAKS[-1]:
            middle = middle or [place for place in places if 0 < place < len(sentence)]
        if middle:
            place = min(middle, key=lambda place: abs(place - len(sentence) / 2))
            return clauses(sentence[:place], fits) + clauses(sentence[place:], fits)
    return [sentence]
