"""Texts of any length: cut into sentences, translated, checked, tried again where something looks wrong, put together.

What a sentence model is asked here is always a sentence, or a clause of one that is longer than those it has learned
from. Nothing between sentences changes: spacing, line ends, numbers, URLs and whatever else has no words.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file

from .checks_vaswani import KEPT_ITEM, missing_items, must_hold, problems
from .confidence_vaswani import mean_confidence
from .glossary_vaswani import Glossary, spellings
from .sentences_vaswani import Part, bare, clauses, parts
from .spans_vaswani import Replaced, Span, shortened, words


Record = dict[str, Any]  # what the pipeline gives for a translation
MAX_SENTENCE_TOKENS = 1024  # of a sentence, where nothing says what the model has learned from
MORE_BEAMS = 8  # with which a translation is looked for again
STAND_INS = "XYZQKWVJ"  # which any model copies
SHORTEST_PIECE = 40  # characters of a clause that is translated by itself
# Settings of somebody who looks at more than one translation, or wants what the model says at any rate.
OWN_SEARCH = {"num_return_sequences", "max_new_tokens", "max_length", "stopping_criteria"}
LATIN = 0x24F  # the last letter of it; further ones are looked up


class Sentence(NamedTuple):
    """What the model is asked.

    It reads some places of the text otherwise. `required` are words, each in several forms, of which its translation
    must hold one; `stand_ins` are words of it that give way to others.
    """

    text: str
    replaced: Replaced
    required: tuple[tuple[str, ...], ...] = ()
    stand_ins: dict[str, str] = {}

    @property
    def read(self) -> str:
        return self.replaced.text

    def problems(self, record: Record) -> list[str]:
        """What looks wrong with a translation, in words."""
        translation = record["translation_text"]
        lacking = [forms[0] for forms in self.required if not any(form in translation for form in forms)]
        return problems(self.read, translation) + [f"it lacks {term}" for term in lacking]

    def restore(self, record: Record) -> Record | None:
        """What the model said of what it read -> the same of the text; None where stand-ins are lost or doubled."""
        if self.stand_ins:
            names = [*re.finditer(rf"\b(?:{'|'.join(self.stand_ins)})\b", record["translation_text"])]
            if sorted(match[0] for match in names) != sorted(self.stand_ins):
                return None
            items = Replaced(record["translation_text"], ((m.span(), self.stand_ins[m[0]]) for m in names))
            record["translation_text"] = items.text
            if "alignments" in record:
                record["alignments"] = [(a, items.in_text(b)) for a, b in record["alignments"]]
        if "alignments" in record:
            pairs = [(self.replaced.in_original(a), b) for a, b in record["alignments"]]
            record["alignments"] = list(dict.fromkeys(pairs))
        return record


@dataclass
class TextRecord:
    """What a checkpoint's about.json says of the texts that it is for."""

    source_language: str | None = None
    max_length: int | None = None  # tokens in the longest sentence that it has learned from
    target_language: str | None = None

    @classmethod
    def of(cls, model: PreTrainedModel) -> "TextRecord":
        """That of the model's folder or repository; an empty one where there is none."""
        if not (name := getattr(model, "name_or_path", "")):
            return cls()
        try:
            revision = getattr(model.config, "_commit_hash", None)
            file = cached_file(
                name, "about.json", revision=revision, _raise_exceptions_for_gated_repo=False,
                _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False,
            )  # fmt: skip
            with open(file, encoding="utf-8") as stream:
                about = json.load(stream)
            return cls(about.get("source_language"), about.get("max_length"), about.get("target_language"))
        except (OSError, TypeError, ValueError, AttributeError):
            return cls()


