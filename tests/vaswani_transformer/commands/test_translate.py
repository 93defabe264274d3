"""`vaswani translate`, on a model that knows six sentences by heart."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_checkpoint import ABOUT, PAIRS
from typer.testing import CliRunner

from vaswani_transformer import VaswaniConfig, __version__, catalogue, checkpoint_path, commands
from vaswani_transformer.commands import lines as text_lines
from vaswani_transformer.commands.models import load_pipeline


ROOT = Path(__file__).parents[3]
SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())


@pytest.fixture
def interruptible():
    """Interrupts as in the foreground: a shell starts background jobs with interrupts ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def lines(result) -> list[str]:
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("\n")
    return result.stdout.split("\n")[:-1]


# Text in, text out ---------------------------------------------------------------------------------------------------


def test_each_argument_is_a_text(translate):
    assert lines(translate(*SOURCES)) == TARGETS


def test_an_argument_of_several_lines_gives_as_many(translate):
    assert lines(translate(f"{SOURCES[0]}\r\n\n{SOURCES[1]}")) == [TARGETS[0], "", TARGETS[1]]


@pytest.mark.parametrize(
    "text, expected",
    [
        (f"{SOURCES[0]}\n{SOURCES[1]}\n", [TARGETS[0], TARGETS[1]]),
        (f"{SOURCES[0]}\n{SOURCES[1]}", [TARGETS[0], TARGETS[1]]),
        (f"\n{SOURCES[0]}\r\n \n\n{SOURCES[1]}\r\n", ["", TARGETS[0], " ", "", TARGETS[1]]),
        (f"\ufeff{SOURCES[3]}\n", [TARGETS[3]]),
        ("\n", [""]),
    ],
    ids=["lines", "no last line end", "empty lines", "byte order mark", "one empty line"],
)
def test_standard_input_and_files_keep_their_lines(translate, tmp_path, text, expected):
    assert lines(translate(input=text.encode())) == expected
    (tmp_path / "in").write_bytes(text.encode())
    result = translate("--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"))
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "out").read_bytes().decode() == "".join(f"{line}\n" for line in expected)


def test_no_input_gives_no_output(translate):
    assert translate(input=b"").output == ""


def test_a_line_separator_inside_a_line_does_not_make_two(translate):
    odd = "Hello!\u2028Thanks\x0b\x85Two dogs run."
    assert len(lines(translate(input=f"{odd}\n{SOURCES[0]}\n".encode()))) == 2


def test_order_is_kept_whatever_the_lengths_and_the_batch(translate, tmp_path):
    (tmp_path / "in").write_text("\n".join(SOURCES * 7), encoding="utf-8")
    for batch_size in ("1", "5"):
        assert lines(translate("-i", str(tmp_path / "in"), "--batch-size", batch_size)) == TARGETS * 7


def test_line_breaks_and_tabs_in_translations_are_replaced():
    record = {"translation_text": "a\nb\r\nc\u2028d\te", "score": -0.5}
    assert text_lines.format_records(7, [record], 1, []) == "a b c d\te\n"
    assert text_lines.format_records(7, [record], 1, ["score"]) == "-0.5000\ta b c d e\n"
    assert text_lines.format_records(7, [record, record], 2, ["score"]) == "7\t-0.5000\ta b c d e\n" * 2


def test_arriving_lines_waits_only_for_what_is_not_there():
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as pipe:
        arrivals = text_lines.arriving_lines(stream, "pipe")
        pipe.write(b"one\ntwo\nthr")
        assert next(arrivals) == ["one", "two"]
        pipe.write("ee\nf\N{LATIN SMALL LETTER U WITH DIAERESIS}".encode()[:-1])
        assert next(arrivals) == ["three"]
        pipe.write(b"\xbcnf")
        pipe.close()
        assert list(arrivals) == [["fünf"]]


# Options -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, retries", [((), True), (("--n-best", "2"), False), (("--no-split",), False)])
def test_a_suspicious_line_is_retried_unless_the_models_own_output_is_wanted(
    translate, loaded, monkeypatch, options, retries
):
    calls, generate = [], loaded.model.generate
    monkeypatch.setattr(loaded.model, "generate", lambda **inputs: calls.append(inputs) or generate(**inputs))
    assert translate(*options, "In 1985 and 1986 zzz.").exit_code == 0
    assert (len(calls) > 1) == retries


