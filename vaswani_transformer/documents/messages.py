"""Messages of programs: a string with placeholders, as nodes.

The value of a JSON, YAML, .properties or .strings file, an entry of gettext or XLIFF. Placeholders of printf, Python,
Ruby, Mustache and the like are objects; tags of HTML and BBCode that are closed are elements; ICU's plural and select
keep their frame, and their branches are texts of their own. No library finds the places of all of these: ICU's own
parser is C++, and pyicumessageformat does not report positions.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..model.spans_vaswani import Span
from .inline import Element, Fixed, Node, Object


PLACEHOLDER = re.compile(
    r"""
      %(?:\([\w.]{1,80}\)|\d{1,2}\$)?[-+ #0]{0,5}(?:\d{1,4}|\*)?(?:\.\d{1,4})?(?:hh?|ll?|[Lqjzt])?[sSdifgGxXeEcu@](?!\w)
    | %%                                                     # %s, %(name)s, %1$d, %.2f
    | %\{[^{}\s]{1,80}\} | %[A-Za-z_]{2,40}%                 # %{name}, %name%
    | \$\{[^{}]{1,200}\} | \$t\([^()]{1,200}\)               # ${name}, $t(key)
    | \{\{[^{}]{1,200}\}\} | \{%[^{}%]{1,200}%\}             # {{ name }}, {% tag %}
    | \[%[^][%]{1,200}%\]                                    # [% name %]
    | \{[^{}]{0,200}\}                                       # {0}, {name}, {name!r:>8}, {count, number}
    | :[a-z][\w+:.-]{0,40}:`[^`\n]{1,200}`                   # :ref:`target`
    | ``[^`\n]{1,200}`` | `[^`\n]{1,200}`_{0,2} | \|\w[^|\n]{0,80}\|   # ``code``, `link`_, |name|
    | <!--[^<>]{0,200}-->
    """,
    re.VERBOSE,
)
TAG = re.compile(
    r"<(?P<slash>/?)(?P<name>[A-Za-z][\w:.-]{0,40})(?:\s[^<>]*)?>|\[(?P<end>/?)(?P<code>[A-Za-z]{1,20})(?:=[^][\n]*)?\]"
)
ICU = re.compile(r"\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal)\s*,")
# The mark before an access key: &Open, Save _As, E&xit, but not AT&T, &amp; and snake_case.
ACCELERATOR = re.compile(r"(?<![\w&])(?:&(?!\w+;)(?=[^\W\d_])|_(?=[A-Z]))|(?<=[^\W\d_])&(?!\w+;)(?=[a-z]+(?![\w=/&]))")


@dataclass(frozen=True)
class Frame:
    """The parts of an ICU message around its branches; there is one more of them than branches."""

    parts: tuple[str, ...]


class Mark(NamedTuple):
    """What a character represents: the markup that another format has at its place.

    origin: The markup as that format represents it.
    tag: The name and kind, "start" or "end", of a tag that has a partner; None for an object.
    """

    origin: Any
    tag: tuple[str, str] | None = None


class Piece(NamedTuple):
    """A part of a message: its text, the node for a placeholder, and the name and kind of a tag."""

    text: str
    node: Node | None = None
    tag: tuple[str, str] | None = None


def as_nodes(message: str, marks: Mapping[str, Mark] | None = None) -> list[Node]:
    """Convert a message to nodes.

    The origin of an object is its text, that of an element its two tags.

    Args:
        message: The text.
        marks: Characters that represent markup of the format around the message.
    """
    return nodes_between(message, (0, len(message)), marks or {}, is_plural=False)


def as_text(nodes: Sequence[Node], escape: Callable[[str], str] = str) -> str:
    """Write nodes as a message; `escape` writes its words in the format around it."""
    return "".join(text_of_node(node, escape) for node in nodes)


def text_of_node(node: Node, escape: Callable[[str], str]) -> str:
    if isinstance(node, str):
        return escape(node)
    if isinstance(node, Fixed):
        return as_text(node.nodes, escape)
    origins = node.origin if isinstance(node, Element) else (node.origin,)
    if isinstance(node, Object) and isinstance(node.origin, Frame):
        first, *rest = map(escape, node.origin.parts)
        return first + "".join(as_text(text, escape) + part for text, part in zip(node.texts, rest, strict=True))
    written = [origin.origin if isinstance(origin, Mark) else escape(origin) for origin in origins]
    return as_text(node.nodes, escape).join(written) if isinstance(node, Element) else written[0]


def nodes_between(message: str, span: Span, marks: Mapping[str, Mark], is_plural: bool) -> list[Node]:
    """Convert a part of a message; in a plural's branch, # is the number."""
    pieces: list[Piece] = []
    position = last = span[0]
    while position < span[1]:
        if piece := piece_at(message, (position, span[1]), marks, is_plural):
            pieces += [Piece(message[last:position]), piece]
            last = position = position + len(piece.text)
        else:
            position += 1
    pieces.append(Piece(message[last : span[1]]))
    return nest([piece for piece in pieces if piece.text])


def piece_at(message: str, span: Span, marks: Mapping[str, Mark], is_plural: bool) -> Piece | None:
    """Return the placeholder or tag that begins at the start of a span, or None."""
    character = message[span[0]]
    if mark := marks.get(character):
        return Piece(character, Object(mark), mark.tag)
    if character == "#" and is_plural:
        return Piece("#", Object("#", is_word=True))
    if character not in "%${[<:`|&_":
        return None
    if character == "{" and ICU.match(message, *span) and (frame := icu_frame(message, span, marks)):
        return frame
    if match := PLACEHOLDER.match(message, *span):
        return Piece(match[0], Object(match[0], is_word=True))
    if match := TAG.match(message, *span):
        name = (match["name"] or f"[{match['code']}").lower()
        kind = "end" if match["slash"] or match["end"] else "start"
        return Piece(match[0], Object(match[0]), None if match[0].endswith("/>") else (name, kind))
    return Piece(character, Object(character)) if ACCELERATOR.match(message, span[0]) else None


