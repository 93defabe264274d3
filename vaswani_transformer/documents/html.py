"""HTML: translate the visible text; keep scripts, code and the structure.

Elements with `translate="no"` or the class "notranslate" stay, too. A text is what is between two block tags, with its
inline elements, so missing end tags do no harm.

The tokenizer is our own, after section 13.2.5 of the HTML standard: html5lib, which follows the standard, reports no
places and has had no release since 2020; html.parser takes quadratic time for damaged tags; BeautifulSoup and lxml
write a whole page again from their trees.
"""

import html
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from .document import DocumentError, Options, Span, TextDocument
from .inline import Element, Fixed, Node, Object, script, text_of
from .messages import nearest_pairs


BLOCKS = set(
    """
    address article aside base blockquote body br caption center col colgroup dd details dialog dir div dl dt fieldset
    figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link main menu
    meta nav noframes noscript ol optgroup option p section select summary table tbody td tfoot th thead title tr ul
    """.split()
)
VOID = set("area base br col embed frame hr img input link meta param source track wbr".split())
RAW_TEXT = {"iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"}
SCRIPTS = {"script", "style", "template", "pre", "plaintext", "xmp", "noembed"}  # kept, and they end a text
WORDS = set("code kbd samp var math tt output meter progress textarea".split())  # kept, with the part of a word
OBJECTS = set("svg canvas audio video object iframe map datalist".split())  # kept among the words
ATTRIBUTES = {"alt", "title", "placeholder", "aria-label", "aria-description", "aria-roledescription"}
# Metadata that search engines and link previews show.
META = re.compile(r"(?:og:|twitter:)?(?:title|description)|og:image:alt|twitter:image:alt", re.IGNORECASE)
BUTTONS = {"submit", "button", "reset"}
SPACES = re.compile(r"[ \t\n\f\r]+")  # without no-break spaces
TEMPLATE = re.compile(r"\{\{[^{}]{0,400}\}\}|\{%[^{}%]{0,400}%\}|\{#[^{}#]{0,400}#\}")
COMMENT = re.compile(r"<!--(?:>|->|.*?(?:-->|--!>|\Z))|<[!?%](?:.*?[%?]?>|.*\Z)|</(?![a-zA-Z]).*?>", re.DOTALL)
NAME = re.compile(r"</?([a-zA-Z][^\s/>]*)")
ATTRIBUTE = re.compile(r"[\s/]*([^\s/>=]?[^\s/>=]*)")
VALUE = re.compile(r"\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"'][^\s>]*))")
ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,31};?|#[0-9]{1,7};?|#[xX][0-9a-fA-F]{1,6};?)")


class Attribute(NamedTuple):
    """An attribute: its name, and where its value begins and ends, without quotes."""

    name: str
    begin: int
    end: int


@dataclass
class Token:
    """A piece of a page: a "start" tag, an "end" tag, a "text", or what is "kept" to the letter.

    name: Of a tag, in lower case.
    is_word: What is kept has the part of a word in its sentence.
    """

    kind: str
    begin: int
    end: int
    name: str = ""
    attributes: list[Attribute] = field(default_factory=list)
    is_word: bool = False


class Markup(NamedTuple):
    """A tag around the texts of its attributes: there is one more part than texts.

    values: The texts as the page spells them.
    """

    parts: tuple[str, ...]
    values: tuple[str, ...] = ()


def read(content: str, options: Options) -> TextDocument:
    """Find the texts of a page or of a part of one.

    Raises:
        DocumentError: The content has NUL characters, so it is probably a binary file.
    """
    if "\x00" in content:
        raise DocumentError("Not an HTML file: it contains NUL characters.")
    return Page(content, options).document()


# Tokens --------------------------------------------------------------------------------------------------------------


def tokenize(content: str) -> Iterator[Token]:
    """Yield the pieces of a page, in their order and without gaps."""
    is_xml = content.lstrip().startswith("<?xml")
    position = last = 0
    while (position := content.find("<", position)) >= 0:
        token = tag_at(content, position) or comment_at(content, position)
        if token is None:
            position += 1
            continue
        if last < position:
            yield Token("text", last, position)
        yield token
        position = last = token.end
        is_empty = is_xml and content[token.end - 2] == "/"
        if token.kind == "start" and token.name in RAW_TEXT and not is_empty:
            end = end_of_raw(content, position, token.name)
            if end > position:
                yield Token("text" if token.name == "title" else "kept", position, end)
            position = last = end
    if last < len(content):
        yield Token("text", last, len(content))


