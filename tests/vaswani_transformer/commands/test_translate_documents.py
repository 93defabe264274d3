"""`vaswani translate` with a document."""

import pytest
from tiny_checkpoint import PAIRS


SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(f"# {SOURCES[0]}\n\n{SOURCES[1]} `code`\n", encoding="utf-8")
    return tmp_path / "page.md"


@pytest.mark.parametrize("arguments", [["page.md"], ["--input", "page.md"]])
def test_a_document_keeps_its_format(translate, page, arguments):
    result = translate(*arguments, "--output", "out.md")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (page.parent / "out.md").read_text(encoding="utf-8") == f"# {TARGETS[0]}\n\n{TARGETS[1]} `code`\n"


def test_a_text_that_is_no_file_is_a_text(translate, page):
    assert translate("Hello!", "--output", "out.txt").exit_code == 0
    assert (page.parent / "out.txt").read_text(encoding="utf-8") == "Hallo!\n"


def test_keys(translate, page):
    (page.parent / "a.json").write_text('{"x": "Hello!", "y": "Hello!"}', encoding="utf-8")
    assert translate("a.json", "-o", "b.json", "--key", "y").exit_code == 0
    assert (page.parent / "b.json").read_text(encoding="utf-8") == '{"x": "Hello!", "y": "Hallo!"}'


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-i", "page.md"], "--output page.translated.md"),
        (["page.md", "-o", "out.html"], "Choose a name that ends in .md, not out.html."),
        (["page.md", "-o", "page.md"], "is the document itself"),
        (
            ["page.md", "-o", "out.md", "--n-best", "2", "--scores"],
            "not with documents: --n-best, --scores",
        ),
        (["none.md", "-o", "out.md"], "File not found: none.md"),
        (["none.pdf", "-o", "out.pdf"], "Unsupported format: none.pdf"),
        (["old.doc", "-o", "out.docx"], "Unsupported format: old.doc"),
        (["Hello!", "--key", "x"], "Keys work only with JSON and YAML files"),
        (["page.md", "-o", "out.md", "--key", "x"], "keys can be chosen only in .json, .yaml, .yml files"),
        (["broken.docx", "-o", "out.docx"], "broken.docx: Not a Word document"),
    ],
)
def test_misuse_is_explained(translate, page, arguments, message):
    (page.parent / "broken.docx").write_bytes(b"no zip")
    (page.parent / "old.doc").write_bytes(b"not read")
    before = {path.name: path.read_bytes() for path in page.parent.iterdir()}
    result = translate(*arguments)
    assert result.exit_code != 0
    assert message in result.stderr
    assert {path.name: path.read_bytes() for path in page.parent.iterdir()} == before
