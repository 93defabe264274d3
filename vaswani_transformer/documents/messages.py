"""Messages of programs: a string with placeholders, as nodes.

The value of a JSON or YAML file, an entry of gettext or XLIFF. Placeholders of printf, Python, Ruby, Mustache and the
like are objects; tags of HTML and BBCode that are closed are elements; ICU's plural and select keep their frame, and
their branches are texts of their own. There is no library that finds the places of all of these; ICU's own parser is
C++, and pyicumessageformat does not report positions.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .inline import Element, Fixed, Node, Object


PLACEHOLDER = re.compile(
    r"""
      %(?:\([\w.]{1,80}\)|\d{1,2}\$)?[-+ #0]{0,5}(?:\d{1,4}|\*)?(?:\.\d{1,4})?(?:hh?|ll?|[Lqjzt])?[sdifgGxXeEcu@](?!\w)
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
# The mark before the letter of a key: &Open, Save _As, E&xit, but not AT&T, &amp; and snake_case.
ACCELERATOR = re.compile(r"(?<![\w&])(?:&(?!\w+;)(?=[^\W\d_])|_(?=[A-Z]))|(?<=[^\W\d_])&(?!\w+;)(?=[a-z]+(?![\w=/&]))")


@dataclass(frozen=True)
class Frame:
    """The parts of an ICU message around its branches; there is one more of them than branches."""

    parts: tuple[str, ...]


def as_nodes(message: str) -> list[Node]:
    """Convert a message to nodes; the origin of an object is its text, that of an element its two tags."""
    return nodes_between(message, 0, len(message), is_plural=False)


def as_text(nodes: Sequence[Node]) -> str:
    """Write nodes as a message."""
    return "".join(map(text_of_node, nodes))


def text_of_node(node: Node) -> str:
    if isinstance(node, str):
        return node
    if isinstance(node, Fixed):
        return as_text(node.nodes)
    if isinstance(node, Element):
        return node.origin[0] + as_text(node.nodes) + node.origin[1]
    if isinstance(node.origin, Frame):
        first, *others = node.origin.parts
        return first + "".join(as_text(text) + part for text, part in zip(node.texts, others, strict=True))
    return str(node.origin)


def nodes_between(message: str, begin: int, end: int, is_plural: bool) -> list[Node]:
    """Convert a part of a message; in a plural's branch, # is the number."""
    pieces: list[tuple[str, Node | None]] = []  # the text, and what it is if it is not words
    position = last = begin
    while position < end:
        length, node = match_at(message, position, end, is_plural)
        if length:
            pieces += [(message[last:position], None), (message[position : position + length], node)]
            last = position = position + length
        else:
            position += 1
    pieces.append((message[last:end], None))
    return nest([piece for piece in pieces if piece[0]])


def match_at(message: str, position: int, end: int, is_plural: bool) -> tuple[int, Node | None]:
    """Return the length of a placeholder or tag that begins here, and its object; a tag has none yet."""
    character = message[position]
    if character == "#" and is_plural:
        return 1, Object("#", is_word=True)
    if character not in "%${[<:`|&_":
        return 0, None
    if character == "{" and ICU.match(message, position, end) and (frame := icu_frame(message, position, end)):
        return frame
    if match := PLACEHOLDER.match(message, position, end):
        return len(match[0]), Object(match[0], is_word=True)
    if match := TAG.match(message, position, end):
        return len(match[0]), Object(match[0])
    if ACCELERATOR.match(message, position):
        return 1, Object(character)
    return 0, None


def icu_frame(message: str, begin: int, end: int) -> tuple[int, Node] | None:
    """Return the length of a plural or select, and its object; None if its braces do not close."""
    position = ICU.match(message, begin, end).end()
    is_plural = "plural" in message[begin:position] or "ordinal" in message[begin:position]
    parts, texts, last = [], [], begin
    while position < end:
        if message[position] == "}":
            parts.append(message[last : position + 1])
            return (position + 1 - begin, Object(Frame(tuple(parts)), is_word=True, texts=texts)) if texts else None
        if message[position] == "{":
            if (stop := closing_brace(message, position, end)) is None:
                return None
            parts.append(message[last : position + 1])
            texts.append(nodes_between(message, position + 1, stop, is_plural))
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


def nest(pieces: Sequence[tuple[str, Node | None]]) -> list[Node]:
    """Put what is between an opening tag and its closing tag into an element, and the word of a key as well."""
    partners = tag_pairs([text if node is not None else "" for text, node in pieces])
    top = Element(("", ""))
    stack = [top]
    ends = set(partners.values())
    for i, (text, node) in enumerate(pieces):
        nodes = stack[-1].nodes
        if i in partners:
            nodes.append(Element((text, pieces[partners[i]][0])))
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
