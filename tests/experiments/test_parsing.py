"""The parser: whatever a model prefers, its output is a complete tree over the words of the sentence."""

import json
import lzma

import pytest
import torch

from experiments import figures, parsing
from experiments.lab import Lab, Run
from experiments.linearisation import FORMS, build
from experiments.parser import Grammar, complete_share, form_of, parse, split_words
from experiments.trees import compare, read_tree, sentence, total
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, learn_tokenizer


TREES = [
    "(S (NP (DT The) (NNS cells)) (VP (VBD were) (VP (VBN cultured) (PP (IN in) (NP (NN serum))))) (. .))",
    "(HEADING (NP (NN Abstract)))",
    "(S (NP (NNP PAX6)) (VP (VBZ is) (ADJP (JJ (RB well)) (VBN known))))".replace("(JJ (RB well))", "(RB well)"),
]


@pytest.fixture(scope="module")
def tokenizer():
    """Splits some symbols, and several begin alike: S, SBAR, SBARQ."""
    trees = [read_tree(tree) for tree in TREES]
    texts = [sentence(tree) for tree in trees] + ["oS cS oNP cNP w oSB wNN wNNS wDT"] * 40
    return learn_tokenizer(texts, 290)


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    sizes = dict(d_model=16, d_ff=16, encoder_layers=1, decoder_layers=1)
    heads = dict(encoder_attention_heads=2, decoder_attention_heads=2)
    return VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **sizes, **heads)).eval()


@pytest.mark.parametrize("form", list(FORMS.values()), ids=list(FORMS))
@pytest.mark.parametrize("beams", [1, 3])
def test_an_untrained_model_gives_complete_trees(model, tokenizer, form, beams):
    sentences = [list(read_tree(tree).leaves()) for tree in TREES]
    trees = parse(model, tokenizer, sentences, form, beams=beams)
    words = [[leaf.word for leaf in leaves] for leaves in sentences]
    assert [[leaf.word for leaf in tree.leaves()] for tree in trees] == words


@pytest.mark.parametrize("form", list(FORMS.values()), ids=list(FORMS))
def test_an_output_that_was_cut_off_is_completed(tokenizer, form):
    tree = read_tree(TREES[0])
    leaves = list(tree.leaves())
    symbols = " ".join(form.linearise(tree))
    ids = tokenizer(text_target=symbols)["input_ids"]
    grammar = Grammar(tokenizer, [len(leaves)], form)
    for end in range(len(ids)):
        completed = build(grammar.decode(0, ids[:end]), leaves, form.is_in_order)
        assert [leaf.word for leaf in completed.leaves()] == [leaf.word for leaf in leaves]
    assert build(grammar.decode(0, ids), leaves, form.is_in_order) == tree


@pytest.mark.parametrize("form", list(FORMS.values()), ids=list(FORMS))
def test_the_right_tokens_are_always_allowed(tokenizer, form):
    for text in TREES:
        tree = read_tree(text)
        ids = [0, *tokenizer(text_target=" ".join(form.linearise(tree)))["input_ids"]]
        grammar = Grammar(tokenizer, [len(list(tree.leaves()))], form)
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


def test_words_are_split_nearly_as_in_the_treebank():
    assert split_words("It didn't grow by 0.05 (the cell's).") == [
        "It", "did", "n't", "grow", "by", "0.05", "-LRB-", "the", "cell", "'s", "-RRB-", ".",
    ]  # fmt: skip


def test_a_translator_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit, match="parser"):
        parsing.main(["parse", "Hello.", "--model", "vaswani_transformer/checkpoints/mini-en-de"])


def test_the_scores_of_a_parser_are_those_of_its_trees(parser, tmp_path, capsys):
    lines = [{"step": 1, "loss": 5.0}, {"step": 2, "validation_loss": 4.00004}]
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    gold = [read_tree(tree) for tree in TREES]
    scores = parsing.measure(Run("in-order", 1, tmp_path, {"parameters": 7, "hours": 0.5, "steps": 2}), gold)
    written = [read_tree(line) for line in (tmp_path / "test.mrg").read_text().splitlines()]
    assert [sentence(tree) for tree in written] == [sentence(tree) for tree in gold]
    counts = total(compare(*pair) for pair in zip(written, gold, strict=True))
    assert scores["f1"][0] == round(counts.f1, 2) and scores["validation"] == {"2": 4.0}

    with lzma.open(tmp_path / "test.mrg.xz", "wt") as file:
        file.write("\n".join(TREES))
    parsing.main(["score", str(tmp_path / "test.mrg.xz"), "--model", str(parser)])
    printed = json.loads(capsys.readouterr().out)
    assert printed and printed == {key: scores[key] for key in printed}


