"""A pool of processes that each load something large, such as a model, and run tasks with it."""

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


TASKS_PER_CLEANUP = 200  # after so many tasks, a process returns unused memory: servers run for months

Item = TypeVar("Item")
Result = TypeVar("Result")

# In a process of a pool: what `load` returned, and the number of tasks done.
loaded: Any = None
tasks = 0


class ProcessPool:
    """Processes that run tasks. They end when this process ends, even if it is killed.

    Args:
        processes: The number of processes.
        load: Called with `arguments` in each process, before its first task.
    """

    def __init__(self, processes: int, load: Callable[..., Any], *arguments: Any):
        self.processes, self.load, self.arguments = processes, load, arguments
        self._start()

    def _start(self):
        self.earlier_children = multiprocessing.active_children()
        context = multiprocessing.get_context("spawn")  # a forked copy of a process that has run torch may hang
        self.executor = ProcessPoolExecutor(self.processes, context, initializer=_initialise)

    def submit(self, task: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Calls `task(loaded, *arguments)` in one of the processes, where `loaded` is what `load` returned.

        The future raises the error of `load` or of the task, or BrokenProcessPool if a process was killed.
        """
        return self.executor.submit(_run_task, self.load, self.arguments, task, arguments)

    def restart(self):
        """Replaces the processes after one was killed."""
        self.executor.shutdown(wait=False)
        self._start()

    def close(self):
        """Waits for all tasks, and ends the processes."""
        self.executor.shutdown()

    def kill(self):
        """Ends the processes immediately, without waiting for their tasks."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - set(self.earlier_children):
            process.kill()


@contextmanager
def process_pool(processes: int, load: Callable[..., Any], *arguments: Any) -> Iterator[ProcessPool]:
    """Yields a pool. Closes it after the block, or kills it if the block raises an error."""
    pool = ProcessPool(processes, load, *arguments)
    try:
        yield pool
    except BaseException:
        pool.kill()
        raise
    pool.close()


def in_order(submit: Callable[[Item], Future[Result]], items: Iterable[Item], ahead: int) -> Iterator[Result]:
    """Yields the results of all items in their order; submits at most `ahead` items at a time.

    If `items` raises an error, it is raised after the results of the earlier items.
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


def _initialise():
    """Ignores signals, which the parent process handles, and ends this process when the parent ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent():
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _run_task(load: Callable[..., Any], load_arguments: tuple, task: Callable[..., Any], arguments: tuple) -> Any:
    global loaded, tasks
    if loaded is None:
        loaded = load(*load_arguments)
    tasks += 1
    if tasks % TASKS_PER_CLEANUP == 0:
        return_unused_memory()
    return task(loaded, *arguments)
