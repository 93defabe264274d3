"""`vaswani translate` with a document."""

import os

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


def test_the_translation_of_a_private_file_is_private(translate, page):
    lines = page.parent / "a.txt"
    lines.write_text("Hello!\n", encoding="utf-8")
    for source, arguments in ((page, ["page.md", "-o", "out.md"]), (lines, ["-i", "a.txt", "-o", "out.txt"])):
        source.chmod(0o600)
        assert translate(*arguments).exit_code == 0
        assert (page.parent / arguments[-1]).stat().st_mode & 0o777 == 0o600


def test_a_link_beside_the_output_is_not_followed(translate, page):
    (page.parent / "victim").write_text("years of work")
    (page.parent / "out.md.partial").symlink_to("victim")
    assert translate("page.md", "-o", "out.md").exit_code == 0
    assert (page.parent / "victim").read_text() == "years of work"
    assert not (page.parent / "out.md").is_symlink()


def test_a_text_that_is_not_a_file_is_a_text(translate, page):
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
        (["Hello!", "--key", "x"], "This option works only with documents."),
        (["plain.txt", "-o", "out.txt", "--key", "x"], "keys can be chosen only in .arb, .json, .markdown, .md, "),
        (["broken.docx", "-o", "out.docx"], "broken.docx: Not a Word document"),
    ],
)
def test_misuse_is_explained(translate, page, arguments, message):
    (page.parent / "broken.docx").write_bytes(b"no zip")
    (page.parent / "old.doc").write_bytes(b"not read")
    (page.parent / "plain.txt").write_bytes(b"Hello")
    before = {path.name: path.read_bytes() for path in page.parent.iterdir()}
    result = translate(*arguments)
    assert result.exit_code != 0
    assert message in result.stderr
    assert {path.name: path.read_bytes() for path in page.parent.iterdir()} == before


FORMATS = ".arb, .docx, "


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["a.txt"], "a.txt is a file. To translate its lines, use --input a.txt."),
        (["page.md"], "A document needs an output file, such as --output page.translated.md"),
        (["LICENCE"], "LICENCE is a file. To translate its lines, use --input LICENCE."),
        (["LICENCE", "-o", "out.txt"], "LICENCE is a file. To translate its lines, use --input LICENCE."),
        (["real.pdf"], "Unsupported format: real.pdf. It stores letters at"),
        (["real.pdf", "-o", "out.pdf"], "Unsupported format: real.pdf"),
        (["real.pdf", "-o", "out.txt"], "Unsupported format: real.pdf"),
        (["none.pdf"], "Unsupported format: none.pdf"),
        (
            ["none.rtf", "-o", "out.txt"],
            "Unsupported format: none.rtf. Save it as .docx or .odt first. Supported: " + FORMATS,
        ),
        (["none.rst", "-o", "out.rst"], "Unsupported format: none.rst. Convert it to Markdown first"),
        (["none.md"], "File not found: none.md"),
        (["page.md", "a.txt", "-o", "out.md"], "page.md is a file. Translate one document at a time."),
        (["Hello!", "a.txt"], "a.txt is a file. Translate one document at a time."),
        (["none.docx", "none.odt", "-o", "out.docx"], "none.docx looks like a file. Translate one document at a time."),
        (["folder"], "folder is a folder. Translate one document at a time."),
        (["folder/", "-o", "out.txt"], "folder/ is a folder. Translate one document at a time."),
        (["-i", "folder", "-o", "out.txt"], "is a directory"),
        (["-i", "a.txt", "-o", "folder"], "is a directory"),
        (["-i", "real.pdf", "-o", "out.txt"], "real.pdf is a PDF file, not text."),
        (["-i", "real.zip", "-o", "out.txt"], "real.zip is an Office, OpenDocument or zip file, not text."),
        (["-i", "real.gz"], "real.gz is a gzip file, not text."),
        (["-i", "a.txt", "-o", "out.docx"], "Lines are written as plain text, not as .docx."),
        (["Hello!", "-o", "out.pdf"], "Lines are written as plain text, not as .pdf."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_name_of_a_file_is_not_translated(translate, page, arguments, message):
    here = page.parent
    (here / "folder").mkdir()
    (here / "a.txt").write_text("Hello!\n", encoding="utf-8")
    (here / "LICENCE").write_text("Hello!\n", encoding="utf-8")
    for name, content in (("pdf", b"%PDF-1.7\n1 0 obj\n"), ("zip", b"PK\x03\x04 mimetype"), ("gz", b"\x1f\x8b\x08")):
        (here / f"real.{name}").write_bytes(content)
    before = sorted(here.iterdir())
    result = translate(*arguments)
    assert result.exit_code in (1, 2) and result.stdout == ""
    assert message in result.stderr
    assert sorted(here.iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("arguments", [["pipe.md"], ["-i", "pipe.md"], ["pipe.md", "--show-texts"]])
def test_a_pipe_is_not_a_document(translate, page, arguments):
    os.mkfifo(page.parent / "pipe.md")
    result = translate(*arguments, "-o", "out.md")
    assert result.exit_code == 2 and "pipe.md is not a regular file." in result.stderr


def test_a_document_on_standard_input_is_not_read_as_lines(translate):
    result = translate(input=b"%PDF-1.7\n1 0 obj\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "standard input is a PDF file, not text." in result.stderr


@pytest.mark.parametrize("text", ["Hello!", "3.14", "e.g.", "and/or", "Open the file none.pdf", "https://a.org/b.pdf"])
def test_a_text_with_a_full_stop_is_a_text(translate, page, text):
    assert translate(text).exit_code == 0
    assert translate(text, "-o", "out.txt").exit_code == 0
    assert translate(input=f"{page.name}\n").exit_code == 0, "standard input takes any text"
