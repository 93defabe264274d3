"""The project's own files agree with each other and keep the rules of CONTRIBUTING.md."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from vaswani_transformer import __version__, remote_code


ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vaswani_transformer"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
ROOMS = ["conversion", "training", "explorer", "benchmarks"]
REMOTE_CODE = [Path(name).stem for name in (*remote_code.FILES, remote_code.TOKENIZER_FILE)]


def direct_dependencies() -> list[Requirement]:
    lines = [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
    return [r for r in map(Requirement, lines) if r.name != PROJECT["name"]]


def imports(path: Path) -> Iterator[str]:
    """What a file imports, wherever in it: "torch.nn", "training.evaluate.bleu", ".modeling_vaswani.VaswaniModel"."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (f"{node.module}." if node.module else "")
            yield from (origin + alias.name for alias in node.names)


# Versions and dependencies -------------------------------------------------------------------------------------------


def test_citation_names_this_version_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    [paper] = citation["references"]
    assert paper["title"] == "Attention Is All You Need"
    assert {"type": "other", "value": "arXiv:1706.03762"} in paper["identifiers"]


def test_changelog_has_this_version():
    assert f"\n## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("requirement", direct_dependencies(), ids=str)
def test_dependency_has_a_lower_bound_only(requirement):
    assert [s.operator for s in requirement.specifier] == [">="]


def test_constraints_pin_every_direct_dependency():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert all([s.operator for s in pin.specifier] == ["=="] for pin in pins)
    version = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    for requirement in direct_dependencies():
        assert requirement.specifier.contains(version[canonicalize_name(requirement.name)]), str(requirement)


def test_test_extra_holds_the_extras_that_users_choose_from():
    [own] = [r for r in map(Requirement, EXTRAS["test"]) if r.name == PROJECT["name"]]
    assert own.extras == EXTRAS.keys() - {"test", "dev"}


# The wheel -----------------------------------------------------------------------------------------------------------


def test_wheel_holds_all_of_the_package_and_nothing_else(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    [wheel] = tmp_path.iterdir()
    assert wheel.name == f"vaswani_transformer-{__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < 100e6, "PyPI takes no file over 100 MB"
    metadata = f"vaswani_transformer-{__version__}.dist-info/"
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if not name.startswith(metadata)}
    sources = (p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    assert files == {p.relative_to(ROOT).as_posix() for p in sources} | {"vaswani_command.py"}


# Who imports whom ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REMOTE_CODE)
def test_remote_code_imports_only_its_siblings(name):
    ours = [i for i in imports(PACKAGE / f"{name}.py") if i.split(".")[0] in ["", PACKAGE.name, "tests", *ROOMS]]
    assert [i for i in ours if i.split(".")[:2] not in [["", sibling] for sibling in REMOTE_CODE]] == []


@pytest.mark.parametrize("room", [PACKAGE.name, *(room for room in ROOMS if (ROOT / room).is_dir())])
def test_folder_does_not_import_the_other_folders(room):
    others = {"tests", *ROOMS} - {room}
    found = [(path, i) for path in (ROOT / room).rglob("*.py") for i in imports(path) if i.split(".")[0] in others]
    if room != PACKAGE.name:
        found = [(path, i) for path, i in found if i.split(".")[:2] != ["training", "evaluate"]]
    assert found == []


# What must not be in the repository ----------------------------------------------------------------------------------


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="without git, nothing tells our files from others")
def test_no_file_names_a_path_of_the_machine_it_was_written_on():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    machine_path = re.compile(rb"(?<![\w.-])/(?:work|root|home|Users)/[\w.]+")
    found = []
    for path in (ROOT / name for name in names if name):
        content = path.read_bytes() if path.is_file() else b""
        if b"\0" not in content[:8192]:
            found += [(path, match.decode()) for match in machine_path.findall(content)]
    assert found == []
