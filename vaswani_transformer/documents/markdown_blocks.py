"""The blocks of Markdown: the contents that have words, each with the place of its characters in the document.

CommonMark, tables, definition lists and footnotes are rules of markdown-it-py and its plugins. The rules of this module
recognise what documentation adds: lines that mean something by themselves, such as alerts and the marks of containers,
indented containers, directives, formulas, components and program text.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.html_blocks import block_names
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin

from .document import DocumentError
from .markdown_inline import add_inline_rules, braces, tag_end, template_end, template_texts, title_span, unescaped


MAX_NESTING = 100
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # as the parser counts them
ALL: Any = {"alt": ["paragraph", "reference", "blockquote", "list"]}
# Directives of MyST whose content is not prose.
PROGRAMS = set(
    "code code-block code-cell sourcecode highlight literalinclude include toctree math mermaid graphviz eval-rst "
    "raw image csv-table autoclass autofunction automodule autosummary contents bibliography doctest plot "
    "parsed-literal".split()
)
PROSE = set(
    "note warning tip important caution danger attention hint error seealso admonition versionadded versionchanged "
    "deprecated figure dropdown card tab-item tab-set grid grid-item grid-item-card topic sidebar margin epigraph "
    "pull-quote table list-table aside exercise solution theorem proof details".split()
)
DIRECTIVE = re.compile(r"(`{3,}|~{3,}|:{3,})[ \t]*\{([\w:-]+)\}[ \t]*(.*)")
ALERT = re.compile(r"\[!\w[\w-]*\][+-]?(?:[ \t]+(.*))?$")
CONTAINER = re.compile(r":{3,}[ \t]*[\w./#@-]*|::[\w-]+(?=[\[{]|$)")
ADMONITION = re.compile(r"(?:!!!|\?\?\?\+?)[ \t]*[\w| -]*(?:\"(.*)\")?$|===[!+]*[ \t]*\"(.*)\"$")
FENCED = re.compile(r"/{3,}(?:[ \t]*$|[ \t]*[\w-]+[ \t]*(?:\|(.*))?$)")
ABBREVIATION = re.compile(r"\*\[[^\]\n]+\]:[ \t]*(.*)")
PLAIN_LINE = re.compile(
    r"(?:;*-+8<-+.*|\[\[?_?toc_?\]\]?|@\[toc\].*|@(?:tab|import)\b.*|<<<[ \t]*[@./].*|\\[a-z]+(?:\{[^{}]*\})?)$",
    re.IGNORECASE,
)
IMPORT = re.compile(r"import\s+(?:[\w*{][^'\"]*\sfrom\s+)?['\"][^'\"]+['\"];?\s*$|import\s*\{[^}'\"]*$")
EXPORT = re.compile(r"export\s+(?:const|let|var|function|class|async|\{|\*|default\s+(?:function|class|\(|\{|async))")
VERBATIM = re.compile(
    r"\$\$|\\\[|\\begin\{(\w+\*?)\}|\{%-?\s*(highlight|code|codeblock|mermaid|comment|math)\b|\{\{[<%]\s*(highlight|mermaid|math|code[\w-]*)\b"
    r"|-+8<-+$"
)


@dataclass
class Content:
    """Words with markup, and their place.

    Args:
        text: The characters, without what begins the lines.
        places: Pairs of places, in the text and in the document, from which on characters correspond.
        kind: "paragraph", "heading", "cell", "html", or "line" for a title in a line.
        line: The number of its first line, from 0.
        frame: What is before and after the text in its line, for titles and headings.
        tokens: The inline tokens.
    """

    text: str
    places: list[tuple[int, int]]
    kind: str
    line: int
    frame: tuple[str, str] = ("", "")
    tokens: list[Token] = field(default_factory=list)
    level: int = 0

    def place(self, offset: int) -> int:
        """Return the place in the document of a character of the text."""
        begin, place = self.places[bisect_right(self.places, (offset, 1 << 60)) - 1]
        return place + offset - begin


class Title(NamedTuple):
    """The title of a link definition: its spelling with the mark after it, its place and its line."""

    text: str
    begin: int
    end: int
    line: int


# Rules ---------------------------------------------------------------------------------------------------------------


def lines_of(token: Token) -> list[int]:
    """Return the numbers of a token's first line and of the line after its last."""
    return token.map or [0, 1]