def comment_at(content: str, begin: int) -> Token | None:
    match = COMMENT.match(content, begin)
    return Token("kept", begin, match.end()) if match else None


def tag_at(content: str, begin: int) -> Token | None:
    """Return the tag that begins here; one that never ends is kept with everything behind it."""
    name = NAME.match(content, begin)
    if name is None:
        return None
    kind = "end" if content[begin + 1] == "/" else "start"
    token = Token(kind, begin, name.end(), name[1].lower())
    while token.end < len(content) and content[token.end] != ">":
        attribute = ATTRIBUTE.match(content, token.end)
        token.end = attribute.end()
        value = VALUE.match(content, token.end)
        if value and attribute[1]:
            group = value.lastindex or 3
            token.attributes.append(Attribute(attribute[1].lower(), *value.span(group)))
        if value:
            token.end = value.end()
        elif content[token.end : token.end + 1] == "=":
            quote = re.match(r"=\s*([\"'])", content[token.end : token.end + 100])
            token.end = len(content) if quote else token.end + 1  # a quote that never ends
    if token.end >= len(content):
        return Token("kept", begin, len(content))
    token.end += 1
    return token


def end_of_raw(content: str, begin: int, name: str) -> int:
    """Return the place of the end tag of an element whose content has no tags."""
    match = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(content, begin)
    return match.start() if match else len(content)


# From the page to nodes ----------------------------------------------------------------------------------------------


