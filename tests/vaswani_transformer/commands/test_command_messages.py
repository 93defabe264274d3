"""Error messages about wrong input: before any model is loaded, in plain words, without a traceback."""

import json
import os
import shutil
import subprocess
import sys

import httpx
import huggingface_hub
import pytest
from huggingface_hub.errors import RepositoryNotFoundError
from typer.testing import CliRunner

from vaswani_transformer import VaswaniConfig, catalogue, commands, loading
from vaswani_transformer.hub import check_on_hub


def run(*arguments) -> str:
    """The message of a command that must end with status 1."""
    result = CliRunner().invoke(commands.app, arguments)
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    assert "Usage:" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--device", "gpu"], "Unknown device 'gpu'. Use cpu, cuda, cuda:1 or mps."),
        (["--device", "meta"], "Unknown device 'meta'. Use cpu, cuda, cuda:1 or mps."),
        (["--output", "no/where/out"], "Cannot write no/where/out: the folder no/where does not exist."),
        (["--checkpoint", ""], "The name of the checkpoint is empty."),
        (["--checkpoint", "./absent"], "Folder not found: ./absent."),
        (["--checkpoint", "a/b/c"], "Folder not found: a/b/c."),
        (["--checkpoint", "pyproject.toml"], "pyproject.toml is a file. Give the folder that contains the model."),
        (["--checkpoint", "tests"], "No model in tests: config.json is missing, and it does not have the files of a"),
        (["--checkpoint", "tiny-en-de@main"], "tiny-en-de is included in this package and has no revisions."),
        (["--checkpoint", "tyni-en-de"], "not found: 'tyni-en-de'. Did you mean 'tiny-en-de'? Included: tiny-en-de."),
        (["--checkpoint", "other"], "not found: 'other'. Included: tiny-en-de. To use another model, give"),
        (["--to", "es"], "No included checkpoint translates into 'es'. Available: en → de. To use another model"),
        (["--from", "fr"], "No included checkpoint translates from 'fr'. Available: en → de."),
        (["--to", "fr", "--checkpoint", "tiny-en-de"], "into 'de', not 'fr'. Leave out --to, or choose another"),
        (["--from", "fr", "--checkpoint", "tiny-en-de"], "from 'en', not 'fr'. Leave out --from, or choose another"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_errors_found_before_the_model_loads(shipped, monkeypatch, request, arguments, message):
    monkeypatch.chdir(request.config.rootpath)
    monkeypatch.setattr(loading, "load_model", lambda *_: pytest.fail("the model was loaded"))
    assert message in run("translate", *arguments, "Hello!")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--beams", "0"], "must be 1 or more, not 0"),
        (["--beams", "two"], "must be a whole number, not 'two'"),
        (["--alpha", "-1"], "must be a number, 0 or more, not '-1'"),
        (["--dtype", "half"], "must be auto, float32, int8, bfloat16 or float16, not 'half'"),
        (["--n-best", "5", "--beams", "2"], "the beam size must be at least 5, but it is 2. Use --beams 5."),
    ],
    ids=" ".join,
)  # fmt: skip
def test_values_of_options(arguments, message):
    result = CliRunner().invoke(commands.app, ["translate", *arguments, "Hello!"])
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"d_model": 255}, "config.json: d_model is 255; sinusoidal positions need an even number"),
        ({"d_model": "big"}, "config.json: d_model must be a whole number, not 'big'."),
        ({"dropout": "x"}, "config.json: dropout must be a number, not 'x'."),
        ({"final_norm": 3}, "config.json: final_norm must be true or false or null, not 3."),
        ({"norm_position": "mid"}, "config.json: norm_position must be one of 'post', 'pre', not 'mid'."),
    ],
    ids=str,
)
def test_an_invalid_configuration_is_reported_by_its_field(folder, tmp_path, changes, message):
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(json.dumps({**settings, **changes}), encoding="utf-8")
    assert message in run("translate", "--checkpoint", str(tmp_path / "model"), "Hello!")


@pytest.mark.parametrize(
    "text, message",
    [("{oops", "config.json is not valid JSON (line 1, column 2)."), ("[]", "config.json must contain a JSON object")],
)
def test_info_of_a_damaged_configuration(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    assert message in run("info", str(tmp_path))


def test_missing_weights(tmp_path):
    VaswaniConfig(vocab_size=300, d_model=16).save_pretrained(tmp_path)
    assert "its weights (model.safetensors) are missing." in run("translate", "--checkpoint", str(tmp_path), "Hello!")


def test_the_rows_of_info_fit_into_80_columns(capsys):
    from rich.console import Console

    shapes = {"model.decoder.layers.0.cross_attn.out_proj.weight": (4096, 1024)}
    shapes["model.encoder.layers.0.feed_forward.fc1.weight"] = (4096, 1024)
    shapes["model.encoder.layers.0.feed_forward.fc1.bias"] = (4096,)
    Console(width=80).print(commands.info.parameter_table(shapes))
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 4, "a row was broken"
    assert rows[3].startswith("decoder.layers.*.cross_attn.out_proj ")


def test_the_hub_is_named_before_anyone_waits_for_it(folder, monkeypatch, capsys):
    def unreachable(api, name, revision, timeout):
        assert timeout <= 10
        raise OSError("no route to host")

    def unknown(api, name, revision, timeout):
        raise RepositoryNotFoundError("404", response=httpx.Response(404, request=httpx.Request("GET", "http://hub")))

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    check_on_hub(str(folder))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    with pytest.raises(ValueError, match="The Hub does not respond, and some/model@v1 is not downloaded"):
        check_on_hub("some/model@v1")
    assert capsys.readouterr().err == "Looking for some/model@v1 on the Hub ...\n"
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unknown)
    with pytest.raises(ValueError, match="Model not found on the Hub: some/model"):
        check_on_hub("some/model")


