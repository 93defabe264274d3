"""Every command on every kind of checkpoint, as the table in the guide says. `python tests/matrix.py` rewrites it."""

import matrix
import pytest


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quick", "slow"])
@pytest.mark.parametrize("kind", matrix.KINDS, ids=lambda kind: kind.title)
def test_a_kind_of_checkpoint(kind, slow, tmp_path):
    cells = matrix.fill(kind, tmp_path, slow)
    in_guide = matrix.recorded()[kind.title]
    assert cells == {row: in_guide[row] for row in cells}, "the guide is out of date: run `python tests/matrix.py`"


def test_the_table_in_the_guide_is_complete():
    in_guide = matrix.recorded()
    assert matrix.table(in_guide) in matrix.GUIDE.read_text(encoding="utf-8")
    assert list(in_guide) == [kind.title for kind in matrix.KINDS]
    assert all(list(column) == list(matrix.ROWS) for column in in_guide.values())
