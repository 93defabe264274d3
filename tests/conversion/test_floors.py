"""The room's floors: a module imports from its own wing and from lower floors only."""

import ast
from pathlib import Path

import pytest


ROOM = Path(__file__).parents[2] / "conversion"
# From the ground up; conversion/__init__.py says what each is for.
FLOORS = ["options", "mapping positions", "files", "segmentation", "parity", "converted", "hub", "toolkits", "runtimes"]
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names.split()}
MODULES = sorted(path for path in ROOM.rglob("*.py") if path.parent != ROOM or path.stem in FLOOR)


def imported(path: Path) -> set[str]:
    """The top-level names of the room that a module imports, wherever in it."""
    names, depth = set(), len(path.relative_to(ROOM).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth:  # reaches the room itself
            names |= {node.module.partition(".")[0]} if node.module else {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOM).as_posix())
def test_nothing_reaches_up(path):
    own = path.relative_to(ROOM).with_suffix("").parts[0]
    assert {name for name in imported(path) if FLOOR[name] >= FLOOR[own] and name != own} == set()


def test_no_converter_imports_another():
    toolkits = {path.stem for path in (ROOM / "toolkits").glob("*.py")} - {"bare_state_dict", "fairseq_layers"}
    for path in (ROOM / "toolkits").glob("*.py"):
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        siblings = [node for node in tree if isinstance(node, ast.ImportFrom) and node.level == 1]
        assert not {name for node in siblings for name in [node.module, *(a.name for a in node.names)]} & toolkits
