"""The sentences of this project: well-formed, and typeset as in the corpora."""

import re
from pathlib import Path

import pytest

import training


FOLDER = Path(training.__file__).parent
MARKS = ".?!:,…"
MARKUP = r"\*{1,3}|__?|~~|</?\w+(?: [^>]*)?>|\[|\]\([^)]*\)"


def rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()]


every_file = pytest.mark.parametrize("name", ["sentences", "news", "emphasis"])


@every_file
def test_each_sentence_occurs_once_in_three_languages(name):
    assert all(len(row) == 3 and all(text == text.strip() != "" for text in row) for row in rows(name))
    assert len({english for english, _, _ in rows(name)}) == len(rows(name))


@pytest.mark.parametrize("measured", ["lines/sentences", "lines/news"])
@every_file
def test_the_sentences_that_measure_are_not_trained_on(name, measured):
    trained = {re.sub(MARKUP, "", text) for row in rows(name) for text in row}
    held_out = rows(measured)
    assert len(held_out) == 190 and not trained & {text for row in held_out for text in row if len(text.split()) > 3}


@every_file
def test_all_languages_have_the_same_final_mark_and_similar_lengths(name):
    for row in rows(name):
        complete = [
            text for text in row if not text.endswith((" a.m.", " p.m."))
        ]  # whose full stop may also end the sentence
        assert len({text[-1] if text[-1] in MARKS else "" for text in complete}) == 1, row
        lengths = sorted(map(len, row))
        assert lengths[-1] <= 2.2 * lengths[0] + 15, row


@every_file
def test_each_language_has_its_marks(name):
    for row in rows(name):
        english, german, french = (re.sub(MARKUP, "", text) for text in row)
        assert not re.search("[“”„«»’]", english), english
        assert not re.search('["”«»’]', german), german
        assert not re.search('["“”„’]', french), french
        assert not re.search(r"[^\s«][?!;:»](?=\s|$)", french), french
        assert not re.search("[\u00a0\u202f]", english + german + french), english


def test_all_languages_have_the_same_markup():
    for row in rows("emphasis"):
        assert len({tuple(re.findall(MARKUP, text)) for text in row}) == 1, row
