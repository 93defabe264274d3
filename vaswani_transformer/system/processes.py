"""Processes: a pool that loads something large, such as a model, and runs tasks; and one that exchanges messages."""

import atexit
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from .memory import return_unused_memory


TASKS_PER_CLEANUP = 200  # tasks after which a process returns unused memory: servers run for months

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

    def close(self):
        """Waits for all tasks, and ends the processes."""
        self.executor.shutdown()

    def kill(self):
        """Ends the processes immediately, without waiting for their tasks."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - set(self.earlier_children):
            process.kill()


class ProcessEnded(RuntimeError):
    """A process was killed, or ended by itself."""


class Companion:
    """A process that exchanges messages with this one. It ends when this process ends, even if it is killed.

    Unlike a task of a pool, its work can be interrupted by a message, and it can ask questions.

    Args:
        main: Called in the process with its end of the connection and `arguments`.
    """

    def __init__(self, main: Callable[..., object], *arguments: Any):
        self.main, self.arguments, self.sending = main, arguments, threading.Lock()
        self._start()
        atexit.register(self.kill)  # before multiprocessing waits for its processes

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, other_end = context.Pipe()
        self.process = context.Process(target=_run_companion, args=(other_end, self.main, self.arguments))
        self.process.start()
        other_end.close()  # now the connection ends with the process

    def send(self, message: Any):
        """Sends a message; any thread may call it.

        Raises:
            ProcessEnded: the process does not run any more.
        """
        try:
            with self.sending:
                self.connection.send(message)
        except OSError as error:
            raise ProcessEnded(f"Process {self.process.pid} has ended.") from error

    def receive(self, seconds: float | None = None) -> Any:
        """Returns the next message.

        Raises:
            ProcessEnded: the process does not run any more.
            TimeoutError: there was none within `seconds`.
        """
        try:
            if self.connection.poll(seconds):
                return self.connection.recv()
        except (EOFError, OSError) as error:
            raise ProcessEnded(f"Process {self.process.pid} has ended.") from error
        raise TimeoutError

    def restart(self):
        """Replaces the process by a new one."""
        self._end()
        self._start()

    def kill(self):
        """Ends the process immediately."""
        atexit.unregister(self.kill)
        self._end()

    def _end(self):
        self.process.kill()
        self.process.join()
        self.connection.close()


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


def _run_companion(connection: Connection, main: Callable[..., object], arguments: tuple):
    _initialise()
    try:
        main(connection, *arguments)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent process has ended or closed the connection


def _run_task(load: Callable[..., Any], load_arguments: tuple, task: Callable[..., Any], arguments: tuple) -> Any:
    global loaded, tasks
    if loaded is None:
        loaded = load(*load_arguments)
    tasks += 1
    if tasks % TASKS_PER_CLEANUP == 0:
        return_unused_memory()
    return task(loaded, *arguments)
