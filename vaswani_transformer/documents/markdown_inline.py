"""The inline markup of Markdown: from its characters to tokens that know their places, and from tokens to nodes.

markdown-it-py gives no places inside a paragraph. `Inline` records them as its rules run. The rules of this module
recognise what is not translated: templates, formulas, addresses, attributes, wiki links, footnote marks and components.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from .inline import Element, Fixed, Node, Object, script


# Where the rule for text ends: characters of markup, and the beginnings of addresses.
TEXT_END = re.compile(r"[\n!$%&*:<\[\\\]_`{~@]|(?<!\w)(?:https?://|ftp://|www\.)")
ADDRESS = re.compile(r"(?:https?://|ftp://|www\.)[^\s<>\[\]`\"|]+")
ATTRIBUTES = re.compile(r"\s*(?:(?:[#.][^\s\"'{}]+|[\w:@-]+=(?:\"[^\"]*\"|'[^']*'|[^\s\"'{}]+))(?:\s+|$))+|-")
PLACEHOLDER = re.compile(r"%?[{][\w.$-]+[}]|[{]@\w+[^{}\n]*[}]")
EMOJI = re.compile(r"(?<!\w):(?=\w*[a-z+-])[\w+-]+:(?!\w)")
ROLE = re.compile(r"[{][\w:-]+[}](?=`)|(?<!\w):[\w:-]+:(?=`)")
TASK = re.compile(r"\[[ xX]\](?=\s)")
FOOTNOTE = re.compile(r"\[\^[^\s\]]+\]")
TEMPLATES = {
    "{{<": ">}}", "{{%": "%}}", "{{{": "}}}", "{{": "}}", "{%": "%}", "{/*": "*/}", "{*": "*}", "{!": "!}",
    "<%": "%>", "![[": "]]", "[[": "]]", "\\\\(": "\\\\)", "\\\\[": "\\\\]", "$`": "`$", "$$": "$$",
}  # fmt: skip
TEMPLATE_START = re.compile("|".join(map(re.escape, sorted(TEMPLATES, key=len, reverse=True))))
TAG_NAME = re.compile(r"<(/?)([A-Za-z][\w.:-]*)?")
TAG_PART = re.compile(r"\s+|[\w:@#.-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|(?=\{)|[^\s\"'=<>`{]+))?")
# Attributes that people read; those in the second line are of components.
TEXT_ATTRIBUTE = re.compile(
    r"(?<=\s)(alt|title|aria-label|placeholder"
    r"|label|description|summary|caption)=(?:\"([^\"]*)\"|'([^']*)')"
)
# The same of templates, such as {% include note.html content="..." %}.
TEMPLATE_TEXT = re.compile(
    r"(?<=[\s,(])(?:alt|title|label|description|summary|caption|content|text)=(?:\"([^\"\\]*)\"|'([^'\\]*)')"
)
IDENTIFIER = re.compile(r"\w+(?:[_./-]\w+)+")
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
UNTRANSLATED = {"code", "kbd", "samp", "var", "tt", "pre", "script", "style", "textarea", "svg", "math", "Code"}


@dataclass(eq=False)
class Markup:
    """Markup as the source has it.

    Args:
        before: The pieces before the nodes; the texts of the markup are between the pieces.
        after: The pieces after the nodes, also with texts between them.
        key: What it means, without its spelling.
        texts: How the source has each text: its kind, its nodes and its spelling. The kind "label" is Markdown in
            brackets, or in the quotation mark that follows in the kind; other kinds are the quotation mark around the
            text, after "&" in a tag.
        label: The label of a link that has no other label than its words.
    """

    before: list[str]
    after: list[str] = field(default_factory=lambda: [""])
    key: Any = None
    texts: list[tuple[str, list[Node], str]] = field(default_factory=list)
    label: str | None = None


# Tokens with places --------------------------------------------------------------------------------------------------


class Inline(ParserInline):
    """Records in each token its span in the content."""

    def tokenize(self, state: StateInline):
        rules = self.ruler.getRules("")
        max_nesting = state.md.options["maxNesting"]
        end = state.posMax
        while state.pos < end:
            begin, count = state.pos, len(state.tokens)
            if not (state.level < max_nesting and any(rule(state, False) for rule in rules)):
                state.pending += state.src[begin]
                state.pos += 1
            if state.pending:
                state.pushPending()
            locate(state.tokens[count:], begin, state.pos)


def locate(tokens: Sequence[Token], begin: int, end: int):
    """Record the span of the tokens that a rule has made."""
    if tokens[0].type == "text":
        for token in tokens:  # a run of marks such as ***
            token.meta["span"] = begin, begin + len(token.content)
            begin += len(token.content)
    elif tokens[0].type == "link_open" and tokens[0].markup != "autolink":
        tokens[0].meta["span"] = begin, begin + 1
        tokens[-1].meta["span"] = tokens[-2].meta["span"][1] if len(tokens) > 2 else begin + 1, end
    else:
        for token in tokens:
            token.meta["span"] = begin, end


def text(state: StateInline, silent: bool) -> bool:
    match = TEXT_END.search(state.src, state.pos, state.posMax)
    end = match.start() if match else state.posMax
    if end == state.pos:
        return False
    if not silent:
        state.pending += state.src[state.pos : end]
    state.pos = end
    return True


def newline(state: StateInline, silent: bool) -> bool:
    begin = state.pos
    if state.src[begin] != "\n":
        return False
    end = begin + 1
    while end < state.posMax and state.src[end] in " \t":
        end += 1
    if not silent:
        is_hard = state.src[max(0, begin - 2) : begin] == "  "
        state.push("hardbreak" if is_hard else "softbreak", "br", 0)
    state.pos = end
    return True


def raw(state: StateInline, silent: bool) -> bool:
    """Take what is not translated as a token."""
    end, kind = raw_end(state)
    if end < 0:
        return False
    if not silent:
        token = state.push("raw", "", 0)
        token.content, token.info = state.src[state.pos : end], kind
        if token.content[0] == "{":
            token.meta["texts"] = [
                (*span, state.md.inline.parse(token.content[slice(*span)], state.md, state.env, []))
                for span in template_texts(token.content)
            ]
    state.pos = end
    return True


def template_texts(template: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the texts in a template that people read."""
    for match in () if template.startswith(("{*", "{/*")) else TEMPLATE_TEXT.finditer(template):
        begin, end = match.span(1 if match[1] is not None else 2)
        if re.search(r"[^\W\d_]", template[begin:end]) and not IDENTIFIER.fullmatch(template[begin:end]):
            yield begin, end


