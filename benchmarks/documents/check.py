"""Translate documents with two programs that need no model, and compare what should be equal.

    python -m benchmarks.documents.check FOLDER

"unchanged" returns each text as it is: the output must equal the file byte for byte. In gettext, XLIFF and TMX, where
translations are added beside the texts, nothing of the file may be missing. "capitals" writes each text in upper case:
the output must have the same structure, and the same texts in capitals. Refused files are listed with the reason.
"""

import argparse
import io
import json
import re
import zipfile
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from ruamel.yaml import YAML

from vaswani_transformer.documents import (
    SUFFIXES,
    DocumentError,
    DocumentTranslator,
    Text,
    read_content,
    translate_content,
)
from vaswani_transformer.documents.inline import flatten, split_texts


BILINGUAL = {".po", ".pot", ".xlf", ".xliff", ".tmx"}


class Unchanged:
    """A pipeline that returns each text as it is."""

    can_align = True

    def translate(self, texts, batch_size, progress, **settings):
        return [[self.record(text)] for text in texts]

    def record(self, text: str) -> dict[str, Any]:
        return {"translation_text": text, "alignments": []}


class Capitals(Unchanged):
    """A pipeline that writes each text in capitals, but not the placeholders of objects."""

    def record(self, text: str) -> dict[str, Any]:
        translation, alignments = "", []
        for part in re.finditer(r"\{\d+\}|\w+|[^\w{]+|\{", text):
            new = part[0] if part[0][0] == "{" else part[0].upper()
            alignments.append((part.span(), (len(translation), len(translation) + len(new))))
            translation += new
        return {"translation_text": translation, "alignments": alignments}


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="documents; folders in it are searched, too")
    folder = parser.parse_args(arguments).folder
    tables: dict[str, Counter[str]] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix.lower() in SUFFIXES):
        result, reason = check(file)
        tables.setdefault(file.suffix.lower(), Counter())[result] += 1
        if result != "right":
            print(f"{result}: {file.relative_to(folder)}: {reason}")
    print("| format | files | right | refused | wrong |\n|---|---|---|---|---|")
    for suffix, numbers in sorted(tables.items()):
        print(f"| {suffix} | {numbers.total()} | {numbers['right']} | {numbers['refused']} | {numbers['wrong']} |")
    total = sum(tables.values(), Counter())
    print(f"| all | {total.total()} | {total['right']} | {total['refused']} | {total['wrong']} |")


def check(file: Path) -> tuple[str, str]:
    """Returns "right", "refused" or "wrong", and why."""
    content, suffix = file.read_bytes(), file.suffix.lower()
    try:
        same = translate_content(content, file.name, DocumentTranslator(Unchanged()))
        loud = translate_content(content, file.name, DocumentTranslator(Capitals()))
    except DocumentError as error:
        return "refused", str(error)
    if suffix in BILINGUAL:
        if not is_within(content, same):
            return "wrong", "something of the file is missing"
    elif not are_same_file(content, same):
        return "wrong", "not the same after a translation that changes nothing"
    if structure(suffix, content) != structure(suffix, loud):
        return "wrong", "another structure after a translation in capitals"
    old, new = (read_content(x, file.name).texts for x in (content, loud))
    if suffix not in BILINGUAL and Counter(capitals(old)) != Counter(capitals(new)):
        return "wrong", "other texts after a translation in capitals"
    return "right", ""


def are_same_file(first: bytes, second: bytes) -> bool:
    """Compares two files; archives by the names and contents of their parts."""
    if first == second or not zipfile.is_zipfile(io.BytesIO(first)):
        return first == second
    return parts(first) == parts(second)


def parts(content: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def is_within(original: bytes, output: bytes) -> bool:
    """Whether the lines of a file are in another one, in their order; header lines may have other values."""
    lines = iter(output.splitlines())
    return all(any(line.strip()[:8] in new for new in lines) for line in original.splitlines())


def capitals(texts: list[Text]) -> list[str]:
    parts = (flatten(part).text for text in texts for part in split_texts(text.nodes))
    return [" ".join(re.sub(r"\{\d+\}|[_&]", "", part).upper().split()) for part in parts]


# Structures ----------------------------------------------------------------------------------------------------------


def structure(suffix: str, content: bytes) -> Any:
    """Returns what another parser sees of a file besides its texts; None where no other parser reads it."""
    if suffix in (".md", ".markdown", ".mdx"):
        return markdown_structure(content.decode())
    if suffix in (".html", ".htm"):
        tags = Tags()
        tags.feed(content.decode())
        return tags.tags
    if suffix in (".json", ".arb", ".ipynb"):
        return shape_of(json.loads(content.decode("utf-8-sig")))
    if suffix in (".yaml", ".yml"):
        return [shape_of(data) for data in YAML(typ="safe", pure=True).load_all(content.decode("utf-8-sig"))]
    if suffix in (".srt", ".vtt"):
        return re.findall(rb"^.*-->.*$|^\d+\s*$", content, re.MULTILINE)
    if zipfile.is_zipfile(io.BytesIO(content)):
        return [name for name, _ in parts(content)]
    return None


def markdown_structure(text: str) -> list[tuple]:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    inner = [child for token in tokens for child in token.children or [] if child.type != "text"]
    inline = [child for child in inner if child.type not in ("softbreak", "html_inline")]
    blocks = [(token.type, token.tag) for token in tokens]
    return blocks + sorted((child.type, child.attrs.get("href"), child.attrs.get("src")) for child in inline)


def shape_of(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: shape_of(value) for key, value in data.items()}
    if isinstance(data, list):
        return [shape_of(value) for value in data]
    return "" if isinstance(data, str) else data


class Tags(HTMLParser):
    """Collects the tags of a page, with the attributes that are not texts."""

    def __init__(self):
        super().__init__()
        self.tags: list = []

    def handle_starttag(self, tag: str, attrs: list):
        self.tags.append((tag, [(name, x) for name, x in attrs if name in ("href", "src", "class", "id", "style")]))

    def handle_endtag(self, tag: str):
        self.tags.append(tag)


if __name__ == "__main__":
    main()
