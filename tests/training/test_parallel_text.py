"""Which pairs of a file a source selects."""

import pytest

from training.parallel_text import iterate_pairs
from training.recipe import Source


def test_pairs_are_selected_by_length_and_pattern(tmp_path):
    lines = [
        "He goes.\tEr geht.",
        "He shares it.\tEr theilt es mit ihr.",
        "A much longer line than those.\tEine lange Zeile.",
    ]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def sources(**settings):
        return [source for source, _ in iterate_pairs(Source(path="pairs.tsv", **settings), tmp_path)]

    assert sources(max_words=5) == ["He goes.", "He shares it."]
    assert sources(min_words=5) == ["He shares it.", "A much longer line than those."]
    assert sources(exclude=r"\btheil") == ["He goes.", "A much longer line than those."]
    with pytest.raises(ValueError, match="regular expression"):
        Source(path="pairs.tsv", exclude="(")
    with pytest.raises(ValueError, match="min_words is more than max_words"):
        Source(path="pairs.tsv", min_words=3, max_words=2)
