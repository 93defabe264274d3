"""From nodes to Markdown: the source's spelling, escapes only where they are needed, and lines as long as before."""

import html
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .inline import Element, Node, Object, expanded
from .markdown_inline import Markup


MIN_WIDTH = 40  # of wrapped lines, in characters
# Characters that are escaped where they would be taken for markup.
SPECIAL = re.compile(r"[\\`*\[\]<${]|(?<!\w)_|_(?!\w)|~~|&(?=#?\w+;)|:(?=[\w+-]+:)")
# The beginning of a line that would be read as another block.
BLOCK_START = re.compile(
    r"(?m)^([ \t]*)(?:(\d{1,9})(?=[.)](?:\s|$))|(?=[-+*:~](?:\s|$)|#{1,6}(?:\s|$)|[=-]+\s*$"
    r"|[-_*](?:[ \t]*[-_*]){2,}\s*$|`{3}|~{3}|:{2}|!!!|\?\?\?|===|///|\$\$|--|[><|\[{@]))"
)
# A word that may begin a line without being read as another block.
SAFE_START = re.compile(
    r"(?!(?:import|export)\b)(?:[^\W\d]|[*_]{1,3}[^\W\d_]|\[[^\W\d]|`[^`]|[\"'(«„“‚‘¿¡]|\d+(?![\d.)])|[^\x00-\x7f])"
)
# Noncharacters: a space that is not for wrapping, the line end of a line break, and a line end inside markup.
SPACE, LINE_END, INNER_END = "\ufdd0", "\ufdd1", "\ufdd2"
TAGS = {"em": "em", "strong": "strong", "s": "del"}


class Style(NamedTuple):
    """A way to write nodes, from the plainest to the safest."""

    has_escapes: bool = False
    emphasis: str = ""  # "*" for stars in place of underscores, "<" for tags


STYLES = (Style(), Style(True), Style(True, "*"), Style(True, "<"))


@dataclass
class Layout:
    """The lines of a text.

    Args:
        prefix: What lines begin with, except for the first.
        inner_prefix: What lines inside markup begin with, such as those of a long tag, before their own indent.
        width: The width of the lines, or 0 for no wrapping.
        line_end: The characters of a line end.
    """

    prefix: str = ""
    inner_prefix: str = ""
    width: int = 0
    line_end: str = "\n"


@dataclass
class Writer:
    """Writes the nodes of a text.

    Args:
        read: Reads what has been written, or returns None if that is not one text of its kind.
        spelling, breaks: How the source spells characters and line breaks; see `Reader`.
        layout: The lines.
        is_html: The text is in an HTML block, where a backslash does not escape.
        is_cell: The text is in a table, where bars end a cell.
    """

    read: Callable[[str], list[Node] | None]
    spelling: dict[str, str]
    breaks: list[str]
    layout: Layout
    is_html: bool = False
    is_cell: bool = False

    def __call__(self, nodes: list[Node]) -> str:
        wanted, written = meaning(nodes), ""
        for style in STYLES:
            written = self.write(nodes, style)
            read = self.read(written.replace(INNER_END, "\n"))
            if read is not None and meaning(read) == wanted:
                break
        if self.is_cell:
            return written.replace("|", "\\|")
        layout = self.layout
        written = written.replace("\n", layout.line_end + layout.prefix)
        return written.replace(INNER_END, layout.line_end + layout.inner_prefix)

    def write(self, nodes: list[Node], style: Style) -> str:
        """Return the nodes as lines without prefixes."""
        text = Pass(self, style).nodes(nodes).strip(" ")
        text = "\n".join(wrap(line, self.layout.width, self.is_html) for line in text.split(LINE_END))
        text = text.replace(SPACE, " ")
        if style.has_escapes and not self.is_html and not self.is_cell and isinstance(nodes[0], str):
            text = BLOCK_START.sub(escaped_start, text)
        return text


def escaped_start(match: re.Match) -> str:
    return f"{match[1]}{match[2] or ''}\\"


