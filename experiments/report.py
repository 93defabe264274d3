"""README.md of this room: what is said once, and of each experiment that has been run its question and results."""

import inspect
import json
from importlib import import_module

from . import figures
from .lab import ROOM, recorded


README = ROOM / "README.md"
EXPLORER = ROOM.parent / "vaswani_transformer" / "explorer" / "page" / "lib" / "findings.js"
EXPERIMENTS = ["table3", "warmup", "length", "heads", "alignment", "layers", "parsing", "cost", "optimisers"]


def write_report():
    """README.md, its figures, and what the explorer shows of the findings."""
    sections, findings = [], {}
    for name in EXPERIMENTS:
        module, found = import_module(f".{name}", __package__), recorded(name)
        if found is None:
            continue
        findings[name] = module.finding(found)
        with figures.look():
            shown = module.report(found)
        sections += [f"## {module.TITLE}", prose(inspect.getdoc(module) or ""), findings[name], shown]
        sections.append(origin(found))
    if missing := [name for name in EXPERIMENTS if name not in findings]:
        sections.append(f"Not run yet: {', '.join(f'`{name}`' for name in missing)}.")
    introduction = (ROOM / "introduction.md").read_text(encoding="utf-8").strip()
    README.write_text("\n\n".join([introduction, *sections]) + "\n", encoding="utf-8")
    text = json.dumps(findings, indent=2, ensure_ascii=False)
    EXPLORER.write_text(
        f"// Written by `python -m experiments report`.\nexport const FINDINGS = {text};\n", encoding="utf-8"
    )


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