class Page:
    """Collects the texts of a page."""

    def __init__(self, content: str, options: Options):
        self.content, self.options = content, options
        self.lines = [match.end() for match in re.finditer(r"\n", content)]
        self.texts: list[Span] = []
        self.untranslated: Counter[str] = Counter()
        self.edits: list[tuple[int, int, str]] = []

    def document(self) -> TextDocument:
        run: list[Token] = []
        for token in self.merged(list(tokenize(self.content))):
            if token.name in BLOCKS | SCRIPTS and token.kind != "text":
                self.add_run(run)
                run = []
                self.add_attributes(token)
                if token.name == "html" and token.kind == "start":
                    self.set_language(token)
            else:
                run.append(token)
        self.add_run(run)
        return TextDocument(
            self.content, sorted(self.texts, key=lambda text: text.begin), self.untranslated, edits=self.edits
        )

    def merged(self, tokens: list[Token]) -> Iterator[Token]:
        """Yield the tokens, with each element that stays as a single one."""
        ends = closing_tags(tokens)
        i = 0
        while i < len(tokens):
            token = tokens[i]
            reason = self.reason_to_keep(token)
            if reason is None:
                yield token
                i += 1
                continue
            stop = ends.get(i, i)
            if token.name not in SCRIPTS or token.name == "pre":
                self.untranslated[reason] += 1
            is_word = token.name in WORDS or token.name not in OBJECTS | SCRIPTS
            name = token.name if token.name in BLOCKS | SCRIPTS else ""
            yield Token("kept", token.begin, tokens[stop].end, name, [], is_word)
            i = stop + 1

    def reason_to_keep(self, token: Token) -> str | None:
        if token.kind != "start":
            return None
        if token.name in WORDS | SCRIPTS:
            return "pieces of code"
        if token.name in OBJECTS:
            return "graphics and media"
        classes = self.value(token, "class").split()
        if self.value(token, "translate") == "no" or "notranslate" in classes:
            return 'elements with translate="no"'
        return None

    def value(self, token: Token, name: str) -> str:
        return next((self.content[a.begin : a.end] for a in token.attributes if a.name == name), "")

    def place(self, position: int) -> str:
        return f"line {bisect_right(self.lines, position) + 1}"

    def add_run(self, tokens: list[Token]):
        """Add the text of tokens that have no block tag between them."""
        with_words = [i for i, token in enumerate(tokens) if token.kind == "text" and has_words(self.source(token))]
        if not with_words:
            for token in tokens:
                self.add_attributes(token)
            return
        # Tags before the first word and after the last one stay in place; pairs around words are elements.
        pairs = nearest_pairs([(t.name, t.kind) if t.name not in VOID else None for t in tokens])
        first, last = with_words[0], with_words[-1]
        first = min([first, *(a for a, b in pairs.items() if a < first <= b and b <= last)])
        last = max([last, *(b for a, b in pairs.items() if first <= a <= last < b)])
        for token in [*tokens[:first], *tokens[last + 1 :]]:
            self.add_attributes(token)
        chosen = self.without_outer_spaces(tokens[first : last + 1])
        begin, end = chosen[0].begin, chosen[-1].end
        shifted = {a - first: b - first for a, b in pairs.items() if first <= a and b <= last}
        spelling = {}
        for token in chosen:
            if token.kind == "text":
                spelling |= spellings(self.source(token))
        nodes = self.nest(chosen, shifted)
        self.texts.append(Span(nodes, self.place(begin), begin, end, partial(as_html, spelling=spelling)))

    def without_outer_spaces(self, tokens: list[Token]) -> list[Token]:
        if (start := tokens[0]).kind == "text":
            source = self.source(start)
            tokens[0] = replace(start, begin=start.begin + len(source) - len(source.lstrip()))
        if (end := tokens[-1]).kind == "text":
            tokens[-1] = replace(end, end=end.begin + len(self.source(end).rstrip()))
        return tokens

    def nest(self, tokens: Sequence[Token], pairs: dict[int, int]) -> list[Node]:
        top: list[Node] = []
        stack: list[tuple[Token, Markup, list[list[Node]], list[Node]]] = []
        ends = set(pairs.values())
        nodes = top
        for i, token in enumerate(tokens):
            if token.kind == "text":
                nodes += text_nodes(self.source(token))
            elif i in pairs:
                markup, texts = self.markup(token)
                stack.append((token, markup, texts, nodes))
                nodes = []
            elif i in ends:
                start, markup, texts, outer = stack.pop()
                name = "sup" if start.name == "span" and self.is_index(outer, nodes, token) else start.name
                outer.append(element((markup, self.source(token)), name, nodes, texts))
                nodes = outer
            else:
                markup, texts = self.markup(token)
                nodes.append(Object(markup, token.is_word, texts))
        return top

    def is_index(self, before: list[Node], nodes: list[Node], end: Token) -> bool:
        """Whether an element is a number right after a letter, such as that of m², whose style is not known here."""
        if not before or not re.fullmatch(r"\d{1,3}", "".join(map(text_of, nodes))):
            return False
        is_within_word = re.match(r"(?:<[^<>]*>){0,9}\w", self.content[end.end : end.end + 200])
        return text_of(before[-1])[-1:].isalpha() and not is_within_word

    def source(self, token: Token) -> str:
        return self.content[token.begin : token.end]

    def markup(self, token: Token) -> tuple[Markup, list[list[Node]]]:
        """Return a tag or kept piece, and the texts of its attributes."""
        parts, values, texts, last = [], [], [], token.begin
        for attribute in self.text_attributes(token):
            is_quoted = self.content[attribute.begin - 1] in "\"'"
            begin, end = (attribute.begin - 1, attribute.end + 1) if is_quoted else (attribute.begin, attribute.end)
            parts.append(self.content[last:begin])
            values.append(self.content[begin:end])
            texts.append([html.unescape(self.content[attribute.begin : attribute.end])])
            last = end
        return Markup((*parts, self.content[last : token.end]), tuple(values)), texts

    def text_attributes(self, token: Token) -> Iterator[Attribute]:
        if token.kind != "start" or token.name in ("link", "style"):  # their titles name style sheets
            return
        is_button = token.name == "input" and self.value(token, "type").lower() in BUTTONS
        is_meta = token.name == "meta" and META.fullmatch(self.value(token, "name") or self.value(token, "property"))
        for attribute in token.attributes:
            names = ATTRIBUTES | ({"value"} if is_button else set()) | ({"content"} if is_meta else set())
            if attribute.name in names and has_words(self.content[attribute.begin : attribute.end]):
                yield attribute

    def add_attributes(self, token: Token):
        """Add the texts of a tag that is not part of a text."""
        for attribute in self.text_attributes(token):
            value = self.content[attribute.begin : attribute.end]
            quote = self.content[attribute.begin - 1]
            begin, end = attribute.begin, attribute.end
            if quote not in "\"'":
                render = attribute_value
            else:
                render = partial(attribute_value, quote=quote)
            self.texts.append(Span([html.unescape(value)], self.place(begin), begin, end, render))

    def set_language(self, token: Token):
        if not self.options.target_language:
            return
        names = {attribute.name: attribute for attribute in token.attributes}
        for name in names.keys() & {"lang", "xml:lang"}:
            self.edits.append((names[name].begin, names[name].end, self.options.target_language))
        if not names.keys() & {"lang", "xml:lang"}:
            end = token.begin + len("<html")
            self.edits.append((end, end, f' lang="{self.options.target_language}"'))


