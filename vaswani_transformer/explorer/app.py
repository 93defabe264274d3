"""The explorer's web application: validates and limits requests, and blocks requests from other websites."""

import mimetypes
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from ..system.web import host_name, is_loopback
from .checkpoints import CheckpointCache, UnknownCheckpoint
from .export import PAGE
from .responses import MAX_BEAMS, model_response, position_tensors, tensors_file
from .runs import Busy, Expired, Refused, Runs


MAX_CHARACTERS = 5_000
MAX_ALPHA = 5.0
SAFETENSORS = "application/octet-stream"
# Browsers reject modules and fonts with a wrong type, and the operating system's table of types may be wrong.
for extension, media_type in {".js": "text/javascript", ".mjs": "text/javascript", ".woff2": "font/woff2"}.items():
    mimetypes.add_type(media_type, extension)

HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # The page loads nothing from other websites.
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "frame-ancestors 'none'",
}


# Requests ------------------------------------------------------------------------------------------------------------


class RunRequest(BaseModel):
    """A request to run the model: the sentence, the checkpoint (by default the current one) and the settings."""

    model_config = ConfigDict(extra="forbid")

    checkpoint: str | None = None
    text: str = Field(max_length=MAX_CHARACTERS)
    beams: int | None = Field(None, ge=1, le=MAX_BEAMS)
    alpha: Annotated[float, Field(ge=0, le=MAX_ALPHA, allow_inf_nan=False)] | None = None
    off: list[tuple[str, str, int, int]] = Field([], max_length=1024)
    causal: bool = True


# The application -----------------------------------------------------------------------------------------------------


def create_app(cache: CheckpointCache, host: str = "127.0.0.1", runs: Runs | None = None, page: Path = PAGE) -> FastAPI:
    """Create the application that serves the page and its data.

    Args:
        cache: The checkpoints that the page offers.
        host: The address that the server listens on.
        runs: Runs the model. By default a new `Runs`.
        page: The folder that contains index.html.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    runs = runs or Runs()
    add_guard(app, host)
    add_error_handlers(app)

    @app.get("/api/checkpoints")
    def checkpoints() -> Response:
        return JSONResponse({"current": cache.current, "checkpoints": cache.describe_all()})

    @app.get("/api/model")
    def model(checkpoint: str | None = None) -> Response:
        return JSONResponse(model_response(cache.open(checkpoint)))

    @app.get("/api/model/tensors")
    def model_tensors(checkpoint: str | None = None) -> Response:
        return Response(tensors_file(position_tensors(cache.open(checkpoint))), media_type=SAFETENSORS)

    @app.post("/api/run")
    def run(request: RunRequest) -> Response:
        checkpoint = cache.open(request.checkpoint)
        return JSONResponse(
            runs.run(checkpoint, request.text, request.beams, request.alpha, request.off, request.causal)
        )

    @app.post("/api/heads")
    def heads(request: RunRequest) -> Response:
        checkpoint = cache.open(request.checkpoint)
        return JSONResponse(runs.heads(checkpoint, request.text, request.beams, request.alpha))

    @app.post("/api/beyond")
    def beyond(request: RunRequest) -> Response:
        checkpoint = cache.open(request.checkpoint)
        return JSONResponse(runs.beyond(checkpoint, request.text, request.beams, request.alpha))

    @app.get("/api/run/{run_id}/tensors")
    def run_tensors(run_id: str) -> Response:
        return Response(tensors_file(runs.tensors(run_id)), media_type=SAFETENSORS)

    app.mount("/", StaticFiles(directory=page, html=True))
    return app


def add_guard(app: FastAPI, host: str):
    """Block requests from other websites, including those whose host name points to this computer (DNS rebinding)."""

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        host_header, origin = request.headers.get("host", ""), request.headers.get("origin")
        if is_loopback(host) and not is_loopback(host_name(host_header)):
            response = error_response(
                403, "The explorer is available only on this computer. Open it as localhost or 127.0.0.1."
            )
        elif origin is not None and origin not in (f"http://{host_header}", f"https://{host_header}"):
            response = error_response(403, "Requests from other websites are blocked. Open the explorer's own page.")
        else:
            response = await call_next(request)
        response.headers.update(HEADERS)
        return response


def error_response(status: int, message: str) -> JSONResponse:
    return JSONResponse({"problem": message}, status)


def add_error_handlers(app: FastAPI):
    """Report each error to the page in one sentence; the details of unexpected errors go only to the log."""
    statuses = {UnknownCheckpoint: 404, Expired: 404, Refused: 422, Busy: 503, TimeoutError: 503}

    async def expected(request: Request, error: Exception) -> Response:
        return error_response(next(status for kind, status in statuses.items() if isinstance(error, kind)), str(error))

    async def invalid(request: Request, error: Exception) -> Response:
        return error_response(
            422, validation_message(error.errors()[0]) if isinstance(error, RequestValidationError) else ""
        )

    async def http(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        message = "Page not found. Check the address." if status == 404 else "This request is not supported here."
        return error_response(status, message)

    async def unexpected(request: Request, error: Exception) -> Response:
        return error_response(500, "Internal error; see the terminal that runs `vaswani explore`.")

    for kind in statuses:
        app.exception_handler(kind)(expected)
    app.exception_handler(RequestValidationError)(invalid)
    app.exception_handler(HTTPException)(http)
    app.exception_handler(Exception)(unexpected)


def validation_message(error: dict[str, Any]) -> str:
    """Turn a validation error of Pydantic into a sentence. Leaves out the invalid value, which may be long."""
    place = ".".join(str(part) for part in error["loc"] if part != "body")
    return f"Invalid request{f' ({place})' if place else ''}: {error['msg'].rstrip('.')}."
