"""Several processes that translate at once, for a CPU with many cores; results come in the order of the texts."""

import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from ..system.processes import end_with_parent
from .console import Failure


AHEAD = 2  # lists of texts for each process, so that none has to wait for the one that is written next

Item = TypeVar("Item")
Result = TypeVar("Result")

translate: Callable[[list[str]], list[list[dict]]]  # what a process does; set once it has loaded its model


@contextmanager
def started(processes: int, load: Callable[..., Any], *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """Processes that have each called `load(*arguments)`, which gives what translates a list of texts.

    They end with the block, at once if it raises, and with this process however that ends.
    """
    others = multiprocessing.active_children()
    context = multiprocessing.get_context("spawn")  # a copy of a process in which torch has run may hang
    with ProcessPoolExecutor(processes, context, initializer=start, initargs=(load, arguments)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - set(others):
                process.terminate()
            raise


def start(load: Callable[..., Any], arguments: tuple):
    """In a new process: loads the model, and leaves interrupts to the one that writes."""
    global translate
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    translate = load(*arguments)


def run(texts: list[str]) -> list[list[dict]]:
    return translate(texts)


def in_order(submit: Callable[[Item], Future[Result]], items: Iterable[Item], ahead: int) -> Iterator[Result]:
    """The results of all items in their order; at no time are more than `ahead` of them taken and not yet given.

    Raises:
        Failure: a process was killed; or that of `items`, after the results of those before it.
    """
    waiting: deque[Future[Result]] = deque()
    failure = None
    try:
        try:
            for item in items:
                waiting.append(submit(item))
                if len(waiting) == ahead:
                    yield waiting.popleft().result()
        except Failure as error:
            failure = error
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise Failure(
            "One of the processes ended before its work was done. If memory is short, use fewer --processes."
        ) from error
    if failure:
        raise failure
