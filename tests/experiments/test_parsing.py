"""The parser: whatever a model likes, its output is one whole tree over the words of the sentence."""

import json
import lzma

import pytest
import torch

from experiments import parsing
from experiments.lab import Run
from experiments.trees import build, compare, read_tree, total
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, learn_tokenizer


TREES = [
    "(S (NP (DT The) (NNS cells)) (VP (VBD were) (VP (VBN cultured) (PP (IN in) (NP (NN serum))))) (. .))",
    "(HEADING (NP (NN Abstract)))",
    "(S (NP (NNP PAX6)) (VP (VBZ is) (ADJP (JJ (RB well)) (VBN known))))".replace("(JJ (RB well))", "(RB well)"),
]


@pytest.fixture(scope="module")
def tokenizer():
    """It cuts some symbols, of which others begin with the same letters: S, SBAR, SBARQ."""
    trees = [read_tree(tree) for tree in TREES]
    texts = [parsing.sentence(tree) for tree in trees] + ["oS cS oNP cNP w oSB wNN wNNS wDT"] * 40
    return learn_tokenizer(texts, 290)


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    sizes = dict(d_model=16, d_ff=16, encoder_layers=1, decoder_layers=1)
    heads = dict(encoder_attention_heads=2, decoder_attention_heads=2)
    return VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **sizes, **heads)).eval()


@pytest.mark.parametrize("form", list(parsing.FORMS.values()), ids=list(parsing.FORMS))
@pytest.mark.parametrize("beams", [1, 3])
def test_a_model_that_knows_nothing_gives_whole_trees(model, tokenizer, form, beams):
    sentences = [list(read_tree(tree).leaves()) for tree in TREES]
    trees = parsing.parse(model, tokenizer, sentences, form, beams=beams)
    words = [[leaf.word for leaf in leaves] for leaves in sentences]
    assert [[leaf.word for leaf in tree.leaves()] for tree in trees] == words


@pytest.mark.parametrize("form", list(parsing.FORMS.values()), ids=list(parsing.FORMS))
def test_an_output_that_was_cut_off_is_brought_to_its_end(tokenizer, form):
    tree = read_tree(TREES[0])
    leaves = list(tree.leaves())
    symbols = " ".join(form.linearise(tree))
    ids = tokenizer(text_target=symbols)["input_ids"]
    grammar = parsing.Grammar(tokenizer, [len(leaves)], form)
    for end in range(len(ids)):
        found = build(grammar.symbols_of(0, ids[:end]), leaves, form.is_in_order)
        assert [leaf.word for leaf in found.leaves()] == [leaf.word for leaf in leaves]
    assert build(grammar.symbols_of(0, ids), leaves, form.is_in_order) == tree


@pytest.mark.parametrize("form", list(parsing.FORMS.values()), ids=list(parsing.FORMS))
def test_the_right_tokens_are_always_allowed(tokenizer, form):
    for text in TREES:
        tree = read_tree(text)
        ids = [0, *tokenizer(text_target=" ".join(form.linearise(tree)))["input_ids"]]
        grammar = parsing.Grammar(tokenizer, [len(list(tree.leaves()))], form)
        for i in range(1, len(ids)):
            assert ids[i] in grammar(0, torch.tensor(ids[:i]))


@pytest.fixture
def parser(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    recipe = {"name": "parsing", "data": {"train": [{"path": "in-order-train.tsv"}]}}
    (tmp_path / "model" / "training.json").write_text(json.dumps({"recipe": recipe}))
    return tmp_path / "model"


def test_the_command_prints_a_tree(parser, capsys):
    parsing.main(["parse", "The cells (all) grew.", "--model", str(parser)])
    printed = read_tree(capsys.readouterr().out)
    words = ["The", "cells", "-LRB-", "all", "-RRB-", "grew", "."]
    assert [leaf.word for leaf in printed.leaves()] == words


def test_words_are_cut_much_as_in_the_treebank():
    assert parsing.tokens("It didn't grow by 0.05 (the cell's).") == [
        "It", "did", "n't", "grow", "by", "0.05", "-LRB-", "the", "cell", "'s", "-RRB-", ".",
    ]  # fmt: skip


def test_a_translator_is_no_parser(tmp_path, capsys):
    with pytest.raises(SystemExit, match="parser"):
        parsing.main(["parse", "Hello.", "--model", "vaswani_transformer/checkpoints/mini-en-de"])


def test_what_is_said_of_a_parser_is_what_it_wrote(parser, tmp_path, capsys):
    lines = [{"step": 1, "loss": 5.0}, {"step": 2, "validation_loss": 4.00004}]
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    gold = [read_tree(tree) for tree in TREES]
    found = parsing.measure(Run("in-order", 1, tmp_path, {"parameters": 7, "hours": 0.5, "steps": 2}), gold)
    written = [read_tree(line) for line in (tmp_path / "test.mrg").read_text().splitlines()]
    assert [parsing.sentence(tree) for tree in written] == [parsing.sentence(tree) for tree in gold]
    right = total(compare(*pair) for pair in zip(written, gold, strict=True))
    assert found["f1"][0] == round(right.f1, 2) and found["validation"] == {"2": 4.0}

    with lzma.open(tmp_path / "test.mrg.xz", "wt") as file:
        file.write("\n".join(TREES))
    parsing.main(["score", str(tmp_path / "test.mrg.xz"), "--model", str(parser)])
    scored = json.loads(capsys.readouterr().out)
    assert scored and scored == {key: found[key] for key in scored}

    whole = {**found, "steps": 3, "validation": {"1": 5.0, "3": 4.0}, "f1": [40.0, 39.0, 41.0]}
    short = {**found, "steps": 2, "validation": {"1": 5.0, "2": 4.0}, "f1": [51.5, 50.0, 53.0]}
    said = parsing.finding({"sentences": 3, "forms": {"in-order": short, "in-order-untagged": whole}})
    assert (
        "in-order 51.5 after 2 of 3 steps, in-order-untagged 40.0, with" in said
        and "parts of speech help cannot be said" in said
    )
    said = parsing.finding({"sentences": 3, "forms": {"in-order": {**short, "steps": 3}, "in-order-untagged": whole}})
    assert "Parts of speech in place of one symbol for all words: +11.5 (in-order)" in said and "after" not in said


@pytest.mark.parametrize("content", [b"", b"no xz", lzma.compress(b"(S (NP"), lzma.compress(b"")])
def test_trees_that_cannot_be_scored_are_a_message(parser, tmp_path, content):
    (tmp_path / "test.mrg.xz").write_bytes(content)
    with pytest.raises(SystemExit, match=r"experiments\.parsing: .+"):
        parsing.main(["score", str(tmp_path / "test.mrg.xz"), "--model", str(parser)])
