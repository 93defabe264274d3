"""The project's own files agree with each other and keep the rules of CONTRIBUTING.md."""

import ast
import json
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

from vaswani_transformer import __version__
from vaswani_transformer.documents import FORMATS


ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "vaswani_transformer"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
ROOMS = ["conversion", "training", "benchmarks", "experiments"]
IN_THE_WHEEL = [PACKAGE, ROOT / "conversion", ROOT / "training"]  # the rooms as subpackages of the package


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
    assert citation["license"] == PROJECT["license"].split(" AND ")[0], "the code's; weights have their own"
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
    [package] = [r for r in map(Requirement, EXTRAS["test"]) if r.name == PROJECT["name"]]
    needs_compiler = {"align"}
    assert package.extras == EXTRAS.keys() - {"test", "docs", "dev"} - needs_compiler


# The wheel -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = folder.iterdir()
    return wheel


def test_wheel_is_small_enough(wheel):
    assert wheel.name == f"vaswani_transformer-{__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < 100e6, "PyPI takes no file over 100 MB"


def test_wheel_holds_the_package_and_its_rooms_and_nothing_else(wheel):
    """Nothing but `vaswani_transformer` lands in site-packages, and of research checkpoints only the description."""
    metadata = f"vaswani_transformer-{__version__}.dist-info/"
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if not name.startswith(metadata)}
    expected = set()
    for folder in IN_THE_WHEEL:
        sources = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        prefix = "" if folder == PACKAGE else f"{PACKAGE.name}/"
        expected |= {prefix + path.relative_to(ROOT).as_posix() for path in sources}
    research = f"{PACKAGE.name}/checkpoints/multi30k-"
    expected = {name for name in expected if not name.startswith(research) or name.endswith("/about.json")}
    assert files == expected
    assert f"{PACKAGE.name}/py.typed" in files


def test_licence_of_the_wheel_names_code_weights_and_the_words_of_training(wheel):
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"vaswani_transformer-{__version__}.dist-info/METADATA").decode()
        weights = [name for name in archive.namelist() if name.endswith("/model.safetensors")]
        about = [json.loads(archive.read(name.replace("model.safetensors", "about.json"))) for name in weights]
    [expression] = re.findall(r"^License-Expression: (.*)$", metadata, re.MULTILINE)
    assert set(expression.lower().split(" and ")) == {
        *("apache-2.0", "unicode-3.0"),
        *(facts["licence"].lower() for facts in about),
    }
    assert "-nc" not in expression.lower(), "anyone may use what is in the wheel"
    assert re.findall(r"^License-File: (.*)$", metadata, re.MULTILINE) == PROJECT["license-files"]


# In an interpreter that sees the wheel and not the clone: what `vaswani` does with each verb.
INSTALLED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
sys.path[:] = [path for path in sys.path if path != {root!r}]
sys.argv[0] = "vaswani"
from vaswani_transformer.commands import main
main()
"""


@pytest.fixture(scope="module")
def site_packages(wheel, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("verb, words", [("convert", "fairseq"), ("train", "recipe"), ("evaluate", "--recipe")])
def test_rooms_work_from_the_wheel(site_packages, tmp_path, verb, words):
    program = [sys.executable, "-c", INSTALLED.format(root=str(ROOT)), str(site_packages), verb, "--help"]
    result = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert words in result.stdout


# Who imports whom ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [PACKAGE.name, *(room for room in ROOMS if (ROOT / room).is_dir())])
def test_folder_does_not_import_the_other_folders(room):
    closed = {"tests", *ROOMS} - {room}
    imported = ((path, name) for path in (ROOT / room).rglob("*.py") for name in imports(path))
    assert [(path, name) for path, name in imported if name.split(".")[0] in closed] == []


def test_every_file_of_the_library_is_used():
    """By the library itself, by the folders that it is for, or as a program; tests do not count."""
    folders = [PACKAGE, *(ROOT / room for room in ROOMS)]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    used = {part for path in paths for name in imports(path) for part in name.split(".")}
    used |= {format.module for format in FORMATS.values()}  # imported on demand
    unused = [path for path in PACKAGE.rglob("*.py") if path.stem not in {*used, "__init__", "__main__"}]
    assert [path for path in unused if '__name__ == "__main__"' not in path.read_text(encoding="utf-8")] == []


# What must not be in the repository ----------------------------------------------------------------------------------


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="without git, nothing tells our files from others")
def test_no_file_names_a_path_of_the_machine_it_was_written_on():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    machine_path = re.compile(rb"(?<![\w.-])/(?:work|root|home|Users)/[\w.]+")
    mentions = []
    for path in (ROOT / name for name in names if name):
        content = path.read_bytes() if path.is_file() else b""
        if b"\0" not in content[:8192]:
            mentions += [(path, match.decode()) for match in machine_path.findall(content)]
    assert mentions == []