def test_cleaned_trees_are_those_that_are_read(tmp_path):
    text = "( (S (NP-SBJ-1 (DT The) (NNS cells)) (VP (VBD grew) (NP (-NONE- *-1))) (. .)) )\n"
    for part in parsing.PARTS:
        with lzma.open(tmp_path / f"{part}.mrg.xz", "wt") as file:
            file.write(text)
    parsing.main(["clean", str(tmp_path), str(tmp_path / "out")])
    written = (tmp_path / "out" / "dev.mrg").read_text()
    assert written == "(TOP (S (NP (DT The) (NNS cells)) (VP (VBD grew)) (. .)))\n"


def test_the_trees_of_another_parser_are_scored(tmp_path, capsys):
    flat = "(TOP (S (DT The) (NNS cells) (VBD were) (VBN cultured) (IN in) (NN serum) (. .)))"
    for name, trees in (("gold", TREES), ("parsed", [flat, *TREES[1:]]), ("fewer", TREES[1:])):
        (tmp_path / name).write_text("\n".join(trees), encoding="utf-8")
    gold, parsed, fewer = (str(tmp_path / name) for name in ("gold", "parsed", "fewer"))
    parsing.main(["score", gold, "--parsed", parsed])
    printed = json.loads(capsys.readouterr().out)
    assert (printed["precision"], printed["recall"]) == (100.0, round(100 * 7 / 12, 2))
    with pytest.raises(SystemExit, match="not trees of the same sentences"):
        parsing.main(["score", gold, "--parsed", fewer])


def scores(steps: int, f1: float, losses: tuple[float, float] = (5.0, 4.0)) -> dict:
    validation = dict(zip(("1", str(steps)), losses, strict=True))
    return {
        "steps": steps, "f1": [f1, f1 - 1, f1 + 1], "validation": validation, "precision": 1.0, "recall": 2.0,
        "exact": 3.0, "freely": 0.25, "hours": 0.5, "by_length": {"1 to 10": f1},
    }  # fmt: skip


def test_forms_are_compared_only_after_the_same_number_of_steps():
    finding = parsing.finding(
        {"sentences": 3, "forms": {"in-order": scores(2, 51.5), "in-order-untagged": scores(3, 40.0)}}
    )
    assert "The best form, in-order, has an F1 of 51.5 on 3 sentences" in finding
    assert "fewer than 3 steps: in-order (2)." in finding
    assert "cannot be compared" in finding
    finding = parsing.finding(
        {"sentences": 3, "forms": {"in-order": scores(3, 51.5), "in-order-untagged": scores(3, 40.0)}}
    )
    assert "Gain from parts of speech, compared with one symbol for all words: +11.5 (in-order)." in finding
    assert "fewer than" not in finding and "cannot be compared" not in finding


def test_the_finding_names_a_dedicated_parser():
    dedicated = {"A parser": {"trained": "trained for a day", "f1": [70.3, 70, 71], "by_length": {}}}
    finding = parsing.finding({"sentences": 3, "forms": {"in-order": scores(3, 51.5)}, "dedicated": dedicated})
    assert "A parser, trained for a day, has 70.3." in finding


@pytest.mark.parametrize(("last", "is_falling"), [(4.0, True), (4.995, False)])
def test_the_finding_tells_whether_the_loss_was_still_falling(last, is_falling):
    finding = parsing.finding({"sentences": 3, "forms": {"brackets": scores(3, 40.0, (5.0, last))}})
    assert ("still falling" in finding) == is_falling and "parts of speech" not in finding