def test_n_best_and_scores(translate, loaded):
    arguments = dict(num_return_sequences=3, return_scores=True)
    [first, second] = loaded([SOURCES[0], SOURCES[1]], **arguments)
    records = [("1", record) for record in first] + [("3", record) for record in second]
    three = f"{SOURCES[0]}\n\n{SOURCES[1]}\n".encode()
    rows = [line.split("\t") for line in lines(translate("--n-best", "3", "--scores", input=three))]
    assert rows.pop(3) == ["2", "0.0000", ""]
    assert [(n, text) for n, _, text in rows] == [(n, record["translation_text"]) for n, record in records]
    assert [float(s) for _, s, _ in rows] == pytest.approx([record["score"] for _, record in records], abs=2e-4)
    assert lines(translate("--n-best", "2", SOURCES[0])) == [f"1\t{r['translation_text']}" for r in first[:2]]
    assert lines(translate("--scores", SOURCES[0])) == [f"{rows[0][1]}\t{rows[0][2]}"]


@pytest.mark.parametrize(
    "options, settings",
    [
        ([], {"num_return_sequences": 1}),
        (["--beams", "2"], {"num_return_sequences": 1, "num_beams": 2}),
        (["--alpha", "0"], {"num_return_sequences": 1, "length_penalty": 0.0}),
        (["--n-best", "5", "--beams", "6", "--alpha", "1.5"],
         {"num_return_sequences": 5, "num_beams": 6, "length_penalty": 1.5}),
    ],
    ids=" ".join,
)  # fmt: skip
def test_search_options_reach_the_model_and_the_others_are_its_own(translate, loaded, monkeypatch, options, settings):
    seen = []
    generate = loaded.model.generate
    monkeypatch.setattr(loaded.model, "generate", lambda **kwargs: seen.append(kwargs) or generate(**kwargs))
    assert translate(*options, "Thanks").exit_code == 0
    assert [{name: kwargs[name] for name in kwargs.keys() - {"input_ids", "attention_mask"}} for kwargs in seen] == [
        settings
    ]


def test_languages_choose_an_included_checkpoint(vaswani, shipped):
    assert lines(vaswani("translate", SOURCES[0])) == TARGETS[:1]
    assert lines(vaswani("translate", "--to", "DE", SOURCES[0])) == TARGETS[:1]
    assert lines(vaswani("translate", "--checkpoint", ABOUT["name"], SOURCES[0])) == TARGETS[:1]


def test_languages_reach_the_pipeline_because_a_folder_may_not_record_them(translate, loaded, monkeypatch):
    seen, run = [], loaded.translate
    monkeypatch.setattr(loaded, "translate", lambda *texts, **given: seen.append(given) or run(*texts, **given))
    assert translate(SOURCES[0]).exit_code == translate("--from", "en-GB", "--to", "DE", SOURCES[0]).exit_code == 0
    languages = [(settings.get("source_language"), settings.get("target_language")) for settings in seen]
    assert languages == [(None, None), ("en", "de")]


def test_threads(folder):
    arguments = ["translate", "--checkpoint", str(folder), "--device", "cpu", "--threads", "2", SOURCES[0]]
    assert lines(CliRunner().invoke(commands.app, arguments)) == TARGETS[:1]
    assert torch.get_num_threads() == 2  # the fixture `seed` makes it 1 again


def test_half_precision_weights_are_float32_on_a_cpu_unless_asked_otherwise(folder, loaded):
    assert str(loaded.dtype) == "torch.float32"
    assert str(load_pipeline(str(folder), "cpu", "bfloat16").dtype) == "torch.bfloat16"


def test_a_hub_id_is_left_to_the_library():
    assert catalogue.resolve("someone/vaswani-base") == "someone/vaswani-base"


def test_a_hub_id_may_name_a_revision_and_a_folder_may_not(folder, tmp_path):
    for revision in ("main", "v1.0", "refs/pr/3", "0123456789abcdef"):
        assert catalogue.resolve(f"someone/model@{revision}") == f"someone/model@{revision}"
        assert catalogue.split_revision(f"someone/model@{revision}") == ("someone/model", revision)
    assert catalogue.split_revision("someone/model") == ("someone/model", None)
    odd = tmp_path / "of@home"
    odd.mkdir()
    (odd / "config.json").write_bytes((folder / "config.json").read_bytes())
    assert catalogue.split_revision(catalogue.resolve(str(odd))) == (str(odd), None)
    for wrong in ("someone/model@", "someone/model@a b", f"{ABOUT['name']}@main"):
        with pytest.raises(ValueError, match="not found|has no revisions"):
            catalogue.resolve(wrong)


