"""`training.shortlist`: which target tokens a source token may become, and what any translation may hold."""

import random
import sys

import pytest
import torch

from training import release
from training import shortlist as making
from vaswani_transformer import Shortlist, checkpoint_path, learn_tokenizer, load


WORDS = {
    "house": "Haus", "tree": "Baum", "green": "grün", "blue": "blau", "sees": "sieht", "buys": "kauft", "dog": "Hund",
    "child": "Kind", "sister": "Schwester", "bread": "Brot", "table": "Tisch", "sharp": "scharf",
}  # fmt: skip


def pairs(count: int = 400) -> list[tuple[str, str]]:
    rng = random.Random(1)
    drawn = [rng.sample(list(WORDS), 5) for _ in range(count)]
    return [(" ".join(words) + ".", " ".join(WORDS[word] for word in words) + ".") for words in drawn]


@pytest.fixture(scope="module")
def tokenizer():
    return learn_tokenizer([side for pair in pairs() for side in pair], vocab_size=300)


def diagonal(sources, targets):
    """Of tokenised pairs with the same words: token i of either side."""
    for source, target in zip(sources, targets, strict=True):
        yield {(min(i, len(source) - 1), i) for i in range(len(target))}


def listed(tokenizer, shortlist: Shortlist, text: str) -> set[int]:
    allowed = shortlist.allowed_tokens(tokenizer([text], return_tensors="pt")["input_ids"], len(tokenizer))
    return set(allowed[0].nonzero().flatten().tolist())


def test_a_sentence_may_hold_itself_all_letters_and_the_end(tokenizer, monkeypatch):
    monkeypatch.setattr(making, "align", diagonal)
    shortlist = making.make_shortlist(pairs(), tokenizer, len(tokenizer), per_token=8, frequent=3)
    letters = {i for word, i in tokenizer.get_vocab().items() if len(word) == 1}
    for text in ("house tree.", "xylophone 3.5 %s", "Haus", "HOUSE", ""):
        ids = set(tokenizer(text)["input_ids"])
        assert ids | letters | {tokenizer.eos_token_id} <= listed(tokenizer, shortlist, text)
    assert tokenizer.pad_token_id not in listed(tokenizer, shortlist, "house")


def test_the_parts_of_a_word_belong_together(tokenizer, monkeypatch):
    """A link to one part of a word is one to all of them."""
    monkeypatch.setattr(making, "align", lambda sources, targets: ({(0, 0)} for _ in sources))
    given = [("dog", "Schwesterbaum")] * 3
    shortlist = making.make_shortlist(given, tokenizer, len(tokenizer), per_token=30, frequent=0)
    parts = set(tokenizer(text_target="Schwesterbaum")["input_ids"])
    assert len(parts) > 2, "the test is about a word of several tokens"
    first = tokenizer("dog")["input_ids"][0]
    assert parts <= {*shortlist.tokens[first].tolist(), *shortlist.always.tolist()}


def test_the_most_frequent_links_are_kept(tokenizer, monkeypatch):
    monkeypatch.setattr(making, "align", diagonal)
    wide = making.make_shortlist(pairs(), tokenizer, len(tokenizer), per_token=20, frequent=0)
    narrow = making.make_shortlist(pairs(), tokenizer, len(tokenizer), per_token=4, frequent=0)
    assert narrow.tokens.shape[1] == 4 and torch.equal(wide.tokens[:, :4], narrow.tokens)


def test_a_model_may_have_more_tokens_than_its_tokenizer(tokenizer, monkeypatch):
    """Vocabularies are often padded to a multiple of 8: such a token, which no text holds, may hold only the end."""
    monkeypatch.setattr(making, "align", diagonal)
    size = len(tokenizer)
    exact = making.make_shortlist(pairs(), tokenizer, size, per_token=4, frequent=0)
    padded = making.make_shortlist(pairs(), tokenizer, size + 5, per_token=4, frequent=0)
    assert len(padded.tokens) == size + 5 and torch.equal(padded.tokens[:size], exact.tokens)
    assert (padded.tokens[size:] == tokenizer.eos_token_id).all()


def test_eflomal_finds_the_words(tokenizer):
    pytest.importorskip("eflomal")
    shortlist = making.make_shortlist(pairs(), tokenizer, len(tokenizer), per_token=12, frequent=0)
    for source, target in WORDS.items():
        assert set(tokenizer(text_target=target)["input_ids"]) <= listed(tokenizer, shortlist, source)


def test_the_command_writes_a_file_that_a_search_takes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(making, "align", diagonal)
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs(50)), encoding="utf-8")
    command = ["mini-en-de", "--tsv", str(tmp_path / "pairs.tsv"), "--output", str(tmp_path)]
    release.main(["shortlist", *command])
    assert "50 pairs aligned" in capsys.readouterr().out
    model, tokenizer = load(checkpoint_path("mini-en-de"))
    inputs = tokenizer(["The dog sees a house."], return_tensors="pt")
    assert model.generate(**inputs, shortlist=Shortlist.from_pretrained(tmp_path)).shape[0] == 1


@pytest.mark.parametrize(
    "content, options, message",
    [
        ("", [], "There are no pairs to align"),
        ("one column\n", [], "Columns must be separated by tabs"),
        ("a\tb\n", ["--output", "nowhere"], "No such folder: nowhere"),
    ],
)
def test_misuse_is_explained(tmp_path, capsys, content, options, message):
    (tmp_path / "pairs.tsv").write_text(content, encoding="utf-8")
    command = ["mini-en-de", "--tsv", str(tmp_path / "pairs.tsv"), "--output", str(tmp_path), *options]
    with pytest.raises(SystemExit):
        release.main(["shortlist", *command])
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.tsv"]


def test_without_eflomal_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(ValueError, match=r"Alignment needs eflomal, which is not installed: pip install .*\[align\]"):
        next(making.align([[1]], [[2]]))
