"""Notebooks: the texts of Markdown cells are translated, and every byte outside their sources stays."""

import json

import pytest
from fake_pipeline import few, reversed_words, shouted, texts_of, unchanged
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.documents import DocumentError, read_content


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["source", "a", "cells"]), inner, max_size=3)
    ),
    max_leaves=5,
)
LINES = st.lists(
    st.sampled_from(["# One *two*\n", "three\n", "\n", 'é "four" $x$\n', "five", "a\u2028b\n", "\r\n"]), max_size=5
)
CELLS = st.builds(
    lambda kind, source, metadata: {"cell_type": kind, "metadata": metadata, "source": source},
    st.sampled_from(["markdown", "markdown", "code", "raw"]),
    LINES | LINES.map("".join),
    VALUES,
)
NOTEBOOKS = st.builds(
    lambda cells, metadata, indent, is_ascii: json.dumps(
        {"metadata": metadata, "cells": cells, "nbformat": 4}, indent=indent, ensure_ascii=is_ascii
    ),
    st.lists(CELLS, max_size=4),
    VALUES,
    st.sampled_from([None, 1, 4]),
    st.booleans(),
)


def notebook(*cells: str, separator: str = ", ") -> str:
    return f'{{"nbformat": 4, "cells": [{separator.join(cells)}]}}\n'


def markdown(source: str) -> str:
    return f'{{"cell_type": "markdown", "source": {source}}}'


@few
@given(NOTEBOOKS)
def test_any_notebook_comes_back(text):
    assert unchanged(".ipynb", text) == text


@few
@given(NOTEBOOKS)
def test_only_sources_of_markdown_cells_change(text):
    before, after = json.loads(text), json.loads(shouted(".ipynb", text))
    for cell in before["cells"] + after["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = "".join(cell["source"]).upper().split()  # lines are wrapped again
    assert after == before


@pytest.mark.parametrize(
    "source, expected",
    [
        ('"One two"', '"two One"'),
        ('["# One two\\n",\n  "\\n", "Three *four*"]', '["# two One\\n",\n  "\\n",\n  "*four* Three"]'),
        ('["One\\n", "  two"]', '["two One"]'),
        ('"caf\\u00e9 one"', '"one caf\\u00e9"'),
        ('"café \\"one\\""', '"\\" one \\" café"'),
        ('["$$\\n", "x y\\n", "$$"]', '["$$\\n", "x y\\n", "$$"]'),
        ("[]", "[]"),
        ('""', '""'),
    ],
)
def test_a_source_keeps_its_form(source, expected):
    assert reversed_words(".ipynb", notebook(markdown(source))) == notebook(markdown(expected))


def test_code_outputs_and_metadata_stay():
    code = '{"cell_type": "code", "outputs": [{"text": ["one two"]}], "metadata": {"source": "one"}, "source": "one"}'
    text = notebook(code, markdown('"three four"'), code, separator=" ,\n\t")
    assert texts_of(".ipynb", text) == ["three four"]
    assert shouted(".ipynb", text) == text.replace("three four", "THREE FOUR")
    document = read_content(text.encode(), "a.ipynb")
    assert document.untranslated == {"code cells": 2}
    assert [span.place for span in document.texts] == ["cell 2, line 1"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "a.ipynb: Not a valid notebook: Expecting value"),
        ("[]", "a.ipynb: Not a notebook of version 4: it has no list of cells."),
        ('{"worksheets": []}', "a.ipynb: Not a notebook of version 4"),
        ('{"cells": {}}', "a.ipynb: Not a notebook of version 4"),
        (notebook(markdown('"One \\ud83d"')), "a.ipynb: Cell 1 has half a character"),
        ('{"cells": ' + "[" * 100_000, "a.ipynb: Not a valid notebook: "),
    ],
)
def test_a_damaged_notebook_is_an_error(text, message):
    with pytest.raises(DocumentError) as error:
        read_content(text.encode(), "a.ipynb")
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "cell", ["1", "null", '"x"', "[]", "{}", '{"cell_type": "markdown"}', markdown("1"), markdown('["a", 1]')]
)
def test_cells_without_a_source_stay(cell):
    assert unchanged(".ipynb", notebook(cell)) == notebook(cell)
