"""Words that must be translated in a given way, or not at all.

    glossary = Glossary({"account": ["Konto", "Kontos"], "Vaswani": []})
    pipeline("translation", "owner/name", glossary=glossary)

A term matches whole words: as it is written, or else inflected, such as in the plural. A term in lower case also
matches words with capitals. The model reads the term's translation instead of the term, which it tends to copy to the
right place, and the search finds only translations that contain it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .lemmas_vaswani import is_inflected, is_supported, lemma
from .spans_vaswani import Span


WORD = re.compile(r"\w+|[^\w\s]")
CAPITALISED_NOUNS = {"de", "lb"}  # in other languages, a capital marks a name, which matches only as it is written
# Log P per token below which the words around terms are doubtful: docs/guide/glossary.md says what this finds.
MIN_LOG_PROB_AROUND_TERMS = -0.65


class Use(NamedTuple):
    """A term in a text: its place, the forms of which the translation must contain one, and the glossary's term."""

    span: Span
    forms: tuple[str, ...]
    term: str


class Term(NamedTuple):
    """A term of a glossary, and its words and marks with whether there is a space before each."""

    text: str
    words: tuple[str, ...]
    spaces: tuple[bool, ...]

    @classmethod
    def from_text(cls, text: str) -> "Term":
        matches = [*WORD.finditer(text)]
        return cls(text, tuple(match[0] for match in matches), tuple(has_space_before(match) for match in matches))


class TermCount(NamedTuple):
    """How often a term was in the sources, and in how many of these places its translation was kept and missed."""

    term: str
    translation: str
    times_seen: int
    times_kept: int
    times_missed: int


class Glossary:
    """Terms and their translations.

    Args:
        terms (`dict[str, str | Iterable[str]]`):
            The translation of each term, or several accepted forms of it, the usual one first. A term without a
            translation stays unchanged.

    Raises:
        ValueError: a term is empty, or occurs twice with different translations.
    """

    def __init__(self, terms: Mapping[str, str | Iterable[str]]):
        self.forms: dict[str, tuple[str, ...]] = {}
        self.by_first_word: dict[str | None, dict[str, list[Term]]] = {}  # for each language
        for term, forms in terms.items():
            forms = (forms,) if isinstance(forms, str) else tuple(forms)
            self.add(" ".join(term.split()), tuple(form.strip() for form in forms if form.strip()))

    def add(self, term: str, forms: tuple[str, ...]):
        """Add a term and the accepted forms of its translation; without forms the term stays unchanged.

        Raises:
            ValueError: the term is empty, or the glossary has another translation of it.
        """
        if not term:
            raise ValueError("A term of the glossary is empty.")
        if self.forms.get(term, forms) != forms:
            raise ValueError(f"The glossary has {term!r} twice, with different translations.")
        self.forms[term] = forms
        self.by_first_word = {}

    @classmethod
    def from_file(cls, path: str | Path) -> "Glossary":
        """Read lines of TERM <tab> TRANSLATION, in UTF-8; `|` separates forms in either column.

        A term without a second column stays unchanged. Blank lines and lines that begin with # are skipped.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is not UTF-8, or a line is invalid; the message names the line.
        """
        glossary = cls({})
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8. Convert it first, e.g. with `iconv -f latin1 -t utf-8`.") from error
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            terms, *forms = line.rstrip().split("\t")
            try:
                if len(forms) > 1:
                    raise ValueError("It has more than two columns.")
                split = tuple(form.strip() for form in "".join(forms).split("|") if form.strip())
                for term in terms.split("|"):
                    glossary.add(" ".join(term.split()), split)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error} Write lines of TERM <tab> TRANSLATION.") from error
        return glossary

    def uses(self, text: str, language: str | None = None) -> list[Use]:
        """Return the terms in a text, from left to right; of overlapping ones the first, or the longest.

        With the code of the text's `language`, such as "en", inflected forms of the terms are found, too.
        """
        if not is_supported(language):
            language = None
        uses: list[Use] = []
        words = [*WORD.finditer(text)]
        for i, word in enumerate(words):
            if uses and word.start() < uses[-1].span[1]:
                continue
            matches = []
            for term in self._candidates(word[0], language):
                matched = words[i : i + len(term.words)]
                if (is_exact := matches_exactly(term, matched, text)) or matches_inflected(
                    term, matched, text, language
                ):
                    end = matched[-1].end()
                    matches.append((end, text[word.start() : end] == term.text, is_exact, term.text))
            if matches:
                end, *_, term = max(matches)
                uses.append(Use((word.start(), end), self.forms[term] or (text[word.start() : end],), term))
        return uses

    def _candidates(self, word: str, language: str | None) -> Iterator[Term]:
        """Yield the terms that may begin with this word."""
        if language not in self.by_first_word:
            index = self.by_first_word[language] = {}
            for term in map(Term.from_text, self.forms):
                for key in keys(term.words[0], language):
                    index.setdefault(key, []).append(term)
        index = self.by_first_word[language]
        return iter({term: None for key in keys(word, language) for term in index.get(key, ())})

    def counts(self, records: Iterable[Mapping[str, Any]]) -> list[TermCount]:
        """Count what became of each term, in the order of the glossary.

        Args:
            records: Translations of a pipeline that was called with `return_terms=True`.
        """
        uses = [(use["term"], use["is_kept"]) for record in records for use in record.get("terms", ())]
        return self.sum_up(Counter(uses))

    def sum_up(self, uses: Mapping[tuple[str, bool], int]) -> list[TermCount]:
        """Return the counts of all terms, given how often each was kept (True) and missed (False)."""
        return [
            TermCount(
                term, "|".join(forms) or term, uses[term, True] + uses[term, False], uses[term, True], uses[term, False]
            )
            for term, forms in self.forms.items()
        ]

    def __len__(self) -> int:
        return len(self.forms)


