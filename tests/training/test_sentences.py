"""The everyday sentences of this project: well-formed, and typeset as in the corpora."""

import re
from pathlib import Path

import training


FOLDER = Path(training.__file__).parent
ROWS, HELD_OUT = (
    [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    for file in (FOLDER / "sentences.tsv", FOLDER / "lines" / "sentences.tsv")
)
MARKS = ".?!:,…"


def test_each_sentence_occurs_once_in_three_languages():
    assert all(len(row) == 3 and all(text == text.strip() != "" for text in row) for row in ROWS)
    assert len({english for english, _, _ in ROWS}) == len(ROWS)


def test_the_sentences_that_measure_are_not_trained_on():
    trained = {text for row in ROWS for text in row}
    assert len(HELD_OUT) == 190 and not trained & {text for row in HELD_OUT for text in row if len(text.split()) > 3}


def test_all_languages_have_the_same_final_mark_and_similar_lengths():
    for row in ROWS:
        complete = [
            text for text in row if not text.endswith((" a.m.", " p.m."))
        ]  # whose point may be that of a sentence
        assert len({text[-1] if text[-1] in MARKS else "" for text in complete}) == 1, row
        lengths = sorted(map(len, row))
        assert lengths[-1] <= 2.2 * lengths[0] + 15, row


def test_each_language_has_its_marks():
    for english, german, french in ROWS:
        assert not re.search("[“”„«»’]", english), english
        assert not re.search('["“”«»’]', german.replace("“", "")), german
        assert not re.search('["“”„’]', french), french
        assert not re.search(r"[^\s«][?!;:»](?=\s|$)", french), french
        assert not re.search("[\u00a0\u202f]", english + german + french), english
