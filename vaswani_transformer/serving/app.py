"""The addresses, what they take and what they answer: LibreTranslate's API, so that its clients work unchanged."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from fastapi_offline import FastAPIOffline
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException as StarletteHTTPException

from .._version import __version__
from ..documents import SUFFIXES, DocumentError, DocumentTranslator, translate_content
from .asked import (
    FORMS,
    JSON,
    DetectRequest,
    FileRequest,
    TranslateRequest,
    body_of,
    check_key,
    checked,
    fields_of,
)
from .documents import Downloads, QueuedPipeline, name_of_translation
from .guard import GONE, Guard, problem
from .languages import AUTO, Detected, Languages, Unsupported, name_of
from .metrics import Metrics
from .queue import Busy, Pair, Queue, Worker


PAGE = Path(__file__).with_name("page")
BYTES_OF_A_CHARACTER = 12  # at most, in JSON and in a form
BYTES_BESIDES = 65_536
DOCUMENTS_AT_ONCE = 4
FILE_PATH = "/translate_file"


@dataclass
class Settings:
    """What the one who starts the server decides."""

    host: str = "127.0.0.1"
    origins: tuple[str, ...] = ()
    api_key: str | None = None
    most_characters: int = 10_000  # in the texts of one request
    most_file_bytes: int = 10_000_000
    most_waiting: int = 256
    search: dict[str, Any] = field(default_factory=dict)  # arguments of the pipelines' calls, such as num_beams


def create_app(languages: Languages, workers: Sequence[Worker], settings: Settings | None = None) -> FastAPI:
    """The server's application; the workers are closed with it."""
    settings = settings or Settings()
    service = Service(languages, workers, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await anyio.to_thread.run_sync(service.close)

    app = FastAPIOffline(
        title="vaswani-transformer",
        version=__version__,
        description='Translations by LibreTranslate\'s API. Errors are `{"error": ...}`.',
        redoc_url=None,
        lifespan=lifespan,
    )
    add_addresses(app, service)
    add_problems(app)
    if settings.origins:
        app.add_middleware(CORSMiddleware, allow_origins=settings.origins, allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(
        Guard,
        host=settings.host,
        origins=settings.origins,
        most_bytes=service.most_bytes,
        observe=service.metrics.observe,
    )
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app


def add_addresses(app: FastAPI, service: "Service"):
    key = service.settings.api_key

    @app.post("/translate", openapi_extra=body_of(TranslateRequest, JSON, FORMS[0]))
    async def translate(request: Request) -> Response:
        fields, _ = await fields_of(request)
        check_key(key, fields, request)
        return await answer(request, service.translate(checked(TranslateRequest, fields)))

    @app.post(FILE_PATH, openapi_extra=body_of(FileRequest, FORMS[1]))
    async def translate_file(request: Request) -> Response:
        fields, form = await fields_of(request)
        check_key(key, fields, request)
        asked = checked(FileRequest, fields)
        file = form.get("file") if form else None
        if not isinstance(file, UploadFile) or not file.filename:
            raise HTTPException(400, "Invalid request: missing file parameter")
        return await answer(request, service.translate_file(asked, file.filename, await file.read(), request.base_url))

    @app.get("/download_file/{token}/{name}")
    async def download_file(token: str, name: str) -> Response:
        file = service.downloads.find(token, name)
        if file is None:
            raise HTTPException(404, "There is no such file, or no longer.")
        return FileResponse(file, filename=name)

    @app.post("/detect", openapi_extra=body_of(DetectRequest, JSON, FORMS[0]))
    async def detect(request: Request) -> Response:
        fields, _ = await fields_of(request)
        check_key(key, fields, request)
        found = service.languages.detect(checked(DetectRequest, fields).q)
        return JSONResponse([as_libretranslate(one) for one in found])

    @app.get("/languages")
    @app.post("/languages", include_in_schema=False)
    async def languages() -> Response:
        return JSONResponse(service.languages.names())

    @app.get("/frontend/settings")
    async def frontend_settings() -> Response:
        return JSONResponse(service.for_pages())

    @app.get("/health")
    async def health() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        check_key(key, dict(request.query_params), request)
        return Response(service.metrics.text(), media_type=service.metrics.content_type)


def add_problems(app: FastAPI):
    """Every error as one sentence; what nobody foresaw goes to the log and not to the client."""

    def refuse(status: int, headers: dict[str, str] | None = None):
        async def handler(request: Request, error: Exception) -> Response:
            return problem(status, str(error), headers)

        return handler

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, StarletteHTTPException)
        return problem(error.status_code, str(error.detail), dict(error.headers or {}))

    async def unexpected(request: Request, error: Exception) -> Response:
        return problem(500, "Something went wrong here; the server's log says what.")

    app.exception_handler(StarletteHTTPException)(http)
    app.exception_handler(Unsupported)(refuse(400))
    app.exception_handler(DocumentError)(refuse(400))
    app.exception_handler(Busy)(refuse(429, {"Retry-After": "2"}))
    app.exception_handler(Exception)(unexpected)


class Service:
    """What the addresses do: the queue, the languages, the documents."""

    def __init__(self, languages: Languages, workers: Sequence[Worker], settings: Settings):
        self.languages, self.settings = languages, settings
        self.metrics = Metrics(lambda: len(self.queue))
        self.queue = Queue(workers, settings.most_waiting, self.metrics.batch_texts.observe)
        self.downloads = Downloads()
        self.threads = anyio.CapacityLimiter(DOCUMENTS_AT_ONCE)

    def close(self):
        self.queue.close()
        self.downloads.close()

    def most_bytes(self, path: str) -> int:
        if path == FILE_PATH:
            return self.settings.most_file_bytes + BYTES_BESIDES
        return BYTES_OF_A_CHARACTER * self.settings.most_characters + BYTES_BESIDES

    def for_pages(self) -> dict[str, Any]:
        names = self.languages.names()
        first, code = {"code": names[0]["code"], "name": names[0]["name"]}, names[0]["targets"][0]
        target = {"code": code, "name": name_of(code)}
        return {
            "apiKeys": bool(self.settings.api_key),
            "keyRequired": bool(self.settings.api_key),
            "charLimit": self.settings.most_characters,
            "frontendTimeout": 500,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": SUFFIXES,
            "language": {"source": first, "target": target},
        }

    async def translate(self, asked: TranslateRequest) -> dict[str, Any]:
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        characters = sum(map(len, texts))
        if characters > self.settings.most_characters:
            raise HTTPException(
                400,
                f"Invalid request: request ({characters}) exceeds text limit ({self.settings.most_characters})",
            )
        target = self.languages.code(asked.target)
        sources = [self.source_of(asked.source, text, target) for text in texts]
        if asked.format == "html":
            records = [await self.in_html(text, s.language, target) for text, s in zip(texts, sources, strict=True)]
        else:
            records = await self.in_batches(texts, [s.language for s in sources], target, asked.alternatives)
        answer: dict[str, Any] = {"translatedText": [best["translation_text"] for best, *_ in records]}
        if asked.source == AUTO:
            answer["detectedLanguage"] = [as_libretranslate(source) for source in sources]
        if asked.alternatives:
            answer["alternatives"] = [[other["translation_text"] for other in others] for _, *others in records]
        if isinstance(asked.q, str):
            answer = {name: values[0] for name, values in answer.items()}
        warnings = [warning for best, *_ in records for warning in best.get("warnings", [])]
        return answer | ({"warnings": warnings} if warnings else {})

    def source_of(self, source: str, text: str, target: str) -> Detected:
        """The language of a text, given or found. Raises Unsupported if it cannot be translated into `target`."""
        if source == AUTO:
            found = self.languages.detect(text, target)[0]
            source, confidence = found
        else:
            source, confidence = self.languages.code(source), 1.0
        if source != target:
            self.languages.check(source, target)
        return Detected(source, confidence)

    async def in_batches(
        self, texts: list[str], sources: list[str], target: str, alternatives: int
    ) -> list[list[dict[str, Any]]]:
        """The translations of each text, best first; one that is in the target language stays as it is."""
        records: list[list[dict[str, Any]]] = [[{"translation_text": text}] for text in texts]
        waiting, places = [], []
        try:
            for source in dict.fromkeys(sources):
                chosen = [i for i, other in enumerate(sources) if other == source]
                if source == target or not any(texts[i].strip() for i in chosen):
                    continue
                pair = source, target
                settings = self.settings.search | self.several(pair, alternatives)
                future = self.queue.submit(pair, [texts[i] for i in chosen], **settings)
                waiting.append(asyncio.wrap_future(future))
                places.append(chosen)
                self.metrics.characters.labels(source, target).inc(sum(len(texts[i]) for i in chosen))
            for chosen, found in zip(places, await asyncio.gather(*waiting), strict=True):
                for i, of_text in zip(chosen, found, strict=True):
                    records[i] = without_repetitions(of_text)
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
        return records

    def several(self, pair: Pair, alternatives: int) -> dict[str, Any]:
        """The search for as many translations besides the best."""
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

    async def translate_file(self, asked: FileRequest, name: str, content: bytes, base: Any) -> dict[str, Any]:
        target = self.languages.code(asked.target)
        source = asked.source
        if source == AUTO:
            source = await self.language_of_document(content, name, target)
        source = self.source_of(source, "", target).language
        new = name_of_translation(name, target)
        translated, warnings = content, []
        if source != target:
            translated, warnings = await self.document(content, name, source, target)
        address = f"{base}download_file/{self.downloads.add(new, translated)}"
        return {"translatedFileUrl": address} | ({"warnings": warnings} if warnings else {})

    async def language_of_document(self, content: bytes, name: str, target: str) -> str:
        """Found by the texts that would be translated."""
        texts: list[str] = []
        reader = DocumentTranslator(Reader(texts), target)
        await anyio.to_thread.run_sync(partial(translate_content, content, name, reader), limiter=self.threads)
        return self.languages.detect(" ".join(texts)[:5000], target)[0].language

    async def document(self, content: bytes, name: str, source: str, target: str) -> tuple[bytes, list[str]]:
        """The translated document, and what is to be said of it."""
        if self.threads.statistics().tasks_waiting >= self.settings.most_waiting:
            raise Busy("Too many documents are waiting. Try again later.")
        pair = source, target
        pipeline = QueuedPipeline(self.queue, pair, self.languages.configs[pair])
        translator = DocumentTranslator(pipeline, target, self.settings.search)
        self.metrics.characters.labels(source, target).inc(len(content))
        try:
            work = partial(translate_content, content, name, translator)
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self.threads), (
                translator.warnings
            )
        except BaseException:
            pipeline.withdraw()
            raise


class Reader:
    """A pipeline that only collects the texts that it is given."""

    can_align = False

    def __init__(self, texts: list[str]):
        self.texts = texts

    def translate(self, texts, batch_size, progress, **settings):
        self.texts += texts
        return [[{"translation_text": text}] for text in texts]


def without_repetitions(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({record["translation_text"]: record for record in reversed(records)}.values())[::-1]


def as_libretranslate(found: Detected) -> dict[str, Any]:
    return {"confidence": round(100 * found.confidence, 1), "language": found.language}


async def answer(request: Request, work: Any) -> Response:
    """The answer to a request, unless the client leaves before: its work is then given up."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(has_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return JSONResponse(working.result()) if working.done() else Response(status_code=GONE)
    finally:
        leaving.cancel()
        working.cancel()


async def has_left(request: Request):
    while (await request.receive())["type"] != "http.disconnect":
        pass
