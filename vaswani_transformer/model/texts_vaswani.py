"""Translates texts of any length: cuts them into sentences, checks and retries translations, and reassembles the texts.

The model always gets a sentence, or a clause of a sentence that is longer than those in its training data. Everything
between sentences stays unchanged: spacing, line ends, numbers, URLs and other text without words.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file

from .capitals_vaswani import (
    has_capitals,
    has_label,
    in_capitals,
    in_sentence_case,
    label_in_sentence_case,
    with_capital_start,
    without_stress,
)
from .checks_vaswani import (
    LAST_LATIN,
    Languages,
    differing_numbers,
    find_problems,
    is_person,
    length_in_letters,
    missing_items,
    missing_names,
    number_languages,
    required_forms,
)
from .confidence_vaswani import least_certain_word, low_confidence_warnings, mean_confidence
from .glossary_vaswani import MIN_LOG_PROB_AROUND_TERMS, Glossary, Use, are_kept, form_spans, spellings
from .items_vaswani import KEPT_ITEM
from .languages_vaswani import language_warnings
from .number_forms_vaswani import copied_numbers, digits_for_words
from .punctuation_vaswani import with_final_mark, with_french_spaces
from .sentences_vaswani import Part, clauses, parts, strip_spaces
from .spans_vaswani import Replaced, Span, overlaps, replace_in, shortened, words
from .titles_vaswani import is_title, names_in, title_in_sentence_case


Translation = dict[str, Any]  # a record of the pipeline: "translation_text", "score", "alignments", ...
Progress = Callable[[int], object]  # called with the number of texts just translated
Item = TypeVar("Item")

MAX_SENTENCE_TOKENS = 1024  # if nothing tells how long the sentences in the training data were
MAX_CHARACTERS_PER_TOKEN = 64  # on average over a sentence
RETRY_BEAMS = 8
MIN_RETRY_LENGTH = 0.7  # of the shorter one of source and first translation; a retry must not lose text
STAND_INS = "XYZQKWVJ"  # letters that every model copies
MIN_PIECE = 40  # characters of a clause that is translated by itself
BROKEN = re.compile("\ufffd+")


@dataclass(frozen=True)
class TextSettings:
    """How texts are split, checked and retried: arguments of `TranslationPipeline`, which documents them."""

    split_sentences: bool = True
    longest_sentence: int | None = None
    source_language: str | None = None
    target_language: str | None = None
    glossary: Glossary | Mapping[str, str | Iterable[str]] | None = None
    return_confidence: bool = False
    min_confidence: float | None = None
    min_word_confidence: float | None = None
    return_terms: bool = False
    tries_again: bool | None = None

    def __post_init__(self):
        if not isinstance(self.glossary, Glossary | None):
            object.__setattr__(self, "glossary", Glossary(self.glossary))

    @property
    def languages(self) -> Languages:
        return self.source_language, self.target_language

    @property
    def needs_confidence(self) -> bool:
        return self.return_confidence or (self.min_confidence, self.min_word_confidence) != (None, None)

    def updated(self, arguments: Mapping[str, Any]) -> tuple["TextSettings", dict[str, Any]]:
        """Return these settings with those among `arguments`, and the other arguments."""
        names = {field.name for field in fields(self)}
        settings = {name: value for name, value in arguments.items() if name in names}
        return replace(self, **settings), {name: x for name, x in arguments.items() if name not in names}


@dataclass
class TrainingTexts:
    """The texts that a checkpoint was trained on, as far as its about.json describes them."""

    source_language: str | None = None
    max_length: int | None = None  # tokens in the longest sentence
    target_language: str | None = None

    @classmethod
    def from_model(cls, model: PreTrainedModel) -> "TrainingTexts":
        """Read about.json in the model's folder or repository; without a usable one every field is None."""
        if not (name := getattr(model, "name_or_path", "")):
            return cls()
        try:
            file = cached_file(
                name,
                "about.json",
                revision=getattr(model.config, "_commit_hash", None),
                _raise_exceptions_for_gated_repo=False,
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
            )
            with open(file, encoding="utf-8") as stream:
                about = json.load(stream)
            kinds = {"source_language": str, "max_length": int, "target_language": str}
            return cls(**{name: about[name] for name, kind in kinds.items() if isinstance(about.get(name), kind)})
        except (OSError, TypeError, ValueError, AttributeError, RecursionError):
            return cls()


