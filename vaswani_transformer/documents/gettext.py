"""gettext (.po, .pot): entries without a translation get one, and everything else stays.

An entry with a warning is marked as fuzzy. polib and translate-toolkit would wrap all lines of a file again.
"""

import codecs
import gettext
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .document import DocumentError, Languages, Options, Text, Translated
from .messages import as_nodes, as_text


LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
KEYWORD = re.compile(r"[ \t]*(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d+)\])?[ \t]*(?=\")")
STRING = re.compile(r'[ \t]*("(?:[^"\\]|\\.)*")[ \t]*')
CHARSET = re.compile(rb"charset=([\w.:-]+)")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class Field(NamedTuple):
    """A keyword with its text: the place of the whole, and that of its strings."""

    keyword: str
    value: str
    begin: int
    strings: int
    end: int


@dataclass
class Entry:
    """An entry.

    Attributes:
        fields: Its keywords with their texts.
        flags: The end of the line of its flags, and its text.
        first: Where its fields, or the comments about its previous text, begin.
        line: The number of the line of its first field.
    """

    fields: list[Field] = field(default_factory=list)
    flags: tuple[int, str] | None = None
    first: int | None = None
    line: int = 0

    def find(self, keyword: str) -> Field | None:
        return next((field for field in self.fields if field.keyword == keyword), None)

    @property
    def translations(self) -> list[Field]:
        return [field for field in self.fields if field.keyword == "msgstr"]

    @property
    def is_header(self) -> bool:
        source = self.find("msgid")
        return source is not None and source.value == "" and self.find("msgctxt") is None


class PluralForms(NamedTuple):
    """How many plural forms a language has, the rule that chooses one, and the number of the one for a single thing."""

    number: int
    rule: str
    singular: int


@dataclass
class Catalogue:
    """A file that has been read; `texts` are the sources of its entries, a plural after its singular."""

    content: str
    encoding: str
    header: Entry | None
    entries: list[Entry]
    texts: Sequence[Text]
    untranslated: Counter[str]
    languages: Languages
    language: str | None
    plurals: PluralForms

    def write(self, translated: Sequence[Translated]) -> bytes:
        remaining = iter(translated)
        newline = "\r\n" if "\r\n" in self.content else "\n"
        edits: list[tuple[int, int, str]] = []
        for entry in self.entries:
            has_plural = entry.find("msgid_plural") is not None
            new = [next(remaining) for _ in range(2 if has_plural else 1)]
            forms = [as_text(nodes) for nodes, _ in new]
            edits.append(self.translation_edit(entry, forms, newline))
            if any(warnings for _, warnings in new):
                edits.append(fuzzy_edit(entry, newline))
        if self.entries:
            edits += self.header_edits(newline)
        content = edited(self.content, edits)
        try:
            return content.encode(self.encoding)
        except UnicodeEncodeError:
            return re.sub(r"charset=[\w.:-]+", "charset=UTF-8", content, count=1).encode()

    def translation_edit(self, entry: Entry, forms: list[str], newline: str) -> tuple[int, int, str]:
        old = entry.translations
        is_long = "\n" in self.content[entry.find("msgid").strings : entry.find("msgid").end]
        if len(forms) == 1:
            return old[0].strings, old[0].end, quoted(forms[0], is_long, newline)
        number = self.plurals.number or len(old)
        lines = [f"msgstr[{i}] {quoted(forms[i != self.plurals.singular], is_long, newline)}" for i in range(number)]
        return old[0].begin, old[-1].end, newline.join(lines)

    def header_edits(self, newline: str) -> list[tuple[int, int, str]]:
        """Return the changes that make the header say what the file is now."""
        encoding = {"Content-Type": "text/plain; charset=UTF-8", "Content-Transfer-Encoding": "8bit"}
        lines = {"Language": self.language} if self.language else {}
        if self.language and self.plurals.rule:
            lines["Plural-Forms"] = f"nplurals={self.plurals.number}; plural={self.plurals.rule};"
        if self.header is None:
            lines = {"MIME-Version": "1.0", **encoding, **lines}
            text = "".join(f"{name}: {value}\n" for name, value in lines.items())
            return [(0, 0, f'msgid ""{newline}msgstr {quoted(text, True, newline)}{newline}{newline}')]
        old = self.header.translations[0]
        text = old.value
        for name, value in (encoding | lines).items():
            present = re.search(rf"^{name}:[ \t]*(.*)$", text, re.MULTILINE | re.IGNORECASE)
            if present and (name in lines or present[1].endswith(("CHARSET", "ENCODING"))):
                text = text[: present.start(1)] + value + text[present.end(1) :]
            elif not present and (name in lines or name == "Content-Type"):
                text = (text + "\n" if text and not text.endswith("\n") else text) + f"{name}: {value}\n"
        return [] if text == old.value else [(old.strings, old.end, quoted(text, True, newline))]


