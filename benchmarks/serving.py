"""`vaswani serve` under load: many clients at once, compared with translating the same lines as a file.

    python -m benchmarks.serving mini-en-de FILE.tsv.xz --clients 100 --seconds 60 \\
        --output benchmarks/results/serving.json

In each round, the pipeline in this process first translates lines of the file as `vaswani translate --input` does. Then
the server translates for the same time: each client sends a line, waits for its translation, and sends the next. A line
is the text before the first tab.

Lines per second need a machine without other work. Lines per second of CPU time, of all the server's processes but not
of the clients, depend less on other work if each process has one thread (`--threads 1`); several threads wait for each
other, which takes CPU time.
"""

import argparse
import http.client
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import urlopen

from vaswani_transformer.commands.models import load_pipeline
from vaswani_transformer.commands.translate import FILE_WINDOW

from .measure import write_results
from .sets import read_pairs


CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
COMMAND = [sys.executable, "-m", "vaswani_transformer", "serve", "--port", "0"]


class Server:
    """`vaswani serve` in a separate process, listening at `address`."""

    def __init__(self, checkpoint: str, threads: int | None):
        limits = ["--threads", str(threads)] if threads else []
        self.process = subprocess.Popen([*COMMAND, "--checkpoint", checkpoint, *limits], stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        line = self.process.stderr.readline().decode()
        self.address = re.findall(r"http://([\d.:]+)", line)[0]
        self.languages = re.findall(r"(\w+)-(\w+) at", line)[0]

    def read_processes(self, file: str) -> list[str]:
        """A file in /proc for each of its processes."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")  # each lists the processes that it started
        children = [pid for thread in threads for pid in thread.read_text().split()]
        return [Path(f"/proc/{pid}/{file}").read_text() for pid in [self.process.pid, *children]]

    def memory(self) -> int:
        """MB used by its processes."""
        return sum(int(re.findall(r"VmRSS:\s+(\d+)", file)[0]) for file in self.read_processes("status")) // 1000

    def cpu_seconds(self) -> float:
        """CPU time of its processes."""
        fields = (file.rpartition(")")[2].split() for file in self.read_processes("stat"))
        return sum(int(user) + int(system) for user, system in (line[11:13] for line in fields)) / CLOCK_TICKS

    def batches(self) -> tuple[float, float]:
        """Numbers of texts and batches since its start."""
        metrics = urlopen(f"http://{self.address}/metrics", timeout=120).read().decode()
        texts, number = (re.findall(rf"vaswani_batch_texts_{name} (\S+)", metrics)[0] for name in ("sum", "count"))
        return float(texts), float(number)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(120)


class Clients:
    """Threads that send lines to a server; `seconds` collects the time to each response."""

    def __init__(self, server: Server, lines: list[str]):
        self.server, self.lines = server, itertools.cycle(lines)
        self.lock, self.seconds, self.errors = threading.Lock(), [], 0

    def run(self, number: int, seconds: float) -> float:
        """Responses per second."""
        end = time.perf_counter() + seconds
        threads = [threading.Thread(target=self._ask, args=(end,)) for _ in range(number)]
        start, before = time.perf_counter(), len(self.seconds)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (len(self.seconds) - before) / (time.perf_counter() - start)

    def _ask(self, end: float):
        connection = http.client.HTTPConnection(self.server.address, timeout=120)
        source, target = self.server.languages
        while (start := time.perf_counter()) < end:
            with self.lock:
                line = next(self.lines)
            body = json.dumps({"q": line, "source": source, "target": target})
            try:
                connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                is_right = response.status == 200 and json.loads(response.read())["translatedText"] != ""
            except (OSError, http.client.HTTPException):
                is_right = False
                connection.close()
            with self.lock:
                self.errors += not is_right
                self.seconds.append(time.perf_counter() - start)
        connection.close()


def as_a_file(pipeline, lines: list[str], seconds: float) -> tuple[float, int]:
    """Lines a second that the pipeline translates, in the windows in which the command reads a file; and all lines."""
    start, done = time.perf_counter(), 0
    source = itertools.cycle(lines)
    while (passed := time.perf_counter() - start) < seconds:
        pipeline.translate(list(itertools.islice(source, FILE_WINDOW)))
        done += FILE_WINDOW
    return (done / passed if done else 0.0), done


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=str(__doc__).splitlines()[0])
    parser.add_argument("checkpoint", help="a name listed by `vaswani checkpoints`, or a folder")
    parser.add_argument("file", type=Path)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    options = parser.parse_args(arguments)

    from vaswani_transformer import catalogue

    lines = read_pairs(options.file, [0, 1], None)[0]
    server = Server(options.checkpoint, options.threads)
    pipeline = load_pipeline(catalogue.resolve(options.checkpoint), "cpu", "auto", options.threads)
    clients, results, ratios, cpu_ratios = Clients(server, lines), [], [], []
    clients.run(options.clients, 5)
    as_a_file(pipeline, lines, 5)
    clients.seconds.clear()
    for number in range(1, options.rounds + 1):
        start = time.process_time()
        offline, offline_lines = as_a_file(pipeline, lines, options.seconds)
        offline_cpu = time.process_time() - start
        before, start = server.batches(), server.cpu_seconds()
        answered = len(clients.seconds)
        served = clients.run(options.clients, options.seconds)
        served_cpu, after = server.cpu_seconds() - start, server.batches()
        answered = len(clients.seconds) - answered
        texts, batches = (b - a for a, b in zip(before, after, strict=True))
        ratios.append(served / offline)
        cpu_ratios.append(answered / served_cpu / (offline_lines / offline_cpu))
        results.append(
            {"round": number, "lines/s as a file": round(offline, 1), "lines/s served": round(served, 1),
             "served / file": round(ratios[-1], 2), "by CPU time": round(cpu_ratios[-1], 2),
             "lines in a batch": round(texts / batches, 1), "server's memory, MB": server.memory()}
        )  # fmt: skip
    ranked = sorted(clients.seconds)
    results.append(
        {"served / file, median": round(statistics.median(ratios), 2),
         "by CPU time, median": round(statistics.median(cpu_ratios), 2),
         "requests": len(ranked), "errors": clients.errors,
         "seconds until an answer, median": round(ranked[len(ranked) // 2], 2),
         "95% within": round(ranked[int(len(ranked) * 0.95)], 2), "exit status after SIGTERM": server.stop()}
    )  # fmt: skip
    settings = {**vars(options), "file": options.file.name}
    write_results(options.output, "python -m benchmarks.serving", settings, results)


if __name__ == "__main__":
    main()
