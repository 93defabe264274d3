"""Error messages of the training programs: a sentence, and usage only if the usage was wrong."""

import re
import subprocess
import sys
from importlib import import_module

import pytest


FILES = {
    "one.txt": "A dog.\nTwo cats.\n",
    "short.txt": "Ein Hund.\n",
    "pairs.tsv": "A dog.\tEin Hund.\n",
    "typo.yaml": "{name: x, source_language: en, target_language: de, preset: base, vocab_siez: 300,"
    " data: {train: [{path: a.tsv}]}}",
    "word.yaml": "{name: x, source_language: en, target_language: de, preset: base, vocab_size: many,"
    " seed: -1, optimisation: {precision: half}, data: {train: []}}",
    "wrong.yaml": "{name: x, source_language: en, target_language: de, preset: base, vocab_size: 300,"
    " model: {dropout: 2}, data: {train: [{path: a.tsv}]}}",
    "open.yaml": "a: [1\n",
    "pairs.yaml": "{name: x, source_language: en, target_language: de, preset: base, vocab_size: 300,"
    " data: {train: [{path: absent.tsv}]}}",
    "grid.yaml": "{recipe: pairs.yaml, runs: {one: {}, two: {set: [seed=3]}}}",
    "nogrid.yaml": "{runs: {}}",
}
STATUS_1 = [
    ("evaluate mini-en-de --tsv one.txt", "one.txt, line 1 has 1 column; column 1 is missing (the first is 0)."),
    ("evaluate mini-en-de --tsv one.txt", "Columns must be separated by tabs."),
    ("evaluate nope --tsv pairs.tsv", "Checkpoint not found: 'nope'"),
    ("evaluate mini-en-de --tsv pairs.tsv --device gpu", "Unknown device 'gpu'"),
    ("evaluate mini-en-de --tsv pairs.tsv --output one.txt/x", "Cannot write one.txt/x: one.txt is a file"),
    (
        "evaluate mini-en-de --tsv pairs.tsv --beams 2000000",
        "num_beams is 2000000 (must be an integer from 1 to 1,000)",
    ),
    (
        "likelihood mini-en-de --source one.txt --target short.txt",
        "short.txt has fewer lines than one.txt (it ends",
    ),
    ("recipe typo.yaml", "vocab_siez is unknown; did you mean 'vocab_size'?"),
    ("recipe word.yaml", "vocab_size is 'many'; it must be a whole number"),
    ("recipe word.yaml", "seed is -1; it must be 0 or more"),
    ("recipe word.yaml", "optimisation.precision is 'half'; it must be 'float32', 'bfloat16' or 'auto'"),
    ("recipe word.yaml", "data.train is []; it must be a list with at least one entry"),
    ("recipe wrong.yaml", "model: dropout is 2; it must be at least 0 and less than 1."),
    ("recipe open.yaml", "open.yaml is not valid YAML (line 2, column 1): expected"),
    ("recipe mini-en-da", "No such recipe: mini-en-da. Did you mean 'mini-en-de'? The included recipes are"),
    ("recipe mini-en-de --set seed=x", "mini-en-de: - seed is 'x'"),
    ("grid grid.yaml --output runs", "Run one: No such file: absent.tsv. Set the data folder with --data."),
    ("grid nogrid.yaml --output runs", "nogrid.yaml is not a grid: 'recipe' is missing."),
    ("grid absent.yaml --output runs", "absent.yaml: No such file or directory."),
    ("train pairs.yaml --output one.txt", "Cannot write one.txt/model: one.txt is a file, not a folder."),
    ("train pairs.yaml --output run", "absent.tsv. Set the data folder with --data."),
    ("average mean.safetensors absent", "No such file or folder: absent."),
    ("finetune pairs.tsv --output .", ". already exists and is not empty. Choose another name, or delete it."),
    ("finetune pairs.tsv --output new --device gpu", "Unknown device 'gpu'"),
]
USAGE = [
    ("evaluate mini-en-de --source one.txt", "--source and --reference must be used together."),
    ("evaluate mini-en-de --tsv pairs.tsv --beams 0", "Invalid value for '--beams': must be 1 or more, not 0"),
    ("evaluate mini-en-de --tsv absent.tsv", "'absent.tsv' does not exist."),
    ("finetune absent.tsv --output new --device cpu", "'absent.tsv' does not exist."),
    ("train pairs.yaml --output run --data absent", "'absent' does not exist."),
    ("grid grid.yaml --output runs --jobs many", "argument --jobs: must be a whole number, not 'many'"),
]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The exit status and the message of a command in a folder with `FILES`."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")  # messages in frames keep their words together

    def command(line: str) -> tuple[int, str]:
        module, *arguments = line.split()
        with pytest.raises(SystemExit) as end:
            import_module(f"training.{module}").main(arguments)
        return end.value.code, re.sub(r"\s+", " ", capsys.readouterr().err)

    return command


@pytest.mark.parametrize("line, message", STATUS_1, ids=str)
def test_errors_are_a_sentence_without_usage(run, line, message):
    status, error = run(line)
    assert message in error
    assert status == 1 and "usage:" not in error.lower()


@pytest.mark.parametrize("line, message", USAGE, ids=str)
def test_wrong_usage_shows_the_usage(run, line, message):
    status, error = run(line)
    assert message in error
    assert status == 2 and error.lower().startswith("usage:")


def test_a_run_that_cannot_be_prepared_leaves_no_folder(run, tmp_path):
    assert run("train pairs.yaml --output run")[0] == 1
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    assert run("train pairs.yaml --output run")[0] == 1
    assert (tmp_path / "run").exists(), "it was there before"


def test_a_missing_file_is_noticed_before_the_others_are_read(run, tmp_path):
    recipe = (
        FILES["pairs.yaml"].replace("absent", "pairs").replace("data: {", "data: {validation: [{path: absent.tsv}], ")
    )
    (tmp_path / "late.yaml").write_text(recipe, encoding="utf-8")
    status, message = run("train late.yaml --output new/run")
    assert status == 1 and "No such file: absent.tsv. Set the data folder with --data." in message
    assert not (tmp_path / "new").exists()


def test_no_run_of_a_grid_starts_without_its_data(run, tmp_path):
    run("grid grid.yaml --output runs")
    assert not (tmp_path / "runs").exists()


HELP = """
import importlib, sys
sys.argv = ["vaswani"]  # the package imports torch at once in any program but its own
for name in sys.orig_argv[3:]:
    try:
        importlib.import_module(name).main(["--help"])
    except SystemExit:
        pass
assert "torch" not in sys.modules
"""


def test_help_does_not_wait_for_torch(request):
    names = "train evaluate recipe grid tokenizer average release finetune likelihood user_lines phrases".split()
    program = [sys.executable, "-c", HELP, *(f"training.{name}" for name in names), "conversion.__main__"]
    done = subprocess.run(program, cwd=request.config.rootpath, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    program = [sys.executable, "-X", "importtime", "-m", "training.grid", "--help"]
    done = subprocess.run(program, cwd=request.config.rootpath, capture_output=True, text=True)
    assert done.returncode == 0 and "usage:" in done.stdout
    assert "training.recipe" in done.stderr and " torch\n" not in done.stderr
