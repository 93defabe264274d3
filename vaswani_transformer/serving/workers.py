"""Processes that translate; another one answers HTTP.

Two processes of one thread do more than one of two (benchmarks/README.md), and answers do not wait for a translation.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ..system.processes import ProcessPool
from .queue import Pair, Translations


Pipelines = Mapping[Pair, Any]


class ProcessWorker:
    """A worker of the queue: a process with pipelines of its own. If it is killed, another one replaces it.

    Args:
        load: Returns the pipelines by language pair; is called in the process, with `arguments`.
    """

    def __init__(self, load: Callable[..., Pipelines], *arguments: Any):
        self.pool = ProcessPool(1, load, *arguments)
        self.loading = self.pool.submit(generation_configs)  # loads at once, not with the first request

    def configs(self) -> dict[Pair, Any]:
        """Waits until all models are loaded; returns the generation config of each pair's model.

        Raises:
            Exception: the error of `load`.
        """
        return self.loading.result()

    def translate(self, pair: Pair, texts: Sequence[str], settings: Mapping[str, Hashable]) -> Translations:
        try:
            return self.pool.submit(translate, pair, list(texts), dict(settings)).result()
        except BrokenProcessPool as error:
            self.pool.restart()
            self.loading = self.pool.submit(generation_configs)
            raise RuntimeError("A translating process was killed; the server may be short of memory.") from error

    def close(self):
        self.pool.close()


def generation_configs(pipelines: Pipelines) -> dict[Pair, Any]:
    return {pair: pipeline.model.generation_config for pair, pipeline in pipelines.items()}


def translate(pipelines: Pipelines, pair: Pair, texts: list[str], settings: dict[str, Any]) -> Translations:
    return pipelines[pair].translate(texts, **settings)
