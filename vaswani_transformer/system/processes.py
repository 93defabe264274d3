"""Processes that work for another one."""

import multiprocessing
import os


def end_with_parent():
    """Waits for the parent process, and ends this one with it; run it in a thread of the worker."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
