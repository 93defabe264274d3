"""HTML: translate the visible text; keep scripts, code and the structure.

Elements with `translate="no"` or the class "notranslate" stay, too. A text is the content of one block, such as a
paragraph, a heading or a cell, with its inline elements.
"""

import re
from collections import Counter
from typing import NamedTuple

from bs4 import BeautifulSoup, NavigableString, PageElement, Tag
from bs4.dammit import EntitySubstitution
from bs4.element import Doctype, PreformattedString
from bs4.formatter import HTMLFormatter

from .inline import Element, Node, Object
from .translator import DocumentError, DocumentTranslator


LINE_BREAK = "\v"  # <br>, which ends a line of text
INLINE = set("a abbr b bdi bdo big br cite del dfn em font i ins label mark q s small span strike strong".split())
INLINE |= set("sub sup time tt u".split())
# Inline elements without words.
OBJECTS = set("canvas data embed iframe img input meter output progress wbr".split())
UNTRANSLATED = set("code kbd math pre samp script style svg template textarea var".split())
BLOCKS = {"pre", "script", "style", "template"}  # of these; the others are among words
ATTRIBUTES = "alt", "title", "placeholder", "aria-label"
SPACES = re.compile(r"[ \t\n\v\f\r]+")  # without no-break spaces
# Metadata that search engines and link previews show.
META = re.compile(r"(?:og:|twitter:)?(?:title|description)", re.IGNORECASE)


class Place(NamedTuple):
    """The nodes of the page that make up a text, and their parent."""

    parent: Tag
    nodes: list[PageElement]


class Attribute(NamedTuple):
    """An attribute with a text."""

    tag: Tag
    name: str


def translate(text: str, translator: DocumentTranslator) -> str:
    """Translate the texts of a page or of a part of one.

    Raises:
        DocumentError: The text contains NUL characters, so it is probably a binary file.
    """
    if "\x00" in text:
        raise DocumentError("Not an HTML file: it contains NUL characters.")
    soup = BeautifulSoup(text, "html.parser", preserve_whitespace_tags=AllTags())
    places: list[Place] = []
    attributes: list[Attribute] = []
    collect(soup, places, attributes)
    segments = [[as_node(node) for node in place.nodes] for place in places]
    for place, nodes in zip(places, translator(segments), strict=True):
        put_back(place, nodes)
    values = translator.texts([str(tag[name]) for tag, name in attributes])
    for (tag, name), value in zip(attributes, values, strict=True):
        tag[name] = value
    if translator.target_language and (root := soup.find("html")):
        root["lang"] = translator.target_language
    for declaration in soup.find_all(string=lambda node: isinstance(node, Doctype)):
        declaration.SUFFIX = ">"  # BeautifulSoup would add a line end, and the page has its own
    formatter = OriginalOrder(
        entity_substitution=EntitySubstitution.substitute_xml,
        void_element_close_prefix=void_element_end(text),
        empty_attributes_are_booleans='=""' not in text,
    )
    return soup.decode(formatter=formatter)


def void_element_end(text: str) -> str:
    """The usual end of this page's elements without content: "" for <br>, "/" for <br/> or " /" for <br />."""
    ends = Counter(re.findall(r"<(?:area|base|br|col|hr|img|input|link|meta|source|wbr)\b[^>]*?(\s?/?)>", text, re.I))
    return ends.most_common(1)[0][0] if ends else ""


class AllTags(set):
    """The set of all tags: in each of them white space stays."""

    def __contains__(self, tag: object) -> bool:
        return True


class OriginalOrder(HTMLFormatter):
    """Writes attributes in their order; BeautifulSoup's formatter sorts them."""

    def attributes(self, tag: Tag):
        are_booleans = self.empty_attributes_are_booleans
        return [(name, None if value == "" and are_booleans else value) for name, value in tag.attrs.items()]


# From the page to nodes ----------------------------------------------------------------------------------------------


def collect(tag: Tag, places: list[Place], attributes: list[Attribute]):
    """Collect the texts and attributes of a block and of the blocks in it."""
    run: list[PageElement] = []
    for child in [*tag.children, None]:
        if child is not None and is_inline(child):
            run.append(child)
            continue
        if any(map(has_text, run)):
            # Elements before the first word and after the last one, such as anchors, stay in place.
            with_text = [i for i, node in enumerate(run) if has_text(node)]
            places.append(Place(tag, run[with_text[0] : with_text[-1] + 1]))
        for node in run:
            collect_attributes(node, attributes)
        run = []
        if isinstance(child, Tag) and not is_protected(child):
            attributes += attributes_of(child)
            collect(child, places, attributes)


def collect_attributes(node: PageElement, attributes: list[Attribute]):
    """Collect the attributes of an inline node and of everything in it."""
    if isinstance(node, Tag) and not is_protected(node):
        for tag in [node, *node.find_all(True)]:
            attributes += attributes_of(tag)


def attributes_of(tag: Tag) -> list[Attribute]:
    """The translatable attributes of a tag."""
    attributes = [Attribute(tag, name) for name in ATTRIBUTES if isinstance(tag.get(name), str) and tag[name].strip()]
    if tag.name == "meta" and META.fullmatch(tag.get("name") or tag.get("property") or "") and tag.get("content"):
        attributes.append(Attribute(tag, "content"))
    return attributes


def is_protected(tag: Tag) -> bool:
    """Whether a tag and its content stay untranslated."""
    classes = tag.get("class") or []
    return tag.name in UNTRANSLATED or tag.get("translate") == "no" or "notranslate" in classes


def is_inline(node: PageElement) -> bool:
    """Whether a node can be part of a text; an inline element with a block in it cannot."""
    if not isinstance(node, Tag):
        return True
    if node.name in UNTRANSLATED - BLOCKS:
        return True
    return node.name in INLINE | OBJECTS and all(map(is_inline, node.children))


def has_text(node: PageElement) -> bool:
    """Whether a node contains text to translate."""
    if isinstance(node, Tag):
        return not is_protected(node) and node.name in INLINE and any(map(has_text, node.children))
    return not isinstance(node, PreformattedString) and bool(str(node).strip())


def as_node(node: PageElement) -> Node:
    if isinstance(node, Tag):
        if node.name == "br":
            return LINE_BREAK
        if not has_text(node):
            return Object(node)
        return Element(node, [as_node(child) for child in node.children])
    if isinstance(node, PreformattedString):  # a comment or the like
        return Object(node)
    return SPACES.sub(" ", str(node))  # in HTML a line end is a space; the model would see the end of a sentence


# From nodes to the page ----------------------------------------------------------------------------------------------


def put_back(place: Place, nodes: list[Node]):
    """Replace the nodes of a text by those of its translation."""
    index = place.parent.index(place.nodes[0])
    for node in place.nodes:
        node.extract()
    for new in reversed([new for node in nodes for new in as_html(node)]):
        place.parent.insert(index, new)


def as_html(node: Node) -> list[PageElement]:
    if isinstance(node, str):
        return [
            Tag(name="br", can_be_empty_element=True) if part == LINE_BREAK else NavigableString(part)
            for part in re.split(f"({LINE_BREAK})", node)
            if part
        ]
    if isinstance(node, Element):
        node.origin.clear()
        node.origin.extend([new for child in node.nodes for new in as_html(child)])
    return [node.origin]
