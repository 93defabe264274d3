"""A process that translates: how its work is stopped, and what happens when it takes too long or is killed."""

import sys
import threading

import endless
import pytest
from waiting import wait_until

from vaswani_transformer.serving import workers
from vaswani_transformer.serving.queue import Overdue, Stopped, WorkerLost
from vaswani_transformer.serving.workers import ProcessWorker


PAIR = ("en", "de")


@pytest.fixture(scope="module")
def worker():
    argv, sys.argv = sys.argv, ["vaswani"]  # so that the process imports no more than it needs
    worker = ProcessWorker(endless.load)
    assert worker.configs() == {PAIR: "the config"}
    yield worker
    worker.close()
    sys.argv = argv


def process_of(worker) -> int:
    [[record]] = worker.translate(PAIR, ["a"], {})
    assert record["translation_text"] == "a"
    return record["process"]


def test_a_search_stops_at_its_next_step(worker, tmp_path):
    before, begun = process_of(worker), tmp_path / "begun"

    def stop():
        wait_until(begun.exists)
        worker.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(Stopped):
        worker.translate(PAIR, [f"search {begun}"], {})
    stopping.join()
    assert process_of(worker) == before


def test_a_stop_that_comes_early_or_late_stops_no_other_batch(worker, tmp_path):
    before = process_of(worker)
    worker.stop()
    with pytest.raises(Stopped):
        worker.translate(PAIR, [f"search {tmp_path / 'begun'}"], {})
    worker.process.send(worker.number - 1)
    assert process_of(worker) == before


def test_a_batch_has_a_time_limit(worker, tmp_path, monkeypatch):
    before = process_of(worker)
    monkeypatch.setattr(worker, "max_seconds", 0.01)
    with pytest.raises(Overdue, match="longer than 0.01 seconds"):
        worker.translate(PAIR, [f"search {tmp_path / 'begun'}"], {})
    monkeypatch.setattr(worker, "max_seconds", None)
    assert process_of(worker) == before


def test_a_process_that_does_not_stop_is_replaced(worker, monkeypatch):
    before = process_of(worker)
    monkeypatch.setattr(worker, "max_seconds", 0.01)
    monkeypatch.setattr(workers, "STOP_SECONDS", 0.01)
    with pytest.raises(Overdue):
        worker.translate(PAIR, ["hang"], {})
    monkeypatch.setattr(worker, "max_seconds", None)
    assert process_of(worker) != before


def test_a_killed_process_is_replaced(worker):
    with pytest.raises(WorkerLost, match="was killed. Try again"):
        worker.translate(PAIR, ["die"], {})
    assert process_of(worker)


def test_errors_come_back(worker):
    with pytest.raises(LookupError, match="SimpleNamespace"):
        worker.translate(PAIR, ["fail"], {})
    assert process_of(worker)


def test_an_error_of_loading_is_raised(worker):
    failing = ProcessWorker(endless.refuse)
    with pytest.raises(LookupError, match="no model"):
        failing.configs()
    failing.close()
