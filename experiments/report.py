"""Writes README.md: the introduction, and a section for each experiment that has been run."""

import inspect
import json
import textwrap
from importlib import import_module

from . import figures
from .lab import FOLDER, read_results


README = FOLDER / "README.md"
EXPLORER = FOLDER.parent / "vaswani_transformer" / "explorer" / "page" / "lib" / "findings.js"
EXPERIMENTS = ["table3", "warmup", "length", "heads", "alignment", "layers", "parsing", "cost", "optimisers"]


def write_report():
    """Writes README.md, its figures, and the tables that the explorer shows."""
    sections, findings, facts = [], {}, {}
    for name in EXPERIMENTS:
        module, results = import_module(f".{name}", __package__), read_results(name)
        if results is None:
            continue
        findings[name] = module.finding(results)
        if hasattr(module, "facts"):
            facts[name] = module.facts(results)
        with figures.style():
            details = module.report(results)
        sections += [f"## {module.TITLE}", prose(inspect.getdoc(module) or ""), f"**Result.** {findings[name]}"]
        sections += [details, origin(results)]
    if missing := [name for name in EXPERIMENTS if name not in findings]:
        sections.append(f"Not run yet: {', '.join(f'`{name}`' for name in missing)}.")
    introduction = (FOLDER / "introduction.md").read_text(encoding="utf-8").strip()
    README.write_text("\n\n".join([introduction, *sections]) + "\n", encoding="utf-8")
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    EXPLORER.write_text(
        f"// Written by `python -m experiments report`.\nexport const FACTS = {text};\n", encoding="utf-8"
    )


def prose(docstring: str) -> str:
    """A module's docstring without its first line, the title; indented paragraphs become code."""
    paragraphs = docstring.split("\n\n")[1:]
    return "\n\n".join(
        f"```bash\n{textwrap.dedent(paragraph)}\n```" if paragraph.startswith("    ") else paragraph
        for paragraph in paragraphs
    )


def origin(results: dict) -> str:
    """The machine and versions that the results come from."""
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return f"<sub>{results['machine']['processor']}, Python {results['machine']['python']}, {versions}</sub>"
