"""Messages of Java (.properties) and of Apple's systems (.strings): the texts among the values.

javaproperties, the best maintained parser of the first, reports the source of each line, but not the place of its
value; the second has no maintained parser in Python.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from .data import reason_to_skip
from .document import DocumentError, Options, Span, TextDocument, Translated
from .inline import Node
from .messages import as_nodes, as_text


# A line of Java, with those that continue it, or a comment, which none continues.
LINE = re.compile(r"[ \t\f]*+(?:[#!][^\r\n]*+|((?:[^\\\r\n]|\\(?:\r\n|.|\Z))*+))(?:\r\n|\r|\n|\Z)", re.DOTALL)
SPACES = r"(?:[ \t\f]|\\(?:\r\n|\r|\n))*+"
KEY = re.compile(rf"((?:[^\\\s=:]|\\(?:\r\n|.))*+){SPACES}[=:]?{SPACES}", re.DOTALL)
CONTINUATION = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*")
ESCAPE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|(.))", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
NAMES = {character: f"\\{name}" for name, character in ESCAPES.items()} | {"\\": "\\\\"}
SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
# What programs read: a switch, or the name of a class.
NAME = re.compile(r"true|false|\w+(?:[._]\w+)+")
# A pattern of Java's MessageFormat, in which an apostrophe is written twice.
PATTERN = re.compile(r"\{\d|''")

GAP = re.compile(r"(?:\s++|/\*(?>.*?\*/)|//[^\r\n]*+)*+", re.DOTALL)  # spaces and comments
WORD = r"(\"((?:[^\"\\]|\\.)*+)\"|[\w.$/-]++)"
ENTRY = re.compile(rf"{WORD}{GAP.pattern}(?:={GAP.pattern}{WORD}{GAP.pattern})?;", re.DOTALL)


# Java ----------------------------------------------------------------------------------------------------------------


@dataclass
class Properties(TextDocument):
    """A file of Java, in its encoding."""

    encoding: str = "utf-8"

    def write(self, translated: Sequence[Translated]) -> bytes:
        return super().write(translated).decode().encode(self.encoding)


def read_properties(content: bytes, options: Options) -> Properties:
    """Find the texts of a .properties file, which is in UTF-8 or, as before Java 9, in Latin-1."""
    try:
        text, encoding = content.decode(), "utf-8"
    except UnicodeDecodeError:
        text, encoding = content.decode("latin-1"), "latin-1"
    has_escapes = encoding == "latin-1" or text.isascii()  # every version of Java reads them
    texts, untranslated = [], Counter()
    for line in LINE.finditer(text):
        if not line[1]:
            continue
        key = KEY.match(text, *line.span(1))
        begin, end = key.end(), line.end(1)
        name, value = (unescaped(CONTINUATION.sub("", source)) for source in (key[1], text[begin:end]))
        if reason := "values of programs" if NAME.fullmatch(value) else reason_to_skip(name, value, options.keys):
            untranslated[reason] += 1
            continue
        is_pattern = bool(PATTERN.search(value)) and "'" not in value.replace("''", "")
        render = partial(property_value, source=text[begin:end], has_escapes=has_escapes, is_pattern=is_pattern)
        nodes = as_nodes(value.replace("''", "'") if is_pattern else value)
        texts.append(Span(nodes, f"key {name}", begin, end, render))
    return Properties(text, texts, untranslated, encoding=encoding)


def property_value(nodes: list[Node], source: str, has_escapes: bool, is_pattern: bool) -> str:
    """Write a value with the escapes and the width that its source has."""
    text = as_text(nodes)
    text = escaped(text.replace("'", "''") if is_pattern else text, source, has_escapes)
    text = "\\" + text if text.startswith(" ") else text
    first = CONTINUATION.search(source)
    if first is None:
        return text
    if source[: first.start()].endswith("\\n"):
        lines = re.split(r"(?<=[^\\]\\n)(?=.)", text)
    else:
        lines, width = [""], max(map(len, CONTINUATION.split(source)))
        for word in re.findall(r"\S* *", text):
            if lines[-1] and len(lines[-1]) + len(word.rstrip()) > width:
                lines.append("")
            lines[-1] += word
    return first[0].join("\\" + line if i and line.startswith(" ") else line for i, line in enumerate(lines))


def escaped(text: str, source: str, has_escapes: bool) -> str:
    """Return a text with the escapes that it needs, and those that its source has without need."""
    further = {match[2] for match in ESCAPE.finditer(source) if match[2] and match[2] in ":=#!'\""}
    names = NAMES | {character: "\\" + character for character in further}
    unicode = re.search(r"\\([uU])[0-9a-fA-F]{4}", source)
    mark = unicode[1] if unicode else "u" if has_escapes else ""
    return "".join(names.get(c) or (unicode_escape(c, mark) if mark and not c.isascii() else c) for c in text)


def unescaped(source: str) -> str:
    """Return the characters that escapes represent; those of a surrogate pair are one."""
    text = ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else ESCAPES.get(match[2], match[2]), source)
    return SURROGATES.sub(lambda match: match[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)


def unicode_escape(character: str, mark: str) -> str:
    """Return the escape of a character, or those of its surrogate pair."""
    codes = character.encode("utf-16-be").hex()
    return "".join(f"\\{mark}{codes[i : i + 4]}" for i in range(0, len(codes), 4))


# Apple ---------------------------------------------------------------------------------------------------------------


def read_strings(content: str, options: Options) -> TextDocument:
    """Find the texts of a .strings file.

    Raises:
        DocumentError: The file is not a list of entries.
    """
    texts, untranslated, place = [], Counter(), GAP.match(content).end()
    while place < len(content):
        entry = ENTRY.match(content, place)
        if entry is None:
            line = content.count("\n", 0, place) + 1
            raise DocumentError(f'Line {line} is not an entry of a .strings file, such as "key" = "text";')
        place = GAP.match(content, entry.end()).end()
        name = unescaped(entry[1] if entry[2] is None else entry[2])
        value = unescaped(entry[4] or "")
        if reason := "entries without a text" if entry[4] is None else reason_to_skip(name, value, options.keys):
            untranslated[reason] += 1
        else:
            texts.append(Span(as_nodes(value), f"key {name}", *entry.span(4), partial(string, source=entry[4])))
    return TextDocument(content, texts, untranslated)


def string(nodes: list[Node], source: str) -> str:
    """Write a text between quotation marks; line ends stay raw if they are in the source."""
    text = escaped(as_text(nodes), source, has_escapes=False)
    text = re.sub(r'(?<!\\)"', '\\"', text)
    return text.replace("\\n", "\n") if "\n" in source else text
