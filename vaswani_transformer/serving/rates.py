"""How many requests a client may send in a minute."""

import math
import time
from collections.abc import Callable


MAX_CLIENTS = 10_000  # remembered at once


class RateLimit:
    """A token bucket for each client: permissions to send a request, which refill at a constant rate.

    Args:
        per_minute: The number of requests a minute, which is also the maximum number at once.
        clock: Returns the time in seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic):
        self.per_minute, self.clock = per_minute, clock
        self.buckets: dict[str, tuple[float, float]] = {}  # permissions, and when they were counted

    def seconds_to_wait(self, client: str) -> int:
        """Uses a client's permission and returns 0; without one, returns the seconds until there is one."""
        now, rate = self.clock(), self.per_minute / 60
        permissions, then = self.buckets.pop(client, (float(self.per_minute), now))
        permissions = min(self.per_minute, permissions + (now - then) * rate)
        is_allowed = permissions >= 1
        self.buckets[client] = permissions - is_allowed, now
        if len(self.buckets) > MAX_CLIENTS:
            del self.buckets[next(iter(self.buckets))]  # the one that has been quiet for longest
        return 0 if is_allowed else math.ceil((1 - permissions) / rate)