def test_without_an_answer_of_the_hub_a_downloaded_model_is_used(monkeypatch, capsys):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: 1 / 0)
    monkeypatch.setattr("vaswani_transformer.hub.try_to_load_from_cache", lambda *_, **__: "config.json")
    check_on_hub("some/model")
    assert "using the downloaded files" in capsys.readouterr().err
    assert huggingface_hub.constants.HF_HUB_OFFLINE, "every file would be asked for again"


def test_an_included_name_that_is_close_is_offered(shipped):
    with pytest.raises(ValueError, match="Did you mean 'tiny-en-de'"):
        catalogue.checkpoint_path("tiny-en-d")


# Exit status and help ------------------------------------------------------------------------------------------------


VERBS = {
    "translate": ["Hello!", "--checkpoint", "./absent"],
    "corpus": ["{file}", "--output", "out", "--checkpoint", "./absent"],
    "checkpoints": None,
    "cache": ["--clear", "absent"],
    "info": ["./absent"],
    "serve": ["--checkpoint", "./absent"],
    "explore": ["--checkpoint", "./absent"],
    "attention": ["Hello!", "--checkpoint", "./absent", "--output", "out.svg"],
    "train": ["absent.yaml", "--output", "out"],
    "finetune": ["{file}", "--output", "out", "--checkpoint", "./absent"],
    "evaluate": ["./absent", "--source", "{file}", "--reference", "{file}"],
    "calibrate": ["./absent", "{file}"],
    "convert": ["fairseq", "absent.pt", "out"],
    "publish": ["./absent", "ada/tiny"],
    "publish-page": ["ada/page", "--checkpoint", "./absent"],
}


def test_every_verb_has_an_example_of_a_failure():
    assert VERBS.keys() == {command.name or command.callback.__name__ for command in commands.app.registered_commands}


@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_command_line_ends_with_status_2(verb):
    result = CliRunner().invoke(commands.app, [verb, "--no-such-option"])
    assert result.exit_code == 2 and "No such option" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "--input", "absent.txt"],
        ["translate", "--glossary", "absent.tsv", "Hello!"],
        ["corpus", "absent.txt", "--output", "out"],
        ["finetune", "absent.tsv", "--output", "out"],
        ["evaluate", "mini-en-de", "--tsv", "absent.tsv"],
        ["evaluate", "mini-en-de", "--source", "absent.en", "--reference", "absent.de"],
        ["train", "mini-en-de", "--data", "absent", "--output", "out"],
    ],
    ids=" ".join,
)
def test_a_file_that_does_not_exist_is_a_wrong_command_line(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(commands.app, arguments)
    assert result.exit_code == 2 and "does not exist" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", [verb for verb, arguments in VERBS.items() if arguments])
def test_a_failure_ends_with_status_1_and_leaves_nothing(tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.tsv").write_text("Hello!\tHallo!\nGood morning.\tGuten Morgen.\n", encoding="utf-8")
    arguments = [argument.format(file="file.tsv") for argument in VERBS[verb]]
    result = CliRunner().invoke(commands.app, [verb, *arguments])
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit) and "error: " in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file.tsv"]


# Packages that no base dependency brings.
OPTIONAL = (
    "accelerate datasets faker matplotlib pyarrow sacrebleu sacremoses scipy zstandard schedulefree peft fastapi "
)
OPTIONAL += "uvicorn ray docx bs4 lxml translate ruamel onnx onnxruntime ctranslate2 sentencepiece google_crc32c"
WITHOUT = f"""
import sys
from vaswani_transformer import commands

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL.split()!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
for verb in sys.argv[1:]:
    try:
        commands.app([verb, "--help"], prog_name="vaswani")
    except SystemExit as end:
        assert not end.code, verb
"""


def test_help_works_without_any_extra_and_names_no_module_of_a_clone():
    command = [sys.executable, "-c", WITHOUT, *VERBS]
    environment = {**os.environ, "COLUMNS": "200"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Usage: vaswani") == len(VERBS)
    assert "python -m" not in result.stdout