# Messages ------------------------------------------------------------------------------------------------------------


def test_misuse_is_explained(translate, vaswani, shipped, tmp_path):
    (tmp_path / "in").write_text("x")
    here, absent = str(tmp_path), str(tmp_path / "absent")
    for arguments, words in [
        (["--beams", "0"], ["--beams", "1"]),
        (["--n-best", "0"], ["--n-best", "1"]),
        (["--n-best", "5"], ["--n-best", "beam size must be at least 5", "it is 4", "Use --beams 5"]),
        (["--n-best", "5", "--beams", "2"], ["--n-best", "it is 2", "Use --beams 5"]),
        (["--alpha", "-1"], ["--alpha"]),
        (["--alpha", "nan"], ["--alpha"]),
        (["--alpha", "inf"], ["--alpha", "must be a number, 0 or more"]),
        (["--input", absent], ["--input", absent, "does not exist"]),
        (["--input", here], ["--input", "directory"]),
        (["--input", f"{here}/in", "--output", f"{here}/in"], ["--output", "same as the input file"]),
        (["--input", f"{here}/in", "text"], ["either texts or --input"]),
    ]:
        result = translate(*arguments, *([] if "--input" in arguments else ["Hello!"]))
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert all(word in result.stderr for word in words), result.stderr
    assert (tmp_path / "in").read_text() == "x"


