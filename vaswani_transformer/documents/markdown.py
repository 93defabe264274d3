"""Markdown: paragraphs, headings, lists, quotes and tables are translated; code, front matter and HTML blocks stay.

Texts are put back into the lines that they come from, so that everything around them stays as it is to the letter.
"""

import re
import textwrap

from markdown_it import MarkdownIt
from markdown_it.token import Token

from .inline import Element, Node, Object
from .translator import DocumentTranslator


LINE_BREAK = "\v"  # ends a line of text, as a backslash or two spaces at a line's end do
FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n.*?^(?:---|\.\.\.)[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
PARSER = MarkdownIt("commonmark", {"store_labels": True}).enable(["table", "strikethrough"])
# What would be markup in a text: escaped where it is none.
SPECIAL = re.compile(r"([\\`*\[\]<]|(?<!\w)_|_(?!\w)|~~|&(?=#?\w+;))")
LINE_START = re.compile(r"^(\s*)([#>+-]|\d+[.)])(?=\s)")


def translate(text: str, translator: DocumentTranslator) -> str:
    """The same document with its texts translated."""
    front = FRONT_MATTER.match(text)
    start = front.end() if front else 0
    body = text[start:]
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", body)  # as the parser counts them
    tokens = PARSER.parse(body)
    places = in_lines(tokens, lines)
    segments = [as_nodes(list(token.children or []), body) for token, _ in places]
    # From the last to the first, so that the places before stay where they are.
    translated = translator(segments)
    for (token, place), nodes in reversed(list(zip(places, translated, strict=True))):
        put_back(lines, place, token.content, as_markdown(nodes, body), is_cell=place[0][0] == "cell")
    return text[:start] + "".join(lines)


def in_lines(tokens: list[Token], lines: list[str]) -> list[tuple[Token, list]]:
    """The texts among the tokens, with the place of each of its lines: number, begin, end."""
    found, reached, last = [], {}, None
    for token in tokens:
        if token.type == "inline" and token.map and token.content.strip():
            is_cell = last is not None and last.type in ("th_open", "td_open")
            number, place = token.map[0], []
            for content in token.content.split("\n"):
                begin = -1
                while number < token.map[1] or is_cell:
                    written = content.replace("|", r"\|") if is_cell else content
                    begin = lines[number].find(written, reached.get(number, 0))
                    if begin >= 0 or is_cell:
                        break
                    number += 1
                if number >= len(lines) or begin < 0:
                    place = []
                    break
                place.append(("cell" if is_cell else "line", number, begin, begin + len(written)))
                reached[number] = begin + len(written)
                number += 0 if is_cell else 1
            if place:
                found.append((token, place))
        last = token
    return found


def put_back(lines: list[str], place: list, old: str, new: str, is_cell: bool):
    """Writes a text in the place of the old one, in lines of the width that those had."""
    new = "\n".join(part.strip() for part in new.split("\n"))
    if is_cell:
        new = re.sub(r"(?<!\\)\|", r"\\|", new.replace("\n", " "))
    else:
        new = LINE_START.sub(r"\1\\\2", new) if not LINE_START.match(old) else new
    _, first, begin, end = place[0]
    before, after = lines[first][:begin], lines[place[-1][1]][place[-1][3] :]
    follow = lines[place[1][1]][: place[1][2]] if len(place) > 1 else " " * len(before)
    if len(place) > 1:
        width = max(end - begin for _, _, begin, end in place)
        wrapped = [line for part in new.split("\n") for line in wrap(part, width)]
    else:
        wrapped = new.split("\n")
    line_end = re.search(r"\r?\n?$", lines[first])[0] or "\n"
    text = (line_end + follow).join(wrapped)
    lines[first : place[-1][1] + 1] = [before + text + after] + [""] * (place[-1][1] - first)


def wrap(text: str, width: int) -> list[str]:
    """Lines of about this width; two spaces at the end break a line and stay, and no line begins like a list."""
    lines = textwrap.wrap(text, max(40, width), break_long_words=False, break_on_hyphens=False) or [""]
    for i in range(1, len(lines)):
        lines[i] = LINE_START.sub(r"\1\\\2", lines[i])
        lines[i] = re.sub(r"^\\(\d+)([.)])", r"\1\\\2", lines[i])
    return lines


# Inline markup -------------------------------------------------------------------------------------------------------


def as_nodes(tokens: list[Token], text: str) -> list[Node]:
    top = Element(("", ""))
    stack = [top]
    for token in tokens:
        if token.nesting == 1:
            element = Element((opening(token), closing(token, text)))
            stack[-1].nodes.append(element)
            stack.append(element)
        elif token.nesting == -1:
            stack.pop()
        elif token.type == "text":
            stack[-1].nodes.append(token.content)
        elif token.type == "softbreak":
            stack[-1].nodes.append(" ")
        elif token.type == "hardbreak":
            stack[-1].nodes.append(LINE_BREAK)
        else:
            stack[-1].nodes.append(Object(written(token, text)))
    return [node for node in top.nodes if node != ""]


def opening(token: Token) -> str:
    return "[" if token.type == "link_open" else token.markup


def closing(token: Token, text: str) -> str:
    if token.type != "link_open":
        return token.markup
    if token.markup == "autolink":
        return "]"
    if label := token.meta.get("label"):
        return f"][{as_spelled(label, text)}]"
    return f"]({target(token, 'href')})"


def target(token: Token, name: str) -> str:
    address, title = str(token.attrs.get(name, "")), token.attrs.get("title")
    address = f"<{address}>" if re.search(r"[\s()]", address) else address
    return address + (f' "{str(title).replace(chr(34), chr(92) + chr(34))}"' if title else "")


def as_spelled(label: str, text: str) -> str:
    """A label as the document writes it: the parser gives it in capitals."""
    found = re.search(re.escape(f"[{label}]:"), text, re.IGNORECASE)
    return found[0][1:-2] if found else label


def written(token: Token, text: str) -> str:
    """What is not translated, as it is written."""
    if token.type == "code_inline":
        space = " " if token.content.startswith("`") or token.content.endswith("`") else ""
        return f"{token.markup}{space}{token.content}{space}{token.markup}"
    if token.type == "image":
        if label := token.meta.get("label"):
            return f"![{token.content}][{as_spelled(label, text)}]"
        return f"![{token.content}]({target(token, 'src')})"
    return token.content


def as_markdown(nodes: list[Node], text: str) -> str:
    """The nodes as they are written; what might be markup is escaped where it would be."""
    plain = "".join(render(node, escapes=False) for node in nodes)
    again = as_nodes(list(PARSER.parseInline(plain, definitions(text))[0].children or []), text)
    return plain if shape(again) == shape(nodes) else "".join(render(node, escapes=True) for node in nodes)


def definitions(text: str) -> dict:
    """The link references of a document, as the parser keeps them."""
    env: dict = {}
    PARSER.parse("\n".join(re.findall(r"^ {0,3}\[[^\]\n]+\]:.*$", text, re.MULTILINE)), env)
    return env


def shape(nodes: list[Node]) -> list:
    """Nodes that can be compared, with neighbouring texts as one."""
    found: list = []
    for node in nodes:
        if not isinstance(node, str):
            found.append((node.origin, shape(getattr(node, "nodes", []))))
        elif found and isinstance(found[-1], str):
            found[-1] += node
        else:
            found.append(node)
    return [x.strip() if isinstance(x, str) else x for x in found]


def render(node: Node, escapes: bool) -> str:
    if isinstance(node, str):
        return (SPECIAL.sub(r"\\\1", node) if escapes else node).replace(LINE_BREAK, "\\\n")
    if isinstance(node, Object):
        return node.origin
    content = "".join(render(child, escapes) for child in node.nodes)
    # Emphasis must touch its words.
    before, after = re.match(r"\s*", content)[0], re.search(r"\s*$", content)[0]
    inside = content.strip()
    return f"{before}{node.origin[0]}{inside}{node.origin[1]}{after}" if inside else content
