"""The endpoints of LibreTranslate's API, so that its clients work unchanged."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import anyio
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse, JSONResponse
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect

from .._version import __version__
from ..documents import SUFFIXES, DocumentError, unsupported
from ..system.web import host_name, split_origin
from . import pivot
from .documents import MAX_DOCUMENTS_AT_ONCE, Document, DocumentProcesses, DocumentTooComplex, QueuedTexts
from .downloads import Downloads, translated_name
from .guard import DISCONNECTED, Guard, problem
from .languages import AUTO, Detected, Languages, Unsupported, english_name
from .metrics import Metrics
from .queue import Busy, Overdue, Pair, Queue, Translations, Worker, WorkerLost
from .rates import RateLimit
from .requests import (
    FORMS,
    JSON,
    DetectRequest,
    FileRequest,
    TranslateRequest,
    check_key,
    openapi_body,
    read_fields,
    url_fields,
    validate,
)


PAGE = Path(__file__).with_name("page")
MAX_CHARACTER_BYTES = 12  # in JSON and in a form
OTHER_BYTES = 65_536  # for the rest of a request
FILE_PATH = "/translate_file"
DOWNLOADED = "application/octet-stream"  # no browser shows it as a page of this server
ANY_ORIGIN = "*"
MAX_DETECTED_CHARACTERS = 5000  # of a document
CLOSING_SECONDS = 1.0  # for work that is left when the server stops


@dataclass
class Settings:
    """The settings of a server."""

    host: str = "127.0.0.1"
    origins: tuple[str, ...] = ()
    api_key: str | None = None
    max_characters: int = 10_000  # in the texts of one request
    max_file_bytes: int = 10_000_000
    max_waiting: int = 256
    requests_per_minute: int | None = None  # of one client
    search: dict[str, Any] = field(default_factory=dict)  # arguments of the pipelines, such as num_beams

    @property
    def websites(self) -> list[str]:
        """The origins without their paths."""
        return [url if url == ANY_ORIGIN else split_origin(url)[0] for url in self.origins]

    @property
    def root_path(self) -> str:
        """The path of the server behind a proxy: that of the first origin."""
        return next((split_origin(url)[1] for url in self.origins if url != ANY_ORIGIN), "")

    def public_address(self, request: Request) -> str:
        """Returns the beginning of links to this server: an origin, by default the address of the request."""
        addresses = [f"{url}{self.root_path}/" for url in self.websites if url != ANY_ORIGIN]
        host = host_name(request.headers.get("host", ""))
        same_host = [address for address in addresses if urlsplit(address).hostname == host]
        return [*same_host, *addresses, str(request.base_url)][0]


def create_app(
    languages: Languages,
    workers: Sequence[Worker],
    settings: Settings | None = None,
    documents: DocumentProcesses | None = None,
) -> FastAPI:
    """Returns the server's application, which closes the workers when it stops.

    Raises:
        ValueError: an origin is invalid.
    """
    settings = settings or Settings()
    service = Service(languages, workers, settings, documents or DocumentProcesses())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await anyio.to_thread.run_sync(service.close)

    app = FastAPIOffline(
        title="vaswani-transformer",
        version=__version__,
        description='Translations with LibreTranslate\'s API. Errors are `{"error": ...}`.',
        redoc_url=None,
        lifespan=lifespan,
    )
    add_endpoints(app, service)
    add_page(app)
    add_error_handlers(app)
    if settings.origins:
        app.add_middleware(CORSMiddleware, allow_origins=settings.websites, allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(
        Guard,
        host=settings.host,
        origins=settings.websites,
        max_bytes=service.max_bytes,
        observe=service.metrics.observe,
        root_path=settings.root_path,
        rate_limit=RateLimit(settings.requests_per_minute) if settings.requests_per_minute else None,
    )
    return app


def add_page(app: FastAPI):
    """Adds a route for each file: a folder at "/" would answer all other paths and methods, too."""
    for file in PAGE.iterdir():
        path = "/" if file.name == "index.html" else f"/{file.name}"
        app.api_route(path, methods=["GET", "HEAD"], include_in_schema=False)(partial(page_file, file))


async def page_file(file: Path) -> Response:
    return FileResponse(file)


def add_endpoints(app: FastAPI, service: "Service"):
    settings = service.settings
    key = settings.api_key

    @app.post("/translate", openapi_extra=openapi_body(TranslateRequest, JSON, FORMS[0]))
    async def translate(request: Request) -> Response:
        fields, _ = await read_fields(request)
        check_key(key, fields, request)
        wanted = validate(TranslateRequest, fields)
        request.scope["characters"] = sum(map(len, wanted.texts))
        return await answer(request, service.translate(wanted))

    @app.post(FILE_PATH, openapi_extra=openapi_body(FileRequest, FORMS[1]))
    async def translate_file(request: Request) -> Response:
        fields, file = await read_fields(request)
        check_key(key, fields, request)
        wanted = validate(FileRequest, fields)
        if file is None or not file.filename:
            raise HTTPException(400, "Invalid request: missing file parameter")
        content, address = await file.read(), settings.public_address(request)
        return await answer(request, service.translate_file(wanted, file.filename, content, address))

    @app.get("/download_file/{token}/{name}")
    async def download_file(token: str, name: str) -> Response:
        content = service.downloads.read(token, name)
        if content is None:
            raise HTTPException(404, "File not found, or it has expired. Translate it again.")
        headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(name)}"}
        return Response(content, media_type=DOWNLOADED, headers=headers)

    @app.post("/suggest", include_in_schema=False)
    async def suggest() -> Response:
        raise HTTPException(403, "Suggestions are disabled on this server.")  # LibreTranslate's default, too

    @app.post("/detect", openapi_extra=openapi_body(DetectRequest, JSON, FORMS[0]))
    async def detect(request: Request) -> Response:
        fields, _ = await read_fields(request)
        check_key(key, fields, request)
        detected = service.languages.detect(validate(DetectRequest, fields).q)
        return JSONResponse([as_libretranslate(language) for language in detected])

    @app.get("/languages")
    @app.post("/languages", include_in_schema=False)
    async def languages() -> Response:
        return JSONResponse(service.languages.names())

    @app.get("/frontend/settings")
    async def frontend_settings() -> Response:
        return JSONResponse(service.for_pages())

    @app.get("/health")
    @app.head("/health", include_in_schema=False)
    async def health() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        check_key(key, dict(url_fields(request)), request)
        return Response(service.metrics.text(), media_type=service.metrics.content_type)


def add_error_handlers(app: FastAPI):
    """Answers every error with a sentence; unexpected errors go to the log, not to the client."""

    def reject(status: int, headers: dict[str, str] | None = None):
        async def handler(request: Request, error: Exception) -> Response:
            return problem(status, str(error), headers)

        return handler

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, StarletteHTTPException)
        return problem(error.status_code, str(error.detail), dict(error.headers or {}))

    async def left(request: Request, error: Exception) -> Response:
        return Response(status_code=DISCONNECTED)

    async def unexpected(request: Request, error: Exception) -> Response:
        return problem(500, "Internal error; see the server's log.")

    app.exception_handler(StarletteHTTPException)(http)
    app.exception_handler(Unsupported)(reject(400))
    app.exception_handler(DocumentError)(reject(400))
    app.exception_handler(DocumentTooComplex)(reject(413))
    app.exception_handler(Busy)(reject(429, {"Retry-After": "2"}))
    app.exception_handler(WorkerLost)(reject(503, {"Retry-After": "10"}))
    app.exception_handler(Overdue)(reject(504))
    app.exception_handler(ClientDisconnect)(left)
    app.exception_handler(Exception)(unexpected)


class Service:
    """The work behind the endpoints: the queue, the languages, the documents."""

    def __init__(
        self, languages: Languages, workers: Sequence[Worker], settings: Settings, documents: DocumentProcesses
    ):
        self.languages, self.settings = languages, settings
        self.metrics = Metrics(lambda: len(self.queue))
        self.queue = Queue(workers, settings.max_waiting, self.metrics.batch_texts.observe)
        self.downloads, self.documents = Downloads(), documents
        self.threads = anyio.CapacityLimiter(MAX_DOCUMENTS_AT_ONCE)

    def close(self):
        self.queue.close(CLOSING_SECONDS)
        self.documents.close()
        self.downloads.close()

    def max_bytes(self, path: str) -> int:
        if path == FILE_PATH:
            return self.settings.max_file_bytes + OTHER_BYTES
        return MAX_CHARACTER_BYTES * self.settings.max_characters + OTHER_BYTES

    def for_pages(self) -> dict[str, Any]:
        names = self.languages.names()
        first, code = {"code": names[0]["code"], "name": names[0]["name"]}, names[0]["targets"][0]
        target = {"code": code, "name": english_name(code)}
        return {
            "apiKeys": bool(self.settings.api_key),
            "keyRequired": bool(self.settings.api_key),
            "charLimit": self.settings.max_characters,
            "frontendTimeout": 500,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": SUFFIXES,
            "language": {"source": first, "target": target},
        }

    async def translate(self, request: TranslateRequest) -> dict[str, Any]:
        texts = request.texts
        characters = sum(map(len, texts))
        if characters > self.settings.max_characters:
            raise HTTPException(
                400,
                f"Invalid request: request ({characters}) exceeds text limit ({self.settings.max_characters})",
            )
        target = self.languages.code(request.target)
        sources = [self.source_of(request.source, text, target) for text in texts]
        if request.format == "html":
            records = [await self.in_html(text, s.language, target) for text, s in zip(texts, sources, strict=True)]
        else:
            records = await self.in_batches(texts, [s.language for s in sources], target, request)
        answer: dict[str, Any] = {"translatedText": [best["translation_text"] for best, *_ in records]}
        if request.source == AUTO:
            answer["detectedLanguage"] = [as_libretranslate(source) for source in sources]
        if request.alternatives:
            answer["alternatives"] = [[record["translation_text"] for record in rest] for _, *rest in records]
        if request.confidence:
            answer["confidence"] = [as_confidence(best) for best, *_ in records]
        if isinstance(request.q, str):
            answer = {name: values[0] for name, values in answer.items()}
        warnings = [warning for best, *_ in records for warning in best.get("warnings", [])]
        return answer | ({"warnings": warnings} if warnings else {})

    def source_of(self, source: str, text: str, target: str) -> Detected:
        """Returns the given or detected language of a text; raises Unsupported if it cannot be translated."""
        if source == AUTO:
            source, confidence = self.languages.detect(text, target)[0]
        else:
            source, confidence = self.languages.code(source), 1.0
        if source != target:
            self.languages.check(source, target)
        return Detected(source, confidence)

    async def in_batches(
        self, texts: list[str], sources: list[str], target: str, request: TranslateRequest
    ) -> list[list[dict[str, Any]]]:
        """Returns the translations of each text, best first; a text in the target language is returned unchanged."""
        records: list[list[dict[str, Any]]] = [[{"translation_text": text}] for text in texts]
        waiting, places = [], []
        try:
            for source in dict.fromkeys(sources):
                chosen = [i for i, other in enumerate(sources) if other == source]
                if source == target or not any(texts[i].strip() for i in chosen):
                    continue
                route = self.languages.route(source, target)
                more, chosen_texts = self.search_settings(route[-1], request.alternatives), [texts[i] for i in chosen]
                settings = self.settings.search
                if request.confidence and self.languages.have_confidence(route):
                    settings = settings | {"return_confidence": True}
                future = pivot.submit(self.queue, route, chosen_texts, settings, more)
                waiting.append(asyncio.wrap_future(future))
                places.append(chosen)
                self.metrics.characters.labels(source, target).inc(sum(len(texts[i]) for i in chosen))
            for chosen, results in zip(places, await asyncio.gather(*waiting), strict=True):
                for i, translations in zip(chosen, results, strict=True):
                    records[i] = without_repetitions(translations)
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
        return records

    def search_settings(self, pair: Pair, alternatives: int) -> dict[str, Any]:
        """Returns the settings that find this many translations besides the best."""
        if not alternatives:
            return {}
        beams = self.settings.search.get("num_beams") or self.languages.configs[pair].num_beams or 1
        number = alternatives + 1
        return {"num_return_sequences": number, "num_beams": max(beams, number), "tries_again": True}

    async def in_html(self, text: str, source: str, target: str) -> list[dict[str, Any]]:
        if source == target:
            return [{"translation_text": text}]
        content, warnings = await self.document(text.encode(), "text.html", source, target)
        return [{"translation_text": content.decode(), "warnings": warnings}]

    async def translate_file(self, request: FileRequest, name: str, content: bytes, base: str) -> dict[str, Any]:
        suffix = Path(name).suffix.lower()
        if suffix not in SUFFIXES:
            raise DocumentError(f"{suffix[:20] or name[:50]}: {unsupported(suffix)}")
        target = self.languages.code(request.target)
        source = request.source
        if source == AUTO:
            source = await self.language_of_document(content, name, target)
        source = self.source_of(source, "", target).language
        translated, warnings = content, []
        if source != target:
            translated, warnings = await self.document(content, name, source, target)
        address = f"{base}download_file/{self.downloads.add(translated_name(name, target), translated)}"
        return {"translatedFileUrl": address} | ({"warnings": warnings} if warnings else {})

    async def language_of_document(self, content: bytes, name: str, target: str) -> str:
        """Detects the language of the texts in a document that would be translated."""
        texts: list[str] = []

        def collect(new: Sequence[str], settings: dict[str, Any]) -> Translations:
            texts.extend(new)
            return [[{"translation_text": text}] for text in new]

        work = partial(self.documents.translate, Document(content, name, target), collect)
        await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self.threads)
        return self.languages.detect(" ".join(texts)[:MAX_DETECTED_CHARACTERS], target)[0].language

    async def document(self, content: bytes, name: str, source: str, target: str) -> tuple[bytes, list[str]]:
        """Returns the translated document and its warnings."""
        if self.threads.statistics().tasks_waiting >= self.settings.max_waiting:
            raise Busy("Too many documents are waiting. Try again later.")
        route = self.languages.route(source, target)
        can_align = len(route) == 1 and getattr(self.languages.configs[route[0]], "alignment_head", None) is not None
        texts = QueuedTexts(
            lambda texts, **settings: pivot.submit(self.queue, route, texts, settings), lambda: self.queue.is_closing
        )
        self.metrics.characters.labels(source, target).inc(len(content))
        work = partial(
            self.documents.translate, Document(content, name, target, self.settings.search, can_align), texts
        )
        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self.threads)
        except BaseException:
            texts.withdraw()
            raise


def without_repetitions(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({record["translation_text"]: record for record in reversed(records)}.values())[::-1]


def as_confidence(record: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the confidence of a translation, of its words in order, and the least certain one; None if unknown."""
    if "word_confidences" not in record:
        return None
    text = record["translation_text"]
    words = [{"word": text[slice(*span)], "confidence": round(x, 3)} for span, x in record["word_confidences"]]
    # As `least_certain_word` does, whose module imports torch: punctuation marks do not count.
    candidates = (word for word in words if any(map(str.isalnum, word["word"])))
    lowest = min(candidates, key=itemgetter("confidence"), default=None)
    return {"mean": round(record["confidence"], 3), "lowest": lowest, "words": words}


def as_libretranslate(detected: Detected) -> dict[str, Any]:
    return {"confidence": round(100 * detected.confidence, 1), "language": detected.language}


async def answer(request: Request, work: Any) -> Response:
    """Answers a request; the work is cancelled if the client disconnects first, or the server stops."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return JSONResponse(working.result()) if working.done() else Response(status_code=DISCONNECTED)
    finally:
        leaving.cancel()
        working.cancel()


async def disconnected(request: Request):
    while (await request.receive())["type"] != "http.disconnect":
        pass
