"""Markdown: the texts of paragraphs, headings, lists, quotes, tables, notes, definitions, titles and HTML.

markdown-it-py finds the blocks; of the parsers in Python that follow CommonMark, it is the best maintained. Its inline
tokens have no places, so `markdown_inline` records them. mdformat, which renders markdown-it's tokens, would rewrite
the whole document in its own style, and tree-sitter's grammar does not follow CommonMark in all cases.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from markdown_it.token import Token

from .document import Options, Span, TextDocument
from .inline import Node, has_words, split_texts, text_of
from .markdown_blocks import BLOCK_NAMES, PARSER, Blocks, Content, Title, read_blocks
from .markdown_inline import Reader, tag_of, unescaped
from .markdown_writer import Layout, Writer, write_title


FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n(?s:(.*?))^(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
YAML_KEY = re.compile(r"^(?:[\"']?[\w-][\w .-]*[\"']?:(?:\s|$)|#)", re.MULTILINE)
TOML_TEXT = re.compile(
    r"^[ \t]*(?:\[([^\[\]\n]+)\]|([\w.-]+)[ \t]*=[ \t]*(\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')[ \t]*(?:#.*)?)$", re.MULTILINE
)
HEADING_ID = re.compile(r"\{[^{}]*#[^{}]*\}\s*$|<a\s[^>]*\b(?:id|name)=|\{/\*\s*#.*\*/\}\s*$")


def read(content: str, options: Options, has_components: bool = False) -> TextDocument:
    """Find the texts of a document; with components, expressions in braces are not translated."""
    front = FRONT_MATTER.match(content)
    if front and front[1] == "---" and not YAML_KEY.search(front[2]):
        front = None
    blocks = read_blocks(content, has_components, front.end() if front else 0)
    document = front_matter(content, front, options) if front else TextDocument(content, [])
    spans = [*document.texts]
    for part in blocks.contents:
        spans += read_content(content, part, blocks)
    spans += map(read_title, blocks.titles)
    if options.keep_anchors:
        document.edits += anchors(content, blocks)
    spans.sort(key=lambda span: span.begin)
    return TextDocument(content, spans, document.untranslated + blocks.untranslated, edits=document.edits)


def read_mdx(content: str, options: Options) -> TextDocument:
    """Find the texts of a document in MDX."""
    return read(content, options, has_components=True)


# Texts ---------------------------------------------------------------------------------------------------------------


def read_content(document: str, content: Content, blocks: Blocks) -> Iterator[Span]:
    """Yield the texts of a content: one, or several if HTML divides it."""
    for tokens in segments(content.tokens):
        begin, end = tokens[0].meta["span"][0], tokens[-1].meta["span"][1]
        part = content.text[begin:end]
        begin, end = begin + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())
        reader = Reader(content.text)
        nodes = reader.read(tokens)
        if not any(map(has_words, nodes)):
            reader = Reader(content.text, keeps_lines=True)
            nodes = reader.read([token for token in tokens if begin <= token.meta["span"][0] < end])
        if begin < end and split_texts(nodes):
            is_whole = content.kind != "html" and begin == 0 and end == len(content.text.rstrip())
            writer = Writer(
                partial(read_again, content if is_whole else None, blocks),
                reader.spelling,
                reader.breaks,
                layout_of(document, content, begin, end, sum(mark.endswith("\n") for mark in reader.breaks)),
                content.kind == "html",
                content.kind == "cell",
            )
            line = content.line + 1 + content.text.count("\n", 0, begin)
            yield Span(without_spaces(nodes), f"line {line}", content.place(begin), content.place(end - 1) + 1, writer)


def read_title(title: Title) -> Span:
    quote = title.text[-1]

    def write(nodes: list[Node]) -> str:
        return write_title("".join(map(text_of, nodes)), quote)

    return Span([unescaped(title.text[:-1])], f"line {title.line + 1}", title.begin, title.end, write)


def segments(tokens: list[Token]) -> Iterator[list[Token]]:
    """Divide tokens at the tags of HTML's blocks, such as <p> and <td>; a tag that has texts is a part of its own."""
    part: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.nesting
        if depth == 0 and token.type == "html_inline" and tag_of(token)[0].lower() in BLOCK_NAMES:
            yield from [part] if part else []
            yield [token]
            part = []
        else:
            part.append(token)
    if part:
        yield part


