"""Every command and example in README.md, run as it stands there.

The two blocks that install the package are run word for word by .ci/run, which has a network.
"""

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from guide import models_kept, printed, run
from waiting import TIMEOUT


ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>]*) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL)
BLOCKS = [(m["language"], m["mark"], m["code"]) for m in BLOCK.finditer(README)]
RUN_BY_CI = ("install-command", "test-command")


def select(language, *marks):
    return [code for lang, mark, code in BLOCKS if lang == language and mark in marks]


@pytest.fixture
def environment():
    commands = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}


def test_every_block_is_run_somewhere():
    assert {language for language, _, _ in BLOCKS} == {"bash", "python", "text"}
    assert {mark for _, mark, _ in BLOCKS} == {None, *RUN_BY_CI, "in a clone", "needs the corpora", "opens a page"}
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for mark in RUN_BY_CI:
        assert len(select("bash", mark)) == 1
        assert f"run_block {mark}" in script


@pytest.fixture
def in_folder(tmp_path, monkeypatch, environment):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", environment["PATH"])
    with models_kept():
        yield tmp_path


@pytest.mark.parametrize("code", select("bash", None))
def test_shell_examples(code, in_folder):
    (in_folder / "english.txt").write_text("Good morning.\n\nI am hungry.\n", encoding="utf-8")
    for line in code.splitlines():
        assert run(line) or "--output" in line, line
    lines = (in_folder / "german.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3 and lines[0] and not lines[1] and lines[2]


@pytest.mark.parametrize("code", select("bash", "in a clone"))
def test_examples_in_a_clone(code, tmp_path, environment):
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    for line in code.splitlines():
        result = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert result.returncode == 0 and result.stdout, f"{line}\n{result.stderr}"


@pytest.mark.parametrize("code", select("python", None))
def test_python_examples(code, in_folder):
    assert printed(code)


@pytest.mark.parametrize(
    "line", [x for code in select("bash", "needs the corpora") for x in code.splitlines() if x.startswith("python")]
)
def test_commands_that_need_the_corpora_ask_for_them(line, environment):
    """All but the corpora is in its place: each command gets as far as looking for the data."""
    result = subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 1
    assert "DATA/" in result.stderr and "Traceback" not in result.stderr


def test_the_command_that_opens_a_page_serves_it(environment):
    """With the options that a test needs: no browser, and any free port."""
    (code,) = select("bash", "opens a page")
    command = [*code.strip().rpartition("/")[2].split(), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        said = next(line for line in process.stderr if "http://" in line)
        address = re.search(r"http://\S+", said)[0]
        try:
            with urllib.request.urlopen(address, timeout=TIMEOUT) as page:
                assert "The Transformer" in page.read().decode()
        finally:
            process.terminate()


def test_shows_what_the_first_command_prints(in_folder):
    """The translation under the first command is the checkpoint's."""
    (command,) = select("bash", "install-command")
    text = re.search(r'vaswani translate ".*"', command)[0]
    shown = README.split("```text\n")[1].split("\n```")[0]
    assert run(text).strip() == shown


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
