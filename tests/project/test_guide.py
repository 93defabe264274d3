"""Every example of the guide, run as it stands there."""

import re

import pytest
from guide import BLOCK, PAGES, models_kept, page_as_it_is, printed


@pytest.fixture(scope="module", autouse=True)
def kept():
    with models_kept():
        yield


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples(page, tmp_path, monkeypatch):
    """The commands print what stands under them; the programs run, and print something."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert page_as_it_is(text) == text
    assert all(printed(code) for language, code in BLOCK.findall(text) if language == "python")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_first_page_lists_all_others():
    index = next(page for page in PAGES if page.stem == "README").read_text(encoding="utf-8")
    assert {page.name for page in PAGES} - {"README.md"} <= set(re.findall(r"\]\(([^)]+)\)", index))
