"""Processes that each hold something large, such as a model, and do tasks with it."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from .memory import return_unused_memory


TASKS_PER_CLEANUP = 200  # after this many, a process returns unused memory: a server runs for months

Item = TypeVar("Item")
Result = TypeVar("Result")

# In a process of a pool: what `load` returned, and the number of tasks done.
loaded: Any = None
tasks = 0


class ProcessPool:
    """Processes that do tasks; they end with this process, however it ends.

    Args:
        processes: Their number.
        load: Is called with `arguments` in each process, before its first task.
    """

    def __init__(self, processes: int, load: Callable[..., Any], *arguments: Any):
        self.processes, self.load, self.arguments = processes, load, arguments
        self._start()

    def _start(self):
        self.before = multiprocessing.active_children()
        context = multiprocessing.get_context("spawn")  # a forked copy of a process that has run torch may hang
        self.executor = ProcessPoolExecutor(self.processes, context, initializer=_begin)

    def submit(self, task: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Calls `task(loaded, *arguments)` in one of the processes, where `loaded` is what `load` returned.

        The result raises the error of `load` or of the task, or BrokenProcessPool if a process was killed.
        """
        return self.executor.submit(_do, self.load, self.arguments, task, arguments)

    def restart(self):
        """Replaces the processes after one was killed."""
        self.executor.shutdown(wait=False)
        self._start()

    def close(self):
        """Finishes all tasks and ends the processes."""
        self.executor.shutdown()

    def kill(self):
        """Ends the processes at once."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - set(self.before):
            process.kill()


@contextmanager
def process_pool(processes: int, load: Callable[..., Any], *arguments: Any) -> Iterator[ProcessPool]:
    """Yields a pool that is closed after the block, or killed if the block raises."""
    pool = ProcessPool(processes, load, *arguments)
    try:
        yield pool
    except BaseException:
        pool.kill()
        raise
    pool.close()


def in_order(submit: Callable[[Item], Future[Result]], items: Iterable[Item], ahead: int) -> Iterator[Result]:
    """Yields the results of all items in their order; takes at most `ahead` items before their results are needed.

    If `items` raises, so does this, after the results of the items before.
    """
    waiting: deque[Future[Result]] = deque()
    failure: Exception | None = None
    remaining = iter(items)
    while True:
        try:
            item = next(remaining)
        except StopIteration:
            break
        except Exception as error:
            failure = error
            break
        waiting.append(submit(item))
        if len(waiting) == ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
    if failure:
        raise failure


# In the processes ----------------------------------------------------------------------------------------------------


def _begin():
    """Leaves it to the parent process to handle signals, and ends with it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent():
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _do(load: Callable[..., Any], load_arguments: tuple, task: Callable[..., Any], arguments: tuple) -> Any:
    global loaded, tasks
    if loaded is None:
        loaded = load(*load_arguments)
    tasks += 1
    if tasks % TASKS_PER_CLEANUP == 0:
        return_unused_memory()
    return task(loaded, *arguments)
