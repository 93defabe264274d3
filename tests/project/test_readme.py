"""Every command and example in README.md, and the marked commands of the other pages, run as written.

The two blocks that install the package are run word for word by .ci/run, which has a network. test_guide.py runs the
unmarked examples of the guides.
"""

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from guide import PAGES as GUIDES
from guide import invoke, models_loaded_once, printed, run
from waiting import TIMEOUT


ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "conversion" / "README.md", ROOT / "training" / "README.md", *GUIDES]
BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>]*) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL)
RUN_BY_CI = ("install-command", "test-command")
RUN_HERE = ("in a clone", "needs the corpora", "opens a page")
NEEDS_HUB = "needs the Hub"  # test_locating.py and test_targets.py use such names with a Hub of their own
NEEDS_NETWORK = "needs the network"  # test_published.py runs them with a `curl` of its own
NOT_RUN = ("text", "dockerfile", "yaml", "ini")  # outputs, a cluster's commands, files for a server


def blocks(*pages):
    texts = (page.read_text(encoding="utf-8") for page in pages)
    return [(m["language"], m["mark"], m["code"]) for text in texts for m in BLOCK.finditer(text)]


def select(language, *marks, pages=PAGES):
    return [code for lang, mark, code in blocks(*pages) if lang == language and mark in marks]


@pytest.fixture
def environment():
    commands = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}


def test_every_block_is_run_somewhere():
    of_readme = {(language, mark) for language, mark, _ in blocks(ROOT / "README.md")}
    assert of_readme == {*(("bash", mark) for mark in (*RUN_BY_CI, "opens a page")), ("python", None), ("text", None)}
    of_guides = {(language, mark) for language, mark, _ in blocks(*GUIDES) if language not in ("console", "python")}
    assert of_guides <= {
        ("bash", "needs the corpora"),
        ("bash", NEEDS_HUB),
        ("bash", NEEDS_NETWORK),
        *((language, None) for language in NOT_RUN),
    }
    assert {mark for _, mark, _ in blocks(*PAGES)} == {None, *RUN_BY_CI, *RUN_HERE, NEEDS_HUB, NEEDS_NETWORK}
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for mark in RUN_BY_CI:
        assert len(select("bash", mark)) == 1
        assert f"run_block {mark}" in script


@pytest.fixture
def in_folder(tmp_path, monkeypatch, environment):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", environment["PATH"])
    with models_loaded_once():
        yield tmp_path


@pytest.mark.parametrize("code", select("bash", "in a clone"))
def test_examples_in_a_clone(code, in_folder):
    (in_folder / "tests").symlink_to(ROOT / "tests")
    for line in code.splitlines():
        assert run(line), line


@pytest.mark.parametrize("code", select("python", None, pages=[ROOT / "README.md"]))
def test_python_examples(code, in_folder):
    assert printed(code)


@pytest.mark.parametrize(
    "line", [x for code in select("bash", "needs the corpora") for x in code.splitlines() if "DATA" in x]
)
def test_commands_that_need_the_corpora_ask_for_them(line, in_folder):
    """All but the corpora is in place: each command gets as far as looking for the data."""
    for name in ("training", "vaswani_transformer"):
        (in_folder / name).symlink_to(ROOT / name)
    (in_folder / "DATA").mkdir()
    result = invoke(line)
    assert isinstance(result.exception, SystemExit) and result.exit_code in (1, 2), result.output
    assert "DATA/" in result.output and "No such option" not in result.output


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
