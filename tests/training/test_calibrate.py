"""`vaswani calibrate`: what it writes, and where."""

import json
import shutil
from statistics import mean

import pytest
from tiny_checkpoint import PAIRS, tiny_checkpoint
from typer.testing import CliRunner

from vaswani_transformer import TranslationPipeline, load
from vaswani_transformer.commands import app


ROWS = [f"{source}\t{target}\n" for source, target in PAIRS.items()] * 4
WRONG = [f"{source}\tGanz anders!\n" for source in PAIRS]


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(tiny_checkpoint(), tmp_path / "checkpoint")


@pytest.fixture
def pairs(tmp_path):
    """The model translates four of five lines as their references."""
    path = tmp_path / "pairs.tsv"
    path.write_text("".join([*ROWS, *WRONG]), encoding="utf-8")
    return path


def calibrate(*arguments):
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments)])


def settings_of(folder):
    return json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))


def test_it_changes_the_folder_and_only_its_confidence(folder, pairs):
    before = settings_of(folder)
    result = calibrate(folder, pairs)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "15 pairs to fit, 15 pairs to measure" in result.stdout
    after = settings_of(folder)
    assert after.pop("confidence").keys() == {"word", "sentence", "bias"} and "alignment_head" not in after
    assert after == before
    assert f"{folder / 'generation_config.json'} is updated." in result.stdout


def test_a_calibrated_confidence_is_the_share_of_right_words(folder, pairs):
    calibrate(folder, pairs)
    model, tokenizer = load(folder, "float32")
    records = TranslationPipeline(model=model, tokenizer=tokenizer)(list(PAIRS), return_confidence=True)
    values = [value for record in records for _, value in record["word_confidences"]]
    assert mean(values) == pytest.approx(4 / 5, abs=0.1)


def test_a_copy_is_calibrated_instead(folder, pairs, tmp_path):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = calibrate(folder, pairs, "--output", tmp_path / "mine")
    assert result.exit_code == 0 and result.stdout.endswith(f"{tmp_path / 'mine'} is ready.\n")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    copied = {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    assert {name for name in before if copied[name] != before[name]} == {"generation_config.json"}
    assert "confidence" in settings_of(tmp_path / "mine")


def test_a_calibration_that_is_not_better_is_not_written(folder, pairs):
    calibrate(folder, pairs)
    before = settings_of(folder)
    result = calibrate(folder, pairs)
    assert result.exit_code == 0 and "(before)" in result.stdout
    assert "is not better, so confidence stays as it is" in result.stdout
    assert settings_of(folder) == before


def test_a_head_for_alignments_is_looked_for_in_the_references(folder, tmp_path):
    lines = [f"{source} {i} + {i + 40}\t{target} {i} + {i + 40}\n" for i, (source, target) in enumerate(PAIRS.items())]
    (tmp_path / "numbers.tsv").write_text("".join(lines * 4), encoding="utf-8")
    result = calibrate(folder, tmp_path / "numbers.tsv")
    assert "Word alignments: " in result.stdout and "copied names, numbers and marks in the source" in result.stdout
    assert ("alignment_head" in settings_of(folder)) == ("Word alignments: layer" in result.stdout)


@pytest.mark.parametrize(
    "checkpoint, lines, message",
    [
        ("mini-en-de", 30, "mini-en-de is not a model folder. Add --output FOLDER"),
        ("ada/absent", 30, "ada/absent is not a model folder. Add --output FOLDER"),
        (None, 19, "has only 19 pairs; at least 20 are needed"),
        ("absent", 30, "Checkpoint not found: 'absent'"),
    ],
)
def test_refusals_are_one_sentence(folder, tmp_path, checkpoint, lines, message):
    (tmp_path / "some.tsv").write_text("".join((ROWS * 2)[:lines]), encoding="utf-8")
    result = calibrate(checkpoint or folder, tmp_path / "some.tsv")
    assert result.exit_code == 1 and message in " ".join(result.stderr.split()) and not result.stdout


def test_an_output_that_is_not_empty_is_kept(folder, pairs):
    result = calibrate("mini-en-de", pairs, "--output", folder)
    assert result.exit_code == 1 and "already exists and is not empty" in result.stderr
