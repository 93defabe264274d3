"""Processes that translate; another one answers HTTP.

Two processes of one thread do more than one of two (benchmarks/README.md), and answers do not wait for a translation.
"""

import pickle
import traceback
from collections.abc import Callable, Hashable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from ..system.memory import return_unused_memory
from ..system.processes import TASKS_PER_CLEANUP, Companion, ProcessEnded
from .queue import Overdue, Pair, Stopped, Translations, WorkerLost


STOP_SECONDS = 10.0  # a process that has not stopped its search after this time is replaced

Pipelines = Mapping[Pair, Any]


class ProcessWorker:
    """A worker of the queue: a process with pipelines of its own. If it is killed, another one replaces it.

    Args:
        load: Returns the pipelines by language pair; is called in the process, with `arguments`.
        max_seconds: The time limit of a batch; None for no limit.
    """

    def __init__(self, load: Callable[..., Pipelines], *arguments: Any, max_seconds: float | None = None):
        self.max_seconds, self.is_loaded, self.is_closed = max_seconds, False, False
        self.number = 1  # of the batch in progress, or the next one
        self.process = Companion(run_worker, load, arguments)  # loads at once, not with the first request

    def configs(self) -> dict[Pair, Any]:
        """Waits until all models are loaded; returns the generation config of each pair's model.

        Raises:
            Exception: the error of `load`.
        """
        reply = self.process.receive()
        if isinstance(reply, Exception):
            raise reply
        self.is_loaded = True
        return reply

    def translate(self, pair: Pair, texts: Sequence[str], settings: Mapping[str, Hashable]) -> Translations:
        """Translates a batch.

        Raises:
            Stopped: `stop` was called.
            Overdue: the batch took longer than `max_seconds`.
            WorkerLost: the process was killed.
            Exception: the error of the pipeline.
        """
        try:
            reply = self._ask(pair, texts, settings)
        except ProcessEnded as error:
            self._restart()
            raise WorkerLost("A translation process was killed. Try again in a few seconds.") from error
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _ask(self, pair: Pair, texts: Sequence[str], settings: Mapping[str, Hashable]) -> Translations | Exception:
        if not self.is_loaded:
            self.configs()
        self.process.send((self.number, pair, list(texts), dict(settings)))
        try:
            return self.process.receive(self.max_seconds)
        except TimeoutError:
            self.stop()
        finally:
            self.number += 1
        try:
            self.process.receive(STOP_SECONDS)
        except TimeoutError:
            self._restart()
        raise Overdue(f"The translation took longer than {self.max_seconds:g} seconds. Send shorter texts.")

    def stop(self):
        """Ends the batch in progress at the next step of its search; another thread may call it."""
        try:
            self.process.send(self.number)
        except ProcessEnded:
            pass  # `translate` notices it

    def _restart(self):
        self.is_loaded = False
        if not self.is_closed:
            self.process.restart()

    def close(self):
        self.is_closed = True
        self.process.kill()  # it has nothing to save, and freeing its memory takes seconds


# In the processes ----------------------------------------------------------------------------------------------------


def run_worker(connection: Connection, load: Callable[..., Pipelines], arguments: tuple):
    """Loads the pipelines, sends their generation configs, and translates batches until the connection ends."""
    try:
        pipelines = load(*arguments)
    except Exception as error:
        connection.send(sendable(error))
        return
    batch = Batch(connection)
    for pipeline in pipelines.values():
        make_stoppable(pipeline.model, batch)
    connection.send({pair: pipeline.model.generation_config for pair, pipeline in pipelines.items()})
    while True:
        message = connection.recv()
        if isinstance(message, int):
            batch.last_stopped = message
            continue
        batch.number, pair, texts, settings = message
        try:
            batch.check()
            reply = pipelines[pair].translate(texts, **settings)
        except Stopped as error:
            reply = error
        except Exception as error:
            traceback.print_exc()
            reply = sendable(error)
        connection.send(reply)
        if batch.number % TASKS_PER_CLEANUP == 0:
            return_unused_memory()


class Batch:
    """The batch in progress: a criterion that stops its search when the parent process sends its number."""

    row_independent = True  # so that finished sentences can leave the search

    def __init__(self, connection: Connection):
        self.connection, self.number, self.last_stopped = connection, 0, 0

    def check(self):
        """Raises Stopped if the batch must stop."""
        while self.connection.poll():
            self.last_stopped = self.connection.recv()
        if self.last_stopped >= self.number:
            raise Stopped

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        self.check()
        return input_ids.new_zeros(len(input_ids), dtype=bool)


def make_stoppable(model: Any, batch: Batch):
    """Makes `model.generate` check at each step of a search whether to stop."""
    from transformers import StoppingCriteriaList

    generate = model.generate

    def stoppable(*arguments: Any, stopping_criteria: Sequence | None = None, **settings: Any) -> Any:
        criteria = StoppingCriteriaList([*(stopping_criteria or ()), batch])
        return generate(*arguments, stopping_criteria=criteria, **settings)

    model.generate = stoppable


def sendable(error: Exception) -> Exception:
    """Returns the error, or one with the same message if it cannot be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