class Sentence(NamedTuple):
    """A sentence, and what the model gets instead of it.

    text: The sentence.
    replaced: The sentence with replacements, which the model gets: translations of glossary terms, and stand-ins.
    required: Words that the translation must contain, each with its accepted forms.
    stand_ins: Letters in the model's input, and the items that they replace.
    uses: The glossary's terms in the sentence.
    """

    text: str
    replaced: Replaced
    required: tuple[tuple[str, ...], ...] = ()
    stand_ins: Mapping[str, str] = {}
    uses: tuple[Use, ...] = ()

    @property
    def model_input(self) -> str:
        return self.replaced.text

    def problems_of(self, translation: Translation, languages: Languages = (None, None)) -> list[str]:
        """Describe what looks wrong with a translation."""
        text = translation["translation_text"]
        missing = [
            use.forms[0] for use, is_kept in zip(self.uses, are_kept(self.uses, text), strict=True) if not is_kept
        ]
        missing += [forms[0] for forms in self.required if not any(form in text for form in forms)]
        return find_problems(self.model_input, text, languages) + [
            f"{term} is missing from the translation" for term in dict.fromkeys(missing)
        ]

    def restore(self, translation: Translation) -> Translation | None:
        """Turn a translation of the model's input into one of the text: items return, and alignments are mapped.

        None if a stand-in was lost or occurs more than once.
        """
        if self.stand_ins:
            letters = [*re.finditer(rf"\b(?:{'|'.join(self.stand_ins)})\b", translation["translation_text"])]
            if sorted(match[0] for match in letters) != sorted(self.stand_ins):
                return None
            items = ((match.span(), self.stand_ins[match[0]]) for match in letters)
            replace_in(translation, Replaced(translation["translation_text"], items))
        if "alignments" in translation:
            pairs = [(self.replaced.in_original(a), b) for a, b in translation["alignments"]]
            translation["alignments"] = list(dict.fromkeys(pairs))
        return translation


class Layout(NamedTuple):
    """The parts of a text in their order, and warnings about its language and about sentences that were too long."""

    parts: list[Part]
    warnings: list[str]


