"""`python -m experiments`: what it runs, writes and says."""

import signal
from types import SimpleNamespace

import pytest

from experiments import __main__ as command
from experiments import report
from experiments.lab import ExperimentError


@pytest.fixture
def steps(monkeypatch) -> list:
    """What the command does, with an experiment called layers that measures nothing."""
    steps = []

    def run(lab):
        steps.append(("run", lab))
        return {"threads": 1}

    monkeypatch.setattr(command, "import_module", lambda name, package: SimpleNamespace(TITLE=name, run=run))
    monkeypatch.setattr(command, "write_results", lambda name, results: steps.append((name, results)))
    monkeypatch.setattr(command, "write_report", lambda: steps.append("report"))
    handler = signal.getsignal(signal.SIGTERM)
    yield steps
    signal.signal(signal.SIGTERM, handler)


def test_an_experiment_is_run_then_recorded_then_reported(steps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command.main(["layers", "--data", "data", "--work", "runs", "--jobs", "3"])
    (_, lab), *rest = steps
    assert (lab.data, lab.work, lab.jobs) == (tmp_path / "data", tmp_path / "runs", 3)
    assert rest == [("layers", {"threads": 1}), "report"]


def test_the_report_alone_runs_nothing(steps):
    command.main(["report"])
    assert steps == ["report"]


def test_a_failure_is_a_message_and_records_nothing(steps, monkeypatch):
    def fail(lab):
        raise ExperimentError("Training layers failed.")

    monkeypatch.setattr(command, "import_module", lambda name, package: SimpleNamespace(run=fail))
    with pytest.raises(SystemExit, match=r"^python -m experiments: Training layers failed\.$"):
        command.main(["layers"])
    assert steps == []


def test_sigterm_stops_the_command_as_ctrl_c_does(steps, monkeypatch):
    monkeypatch.setattr(
        command, "import_module", lambda *_: SimpleNamespace(run=lambda lab: signal.raise_signal(signal.SIGTERM))
    )
    with pytest.raises(SystemExit, match="interrupted; rerun the same command to resume"):
        command.main(["layers"])
    assert steps == []


@pytest.mark.parametrize("arguments", [["table4"], ["layers", "--jobs", "many"], ["layers", "--seeds", "3"]])
def test_wrong_usage_ends_with_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == 2 and "usage: python -m experiments" in capsys.readouterr().err


def test_experiments_that_were_not_run_are_listed_as_such(monkeypatch, capsys):
    monkeypatch.setattr(command, "read_results", lambda name: None)
    command.main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == report.EXPERIMENTS
    assert all(line.endswith("(not run yet)") for line in lines)


def test_a_docstring_becomes_text_and_commands():
    docstring = "Title.\n\n    python -m experiments x \\\n      --jobs 2\n\nQuestion: does it?\n\n- It does."
    assert report.prose(docstring) == (
        "```bash\npython -m experiments x \\\n  --jobs 2\n```\n\nQuestion: does it?\n\n- It does."
    )
    assert report.prose("Title.") == ""


def test_the_report_names_what_is_missing_and_shows_no_section_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "README", tmp_path / "README.md")
    monkeypatch.setattr(report, "EXPLORER", tmp_path / "findings.js")
    monkeypatch.setattr(report, "read_results", lambda name: None)
    report.write_report()
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert text.startswith((report.FOLDER / "introduction.md").read_text(encoding="utf-8").strip())
    assert text.endswith("Not run yet: " + ", ".join(f"`{name}`" for name in report.EXPERIMENTS) + ".\n")
    assert "**Result.**" not in text and (tmp_path / "findings.js").read_text().endswith("FACTS = {};\n")


def test_results_are_shown_with_their_machine_and_versions():
    results = {"machine": {"processor": "A CPU", "python": "3.11"}, "versions": {"torch": "2.13", "numpy": "2.4"}}
    assert report.origin(results) == "<sub>A CPU, Python 3.11, torch 2.13, numpy 2.4</sub>"
