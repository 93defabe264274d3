"""Losses, tokens and time of a run's steps between two reports."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .batches import Batch


class DivergenceError(RuntimeError):
    """The loss of `batch` is not finite."""

    def __init__(self, message: str, batch: Batch):
        super().__init__(message)
        self.batch = batch


class Meter:
    """Losses, tokens and time since the last report, without the time for validation and saving."""

    def __init__(self):
        self.losses: list[float] = []  # of the steps since the last report; stored in checkpoints
        self.seconds = 0.0  # of the whole run, up to the last report; stored in checkpoints, too
        self._unread: list[tuple[Batch, torch.Tensor]] = []
        self._tokens = self._steps = 0
        self._since = time.perf_counter()

    def start(self):
        self._since = time.perf_counter()

    def add(self, batch: Batch, loss: torch.Tensor):
        """Add a step without waiting for the device to compute its loss."""
        self._unread.append((batch, loss))
        self._tokens, self._steps = self._tokens + batch.tokens, self._steps + 1

    def read(self):
        """Wait for the device and read the losses that it has computed.

        Raises:
            DivergenceError: A loss is not finite.
        """
        if not self._unread:
            return
        losses = torch.stack([loss for _, loss in self._unread]).tolist()
        for (batch, _), loss in zip(self._unread, losses, strict=True):
            if not abs(loss) < float("inf"):
                position = f"step {batch.step} (epoch {batch.epoch}, batch {batch.number})"
                raise DivergenceError(f"The loss is {loss} at {position}.", batch)
        self.losses += losses
        self._unread = []

    def report(self) -> dict[str, float]:
        """Return the figures since the last report, and start the next period."""
        elapsed = time.perf_counter() - self._since
        self.seconds += elapsed
        figures = {
            "seconds_per_step": elapsed / self._steps,
            "loss": sum(self.losses) / len(self.losses),
            "tokens_per_second": self._tokens / elapsed,
            "minutes": self.seconds / 60,
        }
        self.losses, self._tokens, self._steps = [], 0, 0
        self.start()
        return figures

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time spent inside the `with` block."""
        pause = time.perf_counter()
        yield
        self._since += time.perf_counter() - pause