class Pass:
    """One attempt to write nodes."""

    def __init__(self, writer: Writer, style: Style):
        self.writer, self.style, self.breaks = writer, style, iter(writer.breaks)
        marks = "|".join(map(re.escape, writer.spelling)) or r"(?!)"
        self.special = re.compile(f"({marks})|({SPECIAL.pattern})" if style.has_escapes else f"({marks})")

    def nodes(self, nodes: Iterable[Node]) -> str:
        return "".join(map(self.node, nodes))

    def node(self, node: Node) -> str:
        if isinstance(node, str):
            return "".join(self.text(part) for part in re.split("(\v)", node))
        if not isinstance(node, Element | Object):
            return self.nodes(node.nodes)
        markup, texts = node.origin, iter(node.texts)
        content = self.nodes(node.nodes) if isinstance(node, Element) else ""
        if markup.key in TAGS:
            return self.emphasis(markup, content)
        before, content, after = outer_spaces(content, isinstance(markup.key, tuple))
        written = self.pieces(markup.before, markup, texts) + content
        if markup.label is not None and one_line(written) != one_line(markup.before[0] + markup.label):
            return before + written + fixed(f"][{markup.label}]") + after
        return before + written + self.pieces(markup.after, markup, texts) + after

    def text(self, text: str) -> str:
        if text == "\v":
            return fixed(next(self.breaks, "<br>")).replace(INNER_END, LINE_END)
        return self.special.sub(self.escape, text)

    def escape(self, match: re.Match) -> str:
        if match[1]:
            return self.writer.spelling[match[1]]
        return f"&#{ord(match[2][0])};{match[2][1:]}" if self.writer.is_html else "\\" + match[2]

    def emphasis(self, markup: Markup, content: str) -> str:
        """Write emphasis; spaces move outside, because the marks must touch the words."""
        opening, closing = markup.before[0], markup.after[0]
        if self.style.emphasis == "<" or not content.strip():
            opening, closing = f"<{TAGS[markup.key]}>", f"</{TAGS[markup.key]}>"
        elif self.style.emphasis:
            opening = closing = opening.replace("_", "*")
        before, inside, after = outer_spaces(content)
        return before + opening + inside + closing + after

    def pieces(self, pieces: list[str], markup: Markup, texts: Iterator[list[Node]]) -> str:
        """Write pieces of markup, with a text after each but the last."""
        first = 0 if pieces is markup.before else len(markup.before) - 1
        parts = [fixed(pieces[0])]
        for i, piece in enumerate(pieces[1:], first):
            parts += [self.inner_text(next(texts), *markup.texts[i]), fixed(piece)]
        return "".join(parts)

    def inner_text(self, nodes: list[Node], kind: str, original: list[Node], spelled: str) -> str:
        """Write a text of markup; one that has not changed keeps its spelling."""
        if meaning(nodes) == meaning(original):
            return fixed(spelled)
        if kind.startswith("label"):
            quote = kind.removeprefix("label")
            written = self.nodes(nodes)
            return fixed(written.replace(quote, "\\" + quote) if quote else written)
        text = "".join(node for node in expanded(nodes) if isinstance(node, str))
        if kind.startswith("&"):
            return fixed(re.sub(rf"[<{kind[1]}]|&(?=#?\w+;)", lambda match: html.escape(match[0]), text))
        return fixed(write_title(text, kind))


def write_title(title: str, quote: str) -> str:
    """Return the title of a link, for a kind of quotation mark, which may be a parenthesis."""
    return re.sub(r"[\\()]" if quote == ")" else rf"[\\{quote}]", r"\\\g<0>", title)


def outer_spaces(content: str, are_outside: bool = True) -> tuple[str, str, str]:
    """Return the spaces before a content, the content, and the spaces after it; they stay inside if wanted."""
    inside = content.strip(" ")
    if not inside or not are_outside:
        return "", content, ""
    begin = content.index(inside)
    return content[:begin], inside, content[begin + len(inside) :]


def fixed(text: str) -> str:
    """Return a text that is not wrapped."""
    return text.replace(" ", SPACE).replace("\n", INNER_END)


def one_line(text: str) -> str:
    return " ".join(text.replace(SPACE, " ").replace(INNER_END, " ").split())


def wrap(text: str, width: int, is_html: bool) -> str:
    """Wrap a text to a width, if it is not 0; no line begins with what would be read as another block."""
    if not width:
        return text
    lines = []
    for word in text.split(" "):
        length = len(lines[-1].rpartition(INNER_END)[2]) if lines else 0
        is_safe = SAFE_START.match(word) or (is_html and word.startswith("<"))
        if lines and (length + 1 + len(word.partition(INNER_END)[0]) <= max(width, MIN_WIDTH) or not is_safe):
            lines[-1] += " " + word
        else:
            lines.append(word)
    return "\n".join(lines)


def meaning(nodes: list[Node]) -> list:
    """Return nodes as values that are equal if they are read alike; spaces do not count."""
    values: list = []
    for node in expanded(nodes):
        if isinstance(node, str):
            add_text(values, re.sub(r"[ \t\n]+", "", node))
        elif isinstance(node, Element):
            values.append(("element", key_of(node.origin), meaning(node.nodes), [*map(meaning, node.texts)]))
        elif isinstance(node, Object):
            if is_address(key := key_of(node.origin)):
                add_text(values, key)
            elif key != "":  # a line end
                values.append(("object", key, [*map(meaning, node.texts)]))
    return values


def add_text(values: list, text: str):
    if values and isinstance(values[-1], str):
        values[-1] += text
    elif text:
        values.append(text)


def key_of(markup: Markup):
    """Return what markup means; tags that replace marks mean the same."""
    texts = {"<em>": "em", "<strong>": "strong", "<del>": "s"}
    if not isinstance(markup.key, str):
        return markup.key
    if markup.texts:
        return tuple(markup.before)
    return texts.get(markup.key, " ".join(markup.key.split()))


def is_address(key) -> bool:
    """Whether an object is an address among words, which may also be in a string."""
    return isinstance(key, str) and re.match(r"https?://|ftp://|www\.", key) is not None
