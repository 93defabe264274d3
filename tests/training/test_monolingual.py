"""`training.monolingual`: sentences for back-translation that are not in a recipe's data."""

import lzma

import pytest

from training.monolingual import main, new_texts


RECIPE = """
name: mine
source_language: de
target_language: en
preset: tiny
vocab_size: 400
data:
  train:
    - {path: train.tsv, held_out: 1}
    - {path: back/new.de, target_path: back/new.en}
    - {path: back/books.tsv}
  validation: [{path: valid.tsv}]
  test: [{path: test.tsv}]
"""
TEXT = [
    "It is known.\tC'est connu.\ttatoeba",
    "it is  KNOWN.\tC'est connu.\ttatoeba",
    "This is new.\tC'est nouveau.\ttatoeba",
    "This is new.\tC'est neuf.\ttatoeba",
    "It validates.\tCela valide.\ttatoeba",
    "It tests.\tCela teste.\ttatoeba",
    "Das ist bekannt.\tC'est connu.\ttatoeba",  # known on the source side only
    "A law.\tUne loi.\tlaws",
    " \tRien.\ttatoeba",
]


@pytest.fixture
def data(tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "train.tsv").write_text("Das ist bekannt.\tIt is known.\nNoch eins.\tAnother.\n")
    (tmp_path / "valid.tsv").write_text("Es validiert.\tIt validates.\n")
    (tmp_path / "test.tsv").write_text("Es testet.\tIt tests.\n")
    with lzma.open(tmp_path / "pool.tsv.xz", "wt") as file:
        file.write("".join(f"{line}\n" for line in TEXT))
    return tmp_path


def run(data, *more):
    where = ["--data", str(data), "--text", "pool.tsv.xz", "--output", str(data / "back" / "new.en")]
    main([str(data / "recipe.yaml"), *where, *more])
    return (data / "back" / "new.en").read_text().splitlines()


def test_what_the_target_side_of_the_data_has_is_left_out(data, capsys):
    """The recipe may name the file that is made, its translation and others beside them; they need not exist."""
    assert run(data, "--tag-column", "2", "--tags", "tatoeba") == ["This is new.", "Das ist bekannt."]
    assert capsys.readouterr().out == "2 sentences\n"
    assert run(data) == ["This is new.", "Das ist bekannt.", "A law."]  # and again, where the file exists
    assert run(data, "--column", "1")[0] == "C'est connu."
    assert run(data, "--max-words", "2") == ["A law."]


def test_case_and_spaces_make_no_difference():
    assert list(new_texts(["A  B", "a b", "C", "c ", "", "D"], ["d"])) == ["A B", "C"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tags", "tatoeba"], "--tags and --tag-column must be used together"),
        (["--column", "7"], "column 7 is missing"),
        (["--text", "none.tsv"], "No such file"),
    ],
)
def test_bad_input_is_said_and_nothing_is_written(data, capsys, arguments, message):
    with pytest.raises(SystemExit):
        run(data, *arguments)
    assert message in capsys.readouterr().err
    assert not (data / "back").exists()


def test_missing_files_are_reported_before_any_is_read(data, capsys):
    (data / "train.tsv").write_text("a line without a translation\n")
    (data / "valid.tsv").unlink()
    (data / "test.tsv").unlink()
    with pytest.raises(SystemExit):
        run(data)
    assert f"No such file: {data / 'valid.tsv'} and 1 more." in capsys.readouterr().err
