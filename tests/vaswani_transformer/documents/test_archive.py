"""Documents that are zip archives: unchanged parts stay byte for byte, and damaged files give one error."""

import io
import random
import zipfile

import pytest
from archives import packed
from fake_pipeline import shouted
from test_epub import epub
from test_opendocument import p
from test_presentation import pptx
from test_presentation import run as presentation_run
from test_spreadsheet import CELLS, HEADERS, xlsx
from test_word import docx

from vaswani_transformer.documents import DocumentError
from vaswani_transformer.documents.archive import Archive


OFFICE = {
    ".docx": docx(),
    ".pptx": pptx(presentation_run("one two", 'b="1"')),
    ".xlsx": xlsx("<si><t>one two</t></si>", CELLS.format("", "<tableParts/>"), HEADERS),
    ".odt": p("one <text:span>two</text:span><text:s/><text:page-number>7</text:page-number>"),
    ".epub": epub("<p>one <b>two</b></p>"),
}


def test_parts_keep_their_order_names_dates_and_compression():
    parts = {"mimetype": b"x", "b/é.xml": b"<a/>", "a.bin": bytes(range(256)) * 9}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "a") as archive:
        for name, text in parts.items():
            kind = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name, (1999, 12, 31, 23, 59, 58)), text, kind)
        archive.comment = b"kept"
    content = file.getvalue()
    after = Archive(content, "x").replaced({"b/é.xml": b"<b/>"})
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(io.BytesIO(after)) as new:
        assert new.comment == b"kept"
        for a, b in zip(old.infolist(), new.infolist(), strict=True):
            for name in ("filename", "date_time", "compress_type", "external_attr"):
                assert getattr(a, name) == getattr(b, name)
            assert new.read(b) == (b"<b/>" if "é" in b.filename else old.read(a))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "Not x, or the file is damaged"),
        (b"\xd0\xcf\x11\xe0" + bytes(100), "Not x: it has a password or an older format"),
        (packed({"a": bytes(2**21)}, compression=zipfile.ZIP_DEFLATED), "a in the file unpacks to more than 200 times"),
        (packed({str(i): b"" for i in range(20_001)}), "The file has 20,001 parts"),
    ],
)
def test_files_that_cannot_be_read_are_refused(content, message):
    with pytest.raises(DocumentError, match=f"^{message}"):
        Archive(content, "x")


@pytest.mark.parametrize("number", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_damaged_archive_gives_an_error_or_a_document(number):
    content, rng, errors = docx(), random.Random(1), 0
    for _ in range(number):
        damaged = bytearray(content)
        for _ in range(rng.randrange(1, 4)):
            at = rng.choice([rng.randrange(len(damaged)), len(damaged) - 1 - rng.randrange(2000)])
            if rng.random() < 0.5:
                damaged[at] = rng.randrange(256)
            else:
                del damaged[at : at + rng.randrange(1, 300)]
        try:
            shouted(".docx", bytes(damaged))
        except DocumentError as error:
            errors += 1
            assert str(error).count("\n") == 0
    assert errors > number / 2


@pytest.mark.parametrize("suffix", OFFICE)
@pytest.mark.parametrize("number", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_damaged_part_gives_an_error_or_a_document(suffix, number):
    rng, errors = random.Random(suffix), 0
    with zipfile.ZipFile(io.BytesIO(OFFICE[suffix])) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(number):
        name = rng.choice([name for name in parts if name.endswith(("xml", "opf", "ncx", "rels"))])
        damaged = bytearray(parts[name])
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(damaged))
            pieces = [b"", b"<", b"/>", b"</w:r>", b"&x;", b'"', b"\xff", bytes(damaged[at // 2 : at])]
            damaged[at : at + rng.randrange(9)] = rng.choice(pieces)
        try:
            shouted(suffix, packed({**parts, name: bytes(damaged)}))
        except DocumentError as error:
            errors += 1
            assert str(error).count("\n") == 0
    assert errors
