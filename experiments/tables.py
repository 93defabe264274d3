"""Tables in Markdown."""

from typing import Any, NamedTuple


class Column(NamedTuple):
    name: str
    right: bool = False  # numbers line up on the right


def markdown(columns: list[Column], rows: list[dict[str, Any]]) -> str:
    """The rows under the columns' names; what a row lacks stays empty."""
    lines = [[column.name for column in columns], ["---:" if column.right else "---" for column in columns]]
    lines += [[str(row.get(column.name, "")) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
