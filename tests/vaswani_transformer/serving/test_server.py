"""The command itself, with a real model, as LibreTranslate's own client asks it; and how it ends."""

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from waiting import TIMEOUT, wait_until


libretranslatepy = pytest.importorskip("libretranslatepy")
httpx = pytest.importorskip("httpx")

from vaswani_transformer.serving.app import CLOSING_SECONDS  # noqa: E402
from vaswani_transformer.serving.server import SHUTDOWN_SECONDS  # noqa: E402


COMMAND = [sys.executable, "-m", "vaswani_transformer", "serve", "--port", "0", "--threads", "1"]


@contextmanager
def started(*arguments: str, **environment: str):
    """Yields the process of a server and its address."""
    command, environment = [*COMMAND, *arguments], os.environ | environment
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stderr.readline()
        found = re.fullmatch(r"[a-z, -]+ at (http://127.0.0.1:\d+) \(Ctrl-C ends\)\n", line)
        assert found, line + process.stderr.read()
        yield process, found[1]
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def server():
    checkpoints = "-c", "mini-en-de", "-c", "mini-de-en"
    with started("--processes", "1", *checkpoints, VASWANI_API_KEY="right") as (process, address):
        yield process, address


def workers_of(process) -> list[int]:
    """The processes that it has started, but for multiprocessing's tracker."""
    children = [file.read_text().split() for file in Path(f"/proc/{process.pid}/task").glob("*/children")]
    return [int(pid) for pid in sum(children, []) if "spawn_main" in open(f"/proc/{pid}/cmdline").read()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_libretranslates_client_is_answered_to_the_end(server):
    process, address = server
    client = libretranslatepy.LibreTranslateAPI(address, api_key="right")
    assert client.translate("Where is the station?", "en", "de") == "Wo ist der Bahnhof?"
    assert client.translate("Ein Mann fährt Fahrrad.", "auto", "en").endswith(".")
    assert client.detect("Ein Mann fährt Fahrrad.")[0]["language"] == "de"
    assert [language["code"] for language in client.languages()] == ["en", "de"]
    with pytest.raises(HTTPError, match="403"):
        libretranslatepy.LibreTranslateAPI(address).translate("A", "en", "de")

    # A worker that was killed, as for a lack of memory, is replaced.
    for pid in workers_of(process):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(HTTPError, match="503"):
        client.translate("A man is riding a bicycle.", "en", "de")
    assert client.translate("Where is the station?", "en", "de") == "Wo ist der Bahnhof?"

    # SIGTERM: what has been asked is answered, and the process ends with 0.
    def batches() -> str:
        metrics = urlopen(f"{address}/metrics?api_key=right", timeout=TIMEOUT).read().decode()
        return re.search(r"vaswani_batch_texts_count \S+", metrics)[0]

    before = batches()
    answers = []
    text = " ".join(["Where is the station?"] * 40)
    asking = threading.Thread(target=lambda: answers.append(client.translate(text, "en", "de")))
    asking.start()
    wait_until(lambda: batches() != before)
    process.terminate()
    asking.join(TIMEOUT)
    assert answers == [" ".join(["Wo ist der Bahnhof?"] * 40)]
    assert process.wait(TIMEOUT) == 0
    assert "Traceback" not in process.stderr.read()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_work_that_does_not_end_does_not_keep_the_server_from_ending():
    with started("--processes", "2", "-c", "mini-en-de") as (process, address):
        translators = workers_of(process)
        html = {"q": "<p>Where is the station?</p>", "source": "en", "target": "de", "format": "html"}
        assert httpx.post(f"{address}/translate", json=html, timeout=TIMEOUT).status_code == 200
        processes = workers_of(process)
        assert len(translators) == 2 and len(processes) == 3  # one for documents

        def characters() -> float:
            metrics = httpx.get(f"{address}/metrics", timeout=TIMEOUT).text
            return float(re.search(r"vaswani_characters_total\{.*\} (\S+)", metrics)[1])

        before = characters()
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        answers = []
        requests = [html, *({"q": text, "source": "en", "target": "de"} for text in ("One.", "Two.", "Three."))]
        asking = [threading.Thread(target=ask, args=(f"{address}/translate", fields, answers)) for fields in requests]
        for thread in asking:
            thread.start()
        wait_until(lambda: characters() == before + sum(len(fields["q"]) for fields in requests))
        process.terminate()
        assert process.wait(TIMEOUT) == 0
        for thread in asking:
            thread.join(TIMEOUT)
        assert answers == [(503, {"error": "The server is stopping."})] * 4
        for pid in processes:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


def ask(address: str, fields: dict, answers: list):
    answer = httpx.post(address, json=fields, timeout=TIMEOUT)
    answers.append((answer.status_code, answer.json()))


def test_the_server_ends_before_docker_kills_it():
    assert SHUTDOWN_SECONDS + CLOSING_SECONDS < 10
