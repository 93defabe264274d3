"""Runs the application on a socket until the process is told to stop."""

import signal
import socket

import uvicorn
from fastapi import FastAPI


SECONDS_TO_FINISH = 60


def serve(app: FastAPI, listener: socket.socket):
    """Answers until SIGTERM or Ctrl-C; then takes no more requests, finishes those that it has, and ends with 0."""
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, end)  # uvicorn puts its own in their place, and calls these when it has finished
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=SECONDS_TO_FINISH)
    uvicorn.Server(config).run(sockets=[listener])


def end(number: int, frame: object):
    raise SystemExit(0)
