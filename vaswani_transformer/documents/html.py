"""HTML: what people read of it is translated; scripts, code and the structure stay.

Elements with `translate="no"` or the class "notranslate" stay, too. A text is what stands in one block, such as a
paragraph, a heading or a cell, with its inline elements.
"""

import re
from collections import Counter

from bs4 import BeautifulSoup, NavigableString, Tag
from bs4.dammit import EntitySubstitution
from bs4.element import Doctype, PreformattedString
from bs4.formatter import HTMLFormatter

from .inline import Element, Node, Object
from .translator import DocumentError, DocumentTranslator


LINE_BREAK = "\v"  # ends a line of text, as <br> does
INLINE = set(
    "a abbr b bdi bdo big br cite del dfn em font i ins label mark q s small span strike strong sub sup time tt u"
    .split()
)  # fmt: skip
# Without words of their own, but with a place among them.
OBJECTS = set("canvas data embed iframe img input meter output progress wbr".split())
UNTOUCHED = set("code kbd math samp script style svg template textarea var".split())
NEVER_INLINE = {"script", "style", "template"}
ATTRIBUTES = "alt", "title", "placeholder", "aria-label"
# Names by which search engines and previews show a page.
META = re.compile(r"(?:og:|twitter:)?(?:title|description)", re.IGNORECASE)


def translate(text: str, translator: DocumentTranslator) -> str:
    """A page or a part of one, with its texts translated.

    Raises:
        DocumentError: it holds what HTML cannot, such as a binary file's bytes.
    """
    if "\x00" in text:
        raise DocumentError("It is no HTML: it holds the character 0.")
    soup = BeautifulSoup(text, "html.parser", preserve_whitespace_tags=Everything())
    places: list[tuple[list[Node], Tag, list]] = []
    attributes: list[tuple[Tag, str]] = []
    collect(soup, places, attributes)
    for (_, parent, old), nodes in zip(places, translator([nodes for nodes, _, _ in places]), strict=True):
        index = parent.index(old[0])
        for node in old:
            node.extract()
        for new in reversed([new for node in nodes for new in as_html(node)]):
            parent.insert(index, new)
    for (tag, name), value in zip(attributes, translator.texts([str(t[n]) for t, n in attributes]), strict=True):
        tag[name] = value
    if translator.target_language and (root := soup.find("html")):
        root["lang"] = translator.target_language
    for declaration in soup.find_all(string=lambda node: isinstance(node, Doctype)):
        declaration.SUFFIX = ">"  # the line end after it is a text of its own
    formatter = AsWritten(
        entity_substitution=EntitySubstitution.substitute_xml,
        void_element_close_prefix=end_of_void(text),
        empty_attributes_are_booleans='=""' not in text,
    )
    return soup.decode(formatter=formatter)


def end_of_void(text: str) -> str:
    """How the page mostly writes the end of an element that has no content: "", "/" or " /"."""
    ends = Counter(re.findall(r"<(?:area|base|br|col|hr|img|input|link|meta|source|wbr)\b[^>]*?(\s?/?)>", text, re.I))
    return ends.most_common(1)[0][0] if ends else ""


class Everything(set):
    """The tags in which spaces stay as they are."""

    def __contains__(self, tag: object) -> bool:
        return True


class AsWritten(HTMLFormatter):
    """Attributes in their order."""

    def attributes(self, tag: Tag):
        return tag.attrs.items()


def collect(tag: Tag, places: list, attributes: list):
    """The texts of a block and of the blocks in it, with the nodes that they come from."""
    run: list = []
    for child in [*tag.children, None]:
        if is_inline(child):
            run.append(child)
            continue
        if any(has_text(node) for node in run):
            while not has_text(run[0]):  # what stands before the first word, such as an anchor, need not move
                collect_of(run.pop(0), attributes)
            while not has_text(run[-1]):
                collect_of(run.pop(), attributes)
            places.append(([as_node(node) for node in run], tag, run))
        for node in run:
            collect_of(node, attributes)
        run = []
        if isinstance(child, Tag) and not stays(child):
            attributes += attributes_of(child)
            collect(child, places, attributes)


def collect_of(node, attributes: list):
    """The attributes of an inline node and of all in it."""
    if isinstance(node, Tag) and not stays(node):
        for tag in [node, *node.find_all(True)]:
            attributes += attributes_of(tag)


def attributes_of(tag: Tag) -> list[tuple[Tag, str]]:
    """Those that people read."""
    found = [(tag, name) for name in ATTRIBUTES if isinstance(tag.get(name), str) and tag[name].strip()]
    if tag.name == "meta" and META.fullmatch(tag.get("name") or tag.get("property") or "") and tag.get("content"):
        found.append((tag, "content"))
    return found


def stays(tag: Tag) -> bool:
    is_untouched = tag.name in UNTOUCHED or tag.name == "pre"
    return is_untouched or tag.get("translate") == "no" or "notranslate" in (tag.get("class") or [])


def is_inline(node) -> bool:
    """Whether it stands within a text: with no block in it."""
    if not isinstance(node, Tag):
        return node is not None
    if node.name in UNTOUCHED - NEVER_INLINE:
        return True
    return node.name in INLINE | OBJECTS and all(is_inline(child) for child in node.children)


def has_text(node) -> bool:
    """Whether there is something to translate in it."""
    if isinstance(node, Tag):
        return not stays(node) and node.name in INLINE and any(map(has_text, node.children))
    return not isinstance(node, PreformattedString) and bool(node.strip())


def as_node(node) -> Node:
    if isinstance(node, Tag):
        if node.name == "br":
            return LINE_BREAK
        if not has_text(node):
            return Object(node)
        return Element(node, [as_node(child) for child in node.children])
    if isinstance(node, PreformattedString):
        return Object(node)
    return re.sub(r"\s+", " ", node)  # line ends mean nothing here, and would end sentences


def as_html(node: Node) -> list[Tag | NavigableString]:
    if isinstance(node, str):
        parts = re.split(f"({LINE_BREAK})", node)
        return [
            Tag(name="br", can_be_empty_element=True) if x == LINE_BREAK else NavigableString(x) for x in parts if x
        ]
    if isinstance(node, Element):
        node.origin.clear()
        node.origin.extend([new for child in node.nodes for new in as_html(child)])
    return [node.origin]
