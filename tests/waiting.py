"""How tests wait: for a condition, never for a time, since a busy machine may need ten times as long as an idle one."""

import time
from collections.abc import Callable


TIMEOUT = 600  # seconds; ends what hangs, and is never part of what a test claims


def wait_until(condition: Callable[[], object], failure: str | Callable[[], str] = "still waiting"):
    """Polls until `condition()` is true.

    Raises:
        AssertionError: it is still false after `TIMEOUT` seconds; the message is `failure`, or what it returns.
    """
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, failure if isinstance(failure, str) else failure()
        time.sleep(0.02)
