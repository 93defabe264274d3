"""Rejects requests before they are read: from other websites, under other host names, too large, too slow, too many.

The guard is ASGI middleware, so it sees the parts of a body as they arrive.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..system.web import host_name, is_loopback
from .rates import RateLimit


API_PAGE = "/docs"  # fastapi-offline's page, which contains an inline script
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'",
}
API_PAGE_SECURITY = SECURITY | {
    "Content-Security-Policy": f"{SECURITY['Content-Security-Policy']}; script-src 'self' 'unsafe-inline'"
}
DISCONNECTED = 499  # for the log and the metrics: the client has left before the response
MAX_BODY_SECONDS = 60.0

logger = logging.getLogger("vaswani.requests")


class Guard:
    """Rejects requests, limits the size and the time of bodies, and measures the time of each response.

    Args:
        app: The application.
        host: The address that the server listens on. On a loopback address, only host names of this computer are
            accepted, because a website could point its own name at it (DNS rebinding).
        origins: Further origins that may call the server, such as "https://translate.example.org"; "*" allows all.
        max_bytes: Returns the maximum size of a body for a path.
        observe: Is called with the path, status and seconds of each response.
        root_path: The path of the server behind a proxy, such as "/translate", which may be part of the path.
        rate_limit: Limits the POST requests of each address.
        max_body_seconds: The time limit for receiving a body.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        origins: Collection[str],
        max_bytes: Callable[[str], int],
        observe: Callable[[str, int, float], object],
        root_path: str = "",
        rate_limit: RateLimit | None = None,
        max_body_seconds: float = MAX_BODY_SECONDS,
    ):
        self.app, self.host, self.origins, self.max_bytes, self.observe = app, host, origins, max_bytes, observe
        self.root_path, self.rate_limit, self.max_body_seconds = root_path, rate_limit, max_body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), DISCONNECTED
        path = self.path_of(scope)
        scope["path"], scope["root_path"] = self.root_path + path, self.root_path
        limit = self.max_bytes(path)

        async def send_with_headers(message: Message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = API_PAGE_SECURITY if path == API_PAGE else SECURITY
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in extra.items())]
            await send(message)

        try:
            rejection = self.rejection(Headers(scope=scope), limit) or self.too_many(scope)
            await (rejection or self.app)(scope, limited(receive, limit, self.max_body_seconds), send_with_headers)
        except asyncio.CancelledError:  # a response that a slow client has not read to its end is cut off
            if status == DISCONNECTED:
                await problem(503, "The server is stopping.")(scope, receive, send_with_headers)
        finally:
            route, seconds = route_of(scope), time.perf_counter() - start
            self.observe(route, status, seconds)
            characters = scope.get("characters", 0)
            logger.info("%s %s %d %.3f s %d characters", scope["method"], route, status, seconds, characters)

    def path_of(self, scope: Scope) -> str:
        """Returns the path without `root_path`, which a proxy may have removed.

        In a server at "/translate", "/translate_file" is an endpoint, and "/translate" is one for POST.
        """
        path = scope["path"]
        is_page = path == self.root_path and scope["method"] in ("GET", "HEAD")
        return path.removeprefix(self.root_path) if is_page or path.startswith(f"{self.root_path}/") else path

    def too_many(self, scope: Scope) -> JSONResponse | None:
        if self.rate_limit is None or scope["method"] != "POST":
            return None
        seconds = self.rate_limit.seconds_to_wait((scope.get("client") or ("", 0))[0])
        if not seconds:
            return None
        message = f"More than {self.rate_limit.per_minute} requests a minute. Try again in {seconds} seconds."
        return problem(429, message, {"Retry-After": str(seconds)})

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


def route_of(scope: Scope) -> str:
    """Returns the path of the request's route, or "other".

    With the path itself, every visitor could add metrics, and names of files would be in the log.
    """
    route = scope.get("route")
    if route is None and "app" in scope:  # a request that was rejected has not reached its route
        route = next((route for route in scope["app"].routes if route.matches(scope)[0] is not Match.NONE), None)
    return getattr(route, "path", "other")


def limited(receive: Receive, max_bytes: int, max_seconds: float) -> Receive:
    """Returns `receive` with limits for the size and the time of the body; beyond them it raises HTTPException."""
    received, is_complete = 0, False
    end = time.monotonic() + max_seconds

    async def receive_limited() -> Message:
        nonlocal received, is_complete
        if is_complete:  # waits for the client to leave
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), max(0, end - time.monotonic()))
        except TimeoutError as error:
            raise HTTPException(408, f"The request took longer than {max_seconds:g} seconds to arrive.") from error
        received += len(message.get("body", b""))
        is_complete = not message.get("more_body", False)
        if received > max_bytes:
            raise HTTPException(413, too_large(max_bytes))
        return message

    return receive_limited


def too_large(max_bytes: int) -> str:
    return f"The request is too large; the limit is {max_bytes:,} bytes."


def problem(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Returns an error in the form that LibreTranslate's clients expect."""
    return JSONResponse({"error": message}, status, headers)