def icu_frame(message: str, span: Span, marks: Mapping[str, Mark]) -> Piece | None:
    """Return the plural or select at the start of a span, or None if its braces do not close."""
    begin, end = span
    position = ICU.match(message, begin, end).end()
    is_plural = "plural" in message[begin:position] or "ordinal" in message[begin:position]
    parts, texts, last = [], [], begin
    while position < end:
        if message[position] == "}":
            parts.append(message[last : position + 1])
            frame = Object(Frame(tuple(parts)), is_word=True, texts=texts)
            return Piece(message[begin : position + 1], frame) if texts else None
        if message[position] == "{":
            if (stop := closing_brace(message, position, end)) is None:
                return None
            parts.append(message[last : position + 1])
            texts.append(nodes_between(message, (position + 1, stop), marks, is_plural))
            last = position = stop
        position += 1
    return None


def closing_brace(message: str, begin: int, end: int) -> int | None:
    depth = 0
    for match in re.compile(r"[{}]").finditer(message, begin, end):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.start()
    return None


def nest(pieces: Sequence[Piece]) -> list[Node]:
    """Put what is between an opening tag and its closing tag into an element, and a word with an access key as well."""
    partners = nearest_pairs([piece.tag for piece in pieces])
    top = Element(("", ""))
    stack = [top]
    ends = set(partners.values())
    for i, (text, node, _) in enumerate(pieces):
        nodes = stack[-1].nodes
        if i in partners:
            nodes.append(Element((node.origin, pieces[partners[i]].node.origin)))
            stack.append(nodes[-1])
        elif i in ends:
            stack.pop()
        elif node is not None:
            nodes.append(node)
        elif nodes and isinstance(nodes[-1], Object) and nodes[-1].origin in ("&", "_"):
            word = re.match(r"\w*", text)[0]
            nodes[-1:] = [Element((nodes[-1].origin, ""), [word]), text[len(word) :]]
        else:
            nodes.append(text)
    return top.nodes


def tag_pairs(tags: Sequence[str]) -> dict[int, int]:
    """Return the index of each opening tag with that of its closing tag."""
    named: list[tuple[str, str] | None] = []
    for text in tags:
        tag = None if text.endswith("/>") else TAG.fullmatch(text)
        name = (tag["name"] or f"[{tag['code']}").lower() if tag else ""
        named.append((name, "end" if tag["slash"] or tag["end"] else "start") if tag else None)
    return nearest_pairs(named)


def nearest_pairs(tags: Sequence[tuple[str, str] | None]) -> dict[int, int]:
    """Return the index of each start tag with that of its end tag; pairs that overlap another are left out.

    Args:
        tags: The name and the kind of each tag, "start" or "end"; None for what is not a tag.
    """
    pairs: dict[int, int] = {}
    stack: list[tuple[str, int]] = []
    open_names: Counter[str] = Counter()
    for i, tag in enumerate(tags):
        if tag is None:
            continue
        name, kind = tag
        if kind == "start":
            stack.append((name, i))
            open_names[name] += 1
        elif kind == "end" and open_names[name]:
            last = ""
            while last != name:
                last, begin = stack.pop()
                open_names[last] -= 1
            pairs[begin] = i
    return pairs
