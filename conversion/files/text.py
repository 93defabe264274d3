"""Reads text: vocabularies, JSON and YAML."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ..options import ConversionError
from .folders import regular


MAX_TEXT_BYTES = 2**30  # bytes of a text file
# libyaml's parser, if installed, is ten times as fast on a vocabulary.
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_text(path: str | Path) -> str:
    """Reads a whole text file.

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
    """Reads the lines of a vocabulary as toolkits do: other line separators of Unicode are part of a token."""
    text = read_text(path).replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n").split("\n")


def check_count(path: str | Path, tokens: Sequence[str], size: int):
    """Checks that a vocabulary has as many tokens as the model.

    Raises:
        ConversionError: it has not.
    """
    if len(tokens) != size:
        raise ConversionError(f"{path} does not match the model: it has {len(tokens)} tokens, the model has {size}.")


def read_json_object(path: str | Path) -> dict[str, Any]:
    """Reads a JSON object from an untrusted file; `vaswani_transformer.system.files.read_json` reads our own.

    Raises:
        ConversionError: it is anything else.
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
    """Reads the options in a YAML file.

    Raises:
        ConversionError: it is not a YAML mapping.
        FileNotFoundError: it does not exist.
    """
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: str | Path) -> dict[str, Any]:
    """Parses YAML text that was read from `path`; see `read_yaml`."""
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise ConversionError(f"Cannot read the YAML in {path}: {one_line(error)}") from None
    if not isinstance(values, dict):
        raise ConversionError(f"The YAML in {path} is not a mapping of options.")
    return values


def read_yaml_strings(path: str | Path) -> dict[str, str]:
    """Reads a flat YAML or JSON mapping of strings, such as a vocabulary.

    Values stay strings: YAML would turn `no` into false and `1984` into a number. The parser's events are read one by
    one, because libyaml recurses and would crash the process on a deeply nested file.

    Raises:
        ConversionError: it is anything else.
        FileNotFoundError: it does not exist.
    """
    text, depth, strings = read_text(path), 0, []
    try:
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.MappingStartEvent):
                depth += 1
            if depth > 1 or isinstance(event, yaml.SequenceStartEvent | yaml.AliasEvent):
                raise ConversionError(f"{path} is not a vocabulary: expected a flat mapping.")
            if isinstance(event, yaml.ScalarEvent):
                strings.append(event.value)
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"Cannot read the YAML in {path}: {one_line(error)}") from None
    if not depth:
        raise ConversionError(f"{path} is not a vocabulary: expected a mapping.")
    return dict(zip(strings[::2], strings[1::2], strict=True))


def one_line(error: Exception) -> str:
    """The message of an error on one line, at most 500 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 500 else f"{text[:500]}..."