def raw_end(state: StateInline) -> tuple[int, str]:
    """Return the end of what is not translated and begins here, or -1, and whether it is a "word" of its sentence."""
    source, begin = state.src, state.pos
    character = source[begin]
    if character in "hfw":
        match = ADDRESS.match(source, begin, state.posMax)
        return (begin + len(without_marks(match[0])), "word") if match else (-1, "")
    if character == "[" and begin == 0 and (match := TASK.match(source, begin, state.posMax)):
        return match.end(), ""
    if character == "[" and (match := FOOTNOTE.match(source, begin, state.posMax)):
        return match.end(), "footnote"
    if character == ":" and (match := (ROLE.match(source, begin) or EMOJI.match(source, begin))):
        return match.end(), ""
    if character not in "{<[!\\$%":
        return -1, ""
    if (end := template_end(source, begin, state.posMax, state.env)) > 0:
        return end, "word"
    if character == "$":
        return formula_end(source, begin, state.posMax), "word"
    if character == "{":
        return brace_end(source, begin, state.posMax, state.env)
    if character == "%" and (match := PLACEHOLDER.match(source, begin)):
        return match.end(), "word"
    return -1, ""


def without_marks(address: str) -> str:
    """Return an address without the punctuation that follows it in its sentence."""
    end, surplus = len(address), address.count(")") - address.count("(")
    while end and (address[end - 1] in "?!.,:;*_~'\"»”’" or (address[end - 1] == ")" and surplus > 0)):
        surplus -= address[end - 1] == ")"
        end -= 1
    return address[:end]