def keys(word: str, language: str | None) -> set[str]:
    """Return the texts under which terms that begin with this word are listed."""
    word_form = word.lower()
    return {word_form} if language is None else {word_form, word_form.removesuffix("s"), lemma(word, language)}


def matches_exactly(term: Term, matched: Sequence[re.Match], text: str) -> bool:
    """Return whether these words are the term as it is written; a term in lower case also matches capitals."""
    in_text = [match[0] for match in matched]
    if term.text == term.text.lower():
        in_text = [word.lower() for word in in_text]
    return tuple(in_text) == term.words and is_whole(term, matched, text)


def matches_inflected(term: Term, matched: Sequence[re.Match], text: str, language: str | None) -> bool:
    """Return whether these words are the term, some of them inflected."""
    if language is None or len(matched) < len(term.words) or not is_whole(term, matched, text):
        return False
    in_phrase = len(term.words) > 1
    return all(
        match[0] == word
        or (word == word.lower() == match[0].lower())
        or (same_case(match[0], word, language) and is_inflected(match[0], word, language, in_phrase))
        for match, word in zip(matched, term.words, strict=True)
    )


def same_case(word: str, base: str, language: str) -> bool:
    """Return whether a word's capitals allow it to be an inflected form of `base`."""
    return word[0].isupper() == base[0].isupper() if language in CAPITALISED_NOUNS else base == base.lower()


def is_whole(term: Term, matched: Sequence[re.Match], text: str) -> bool:
    """Return whether words and marks of a text have spaces where the term has them, and nothing continues them."""
    begin, end = matched[0].start(), matched[-1].end()
    if tuple(map(has_space_before, matched))[1:] != term.spaces[1:]:
        return False
    return not (is_word_character(text[end : end + 1]) or is_word_character(text[max(0, begin - 1) : begin]))


def has_space_before(match: re.Match) -> bool:
    return match.string[max(0, match.start() - 1) : match.start()].isspace()


def is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


def spellings(forms: Iterable[str]) -> list[str]:
    """Return the forms, and each with a capital, as at the beginning of a sentence."""
    return list(dict.fromkeys(spelling for form in forms for spelling in (form, form[:1].upper() + form[1:])))


# Translations --------------------------------------------------------------------------------------------------------


def form_spans(forms: Sequence[str], translation: str) -> list[Span]:
    """Return where a translation has one of the forms, as whole words; a text in capitals has them in capitals."""
    longest_first = sorted({*spellings(forms), *map(str.upper, forms)}, key=len, reverse=True)
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"
    return [match.span() for match in re.finditer(pattern, translation)]


def are_kept(uses: Iterable[Use], translation: str) -> list[bool]:
    """Return for each use of a term whether the translation has it; two uses need two places."""
    remaining: dict[tuple[str, ...], int] = {}
    flags = []
    for use in uses:
        number = remaining.setdefault(use.forms, len(form_spans(use.forms, translation)))
        flags.append(number > 0)
        remaining[use.forms] = number - 1
    return flags


__all__ = ["Glossary"]