class LongTexts:
    """Translates texts sentence by sentence.

    Args:
        tokenizer: The model's tokenizer.
        translate_sentences: Translates a list of `Sentence`; also takes a `Progress` and arguments of `generate`.
            Returns the translations of each sentence, best first.
        settings: How to split, check and retry. A `longest_sentence` of None means `MAX_SENTENCE_TOKENS`, and a
            `tries_again` of None means True.
        can_require: Whether the model's search can be told which words a translation must contain.
        entries: What translations have besides the text: "score", "alignments", "confidence", "terms".
        log_probs_outside: Returns the mean log-probability of the tokens of each translation that are outside given
            spans; takes pairs and lists of spans. Without it, the words around terms are not checked.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        translate_sentences: Callable[..., list[list[Translation]]],
        settings: TextSettings | None = None,
        can_require: bool = True,
        entries: Collection[str] = (),
        log_probs_outside: Callable[[list[tuple[str, str]], list[list[Span]]], list[float]] | None = None,
    ):
        self.log_probs_outside = log_probs_outside
        self.tokenizer, self.translate_sentences = tokenizer, translate_sentences
        self.settings, self.can_require, self.entries = settings or TextSettings(), can_require, entries
        self.max_tokens = self.settings.longest_sentence or MAX_SENTENCE_TOKENS

    def translate(
        self, texts: Sequence[str], progress: Progress | None = None, **generate_kwargs: Any
    ) -> list[list[Translation]]:
        """Return the translations of each text, best first; the best has "warnings" if anything looks wrong."""
        layouts = [self.layout(text) for text in texts]
        originals = [part.text for layout in layouts for part in layout.parts if part.is_sentence]
        recased = [case for layout in layouts for case in self.lower_capitals(layout)]
        sentences = [
            self.as_sentence(text if case is None else case.text) for text, case in zip(originals, recased, strict=True)
        ]
        if progress is not None:
            progress = scaled_progress(progress, len(texts), len(sentences))
        results = self.search(sentences, progress, **generate_kwargs)
        problems = self.improve(sentences, results, generate_kwargs)
        doubts = self.term_warnings(sentences, results), self.confidence_warnings(results)
        warnings = [sum(lists, []) for lists in zip(problems, *doubts, strict=True)]
        if "terms" in self.entries:
            add_terms(sentences, results)
        for text, case, translations in zip(originals, recased, results, strict=True):
            for translation in translations:
                remove_broken(text, translation)
                language = self.settings.languages[1]
                replace_in(translation, with_capital_start(translation["translation_text"], text, language))
                replace_in(translation, with_final_mark(translation["translation_text"], text, language))
                replace_in(translation, with_french_spaces(translation["translation_text"], language))
                if case is not None:
                    restore_capitals(case, translation)

        translated = []
        all_parts = [layout.parts for layout in layouts]
        by_text = zip(layouts, by_layout(all_parts, results), by_layout(all_parts, warnings), strict=True)
        for layout, text_results, text_warnings in by_text:
            translations = reassemble(layout.parts, text_results, self.entries)
            if all_warnings := layout.warnings + name_sentences(layout.parts, text_warnings):
                translations[0]["warnings"] = all_warnings
            translated.append(translations)
        return translated

    def search(
        self, sentences: list[Sentence], progress: Progress | None = None, **generate_kwargs: Any
    ) -> list[list[Translation]]:
        """Return the translations of each sentence, best first, with copied numbers as the target language has them."""
        results = self.translate_sentences(sentences, progress, **generate_kwargs)
        for sentence, translations in zip(sentences, results, strict=True):
            for translation in translations:
                text = translation["translation_text"]
                numbers = copied_numbers(sentence.model_input, text, self.settings.languages)
                replace_in(translation, Replaced(text, numbers))
        return results

    def layout(self, text: str) -> Layout:
        """Cut a text into sentences and the parts that stay unchanged, and split sentences that are too long."""
        pieces: list[Part] = []
        warnings = language_warnings(text, self.settings.source_language)
        for part in parts(text, self.settings.source_language):
            is_name = is_person(part.text, self.settings.source_language)
            if not part.is_sentence or is_name or self.is_foreign(part.text):
                pieces.append(Part(part.text, False))
                continue
            sentence_pieces = split_at_clauses(part.text, self.fits)
            pieces += sentence_pieces
            if len(sentence_pieces) > 1:
                tokens, number = len(self.ids(part.text)), sum(piece.is_sentence for piece in sentence_pieces)
                warnings.append(f"a sentence of {tokens:,} tokens was translated in {number} pieces")
        return Layout(pieces, warnings)

    def fits(self, text: str) -> bool:
        # Texts that are much too long need no tokenizing, which takes time for each test of a piece.
        is_short = len(text) <= MAX_CHARACTERS_PER_TOKEN * self.max_tokens
        return is_short and len(self.ids(text)) <= self.max_tokens

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text, verbose=False)["input_ids"]

    def is_foreign(self, text: str) -> bool:
        """Return whether the tokenizer does not know most of the text's letters, or only their bytes."""
        if text.isascii() or not any(ord(c) > LAST_LATIN for c in text):
            return False  # the tokenizer is asked only about other letters
        letters = "".join(c for c in text if c.isalpha())
        unknown = [c for c in letters if ord(c) > LAST_LATIN and self.is_unknown(c)]
        return 2 * len(unknown) > len(letters)

    def is_unknown(self, letter: str) -> bool:
        ids = self.tokenizer(letter, add_special_tokens=False)["input_ids"]
        # A known letter may have two tokens: the mark for a space before it, and itself.
        return len(ids) > 2 or self.tokenizer.unk_token_id in ids

    def as_sentence(self, text: str) -> Sentence:
        """Replace the glossary's terms in a sentence by their translations, and require these."""
        glossary = self.settings.glossary
        uses = glossary.uses(text, self.settings.source_language) if glossary else []
        required = tuple(tuple(spellings(use.forms)) for use in uses) if self.can_require else ()
        return Sentence(text, Replaced(text, ((use.span, use.forms[0]) for use in uses)), required, uses=tuple(uses))

    def lower_capitals(self, layout: Layout) -> list[Replaced | None]:
        """Return each sentence with capitals, Title Case, a label or stress in sentence case; None for any other."""
        language = self.settings.source_language
        sentences = [part.text for part in layout.parts if part.is_sentence]
        names = names_in(sentences) if any(is_title(text, language) for text in sentences) else set()
        recased: list[Replaced | None] = []
        for text in sentences:
            # Looking for terms takes longer than these tests, which most sentences fail.
            is_plain = not (has_capitals(text) or has_label(text) or is_title(text, language))
            if is_plain and not without_stress(text, language):
                recased.append(None)
                continue
            terms = self.settings.glossary.uses(text, language) if self.settings.glossary else []
            spans = [use.span for use in terms]
            recased.append(
                in_sentence_case(text, self.tokenizer, language, spans)
                or title_in_sentence_case(text, self.tokenizer, language, spans, names)
                or label_in_sentence_case(text, self.tokenizer, language, spans)
                or without_stress(text, language, spans)
            )
        return recased

    def sentences_of(self, layouts: Iterable[Sequence[Part]]) -> list[Sentence]:
        """Return the sentences of all texts, in their order."""
        return [self.as_sentence(part.text) for layout in layouts for part in layout if part.is_sentence]

    # Doubts ----------------------------------------------------------------------------------------------------------

    def confidence_warnings(self, results: Iterable[list[Translation]]) -> list[list[str]]:
        """Return a list of warnings about each sentence whose best translation, or a word of it, is not sure enough."""
        settings = self.settings
        return [
            low_confidence_warnings(best, settings.min_confidence, settings.min_word_confidence) for best, *_ in results
        ]

    def term_warnings(self, sentences: Sequence[Sentence], results: Sequence[list[Translation]]) -> list[list[str]]:
        """Return a list of warnings about each sentence in which the words around glossary terms are unlikely."""
        warnings: list[list[str]] = [[] for _ in sentences]
        indices = [i for i, sentence in enumerate(sentences) if sentence.uses]
        if not indices or self.log_probs_outside is None:
            return warnings
        pairs = [(sentences[i].model_input, results[i][0]["translation_text"]) for i in indices]
        spans = [
            [span for use in sentences[i].uses for span in form_spans(use.forms, text)]
            for i, (_, text) in zip(indices, pairs, strict=True)
        ]
        for i, log_prob in zip(indices, self.log_probs_outside(pairs, spans), strict=True):
            if log_prob < MIN_LOG_PROB_AROUND_TERMS:
                terms = ", ".join(dict.fromkeys(use.forms[0] for use in sentences[i].uses))
                warnings[i].append(f"check this sentence: the words around the glossary's {terms} are unlikely")
        return warnings

    # Retries ---------------------------------------------------------------------------------------------------------

    def improve(
        self, sentences: list[Sentence], results: list[list[Translation]], generate_kwargs: dict[str, Any]
    ) -> list[list[str]]:
        """Replace translations in `results` that look wrong by better ones, and return the problems that remain."""
        languages = self.settings.languages
        pairs = zip(sentences, results, strict=True)
        problems = [sentence.problems_of(best, languages) for sentence, (best, *_) in pairs]
        can_retry = self.settings.tries_again is not False
        attempts = (self.with_stand_ins, self.by_clauses, self.around_items) if can_retry else ()
        for attempt in attempts:
            wrong = [i for i, sentence_problems in enumerate(problems) if sentence_problems]
            if not wrong:
                break
            candidates = attempt([sentences[i] for i in wrong], [results[i][0] for i in wrong], generate_kwargs)
            for i, translations in zip(wrong, candidates, strict=True):
                texts = sentences[i].model_input, results[i][0]["translation_text"]
                min_length = MIN_RETRY_LENGTH * min(map(length_in_letters, texts))
                for translation in translations:
                    remaining = sentences[i].problems_of(translation, languages)
                    is_complete = length_in_letters(translation["translation_text"]) >= min_length
                    if is_complete and len(remaining) < len(problems[i]):
                        results[i], problems[i] = [translation], remaining
        return problems

    def with_stand_ins(
        self, sentences: list[Sentence], translations: list[Translation], generate_kwargs: dict[str, Any]
    ) -> list[list[Translation]]:
        """Return several translations of each sentence, with the items and numbers that the first one does not have."""
        pairs = zip(sentences, translations, strict=True)
        replaced = [
            add_stand_ins(sentence, x["translation_text"], self.can_require, self.settings.languages)
            for sentence, x in pairs
        ]
        several = {"num_beams": RETRY_BEAMS, "num_return_sequences": RETRY_BEAMS}
        return self.search(replaced, **{**generate_kwargs, **several})

    def by_clauses(
        self, sentences: list[Sentence], translations: list[Translation], generate_kwargs: dict[str, Any]
    ) -> list[list[Translation]]:
        """Translate each sentence in several pieces."""
        layouts = [split_at_clauses(sentence.text, fits_half(sentence.text)) for sentence in sentences]
        return self.translate_layouts(layouts, generate_kwargs)

    def around_items(
        self, sentences: list[Sentence], translations: list[Translation], generate_kwargs: dict[str, Any]
    ) -> list[list[Translation]]:
        """Translate what is before, between and after the items to keep."""
        return self.translate_layouts([split_at_items(sentence.text) for sentence in sentences], generate_kwargs)

    def translate_layouts(self, layouts: list[list[Part]], generate_kwargs: dict[str, Any]) -> list[list[Translation]]:
        """Return the translations of each layout; none for a single part, which is already translated."""
        layouts = [layout if len(layout) > 1 else [] for layout in layouts]
        results = self.search(self.sentences_of(layouts), **generate_kwargs)
        by_text = zip(layouts, by_layout(layouts, results), strict=True)
        return [
            reassemble(layout, layout_results, self.entries) if layout else [] for layout, layout_results in by_text
        ]