def template_end(source: str, begin: int, limit: int, env: Any) -> int:
    """Return the end of a template, a formula with two marks or a wiki link that begins here, or -1."""
    match = TEMPLATE_START.match(source, begin, limit)
    if match is None:
        return -1
    start, end = match.end(), last_place(source, TEMPLATES[match[0]])
    if end < start:
        return -1
    end = source.find(TEMPLATES[match[0]], start, limit)
    if end <= start:
        return -1
    content = source[start:end]
    if match[0].endswith("[[") and ("[" in content or "\n" in content or is_reference(content, env)):
        return -1
    return end + len(TEMPLATES[match[0]])


@lru_cache(maxsize=64)
def last_place(source: str, mark: str) -> int:
    """Return the last place of a mark, so that an opening mark without it is not searched for again and again."""
    return source.rfind(mark)


def is_reference(label: str, env: Any) -> bool:
    return " ".join(label.split()).upper() in {*env.get("references", ())} if env.get("references") else False


def formula_end(source: str, begin: int, limit: int) -> int:
    """Return the end of a formula between dollar signs, or -1. Amounts such as $5 are not formulas."""
    end = source.find("$", begin + 1, limit)
    while end > 0 and source[end - 1] == "\\" and "\n\n" not in source[begin:end]:
        end = source.find("$", end + 1, limit)
    before, after = source[max(0, begin - 1) : begin], source[end + 1 : end + 2]
    is_formula = end > begin + 1 and not source[begin + 1].isspace() and not source[end - 1].isspace()
    return end + 1 if is_formula and not (before.isalnum() or after.isalnum()) else -1


def brace_end(source: str, begin: int, limit: int, env: Any) -> tuple[int, str]:
    """Return the end of attributes, a placeholder or an expression in braces, or -1, and whether it is a "word"."""
    if match := (ROLE.match(source, begin) or PLACEHOLDER.match(source, begin)):
        return match.end(), "word"
    end = braces(source).get(begin, limit) + 1
    if end > limit:
        return -1, ""
    content = source[begin + 1 : end - 1]
    if content.startswith(":") or ATTRIBUTES.fullmatch(content):
        return end, ""
    return (end, "word") if env.get("components") else (-1, "")


@lru_cache(maxsize=64)
def braces(source: str) -> dict[int, int]:
    """Return the place of the closing brace for each opening one."""
    pairs, stack = {}, []
    for match in re.finditer(r"[{}]", source):
        if match[0] == "{":
            stack.append(match.start())
        elif stack:
            pairs[stack.pop()] = match.start()
    return pairs


def component(state: StateInline, silent: bool) -> bool:
    """Take a tag of a component, whose attributes may be expressions in braces."""
    if state.src[state.pos] != "<":
        return False
    end = tag_end(state.src, state.pos, state.posMax)
    if end < 0:
        return False
    content = state.src[state.pos : end]
    if "{" not in content and not re.match(r"</?(?:[A-Z]|\w+\.|>)", content):
        return False
    if not silent:
        state.push("html_inline", "", 0).content = content
    state.pos = end
    return True


def tag_end(source: str, begin: int, limit: int) -> int:
    """Return the end of a tag, or -1; values of its attributes may be expressions in braces."""
    name = TAG_NAME.match(source, begin, limit)
    if name is None:
        return -1
    place = name.end()
    while place < limit:
        if source[place] == ">":
            return place + 1
        if source[place : place + 2] == "/>":
            return place + 2
        if name[2] is None:
            return -1
        if source[place] == "{":
            place = braces(source).get(place, limit) + 1
        elif part := TAG_PART.match(source, place, limit):
            place = part.end()
        else:
            return -1
    return -1


