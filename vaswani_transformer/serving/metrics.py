"""The metrics that Prometheus collects."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


SECONDS = 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60
TEXTS = 1, 2, 4, 8, 16, 32, 64, 128, 256


class Metrics:
    """The metrics of one server; `waiting` returns the number of waiting requests."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, waiting: Callable[[], float]):
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self.requests = Counter("vaswani_requests", "Requests answered", ["path", "status"], registry=registry)
        self.seconds = Histogram(
            "vaswani_request_seconds", "Time until a request was answered", ["path"], buckets=SECONDS, registry=registry
        )
        self.characters = Counter(
            "vaswani_characters", "Characters of the texts translated", ["source", "target"], registry=registry
        )
        self.batch_texts = Histogram(
            "vaswani_batch_texts", "Texts translated together", buckets=TEXTS, registry=registry
        )
        Gauge("vaswani_waiting_requests", "Requests waiting in the queue", registry=registry).set_function(waiting)

    def observe(self, path: str, status: int, seconds: float):
        """Records a response: the path of its endpoint, its status, and its time in seconds."""
        self.requests.labels(path, status).inc()
        self.seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
