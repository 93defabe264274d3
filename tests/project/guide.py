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
BLOCK = re.compile(r"```(console|python)\n(.*?)```\n", re.DOTALL)


@contextlib.contextmanager
def models_kept() -> Iterator[None]:
    """The commands in this process load each model once."""
    load = commands.translate.load_pipeline
    commands.translate.load_pipeline = functools.cache(load)
    try:
        yield
    finally:
        commands.translate.load_pipeline = load


def run(command: str) -> str:
    """What a command prints; those of `vaswani` run in this process, which is faster."""
    if command.startswith("vaswani ") and not re.search(r"[|<>;&]", re.sub(r'"[^"]*"', "", command)):
        result = CliRunner().invoke(commands.app, shlex.split(command, comments=True)[1:])
        assert result.exit_code == 0, f"{command}\n{result.output}"
        return result.output
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=os.environ | {"PATH": path})
    assert result.returncode == 0, f"{command}\n{result.stderr}"
    return result.stdout


def shown(code: str) -> str:
    """A block of commands with what they print."""
    return "".join(f"$ {command}\n{run(command)}" for command in re.findall(r"^\$ (.*)$", code, re.MULTILINE))


def printed(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "example", "exec"), {"__name__": "__main__"})
    return out.getvalue()


def page_as_it_is(page: str) -> str:
    """A page with what its commands print; run in the present folder."""
    return BLOCK.sub(lambda m: f"```console\n{shown(m[2])}```\n" if m[1] == "console" else m[0], page)


if __name__ == "__main__":
    with models_kept(), tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for page in PAGES:
            page.write_text(page_as_it_is(page.read_text(encoding="utf-8")), encoding="utf-8")
