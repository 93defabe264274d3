"""Requests of many clients: what is translated together, what waits, what is refused, and what is cancelled."""

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest
from fastapi import HTTPException
from waiting import TIMEOUT, wait_until

from vaswani_transformer.serving import app as app_module
from vaswani_transformer.serving import pivot
from vaswani_transformer.serving import queue as queue_module
from vaswani_transformer.serving.guard import Guard
from vaswani_transformer.serving.queue import Busy, Queue, Stopped


DE, FR = ("en", "de"), ("en", "fr")


@pytest.fixture
def queue(worker):
    queue = Queue([worker], max_waiting=4)
    yield queue
    worker.may_go.set()
    queue.close()


@pytest.fixture
def held(queue, worker):
    """The worker is busy with one text until `worker.may_go` is set."""
    worker.may_go.clear()
    queue.submit(DE, ["first"])
    assert worker.has_begun.wait(TIMEOUT)


def texts(results) -> list[str]:
    return [record["translation_text"] for records in results.result(TIMEOUT) for record in records]


def test_waiting_texts_are_translated_together_and_returned_to_their_requests(queue, worker, held):
    one, other = queue.submit(DE, ["a b", "c d"]), queue.submit(DE, ["e f"])
    worker.may_go.set()
    assert texts(one) == ["b a", "d c"] and texts(other) == ["f e"]
    assert worker.batches == [("de", ["first"]), ("de", ["a b", "c d", "e f"])]


def test_other_settings_and_other_languages_have_batches_of_their_own(queue, worker, held):
    results = [
        queue.submit(DE, ["a"]),
        queue.submit(FR, ["b"]),
        queue.submit(DE, ["c"], num_beams=2),
        queue.submit(DE, ["d"]),
    ]
    worker.may_go.set()
    assert [texts(result) for result in results] == [["a"], ["b"], ["c"], ["d"]]
    assert worker.batches[1:] == [("de", ["a", "d"]), ("fr", ["b"]), ("de", ["c"])]
    assert worker.settings[1:] == [{}, {}, {"num_beams": 2}]


def test_a_batch_has_an_end(queue, worker, held, monkeypatch):
    monkeypatch.setattr(queue_module, "MAX_BATCH_CHARACTERS", 10)
    results = [queue.submit(DE, [text]) for text in ("a" * 20, "b" * 6, "c" * 6, "d" * 4)]
    worker.may_go.set()
    for result in results:
        result.result(TIMEOUT)
    assert [len("".join(batch)) for _, batch in worker.batches] == [5, 20, 10, 6]


def test_a_worker_takes_its_share_of_all_requests():
    batches, may_go = [], threading.Semaphore(0)

    class Worker:
        def translate(self, pair, texts, settings):
            batches.append(texts)
            assert may_go.acquire(timeout=TIMEOUT)
            return [[{"translation_text": text}] for text in texts]

        def close(self):
            pass

    queue = Queue([Worker(), Worker()])
    for text in "ab":
        queue.submit(DE, [text])
        wait_until(lambda text=text: [text] in batches)
    for text in "cdefgh":
        queue.submit(DE, [text])
    may_go.release()
    wait_until(lambda: len(batches) == 3)
    assert batches[2] == ["c", "d", "e", "f"]  # 4 of 7; the other worker has one
    may_go.release()
    wait_until(lambda: len(batches) == 4)
    assert batches[3] == ["g", "h"]
    may_go.release(2)
    queue.close()


def test_a_worker_waits_for_the_next_requests_of_its_clients(queue, worker, held, monkeypatch):
    monkeypatch.setattr(queue_module, "PAUSE_SHARE", 1e9)
    results = [queue.submit(DE, [text]) for text in "ab"]
    worker.may_go.set()
    assert [texts(result) for result in results] == [["a"], ["b"]]
    results = [queue.submit(DE, [text]) for text in "cd"]
    assert [texts(result) for result in results] == [["c"], ["d"]]
    assert [batch for _, batch in worker.batches] == [["first"], ["a", "b"], ["c", "d"]]


def test_requests_beyond_the_limit_are_refused(queue, worker, held):
    waiting = [queue.submit(DE, ["a b"]) for _ in range(4)]
    with pytest.raises(Busy, match="Too many requests are waiting"):
        queue.submit(DE, ["e"])
    waiting[1].cancel()  # frees a place
    last = queue.submit(DE, ["e f"])
    worker.may_go.set()
    assert texts(last) == ["f e"] and texts(waiting[3]) == ["b a"]
    assert worker.batches[1] == ("de", ["a b"] * 3 + ["e f"])
    with pytest.raises(CancelledError):
        waiting[1].result(TIMEOUT)


def test_a_request_that_fails_does_not_affect_the_others(queue, worker, held):
    results = [queue.submit(DE, [text]) for text in ("a b", "break", "c d")]
    worker.may_go.set()
    assert texts(results[0]) == ["b a"] and texts(results[2]) == ["d c"]
    with pytest.raises(RuntimeError, match="a secret"):
        results[1].result(TIMEOUT)


