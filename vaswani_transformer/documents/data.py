"""JSON and YAML: the texts among the values, all of them or those of chosen keys."""

import io
import json
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from .translator import DocumentError, DocumentTranslator


LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)  # a text, and what makes it a key


def translate_json(text: str, translator: DocumentTranslator, keys: list[str]) -> str:
    """The same file to the letter, but for the texts."""
    try:
        data = json.loads(text, object_pairs_hook=Pairs)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"It is no JSON: {error}.") from error
    paths = [path for path, _, _ in texts_in([data], "")]
    places = [match for match in LITERAL.finditer(text) if match[1] is None]
    chosen = [place for place, path in zip(places, paths, strict=True) if is_chosen(path.partition(".")[2], keys)]
    out, last = [], 0
    for place, new in zip(chosen, translator.texts([json.loads(place[0]) for place in chosen]), strict=True):
        out += [text[last : place.start()], json.dumps(new, ensure_ascii="\\u" in place[0])]
        last = place.end()
    return "".join([*out, text[last:]])


class Pairs(list):
    """An object as JSON may write it: with a key more than once."""

    def items(self):
        return iter(self)


def translate_yaml(text: str, translator: DocumentTranslator, keys: list[str]) -> str:
    """The same documents, with comments, quotes and order as they were."""
    from ruamel.yaml import YAML, YAMLError

    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 1 << 16
    if re.search(r"^(\s*)[^\s#-].*:[ \t]*\n\1 +- ", text, re.MULTILINE):  # lists stand further in than their keys
        yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    try:
        documents = list(yaml.load_all(text))
        documents = [with_texts(data, translator, keys) for data in documents]
        yaml.dump_all(documents, out)
    except (YAMLError, RecursionError) as error:
        raise DocumentError(f"It is no YAML: {' '.join(str(error).split())[:200]}") from error
    return out.getvalue()


def with_texts(data: Any, translator: DocumentTranslator, keys: list[str]) -> Any:
    """The data with their texts translated in place."""
    root = [data]
    places = [(put, text) for path, put, text in texts_in(root, "") if is_chosen(path.partition(".")[2], keys)]
    for (put, _), text in zip(places, translator.texts([text for _, text in places]), strict=True):
        put(text)
    return root[0]


def texts_in(data: Any, path: str, seen: set[int] | None = None) -> Iterator[tuple[str, Callable[[str], None], str]]:
    """Each text with its keys, joined by points, and what puts another in its place.

    What YAML names again by an alias is visited once: a few lines of aliases can stand for billions of texts.
    """
    seen = set() if seen is None else seen
    if id(data) in seen:
        return
    seen.add(id(data))
    items = data.items() if isinstance(data, dict | Pairs) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        here = f"{path}.{key}" if path else str(key)
        if isinstance(value, str):
            yield here, lambda text, key=key, value=value: data.__setitem__(key, as_it_was(value, text)), str(value)
        else:
            yield from texts_in(value, here, seen)


def as_it_was(old: str, new: str) -> str:
    """In the class of the old text, by which a parser remembers its quotes."""
    kind = type(old)
    if kind is str:
        return new
    try:
        return kind(new, anchor=getattr(old, "anchor", None) and old.anchor.value)
    except (TypeError, AttributeError):
        return new


def is_chosen(path: str, keys: list[str]) -> bool:
    """Whether a pattern fits the path, or its last key."""
    return not keys or any(fnmatchcase(path, key) or fnmatchcase(path.rpartition(".")[2], key) for key in keys)
