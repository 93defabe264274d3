"""JSON and YAML: translate the texts among the values, all of them or those of chosen keys."""

import io
import json
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from .translator import DocumentError, DocumentTranslator


LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)  # a string, with the colon if it is a key
EXPLICIT_START = re.compile(r"(?:[ \t]*(?:#.*)?\r?\n)*---\s")  # after comments and blank lines
INDENTED_LIST = re.compile(r"^(\s*)[^\s#-].*:[ \t]*\r?\n\1 +- ", re.MULTILINE)


class Text(NamedTuple):
    """A text among the values: its keys joined by dots, its value, and a function that replaces it."""

    path: str
    value: str
    replace: Callable[[str], None]


class Pairs(list):
    """A JSON object as a list of pairs, because it may have a key more than once."""

    def items(self):
        return iter(self)


def translate_json(text: str, translator: DocumentTranslator, keys: list[str]) -> str:
    """Translate the texts of a JSON file; everything else stays byte for byte.

    Raises:
        DocumentError: The file is not valid JSON.
    """
    try:
        data = json.loads(text, object_pairs_hook=Pairs)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"Not valid JSON: {error}.") from error
    paths = [value.path for value in find_texts([data])]
    literals = [match for match in LITERAL.finditer(text) if match[1] is None]
    chosen = [literal for literal, path in zip(literals, paths, strict=True) if is_chosen(path, keys)]
    values = [json.loads(literal[0]) for literal in chosen]
    parts, last = [], 0
    for literal, old, new in zip(chosen, values, translator.texts(values), strict=True):
        written = literal[0] if new == old else json.dumps(new, ensure_ascii="\\u" in literal[0])
        parts += [text[last : literal.start()], written]
        last = literal.end()
    return "".join([*parts, text[last:]])


def translate_yaml(text: str, translator: DocumentTranslator, keys: list[str]) -> str:
    """Translate the texts of a YAML file; comments, quotes and order stay.

    Raises:
        DocumentError: The file is not valid YAML.
    """
    from ruamel.yaml import YAML, YAMLError

    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 1 << 16
    yaml.explicit_start = bool(EXPLICIT_START.match(text))
    if INDENTED_LIST.search(text):
        yaml.indent(mapping=2, sequence=4, offset=2)
    output = io.StringIO()
    try:
        roots = [
            [data] for data in yaml.load_all(text.replace("\r\n", "\n"))
        ]  # lists, because a document may be a single text
        texts = [value for root in roots for value in find_texts(root) if is_chosen(value.path, keys)]
        if not texts:
            return text
        for value, new in zip(texts, translator.texts([value.value for value in texts]), strict=True):
            value.replace(new)
        yaml.dump_all([data for [data] in roots], output)
    except (YAMLError, RecursionError) as error:
        raise DocumentError(f"Not valid YAML: {' '.join(str(error).split())[:200]}") from error
    return output.getvalue().replace("\n", "\r\n" if "\r\n" in text else "\n")


def find_texts(root: list) -> Iterator[Text]:
    """Yield the texts in `root[0]`.

    A value that YAML repeats by aliases is visited once: a few lines of aliases can represent billions of texts.
    """
    visited: set[int] = set()

    def visit(data: Any, path: str) -> Iterator[Text]:
        if id(data) in visited:
            return
        visited.add(id(data))
        items = data.items() if isinstance(data, dict | Pairs) else enumerate(data) if isinstance(data, list) else ()
        for key, value in items:
            value_path = f"{path}.{key}" if path else str(key)
            if isinstance(value, str):
                yield Text(value_path.partition(".")[2], str(value), replacer(data, key, value))
            else:
                yield from visit(value, value_path)

    return visit(root, "")


def replacer(data: Any, key: Any, old: str) -> Callable[[str], None]:
    def replace(new: str):
        data[key] = with_style_of(old, new)

    return replace


def with_style_of(old: str, new: str) -> str:
    """Return `new` in the class of `old`, in which ruamel.yaml records quotes and anchors."""
    style = type(old)
    if style is str:
        return new
    try:
        return style(new, anchor=getattr(old, "anchor", None) and old.anchor.value)
    except (TypeError, AttributeError):
        return new


def is_chosen(path: str, keys: list[str]) -> bool:
    """Whether a pattern matches the path or its last key; without patterns all texts are chosen."""
    return not keys or any(fnmatchcase(path, key) or fnmatchcase(path.rpartition(".")[2], key) for key in keys)
