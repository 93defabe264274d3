"""The command itself, with a real model, as LibreTranslate's own client asks it; and how it ends."""

import os
import re
import signal
import subprocess
import sys
import threading
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from waiting import TIMEOUT, wait_until


libretranslatepy = pytest.importorskip("libretranslatepy")

COMMAND = [sys.executable, "-m", "vaswani_transformer", "serve", "--port", "0", "--threads", "1"]


@pytest.fixture(scope="module")
def started():
    process = subprocess.Popen(
        [*COMMAND, "--processes", "1", "-c", "mini-en-de", "-c", "mini-de-en"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"VASWANI_API_KEY": "right"},
    )
    line = process.stderr.readline()
    found = re.fullmatch(r"en-de, de-en at (http://127.0.0.1:\d+) \(Ctrl-C ends\)\n", line)
    assert found, line + process.stderr.read()
    yield process, found[1]
    process.kill()
    process.wait()


def children(process) -> list[int]:
    return [int(pid) for pid in open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_libretranslates_client_is_answered_to_the_end(started):
    process, address = started
    client = libretranslatepy.LibreTranslateAPI(address, api_key="right")
    assert client.translate("Where is the station?", "en", "de") == "Wo ist der Bahnhof?"
    assert client.translate("Ein Mann fährt Fahrrad.", "auto", "en").endswith(".")
    assert client.detect("Ein Mann fährt Fahrrad.")[0]["language"] == "de"
    assert [language["code"] for language in client.languages()] == ["en", "de"]
    with pytest.raises(HTTPError, match="403"):
        libretranslatepy.LibreTranslateAPI(address).translate("A", "en", "de")

    # A worker that was killed, as for a lack of memory, is replaced.
    workers = [pid for pid in children(process) if "spawn_main" in open(f"/proc/{pid}/cmdline").read()]
    for pid in workers:
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
