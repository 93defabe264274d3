"""`vaswani translate --processes`."""

import processes
from tiny_checkpoint import PAIRS, tiny_checkpoint
from typer.testing import CliRunner

from vaswani_transformer.commands import app
from vaswani_transformer.system import processes as pools


def test_a_file_is_translated_as_by_one_process(tmp_path, monkeypatch):
    context = processes.context()  # before the patch, which it would run into
    monkeypatch.setattr(pools.multiprocessing, "get_context", lambda method: context)
    lines = [*PAIRS, "", *PAIRS] * 20
    (tmp_path / "in").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ["--processes", "2", "--scores", "-i", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    run = CliRunner().invoke(app, ["translate", "--checkpoint", str(tiny_checkpoint()), *options])
    assert (run.exit_code, run.stderr, run.exception) == (0, "", None)
    written = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert [line.partition("\t")[2] for line in written] == [PAIRS.get(line, "") for line in lines]


def test_processes_are_for_files(translate):
    result = translate("--processes", "2", "Hello!")
    assert result.exit_code == 2 and "Pass it with --input" in result.stderr
