"""JSON (.json, .arb) and YAML: translate the texts among the values, all of them or those of chosen keys.

ruamel.yaml's composer reports the place of each scalar; what it writes itself would lose layout, so nothing is written
by it. Python's json reports no places, but its strings can be found in the order in which it reads them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

from .document import DocumentError, Options, Span, TextDocument
from .inline import Node
from .messages import as_nodes, as_text


LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?', re.DOTALL)  # a string, with the colon if it is a key
# YAML 1.1, which PyYAML and Ruby read, has more booleans than YAML 1.2.
BOOLEAN = re.compile(r"y|yes|n|no|true|false|on|off|null|~", re.IGNORECASE)
# A text that stays a text without quotes, in every place where a plain scalar may be.
PLAIN = re.compile(r"[^\W\d_](?:[^\n:#\[\]{},&*!|>'\"%@`\\-]|(?<=\w)[-'](?=\w))*")
UNPRINTABLE = r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"  # what YAML wants escaped, besides what JSON does
PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")  # anchor and tag


class Pairs(list):
    """A JSON object as a list of pairs, because it may have a key more than once."""


# JSON ----------------------------------------------------------------------------------------------------------------


def read_json(content: str, options: Options) -> TextDocument:
    """Find the texts of a JSON file.

    Raises:
        DocumentError: The file is not valid JSON.
    """
    try:
        data = json.loads(content, object_pairs_hook=Pairs)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"Not valid JSON: {error}.") from error
    literals = [match for match in LITERAL.finditer(content) if match[2] is None]
    texts, untranslated = [], Counter()
    for literal, (path, value) in zip(literals, json_strings(data), strict=True):
        if reason := reason_to_skip(path, value, options.keys):
            untranslated[reason] += 1
            continue
        render = partial(json_string, is_ascii="\\u" in literal[1], has_escaped_slashes="\\/" in literal[1])
        texts.append(Span(as_nodes(value), f"key {path}" if path else "", literal.start(1), literal.end(1), render))
    return TextDocument(content, texts, untranslated)


def json_strings(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the strings among the values, each with its keys joined by dots."""
    if isinstance(data, str):
        yield path, data
    for key, value in data if isinstance(data, Pairs) else enumerate(data) if isinstance(data, list) else ():
        yield from json_strings(value, f"{path}.{key}" if path else str(key))


def json_string(nodes: list[Node], is_ascii: bool, has_escaped_slashes: bool) -> str:
    """Write a text with the escapes that its original has."""
    text = json.dumps(as_text(nodes), ensure_ascii=is_ascii)[1:-1]
    return text.replace("/", "\\/") if has_escaped_slashes else text


def reason_to_skip(path: str, value: str, keys: Sequence[str]) -> str | None:
    """Return why a value stays untranslated, or None."""
    if not is_chosen(path, keys):
        return "texts of other keys"
    if any(part.startswith("@") for part in path.split(".")):  # what ARB says about its messages
        return "metadata"
    return None if re.search(r"\w", value) else "values without words"


def is_chosen(path: str, keys: Sequence[str]) -> bool:
    """Whether a pattern matches the path or its last key; without patterns all texts are chosen."""
    return not keys or any(fnmatchcase(path, key) or fnmatchcase(path.rpartition(".")[2], key) for key in keys)


# YAML ----------------------------------------------------------------------------------------------------------------


class Scalar(NamedTuple):
    """A text among the values of YAML: its keys joined by dots, its value, its place, and how it is written.

    style: One of ' " | > or "" for a text without quotes.
    """

    path: str
    value: str
    begin: int
    end: int
    style: str


def read_yaml(content: str, options: Options) -> TextDocument:
    """Find the texts of a YAML file.

    Raises:
        DocumentError: The file is not valid YAML.
    """
    texts, untranslated = [], Counter()
    for scalar in yaml_scalars(content):
        if not scalar.style and BOOLEAN.fullmatch(scalar.value):
            untranslated["words that YAML reads as booleans"] += 1
        elif reason := reason_to_skip(scalar.path, scalar.value, options.keys):
            untranslated[reason] += 1
        else:
            texts.append(yaml_span(content, scalar))
    return TextDocument(content, texts, untranslated)


