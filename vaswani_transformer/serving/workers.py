"""Processes that translate, each with models of its own; HTTP is answered in another.

Two processes of one thread do more than one of two (benchmarks/README.md), and answers wait for no translation.
"""

import multiprocessing
import signal
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ..system.memory import return_unused_memory
from ..system.processes import end_with_parent
from .queue import Pair, Records


BATCHES_UNTIL_TIDIED = 200  # after which unused memory is given back: a server runs for months

Load = Callable[..., Mapping[Pair, Any]]

pipelines: Mapping[Pair, Any] = {}  # of a worker's process
batches = 0


class ProcessWorker:
    """A process that has loaded pipelines; one that was killed is replaced.

    Args:
        load: Gives the pipelines by pair of languages; it is called in the process, with `arguments`.

    Raises:
        Exception: that of `load`.
    """

    def __init__(self, load: Load, *arguments: Any):
        self.load, self.arguments = load, arguments
        self._start()

    def _start(self):
        context = multiprocessing.get_context("spawn")  # a copy of a process in which torch has run may hang
        self.pool = ProcessPoolExecutor(1, context, initializer=begin)
        self.loading = self.pool.submit(load_here, self.load, self.arguments)

    def configs(self) -> dict[Pair, Any]:
        """The generation config of each pair's model, once all are loaded."""
        return self.loading.result()

    def translate(self, pair: Pair, texts: Sequence[str], settings: Mapping[str, Hashable]) -> Records:
        try:
            return self.pool.submit(translate_here, pair, list(texts), dict(settings)).result()
        except BrokenProcessPool as error:
            self.pool.shutdown(wait=False)
            self._start()
            raise RuntimeError("A process that translates has ended; is memory short?") from error

    def close(self):
        self.pool.shutdown()


def begin():
    """In a new process: leaves it to the server to end, which first finishes what it has."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def load_here(load: Load, arguments: tuple) -> dict[Pair, Any]:
    global pipelines
    pipelines = load(*arguments)
    return {pair: pipeline.model.generation_config for pair, pipeline in pipelines.items()}


def translate_here(pair: Pair, texts: list[str], settings: dict[str, Any]) -> Records:
    global batches
    batches += 1
    if batches % BATCHES_UNTIL_TIDIED == 0:
        return_unused_memory()
    return pipelines[pair].translate(texts, **settings)
