"""`training.confidence`: what counts as right, the regression, its figures, and what is kept."""

import json
import shutil

import pytest
import torch
from tiny_checkpoint import PAIRS, tiny_checkpoint

from training import confidence as measuring
from training import release
from vaswani_transformer.model.confidence_vaswani import Calibration, Features


def test_a_word_is_right_as_often_as_the_reference_has_it():
    assert measuring.is_right("The dog, the cat.", "the Dog.") == [True, True, False, False, False, True]


def test_the_regression_finds_what_the_labels_were_drawn_by():
    """Labels by known weights: it finds these again."""
    torch.manual_seed(1)
    true = Calibration(0.7, 0.4, 1.5)
    features = [
        Features([(i, i + 1) for i in range(10)], -3 * torch.rand(10), float(-2 * torch.rand(1))) for _ in range(2000)
    ]
    right = [(torch.rand(10) < true.probabilities(sentence)).tolist() for sentence in features]
    calibration = measuring.calibrate(features, right)
    assert calibration == pytest.approx(true, abs=0.1)
    values = [value for sentence in features for value in calibration.probabilities(sentence).tolist()]
    error, bins = measuring.reliability(values, [mark for marks in right for mark in marks])
    assert error < 0.02
    assert sum(row["words"] for row in bins) == 20_000


@pytest.mark.parametrize("sign, warns", [(1, False), (-1, True)])
def test_a_reversed_calibration_is_a_warning(sign, warns, capsys):
    """Such as from pairs whose columns are exchanged."""
    torch.manual_seed(1)
    true = Calibration(0.7 * sign, 0.4 * sign, 0.5)
    rows = []
    for _ in range(200):
        features = Features([(i, i + 1) for i in range(10)], -3 * torch.rand(10), float(-2 * torch.rand(1)))
        right = (torch.rand(10) < true.probabilities(features)).tolist()
        rows.append(measuring.Row("", features, right, ""))
    measuring.fit(rows)
    assert ("right less often" in " ".join(capsys.readouterr().err.split())) == warns


def test_the_calibration_error_of_a_wrong_scale():
    error, bins = measuring.reliability([0.95] * 100, [True] * 50 + [False] * 50)
    assert error == pytest.approx(0.45) and bins == [{"words": 100, "confidence": 0.95, "right": 0.5}]


def test_correlations_of_values_and_of_ranks():
    """By hand: the ranks of equal values are their mean, here 3.5, 1, 3.5, 2 beside 4, 1, 3, 2."""
    values, ranks = measuring.correlations([3.0, 1.0, 3.0, 2.0], [40.0, 1.0, 30.0, 2.0]).values()
    assert ranks == 0.949 and 0 < values < 1 and values != ranks
    assert set(measuring.correlations([1, 2, 3], [3, 2, 1]).values()) == {-1.0}
    assert set(measuring.correlations([0.5, 0.5], [1.0, 2.0]).values()) == {0.0}, "undefined, and NaN is not JSON"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(tiny_checkpoint(), tmp_path / "checkpoint")


def test_the_command_writes_figures_and_the_record(folder, tmp_path, capsys):
    rows = [f"{source}\t{target}\n" for source, target in [*PAIRS.items()] * 2]
    rows += [f"{source}\tGanz anders!\n" for source in PAIRS]
    (tmp_path / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    before = json.loads((folder / "generation_config.json").read_text())
    output = tmp_path / "figures"
    command = [str(folder), f"six={tmp_path / 'pairs.tsv'}", "--output", str(output)]
    release.main(["confidence", *command])
    assert json.loads((folder / "generation_config.json").read_text()) == before
    release.main(["confidence", *command, "--write"])
    report = json.loads((output / "confidence.json").read_text())
    settings = json.loads((folder / "generation_config.json").read_text())
    assert settings == {**before, "confidence": report["calibration"]}
    assert (output / "confidence.svg").read_text().startswith("<?xml")
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert results[0]["set"] == "six" and results[0]["sentences"] == 9


def test_wrong_input_is_a_message(folder, tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("a\tb\n", encoding="utf-8")
    for file, message in ((tmp_path / "pairs.tsv", "at least two"), (tmp_path / "none.tsv", "none.tsv")):
        with pytest.raises(SystemExit):
            release.main(["confidence", str(folder), f"x={file}", "--output", str(tmp_path / "out")])
        assert message in capsys.readouterr().err
