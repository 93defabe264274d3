"""Gathers the pages of the site in build/pages, for Zensical to build (`make docs`).

The pages are the repository's own Markdown files in their own folders: those in the navigation of zensical.toml, and
every page that they link to. Links therefore work on GitHub and on the site. Three things differ on the site:

- A link to another text file opens a page with its content; a link to a folder without a README, a list of its files.
- `<!-- site: TEXT -->` shows TEXT.
- Metadata for the Hub at the top of model cards is left out.
"""

import posixpath
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path


ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(?=[)#])")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
METADATA = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
SITE_ONLY = re.compile(r"<!-- site: (.*?) -->", re.DOTALL)
LANGUAGES = {".py": "python", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}
ASSETS = {".png", ".svg"}


def navigation(entries: list) -> Iterator[str]:
    """Yields the pages of zensical.toml's `nav`, however deep."""
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(value, list):
                yield from navigation(value)
            else:
                yield value


def stage(root: Path, output: Path, first: Iterable[str]) -> set[str]:
    """Writes the first pages and everything that they link to into `output`.

    Returns:
        The paths of all pages, relative to `output`.

    Raises:
        FileNotFoundError: a link leads nowhere; the message names the page.
    """
    waiting, pages = [path for path in first if not (output / path).is_file()], set()
    while waiting:
        path = waiting.pop()
        if path in pages:
            continue
        pages.add(path)
        if not (root / path).is_file():
            raise FileNotFoundError(f"zensical.toml: the navigation names {path}, which does not exist.")
        text = (root / path).read_text(encoding="utf-8")
        text, linked = relink(METADATA.sub("", SITE_ONLY.sub(r"\1", text)), path, root, output)
        write(output / path, text)
        waiting += linked
    return pages


def relink(text: str, page: str, root: Path, output: Path) -> tuple[str, list[str]]:
    """Points the links of a page to what the site has in their place.

    Returns:
        The text, and the Markdown files that it leads to.
    """
    linked = []

    def target(match: re.Match) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), match[1]))
        source = root / path
        if (source / "README.md").is_file():
            path, source = f"{path}/README.md", source / "README.md"
        if (output / path).is_file() and source.suffix != ".md":  # made by the build, such as the explorer's copy
            return match[1]
        if not source.exists():
            raise FileNotFoundError(f"{page} links to {match[1]}, which does not exist.")
        if source.suffix == ".md":
            linked.append(path)
        elif source.suffix in ASSETS:
            (output / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, output / path)
        else:
            path = f"{path}/index.md" if source.is_dir() else f"{path}.md"
            write(output / path, listing(source) if source.is_dir() else source_page(source))
        return posixpath.relpath(path, posixpath.dirname(page) or ".")

    def outside_fences(part: str) -> str:
        return LINK.sub(target, part)

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [outside_fences(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, outside_fences(text[end:])]), linked


def source_page(path: Path) -> str:
    fence = "`" * 8
    text = path.read_text(encoding="utf-8")
    return f"# {path.name}\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}\n{fence}\n"


def listing(folder: Path) -> str:
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir() if path.name != "__pycache__")
    return f"# {folder.name}\n\nThis folder of the repository holds:\n\n" + "".join(f"- `{name}`\n" for name in names)


def write(path: Path, text: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    try:
        stage(ROOT, ROOT / settings["docs_dir"], navigation(settings["nav"]))
    except FileNotFoundError as error:
        sys.exit(str(error))