def remove_broken(source: str, translation: Translation) -> bool:
    """Remove broken characters (U+FFFD), which come from incomplete byte sequences; return True if there are any.

    A source with such a character keeps it.
    """
    broken = [] if BROKEN.search(source) else [*BROKEN.finditer(translation["translation_text"])]
    if broken:
        replace_in(translation, Replaced(translation["translation_text"], ((match.span(), "") for match in broken)))
    return bool(broken)


def restore_capitals(source: Replaced, translation: Translation):
    """Put a translation or its label into capitals if its sentence was; headings in Title Case get sentence case."""
    if has_capitals(source.original) or has_label(source.original):
        replace_in(translation, in_capitals(translation["translation_text"], source.original))
    if "alignments" in translation:
        translation["alignments"] = [(source.in_original(a), b) for a, b in translation["alignments"]]


def add_terms(sentences: Sequence[Sentence], results: Sequence[list[Translation]]):
    """Add "terms" to each translation: the terms of the glossary in its sentence, and whether they were kept."""
    for sentence, translations in zip(sentences, results, strict=True):
        for translation in translations:
            if "translation_text" not in translation:  # the caller wants tokens
                continue
            flags = are_kept(sentence.uses, translation["translation_text"])
            translation["terms"] = [
                {"term": use.term, "translation": use.forms[0], "is_kept": is_kept}
                for use, is_kept in zip(sentence.uses, flags, strict=True)
            ]


