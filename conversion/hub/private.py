"""Shortens paths of the machine that a record was written on: they name its user, and help no reader."""

import json
import re
from pathlib import Path
from typing import Any

from vaswani_transformer.files import write_json

from ..files.text import read_text


# An absolute path of two parts or more, of POSIX or Windows. A URL's path comes after a host, and so after a letter.
PATH = re.compile(
    r"(?<![\w.:/~\\<-])(?:file://|~\w*)?(?:/|[A-Za-z]:[\\/])(?:[^\s/\\\"'`<>|:]+[\\/])+([^\s/\\\"'`<>|:,;)]*)"
)
WHOLE = re.compile(r"(?:file://|~\w*)?(?:/|[A-Za-z]:[\\/])[^\n]*[^\n/\\]")


def without_paths(file: Path) -> bool:
    """Rewrites a record with the last part of each absolute path in it. Returns whether it held any."""
    text = read_text(file)
    if file.suffix == ".json":
        values = json.loads(text)
        shorter = shortened(values)
        if shorter == values:
            return False
        write_json(file, shorter)
        return True
    shorter = PATH.sub(r"\1", text)
    file.write_text(shorter, encoding="utf-8")
    return shorter != text


def shortened(value: Any) -> Any:
    """A value of JSON with shortened paths, in keys, too."""
    if isinstance(value, dict):
        return {shortened(name): shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shortened(inner) for inner in value]
    if not isinstance(value, str):
        return value
    # Within a sentence a path ends at a space; on its own it may contain some.
    if WHOLE.fullmatch(value) and (value.count("/") > 1 or "\\" in value):
        return re.split(r"[/\\]", value)[-1]
    return PATH.sub(r"\1", value)
