"""The project's own files agree with each other and keep the rules of CONTRIBUTING.md."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

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


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [sdist] = folder.iterdir()
    return sdist


def test_sdist_is_small_enough_and_holds_what_the_wheel_is_built_from(sdist):
    assert sdist.stat().st_size < 95e6, "PyPI takes no file over 100 MB"
    with tarfile.open(sdist) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    sources = {path for folder in IN_THE_WHEEL for path in folder.rglob("*") if path.is_file()}
    names = {path.relative_to(ROOT).as_posix() for path in sources if "__pycache__" not in path.parts}
    research = f"{PACKAGE.name}/checkpoints/multi30k-"
    assert {name for name in names - files if not name.startswith(research)} == set()
    assert {name for name in files if name.startswith(research)} == {
        name for name in names if name.startswith(research) and name.endswith("/about.json")
    }
    assert {"pyproject.toml", "LICENSE", "README.md", "constraints.txt"} <= files


def test_metadata_has_project_urls():
    assert PROJECT["urls"] and all(url.startswith("https://") for url in PROJECT["urls"].values())


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


def test_programs_of_the_wheel_name_themselves_as_a_user_calls_them(site_packages, tmp_path):
    program = [sys.executable, "-m", "vaswani_transformer.training.average", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(site_packages)}
    result = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("python -m vaswani_transformer.training.average") > 1
    assert "python -m training" not in result.stdout


# What comes from others ----------------------------------------------------------------------------------------------


VENDOR = PACKAGE / "explorer" / "page" / "vendor"
# SHA-256 of the files in npm's packages d3 7.9.2 and katex 0.19.1.
VENDORED = {
    "d3.min.js": "912111098ea99503a6f4967361d2bbdc9dbf58cf9c678c8e27e5b02d1a07f0c1",
    "katex/fonts/KaTeX_AMS-Regular.woff2": "0cdd387c9590a1a9f9794560022dbb59654a7d86f187aa0c81495ad42d3a7308",
    "katex/fonts/KaTeX_Caligraphic-Bold.woff2": "de7701e42cf1f4cf0b766c03fb27977207eee2f4fd5d76fa82188406da43ea4c",
    "katex/fonts/KaTeX_Caligraphic-Regular.woff2": "5d53e70ad607c2352162dec9e0923fb54ecdafaccbf604cd8dcf7d00facb989b",
    "katex/fonts/KaTeX_Fraktur-Bold.woff2": "74444efd593c005e3f4573b44524704c0af0a937fe911cca9e94068d0d140d3f",
    "katex/fonts/KaTeX_Fraktur-Regular.woff2": "51814d270d06ff0255dba0799994fa4d8c84d11f09951d47595f4abb1f3602dc",
    "katex/fonts/KaTeX_Main-Bold.woff2": "0f60d1b897938ec918c8ce073092411baf9438f6739465693ff18b0f9d20b021",
    "katex/fonts/KaTeX_Main-BoldItalic.woff2": "99cd42a3c072d918f2f44984a807cf7aa16e13545fd0875fc07c6c65f99e715b",
    "katex/fonts/KaTeX_Main-Italic.woff2": "97479ca6cce906abc961ecac96faa5f9ca2e61b8e7670d475826bcdee9a7c267",
    "katex/fonts/KaTeX_Main-Regular.woff2": "c2342cd8b869e01752a9321dc17213fc40d4d04c79688c1d43f2cf316abd7866",
    "katex/fonts/KaTeX_Math-BoldItalic.woff2": "dc47344dbb6cb5b655c8460d561f4df5f501b90c804ad3c6cec65fe322351ab1",
    "katex/fonts/KaTeX_Math-Italic.woff2": "7af58c5ec8f132a2ddde9027c6d7814decce4d3b822a11192a42a20e2e973264",
    "katex/fonts/KaTeX_SansSerif-Bold.woff2": "e99ae51144bf1232efcc1bfe5add36262c6866b0faab24fa75740e1b98577a62",
    "katex/fonts/KaTeX_SansSerif-Italic.woff2": "00b26ac825e2095056396e0553b8ac26d3f8ad158c3826e28b4c45b385c4714a",
    "katex/fonts/KaTeX_SansSerif-Regular.woff2": "68e8c73ef42afd3ccec58bf0fba302cce448938e7fc020a5e31f8a952eee1342",
    "katex/fonts/KaTeX_Script-Regular.woff2": "036d4e95149b69ff9bcc0cd55771efeb25ffa3947293e69acd78d5ac328c684b",
    "katex/fonts/KaTeX_Size1-Regular.woff2": "6b47c40166b6dbe21a5dfca7718413f2147fd2399be1ba605d8ad39cedf25dfe",
    "katex/fonts/KaTeX_Size2-Regular.woff2": "d04c54219f9eaec6d4d4fd42dfb28785975a4794d6b2fc71e566b9cd6db842dd",
    "katex/fonts/KaTeX_Size3-Regular.woff2": "73d591271b1604960cb10bb90fee021670af7297017e0e98480b332d11f51995",
    "katex/fonts/KaTeX_Size4-Regular.woff2": "a4af7d414440a1c1790825cfb700cf9cf43b0f2c4b04f0ebc523011ad9853ec0",
    "katex/fonts/KaTeX_Typewriter-Regular.woff2": "71d517d67827787cfabdf186914cc3358eda539e37931941f2b2fd4a21f68c0b",
    "katex/katex.min.css": "00e0b094171b07f58422075f469b4feac2b2f7bce1aeec943c08da4d697f4dcf",
    "katex/katex.min.js": "fa140498b8cfc8302cbe5e7cb1bdbc1f952bc38b3fa258ede09e73edbf9a74bc",
}


def test_vendored_files_are_those_of_the_packages():
    digests = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file()
    }
    assert {name: digest for name, digest in digests.items() if "LICENSE" not in name} == VENDORED
    assert {"d3.LICENSE", "katex/LICENSE"} <= digests.keys()


# The first versions without a known vulnerability in what we use.
SAFE = {
    "fastapi": "0.120.1",  # the first that allows the next
    "starlette": "0.49.1",
    "python-multipart": "0.0.22",
    "jinja2": "3.1.6",
    "protobuf": "6.31.1",
    "filelock": "3.20.3",
    "ray": "2.52",
}


@pytest.mark.parametrize("name", SAFE)
def test_lower_bounds_are_above_known_vulnerabilities(name):
    bounds = [r.specifier for r in direct_dependencies() if canonicalize_name(r.name) == name]
    assert bounds
    assert all(Version(s.version) >= Version(SAFE[name]) for bound in bounds for s in bound)


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
