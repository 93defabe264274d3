"""`vaswani translate --processes`: what is shared out, in which order it comes back, and how processes end."""

import os
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import processes
import pytest
import speaker
import waiting
from hypothesis import given
from hypothesis import strategies as st
from tiny_checkpoint import PAIRS, tiny_checkpoint
from typer.testing import CliRunner
from waiting import wait_until

from vaswani_transformer.commands import app, workers
from vaswani_transformer.commands.console import Failure


ROOT = Path(__file__).parents[3]


# In order ------------------------------------------------------------------------------------------------------------


@given(delays=st.lists(st.integers(0, 5), max_size=30), ahead=st.integers(1, 6))
def test_results_keep_their_order_and_few_items_are_taken_in_advance(delays, ahead):
    given_back, taken = 0, 0

    def items():
        nonlocal taken
        for i, delay in enumerate(delays):
            taken += 1
            assert taken - given_back <= ahead, "a file of any length must fit into memory"
            yield i, delay

    def submit(item) -> Future:
        future = Future()
        threading.Timer(item[1] / 1000, future.set_result, [item[0]]).start()
        return future

    for i, result in enumerate(workers.in_order(submit, items(), ahead)):
        assert result == i
        given_back += 1
    assert given_back == len(delays)


def test_what_came_before_a_failure_of_the_items_is_given():
    def items():
        yield 1
        yield 2
        raise Failure("line 3 is not UTF-8")

    def submit(item) -> Future:
        future = Future()
        future.set_result(item)
        return future

    results = workers.in_order(submit, items(), 4)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(Failure, match="line 3"):
        next(results)


# Processes -----------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def light_processes(monkeypatch):
    """A process that takes itself for the command imports torch only when it has to."""
    monkeypatch.setattr(sys, "argv", ["vaswani"])


def test_every_process_loads_for_itself_and_all_work():
    with workers.started(2, speaker.load, "so") as pool:
        given = [[f"{i}a", f"{i}b"] for i in range(40)]
        results = list(workers.in_order(lambda texts: pool.submit(workers.run, texts), given, 4))
    assert [[r["translation_text"] for [r] in result] for result in results] == [[f"so {t}" for t in x] for x in given]
    processes = {record["process"] for result in results for [record] in result}
    assert len(processes) <= 2 and os.getpid() not in processes


def test_a_killed_process_is_a_message():
    with pytest.raises(Failure, match="use fewer --processes"), workers.started(2, speaker.load, "so") as pool:
        list(workers.in_order(lambda texts: pool.submit(workers.run, texts), [["a"], ["die"], ["b"], ["c"]], 2))


def test_whoever_leaves_does_not_wait():
    with pytest.raises(KeyboardInterrupt), workers.started(1, speaker.load, "so") as pool:
        assert pool.submit(workers.run, ["a"]).result()
        unfinished = pool.submit(workers.run, ["wait"])
        raise KeyboardInterrupt
    with pytest.raises((BrokenProcessPool, CancelledError)):
        unfinished.result()


def running(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks for processes where Linux lists them")
def test_processes_end_with_the_one_that_started_them():
    code = """
import sys
sys.argv[0] = "vaswani"
import speaker
from vaswani_transformer.commands import workers
if __name__ == "__main__":
    with workers.started(1, speaker.load, "so") as pool:
        print(pool.submit(workers.run, ["a"]).result()[0][0]["process"], flush=True)
        speaker.wait()
"""
    paths = os.pathsep.join([str(Path(speaker.__file__).parent), str(Path(waiting.__file__).parent), str(ROOT)])
    command = [sys.executable, "-c", code]
    parent = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    assert running(worker)
    parent.kill()
    parent.wait()
    wait_until(lambda: not running(worker), f"process {worker} still runs")


# The command ---------------------------------------------------------------------------------------------------------


def test_a_file_is_translated_as_by_one_process(tmp_path, monkeypatch):
    context = processes.context()  # before the patch, which it would run into
    monkeypatch.setattr(workers.multiprocessing, "get_context", lambda method: context)
    lines = [*PAIRS, "", *PAIRS] * 20
    (tmp_path / "in").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ["--processes", "2", "--scores", "-i", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    run = CliRunner().invoke(app, ["translate", "--checkpoint", str(tiny_checkpoint()), *options])
    assert (run.exit_code, run.stderr, run.exception) == (0, "", None)
    written = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert [line.partition("\t")[2] for line in written] == [PAIRS.get(line, "") for line in lines]


def test_processes_are_for_files(translate):
    result = translate("--processes", "2", "Hello!")
    assert result.exit_code == 2 and "give it by --input" in result.stderr
