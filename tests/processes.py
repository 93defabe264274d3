"""Processes that start at once: forked from one that has imported what takes seconds, and run nothing.

Tests use them where what a program does is tested, and not how an interpreter starts.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
from functools import cache
from multiprocessing import forkserver, reduction
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from waiting import TIMEOUT


TESTS = Path(__file__).parent
IMPORTED = ["training.run", "training.likelihood", "vaswani_transformer.model.pipeline_translation"]


@cache
def context():
    """A context of `multiprocessing` whose processes are forked from the one that has imported `IMPORTED`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    path = os.pathsep.join(map(str, [TESTS, TESTS / "training", TESTS.parent]))
    with mock.patch.dict(os.environ, PYTHONPATH=path, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1"):
        forkserver.ensure_running()
    return context


class Popen:
    """`subprocess.Popen([sys.executable, "-m", MODULE, ...])`, as far as this project uses it."""

    def __init__(self, command, stdout=None, stderr=None, env=None):
        python, option, module, *arguments = map(str, command)
        assert (python, option) == (sys.executable, "-m")
        streams = _Stream(stdout), _Stream(stdout if stderr == subprocess.STDOUT else stderr)
        self.process = context().Process(target=_run, args=(module, arguments, *streams, dict(env or os.environ)))
        self.process.start()

    def wait(self) -> int:
        self.process.join(TIMEOUT)
        if self.process.exitcode is None:
            self.process.kill()
            raise TimeoutError("the process hangs")
        return self.process.exitcode

    def terminate(self):
        self.process.terminate()

    def send_signal(self, number: int):
        os.kill(self.process.pid, number)


# To be put in the place of the module `subprocess` in another.
quick_subprocess = SimpleNamespace(Popen=Popen, STDOUT=subprocess.STDOUT)


class _Stream:
    """A file that the other process gets open; None is that of this process."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return _opened, (self.file and reduction.DupFd(self.file.fileno()),)


def _opened(duplicate) -> int | None:
    return duplicate and duplicate.detach()


def _run(module: str, arguments: list[str], output: int | None, errors: int | None, environment: dict[str, str]):
    for number, file in ((1, output), (2, errors)):
        if file is not None:
            os.dup2(file, number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
