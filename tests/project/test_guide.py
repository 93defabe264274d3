"""Every example of the guide, run as written."""

import re
import shutil

import pytest
from guide import BLOCK, PAGES, memory, models_loaded_once, page_as_it_is, printed


@pytest.fixture(scope="module", autouse=True)
def loads_once():
    with models_loaded_once():
        yield


COMMANDS = [pytest.param(page, marks=[pytest.mark.slow] * (page.stem == "corpus"), id=page.stem) for page in PAGES]


@pytest.mark.parametrize("page", COMMANDS)
def test_commands_print_what_stands_under_them(page, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    if "$ curl" in text and not shutil.which("curl"):
        pytest.skip("needs curl")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory.tmx").write_text(memory(), encoding="utf-8")
    assert page_as_it_is(text) == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_run_and_print_something(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert all(printed(code) for language, code in BLOCK.findall(text) if language == "python")


def test_the_first_page_lists_all_others():
    index = next(page for page in PAGES if page.stem == "README").read_text(encoding="utf-8")
    assert {page.name for page in PAGES} - {"README.md"} <= set(re.findall(r"\]\(([^)]+)\)", index))
