"""Shortens absolute paths in records to file names: they reveal user names and help no reader."""

import json
import re
from pathlib import Path
from typing import Any

from vaswani_transformer.system.files import write_json

from ..files.text import read_text


# An absolute path of at least two parts, POSIX or Windows. The path of a URL follows a host, so a letter precedes it.
PATH = re.compile(
    r"(?<![\w.:/~\\<-])(?:file://|~\w*)?(?:/|[A-Za-z]:[\\/])(?:[^\s/\\\"'`<>|:]+[\\/])+([^\s/\\\"'`<>|:,;)]*)"
)
WHOLE = re.compile(r"(?:file://|~\w*)?(?:/|[A-Za-z]:[\\/])[^\n]*[^\n/\\]")


def without_paths(file: Path) -> bool:
    """Replaces each absolute path in a record by its last part. Returns whether there were any."""
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
    """Shortens the paths in a JSON value, keys included."""
    if isinstance(value, dict):
        return {shortened(name): shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shortened(inner) for inner in value]
    if not isinstance(value, str):
        return value
    # Within a sentence a path ends at a space; a string that is one path may contain spaces.
    if WHOLE.fullmatch(value) and (value.count("/") > 1 or "\\" in value):
        return re.split(r"[/\\]", value)[-1]
    return PATH.sub(r"\1", value)