def test_closing_finishes_what_waits(worker):
    queue = Queue([worker])
    worker.may_go.clear()
    results = [queue.submit(DE, ["a b"], num_beams=i) for i in range(3)]
    closing = threading.Thread(target=queue.close)
    closing.start()
    worker.may_go.set()
    closing.join(TIMEOUT)
    assert worker.is_closed and [texts(result) for result in results] == [["b a"]] * 3
    with pytest.raises(Busy, match="is stopping"):
        queue.submit(DE, ["a"])


def test_a_batch_stops_when_all_its_clients_have_left():
    batches, may_go, stops = [], threading.Semaphore(0), threading.Semaphore(0)

    class Worker:
        def translate(self, pair, texts, settings):
            batches.append(texts)
            may_go.acquire()
            if "b" in texts:
                assert stops.acquire(timeout=TIMEOUT)
                raise Stopped
            return [[{"translation_text": text}] for text in texts]

        def stop(self):
            stops.release()

        def close(self):
            pass

    queue = Queue([Worker()])
    first = queue.submit(DE, ["a"])
    wait_until(lambda: batches)
    some, others = queue.submit(DE, ["b"]), queue.submit(DE, ["c"])
    may_go.release()
    assert texts(first) == ["a"]
    wait_until(lambda: len(batches) == 2)
    some.cancel()
    assert not stops.acquire(blocking=False)  # the other client is waiting
    others.cancel()
    may_go.release()
    last = queue.submit(DE, ["d"])
    may_go.release()
    assert texts(last) == ["d"] and batches == [["a"], ["b", "c"], ["d"]]
    queue.close()


def test_closing_does_not_wait_longer_than_it_may(worker):
    queue = Queue([worker])
    worker.may_go.clear()
    queue.submit(DE, ["a b"])
    queue.close(seconds=0)
    assert worker.is_closed
    worker.may_go.set()


def test_leaving_stops_the_step_in_progress(queue, worker, held):
    result = pivot.submit(queue, [("de", "en"), FR], ["a b"], {})
    worker.may_go.set()
    assert texts(result) == ["a b"]
    worker.may_go.clear()
    worker.has_begun.clear()
    result = pivot.submit(queue, [("de", "en"), FR], ["a b"], {})
    assert worker.has_begun.wait(TIMEOUT)
    result.cancel()
    assert worker.stops == 1
    last = queue.submit(DE, ["c d"])
    worker.may_go.set()
    assert texts(last) == ["d c"] and worker.batches[-2:] == [("en", ["a b"]), ("de", ["c d"])]


# Over HTTP -----------------------------------------------------------------------------------------------------------


def scope_of(path: str, length: int) -> dict:
    headers = [(b"host", b"127.0.0.1:5000"), (b"content-type", b"application/x-www-form-urlencoded")]
    headers.append((b"content-length", str(length).encode()))
    return {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": headers, "scheme": "http", "server": ("127.0.0.1", 5000), "client": ("127.0.0.1", 1),
            "root_path": "", "http_version": "1.1", "asgi": {"version": "3.0"}}  # fmt: skip


@pytest.mark.parametrize("body", [b"q=a&source=en&target=de", b"q=<p>a</p>&source=en&target=de&format=html"])
def test_a_client_that_leaves_frees_its_place(app_of, worker, body, monkeypatch):
    queues = []
    monkeypatch.setattr(app_module, "Queue", lambda *arguments: queues.append(Queue(*arguments)) or queues[0])
    app = app_of(max_waiting=1)
    sent: list[dict] = []

    async def ask(leaves: asyncio.Event):
        pieces = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            if pieces:
                return pieces.pop()
            await leaves.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        await app(scope_of("/translate", len(body)), receive, send)

    async def one_waits():
        await asyncio.to_thread(wait_until, lambda: len(queues[0]) == 1)

    async def run():
        worker.may_go.clear()
        never, now = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(ask(never))
        await asyncio.to_thread(worker.has_begun.wait, TIMEOUT)
        waiting = asyncio.create_task(ask(now))
        await one_waits()
        await ask(never)
        assert sent[0]["status"] == 429
        assert dict(sent[0]["headers"])[b"retry-after"] == b"2"
        now.set()
        await waiting
        last = asyncio.create_task(ask(never))
        await one_waits()
        worker.may_go.set()
        await asyncio.gather(first, last)
        statuses = [message["status"] for message in sent if message["type"] == "http.response.start"]
        assert statuses == [429, 499, 200, 200]

    asyncio.run(run())
    assert worker.batches == [("de", ["a"]), ("de", ["a"])]


def test_a_body_has_a_time_limit():
    sent = []

    async def app(scope, receive, send):
        await receive()

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    async def run():
        guard = Guard(app, "127.0.0.1", (), lambda path: 10, lambda *answer: None, max_body_seconds=0.01)
        with pytest.raises(HTTPException, match="408: The request took longer than 0.01 seconds to arrive."):
            await guard(scope_of("/translate", 5), receive, send)

    asyncio.run(run())
