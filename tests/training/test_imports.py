"""No module of training/ imports itself through others, not even inside a function."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest


FOLDER = Path(__file__).parents[2] / "training"


def module_imports(path: Path) -> set[str]:
    """Return the modules at the top of training/ that a module imports, anywhere in it."""
    names, depth = set(), len(path.relative_to(FOLDER).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names |= {node.module.partition(".")[0]} if node.module else {alias.name for alias in node.names}
    return names


def import_graph() -> dict[str, set[str]]:
    """Return the imports of each module; `expressions` is one module."""
    graph: dict[str, set[str]] = {}
    for path in FOLDER.rglob("*.py"):
        module = path.relative_to(FOLDER).with_suffix("").parts[0]
        graph.setdefault(module, set()).update(module_imports(path) - {module})
    return graph


def test_training_has_no_circle_of_imports():
    graph = import_graph()
    assert {"models", "scores", "user_lines"} <= graph["evaluate"], "the imports were not read"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' -> '.join(error.args[1])}")
