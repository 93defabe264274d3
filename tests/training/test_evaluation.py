"""`python -m training.evaluate`: test sets are translated and scored, and errors are reported first."""

import gzip
import json
import lzma
import re
import shutil
from pathlib import Path

import pytest
import torch
from scored_pairs import SOURCES, TARGETS, write_tsv
from tiny_checkpoint import PAIRS, tiny_checkpoint
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from training import average, evaluate, release, tokenizer
from training.evaluate import evaluate_pairs
from training.models import translate
from training.scores import CHRF, LOWER_CASED, PAPER, PAPER_GERMAN, SACREBLEU


@pytest.fixture(scope="module")
def loaded():
    folder = tiny_checkpoint()
    return AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)


# Translating ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_translations_keep_their_order(loaded, batch_size):
    texts = [SOURCES[0], "", *SOURCES[1:], " ", SOURCES[0]]
    assert translate(*loaded, texts, batch_size) == [TARGETS[0], "", *TARGETS[1:], "", TARGETS[0]]
    assert translate(*loaded, []) == []


@pytest.mark.parametrize("num_beams", [None, 1])
def test_pairs_can_be_evaluated_between_two_steps_of_training(loaded, num_beams, recwarn):
    model, tokens = loaded
    model.train()
    scores, translations = evaluate_pairs(model, tokens, list(PAIRS.items()), num_beams=num_beams)
    assert translations == TARGETS and scores[SACREBLEU]["value"] == 100
    assert model.training
    batch = tokens(SOURCES[:1], text_target=TARGETS[:1], return_tensors="pt")
    model(**batch).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.zero_grad()
    model.eval()
    assert not [str(w.message) for w in recwarn if "early_stopping" in str(w.message)]


# The command ----------------------------------------------------------------------------------------------------------


def test_the_recorded_command_is_without_the_folders_of_this_machine(tmp_path):
    options = evaluate.Options(
        model=str(tmp_path / "model"),
        recipe=Path("mini-en-de"),
        data=tmp_path,
        tsv=[tmp_path / "a.tsv", Path("b.tsv")],
        paper_bleu=True,
        beams=2,
        output=Path("out.json"),
        hypotheses=Path("folder"),
    )
    expected = "python -m training.evaluate model --recipe mini-en-de --data DATA --tsv a.tsv --tsv b.tsv"
    assert evaluate.command_line(options) == f"{expected} --paper-bleu --beams 2"


def test_each_kind_of_test_set_is_scored(run, tmp_path):
    pairs = list(PAIRS.items())
    with lzma.open(tmp_path / "a.tsv.xz", "wt", encoding="utf-8") as file:
        file.writelines(f"{target}\t{source}\n" for source, target in pairs)
    write_tsv(tmp_path / "b.tsv", [(t, s) for s, t in pairs[:2]] + [("Falsch, alles ganz falsch!", "Thanks")])
    (tmp_path / "c.en").write_text("\n".join(SOURCES[:3]) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "c.de.gz", "wt", encoding="utf-8") as file:
        file.write("\r\n".join(TARGETS[:3]))
    sets = ["--tsv", tmp_path / "a.tsv.xz", "--tsv", tmp_path / "b.tsv", "--source-column", 1, "--target-column", 0]
    sets += ["--source", tmp_path / "c.en", "--reference", tmp_path / "c.de.gz"]
    results = ["--output", tmp_path / "new" / "scores.json", "--hypotheses", tmp_path / "texts", "--resamples", 20]
    status, out, err = run(evaluate, tiny_checkpoint(), *sets, *results)
    assert status == 0, err
    report = json.loads((tmp_path / "new" / "scores.json").read_text(encoding="utf-8"))
    assert [(r["dataset"], r["sentences"]) for r in report["results"]] == [("a.tsv.xz", 6), ("b.tsv", 3), ("c.en", 3)]
    values = [result[SACREBLEU]["value"] for result in report["results"]]
    assert values[0] == values[2] == 100 > values[1]
    for result in report["results"]:
        assert {SACREBLEU, CHRF, PAPER_GERMAN, LOWER_CASED} <= result.keys()
        assert f"{result[SACREBLEU]['value']:6.2f} ± " in out and result[SACREBLEU]["signature"] in out
    assert (report["beams"], report["alpha"]) == (4, 0.6)
    assert "tokenised" not in out
    assert (tmp_path / "texts" / "a.tsv.xz.txt").read_text(encoding="utf-8").splitlines() == TARGETS