def test_what_is_not_utf8_is_named_and_the_lines_before_it_are_translated(translate, tmp_path):
    text = f"{SOURCES[0]}\n{SOURCES[1]}\nna\xefve\n{SOURCES[2]}\n".encode("latin-1")
    result = translate(input=text)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == TARGETS[:2]
    assert "standard input, line 3: not UTF-8 (byte 0xef at position 3)" in result.stderr
    (tmp_path / "in").write_bytes(text)
    result = translate("--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "in, line 3: not UTF-8" in result.stderr
    assert not (tmp_path / "out").exists()
    assert "not valid UTF-8" in translate("\udcff").stderr


def test_long_lines_are_named(translate, monkeypatch):
    short, long = "Hello!", "Hello! " * 30
    result = translate("--no-split", "--batch-size", "2", short, *[long] * 9, short)
    assert len(lines(result)) == 11
    warnings = result.stderr.splitlines()
    assert [w.split(": it has")[0] for w in warnings[:-1]] == [f"warning: line {n}" for n in range(2, 11)]
    assert f"{ABOUT['name']} was trained on at most {ABOUT['max_length']}" in warnings[0]
    assert "9 lines have warnings" in warnings[-1]


@pytest.mark.parametrize("long", ["Hello! " * 15_000, " " * 105_000 + "Hello!"], ids=["words", "blanks"])
def test_a_line_over_the_limit_is_refused_and_the_others_are_translated(translate, loaded, monkeypatch, tmp_path, long):
    lengths = []
    generate = loaded.model.generate
    monkeypatch.setattr(
        loaded.model, "generate", lambda **inputs: lengths.append(inputs["input_ids"].shape[1]) or generate(**inputs)
    )
    (tmp_path / "in").write_text(f"{SOURCES[0]}\n{long}\n{SOURCES[1]}\n", encoding="utf-8")
    result = translate("--no-split", "-i", str(tmp_path / "in"), "-o", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines() == [TARGETS[0], "", TARGETS[1]]
    refused = f"error: line 2 has {len(long):,} characters, but the limit is 1,024 tokens. It was not translated"
    assert refused in result.stderr
    assert max(lengths) < 50, "the model was given the long line"


@pytest.mark.parametrize("name", ["--max-sentence", "--max-source-length"])
def test_long_sentences_are_split_at_the_given_length(translate, loaded, monkeypatch, name):
    settings = []
    monkeypatch.setattr(
        loaded, "translate", lambda texts, *_, **given: settings.append(given) or [[{"translation_text": ""}]]
    )
    assert translate(name, "7", SOURCES[0]).exit_code == 0
    assert settings[0]["longest_sentence"] == 7
    refused = translate("--no-split", name, "7", SOURCES[0])
    assert refused.exit_code == 2 and "It has no effect with --no-split" in refused.stderr
    assert "--max-source-length" not in translate("--help").stdout


def test_the_output_of_a_line_that_is_too_long_has_all_columns(translate, loaded, monkeypatch):
    length = len(loaded.tokenizer(SOURCES[0])["input_ids"])
    monkeypatch.setattr(commands.translate, "MAX_UNSPLIT_LINE", length - 1)
    result = translate("--no-split", "--n-best", "2", "--scores", SOURCES[0], SOURCES[1])
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "1\t0.0000\t"
    assert f"line 1 has {length} tokens, but the limit is {length - 1} tokens" in result.stderr
    monkeypatch.setattr(commands.translate, "MAX_UNSPLIT_LINE", length)
    assert translate("--no-split", SOURCES[0]).stdout == f"{TARGETS[0]}\n"


def test_a_line_beyond_learned_positions_is_refused(translate, loaded, monkeypatch):
    learned = VaswaniConfig(position_encoding="learned", max_position_embeddings=42, position_offset=2)
    monkeypatch.setattr(loaded.model, "config", learned)
    result = translate("--no-split", "Hello! " * 30, SOURCES[0])
    assert (result.exit_code, result.stdout) == (1, f"\n{TARGETS[0]}\n")
    assert "line 1 has" in result.stderr
    assert "learned positions for only 40" in result.stderr


@pytest.mark.parametrize(
    "bad",
    [{"num_beams": "four"}, {"num_beams": 0}, {"num_beams": -1}, {"max_length": 10**9}, {"eos_token_id": 999}],
    ids=str,
)
def test_settings_of_a_checkpoint_that_cannot_be_used_are_one_line(folder, tmp_path, bad):
    copy = shutil.copytree(folder, tmp_path / "copy")
    settings = json.loads((copy / "generation_config.json").read_text(encoding="utf-8"))
    (copy / "generation_config.json").write_text(json.dumps({**settings, **bad}), encoding="utf-8")
    result = CliRunner().invoke(commands.app, ["translate", "--checkpoint", str(copy), "--device", "cpu", SOURCES[0]])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {ABOUT['name']} cannot translate: ") and result.stderr.count("\n") == 1
    assert next(iter(bad)) in result.stderr


def test_output_that_cannot_be_written(translate, tmp_path):
    result = translate("--output", str(tmp_path / "absent" / "out"), "Hello!")
    assert result.exit_code == 1
    assert "Cannot write" in result.stderr
    assert "does not exist" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk(translate):
    result = translate("--output", "/dev/full", "Hello!")
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "about.json"])
def test_a_broken_checkpoint_is_a_message(folder, tmp_path, name):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(b"{" if path.name == name else path.read_bytes())
    result = CliRunner().invoke(commands.app, ["translate", "--checkpoint", str(tmp_path), "Hello!"])
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in (1, 2)
    assert str(tmp_path) in result.stderr


def test_a_device_that_is_not_there(folder):
    result = CliRunner().invoke(
        commands.app, ["translate", "--checkpoint", str(folder), "--device", "cuda:99", "Hello!"]
    )
    assert result.exit_code == 1
    assert "device 'cuda:99' cannot be used here" in result.stderr or "without CUDA" in result.stderr


# Interrupts and closed pipes -----------------------------------------------------------------------------------------


def test_an_interrupt_takes_effect_after_the_lines_being_written(interruptible):
    written = []
    with pytest.raises(KeyboardInterrupt), text_lines.interrupts_held():
        written.append("first half")
        signal.raise_signal(signal.SIGINT)
        written.append("second half")
    assert written == ["first half", "second half"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_leaves_whole_lines_in_the_file(translate, loaded, monkeypatch, tmp_path, interruptible):
    (tmp_path / "in").write_text("\n".join(SOURCES * 8), encoding="utf-8")
    generate, calls = loaded.model.generate, []

    def interrupted(**kwargs):
        calls.append(kwargs)
        if len(calls) > 20:
            signal.raise_signal(signal.SIGINT)
        return generate(**kwargs)

    monkeypatch.setattr(loaded.model, "generate", interrupted)
    monkeypatch.setattr(commands.translate, "FILE_WINDOW", 16)
    result = translate("--batch-size", "1", "-i", str(tmp_path / "in"), "-o", str(tmp_path / "out"))
    assert result.exit_code == 130
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines() == (TARGETS * 8)[:16]
    assert "holds the translations of the first 16 lines" in result.stderr


# Other processes: what an interpreter imports, and what a terminal sends ---------------------------------------------


def start(*arguments, script="", **options) -> subprocess.Popen:
    """The installed command's entry point in a new interpreter, after `script`."""
    code = f"""import signal, sys
sys.argv[0] = "vaswani"
signal.signal(signal.SIGINT, signal.default_int_handler)
{script}
from vaswani_transformer.commands import main
main()"""
    options = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) | options
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment, **options)