def test_the_report_has_a_line_for_each_form_and_its_losses_by_step(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    forms = {"brackets": scores(2, 51.5), "in-order": scores(3, 40.0)}
    lines = parsing.report({"sentences": 3, "forms": forms}).splitlines()
    assert "| brackets | 51.5 (50.5 to 52.5) | 1.0 | 2.0 | 3.0% | 2 | 25.0% | 0.5 |" in lines
    assert lines[-4:] == [
        "| form | 1 | 2 | 3 |",
        "| --- | ---: | ---: | ---: |",
        "| brackets | 5.00 | 4.00 |  |",
        "| in-order | 5.00 |  | 4.00 |",
    ]


@pytest.mark.parametrize("content", [b"", b"no xz", lzma.compress(b"(S (NP"), lzma.compress(b"")])
def test_trees_that_cannot_be_scored_are_a_message(parser, tmp_path, content):
    (tmp_path / "test.mrg.xz").write_bytes(content)
    with pytest.raises(SystemExit, match=r"experiments\.parsing: .+"):
        parsing.main(["score", str(tmp_path / "test.mrg.xz"), "--model", str(parser)])


class RecordingLab(Lab):
    """Trains nothing: has one finished run for each form that is asked for."""

    def train(self, name, recipe, runs, settings=(), seeds=(1,)):
        self.folder("trained").joinpath("settings.json").write_text(json.dumps([name, recipe, runs]))
        return [Run(row, 1, self.data.parent / row, {}) for row in runs]


@pytest.fixture
def treebank(tmp_path):
    (tmp_path / "craft_treebank").mkdir()
    for part, trees in zip(parsing.PARTS, (TREES, TREES[:1], TREES[1:]), strict=True):
        with lzma.open(tmp_path / "craft_treebank" / f"{part}.mrg.xz", "wt") as file:
            file.write("\n".join(trees))
    return tmp_path


def test_the_experiment_trains_each_form_on_its_own_files_and_measures_it_on_the_test(treebank, monkeypatch):
    monkeypatch.setattr(parsing, "measure", lambda run, gold: {"form": run.row, "gold": [str(tree) for tree in gold]})
    results = parsing.run(RecordingLab(treebank, treebank / "runs"))
    assert results["sentences"] == 2 and list(results["forms"]) == list(FORMS)
    assert all(scores == {"form": row, "gold": TREES[1:]} for row, scores in results["forms"].items())
    name, recipe, runs = json.loads((treebank / "runs" / "trained" / "settings.json").read_text())
    assert (name, recipe, list(runs)) == ("parsing", "parsing", list(FORMS))
    data = treebank / "runs" / "parsing" / "data"
    for row, settings in runs.items():
        paths = [setting.partition("=")[2] for setting in settings]
        assert paths == [f"{row}-train.tsv", f"{row}-dev.tsv"] and all((data / path).exists() for path in paths)


def test_the_training_files_can_be_read_back_as_the_trees(tmp_path):
    trees = [read_tree(tree) for tree in TREES]
    parsing.write_pairs({"train": trees}, tmp_path / "data")
    for name, form in FORMS.items():
        lines = (tmp_path / "data" / f"{name}-train.tsv").read_text(encoding="utf-8").splitlines()
        for line, tree in zip(lines, trees, strict=True):
            words, symbols = line.split("\t")
            assert words == sentence(tree)
            assert build(symbols.split(), list(tree.leaves()), form.is_in_order) == tree


@pytest.mark.parametrize("form", list(FORMS.values()), ids=list(FORMS))
def test_free_outputs_count_only_if_they_are_complete_trees_over_the_words(tokenizer, form):
    trees = [read_tree(tree) for tree in TREES]
    outputs = [" ".join(form.linearise(trees[0])), " ".join(form.linearise(trees[0])), "oS w cNP"]

    class Prophet:
        """Says the right tree, then that of another sentence, then no tree."""

        def generate(self, input_ids, attention_mask, num_beams, max_new_tokens):
            assert num_beams == 1 and max_new_tokens > 8
            return tokenizer(text_target=[outputs.pop(0)], return_tensors="pt")["input_ids"]

    assert complete_share(Prophet(), tokenizer, trees, form) == 0.333


def test_the_form_of_a_parser_is_that_of_its_training_file(parser):
    assert form_of(parser) == FORMS["in-order"]


def test_the_order_of_sentences_does_not_change_their_trees(model, tokenizer):
    sentences = [list(read_tree(tree).leaves()) for tree in TREES]
    form = FORMS["brackets-untagged"]
    trees = parse(model, tokenizer, sentences, form, batch_size=1)
    assert parse(model, tokenizer, sentences[::-1], form, batch_size=2)[::-1] == trees
