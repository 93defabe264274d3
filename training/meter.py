"""What the steps of a run took and reached, between two reports."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .batches import Batch


class DivergenceError(RuntimeError):
    """A loss is not finite; `batch` is the batch that it is of."""

    def __init__(self, message: str, batch: Batch):
        super().__init__(message)
        self.batch = batch


class Meter:
    """Losses, tokens and time since the last report; time spent on validation and saving does not count."""

    def __init__(self):
        self.losses: list[float] = []  # of the steps since the last report; a checkpoint holds them
        self.seconds = 0.0  # of the whole run, up to the last report; likewise
        self._unread: list[tuple[Batch, torch.Tensor]] = []
        self._tokens = self._steps = 0
        self._since = time.perf_counter()

    def start(self):
        self._since = time.perf_counter()

    def add(self, batch: Batch, loss: torch.Tensor):
        """Notes a step without waiting for the device to compute its loss."""
        self._unread.append((batch, loss))
        self._tokens, self._steps = self._tokens + batch.tokens, self._steps + 1

    def read(self):
        """Waits for the device, and reads the losses that it has computed.

        Raises:
            DivergenceError: one is not finite.
        """
        if not self._unread:
            return
        losses = torch.stack([loss for _, loss in self._unread]).tolist()
        for (batch, _), loss in zip(self._unread, losses, strict=True):
            if not abs(loss) < float("inf"):
                place = f"step {batch.step} (epoch {batch.epoch}, batch {batch.number})"
                raise DivergenceError(f"The loss is {loss} at {place}.", batch)
        self.losses += losses
        self._unread = []

    def report(self) -> dict[str, float]:
        """The figures since the last report; the next ones begin here."""
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
        pause = time.perf_counter()
        yield
        self._since += time.perf_counter() - pause
