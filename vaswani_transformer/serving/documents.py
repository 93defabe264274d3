"""Whole documents: processes that parse them, while their texts are translated through the queue.

A document that is built to take much time or memory must not stop the process that answers HTTP: Python's regular
expressions hold the interpreter's lock, and a file of a few kilobytes can unpack to gigabytes.
"""

import queue
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from ..documents import DocumentError, DocumentTranslator, translate_content
from ..system.memory import limit_memory
from ..system.processes import Companion, ProcessEnded
from .queue import Busy, Translations


MAX_TEXTS_AT_ONCE = 32  # so that a document of a thousand sentences does not block other requests
MAX_DOCUMENTS_AT_ONCE = 4
MAX_SECONDS = 30.0  # for parsing, without the translation
MAX_MEMORY = 2**30  # bytes

Texts = Sequence[str]
Translate = Callable[[Texts, dict[str, Any]], Translations]


class DocumentTooComplex(RuntimeError):
    """Parsing the document takes too much time or memory."""


@dataclass
class Document:
    """A document to translate: `name` gives its format, `settings` are arguments of the pipeline."""

    content: bytes
    name: str
    target: str
    settings: dict[str, Any] = field(default_factory=dict)
    can_align: bool = False


class DocumentProcesses:
    """Processes that parse documents, started when they are needed.

    Args:
        max_seconds: The time limit for parsing a document.
        max_memory: The memory limit for parsing a document, in bytes.
        number: How many documents are translated at once.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        max_seconds: float = MAX_SECONDS,
        max_memory: int = MAX_MEMORY,
        number: int = MAX_DOCUMENTS_AT_ONCE,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.max_seconds, self.max_memory, self.clock = max_seconds, max_memory, clock
        self.processes: set[Companion] = set()
        self.idle: queue.LifoQueue[Companion | None] = queue.LifoQueue()
        for _ in range(number):
            self.idle.put(None)

    def translate(self, document: Document, translate: Translate) -> tuple[bytes, list[str]]:
        """Returns the translated document and its warnings; `translate` translates its texts.

        Raises:
            DocumentError: the document cannot be translated.
            DocumentTooComplex: parsing takes too much time or memory.
            Exception: the error of `translate`.
        """
        process = self.idle.get()
        try:
            process = process or self._start()
            return self._converse(process, document, translate)
        except (DocumentTooComplex, ProcessEnded, TimeoutError) as error:
            self._end(process)
            process = None  # the next document starts another one
            limit = f"{self.max_seconds:g} seconds" if isinstance(error, TimeoutError) else memory(self.max_memory)
            raise DocumentTooComplex(f"Parsing the document takes more than {limit}. Split it.") from error
        finally:
            self.idle.put(process)

    def close(self):
        for process in list(self.processes):
            self._end(process)

    def _start(self) -> Companion:
        process = Companion(parse_documents, self.max_memory)
        self.processes.add(process)
        process.receive()
        return process

    def _end(self, process: Companion | None):
        if process is not None:
            self.processes.discard(process)
            process.kill()

    def _converse(self, process: Companion, document: Document, translate: Translate) -> tuple[bytes, list[str]]:
        process.send(document)
        remaining = self.max_seconds
        while True:
            start = self.clock()
            message = process.receive(remaining)
            remaining = max(0.0, remaining - (self.clock() - start))
            if isinstance(message, Exception):
                raise message
            if isinstance(message, Result):
                return message.content, message.warnings
            try:
                answer = translate(*message)
            except BaseException:
                process.send(None)
                raise
            process.send(answer)


@dataclass
class Result:
    content: bytes
    warnings: list[str]


def memory(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB of memory"


# In the processes ----------------------------------------------------------------------------------------------------


class Withdrawn(Exception):
    """The document's request was cancelled."""


class RemotePipeline:
    """Takes the place of a pipeline, and asks the parent process for translations."""

    def __init__(self, connection: Connection, can_align: bool):
        self.connection, self.can_align = connection, can_align

    def translate(
        self, texts: Texts, batch_size: int | None, progress: Callable[[int], object] | None, **settings: Any
    ) -> Translations:
        if not texts:
            return []
        # Drop defaults, so that equal requests can share a batch.
        self.connection.send((texts, {name: value for name, value in settings.items() if value is not False}))
        answer = self.connection.recv()
        if answer is None:
            raise Withdrawn
        return answer


def parse_documents(connection: Connection, max_memory: int):
    """Translates documents until the connection ends."""
    limit_memory(max_memory)
    connection.send(None)  # starts the time limit
    while True:
        document = connection.recv()
        try:
            pipeline = RemotePipeline(connection, document.can_align)
            translator = DocumentTranslator(pipeline, document.target, document.settings)
            content = translate_content(document.content, document.name, translator)
            connection.send(Result(content, translator.warnings))
        except Withdrawn:
            pass
        except MemoryError:
            connection.send(DocumentTooComplex())
        except DocumentError as error:
            connection.send(DocumentError(str(error)))
        except (EOFError, OSError):
            raise
        except Exception as error:
            traceback.print_exc()
            connection.send(RuntimeError(f"{type(error).__name__}: {error}"))


# In the server's process ---------------------------------------------------------------------------------------------


class QueuedTexts:
    """Translates the texts of a document through the queue, a few at a time.

    Args:
        submit: Puts texts into the queue, with settings; returns the future translations.
        is_closing: Whether the queue takes no more texts.
    """

    def __init__(self, submit: Callable[..., Future[Translations]], is_closing: Callable[[], bool]):
        self.submit, self.is_closing = submit, is_closing
        self.pending: Future[Translations] | None = None
        self.is_withdrawn = False

    def __call__(self, texts: Texts, settings: dict[str, Any]) -> Translations:
        """Raises Busy if the queue takes no text of the document, and CancelledError when it is withdrawn."""
        records: Translations = []
        for start in range(0, len(texts), MAX_TEXTS_AT_ONCE):
            self.pending = self._submit(texts[start : start + MAX_TEXTS_AT_ONCE], settings)
            if self.is_withdrawn:
                self.pending.cancel()
            records += self.pending.result()
        return records

    def _submit(self, texts: Texts, settings: dict[str, Any]) -> Future[Translations]:
        while not self.is_withdrawn:
            try:
                return self.submit(texts, **settings)
            except Busy:
                if self.pending is None or self.is_closing():
                    raise
                time.sleep(0.1)  # a document that is already being translated waits
        raise CancelledError

    def withdraw(self):
        """Cancels the document, because the client has disconnected."""
        self.is_withdrawn = True
        if self.pending is not None:
            self.pending.cancel()
