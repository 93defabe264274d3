"""Runs the application on a socket until the process gets a signal to stop."""

import asyncio
import logging
import signal
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol


# `docker stop` kills after 10 seconds. The processes need up to 3 seconds more to end.
SHUTDOWN_SECONDS = 6
HEADER_SECONDS = 20.0
MAX_CONNECTIONS = 500  # below 1,024 open files, a usual limit of the operating system
REFUSED_CONNECTIONS = 100  # beyond the maximum: their requests get a status; any further connection is closed at once
MAX_HEADER_BYTES = 65_536


class Protocol(H11Protocol):
    """HTTP with limits for headers and connections.

    h11 limits the size of headers, this class the time until they are complete. uvicorn counts connections only when a
    request arrives, so silent ones could use up the open files of the process.
    """

    header_seconds = HEADER_SECONDS
    header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any):
        super().connection_made(transport)
        if self.limit_concurrency and len(self.connections) > self.limit_concurrency + REFUSED_CONNECTIONS:
            transport.close()
        else:
            self._watch_headers()

    def data_received(self, data: bytes):
        super().data_received(data)
        self._watch_headers()

    def connection_lost(self, exc: Exception | None):
        super().connection_lost(exc)
        self._stop_timer()

    def shutdown(self):
        """Closes the connection when its request is answered, or now if the request has not arrived yet."""
        if self.cycle is not None and self.cycle.more_body:
            self.transport.close()
        else:
            super().shutdown()

    def _watch_headers(self):
        """Starts the timer of a request, or stops it when the headers are complete."""
        is_waiting = self.cycle is None or self.cycle.response_complete
        if not is_waiting:
            self._stop_timer()
        elif self.header_timer is None:
            self.header_timer = self.loop.call_later(self.header_seconds, self.transport.close)

    def _stop_timer(self):
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None


def serve(app: FastAPI, listener: socket.socket, max_connections: int = MAX_CONNECTIONS, log_requests: bool = False):
    """Serves until SIGTERM or Ctrl-C; then finishes the pending requests, accepts no more, and exits with status 0.

    Requests that take longer than SHUTDOWN_SECONDS to finish are dropped.
    """
    allow_open_files()
    if log_requests:
        show_requests()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, end)  # uvicorn replaces these handlers, and calls them when it has finished
    config = uvicorn.Config(
        app,
        http=Protocol,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        limit_concurrency=max_connections,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        log_level="warning",
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


def allow_open_files():
    """Raises the limit of open files as far as the operating system allows: each connection is one, and each upload."""
    try:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (ImportError, OSError, ValueError):  # Windows has no such limit, and macOS not always the one that it names
        pass


def show_requests():
    """Writes a line for each request to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("vaswani.requests")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def end(number: int, frame: object):
    raise SystemExit(0)
