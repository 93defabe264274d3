"""What is refused before it is read: other pages' requests, other names for this computer, bodies that are too large.

It wraps the application as ASGI defines it, so that it sees a body's pieces as they come.
"""

import time
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..system.web import host_of, is_loopback


# fastapi-offline's page of the API writes its own small script into itself.
PAGE_OF_THE_API = "/docs"
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'",
}
GONE = 499  # for the log and the metrics: the client has left, and nobody hears it


class Guard:
    """Refuses, counts the bytes of bodies, and says what was answered and how long that took.

    Args:
        app: The application.
        host: The address that the server listens on. On a loopback address only names of this computer are answered,
            which no other page can take for its own (DNS rebinding).
        origins: Other origins whose pages may ask, such as "https://translate.example.org"; "*" is any.
        most_bytes: The largest body for a path.
        observe: Called with path, status and seconds of each answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        origins: Collection[str],
        most_bytes: Callable[[str], int],
        observe: Callable[[str, int, float], object],
    ):
        self.app, self.host, self.origins, self.most_bytes, self.observe = app, host, origins, most_bytes, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, path, status = time.perf_counter(), scope["path"], GONE
        most, received = self.most_bytes(path), 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise HTTPException(413, too_large(most))
            return message

        async def send_with_headers(message: Message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = {k: v for k, v in SECURITY.items() if not (path == PAGE_OF_THE_API and k.startswith("Content"))}
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in extra.items())]
            await send(message)

        try:
            refusal = self.refusal(Headers(scope=scope), most)
            await (refusal or self.app)(scope, receive_counted, send_with_headers)
        finally:
            # Not the path itself: every visitor could add to the metrics.
            self.observe(getattr(scope.get("route"), "path", "other"), status, time.perf_counter() - start)

    def refusal(self, headers: Headers, most_bytes: int) -> JSONResponse | None:
        named, origin = headers.get("host", ""), headers.get("origin")
        names = {urlsplit(origin).hostname for origin in self.origins}
        if is_loopback(self.host) and not is_loopback(host_of(named)) and host_of(named) not in names:
            return problem(403, "This server answers to this computer only. Behind a proxy: see --origin.")
        own = origin is None or origin in (f"http://{named}", f"https://{named}")
        if not (own or origin in self.origins or "*" in self.origins):
            return problem(403, "This server does not answer to pages of others. To allow it: --origin.")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > most_bytes:
            return problem(413, too_large(most_bytes))
        return None


def too_large(most_bytes: int) -> str:
    return f"The request is too large; the limit is {most_bytes:,} bytes."


def problem(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error as LibreTranslate's clients expect it."""
    return JSONResponse({"error": sentence}, status, headers)
