"""Translate one document of each format, and show both side by side on a page.

    python -m benchmarks.documents.before_and_after FOLDER --output PAGES

Open PAGES/index.html, or run `chromium --headless --screenshot=page.png --window-size=1400,20000 PAGES/index.html`.
Office documents are shown as LibreOffice renders their first page (which needs it and `pip install pypdfium2`), e-books
as their longest chapter, Markdown as HTML, and other texts as they are.
"""

import argparse
import io
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from transformers import pipeline

from vaswani_transformer import checkpoint_path
from vaswani_transformer.documents import SUFFIXES, DocumentTranslator, Options, translate_content


OFFICE = {".docx", ".pptx", ".xlsx", ".odt", ".odp", ".ods"}
MAX_CHARACTERS = 4000  # of a text that is shown as it is
STYLE = """
body { font-family: sans-serif; margin: 1em }
section { display: grid; grid-template-columns: 1fr 1fr; gap: 1em; margin-bottom: 2em }
h2, ul { grid-column: 1 / 3; margin: 0 }
section > div { border: 1px solid #999; padding: 0.5em; overflow: hidden }
img, iframe { width: 100%; border: 0 }
iframe { height: 40em }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 }
"""


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="documents; the first of each format is shown")
    parser.add_argument("--output", type=Path, required=True, metavar="PAGES", help="a folder for the page")
    parser.add_argument("--checkpoint", default="mini-en-de", help="an included checkpoint [default: %(default)s]")
    options = parser.parse_args(arguments)
    model = pipeline("translation", model=checkpoint_path(options.checkpoint))
    sections = []
    for file in first_of_each_format(options.folder):
        print(file, flush=True)
        translator = DocumentTranslator(model, options.checkpoint.rpartition("-")[2])
        after = translate_content(file.read_bytes(), file.name, translator, Options(comments=True))
        sections.append(section(options.output, file, after, translator.warnings))
    render_office(options.output)
    page = f"<!DOCTYPE html><meta charset=utf-8><title>Before and after</title><style>{STYLE}</style>"
    (options.output / "index.html").write_text(page + "\n".join(sections), encoding="utf-8")


def first_of_each_format(folder: Path) -> list[Path]:
    files: dict[str, Path] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if file.suffix.lower() in SUFFIXES:
            files.setdefault(file.suffix.lower(), file)
    return [files[suffix] for suffix in sorted(files)]


def section(output: Path, file: Path, after: bytes, warnings: Sequence[str]) -> str:
    """Writes both documents into their folders, and returns the HTML that shows them."""
    suffix, views = file.suffix.lower(), []
    for name, content in (("before", file.read_bytes()), ("after", after)):
        folder = output / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{suffix[1:]}{suffix}").write_bytes(content)
        views.append(f"<div>{view(content, suffix, name)}</div>")
    items = "".join(f"<li>{escape(warning)}" for warning in warnings)
    return f"<section><h2>{escape(file.name)}</h2>{''.join(views)}<ul>{items}</ul></section>"


def view(content: bytes, suffix: str, folder: str) -> str:
    """Returns HTML that shows a document; the picture of an office document is made later."""
    if suffix in OFFICE:
        return f'<img src="{folder}/{suffix[1:]}.png">'
    if suffix == ".epub":
        with zipfile.ZipFile(io.BytesIO(content)) as book:
            chapters = [book.read(name).decode() for name in book.namelist() if name.endswith("html")]
        return framed(max(chapters, key=len, default=""))
    text = content.decode("utf-8", "replace")
    if suffix in (".md", ".markdown"):
        return framed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text))
    if suffix in (".html", ".htm"):
        return framed(text)
    return f"<pre>{escape(text[:MAX_CHARACTERS])}</pre>"


def framed(page: str) -> str:
    return f'<iframe sandbox srcdoc="{escape(page)}"></iframe>'


def render_office(output: Path):
    """Makes pictures of the first pages of all office documents."""
    from pypdfium2 import PdfDocument

    with tempfile.TemporaryDirectory() as profile:
        command = ["soffice", f"-env:UserInstallation=file://{profile}", "--headless", "--convert-to", "pdf"]
        for file in [*output.glob("before/*"), *output.glob("after/*")]:
            if file.suffix in OFFICE:
                subprocess.run([*command, "--outdir", file.parent, file], check=True, capture_output=True)
                with PdfDocument(file.with_suffix(".pdf")) as pages:
                    pages[0].render(scale=1.5).to_pil().save(file.with_suffix(".png"))


if __name__ == "__main__":
    main()
