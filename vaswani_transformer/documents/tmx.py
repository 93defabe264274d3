"""TMX: entries get a variant in the target language, and everything else stays."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .document import DocumentError, Languages, Options, Text, Translated, primary
from .messages import as_text
from .xliff import nodes_of
from .xml import Tree, Xml, escaped, qualified


XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


@dataclass
class Tmx:
    """A file that has been read; each text is that of the source variant of an entry."""

    xml: Xml
    sources: list[Tree]
    texts: Sequence[Text]
    untranslated: Counter[str]
    languages: Languages
    language: str

    def write(self, translated: Sequence[Translated]) -> bytes:
        edits = []
        for variant, (nodes, _) in zip(self.sources, translated, strict=True):
            tag, segment = self.xml.slice(variant.begin, variant.inside), variant.find("seg")
            name, inner = qualified(tag, "tuv"), qualified(tag, "seg")
            before = self.xml.source[: variant.begin]
            space = re.search(rb"(?:\r?\n[ \t]*)?\Z", before[-200:])[0].decode()
            between = self.xml.slice(variant.inside, segment.begin).strip(" \t\r\n")
            layout = self.xml.slice(variant.inside, segment.begin) if not between else ""
            end = self.xml.slice(segment.end, variant.inside_end)
            new = f"<{inner}>{as_text(nodes, escaped)}</{inner}>"
            attribute = "lang" if " lang=" in tag and "xml:lang" not in tag else "xml:lang"
            written = (
                f'{space}<{name} {attribute}="{self.language}">{layout}{new}{end if not end.strip() else ""}</{name}>'
            )
            edits.append((variant.end, variant.end, written))
        return self.xml.edited(edits)


def read(content: bytes, options: Options) -> Tmx:
    """Find the entries without a variant in the target language.

    Raises:
        DocumentError: The file is damaged, not in TMX or has no texts.
    """
    xml = Xml(content)
    if xml.root.name != "tmx":
        raise DocumentError(f"Not a TMX file: its outermost element is <{xml.root.name}>.")
    header = next(xml.root.iter("header"), None)
    recorded = header.attributes.get("srclang", "") if header else ""
    sources, texts, untranslated = [], [], Counter()
    units = list(xml.root.iter("tu"))
    for number, unit in enumerate(units, 1):
        variants = {language_of(variant): variant for variant in unit.elements if variant.name == "tuv"}
        wanted = primary(unit.attributes.get("srclang") or recorded)
        source = variants.get(wanted) or next(iter(variants.values()), None)
        if source is None or (segment := source.find("seg")) is None:
            continue
        if options.target_language and primary(options.target_language) in variants:
            untranslated["entries with a translation"] += 1
            continue
        sources.append(source)
        texts.append(Text(nodes_of(xml, segment), f"entry {number}"))
    if not sources and not untranslated:
        raise DocumentError("The file has no texts to translate.")
    return Tmx(xml, sources, texts, untranslated, (recorded or None, None), options.target_language or "und")


def language_of(variant: Tree) -> str:
    return primary(variant.attributes.get(XML_LANG) or variant.attributes.get("lang") or "")
