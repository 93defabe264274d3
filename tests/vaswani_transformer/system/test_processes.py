"""Pools of processes: how tasks are distributed, in which order results come back, and how processes end."""

import operator
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
import speaker
import waiting
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until

from vaswani_transformer.system.processes import Companion, ProcessEnded, in_order, process_pool


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

    for i, result in enumerate(in_order(submit, items(), ahead)):
        assert result == i
        given_back += 1
    assert given_back == len(delays)


def test_what_came_before_a_failure_of_the_items_is_given():
    def items():
        yield 1
        yield 2
        raise ValueError("line 3 is not UTF-8")

    def submit(item) -> Future:
        future = Future()
        future.set_result(item)
        return future

    results = in_order(submit, items(), 4)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(ValueError, match="line 3"):
        next(results)


# Processes -----------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def light_processes(monkeypatch):
    """A process that takes itself for the command imports torch only when it has to."""
    monkeypatch.setattr(sys, "argv", ["vaswani"])


def test_every_process_loads_for_itself_and_all_work():
    with process_pool(2, speaker.load, "so") as pool:
        given = [[f"{i}a", f"{i}b"] for i in range(40)]
        results = list(in_order(lambda texts: pool.submit(operator.call, texts), given, 4))
    assert [[r["translation_text"] for [r] in result] for result in results] == [[f"so {t}" for t in x] for x in given]
    processes = {record["process"] for result in results for [record] in result}
    assert len(processes) <= 2 and os.getpid() not in processes


def test_a_killed_process_is_an_error():
    with pytest.raises(BrokenProcessPool), process_pool(2, speaker.load, "so") as pool:
        list(in_order(lambda texts: pool.submit(operator.call, texts), [["a"], ["die"], ["b"], ["c"]], 2))


def echo(connection):
    while True:
        connection.send((os.getpid(), connection.recv()))


def test_a_companion_exchanges_messages_and_can_be_replaced():
    companion = Companion(echo)
    companion.send("a")
    process, message = companion.receive()
    assert message == "a" and process != os.getpid()
    with pytest.raises(TimeoutError):
        companion.receive(0)
    os.kill(process, signal.SIGKILL)
    with pytest.raises(ProcessEnded):
        companion.receive()
    companion.restart()
    companion.send("b")
    assert companion.receive()[1] == "b"
    companion.kill()
    assert not running(companion.process.pid)
    with pytest.raises(ProcessEnded):
        companion.send("c")


def test_an_error_of_loading_is_that_of_the_first_task():
    with process_pool(1, speaker.refuse) as pool, pytest.raises(LookupError, match="no model"):
        pool.submit(operator.call, ["a"]).result()


def test_an_error_in_the_block_ends_the_processes_without_waiting():
    with pytest.raises(KeyboardInterrupt), process_pool(1, speaker.load, "so") as pool:
        assert pool.submit(operator.call, ["a"]).result()
        unfinished = pool.submit(operator.call, ["wait"])
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
import operator
import speaker
from vaswani_transformer.system.processes import process_pool
if __name__ == "__main__":
    with process_pool(1, speaker.load, "so") as pool:
        print(pool.submit(operator.call, ["a"]).result()[0][0]["process"], flush=True)
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