def without_spaces(nodes: list[Node]) -> list[Node]:
    """Return nodes without the spaces before the first and after the last."""
    nodes = list(nodes)
    if isinstance(nodes[0], str):
        nodes[0] = nodes[0].lstrip(" ")
    if isinstance(nodes[-1], str):
        nodes[-1] = nodes[-1].rstrip(" ")
    return [node for node in nodes if node != ""]


def layout_of(document: str, content: Content, begin: int, end: int, line_breaks: int) -> Layout:
    """Return the layout of a text: that of its second line, and the width of the longest.

    A text all of whose line ends are line breaks is not wrapped.
    """
    rows = content.text[begin:end].split("\n")
    if len(rows) < 2 or content.kind == "cell":
        return Layout()
    second = begin + len(rows[0]) + 1
    place = content.place(second + len(rows[1]) - len(rows[1].lstrip(" \t")))
    line_begin = max(document.rfind(mark, 0, place) for mark in "\r\n") + 1
    line_end = "\r\n" if document[line_begin - 2 : line_begin] == "\r\n" else document[line_begin - 1]
    inner_prefix = document[line_begin : max(line_begin, content.place(second))]
    width = max(len(row.strip()) for row in rows) if len(rows) - 1 > line_breaks else 0
    return Layout(document[line_begin:place], inner_prefix, width, line_end)


def read_again(content: Content | None, blocks: Blocks, written: str) -> list[Node] | None:
    """Read a text that has been written; return None if it is not one content of the same kind."""
    if content is not None and content.kind in ("paragraph", "heading", "line"):
        before, after = content.frame
        new = read_blocks(before + written + after, bool(blocks.env["components"])).contents
        if [(part.kind, part.text) for part in new] != [(content.kind, written)]:
            return None
    tokens = PARSER.inline.parse(written, PARSER, blocks.env, [])
    return Reader(written).read(tokens)


# Front matter and anchors --------------------------------------------------------------------------------------------


def front_matter(content: str, match: re.Match, options: Options) -> TextDocument:
    """Return a document with the chosen texts of the front matter."""
    begin = match.start(2)
    if not options.keys:
        return TextDocument(content, [], Counter({"front matters": 1}))
    if match[1] == "+++":
        return TextDocument(content, [*toml_texts(match[2], begin, options)])
    from .data import read_yaml

    front = read_yaml(match[2], options)
    texts = [replace(text, begin=text.begin + begin, end=text.end + begin) for text in front.texts]
    edits = [(first + begin, last + begin, new) for first, last, new in front.edits]
    return TextDocument(content, texts, front.untranslated, edits=edits)


def toml_texts(front: str, begin: int, options: Options) -> Iterator[Span]:
    """Yield the chosen texts of a front matter in TOML. No library gives the places of TOML's values."""
    from .data import is_chosen

    table = ""
    for match in TOML_TEXT.finditer(front):
        if match[1]:
            table = match[1].strip() + "."
            continue
        path = table + match[2]
        try:
            value = tomllib.loads(f"x={match[3]}")["x"]
        except tomllib.TOMLDecodeError:
            continue
        if is_chosen(path, options.keys):
            yield Span([value], f"key {path}", begin + match.start(3), begin + match.end(3), write_toml)


def write_toml(nodes: list[Node]) -> str:
    return json.dumps("".join(map(text_of, nodes)), ensure_ascii=False)


def anchors(document: str, blocks: Blocks) -> Iterator[tuple[int, int, str]]:
    """Yield the edits that give each heading without an anchor the one that GitHub gives to the original."""
    seen: dict[str, int] = {}
    for content in blocks.contents:
        if not content.level:
            continue
        plain = "".join(
            token.content for token in content.tokens if token.type in ("text", "text_special", "code_inline")
        )
        base = anchor = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        while anchor in seen:
            seen[base] += 1
            anchor = f"{base}-{seen[base]}"
        seen[anchor] = 0
        if anchor and not HEADING_ID.search(content.text):
            end = content.place(len(content.text.rstrip()) - 1) + 1
            yield end, end, f" {{#{anchor}}}"