def add_stand_ins(sentence: Sentence, translation: str, can_require: bool, languages: Languages) -> Sentence:
    """Replace items and names that the translation does not have by letters, and times and halves by digits.

    The model copies both. The next translation must contain these letters, and the numbers and words of
    `required_forms`.
    """
    missing = missing_items(sentence.text, translation)
    words_of_input = set(re.findall(r"\w+", sentence.model_input))
    letters = (letter for letter in STAND_INS if letter not in words_of_input)
    items_to_keep = [match for match in KEPT_ITEM.finditer(sentence.text) if match[0] in missing]
    places = [match for match in items_to_keep if not is_inside_word(match)]
    names = missing_names(sentence.text, translation, languages[0])
    if names:
        spans = [place.span() for place in places]
        matches = re.finditer(rf"\b(?:{'|'.join(map(re.escape, names))})\b", sentence.text)
        places += [match for match in matches if not overlaps(match.span(), spans)]
        places.sort(key=lambda place: place.start())
    stand_ins = dict(zip(letters, places, strict=False))
    terms = [(old, sentence.model_input[slice(*new)]) for old, new in sentence.replaced.places]
    items = [(place.span(), letter) for letter, place in stand_ins.items()]
    lost_numbers, _ = differing_numbers(sentence.model_input, translation, languages)
    digits = digits_for_words(lost_numbers, sentence.text, *number_languages(languages))
    items += without_overlaps([*digits], items + terms)
    copied = {place[0] for place in stand_ins.values()}
    required = [
        forms for forms in required_forms(sentence.model_input, translation, languages) if forms[0] not in copied
    ]
    required += [(letter,) for letter in stand_ins]
    return Sentence(
        sentence.text,
        Replaced(sentence.text, sorted(items + without_overlaps(terms, items))),
        (*sentence.required, *required) if can_require else (),
        {letter: place[0] for letter, place in stand_ins.items()},
        sentence.uses,
    )


def is_inside_word(match: re.Match) -> bool:
    """Return whether a letter in place of a match would become part of a word, as in "<b>word</b>"."""
    before, after = match.string[: match.start()][-1:], match.string[match.end() :][:1]
    return before.isalnum() or after.isalnum()


def without_overlaps(replacements: list[tuple[Span, str]], fixed: list[tuple[Span, str]]) -> list[tuple[Span, str]]:
    """Return the replacements that do not overlap any of the fixed ones."""
    spans = [span for span, _ in fixed]
    return [
        ((begin, end), text)
        for (begin, end), text in replacements
        if all(end <= first or last <= begin for first, last in spans)
    ]


