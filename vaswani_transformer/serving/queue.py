"""The texts of many requests, translated together.

When a worker is free, its share of all requests makes up its next batch: a quiet server answers at once, and a busy one
translates in large batches, which are equally large in all workers.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, Protocol


# In a batch. A larger one would not be faster, and requests that arrive meanwhile would wait longer.
MAX_BATCH_CHARACTERS = 16_000
# Maximum pause after a batch of several requests, as a share of its time: their clients are likely to send the next
# ones, and one large batch is faster than two small ones.
PAUSE_SHARE = 0.1

Pair = tuple[str, str]  # source and target language, such as ("en", "de")
Translations = list[list[dict[str, Any]]]  # for each text the pipeline's records, best first


class Busy(RuntimeError):
    """Too many requests are waiting."""


class Stopped(RuntimeError):
    """All clients of the batch have left."""


class Overdue(RuntimeError):
    """The translation took too long."""


class WorkerLost(RuntimeError):
    """The worker was killed during the translation."""


class Worker(Protocol):
    """Translates texts; see workers.py."""

    def translate(self, pair: Pair, texts: Sequence[str], settings: Mapping[str, Hashable]) -> Translations: ...

    def stop(self) -> None:
        """Ends the translation in progress, which raises Stopped; another thread calls it."""

    def close(self) -> None: ...


@dataclass(eq=False)
class Job:
    """The texts of one request for one pair of languages."""

    pair: Pair
    texts: Sequence[str]
    settings: Mapping[str, Hashable]
    result: Future[Translations] = field(default_factory=Future)

    @property
    def characters(self) -> int:
        return sum(map(len, self.texts))

    @property
    def kind(self) -> tuple:
        """Returns what jobs must have in common to be translated together."""
        return self.pair, frozenset(self.settings.items())


class Queue:
    """Waiting jobs, with a thread for each worker that does them.

    Args:
        workers: Translate the jobs.
        max_waiting: Maximum number of waiting jobs, without those in progress.
        observe: Is called with the number of texts in each batch.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        max_waiting: int = 256,
        observe: Callable[[int], object] = lambda texts: None,
    ):
        self.workers, self.max_waiting, self.observe = workers, max_waiting, observe
        self.waiting: deque[Job] = deque()
        self.changed = threading.Condition()
        self.is_closing = False
        self.in_progress: dict[Worker, list[Job]] = {}
        self.threads = [threading.Thread(target=self._work, args=(worker,), daemon=True) for worker in workers]
        for thread in self.threads:
            thread.start()

    def __len__(self) -> int:
        return len(self.waiting)

    def submit(
        self, pair: Pair, texts: Sequence[str], *, is_continued: bool = False, **settings: Hashable
    ) -> Future[Translations]:
        """Adds texts to the end of the queue. Cancelling the result removes them again, or stops their translation.

        Work that `is_continued` was accepted before, and is never refused.

        Raises:
            Busy: the queue is full or closed.
        """
        job = Job(pair, texts, settings)
        with self.changed:
            if self.is_closing:
                raise Busy("The server is stopping.")
            if len(self.waiting) >= self.max_waiting and not is_continued:
                raise Busy("Too many requests are waiting. Try again in a few seconds.")
            self.waiting.append(job)
            self.changed.notify_all()
        job.result.add_done_callback(lambda result: self._withdraw(job) if result.cancelled() else None)
        return job.result

    def close(self, seconds: float | None = None):
        """Finishes the waiting jobs, within `seconds` if given, and ends the threads and the workers."""
        end = None if seconds is None else time.monotonic() + seconds
        with self.changed:
            self.is_closing = True
            self.changed.notify_all()
        for thread in self.threads:
            thread.join(None if end is None else max(0, end - time.monotonic()))
        for worker in self.workers:
            worker.close()

    def _withdraw(self, job: Job):
        with self.changed:
            if job in self.waiting:
                self.waiting.remove(job)
            for worker, jobs in self.in_progress.items():
                # The others of the batch still want their translations.
                if job in jobs and all(job.result.cancelled() for job in jobs):
                    worker.stop()

    def _work(self, worker: Worker):
        while jobs := self._next(worker):
            start = time.monotonic()
            self._do(worker, jobs)
            with self.changed:
                del self.in_progress[worker]
            if len(jobs) > 1:
                self._pause(len(jobs), PAUSE_SHARE * (time.monotonic() - start))

    def _pause(self, number: int, max_seconds: float):
        """Waits until `number` requests are waiting, for at most `max_seconds`."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.waiting) >= number or self.is_closing, max_seconds)

    def _next(self, worker: Worker) -> list[Job]:
        """Takes the job that has waited longest, and others of its kind; none when the queue is closed and empty."""
        with self.changed:
            while True:
                self.changed.wait_for(lambda: self.waiting or self.is_closing)
                if not self.waiting:
                    return []
                # Equal shares: otherwise, one worker would have large batches, and the others many small ones.
                number = len(self.waiting) + sum(map(len, self.in_progress.values()))
                if chosen := self._take(math.ceil(number / len(self.workers))):
                    self.in_progress[worker] = chosen
                    return chosen

    def _take(self, max_jobs: int) -> list[Job]:
        kind, chosen, characters = self.waiting[0].kind, [], 0
        for job in list(self.waiting):
            if job.kind != kind or (chosen and characters + job.characters > MAX_BATCH_CHARACTERS):
                continue
            self.waiting.remove(job)
            if not job.result.cancelled():
                chosen.append(job)
                characters += job.characters
            if len(chosen) == max_jobs:
                break
        return chosen

    def _do(self, worker: Worker, jobs: list[Job]):
        texts = [text for job in jobs for text in job.texts]
        self.observe(len(texts))
        with self.changed:
            self.in_progress[worker] = jobs
            if all(job.result.cancelled() for job in jobs):
                return
        try:
            records = worker.translate(jobs[0].pair, texts, jobs[0].settings)
        except Exception as error:
            self._fail(worker, jobs, error)
        else:
            remaining = iter(records)
            for job in jobs:
                set_result(job.result, [next(remaining) for _ in job.texts])

    def _fail(self, worker: Worker, jobs: list[Job], error: Exception):
        jobs = [job for job in jobs if not job.result.cancelled()]
        if len(jobs) == 1 and not isinstance(error, Stopped):
            set_result(jobs[0].result, error)
        else:  # one bad request must not fail the others
            for job in jobs:
                self._do(worker, [job])


def set_result(result: Future[Translations], answer: Translations | BaseException):
    """Sets the translations or the error of a future, unless its client has left."""
    try:
        if isinstance(answer, BaseException):
            result.set_exception(answer)
        else:
            result.set_result(answer)
    except InvalidStateError:
        pass