def read(content: bytes, options: Options) -> Catalogue:
    """Find the entries without a translation.

    Raises:
        DocumentError: The file is damaged, in an unknown encoding, has no entries, or is for another language.
    """
    text, encoding = decoded(content)
    all_entries = list(entries_of(text))
    header = next((entry for entry in all_entries if entry.is_header and entry.translations), None)
    with_source = [entry for entry in all_entries if not entry.is_header and entry.find("msgid")]
    if not with_source:
        raise DocumentError("The file has no texts to translate.")
    chosen, texts, untranslated = [], [], Counter()
    for entry in with_source:
        if any(translation.value for translation in entry.translations) or not entry.translations:
            untranslated["entries with a translation"] += 1
            continue
        chosen.append(entry)
        sources = [entry.find("msgid"), entry.find("msgid_plural")]
        texts += [Text(as_nodes(source.value), f"line {entry.line}") for source in sources if source]
    recorded = header.translations[0].value if header else ""
    plurals = plural_forms(recorded, options.target_language)
    # The language of a file without any translation is often that of its template.
    named = re.search(r"^Language:[ \t]*(\S+)", recorded, re.MULTILINE) if untranslated else None
    languages = None, named[1] if named else None
    return Catalogue(text, encoding, header, chosen, texts, untranslated, languages, options.target_language, plurals)


def decoded(content: bytes) -> tuple[str, str]:
    """Return the text of a file and its encoding, which its header names."""
    match = CHARSET.search(content[:10_000])
    name = match[1].decode() if match and match[1] != b"CHARSET" else "utf-8"
    if name.lower().replace("-", "") == "utf8":
        name = "utf-8-sig" if content.startswith(b"\xef\xbb\xbf") else "utf-8"
    try:
        if string.printable.encode(name).removeprefix(codecs.BOM_UTF8) != string.printable.encode("ascii"):
            raise UnicodeError("gettext needs an encoding that extends ASCII; convert the file to UTF-8")
        return content.decode(name), name
    except (LookupError, UnicodeError) as error:
        raise DocumentError(f"The file is not in {name}, the encoding that its header names: {error}.") from error


def entries_of(content: str) -> Iterator[Entry]:
    """Yield the entries that are not obsolete.

    Raises:
        DocumentError: A line is none of gettext's.
    """
    entry: Entry | None = None
    number = 0
    for match in LINE.finditer(content):
        line, number = match[1], number + 1
        stripped = line.strip()
        keyword = KEYWORD.match(line)
        has_translation = entry is not None and bool(entry.translations)
        begins = stripped.startswith("#") or not stripped or (keyword and keyword[1] in ("msgctxt", "msgid"))
        if has_translation and begins and entry is not None:
            yield entry
            entry = None
        if not stripped or stripped.startswith("#~"):
            continue
        entry = entry or Entry()
        if stripped.startswith("#"):
            if stripped.startswith("#,"):
                entry.flags = match.start() + len(line.rstrip()), stripped
            if stripped.startswith("#|"):
                entry.first = match.start() if entry.first is None else entry.first
        elif keyword and (string := STRING.fullmatch(line, keyword.end())):
            if not entry.fields:
                entry.first = match.start() if entry.first is None else entry.first
                entry.line = number
            entry.fields.append(field_at(match.start(), keyword, string))
        elif entry.fields and (string := STRING.fullmatch(line)):
            last = entry.fields[-1]
            entry.fields[-1] = last._replace(value=last.value + unquoted(string[1]), end=match.start() + string.end(1))
        elif stripped:
            raise DocumentError(f"Line {number} is not gettext: {stripped[:60]}")
    if entry is not None and entry.fields:
        yield entry


def field_at(begin: int, keyword: re.Match, string: re.Match) -> Field:
    return Field(keyword[1], unquoted(string[1]), begin, begin + string.start(1), begin + string.end(1))


def unquoted(string: str) -> str:
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[0]), string[1:-1])


def quoted(text: str, is_long: bool, newline: str) -> str:
    """Write a text as a string, or as one for each of its lines."""
    names = {character: f"\\{name}" for name, character in ESCAPES.items()}
    escaped = "".join(names.get(character, character) for character in text)
    lines = re.findall(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\[^n])+", escaped) or [""]
    if len(lines) == 1 and not is_long:
        return f'"{escaped}"'
    return newline.join(['""', *(f'"{line}"' for line in lines)])


def fuzzy_edit(entry: Entry, newline: str) -> tuple[int, int, str]:
    if entry.flags is not None:
        end, _ = entry.flags
        return end, end, ", fuzzy"
    return entry.first, entry.first, f"#, fuzzy{newline}"


def plural_forms(header: str, language: str | None) -> PluralForms:
    """Return the plural forms of the target language, or those that the header names."""
    recorded = re.search(r"nplurals\s*=\s*(\d+)\s*;\s*plural\s*=\s*([^;\n]+)", header)
    if language:
        from babel.core import UnknownLocaleError
        from babel.messages.plurals import get_plural

        try:
            number, rule = get_plural(language)[:2]
            return PluralForms(number, rule, singular_form(rule))
        except (UnknownLocaleError, ValueError):
            pass
    if recorded and int(recorded[1]) < 10:
        return PluralForms(int(recorded[1]), recorded[2].strip(), singular_form(recorded[2]))
    return PluralForms(0, "", 0)


def singular_form(rule: str) -> int:
    try:
        return gettext.c2py(rule)(1)
    except (ValueError, SyntaxError):
        return 0


def edited(content: str, edits: list[tuple[int, int, str]]) -> str:
    parts, last = [], 0
    for begin, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [content[last:begin], new]
        last = end
    return "".join([*parts, content[last:]])