def template_link(state: StateInline, silent: bool) -> bool:
    """Take a link or an image whose address has templates with spaces, which CommonMark does not allow."""
    begin = state.pos
    is_image = state.src.startswith("![", begin)
    if not is_image and state.src[begin] != "[":
        return False
    if max(last_place(state.src, "{{"), last_place(state.src, "{%")) < begin:
        return False
    label_end = state.md.helpers.parseLinkLabel(state, begin + is_image, not is_image)
    end = template_address_end(state, label_end)
    if end < 0:
        return False
    address, limit = state.src[label_end:end], state.posMax
    if not silent and is_image:
        token = state.push("image", "img", 0)
        token.attrs["src"], token.content = address, state.src[begin + 2 : label_end]
        token.children = state.md.inline.parse(token.content, state.md, state.env, [])
    elif not silent:
        state.pos, state.posMax = begin + 1, label_end
        state.push("link_open", "a", 1).attrs["href"] = address
        state.md.inline.tokenize(state)
        state.push("link_close", "a", -1)
    state.pos, state.posMax = end, limit
    return True


def template_address_end(state: StateInline, label_end: int) -> int:
    """Return the end of "](address)" if templates are in the address, or -1."""
    place, has_template = label_end + 2, False
    if label_end < 0 or not state.src.startswith("](", label_end):
        return -1
    while place < state.posMax and state.src[place] not in " \n([":
        if state.src[place] == ")":
            return place + 1 if has_template else -1
        end = template_end(state.src, place, state.posMax, state.env) if state.src[place] == "{" else -1
        has_template |= end > 0
        place = max(end, place + 1)
    return -1


def add_inline_rules(parser: MarkdownIt):
    """Make a parser record places, and recognise what this module does."""
    parser.inline = Inline()
    parser.inline.ruler.at("text", text)
    parser.inline.ruler.at("newline", newline)
    parser.inline.ruler.after("text", "raw", raw)
    parser.inline.ruler.before("link", "template_link", template_link)
    parser.inline.ruler.before("html_inline", "component", component)
    parser.inline.ruler.disable("linkify")
    parser.inline.ruler2.disable("fragments_join")  # joined tokens would have lost their places


# From tokens to nodes ------------------------------------------------------------------------------------------------


def tag_of(token: Token) -> tuple[str, bool, bool]:
    """Return the name of a tag, and whether it opens and closes an element; neither if it is a comment or is empty."""
    match = TAG_NAME.match(token.content)
    if token.type != "html_inline" or match is None or token.content[:2] in ("<!", "<?"):
        return "", False, False
    name, is_close = match[2] or "", bool(match[1])
    is_alone = token.content.endswith("/>") or name.lower() in VOID
    return name, not is_close and not is_alone, is_close and not is_alone