def line_at(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def add_line(state: StateBlock, kind: str, first: int, last: int, title: tuple[int, int] | None = None):
    """Add a token for lines that mean something by themselves; `title` is a span in the first one."""
    token = state.push(kind, "", 0)
    token.map = [first, last]
    if title is not None and title[0] < title[1]:
        line = line_at(state, first)
        token.content = line[slice(*title)]
        token.meta["frame"] = line[: title[0]], line[title[1] :]
        token.meta["end"] = len(line) - title[1]  # its distance from the end of the line
    state.line = last


def marked_line(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Take the line of a container, an alert, an abbreviation, templates or attributes."""
    if state.is_code_block(first):
        return False
    line = line_at(state, first).rstrip()
    title = line_title(line, state.env)
    if title is None or (silent and line.startswith(("[", "@", "\\"))):
        return False
    if not silent:
        add_line(state, "line", first, first + 1, title)
    return True


def line_title(line: str, env: Any) -> tuple[int, int] | None:
    """Return the span of the title in a line that is not a paragraph, or None if it is one."""
    if line[:1] not in ":[/*-;@<\\{":
        return None
    if match := CONTAINER.match(line):
        return container_title(line, match.end())
    for pattern in (ALERT, FENCED, ABBREVIATION):
        if match := pattern.match(line):
            return trimmed_span(line, *match.span(1)) if match[1] else (0, 0)
    if has_only_templates(line, env):
        return 0, len(line) if any(template_texts(line)) else 0
    return (0, 0) if PLAIN_LINE.match(line) else None


def container_title(line: str, begin: int) -> tuple[int, int]:
    end = len(line)
    if line.endswith("}") and (attributes := line.rfind("{", begin)) >= 0:
        end = attributes
    begin, end = trimmed_span(line, begin, end)
    if line[begin : begin + 1] == "[" and line[end - 1] == "]":
        return begin + 1, end - 1
    return begin, end


def trimmed_span(line: str, begin: int, end: int) -> tuple[int, int]:
    part = line[begin:end]
    return begin + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def has_only_templates(line: str, env: Any) -> bool:
    """Whether a line is only templates or attributes. A variable such as {{ name }} may be a word of a sentence."""
    place = 0
    while place < len(line):
        if line.startswith("{", place) and not line.startswith("{{ ", place):
            end = template_end(line, place, len(line), env)
            if end < 0 and re.match(r"\{[:#.]", line[place : place + 2]):
                end = braces(line).get(place, -2) + 1
        else:
            return False
        if end < 0:
            return False
        place = end + len(line[end:]) - len(line[end:].lstrip())
    return bool(line)


def admonition(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Take the line of an admonition or a tab, and its content, which is indented by four columns."""
    if state.is_code_block(first):
        return False
    line = line_at(state, first).rstrip()
    match = ADMONITION.match(line) if line[:1] in "!?=" else None
    if match is None:
        return False
    if not silent:
        add_line(state, "line", first, first + 1, match.span(1) if match[1] else match.span(2) if match[2] else None)
        indent, state.blkIndent = state.blkIndent, state.sCount[first] + 4
        level, state.level = state.level, state.level + 1
        parent, state.parentType = state.parentType, "admonition"
        state.md.block.tokenize(state, first + 1, last)
        state.blkIndent, state.level, state.parentType = indent, level, parent
    return True


def directive(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Take a directive of MyST: its line with a title, its options, and its content, which is Markdown or a program."""
    if state.is_code_block(first) or state.src[state.bMarks[first] + state.tShift[first]] not in "`~:":
        return False
    match = DIRECTIVE.match(line_at(state, first).rstrip())
    if match is None or (match[1][0] != ":" and match[2] not in PROSE):
        return False
    if silent:
        return True
    title = match.span(3) if match[2] in PROSE - {"figure"} else None
    add_line(state, "line", first, first + 1, title)
    end, number = first + 1, first + 1
    while end < last and not re.match(rf"{match[1][0]}{{{len(match[1])},}}\s*$", line_at(state, end)):
        end += 1
    while number < end and re.match(r":[\w-]+:", line_at(state, number)):
        number += 1
    if match[2] in PROGRAMS:
        add_line(state, "code", first, end)
    else:
        (max_line, state.lineMax), (level, state.level) = (state.lineMax, end), (state.level, state.level + 1)
        state.md.block.tokenize(state, number, end)
        state.lineMax, state.level = max_line, level
    state.line = min(end + 1, last)
    return True


def verbatim(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Take a formula or a program between two lines that mark it."""
    match = None if state.is_code_block(first) else VERBATIM.match(line := line_at(state, first).rstrip())
    if match is None:
        return False
    end = closing_mark(match)
    number = first
    if not (len(line) > match.end() and end in line[match.end() :]):
        unclosed = state.env.setdefault("unclosed", {})
        if first >= unclosed.get(end, last):
            return False
        number += 1
        while number < last and end not in line_at(state, number):
            number += 1
        if number == last:
            unclosed[end] = first
            return False
    elif not line.endswith(end):
        return False
    if not silent:
        add_line(state, "formula" if line[0] in "$\\" else "code", first, number + 1)
    return True


def closing_mark(match: re.Match) -> str:
    if match[1]:
        return f"\\end{{{match[1]}}}"
    if match[2]:
        return f"end{match[2]}"
    return f"/{match[3]}" if match[3] else {"$$": "$$", "\\[": "\\]"}.get(match[0], "8<-")


def module(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Take imports and exports, which end at a blank line outside braces."""
    if state.sCount[first] or state.blkIndent or state.level:
        return False
    line = line_at(state, first)
    if not (IMPORT.match(line) or EXPORT.match(line)):
        return False
    number = first
    while number < last and not state.isEmpty(number):
        begin, end = state.bMarks[number], state.eMarks[number]
        while 0 <= (begin := state.src.find("{", begin, end)):
            begin = braces(state.src).get(begin, begin) + 1
            number = line_of(state, begin, number, last)
            end = state.eMarks[number]
        number += 1
    if not silent:
        add_line(state, "program", first, number)
    return True


def line_of(state: StateBlock, place: int, number: int, last: int) -> int:
    """Return the line of a place, which is in line `number` or after it."""
    while number < last - 1 and place > state.eMarks[number]:
        number += 1
    return number


def expression(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Take an expression of MDX that has its lines to itself; it does not end a paragraph."""
    begin = state.bMarks[first] + state.tShift[first]
    if silent or not state.env.get("components") or not state.src.startswith("{", begin):
        return False
    end = braces(state.src).get(begin, -1) + 1
    number = line_of(state, end, first, last)
    if not end or state.src[end : state.eMarks[number]].strip():
        return False
    add_line(state, "program", first, number + 1)
    return True


def components(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Take lines that are only tags of components; in MDX, of all tags."""
    begin = state.bMarks[first] + state.tShift[first]
    if state.is_code_block(first) or not state.src.startswith("<", begin):
        return False
    if not state.env.get("components") and not re.match(r"</?[A-Z]", state.src[begin : begin + 3]):
        return False
    is_quoted = state.src[state.bMarks[first] - 1 : state.bMarks[first]] not in ("", "\n")
    limit = state.eMarks[first] if is_quoted else state.eMarks[last - 1]
    number = first
    while True:
        begin = tag_end(state.src, begin, limit)
        if begin < 0:
            return False
        number = line_of(state, begin, number, last)
        rest = state.src[begin : state.eMarks[number]]
        if not rest.strip():
            break
        begin += len(rest) - len(rest.lstrip())
        if state.src[begin] != "<":
            return False
    if not silent:
        token = state.push("html_block", "", 0)
        token.map = [first, number + 1]
        token.content = state.getLines(first, number + 1, 0, True)
        state.line = number + 1
    return True


def with_row_ends(rule: Callable) -> Callable:
    """Return the rule for tables, which also records the length of each row, without what is before it."""

    def table(state: StateBlock, first: int, last: int, silent: bool) -> bool:
        count = len(state.tokens)
        is_table = rule(state, first, last, silent)
        if is_table and not silent:
            for token in state.tokens[count:]:
                if token.type == "tr_open":
                    number = lines_of(token)[0]
                    token.meta["length"] = state.eMarks[number] - state.bMarks[number] - state.tShift[number]
        return is_table

    return table


def make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING, "inline_definitions": True})
    parser.enable(["table", "strikethrough"]).use(deflist_plugin).use(footnote_plugin, inline=False, move_to_end=False)
    rules = parser.block.ruler
    table = next(rule.fn for rule in rules.__rules__ if rule.name == "table")
    rules.at("table", with_row_ends(table), {"alt": ["paragraph", "reference"]})
    for name, rule in [
        ("module", module), ("expression", expression), ("components", components),
        ("verbatim", verbatim), ("directive", directive),
        ("admonition", admonition), ("marked_line", marked_line),
    ]:  # fmt: skip
        rules.before("table", name, rule, ALL)
    add_inline_rules(parser)
    return parser


PARSER = make_parser()


# From tokens to contents ---------------------------------------------------------------------------------------------


@dataclass
class Blocks:
    """The contents of a document with words, and what else it has.

    Attributes:
        untranslated: What is left alone.
        env: The definitions of links, for the inline parser.
    """

    contents: list[Content]
    untranslated: Counter[str]
    env: dict
    titles: list[Title] = field(default_factory=list)


NAMES = {
    "fence": "code blocks", "code_block": "code blocks", "code": "code blocks", "formula": "formulas",
    "program": "blocks of imports and exports",
}  # fmt: skip


def read_blocks(text: str, has_components: bool, start: int = 0) -> Blocks:
    """Find the contents of a document from a place on, which is the beginning of a line."""
    env: dict = {"components": has_components}
    lines = [match.span() for match in LINE.finditer(text, start)]
    lines_before = len(LINE.findall(text[:start]))
    tokens: list[Token] = []
    source = re.sub(r"\r\n?", "\n", text[start:]).replace("\0", "\ufffd")
    PARSER.block.parse(source, PARSER, env, tokens)
    if any(token.level >= MAX_NESTING - 1 for token in tokens):
        raise DocumentError("the document is nested too deeply.")  # the parser leaves out what is deeper
    finder = Finder(text, lines, lines_before)
    untranslated = Counter(NAMES[token.type] for token in tokens if token.type in NAMES)
    contents = [content for content in finder.contents(tokens) if content.text.strip()]
    untranslated["HTML blocks of program text"] = finder.programs
    for content in contents:
        content.tokens = PARSER.inline.parse(content.text, PARSER, env, [])
    titles = [finder.title(token) for token in tokens if token.type == "definition" and token.meta["title"].strip()]
    return Blocks(contents, +untranslated, env, [title for title in titles if title is not None])


@dataclass
class Finder:
    """Finds the places of tokens.

    Args:
        text: The document.
        lines: The span of each line of the part that was parsed.
        lines_before: The number of lines before it.
    """

    text: str
    lines: list[tuple[int, int]]
    lines_before: int
    programs: int = 0
    cells: list[tuple[int, str]] = field(default_factory=list)

    def contents(self, tokens: list[Token]) -> Iterator[Content]:
        previous = None
        for token in tokens:
            if token.type == "tr_open":
                self.cells = self.split_row(token)
            elif token.type in ("th_open", "td_open"):
                previous = token
                continue
            elif token.type == "inline" and previous is not None and previous.type in ("th_open", "td_open"):
                if self.cells:
                    yield self.cell(token, *self.cells.pop(0))
            elif token.type == "inline" and token.map:
                yield self.of_lines(token, previous)
            elif token.type == "html_block":
                if re.match(r"\s*<(?:!|\?|(?:script|style|pre|textarea)\b)", token.content, re.IGNORECASE):
                    self.programs += 1
                else:
                    yield self.of_lines(token, previous)
            elif token.meta.get("end") is not None and token.map:
                end = self.line_end(lines_of(token)[0]) - token.meta["end"]
                begin = end - len(token.content)
                frame = token.meta["frame"]
                yield Content(token.content, [(0, begin)], "line", self.number(token), frame)
            previous = token

    def number(self, token: Token) -> int:
        return self.lines_before + lines_of(token)[0]

    def line_end(self, number: int) -> int:
        begin, end = self.lines[number]
        return begin + len(self.text[begin:end].rstrip("\r\n"))

    def of_lines(self, token: Token, previous: Token | None) -> Content:
        """Find a content whose lines are the ends of lines of the document."""
        places, offset = [], 0
        text = token.content
        is_heading = previous is not None and previous.type == "heading_open" and previous.markup.startswith("#")
        for number, line in enumerate(text.split("\n"), self.first_line(token)):
            if number >= len(self.lines):
                break
            source = self.line(number)
            stripped = line.strip(" \t\f\v")
            column = source.rfind(stripped.replace("\ufffd", "\0") if "\0" in source else stripped)
            lead = len(line) - len(line.lstrip(" \t\f\v"))
            places.append((offset, self.lines[number][0] + column - lead))
            offset += len(line) + 1
        kind = "html" if token.type == "html_block" else "heading" if is_heading else "paragraph"
        frame = (previous.markup + " ", "") if is_heading and previous else ("", "")
        level = int(previous.tag[1]) if previous is not None and previous.type == "heading_open" else 0
        return Content(text, places, kind, self.number(token), frame, level=level)

    def line(self, number: int) -> str:
        return self.text[slice(*self.lines[number])].rstrip("\r\n")

    def first_line(self, token: Token) -> int:
        """Return the number of the line in which a token's text begins.

        The parser drops leading lines that only look blank.
        """
        begin, end = lines_of(token)
        first, *rest = token.content.split("\n")
        possible = range(begin, end - len(rest))
        return next((n for n in possible if self.line(n).rstrip().endswith(first.strip())), begin)

    def title(self, token: Token) -> Title | None:
        """Return the title of a link definition; None if marks of quotes are between its lines."""
        begin, end = self.lines[lines_of(token)[0]][0], self.line_end(lines_of(token)[1] - 1)
        source = self.text[begin:end]
        span = title_span(source, source.find("]:") + 2, len(source))
        if span is None or unescaped(source[slice(*span)]) != " ".join(token.meta["title"].split()):
            return None
        return Title(source[span[0] : span[1] + 1], begin + span[0], begin + span[1], self.number(token))

    def split_row(self, token: Token) -> list[tuple[int, str]]:
        """Return the place and the text of each cell of a row."""
        end = self.line_end(lines_of(token)[0])
        begin = end - token.meta["length"]
        row = self.text[begin:end]
        places = [match.start() for match in re.finditer(r"(?<!\\)\|", row)]
        bounds = [-1, *places, len(row)]
        cells = [(begin + a + 1, row[a + 1 : b]) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        if cells[0][1] == "":
            cells.pop(0)
        return cells

    def cell(self, token: Token, place: int, source: str) -> Content:
        lead = len(source) - len(source.lstrip())
        places, removed = [(0, place + lead)], 0
        for match in re.finditer(r"\\\|", source.strip()):
            places.append((match.start() - removed, place + lead + match.start() + 1))
            removed += 1
        return Content(token.content, places, "cell", self.number(token))


BLOCK_NAMES = {*block_names, "button", "video", "audio", "picture", "object"}
