"""Tables, lists and figures of the report."""

import re

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import figures
from experiments.tables import Column, bullets, markdown


names = st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=4, unique=True)


@given(columns=names, data=st.data())
def test_the_cells_of_a_table_come_back(columns, data):
    row = st.dictionaries(st.sampled_from(columns), st.integers() | st.floats(allow_nan=False))
    rows = data.draw(st.lists(row, max_size=4))
    head, rule, *lines = markdown([Column(name) for name in columns], rows).split("\n")
    read = [[cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")] for line in (head, *lines)]
    assert read == [columns, *([str(row.get(name, "")) for name in columns] for row in rows)]
    assert rule == f"| {' | '.join(['---'] * len(columns))} |"


def test_numbers_are_aligned_to_the_right():
    table = markdown([Column("row"), Column("loss", right=True)], [{"row": "base", "loss": 2.5}, {"row": "h1"}])
    assert table == "| row | loss |\n| --- | ---: |\n| base | 2.5 |\n| h1 |  |"


def test_bullets():
    assert bullets(["one", "two"]) == "- one\n- two" and bullets([]) == ""


def drawn(folder, monkeypatch) -> bytes:
    monkeypatch.setattr(figures, "FOLDER", folder)
    with figures.style():
        figure = figures.figure(3, 2)
        axes = figure.subplots()
        axes.plot([1, 2], [3, 4], label="here")
        axes.legend()
        assert figures.save(figure, "line", "A line") == "![A line](figures/line.svg)"
    return (folder / "line.svg").read_bytes()


def test_a_figure_is_the_same_file_each_time_and_its_text_stays_text(tmp_path, monkeypatch):
    first, second = (drawn(tmp_path / name, monkeypatch) for name in ("a", "b"))
    assert first == second
    assert b">here</text>" in first and not re.search(rb"<dc:date>|20\d\d-\d\d", first)


def test_the_style_ends_with_its_context():
    before = matplotlib.rcParams["axes.spines.top"]
    with figures.style():
        assert not matplotlib.rcParams["axes.spines.top"]
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["color"] == figures.COLOURS
    assert matplotlib.rcParams["axes.spines.top"] == before


@pytest.mark.parametrize("colour", figures.COLOURS)
def test_colours_are_dark_enough_on_white(colour):
    """A contrast of at least 2.4 (WCAG's relative luminance), and no two alike."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    assert 1.05 / (luminance + 0.05) > 2.4 and figures.COLOURS.count(colour) == 1
