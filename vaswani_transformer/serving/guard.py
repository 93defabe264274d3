"""Rejects requests before they are read: from other websites, under other host names, with bodies that are too large.

The guard is ASGI middleware, so it sees the parts of a body as they arrive.
"""

import time
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..system.web import host_name, is_loopback


API_PAGE = "/docs"  # fastapi-offline's page, which contains an inline script
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'",
}
DISCONNECTED = 499  # for the log and the metrics: the client has left before the response


class Guard:
    """Rejects requests, limits the size of bodies, and measures the time of each response.

    Args:
        app: The application.
        host: The address that the server listens on. On a loopback address, only host names of this computer are
            accepted, because a website could point its own name at it (DNS rebinding).
        origins: Further origins that may call the server, such as "https://translate.example.org"; "*" allows all.
        max_bytes: Returns the maximum size of a body for a path.
        observe: Is called with the path, status and seconds of each response.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        origins: Collection[str],
        max_bytes: Callable[[str], int],
        observe: Callable[[str, int, float], object],
    ):
        self.app, self.host, self.origins, self.max_bytes, self.observe = app, host, origins, max_bytes, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, path, status = time.perf_counter(), scope["path"], DISCONNECTED
        limit, received = self.max_bytes(path), 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise HTTPException(413, too_large(limit))
            return message

        async def send_with_headers(message: Message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = {k: v for k, v in SECURITY.items() if not (path == API_PAGE and k.startswith("Content"))}
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in extra.items())]
            await send(message)

        try:
            rejection = self.rejection(Headers(scope=scope), limit)
            await (rejection or self.app)(scope, receive_counted, send_with_headers)
        finally:
            # The route, not the path: otherwise every visitor could add metrics.
            self.observe(getattr(scope.get("route"), "path", "other"), status, time.perf_counter() - start)

    def rejection(self, headers: Headers, max_bytes: int) -> JSONResponse | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        names = {urlsplit(origin).hostname for origin in self.origins}
        if is_loopback(self.host) and not is_loopback(host_name(host)) and host_name(host) not in names:
            return problem(403, "This server accepts requests from this computer only. Behind a proxy, set --origin.")
        is_same_site = origin is None or origin in (f"http://{host}", f"https://{host}")
        if not (is_same_site or origin in self.origins or "*" in self.origins):
            return problem(403, "Requests from other websites are blocked. Allow this one with --origin.")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > max_bytes:
            return problem(413, too_large(max_bytes))
        return None


def too_large(max_bytes: int) -> str:
    return f"The request is too large; the limit is {max_bytes:,} bytes."


def problem(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Returns an error in the form that LibreTranslate's clients expect."""
    return JSONResponse({"error": message}, status, headers)
