"""Cuts texts into sentences to translate and the parts between them that stay unchanged.

sentencex finds the sentences; if it is not installed, each line counts as one sentence. Line ends, indents, bullets and
spacing stay unchanged, and so does text without words: numbers, URLs, placeholders, symbols, emoji.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from transformers.utils import logging

from .items_vaswani import outside_kept_items


try:
    from sentencex import segment
except ImportError:  # code that was loaded from the Hub also runs without it
    segment = None

logger = logging.get_logger(__name__)
LINE_END = re.compile(r"(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
# Marks before the first sentence of a line: quotation marks of e-mail, bullets, "a)", "12)", "(iv)".
MARKER = re.compile(r"\s*(?:(?:[-*+•‣▪◦·–—>#]+|\(?(?:\d{1,3}|[a-z]|[ivx]{1,4})\))\s+)*")
NUMBER = re.compile(r"\d{1,3}\.\s+")  # "1. "; in German it may be an ordinal
# Abbreviations that sentencex mistakes for sentence ends: "M. Dupont", "art. 3".
ABBREVIATIONS = {
    "fr": "M MM Mme Mmes Mlle Mlles Mgr Me Dr Pr St Ste art al chap éd env ex fig p pp vol tél av apr cf Bd bd boul gén"
    " lt cdt Cie Sté Ets Réf réf Adr adr Dép dép Qté qté Trad trad janv févr juil oct nov déc",
    "en": "vs fig figs eq sec ch p pp al ed eds approx est Approx Fig Figs Vol vol Op op Ch Tel tel Est Dept dept Tues"
    " Thurs",
    "de": "Abs Art Nr Bd Abb Tab Kap Hrsg ca bzw vgl inkl exkl zzgl abzgl Tel geb Geb gest Jh Dipl Ing max min gem Gem"
    " allg Allg bspw Bspw bes Bes Inh Jan Feb Aug Sept Okt Nov Dez",
}
# In "im 2. Stock" the number is an ordinal; in "Ich bin 12. Du bist 13." the second sentence begins with a common word.
GERMAN_ORDINAL = re.compile(r"(?:^|\s)\d{1,2}\.\s*$")
GERMAN_BEGINNINGS = set(
    "Der Die Das Dem Den Des Ein Eine Einer Eines Einem Einen Ich Du Er Sie Es Wir Ihr Man Mein Meine Dein "
    "Deine Sein Seine Ihre Unser Unsere Dieser Diese Dieses Alle Alles Viele Jeder Jede Jedes Kein Keine Und "
    "Aber Oder Denn Doch Dann Danach Da Dabei Daher Dort Hier Heute Jetzt Nun So Also Auch Nur Wenn Als Ob "
    "Weil Bis Seit Nach Vor In Im An Am Auf Aus Bei Beim Mit Von Vom Zu Zum Zur Für Um Über Unter Wer Was Wo "
    "Wie Wann Warum Bitte Ja Nein Nicht".split()
)
MAX_WORD_LENGTH = 200  # characters; longer ones are data, not words of a language
# Where to split a sentence that is too long, the best places first.
BREAKS = [re.compile(pattern) for pattern in (r"(?<=;)\s+", r"(?<=:)\s+|\s+(?=[–—(])", r"(?<=,)\s+", r"\s+")]


class Part(NamedTuple):
    """A sentence to translate, or text between sentences that stays unchanged."""

    text: str
    is_sentence: bool


def parts(text: str, language: str | None = None) -> list[Part]:
    """Cut a text into sentences and the parts between them; joined, they are the text again.

    `language`, such as "en", selects the rules for sentence ends; English ones by default.
    """
    pieces = []
    for i, line in enumerate(LINE_END.split(text)):
        is_line_end = i % 2 == 1
        pieces += [Part(line, False)] if is_line_end else line_parts(line, language)
    return [part for part in pieces if part.text]


def line_parts(line: str, language: str | None = None) -> list[Part]:
    """Cut a line into its mark (a bullet, a number), its sentences and the spaces between them."""
    start = MARKER.match(line).end()
    if language != "de" and (number := NUMBER.match(line, start)):
        start = number.end()
    pieces = [Part(line[:start], False)]
    for sentence in sentences(line[start:], language):
        pieces += strip_spaces(sentence)
    return pieces


def strip_spaces(text: str) -> list[Part]:
    """Separate a sentence from the spaces around it."""
    sentence = text.strip()
    before, _, after = text.partition(sentence) if sentence else (text, "", "")
    pieces = Part(before, False), Part(sentence, has_words(sentence)), Part(after, False)
    return [part for part in pieces if part.text]


def sentences(line: str, language: str | None = None) -> list[str]:
    """Return the sentences of a line, each with the spaces after it."""
    if segment is None:
        logger.warning_once("Texts are split at line ends only. To split them into sentences: pip install sentencex")
    if segment is None or not line.strip():
        return [line]
    segments = segment(language or "en", line)
    if "".join(segments) != line:  # text would be lost
        return [line]
    complete: list[str] = []
    for sentence in segments:
        if complete and is_open(complete[-1], sentence, language):
            complete[-1] += sentence
        else:
            complete.append(sentence)
    return complete


def is_open(sentence: str, following: str, language: str | None) -> bool:
    """Return whether this is only the start of a sentence, which `following` continues.

    It is open if it is blank, or ends with an abbreviation, an initial or a German ordinal. It is also open if
    `following` begins in lower case and the sentence does not, as after direct speech ("Why?" she asked).
    """
    beginning = re.search(r"[^\W\d_]+", following)
    first = re.search(r"[^\W\d_]", sentence)
    if beginning and first and beginning[0][0].islower() and not first[0].islower():
        return True
    if language == "de" and GERMAN_ORDINAL.search(sentence):
        return beginning is not None and beginning[0] not in GERMAN_BEGINNINGS
    ending = re.search(r"(?:^|[\s(«\"'’-])(\w+)\.\s*$", sentence)
    if ending is None:
        return not sentence.strip()
    word = ending[1]
    return (len(word) == 1 and word.isupper()) or word in ABBREVIATIONS.get(language or "en", "").split()


def has_words(text: str) -> bool:
    """Return whether there is anything to translate: a word of at least two letters, outside the items to keep."""
    if max(map(len, text.split()), default=0) > MAX_WORD_LENGTH:  # the patterns would also be slow on it
        return False
    return re.search(r"[^\W\d_]{2}", outside_kept_items(text)) is not None


def clauses(sentence: str, fits: Callable[[str], bool]) -> list[str]:
    """Split a sentence near its middle, and the pieces again, until each piece fits or has no spaces."""
    if fits(sentence):
        return [sentence]
    for pattern in BREAKS:
        places = [match.end() for match in pattern.finditer(sentence)]
        central = [place for place in places if 0.2 * len(sentence) <= place <= 0.8 * len(sentence)]
        if pattern is BREAKS[-1]:  # the last resort: any space
            central = central or [place for place in places if 0 < place < len(sentence)]
        if central:
            place = min(central, key=lambda place: abs(place - len(sentence) / 2))
            return clauses(sentence[:place], fits) + clauses(sentence[place:], fits)
    return [sentence]
