"""A server without a network, whose translators turn words round, and wait when they are told to."""

import re
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from waiting import TIMEOUT


pytest.importorskip("fastapi")

from fastapi.testclient import TestClient  # noqa: E402

from vaswani_transformer.serving.app import Settings, create_app  # noqa: E402
from vaswani_transformer.serving.documents import DocumentProcesses  # noqa: E402
from vaswani_transformer.serving.languages import Languages  # noqa: E402


PAIRS = ("de", "en"), ("en", "de"), ("en", "fr")
CALIBRATED = ("de", "en"), ("en", "fr")


class Turning:
    """A worker: of each text its words turned round, and as many more as are wanted with a number before them."""

    def __init__(self):
        self.batches: list[tuple[str, list[str]]] = []  # the target language, and the texts
        self.settings: list[dict] = []
        self.may_go, self.has_begun, self.is_closed = threading.Event(), threading.Event(), False
        self.stops = 0
        self.may_go.set()

    def translate(self, pair, texts, settings):
        self.has_begun.set()
        assert self.may_go.wait(TIMEOUT)
        self.batches.append((pair[1], list(texts)))
        self.settings.append(settings)
        if "break" in texts:
            raise RuntimeError("a secret of this machine")
        number, has_confidence = settings.get("num_return_sequences", 1), settings.get("return_confidence")
        return [[self.record(text, i, has_confidence) for i in range(number)] for text in texts]

    def record(self, text: str, number: int, has_confidence: bool) -> dict:
        turned = " ".join(reversed(text.split()))
        record = {"translation_text": f"{number} {turned}" if number else turned}
        if has_confidence:  # 0.1 for a word of one letter or mark, 0.2 for one of two, ...
            values = [
                (match.span(), len(match[0]) / 10) for match in re.finditer(r"\w+|\S", record["translation_text"])
            ]
            mean = sum(value for _, value in values) / max(1, len(values))
            record |= {"word_confidences": values, "confidence": mean}
        return record | ({"warnings": ["it is odd"]} if "odd" in text else {})

    def stop(self):
        self.stops += 1

    def close(self):
        self.is_closed = True


@pytest.fixture
def worker():
    return Turning()


@pytest.fixture
def light_processes(monkeypatch):
    """A process that takes itself for the command imports torch only when it has to."""
    monkeypatch.setattr(sys, "argv", ["vaswani"])


class LastingProcesses(DocumentProcesses):
    """Processes for the documents of all tests."""

    def close(self):
        pass


@pytest.fixture(scope="session")
def lasting_processes():
    processes = LastingProcesses()
    yield processes
    super(LastingProcesses, processes).close()


@pytest.fixture
def app_of(worker, light_processes, lasting_processes):
    """A server with these settings."""
    configs = {pair: SimpleNamespace(num_beams=4, alignment_head=None) for pair in PAIRS}
    for pair in CALIBRATED:
        configs[pair].confidence = {"word": 1.0}

    def app(documents=lasting_processes, **settings):
        return create_app(Languages(configs), [worker], Settings(**settings), documents)

    return app


@pytest.fixture
def serving(app_of):
    """A client of a server with these settings."""

    @contextmanager
    def client_of(**settings):
        with TestClient(app_of(**settings), base_url="http://127.0.0.1:5000", raise_server_exceptions=False) as client:
            yield client

    return client_of


@pytest.fixture
def client(serving):
    with serving() as client:
        yield client
