"""Markdown: translate paragraphs, headings, lists, quotes and tables; keep code, front matter and HTML blocks.

The translations are written into the lines of the originals, so everything around them stays byte for byte. mdformat,
which renders markdown-it's tokens, would rewrite the whole document in its own style.
"""

import re
import textwrap
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from .inline import Element, Node, Object, close_tag, unwrap
from .translator import DocumentTranslator


LINE_BREAK = "\v"  # a hard line break, which ends a line of text
MIN_WIDTH = 40  # of wrapped lines, in characters
FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n.*?^(?:---|\.\.\.)[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
PARSER = MarkdownIt("commonmark", {"store_labels": True}).enable(["table", "strikethrough"])
# Characters that are escaped where they would be taken for markup.
SPECIAL = re.compile(r"([\\`*\[\]<]|(?<!\w)_|_(?!\w)|~~|&(?=#?\w+;))")
HTML_TAG = re.compile(r"<(?P<slash>/?)(?P<name>[a-zA-Z][\w-]*)[^>]*(?<!/)>", re.DOTALL)
LINE_START = re.compile(r"^(\s*)([#>+-]|\d+[.)])(?=\s)")


class TextLine(NamedTuple):
    """The place of a line of text in the document: its line number and its span in that line."""

    number: int
    begin: int
    end: int


class Place(NamedTuple):
    """A text of the document: its token, the place of each of its lines, and whether it is in a table."""

    token: Token
    lines: list[TextLine]
    is_cell: bool


def translate(text: str, translator: DocumentTranslator) -> str:
    """Translate the texts of a document."""
    front = FRONT_MATTER.match(text)
    start = front.end() if front else 0
    body = text[start:]
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", body)  # as the parser counts them
    places = find_places(PARSER.parse(body), lines)
    segments = [as_nodes(list(place.token.children or []), body) for place in places]
    translated = translator(segments)
    # Backwards, because a new text moves everything behind it.
    for place, nodes in reversed(list(zip(places, translated, strict=True))):
        put_back(lines, place, as_markdown(nodes, body))
    return text[:start] + "".join(lines)


def find_places(tokens: list[Token], lines: list[str]) -> list[Place]:
    """Find the texts among the tokens; one that is not in the lines as the parser read it stays untranslated."""
    places: list[Place] = []
    reached: dict[int, int] = {}  # line number -> end of the last text in it
    previous = None
    for token in tokens:
        if token.type == "inline" and token.map and token.content.strip():
            is_cell = previous is not None and previous.type in ("th_open", "td_open")
            if text_lines := find_lines(token, is_cell, lines, reached):
                places.append(Place(token, text_lines, is_cell))
        previous = token
    return places


def find_lines(token: Token, is_cell: bool, lines: list[str], reached: dict[int, int]) -> list[TextLine]:
    """Find each line of a token's text, or return [] if one cannot be found."""
    number, stop = token.map or (0, 0)
    text_lines = []
    for content in token.content.split("\n"):
        content = content.replace("|", r"\|") if is_cell else content
        while number < stop and (begin := lines[number].find(content, reached.get(number, 0))) < 0:
            number += 1
        if number >= stop:
            return []
        reached[number] = begin + len(content)
        text_lines.append(TextLine(number, begin, reached[number]))
        number += 1
    return text_lines


def put_back(lines: list[str], place: Place, new: str):
    """Replace a text; one of several lines is wrapped to the width that it had."""
    new = "\n".join(part.strip() for part in new.split("\n"))
    if place.is_cell:
        new = re.sub(r"(?<!\\)\|", r"\\|", new.replace("\n", " "))
    elif not LINE_START.match(place.token.content):
        new = LINE_START.sub(r"\1\\\2", new)
    first, last = place.lines[0], place.lines[-1]
    before, after = lines[first.number][: first.begin], lines[last.number][last.end :]
    if len(place.lines) > 1:
        second = place.lines[1]
        indent = lines[second.number][: second.begin]  # with the marks of quotes
        width = max(line.end - line.begin for line in place.lines)
        wrapped = [line for part in new.split("\n") for line in wrap(part, width)]
    else:
        indent = " " * len(before)
        wrapped = new.split("\n")
    line_end = re.search(r"\r?\n?$", lines[first.number])[0] or "\n"
    text = (line_end + indent).join(wrapped)
    # Empty strings keep the numbers of the lines behind.
    removed = last.number - first.number
    lines[first.number : last.number + 1] = [before + text + after] + [""] * removed


def wrap(text: str, width: int) -> list[str]:
    """Split a text into lines of at most `width` characters; none but the first may begin like a list or a heading."""
    lines = textwrap.wrap(text, max(MIN_WIDTH, width), break_long_words=False, break_on_hyphens=False) or [""]
    for i in range(1, len(lines)):
        lines[i] = LINE_START.sub(r"\1\\\2", lines[i])
        lines[i] = re.sub(r"^\\(\d+)([.)])", r"\1\\\2", lines[i])
    return lines


# From tokens to nodes ------------------------------------------------------------------------------------------------


def as_nodes(tokens: list[Token], text: str) -> list[Node]:
    """Convert inline tokens to nodes; the origin of an element is its opening and its closing mark."""
    top = Element(("", ""))
    stack = [top]
    remaining = iter(tokens)
    for token in remaining:
        nodes = stack[-1].nodes
        tag = HTML_TAG.fullmatch(token.content) if token.type == "html_inline" else None
        if token.markup == "autolink":
            nodes.append(Object(f"<{next(remaining).content}>"))
            next(remaining)  # the end of the link
        elif token.nesting == 1 or (tag and not tag["slash"]):
            marks = (token.content, f"</{tag['name']}>") if tag else (opening_mark(token), closing_mark(token, text))
            stack.append(Element(marks))
            nodes.append(stack[-1])
        elif token.nesting == -1:
            # Markdown's own marks are in pairs; HTML tags between them may have no partner.
            unwrap(stack, max(i for i, element in enumerate(stack) if not element.origin[0].startswith("<")) + 1)
            stack.pop()
        elif token.type == "text":
            nodes.append(token.content)
        elif token.type == "softbreak":
            nodes.append(" ")
        elif token.type == "hardbreak":
            nodes.append(LINE_BREAK)
        elif not (tag and close_tag(stack, token.content)):
            nodes.append(Object(source_of(token, text)))
    unwrap(stack, 1)
    return [node for node in top.nodes if node != ""]


def opening_mark(token: Token) -> str:
    return "[" if token.type == "link_open" else token.markup


def closing_mark(token: Token, text: str) -> str:
    if token.type != "link_open":
        return token.markup
    if label := token.meta.get("label"):
        return f"][{find_label(label, text)}]"
    return f"]({link_target(token, 'href')})"


def link_target(token: Token, name: str) -> str:
    """The address of a link or an image, and its title."""
    address, title = str(token.attrs.get(name, "")), token.attrs.get("title")
    address = f"<{address}>" if re.search(r"[\s()]", address) else address
    return address + (f' "{str(title).replace(chr(34), chr(92) + chr(34))}"' if title else "")


def find_label(label: str, text: str) -> str:
    """The label of a link as the document spells it; the parser capitalises it."""
    definition = re.search(re.escape(f"[{label}]:"), text, re.IGNORECASE)
    return definition[0][1:-2] if definition else label


def source_of(token: Token, text: str) -> str:
    """The Markdown of a token that is not translated."""
    if token.type == "code_inline":
        space = " " if token.content.startswith("`") or token.content.endswith("`") else ""
        return f"{token.markup}{space}{token.content}{space}{token.markup}"
    if token.type == "image":
        if label := token.meta.get("label"):
            return f"![{token.content}][{find_label(label, text)}]"
        return f"![{token.content}]({link_target(token, 'src')})"
    return token.content


# From nodes to Markdown ----------------------------------------------------------------------------------------------


def as_markdown(nodes: list[Node], text: str) -> str:
    """Write nodes as Markdown, with escapes only if the parser would otherwise read other nodes."""
    plain = "".join(render(node, with_escapes=False) for node in nodes)
    parsed = as_nodes(list(PARSER.parseInline(plain, link_definitions(text))[0].children or []), text)
    return plain if shape(parsed) == shape(nodes) else "".join(render(node, with_escapes=True) for node in nodes)


def link_definitions(text: str) -> dict:
    """The link reference definitions of a document, as the parser's environment holds them."""
    env: dict = {}
    PARSER.parse("\n".join(re.findall(r"^ {0,3}\[[^\]\n]+\]:.*$", text, re.MULTILINE)), env)
    return env


def shape(nodes: list[Node]) -> list:
    """The nodes as values that can be compared, with neighbouring strings joined."""
    values: list = []
    for node in nodes:
        if not isinstance(node, str):
            values.append((node.origin, shape(getattr(node, "nodes", []))))
        elif values and isinstance(values[-1], str):
            values[-1] += node
        else:
            values.append(node)
    return [value.strip() if isinstance(value, str) else value for value in values]


def render(node: Node, with_escapes: bool) -> str:
    if isinstance(node, str):
        return (SPECIAL.sub(r"\\\1", node) if with_escapes else node).replace(LINE_BREAK, "\\\n")
    if isinstance(node, Object):
        return node.origin
    content = "".join(render(child, with_escapes) for child in node.nodes)
    # Spaces move outside: emphasis must touch its words.
    before, after = re.match(r"\s*", content)[0], re.search(r"\s*$", content)[0]
    inside = content.strip()
    return f"{before}{node.origin[0]}{inside}{node.origin[1]}{after}" if inside else content
