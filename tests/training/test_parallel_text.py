"""Which pairs of a file a source selects."""

import json
from pathlib import Path

import pytest

import training.recipe
from training.parallel_text import iterate_pairs
from training.recipe import Source, load_recipe


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


@pytest.mark.parametrize("columns", [{}, {"source_column": 1, "target_column": 0}])
def test_replacements_change_their_column_alone(columns, tmp_path):
    (tmp_path / "pairs.tsv").write_text("Yes! to-day\tSi! ce soir?\n", encoding="utf-8")
    replace = {0: {"to-day": "today"}, 1: {r"(?<=\w)([!?])": r" \1", "Si": "Oui"}}
    [pair] = iterate_pairs(Source(path="pairs.tsv", replace=replace, **columns), tmp_path)
    assert sorted(pair) == ["Oui ! ce soir ?", "Yes! today"]
    assert pair[0].startswith("Oui" if columns else "Yes")


def test_replacements_of_plain_text_follow_their_file_when_a_recipe_is_reversed(tmp_path):
    (tmp_path / "a.en").write_text("One!\n", encoding="utf-8")
    (tmp_path / "a.fr").write_text("Un!\n", encoding="utf-8")
    (tmp_path / "there.yaml").write_text(
        "name: a\nsource_language: en\ntarget_language: fr\npreset: tiny\nvocab_size: 300\n"
        "data:\n  train:\n    - {path: a.en, target_path: a.fr, replace: {1: {'!': ' !'}}}\n",
        encoding="utf-8",
    )
    (tmp_path / "back.yaml").write_text("extends: there.yaml\nreversed: true\nname: b\n", encoding="utf-8")
    for name, expected in (("there", ("One!", "Un !")), ("back", ("Un !", "One!"))):
        [source] = load_recipe(tmp_path / f"{name}.yaml").data.train
        assert list(iterate_pairs(source, tmp_path)) == [expected]


def test_replacements_must_be_regular_expressions_of_numbered_columns():
    for replace in ({0: {"(": ""}}, {0: {"a": r"\1"}}):
        with pytest.raises(ValueError, match="regular expressions and their replacements"):
            Source(path="pairs.tsv", replace=replace)
    with pytest.raises(ValueError, match="replace needs numbered columns"):
        Source(path="pairs.jsonl", replace={0: {"a": "b"}})
    with pytest.raises(ValueError, match="replace in plain text"):
        Source(path="a", target_path="b", replace={2: {"a": "b"}})


def test_replacements_come_back_from_the_record_of_a_run(tmp_path):
    """Otherwise a run with them could not resume: JSON has no numbers as keys."""
    recipe = load_recipe(Path(training.recipe.__file__).parent / "recipes" / "everyday-en-fr.yaml")
    (tmp_path / "recipe.json").write_text(json.dumps(recipe.to_dict()), encoding="utf-8")
    assert load_recipe(tmp_path / "recipe.json").to_dict() == recipe.to_dict()