def pair_tags(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the number of the closing token for each opening one; tags and marks are properly nested."""
    pairs, stack = {}, []
    open_names: list[Counter[str]] = [Counter()]  # the tags that are open inside each open mark
    for i, token in enumerate(tokens):
        name, is_open, is_close = tag_of(token)
        if token.nesting == 1 or is_open:
            stack.append((i, name if is_open else None))
            open_names[-1][name] += is_open
            if not is_open:
                open_names.append(Counter())
        elif token.nesting == -1 or (is_close and open_names[-1][name]):
            wanted = name if is_close else None
            while True:
                opening, last = stack.pop()
                if last == wanted:
                    break
                open_names[-1][last] -= 1  # a tag without a partner
            pairs[opening] = i
            if is_close:
                open_names[-1][name] -= 1
            else:
                open_names.pop()
    return pairs


@dataclass
class Reader:
    """Makes nodes of the tokens of a content.

    Args:
        keeps_lines: Line ends stay where they are, for contents without words of their own, such as a row of images.

    Attributes:
        spelling: How the content spells characters, where it has an escape or an entity for them.
        breaks: How it spells each line break.
    """

    content: str
    spelling: dict[str, str] = field(default_factory=dict)
    breaks: list[str] = field(default_factory=list)
    keeps_lines: bool = False

    def read(self, tokens: Sequence[Token]) -> list[Node]:
        self.tokens, self.pairs = tokens, pair_tags(tokens)
        literal = {c for token in tokens if token.type == "text" for c in token.content}
        self.spelling.update(
            (token.content, token.markup)
            for token in tokens
            if token.type == "text_special" and not set(token.content) & literal
        )
        return self.nodes(0, len(tokens))

    def nodes(self, begin: int, end: int) -> list[Node]:
        result: list[Node] = []
        i = begin
        while i < end:
            close = self.pairs.get(i)
            for node in self.node(i, close):
                add_node(result, node)
            i = i + 1 if close is None else close + 1
        return [node for node in result if node != ""]

    def node(self, i: int, close: int | None) -> Iterator[Node]:
        token = self.tokens[i]
        begin, end = token.meta["span"]
        if token.type == "text" or (token.type == "text_special" and token.content not in "\n\r\v\f\t"):
            yield token.content.replace("\v", " ")
        elif token.type == "softbreak":
            if self.breaks and ">" in self.breaks[-1] and self.content.endswith(self.breaks[-1], 0, begin):
                self.breaks[-1] += "\n"  # <br> at the end of a line
            elif self.keeps_lines:
                yield Object(raw_markup(self.content[begin:end]))
            else:
                yield "\n"
        elif token.type == "hardbreak":
            while begin and self.content[begin - 1] == " ":
                begin -= 1
            self.breaks.append(self.content[begin:end].rstrip(" \t"))
            yield "\v"
        elif token.type == "html_inline" and re.fullmatch(r"<br[^>]*>", token.content, re.IGNORECASE):
            while begin and self.content[begin - 1] == " ":
                begin -= 1
            while self.content[end : end + 1] == " ":
                end += 1
            self.breaks.append(self.content[begin:end])
            yield "\v"
        elif token.markup == "autolink":
            if token.nesting == 1:
                yield Object(raw_markup(self.content[begin:end]), is_word=True)
        elif close is not None:
            yield self.element(i, close)
        elif token.type == "image":
            yield self.image(token)
        elif token.type == "html_inline":
            markup = tag_markup(token.content)
            yield Object(markup, texts=texts_in(markup))
        elif token.info == "footnote":
            yield Fixed([Object(raw_markup(token.content))], is_glued=True)
        else:
            is_word = token.type == "code_inline" or token.info == "word"
            markup = template_markup(token) if token.meta.get("texts") else raw_markup(self.content[begin:end])
            yield Object(markup, is_word, texts_in(markup))

    def element(self, i: int, close: int) -> Node:
        token, closing = self.tokens[i], self.tokens[close]
        begin, end = token.meta["span"][0], closing.meta["span"][1]
        if token.type == "link_open":
            label_end = closing.meta["span"][0]
            markup = link_markup(self.content, begin, label_end, end, token.attrs.get("href"))
            return Element(markup, self.nodes(i + 1, close), is_link=True, texts=texts_in(markup))
        if token.type != "html_inline":
            return Element(Markup([token.markup], [closing.markup], token.tag), self.nodes(i + 1, close))
        name = tag_of(token)[0]
        if name in UNTRANSLATED or re.search(r"translate=[\"']?no\b|\bnotranslate\b", token.content):
            return Object(raw_markup(self.content[begin:end]), is_word=True)
        markup, nodes = tag_markup(token.content), self.nodes(i + 1, close)
        markup.after = [closing.content]
        if name in ("sup", "sub") and not markup.texts:
            return script(markup, nodes)
        return Element(markup, nodes, is_link=name == "a", texts=texts_in(markup))

    def image(self, token: Token) -> Node:
        begin, end = token.meta["span"]
        alt_end = begin + 2 + len(token.content)
        markup = link_markup(self.content, begin, alt_end, end, token.attrs.get("src"))
        markup.before = ["![", ""]
        markup.key = "image", markup.key
        markup.texts.insert(0, ("label", Reader(token.content).read(token.children or []), token.content))
        return Object(markup, texts=texts_in(markup))


def texts_in(markup: Markup) -> list[list[Node]]:
    return [nodes for _, nodes, _ in markup.texts]


def add_node(nodes: list[Node], node: Node):
    """Add a node; a soft line break becomes a space, and spaces around line breaks go."""
    last = nodes[-1] if nodes and isinstance(nodes[-1], str) else None
    if not isinstance(node, str):
        nodes.append(node)
    elif last is None:
        nodes.append(node.replace("\n", " "))
    elif node in ("\n", "\v"):
        nodes[-1] = last.rstrip(" \t") + node.replace("\n", " ")
    else:
        nodes[-1] = last + (node.lstrip(" \t") if last.endswith("\v") else node)


def raw_markup(content: str) -> Markup:
    return Markup([content], key=content)


def link_markup(content: str, begin: int, label_end: int, end: int, address: Any) -> Markup:
    """Return the markup of a link or an image, whose label ends at `label_end`."""
    closing = content[label_end:end]
    opening = "![" if content[begin] == "!" else "["
    markup = Markup([opening], [closing], key=("link", address))
    if closing in ("]", "][]"):
        markup.label = content[begin + len(opening) : label_end]
    elif closing.startswith("](") and (title := title_span(content, label_end + 2, end - 1)):
        title_begin, title_end = title
        spelled = content[title_begin:title_end]
        markup.after = [content[label_end:title_begin], content[title_end:end]]
        markup.texts = [(content[title_end], [unescaped(spelled)], spelled)]
    return markup


def title_span(content: str, begin: int, end: int) -> tuple[int, int] | None:
    """Return the span of the title, without its quotes, at the end of a link or a definition."""
    destination = PARSER_HELPERS.parseLinkDestination(content, skip_spaces(content, begin), end)
    place = destination.pos if destination.ok else begin
    place = skip_spaces(content, place)
    title = PARSER_HELPERS.parseLinkTitle(content, place, end)
    if not title.ok or not title.str.strip() or skip_spaces(content, title.pos) < end:
        return None  # or a template with a quotation
    return place + 1, title.pos - 1


def skip_spaces(content: str, place: int) -> int:
    """Return the place of the next character that is not a space."""
    while content[place : place + 1].isspace():
        place += 1
    return place


def unescaped(content: str) -> str:
    return " ".join(html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", content)).split())


def tag_markup(tag: str) -> Markup:
    """Return a tag as markup, with the attributes that people read as texts."""
    markup, last = Markup([], key=tag), 0
    for match in TEXT_ATTRIBUTE.finditer(tag):
        begin, end = match.span(2 if match[2] is not None else 3)
        value = " ".join(html.unescape(tag[begin:end]).split())
        if value and not IDENTIFIER.fullmatch(value):
            markup.before.append(tag[last:begin])
            markup.texts.append(("&" + tag[end], [value], tag[begin:end]))
            last = end
    markup.before.append(tag[last:])
    return markup


def template_markup(token: Token) -> Markup:
    """Return a template as markup, with its texts, which are Markdown."""
    markup, last = raw_markup(token.content), 0
    markup.before = []
    for begin, end, tokens in token.meta["texts"]:
        value = token.content[begin:end]
        markup.before.append(token.content[last:begin])
        markup.texts.append(("label" + token.content[end], Reader(value).read(tokens), value))
        last = end
    markup.before.append(token.content[last:])
    return markup


PARSER_HELPERS = MarkdownIt("zero").helpers
