"""Messages on standard error."""

import io

import pytest
from rich.console import Console

from vaswani_transformer.system import console


@pytest.mark.parametrize("is_terminal, shown", [(True, console.WARNINGS_SHOWN), (False, 7)])
def test_a_file_gets_all_warnings_and_a_terminal_the_first(monkeypatch, is_terminal, shown):
    file = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=file, force_terminal=is_terminal, width=200, no_color=True))
    warnings = console.Warnings("lines")
    for line in range(7):
        warnings.add(f"line {line}: 5 is missing")
    warnings.summarise()
    text = file.getvalue()
    assert text.count("is missing") == shown and "7 lines have warnings" in text
    assert ("2> FILE" in text) == is_terminal


def test_few_warnings_need_no_summary(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=file))
    warnings = console.Warnings("lines")
    warnings.add("line 1: 5 is missing")
    warnings.summarise()
    assert "have warnings" not in file.getvalue()
