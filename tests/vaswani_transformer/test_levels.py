"""The library's levels: a module imports from its own folder and from lower levels only, and none in a circle."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from vaswani_transformer import model, remote_code


PACKAGE = Path(__file__).parents[2] / "vaswani_transformer"
# From the ground up: folders, and modules of the library's root.
LEVELS = [
    "_version cards languages model system",
    "catalogue",
    "cache documents hub inspection learn_bpe remote_code",
    "targets",
    "locating",
    "loading",
    "registration serving",
    "explorer",
    "commands",
    "__init__ __main__",
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names.split()}
PATHS = sorted(PACKAGE.rglob("*.py"))
MODULES = {path.relative_to(PACKAGE).with_suffix("").parts for path in PATHS}
MODEL = sorted(path for path in (PACKAGE / "model").glob("*.py") if path.stem != "__init__")


def module_of(path: Path) -> tuple[str, ...]:
    """("model", "loss_vaswani") for model/loss_vaswani.py."""
    return path.relative_to(PACKAGE).with_suffix("").parts


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """The modules of the library that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = module_of(path)[: -node.level]
            base = (*folder, *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                candidates = (*base, alias.name), base, (*base, "__init__")
                found = next(name for name in candidates if name in MODULES)
                # The public names are registration's; the package gives them when they are asked for.
                yield ("registration",) if found == ("__init__",) else found


def test_every_module_has_a_level():
    assert LEVEL.keys() == {module[0] for module in MODULES}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_nothing_reaches_up(path):
    own = module_of(path)[0]
    assert {name for name, *_ in imported(path) if LEVEL[name] >= LEVEL[own] and name != own} == set()


def test_no_module_imports_itself_through_others():
    tuple(TopologicalSorter({module_of(path): set(imported(path)) for path in PATHS}).static_order())


# What travels to the Hub ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MODEL, ids=lambda path: path.stem)
def test_a_file_of_the_model_imports_only_siblings(path):
    """Relatively and by file, as transformers' copier reads it; it finds `from .name import` only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith(PACKAGE.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1 and not (node.module or "").startswith(PACKAGE.name)
            assert node.level == 0 or (PACKAGE / "model" / f"{node.module}.py").is_file()


def test_all_of_the_folder_travels():
    names = {*remote_code.FILES, remote_code.TOKENIZER_FILE}
    assert {path.name for path in MODEL} == names


def test_the_model_does_not_know_its_pipeline():
    assert "modeling_vaswani.py" in remote_code.MODEL_FILES
    assert "pipeline_translation.py" not in remote_code.MODEL_FILES
    assert len(remote_code.MODEL_FILES) <= 14


def test_the_folders_map_has_a_line_for_each_file():
    lines = [line.split()[0] for line in model.__doc__.splitlines() if line.startswith("    ")]
    assert sorted(lines) == [path.name for path in MODEL]
