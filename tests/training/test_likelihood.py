"""Given translations are scored as the model's own loss scores them."""

import pytest
import torch
from tiny_checkpoint import PAIRS, tiny_checkpoint
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from training import likelihood
from training.likelihood import log_likelihoods


@pytest.fixture(scope="module")
def loaded():
    folder = tiny_checkpoint()
    return AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)


def test_each_pair_has_the_likelihood_that_it_has_alone(loaded):
    model, tokenizer = loaded
    pairs = [*list(PAIRS.items())[:9], ("", "x"), ("x", "")]
    for (source, target), (total, count) in zip(pairs, log_likelihoods(model, tokenizer, pairs, 4), strict=True):
        inputs, labels = tokenizer(source, return_tensors="pt"), tokenizer(text_target=target, return_tensors="pt")
        loss = model.eval()(**inputs, labels=labels.input_ids).loss.item()
        assert count == labels.input_ids.numel()
        assert total == pytest.approx(-loss * count, rel=1e-4, abs=1e-4)


def test_a_reference_is_likelier_than_another_sentence(loaded):
    sources, targets = zip(*list(PAIRS.items())[:8], strict=True)
    right = sum(total for total, _ in log_likelihoods(*loaded, list(zip(sources, targets, strict=True))))
    wrong = sum(total for total, _ in log_likelihoods(*loaded, list(zip(sources, reversed(targets), strict=True))))
    assert right > wrong


def test_the_command_takes_a_table_or_two_files(tmp_path, capsys, monkeypatch):
    pairs = list(PAIRS.items())[:3]
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    for number, name in enumerate(("source", "target")):
        (tmp_path / name).write_text("".join(f"{pair[number]}\n" for pair in pairs), encoding="utf-8")
    likelihood.main([str(tiny_checkpoint()), str(tmp_path / "pairs.tsv")])
    table = capsys.readouterr()
    likelihood.main(
        [str(tiny_checkpoint()), "--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]
    )
    assert capsys.readouterr().out == table.out and table.out.count("\n") == 3
    assert "3 pairs" in table.err and "nats per token" in table.err
    (tmp_path / "empty.tsv").write_text("")
    empty, batch = [str(tmp_path / "empty.tsv")], [str(tmp_path / "pairs.tsv"), "--batch-size", "0"]
    for wrong in (
        empty,
        batch,
        [],
        ["a.tsv", "--source", "b", "--target", "c"],
        ["--source", "a"],
        [str(tmp_path / "none.tsv")],
    ):
        with pytest.raises(SystemExit):
            likelihood.main([str(tiny_checkpoint()), *wrong])
    errors = capsys.readouterr().err
    assert "none.tsv" in errors and "has no pairs" in errors and "--batch-size: must be 1 or more" in errors
