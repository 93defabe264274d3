"""Tables and lists in Markdown."""

from collections.abc import Iterable
from typing import Any, NamedTuple


class Column(NamedTuple):
    name: str
    right: bool = False  # right-aligned, for numbers


def markdown(columns: list[Column], rows: list[dict[str, Any]]) -> str:
    """A table of the rows; a cell is empty if its row has no value for the column."""
    lines = [[column.name for column in columns], ["---:" if column.right else "---" for column in columns]]
    lines += [[str(row.get(column.name, "")) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