def yaml_scalars(content: str) -> list[Scalar]:
    """Return the texts among the values of all documents in a file, in their order.

    Raises:
        DocumentError: The file is not valid YAML.
    """
    from ruamel.yaml import YAML, YAMLError
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    scalars: list[Scalar] = []
    visited: set[int] = set()  # what an alias repeats is a text once

    def visit(node: Any, path: str):
        if id(node) in visited:
            return
        visited.add(id(node))
        if isinstance(node, MappingNode):
            for key, value in node.value:
                name = str(key.value) if isinstance(key, ScalarNode) else "?"
                visit(value, f"{path}.{name}" if path else name)
        elif isinstance(node, SequenceNode):
            for i, value in enumerate(node.value):
                visit(value, f"{path}.{i}" if path else str(i))
        elif isinstance(node, ScalarNode) and str(node.ctag).endswith(":str"):
            begin = PROPERTIES.match(content, node.start_mark.index).end()
            scalars.append(Scalar(path, node.value, begin, node.end_mark.index, node.style or ""))

    try:
        nodes = list(YAML(typ="safe", pure=True).compose_all(content))
        for node in nodes:
            visit(node, "")
    except (YAMLError, RecursionError, ValueError) as error:
        raise DocumentError(f"Not valid YAML: {' '.join(str(error).split())[:200]}") from error
    return sorted(scalars, key=lambda scalar: scalar.begin)


def yaml_span(content: str, scalar: Scalar) -> Span:
    """Return the place of a text, and the function that writes it in the style of its original."""
    nodes, place = as_nodes(scalar.value), f"key {scalar.path}" if scalar.path else ""
    begin, end = scalar.begin, scalar.end
    newline = "\r\n" if "\r\n" in content else "\n"
    if scalar.style not in ("|", ">"):
        return Span(nodes, place, begin, end, partial(flow_scalar, style=scalar.style))
    first = content.index("\n", begin) + 1
    end = first + len(content[first:end].rstrip())
    if scalar.style == ">" and re.search(r"^[ \t]", scalar.value, re.MULTILINE):
        return Span(nodes, place, begin, end, partial(flow_scalar, style='"'))  # lines with indents are not folded
    # The first line tells how far the whole block is indented; the text may have an indent of its own.
    indent = len(indent_of(content[first:end])) - len(indent_of(scalar.value))
    render = partial(block_scalar, indent=" " * indent, is_folded=scalar.style == ">", newline=newline)
    return Span(as_nodes(scalar.value.rstrip("\n")), place, first, end, render)


def indent_of(text: str) -> str:
    """Return the spaces before the first line that is not blank."""
    return re.match(r"(?:[ \t]*\r?\n)*( *)", text)[1]


def flow_scalar(nodes: list[Node], style: str) -> str:
    """Write a text in one line: in its original's quotes, or without any if it cannot be misread."""
    text = as_text(nodes)
    if not style and PLAIN.fullmatch(text) and text == text.strip() and not BOOLEAN.fullmatch(text):
        return text
    if style == '"' or re.search(rf"[\x00-\x1f]|{UNPRINTABLE}", text):
        return re.sub(UNPRINTABLE, lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))
    return "'" + text.replace("'", "''") + "'"


def block_scalar(nodes: list[Node], indent: str, is_folded: bool, newline: str) -> str:
    """Write a text over several lines; in the folded style, a line end is a blank line."""
    text = as_text(nodes)
    if is_folded:
        text = re.sub(r"\n+", lambda match: "\n" + match[0], text)
    lines = (indent + line if line.strip() else "" for line in text.split("\n"))
    return newline.join(lines)
