"""The guide's examples: what they print. Run as a program, it writes that into the pages.

    python tests/project/guide.py

A page has blocks of shell commands, each after "$ " with what it prints below, and blocks of Python.
"""

import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from vaswani_transformer import commands


PAGES = sorted(Path(__file__).parents[2].glob("docs/guide/*.md"))
ANY = "...\n"
BLOCK = re.compile(r"```(console|python)\n(.*?)```\n", re.DOTALL)


@contextlib.contextmanager
def models_loaded_once() -> Iterator[None]:
    """Makes the commands in this process load each model once."""
    load = commands.models.load_pipeline
    commands.models.load_pipeline = functools.cache(load)
    try:
        yield
    finally:
        commands.models.load_pipeline = load


def invoke(command: str):
    """Runs a command of `vaswani` in this process, which is faster: a new one imports torch first."""
    return CliRunner().invoke(commands.app, shlex.split(command, comments=True)[1:])


def run(command: str) -> str:
    """Returns what a command prints. Commands of `vaswani` alone run in this process."""
    if command.startswith("vaswani ") and not re.search(r"[|<>;&]", re.sub(r'"[^"]*"|#.*', "", command)):
        result = invoke(command)
        assert result.exit_code == 0, f"{command}\n{result.output}"
        return result.output
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=os.environ | {"PATH": path})
    assert result.returncode == 0, f"{command}\n{result.stderr}"
    return result.stdout


def shown(code: str) -> str:
    """Returns a block of commands, each followed by its output, or by "..." if the page shows only that."""
    entries = re.split(r"^\$ (.*)\n", code, flags=re.MULTILINE)[1:]
    outputs = ((command, wanted, run(command)) for command, wanted in zip(entries[::2], entries[1::2], strict=True))
    return "".join(f"$ {command}\n{ANY if wanted == ANY else output}" for command, wanted, output in outputs)


def memory() -> str:
    """Returns a small translation memory, in TMX, for the page on fine-tuning."""
    colours = {"red": "rote", "blue": "blaue", "green": "grüne", "old": "alte", "new": "neue", "small": "kleine"}
    things = {"valve": "Ventil", "pump": "Pumpe", "hose": "Schlauch", "filter": "Filter", "lamp": "Leuchte"}
    pairs = [(f"Check the {a} {b}.", f"{colours[a]} {things[b]} prüfen.") for a in colours for b in things]
    entries = [
        f'<tu><tuv xml:lang="en"><seg>{source}</seg></tuv><tuv xml:lang="de"><seg>{target}</seg></tuv></tu>'
        for source, target in pairs
    ]
    return f'<tmx version="1.4"><header srclang="en"/><body>{"".join(entries)}</body></tmx>'


def printed(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "example", "exec"), {"__name__": "__main__"})
    return out.getvalue()


def page_as_it_is(page: str) -> str:
    """Returns the page with the current output of its commands, which run in the current folder."""
    return BLOCK.sub(lambda m: f"```console\n{shown(m[2])}```\n" if m[1] == "console" else m[0], page)


if __name__ == "__main__":
    with models_loaded_once(), tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("memory.tmx").write_text(memory(), encoding="utf-8")
        for page in PAGES:
            page.write_text(page_as_it_is(page.read_text(encoding="utf-8")), encoding="utf-8")
