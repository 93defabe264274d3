"""README.md of this room: what is said once, and of each experiment that has been run its question and results."""

import inspect
from importlib import import_module

from .lab import ROOM, recorded


README = ROOM / "README.md"
EXPERIMENTS = ["table3", "warmup", "length", "heads", "alignment", "layers", "parsing", "cost", "optimisers"]


def write_report():
    parts = [(ROOM / "introduction.md").read_text(encoding="utf-8").strip()]
    for name in EXPERIMENTS:
        module, found = import_module(f".{name}", __package__), recorded(name)
        if found is None:
            continue
        parts += [f"## {module.TITLE}", prose(inspect.getdoc(module) or ""), module.report(found), origin(found)]
    README.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def prose(docstring: str) -> str:
    """A module's docstring without its first line, the title; what is indented becomes code."""
    paragraphs = docstring.split("\n\n")[1:]
    return "\n\n".join(
        f"```bash\n{inspect.cleandoc(paragraph)}\n```" if paragraph.startswith("    ") else paragraph
        for paragraph in paragraphs
    )


def origin(found: dict) -> str:
    """Where the figures are from."""
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    return f"<sub>{found['machine']['processor']}, Python {found['machine']['python']}, {versions}</sub>"
