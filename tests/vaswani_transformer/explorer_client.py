"""Asks an explorer over HTTP, without a network."""

from fastapi.testclient import TestClient


def client_of(app) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1:8017", raise_server_exceptions=False)
