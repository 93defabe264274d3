"""Words that must be translated in a given way, or not at all.

    glossary = Glossary({"account": ["Konto", "Kontos"], "Vaswani": []})
    pipeline("translation", "owner/name", glossary=glossary)

A term is found where it stands as a whole word; one in lower case also with capitals. The model reads the
translation in its place, which it tends to copy where it belongs, and the search gives no translation without it.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from .spans_vaswani import Span


class Use(NamedTuple):
    """A term in a text: where, and the forms of which the translation must have one."""

    span: Span
    forms: tuple[str, ...]


class Glossary:
    """Terms and their translations.

    Args:
        terms: For each term its translation, or several forms of it of which one will do, the usual one first. Without
            any, the term stays as it is in the text.

    Raises:
        ValueError: a term is empty, or given twice with different translations.
    """

    def __init__(self, terms: Mapping[str, str | Iterable[str]]):
        self.forms: dict[str, tuple[str, ...]] = {}
        self.by_start: dict[str, list[str]] = {}
        for term, forms in terms.items():
            forms = (forms,) if isinstance(forms, str) else tuple(forms)
            self.add(" ".join(term.split()), tuple(form.strip() for form in forms if form.strip()))

    def add(self, term: str, forms: tuple[str, ...]):
        if not term:
            raise ValueError("A term of the glossary is empty.")
        if self.forms.get(term, forms) != forms:
            raise ValueError(f"The glossary has {term!r} twice, with different translations.")
        self.forms[term] = forms
        start = self.by_start.setdefault(start_of(term), [])
        start.append(term)
        start.sort(key=len, reverse=True)  # the longest first

    @classmethod
    def from_file(cls, path: str | Path) -> "Glossary":
        """Reads lines of TERM <tab> TRANSLATION, in UTF-8; `|` stands between forms, in either column.

        Without a second column the term is not to be translated. Blank lines and lines that begin with # do not count.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not such a file; the message names the line.
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
                raise ValueError(f"{path}, line {number}: {error} A line is TERM <tab> TRANSLATION.") from error
        return glossary

    def uses(self, text: str) -> list[Use]:
        """The terms in a text, from left to right; of those that overlap the first, or the longest."""
        found: list[Use] = []
        for match in re.finditer(r"\w+|[^\w\s]", text):
            begin = match.start()
            if found and begin < found[-1].span[1]:
                continue
            for term in self.by_start.get(match[0].lower(), ()):
                end = begin + len(term)
                if stands_at(term, text, begin):
                    forms = self.forms[term] or (text[begin:end],)
                    found.append(Use((begin, end), forms))
                    break
        return found

    def __len__(self) -> int:
        return len(self.forms)


def start_of(term: str) -> str:
    return re.match(r"\w+|[^\w\s]", term)[0].lower()


def stands_at(term: str, text: str, begin: int) -> bool:
    """Whether the term stands there as a whole word, written as it is, or with capitals if it has none."""
    there, end = text[begin : begin + len(term)], begin + len(term)
    if there != term and not (term == term.lower() and there.lower() == term):
        return False
    return not (is_letter(text[end : end + 1]) or is_letter(text[max(0, begin - 1) : begin]))


def is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def spellings(forms: Iterable[str]) -> list[str]:
    """The forms, and each as it begins a sentence."""
    return list(dict.fromkeys(x for form in forms for x in (form, form[:1].upper() + form[1:])))


__all__ = ["Glossary"]
