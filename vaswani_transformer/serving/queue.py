"""The texts of many requests, translated together.

Whatever waits when a worker is free makes up its next batch, so a server that is asked little answers at once, and one
that is asked much has large batches.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol


# Of the texts translated together. More would not be faster, and those that come meanwhile would wait longer.
MOST_CHARACTERS = 16_000
# After a batch of several requests: those who were answered are likely to ask again, and one large batch is faster than
# two small ones.
SECONDS_FOR_MORE = 0.02

Pair = tuple[str, str]  # of languages, such as ("en", "de")
Records = list[list[dict[str, Any]]]  # for each text its translations, best first


class Busy(RuntimeError):
    """Too many requests are waiting."""


class Worker(Protocol):
    """What translates; see workers.py."""

    def translate(self, pair: Pair, texts: Sequence[str], settings: Mapping[str, Hashable]) -> Records: ...

    def close(self) -> None: ...


@dataclass(eq=False)
class Job:
    """The texts of one request for one pair of languages."""

    pair: Pair
    texts: Sequence[str]
    settings: Mapping[str, Hashable]
    result: Future[Records] = field(default_factory=Future)

    @property
    def characters(self) -> int:
        return sum(map(len, self.texts))

    @property
    def kind(self) -> tuple:
        """What jobs must share to be translated together."""
        return self.pair, frozenset(self.settings.items())


class Queue:
    """Jobs, and a thread for each worker that does them.

    Args:
        workers: What translates.
        most_waiting: Jobs that may wait besides those that are being done.
        observe: Called with the number of texts of each batch.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        most_waiting: int = 256,
        observe: Callable[[int], object] = lambda texts: None,
    ):
        self.workers, self.most_waiting, self.observe = workers, most_waiting, observe
        self.waiting: deque[Job] = deque()
        self.changed = threading.Condition()
        self.idle, self.is_closing = len(workers), False
        self.threads = [threading.Thread(target=self._work, args=(worker,), daemon=True) for worker in workers]
        for thread in self.threads:
            thread.start()

    def __len__(self) -> int:
        return len(self.waiting)

    def submit(self, pair: Pair, texts: Sequence[str], **settings: Hashable) -> Future[Records]:
        """Puts texts at the end; to cancel the result, before their turn comes, takes them out again.

        Raises:
            Busy: as many as may are waiting.
        """
        job = Job(pair, texts, settings)
        with self.changed:
            if self.is_closing:
                raise Busy("The server is about to stop.")
            if len(self.waiting) >= self.most_waiting:
                raise Busy("Too many requests are waiting. Try again in a few seconds.")
            self.waiting.append(job)
            self.changed.notify()
        job.result.add_done_callback(lambda result: self._withdraw(job) if result.cancelled() else None)
        return job.result

    def close(self):
        """Finishes what waits, and ends the threads and the workers."""
        with self.changed:
            self.is_closing = True
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()

    def _withdraw(self, job: Job):
        with self.changed:
            if job in self.waiting:
                self.waiting.remove(job)

    def _work(self, worker: Worker):
        while jobs := self._next():
            self._do(worker, jobs)
            if len(jobs) > 1:
                time.sleep(SECONDS_FOR_MORE)
            with self.changed:
                self.idle += 1
        worker.close()

    def _next(self) -> list[Job]:
        """The job that has waited longest, and others of its kind; none when the queue is closed and empty."""
        with self.changed:
            while True:
                self.changed.wait_for(lambda: self.waiting or self.is_closing)
                if not self.waiting:
                    return []
                if chosen := self._taken(math.ceil(len(self.waiting) / self.idle)):  # each idle worker has its share
                    self.idle -= 1
                    return chosen

    def _taken(self, most: int) -> list[Job]:
        kind, chosen, characters = self.waiting[0].kind, [], 0
        for job in list(self.waiting):
            if job.kind != kind or (chosen and characters + job.characters > MOST_CHARACTERS):
                continue
            self.waiting.remove(job)
            if job.result.set_running_or_notify_cancel():
                chosen.append(job)
                characters += job.characters
            if len(chosen) == most:
                break
        return chosen

    def _do(self, worker: Worker, jobs: list[Job]):
        texts = [text for job in jobs for text in job.texts]
        self.observe(len(texts))
        try:
            records = worker.translate(jobs[0].pair, texts, jobs[0].settings)
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].result.set_exception(error)
            else:  # who else is in the batch need not suffer
                for job in jobs:
                    self._do(worker, [job])
            return
        found = iter(records)
        for job in jobs:
            job.result.set_result([next(found) for _ in job.texts])
