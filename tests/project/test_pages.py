"""The pages read the same on GitHub and on the site: links, anchors, lists, and what docs/stage.py changes."""

import re
import tomllib
from pathlib import Path

import pytest

from docs import stage


ROOT = Path(__file__).parents[2]
NAVIGATION = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
NAMED = set(stage.navigation(NAVIGATION))
PAGES = sorted(NAMED - {"explorer/index.html"})
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
PATH = re.compile(
    r"`((?:vaswani_transformer|training|conversion|experiments|benchmarks|model_cards|docs|tests)/[\w./-]+)`"
)


def prose(path: Path) -> str:
    """Returns a page without its blocks of code."""
    return stage.FENCE.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """Returns the anchors that GitHub makes for a page's headings."""
    titles = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES)
def test_links_and_anchors_exist(page):
    path = ROOT / page
    for target, anchor in LINK.findall(stage.SITE_ONLY.sub("", prose(path))):
        linked = path.parent / target if target else path
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_the_paths_in_a_page_exist(page):
    paths = PATH.findall(prose(ROOT / page))
    assert [path for path in paths if "NAME" not in path and not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_lists_follow_a_blank_line(page):
    """GitHub shows a list that follows a paragraph at once; the site would show one paragraph."""
    assert re.findall(r"^(?![-*|>#\s]|\d+\. )[^\n]+\n(?:- |1\. )[^\n]*", prose(ROOT / page), re.MULTILINE) == []


def test_the_navigation_names_every_page_of_docs():
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert found <= NAMED


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 1800


def test_the_site_has_every_page_that_is_linked(tmp_path):
    (tmp_path / "explorer").mkdir()
    (tmp_path / "explorer" / "index.html").touch()
    pages = stage.stage(ROOT, tmp_path, stage.navigation(NAVIGATION))
    assert {*PAGES, "vaswani_transformer/checkpoints/mini-en-de/README.md"} <= pages
    for page in pages:
        text = stage.FENCE.sub("", (tmp_path / page).read_text(encoding="utf-8"))
        for target, _ in LINK.findall(text):
            assert (tmp_path / page).parent.joinpath(target).exists(), f"{page}: {target}"


def test_staging_changes_links_comments_and_metadata_only(tmp_path):
    (tmp_path / "room" / "data").mkdir(parents=True)
    (tmp_path / "room" / "code.py").write_text("x = 1\n")
    (tmp_path / "room" / "data" / "a.json").write_text("{}")
    (tmp_path / "more.md").write_text("---\nlanguage: en\n---\n# More\n")
    (tmp_path / "README.md").write_text(
        "[code](room/code.py) [data](room/data) [more](more.md#x) [far](https://a.org/b.py)\n"
        "<!-- site: only there -->\n<!-- a mark -->\n```python\n[a](room/code.py)\n```\n"
    )
    output = tmp_path / "pages"
    assert stage.stage(tmp_path, output, ["README.md"]) == {"README.md", "more.md"}
    assert (output / "README.md").read_text() == (
        "[code](room/code.py.md) [data](room/data/index.md) [more](more.md#x) [far](https://a.org/b.py)\n"
        "only there\n<!-- a mark -->\n```python\n[a](room/code.py)\n```\n"
    )
    assert (output / "more.md").read_text() == "# More\n"
    assert "x = 1" in (output / "room" / "code.py.md").read_text()
    assert "- `a.json`" in (output / "room" / "data" / "index.md").read_text()


def test_a_broken_link_stops_the_staging(tmp_path):
    (tmp_path / "README.md").write_text("[gone](gone.md)")
    with pytest.raises(FileNotFoundError, match="README.md links to gone.md"):
        stage.stage(tmp_path, tmp_path / "pages", ["README.md"])
    with pytest.raises(FileNotFoundError, match="the navigation names lost.md"):
        stage.stage(tmp_path, tmp_path / "pages", ["lost.md"])