class LongTexts:
    """Translates texts by their sentences.

    Args:
        tokenizer: The model's.
        translate: Sentences, and arguments for `generate`, -> for each its records, best first.
        language: That of the texts, such as "en", by which sentences are found.
        longest: Tokens in a sentence that is not split.
        glossary: Terms that must be translated in a given way.
        may_require: Whether the model's search can be told which words a translation must hold.
        tries_again: Whether what looks wrong is translated in other ways, or only said.
        min_confidence: What is less sure is among the warnings.
        fields: What a record has besides the text: `scores`, `alignments`, `confidence`.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        translate: Callable[..., list[list[Record]]],
        language: str | None = None,
        longest: int = MAX_SENTENCE_TOKENS,
        glossary: Glossary | None = None,
        may_require: bool = True,
        tries_again: bool = True,
        min_confidence: float | None = None,
        **fields: bool,
    ):
        self.tokenizer, self.translate_sentences, self.language = tokenizer, translate, language
        self.tries_again, self.min_confidence = tries_again, min_confidence
        self.longest, self.glossary, self.may_require, self.fields = longest, glossary, may_require, fields

    def translate(
        self, texts: Sequence[str], progress: Callable[[int], object] | None = None, **settings
    ) -> list[list[Record]]:
        """The translations of each text, best first; the best has "warnings" where there is something to say.

        `progress` is called with the number of texts just translated.
        """
        layouts, splits = zip(*map(self.layout, texts), strict=True) if texts else ((), ())
        sentences = [self.sentence(part.text) for layout in layouts for part in layout if part.is_sentence]
        if progress is not None:
            progress = in_proportion(progress, len(texts), len(sentences))
        results = self.translate_sentences(sentences, progress, **settings)
        warnings = self.check(sentences, results, settings)
        if self.min_confidence is not None:
            for records, of_sentence in zip(results, warnings, strict=True):
                if records[0]["confidence"] < self.min_confidence:
                    of_sentence.append(f"confidence {records[0]['confidence']:.2f}")
        found = iter(zip(results, warnings, strict=True))
        together = [put_together(layout, found, **self.fields) for layout in layouts]
        for (best, *_), of_text in zip(together, splits, strict=True):
            if of_text:
                best["warnings"] = of_text + best.get("warnings", [])
        return together

    def layout(self, text: str) -> tuple[list[Part], list[str]]:
        """The text's sentences, and what stands between or is foreign; and what to say of those that were too long."""
        found: list[Part] = []
        warnings = []
        for part in parts(text, self.language):
            if not part.is_sentence or self.is_foreign(part.text):
                found.append(Part(part.text, False))
                continue
            pieces = in_pieces(part.text, self.fits)
            found += pieces
            if len(pieces) > 1:
                warnings.append(
                    f"a sentence of {len(self.ids(part.text)):,} tokens was translated in "
                    f"{sum(piece.is_sentence for piece in pieces)} pieces"
                )
        return found, warnings

    def fits(self, text: str) -> bool:
        # No token is longer than this on average: of a text that is much too long only the start is looked at.
        return len(text) <= 64 * self.longest and len(self.ids(text)) <= self.longest

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text, verbose=False)["input_ids"]

    def is_foreign(self, text: str) -> bool:
        """Whether most of it is written in letters that the tokenizer knows only byte by byte, or not at all."""
        if text.isascii() or not any(ord(c) > LATIN for c in text):
            return False
        letters = "".join(c for c in text if c.isalpha())
        unknown = [c for c in letters if ord(c) > LATIN and self.is_unknown(c)]
        return 2 * len(unknown) > len(letters)

    def is_unknown(self, letter: str) -> bool:
        ids = self.tokenizer(letter, add_special_tokens=False)["input_ids"]
        return len(ids) > 2 or self.tokenizer.unk_token_id in ids  # a mark for a space before it may be one

    def sentence(self, text: str) -> Sentence:
        """The sentence as the model is asked: with its terms' translations in their place."""
        uses = self.glossary.uses(text) if self.glossary else []
        required = tuple(tuple(spellings(use.forms)) for use in uses) if self.may_require else ()
        return Sentence(text, Replaced(text, ((use.span, use.forms[0]) for use in uses)), required)

    # Checks ----------------------------------------------------------------------------------------------------------

    def check(self, sentences: list[Sentence], results: list[list[Record]], settings: dict) -> list[list[str]]:
        """Puts better translations in the place of those that look wrong, and says what still does."""
        found = [sentence.problems(records[0]) for sentence, records in zip(sentences, results, strict=True)]
        ways = (self.with_its_items, self.by_clauses, self.around_items) if self.tries_again else ()
        for again in ways:
            wrong = [i for i, problems_of in enumerate(found) if problems_of]
            if not wrong:
                break
            others = again([sentences[i] for i in wrong], [results[i][0] for i in wrong], settings)
            for i, records in zip(wrong, others, strict=True):
                for record in records:
                    left = sentences[i].problems(record)
                    if len(left) < len(found[i]):
                        results[i], found[i] = [record], left
        return found

    def with_its_items(self, sentences: list[Sentence], records: list[Record], settings: dict) -> list[list[Record]]:
        """Several translations of each sentence, with the items and the numbers that its first one lacks."""
        asked = [
            with_stand_ins(sentence, record["translation_text"], self.may_require)
            for sentence, record in zip(sentences, records, strict=True)
        ]
        several = {"num_beams": MORE_BEAMS, "num_return_sequences": MORE_BEAMS}
        return self.translate_sentences(asked, **{**settings, **several})

    def by_clauses(self, sentences: list[Sentence], records: list[Record], settings: dict) -> list[list[Record]]:
        """The translation of each sentence in two pieces or more."""
        return self.of_layouts([in_pieces(s.text, half(s.text)) for s in sentences], settings)

    def around_items(self, sentences: list[Sentence], records: list[Record], settings: dict) -> list[list[Record]]:
        """The translation of what stands before, between and after the items to keep."""
        return self.of_layouts([between_items(sentence.text) for sentence in sentences], settings)

    def of_layouts(self, layouts: list[list[Part]], settings: dict) -> list[list[Record]]:
        """None where there is only one part: it would be the same question again."""
        layouts = [layout if len(layout) > 1 else [] for layout in layouts]
        asked = [self.sentence(part.text) for layout in layouts for part in layout if part.is_sentence]
        found = iter([(result, []) for result in self.translate_sentences(asked, **settings)])
        return [put_together(layout, found, **self.fields) if layout else [] for layout in layouts]