def closing_tags(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the index of each start tag with that of its end tag."""
    pairs: dict[int, int] = {}
    open_tags: dict[str, list[int]] = {}
    for i, token in enumerate(tokens):
        if token.kind == "start" and token.name not in VOID:
            open_tags.setdefault(token.name, []).append(i)
        elif token.kind == "end" and open_tags.get(token.name):
            pairs[open_tags[token.name].pop()] = i
    return pairs


def element(origin: tuple[Markup, str], name: str, nodes: list[Node], texts: list[list[Node]]) -> Node:
    if name in ("sup", "sub"):
        return script(origin, nodes)
    if name in ("rt", "rp"):
        return Fixed([Element(origin, nodes)], is_glued=True)
    return Element(origin, nodes, is_link=name in ("a", "button"), texts=texts)


def has_words(source: str) -> bool:
    return re.search(r"\w", html.unescape(TEMPLATE.sub("", source))) is not None


def text_nodes(source: str) -> list[Node]:
    """Convert the text between two tags; a line end is a space, and the model would see the end of a sentence."""
    nodes: list[Node] = []
    last = 0
    for match in TEMPLATE.finditer(source):
        nodes += [collapsed(source[last : match.start()]), Object(Markup((match[0],)), is_word=match[0][1] == "{")]
        last = match.end()
    return [node for node in [*nodes, collapsed(source[last:])] if node != ""]


def collapsed(source: str) -> str:
    return html.unescape(SPACES.sub(" ", source))


def spellings(source: str) -> dict[str, str]:
    """Return how a text spells the characters for which it uses entities, and & if it uses it bare."""
    entities = {html.unescape(match[0]): match[0] for match in ENTITY.finditer(source)}
    bare = {"&": "&"} if "&" in ENTITY.sub("", source) else {}
    return {character: entity for character, entity in entities.items() if len(character) == 1} | bare


# From nodes to the page ----------------------------------------------------------------------------------------------


def as_html(nodes: Sequence[Node], spelling: dict[str, str]) -> str:
    parts = []
    for node in nodes:
        if isinstance(node, str):
            text = "".join(spelling.get(c) or html.escape(c, quote=False) for c in node)
            parts.append(text if html.unescape(text) == node else html.escape(node, quote=False))
        elif isinstance(node, Object):
            parts.append(as_tag(node.origin, node.texts))
        elif isinstance(node, Element):
            parts += [as_tag(node.origin[0], node.texts), as_html(node.nodes, spelling), node.origin[1]]
        else:
            parts.append(as_html(node.nodes, spelling))
    return "".join(parts)


def as_tag(markup: Markup, texts: Sequence[list[Node]]) -> str:
    first, *rest = markup.parts
    written = first
    for value, text, part in zip(markup.values, texts, rest, strict=True):
        quote = value[0] if value[0] in "\"'" else ""
        is_same = html.unescape(value[1:-1] if quote else value) == "".join(map(text_of, text))
        new = quote + attribute_value(text, quote) + quote
        written += (value if is_same else new) + part
    return written


def attribute_value(nodes: list[Node], quote: str = "") -> str:
    """Write the value of an attribute; without a quote, in quotes of its own."""
    text = "".join(map(text_of, nodes)).replace("&", "&amp;")
    escaped = text.replace(quote or '"', "&#39;" if quote == "'" else "&quot;")
    return escaped if quote else f'"{escaped}"'