# Parts of texts ------------------------------------------------------------------------------------------------------


def split_at_clauses(sentence: str, fits: Callable[[str], bool]) -> list[Part]:
    """Return the clauses of a sentence and the spaces between them; a word that does not fit stays unchanged."""
    pieces = []
    for clause in clauses(sentence, fits):
        can_translate = fits(clause)
        pieces += [Part(part.text, part.is_sentence and can_translate) for part in strip_spaces(clause)]
    return pieces


def split_at_items(sentence: str) -> list[Part]:
    """Return the items to keep, and the parts of a sentence between them."""
    pieces, last = [], 0
    for item in KEPT_ITEM.finditer(sentence):
        pieces += [*strip_spaces(sentence[last : item.start()]), Part(item[0], False)]
        last = item.end()
    return pieces + strip_spaces(sentence[last:])


def fits_half(sentence: str) -> Callable[[str], bool]:
    """Return a test that pieces of about half the sentence pass."""
    return lambda piece: len(piece) <= max(MIN_PIECE, 0.6 * len(sentence))


def by_layout(layouts: Sequence[Sequence[Part]], items: Sequence[Item]) -> list[Sequence[Item]]:
    """Divide items, one for each sentence of all layouts, among the layouts."""
    counts = [sum(part.is_sentence for part in layout) for layout in layouts]
    return [items[end - count : end] for end, count in zip(accumulate(counts), counts, strict=True)]


def reassemble(
    layout: Sequence[Part], results: Sequence[list[Translation]], entries: Collection[str] = ()
) -> list[Translation]:
    """Join the translations of a layout's sentences: the n-th translation of the text has the n-th of each sentence.

    `results` holds the translations of each sentence, best first. Sentences with fewer translations repeat their last.
    """
    remaining = iter(results)
    candidates = [next(remaining) if part.is_sentence else [untranslated(part.text)] for part in layout]
    number = max(map(len, candidates), default=1)
    columns = [[translations[min(n, len(translations) - 1)] for translations in candidates] for n in range(number)]
    return [join_translations(layout, column, entries) for column in columns]


def untranslated(text: str) -> Translation:
    return {"translation_text": text, "alignments": [(span, span) for span in words(text)]}


def join_translations(
    layout: Sequence[Part], translations: Sequence[Translation], entries: Collection[str]
) -> Translation:
    """Join one translation of each part; spans then count from the beginnings of the texts."""
    joined: Translation = {"translation_text": "".join(x["translation_text"] for x in translations)}
    alignments, confidences = [], []
    source = target = 0  # where the part begins in both texts
    for part, translation in zip(layout, translations, strict=True):
        for (a, b), (c, d) in translation.get("alignments", ()):
            alignments.append(((a + source, b + source), (c + target, d + target)))
        for (a, b), confidence in translation.get("word_confidences", ()):
            confidences.append(((a + target, b + target), confidence))
        source += len(part.text)
        target += len(translation["translation_text"])
    if "alignments" in entries:
        joined["alignments"] = alignments
    if "confidence" in entries:  # a text without words to translate is certain
        joined["confidence"] = mean_confidence(confidences) if confidences else 1.0
        joined["word_confidences"] = confidences
        joined["lowest_word_confidence"] = least_certain_word(joined["translation_text"], confidences)[1]
    if "terms" in entries:
        joined["terms"] = [term for translation in translations for term in translation.get("terms", ())]
    if "score" in entries:
        scores = [translation["score"] for translation in translations if "score" in translation]
        joined["score"] = sum(scores) / max(1, len(scores))
    return joined


def name_sentences(layout: Sequence[Part], warnings: Sequence[list[str]]) -> list[str]:
    """Return the warnings of all sentences; if there are several sentences, each warning quotes its own."""
    texts = [part.text for part in layout if part.is_sentence]
    named = []
    for text, sentence_warnings in zip(texts, warnings, strict=True):
        prefix = f"{shortened(text)}: " if len(texts) > 1 else ""
        named += [prefix + warning for warning in sentence_warnings]
    return named


def scaled_progress(progress: Progress, texts: int, sentences: int) -> Progress:
    """Return a progress to call with numbers of sentences, which reports numbers of texts."""
    done = reported = 0

    def count(number: int):
        nonlocal done, reported
        done += number
        progress(texts * done // sentences - reported)
        reported = texts * done // sentences

    if not sentences:
        progress(texts)
    return count
