"""The explorer's requests and answers: checked, bounded, and for this computer's own browser only."""

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

from ..system.web import host_of, is_loopback
from .answers import BEAMS, model_answer, position_tensors, tensors_file
from .opened import Shelf, UnknownCheckpoint
from .runs import Busy, Forgotten, Refused, Runs


PAGE = Path(__file__).with_name("page")
CHARACTERS = 5_000
LARGEST_ALPHA = 5.0
SAFETENSORS = "application/octet-stream"
# What a browser takes for a module or a font does not depend on what this system's tables say.
for extension, kind in {".js": "text/javascript", ".mjs": "text/javascript", ".woff2": "font/woff2"}.items():
    mimetypes.add_type(kind, extension)

HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # The page loads nothing from anywhere else.
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "frame-ancestors 'none'",
}


# Requests ------------------------------------------------------------------------------------------------------------


class RunRequest(BaseModel):
    """A sentence for a checkpoint (by default the current one), and how to run it."""

    model_config = ConfigDict(extra="forbid")

    checkpoint: str | None = None
    text: str = Field(max_length=CHARACTERS)
    beams: int | None = Field(None, ge=1, le=BEAMS)
    alpha: Annotated[float, Field(ge=0, le=LARGEST_ALPHA, allow_inf_nan=False)] | None = None
    off: list[tuple[str, str, int, int]] = Field([], max_length=1024)
    causal: bool = True


# The application -----------------------------------------------------------------------------------------------------


def create_app(shelf: Shelf, host: str = "127.0.0.1", runs: Runs | None = None, page: Path = PAGE) -> FastAPI:
    """The page and the answers that it asks for.

    `host` is the address that the server listens on, `runs` makes the runs, `page` is the folder of index.html.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    runs = runs or Runs()
    add_guard(app, host)
    add_problems(app)

    @app.get("/api/checkpoints")
    def checkpoints() -> Response:
        return JSONResponse({"current": shelf.current, "checkpoints": shelf.listed()})

    @app.get("/api/model")
    def model(checkpoint: str | None = None) -> Response:
        return JSONResponse(model_answer(shelf.open(checkpoint)))

    @app.get("/api/model/tensors")
    def model_tensors(checkpoint: str | None = None) -> Response:
        return Response(tensors_file(position_tensors(shelf.open(checkpoint))), media_type=SAFETENSORS)

    @app.post("/api/run")
    def run(request: RunRequest) -> Response:
        opened = shelf.open(request.checkpoint)
        return JSONResponse(runs.run(opened, request.text, request.beams, request.alpha, request.off, request.causal))

    @app.post("/api/heads")
    def heads(request: RunRequest) -> Response:
        opened = shelf.open(request.checkpoint)
        return JSONResponse(runs.heads(opened, request.text, request.beams, request.alpha))

    @app.post("/api/beyond")
    def beyond(request: RunRequest) -> Response:
        opened = shelf.open(request.checkpoint)
        return JSONResponse(runs.beyond(opened, request.text, request.beams, request.alpha))

    @app.get("/api/run/{run_id}/tensors")
    def run_tensors(run_id: str) -> Response:
        return Response(tensors_file(runs.tensors(run_id)), media_type=SAFETENSORS)

    app.mount("/", StaticFiles(directory=page, html=True))
    return app


def add_guard(app: FastAPI, host: str):
    """Refuses requests that a page of somebody else's sends, or sends under a name of its own (DNS rebinding)."""

    @app.middleware("http")
    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        named, origin = request.headers.get("host", ""), request.headers.get("origin")
        if is_loopback(host) and not is_loopback(host_of(named)):
            response = problem(403, "This explorer answers to this computer only: open it by its own address.")
        elif origin is not None and origin not in (f"http://{named}", f"https://{named}"):
            response = problem(403, "This explorer answers to its own page only.")
        else:
            response = await answer(request)
        response.headers.update(HEADERS)
        return response


def problem(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"problem": sentence}, status)


def add_problems(app: FastAPI):
    """Every error as one sentence; what nobody foresaw goes to the log and not to the page."""
    statuses = {UnknownCheckpoint: 404, Forgotten: 404, Refused: 422, Busy: 503, TimeoutError: 503}

    async def expected(request: Request, error: Exception) -> Response:
        return problem(next(status for kind, status in statuses.items() if isinstance(error, kind)), str(error))

    async def invalid(request: Request, error: Exception) -> Response:
        return problem(422, sentence_of(error.errors()[0]) if isinstance(error, RequestValidationError) else "")

    async def http(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return problem(status, "There is nothing at this address." if status == 404 else "This cannot be asked here.")

    async def unexpected(request: Request, error: Exception) -> Response:
        return problem(500, "Something went wrong here; the terminal that runs `vaswani explore` says what.")

    for kind in statuses:
        app.exception_handler(kind)(expected)
    app.exception_handler(RequestValidationError)(invalid)
    app.exception_handler(HTTPException)(http)
    app.exception_handler(Exception)(unexpected)


def sentence_of(error: dict[str, Any]) -> str:
    """Pydantic's first complaint, without the value that it is about."""
    place = ".".join(str(part) for part in error["loc"] if part != "body")
    return f"The request cannot be used{f' ({place})' if place else ''}: {error['msg'].rstrip('.')}."
