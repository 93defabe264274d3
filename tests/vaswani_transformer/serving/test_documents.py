"""Documents are parsed in other processes, with limits of time and memory; and files wait to be downloaded."""

import json
import os
import signal
import subprocess
import sys

import pytest

from vaswani_transformer.documents import DocumentError
from vaswani_transformer.serving import documents as documents_module
from vaswani_transformer.serving.documents import Document, DocumentProcesses, DocumentTooComplex
from vaswani_transformer.serving.downloads import DOWNLOAD_SECONDS, MAX_DOWNLOADS, Downloads


LARGE = Document(json.dumps(["a b"] * 1_000_000).encode(), "a.json", "de")
SMALL = Document(b'{"title": "a b"}', "a.json", "de")


def turn(texts, settings):
    return [[{"translation_text": " ".join(reversed(text.split()))}] for text in texts]


@pytest.fixture
def processes(light_processes):
    processes = DocumentProcesses(number=1)
    yield processes
    processes.close()


def process_of(processes: DocumentProcesses) -> int:
    assert processes.translate(SMALL, turn) == (b'{"title": "b a"}', [])
    [process] = processes.processes
    return process.process.pid


def test_documents_are_parsed_in_another_process(processes, monkeypatch):
    monkeypatch.setattr(documents_module, "translate_content", None)  # only here
    assert process_of(processes) not in (None, os.getpid())


def test_parsing_has_a_time_limit(processes):
    before = process_of(processes)
    processes.max_seconds = 0
    with pytest.raises(DocumentTooComplex, match="takes more than 0 seconds. Split it."):
        processes.translate(LARGE, turn)
    processes.max_seconds = 600
    assert process_of(processes) != before


def test_translating_counts_for_nothing_in_the_time_limit(processes, monkeypatch):
    now = 0.0
    monkeypatch.setattr(processes, "clock", lambda: now)

    def translate(texts, settings):
        nonlocal now
        now += 10_000
        return turn(texts, settings)

    assert processes.translate(SMALL, translate)[0] == b'{"title": "b a"}'


def test_parsing_has_a_memory_limit(processes):
    before = process_of(processes)
    processes.close()
    processes.idle.get()
    processes.idle.put(None)
    processes.max_memory = 2**26
    with pytest.raises(DocumentTooComplex, match="takes more than 64 MiB of memory. Split it."):
        processes.translate(LARGE, turn)
    assert process_of(processes) != before


def test_a_killed_process_is_replaced(processes):
    before = process_of(processes)

    def kill(texts, settings):
        os.kill(before, signal.SIGKILL)
        next(iter(processes.processes)).process.join()
        return turn(texts, settings)

    with pytest.raises(DocumentTooComplex, match="1,024 MiB of memory"):
        processes.translate(SMALL, kill)
    assert process_of(processes) != before


def test_errors_come_back_and_the_process_stays(processes):
    before = process_of(processes)

    def fail(texts, settings):
        raise KeyError("left")

    with pytest.raises(KeyError, match="left"):
        processes.translate(SMALL, fail)
    with pytest.raises(DocumentError, match="a.json: Not valid JSON"):
        processes.translate(Document(b"{", "a.json", "de"), turn)
    assert process_of(processes) == before


def test_a_document_that_is_too_complex_is_an_error_of_the_request(serving):
    class Refusing(DocumentProcesses):
        def translate(self, document, translate):
            raise DocumentTooComplex("Parsing the document takes more than 30 seconds. Split it.")

    with serving(documents=Refusing()) as client:
        answer = client.post("/translate", data={"q": "a", "source": "en", "target": "de", "format": "html"})
        assert (answer.status_code, answer.json()["error"].split()[0]) == (413, "Parsing")
        assert client.get("/health").status_code == 200


# Downloads -----------------------------------------------------------------------------------------------------------


def test_old_downloads_are_dropped():
    now = 0.0
    downloads = Downloads(lambda: now)
    token, _, name = downloads.add("a b.txt", b"1").partition("/")
    assert name == "a%20b.txt" and downloads.read(token, "a b.txt") == b"1" == downloads.read(token, "a b.txt")
    assert downloads.read(token, "b.txt") is None and downloads.read("x", "a b.txt") is None
    now = DOWNLOAD_SECONDS
    assert downloads.read(token, "a b.txt") is None


def test_the_oldest_of_many_downloads_are_dropped():
    downloads = Downloads(lambda: 0.0)
    tokens = [downloads.add("a", str(i).encode()).partition("/")[0] for i in range(MAX_DOWNLOADS + 1)]
    assert [i for i, token in enumerate(tokens) if downloads.read(token, "a") is None] == [0]


def test_a_killed_server_leaves_no_files(tmp_path):
    code = """
import os, sys
sys.argv[0] = "vaswani"
from vaswani_transformer.serving.downloads import Downloads
downloads = Downloads()
downloads.add("a", b"1")
os.kill(os.getpid(), 9)
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, env=environment).returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
