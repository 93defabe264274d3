"""Reads text: vocabularies, JSON and YAML."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ..options import ConversionError
from .folders import regular


MAX_TEXT_BYTES = 2**30  # bytes of a text file
# YAML that C code parses, where libyaml is there; it is ten times as fast on a vocabulary.
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_text(path: str | Path) -> str:
    """The whole file.

    Raises:
        ConversionError: it is not UTF-8 text, or too large for text.
        FileNotFoundError: it does not exist.
    """
    path = regular(path)
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise ConversionError(f"{path} is too large to be a text file: {path.stat().st_size:,} bytes.")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConversionError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.") from None


def read_lines(path: str | Path) -> list[str]:
    """The lines of a vocabulary, as toolkits read them: Unicode's other line separators are part of a token."""
    text = read_text(path).replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n").split("\n")


def check_count(path: str | Path, tokens: Sequence[str], size: int):
    """Checks that a vocabulary has as many tokens as the model.

    Raises:
        ConversionError: it must belong to another model.
    """
    if len(tokens) != size:
        raise ConversionError(f"{path} has {len(tokens)} tokens, the model has {size}.")


def read_json_object(path: str | Path) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ConversionError: the file holds something else.
        FileNotFoundError: it does not exist.
    """
    try:
        values = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"{path} is not JSON: {one_line(error)}") from None
    if not isinstance(values, dict):
        raise ConversionError(f"{path} is not a JSON object (names and values).")
    return values


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The options in a YAML file.

    Raises:
        ConversionError: it is not a YAML mapping.
        FileNotFoundError: it does not exist.
    """
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: str | Path) -> dict[str, Any]:
    """As `read_yaml`, for text that was read from `path`."""
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise ConversionError(f"The YAML of {path} cannot be read: {one_line(error)}") from None
    if not isinstance(values, dict):
        raise ConversionError(f"The YAML of {path} is not a mapping of options.")
    return values


def read_yaml_strings(path: str | Path) -> dict[str, str]:
    """A YAML or JSON file of strings without nesting, such as a vocabulary.

    Values stay strings: to YAML, a bare `no` is false and `1984` a number. The parser's events are read one by one,
    because libyaml's own loading recurses, and crashes the process if a file is nested deeply.

    Raises:
        ConversionError: the file holds something else.
        FileNotFoundError: it does not exist.
    """
    text, depth, strings = read_text(path), 0, []
    try:
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.MappingStartEvent):
                depth += 1
            if depth > 1 or isinstance(event, yaml.SequenceStartEvent | yaml.AliasEvent):
                raise ConversionError(f"{path} is not a flat mapping, as a vocabulary is.")
            if isinstance(event, yaml.ScalarEvent):
                strings.append(event.value)
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"The YAML of {path} cannot be read: {one_line(error)}") from None
    if not depth:
        raise ConversionError(f"{path} is not a mapping, as a vocabulary is.")
    return dict(zip(strings[::2], strings[1::2], strict=True))


def one_line(error: Exception) -> str:
    """The message of an error, on one line and not without end."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 500 else f"{text[:500]}..."
