"""Words that must be translated in a given way, or not at all.

    glossary = Glossary({"account": ["Konto", "Kontos"], "Vaswani": []})
    pipeline("translation", "owner/name", glossary=glossary)

A term matches whole words only; a term in lower case also matches words with capitals. The model reads the term's
translation instead of the term, which it tends to copy to the right place, and the search finds only translations that
contain it.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from .spans_vaswani import Span


class Use(NamedTuple):
    """A term in a text: its place, and the forms of which the translation must contain one."""

    span: Span
    forms: tuple[str, ...]


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
        self.by_first_word: dict[str, list[str]] = {}
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
        terms = self.by_first_word.setdefault(first_word(term), [])
        terms.append(term)
        terms.sort(key=len, reverse=True)  # the longest match wins

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

    def uses(self, text: str) -> list[Use]:
        """Return the terms in a text, from left to right; of overlapping ones the first, or the longest."""
        uses: list[Use] = []
        for match in re.finditer(r"\w+|[^\w\s]", text):
            begin = match.start()
            if uses and begin < uses[-1].span[1]:
                continue
            for term in self.by_first_word.get(match[0].lower(), ()):
                if matches_at(term, text, begin):
                    end = begin + len(term)
                    uses.append(Use((begin, end), self.forms[term] or (text[begin:end],)))
                    break
        return uses

    def __len__(self) -> int:
        return len(self.forms)


def first_word(term: str) -> str:
    """Return the first word or mark of a term, in lower case."""
    return re.match(r"\w+|[^\w\s]", term)[0].lower()


def matches_at(term: str, text: str, begin: int) -> bool:
    """Return whether the text has the term here as whole words; a term in lower case also matches capitals."""
    end = begin + len(term)
    candidate = text[begin:end]
    if candidate != term and not (term == term.lower() and candidate.lower() == term):
        return False
    return not (is_word_character(text[end : end + 1]) or is_word_character(text[max(0, begin - 1) : begin]))


def is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


def spellings(forms: Iterable[str]) -> list[str]:
    """Return the forms, and each with a capital, as at the beginning of a sentence."""
    return list(dict.fromkeys(spelling for form in forms for spelling in (form, form[:1].upper() + form[1:])))


__all__ = ["Glossary"]
