"""The levels of conversion/: a module imports only from its own folder and from lower levels."""

import ast
from pathlib import Path

import pytest


ROOM = Path(__file__).parents[2] / "conversion"
# Lowest first; conversion/__init__.py describes each level.
FLOORS = [
    "options",
    "messages mapping positions recognise",
    "files",
    "segmentation",
    "parity",
    "converted",
    "hub",
    "importing toolkits",
    "runtimes",
]
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names.split()}
MODULES = sorted(path for path in ROOM.rglob("*.py") if path.parent != ROOM or path.stem in FLOOR)


def imported(path: Path) -> set[str]:
    """The top-level names in conversion/ that a module imports, anywhere in it."""
    names, depth = set(), len(path.relative_to(ROOM).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth:  # relative to conversion/
            names |= {node.module.partition(".")[0]} if node.module else {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOM).as_posix())
def test_nothing_reaches_up(path):
    level = path.relative_to(ROOM).with_suffix("").parts[0]
    assert {name for name in imported(path) if FLOOR[name] >= FLOOR[level] and name != level} == set()


def test_no_converter_imports_another():
    toolkits = {path.stem for path in (ROOM / "toolkits").glob("*.py")} - {"bare_state_dict", "fairseq_layers"}
    for path in (ROOM / "toolkits").glob("*.py"):
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        siblings = [node for node in tree if isinstance(node, ast.ImportFrom) and node.level == 1]
        assert not {name for node in siblings for name in [node.module, *(a.name for a in node.names)]} & toolkits