def test_tokenised_scores_are_shown_when_asked_for(run, tmp_path):
    test = write_tsv(tmp_path / "t.tsv", PAIRS.items())
    status, out, err = run(evaluate, tiny_checkpoint(), "--tsv", test, "--paper-bleu", "--lowercase-tokenised")
    assert status == 0, err
    assert [line.strip().split("  ")[0] for line in out.splitlines()[1:]] == [
        SACREBLEU,
        CHRF,
        PAPER_GERMAN,
        LOWER_CASED,
    ]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--tsv", "absent.tsv"], "absent.tsv"),
        (["--tsv", "empty.tsv"], "empty.tsv has no pairs"),
        (["--source", "two.txt", "--reference", "three.txt"], "must have the same number of lines, but have 2 and 3."),
        (["--source", "empty.tsv", "--reference", "empty.tsv"], "empty.tsv has no pairs"),
        (["--source", "latin1.txt", "--reference", "two.txt"], "latin1.txt, line 2: not UTF-8 (byte 0xfc)"),
        (["--source", "two.txt"], "--source and --reference must be used together"),
        ([], "Add --recipe, --tsv, --sacrebleu, or --source and --reference."),
        (["--tsv", "good.tsv", "--source-column", "7"], "good.tsv, line 1"),
        (["--tsv", "good.tsv", "--source-column", "-1"], "'--source-column': must be 0 or more, not -1"),
        (["--tsv", "good.tsv", "--resamples", "-1"], "'--resamples': must be 0 or more, not -1"),
        (["--tsv", "good.tsv", "--device", "cuda:99"], "--device cpu"),
        (["--tsv", "good.tsv", "--batch-size", "0"], "'--batch-size': must be 1 or more"),
        (["--tsv", "good.tsv", "--output", "."], "is a folder, not a file"),
    ],
)
def test_evaluation_reports_errors_before_it_translates(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.txt").write_text("a\nb\n")
    (tmp_path / "three.txt").write_text("a\nb\nc\n")
    (tmp_path / "latin1.txt").write_bytes("a\nfür\n".encode("latin-1"))
    (tmp_path / "empty.tsv").touch()
    write_tsv(tmp_path / "good.tsv", PAIRS.items())
    monkeypatch.setattr(evaluate, "translate", lambda *arguments, **kwargs: pytest.fail("it translated"))
    status, out, err = run(evaluate, tiny_checkpoint(), *arguments)
    assert (status > 0, out) == (True, "") and message in err


def test_evaluation_of_a_folder_that_is_not_a_model(run, tmp_path):
    test = write_tsv(tmp_path / "t.tsv", PAIRS.items())
    (tmp_path / "config.json").write_text('{"model_type": "unheard-of"}')
    messages = {"no-such-model": "Checkpoint not found: 'no-such-model'", tmp_path: "Cannot load"}
    for model, message in messages.items():
        status, _, err = run(evaluate, model, "--tsv", test)
        assert status == 1 and message in err


def test_the_language_of_tokenised_scores_must_be_known(run, tmp_path):
    test = write_tsv(tmp_path / "t.tsv", PAIRS.items())
    model = shutil.copytree(tiny_checkpoint(), tmp_path / "model")
    (model / "about.json").unlink()
    status, _, err = run(evaluate, model, "--tsv", test, "--paper-bleu")
    assert status == 1 and "needs --target-language" in err
    status, out, _ = run(evaluate, model, "--tsv", test, "--paper-bleu", "--target-language", "fr", "--resamples", 0)
    assert status == 0 and PAPER in out


def test_no_scores_are_written_when_a_later_test_set_fails(run, tmp_path, monkeypatch):
    tests = [x for name in "ab" for x in ("--tsv", write_tsv(tmp_path / f"{name}.tsv", PAIRS.items()))]
    (tmp_path / "scores.json").write_text("before")
    calls = []

    def fail_at_second(model, tokenizer, texts, *arguments, **settings):
        calls.append(texts)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return ["x"] * len(texts)

    monkeypatch.setattr(evaluate, "translate", fail_at_second)
    with pytest.raises(RuntimeError):
        run(evaluate, tiny_checkpoint(), *tests, "--output", tmp_path / "scores.json", "--resamples", 0)
    assert (tmp_path / "scores.json").read_text() == "before"


@pytest.mark.parametrize("module", [evaluate, average, tokenizer, release])
def test_modules_explain_themselves(run, module):
    status, out, _ = run(module, "--help")
    assert status == 0 and re.match(rf"\s*usage: (python -m {module.__name__}|vaswani evaluate) ", out, re.IGNORECASE)
