"""`python -m training.tokenizer`: a vocabulary is learned from files or from a recipe's data."""

import gzip

from scored_pairs import write_tsv
from tiny_checkpoint import PAIRS
from transformers import AutoTokenizer

from training import tokenizer


def test_a_vocabulary_of_files(run, tmp_path):
    (tmp_path / "a.en").write_text("the cat sat\n\nthe dog\n" * 20, encoding="utf-8")
    with gzip.open(tmp_path / "b.de.gz", "wt", encoding="utf-8") as file:
        file.write("die Katze saß\n" * 20)
    arguments = (tmp_path / "out", "--vocab-size", 275, tmp_path / "a.en", tmp_path / "b.de.gz")
    status, out, err = run(tokenizer, *arguments)
    assert status == 0, err
    learned = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert len(learned) == 275
    rows = {line.split()[0]: line.split() for line in out.splitlines() if str(tmp_path) in line or "both" in line}
    tokens = 0
    for name, texts, sides in (("a.en", 60, ["the cat sat", "", "the dog"]), ("b.de.gz", 20, ["die Katze saß"])):
        ids = [i for text in sides for i in learned(text, add_special_tokens=False).input_ids]
        words = sum(len(text.split()) for text in sides) * 20
        tokens += 20 * len(ids)
        ratio = f"{20 * len(ids) / words:.3f}"
        assert rows[str(tmp_path / name)][1:] == [
            str(texts),
            str(words),
            f"{20 * len(ids):,}",
            ratio,
            f"{len(set(ids)) / 275:.1%}",
        ]
    assert rows["both"][3] == f"{tokens:,}"
    status, _, err = run(tokenizer, *arguments)
    assert status == 2 and "--overwrite" in err
    assert run(tokenizer, *arguments, "--overwrite", "--vocab-size", 270)[0] == 0
    assert len(AutoTokenizer.from_pretrained(tmp_path / "out")) == 270


def test_a_vocabulary_of_a_recipe(run, tmp_path):
    write_tsv(tmp_path / "train.tsv", list(PAIRS.items()) * 3)
    (tmp_path / "recipe.yaml").write_text(
        "{name: r, source_language: en, target_language: de, preset: tiny, vocab_size: 280,"
        " data: {train: [{path: train.tsv}], validation: []}}"
    )
    status, out, err = run(tokenizer, tmp_path / "out", "--recipe", tmp_path / "recipe.yaml", "--data", tmp_path)
    assert status == 0, err
    assert [line.split()[:2] for line in out.splitlines()[3:]] == [["en", "18"], ["de", "18"], ["both", "36"]]
    assert len(AutoTokenizer.from_pretrained(tmp_path / "out")) == 280


def test_learning_a_vocabulary_says_what_is_wrong(run, tmp_path):
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "small").write_text("ab\n")
    (tmp_path / "broken.gz").write_bytes(b"not packed")
    for arguments, message in (
        ([], "give either text files or --recipe"),
        ([tmp_path / "small"], "need --vocab-size"),
        ([tmp_path / "empty", "--vocab-size", 300], "No text in"),
        ([tmp_path / "small", "--vocab-size", 300], "The texts give only"),
        ([tmp_path / "small", "--vocab-size", 100], "at least 258"),
        ([tmp_path / "absent", "--vocab-size", 300], "absent"),
        ([tmp_path / "broken.gz", "--vocab-size", 300], "broken.gz cannot be read"),
    ):
        status, out, err = run(tokenizer, tmp_path / "out", *arguments)
        assert (status > 0, out) == (True, "") and message in err
    assert not (tmp_path / "out").exists()
    assert "is a file" in run(tokenizer, tmp_path / "small", "--vocab-size", 300, tmp_path / "empty", "--overwrite")[2]
