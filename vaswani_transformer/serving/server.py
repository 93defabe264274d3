"""Runs the application on a socket until the process gets a signal to stop."""

import signal
import socket

import uvicorn
from fastapi import FastAPI


SHUTDOWN_SECONDS = 60


def serve(app: FastAPI, listener: socket.socket):
    """Serves until SIGTERM or Ctrl-C; then finishes the pending requests, accepts no more, and exits with status 0."""
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, end)  # uvicorn replaces these handlers, and calls them when it has finished
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=SHUTDOWN_SECONDS)
    uvicorn.Server(config).run(sockets=[listener])


def end(number: int, frame: object):
    raise SystemExit(0)
