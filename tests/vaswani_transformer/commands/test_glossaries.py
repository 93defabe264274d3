"""`vaswani translate --glossary` and its report."""

import pytest


@pytest.fixture
def glossary(tmp_path):
    file = tmp_path / "terms.tsv"
    file.write_text("dogs\tKatze|Katzen\nACME\n", encoding="utf-8")
    return file


def read_rows(file):
    return [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]


def test_the_report_has_a_row_for_each_term(translate, glossary, tmp_path):
    report = tmp_path / "report.tsv"
    result = translate("--glossary", str(glossary), "--glossary-report", str(report), "Two dogs run.", "It rains.")
    assert result.exit_code == 0 and "Katze" in result.stdout
    assert read_rows(report) == [
        ["term", "translation", "times_seen", "times_kept", "times_missed"],
        ["dogs", "Katze|Katzen", "1", "1", "0"],
        ["ACME", "ACME", "0", "0", "0"],
    ]


def test_documents_have_a_report_too(translate, glossary, tmp_path):
    document, report = tmp_path / "text.md", tmp_path / "report.tsv"
    document.write_text("# Two dogs run.\n\nTwo **dogs** run.\n", encoding="utf-8")
    result = translate(
        str(document), "-o", str(tmp_path / "out.md"), "--glossary", str(glossary), "--glossary-report", str(report)
    )
    assert result.exit_code == 0, result.stderr
    assert read_rows(report)[1] == ["dogs", "Katze|Katzen", "2", "2", "0"]


def test_lines_that_were_translated_before_an_error_are_reported(translate, glossary, tmp_path):
    report = tmp_path / "report.tsv"
    result = translate("--glossary", str(glossary), "--glossary-report", str(report), input=b"Two dogs run.\n\xff\n")
    assert result.exit_code == 1
    assert read_rows(report)[1][2] == "1"


def test_a_report_needs_a_glossary_and_a_folder(translate, glossary, tmp_path):
    result = translate("--glossary-report", str(tmp_path / "report.tsv"), "Two dogs run.")
    assert result.exit_code == 2 and "It needs a glossary. Pass it with --glossary." in result.stderr
    missing = tmp_path / "missing" / "report.tsv"
    result = translate("--glossary", str(glossary), "--glossary-report", str(missing), "Two dogs run.")
    assert result.exit_code == 1 and "does not exist. Create it first." in result.stderr
