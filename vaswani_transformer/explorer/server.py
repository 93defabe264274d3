"""Run the explorer's application on a socket."""

import socket

import uvicorn
from fastapi import FastAPI


def serve(app: FastAPI, listener: socket.socket):
    """Serve `app` on `listener` until the process is interrupted."""
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[listener])