def with_stand_ins(sentence: Sentence, translation: str, may_require: bool) -> Sentence:
    """The sentence with a letter in the place of each item that its translation lacks.

    Numbers are only required, and so is what must not be lost on the way.
    """
    lacking = missing_items(sentence.text, translation)
    letters = (letter for letter in STAND_INS if letter not in re.findall(r"\w+", sentence.read))
    places = [match for match in KEPT_ITEM.finditer(sentence.text) if match[0] in lacking]
    names = dict(zip(letters, places, strict=False))
    of_terms = [(old, sentence.read[slice(*new)]) for old, new in sentence.replaced.places]
    of_items = [(place.span(), letter) for letter, place in names.items()]
    replaced = Replaced(sentence.text, sorted(apart(of_items, of_terms)))
    required = [*must_hold(sentence.read, translation), *((letter,) for letter in names)]
    return Sentence(
        sentence.text,
        replaced,
        (*sentence.required, *required) if may_require else (),
        {letter: place[0] for letter, place in names.items()},
    )


def apart(some: list[tuple[Span, str]], others: list[tuple[Span, str]]) -> list[tuple[Span, str]]:
    """These replacements, and of the others those that lie outside of them."""
    return some + [other for other in others if all(other[0][1] <= a or b <= other[0][0] for (a, b), _ in some)]


def in_pieces(sentence: str, fits: Callable[[str], bool]) -> list[Part]:
    """Its clauses, and the space between; a piece that does not fit and has no space in it stays as it is."""
    found = [(fits(piece), part) for piece in clauses(sentence, fits) for part in bare(piece)]
    return [Part(part.text, part.is_sentence and is_short) for is_short, part in found]


def between_items(sentence: str) -> list[Part]:
    found, last = [], 0
    for item in KEPT_ITEM.finditer(sentence):
        found += [*bare(sentence[last : item.start()]), Part(item[0], False)]
        last = item.end()
    return found + bare(sentence[last:])


def half(sentence: str) -> Callable[[str], bool]:
    return lambda text: len(text) <= max(SHORTEST_PIECE, 0.6 * len(sentence))


def put_together(
    layout: list[Part],
    found: Iterator[tuple[list[Record], list[str]]],
    scores: bool = False,
    alignments: bool = False,
    confidence: bool = False,
) -> list[Record]:
    """The translations of a text, best first: the i-th holds the i-th of each sentence, which come in their order."""
    translated = [next(found) if part.is_sentence else ([as_it_is(part.text)], []) for part in layout]
    number = max((len(records) for records, _ in translated), default=1)
    chosen = [[records[min(i, len(records) - 1)] for records, _ in translated] for i in range(number)]
    texts = [joined(layout, records, alignments, confidence) for records in chosen]
    if scores:
        for text, records in zip(texts, chosen, strict=True):
            of_sentences = [record["score"] for record in records if "score" in record]
            text["score"] = sum(of_sentences) / max(1, len(of_sentences))
    warnings = [(part.text, warning) for part, (_, of) in zip(layout, translated, strict=True) for warning in of]
    if warnings:
        several = sum(part.is_sentence for part in layout) > 1
        texts[0]["warnings"] = [f"{shortened(text)}: {warning}" if several else warning for text, warning in warnings]
    return texts


def as_it_is(text: str) -> Record:
    return {"translation_text": text, "alignments": [(span, span) for span in words(text)]}


def joined(layout: list[Part], records: list[Record], alignments: bool, confidence: bool) -> Record:
    """One text of its parts' translations; spans count from the beginnings of the texts."""
    record: Record = {"translation_text": "".join(record["translation_text"] for record in records)}
    pairs, sure = [], []
    source = target = 0
    for part, of_part in zip(layout, records, strict=True):
        for (a, b), (c, d) in of_part.get("alignments", ()):
            pairs.append(((a + source, b + source), (c + target, d + target)))
        sure += [((a + target, b + target), value) for (a, b), value in of_part.get("word_confidences", ())]
        source, target = source + len(part.text), target + len(of_part["translation_text"])
    if alignments:
        record["alignments"] = pairs
    if confidence:
        record |= {"confidence": mean_confidence(sure) if sure else 1.0, "word_confidences": sure}
    return record


def in_proportion(progress: Callable[[int], object], texts: int, sentences: int) -> Callable[[int], object]:
    """Counts sentences, and reports texts."""
    done = reported = 0

    def count(number: int):
        nonlocal done, reported
        done += number
        progress(texts * done // sentences - reported)
        reported = texts * done // sentences

    if not sentences:
        progress(texts)
    return count
