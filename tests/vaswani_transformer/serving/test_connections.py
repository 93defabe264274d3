"""Connections: how large and how slow their headers may be, how many there may be, and how they end with the server."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from waiting import TIMEOUT, wait_until

from vaswani_transformer.serving.documents import DocumentProcesses
from vaswani_transformer.serving.server import MAX_HEADER_BYTES, Protocol, allow_open_files


GET_HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
HALF_A_REQUEST = b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"


class Impatient(Protocol):
    header_seconds = 0.05


@pytest.fixture
def running(app_of):
    """Runs a server, which waits for its connections without a limit, and yields the server and its address."""

    @contextmanager
    def run(documents=None, **settings):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            limits = {"http": Protocol, "h11_max_incomplete_event_size": MAX_HEADER_BYTES}
            settings = {"log_level": "critical", **limits, **settings}
            app = app_of() if documents is None else app_of(documents=documents)
            server = uvicorn.Server(uvicorn.Config(app, **settings))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            wait_until(lambda: server.started)
            yield server, listener.getsockname()
            server.should_exit = True
            thread.join(TIMEOUT)
            assert not thread.is_alive()

    return run


def connect(address, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(address, timeout=TIMEOUT)
    connection.sendall(sent)
    return connection


def request(address, method: str, path: str, fields: dict | None = None) -> tuple[int, dict]:
    host, port = address
    answer = httpx.request(method, f"http://{host}:{port}{path}", json=fields, timeout=TIMEOUT)
    return answer.status_code, answer.json()


def post_html(address, html: str) -> tuple[int, dict]:
    return request(address, "POST", "/translate", {"q": html, "source": "en", "target": "de", "format": "html"})


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("option", ["-d", "--data-urlencode", "-F"])
def test_curl_sends_forms_in_utf8(running, option):
    fields = [argument for field in ("q=Das Mädchen", "source=de", "target=en") for argument in (option, field)]
    with running() as (_, (host, port)):
        command = ["curl", "--silent", *fields, f"http://{host}:{port}/translate"]
        assert json.loads(subprocess.run(command, capture_output=True, check=True).stdout) == {
            "translatedText": "Mädchen Das"
        }


def test_the_server_answers_while_a_document_is_parsed(running):
    documents = DocumentProcesses(number=1, max_seconds=TIMEOUT)
    with running(documents) as (_, address):
        assert post_html(address, "<p>a b</p>") == (200, {"translatedText": "<p>b a</p>"})
        [parser] = documents.processes
        os.kill(parser.process.pid, signal.SIGSTOP)  # as a pattern without an end: it neither answers nor ends
        answers = []
        asking = threading.Thread(target=lambda: answers.append(post_html(address, "<p>c d</p>")))
        asking.start()
        wait_until(documents.idle.empty)
        assert request(address, "GET", "/health") == (200, {"status": "ok"})
        text = {"q": "a b", "source": "en", "target": "de"}
        assert request(address, "POST", "/translate", text) == (200, {"translatedText": "b a"})
        assert answers == []
        os.kill(parser.process.pid, signal.SIGCONT)
        asking.join(TIMEOUT)
        assert answers == [(200, {"translatedText": "<p>d c</p>"})]


@pytest.mark.parametrize(
    "limits, message",
    [
        ({"max_seconds": 0}, "Parsing the document takes more than 0 seconds. Split it."),
        ({"max_memory": 2**26}, "Parsing the document takes more than 64 MiB of memory. Split it."),
    ],
)
def test_a_document_beyond_the_limits_has_a_status_and_a_sentence(running, limits, message):
    with running(DocumentProcesses(number=1, **{"max_seconds": TIMEOUT, **limits})) as (_, (host, port)):
        content = json.dumps(["a b"] * 1_000_000).encode()
        files, data = {"file": ("a.json", content)}, {"source": "en", "target": "de"}
        answer = httpx.post(f"http://{host}:{port}/translate_file", files=files, data=data, timeout=TIMEOUT)
        assert (answer.status_code, answer.json()) == (413, {"error": message})
        assert request((host, port), "GET", "/health") == (200, {"status": "ok"})


def test_slow_and_silent_connections_do_not_keep_the_server_from_ending(running):
    with running() as (server, address):
        connections = [connect(address, sent) for sent in (b"", b"GET / HT", HALF_A_REQUEST, HALF_A_REQUEST)]
        wait_until(lambda: len(server.server_state.tasks) == 2)
    assert [read_all(connection) for connection in connections] == [b""] * 4


def test_a_response_that_nobody_reads_ends_with_the_server_without_a_traceback(running, caplog):
    files = b"GET /static-offline-docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20
    with running(timeout_graceful_shutdown=0, log_level="error", log_config=None) as (server, address):
        connection = connect(address, files)
        wait_until(lambda: any(one.flow.write_paused for one in list(server.server_state.connections)))
    connection.close()
    assert [bool(record.exc_info) for record in caplog.records if "timeout" not in record.getMessage()] == [False]


@pytest.mark.parametrize("sent", [b"", b"GET / HT"])
def test_headers_have_a_time_limit(running, sent):
    with running(http=Impatient) as (_, address):
        assert read_all(connect(address, sent)) == b""


def test_headers_of_a_second_request_have_a_time_limit(running):
    with running(http=Impatient, timeout_keep_alive=TIMEOUT) as (_, address):
        connection = connect(address, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"200 OK" in connection.recv(65536)
        connection.sendall(b"GET / HT")
        read_all(connection)


def test_headers_have_a_size_limit(running):
    with running() as (_, address):
        connection = connect(address, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        with pytest.raises(OSError):  # the server closes the connection long before
            for _ in range(100_000):
                connection.sendall(b"X-A: " + b"a" * 1000 + b"\r\n")


def test_the_number_of_connections_is_limited(running):
    with running(limit_concurrency=3) as (server, address):
        connections = [connect(address, HALF_A_REQUEST) for _ in range(2)]
        wait_until(lambda: len(server.server_state.connections) == 2)
        connections.append(connect(address, GET_HEALTH))
        assert read_all(connections[-1]).startswith(b"HTTP/1.1 503")


def test_silent_connections_are_limited_before_a_request_arrives(running, monkeypatch):
    monkeypatch.setattr("vaswani_transformer.serving.server.REFUSED_CONNECTIONS", 1)
    with running(limit_concurrency=2) as (server, address):
        silent = [connect(address) for _ in range(3)]
        wait_until(lambda: len(server.server_state.connections) == 3)
        assert read_all(connect(address)) == b""
        silent.pop().close()
        wait_until(lambda: len(server.server_state.connections) == 2)
        assert read_all(connect(address, GET_HEALTH)).startswith(b"HTTP/1.1 503")


def test_the_server_may_open_as_many_files_as_the_system_allows():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
    try:
        allow_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