# A model that takes no time to load and translates into capitals.
FAKE = """
from types import SimpleNamespace as N
from vaswani_transformer.commands import models

def translate(texts, batch_size, progress, **settings):
    return [[{"translation_text": text.upper()}] for text in texts]

pipeline = N(model=N(generation_config=N(num_beams=4)), translate=translate)
models.load_pipeline = lambda *arguments: pipeline
"""


@pytest.mark.parametrize("command", ["--help", "--version", "checkpoints", "translate --help", "info ."])
def test_what_needs_no_model_imports_neither_torch_nor_transformers(command, folder):
    script = "import atexit; atexit.register(lambda: print('imported', {'torch', 'transformers'} & {*sys.modules}))"
    out, _ = start(*command.split(), script=script, cwd=folder).communicate()
    assert out.splitlines()[-1] == "imported set()"
    assert len(out.splitlines()) > 1


def test_the_deferred_package_is_the_whole_package_when_it_is_needed(folder):
    script = (
        "import vaswani_transformer as v\n"
        "assert 'transformers' not in sys.modules\n"
        "from vaswani_transformer import VaswaniConfig\n"
        "from transformers import AutoConfig\n"
        f"assert type(AutoConfig.from_pretrained({str(folder)!r})) is v.VaswaniConfig\n"
        "assert set(v.__all__) <= set(dir(v))"
    )
    process = start("--version", script=script)
    out, error = process.communicate()
    assert (process.returncode, out) == (0, f"vaswani-transformer {__version__}\n"), error


def test_lines_are_answered_as_they_arrive_and_ctrl_c_is_quiet(folder):
    process = start("translate", "--checkpoint", str(folder), "--device", "cpu", bufsize=1, encoding="utf-8")
    for source, target in PAIRS.items():
        process.stdin.write(f"{source}\n")
        assert process.stdout.readline() == f"{target}\n"
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_a_reader_that_closes_the_pipe_is_not_an_error(folder):
    process = start("translate", "--checkpoint", str(folder), script=FAKE, bufsize=1)
    process.stdin.write("line\n")
    assert process.stdout.readline() == "LINE\n"
    process.stdout.close()
    process.stdin.write("line\n")
    assert process.stderr.read() == ""
    assert process.wait() == 1


IMPORTED_FIRST = """
import sys
import vaswani_transformer  # and no name of it is used
from transformers import AutoModelForSeq2SeqLM, pipeline
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])
assert type(model).__module__ == "vaswani_transformer.model.modeling_vaswani"
print(pipeline("translation", model=sys.argv[1])("Thank you."))
"""


def test_importing_the_package_registers_the_model_and_the_pipeline():
    result = subprocess.run(
        [sys.executable, "-c", IMPORTED_FIRST, checkpoint_path("mini-en-de")], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "Dank" in result.stdout


def test_module_can_be_run():
    result = subprocess.run(
        [sys.executable, "-m", "vaswani_transformer", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.stdout == f"vaswani-transformer {__version__}\n"


# Confidence ----------------------------------------------------------------------------------------------------------


def test_without_a_calibration_the_note_names_a_command_that_works(translate, folder, monkeypatch):
    for arguments in (f"{folder} FILE", "tiny-en-de FILE --output FOLDER"):
        note = " ".join(translate("--confidence", SOURCES[0]).stderr.split())
        assert note.startswith("note: tiny-en-de has no calibration of its own")
        assert f"`vaswani calibrate {arguments}` fits it" in note
        monkeypatch.setattr(catalogue, "CHECKPOINTS", folder.parent)
