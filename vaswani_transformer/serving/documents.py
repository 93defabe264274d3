"""Whole documents, translated through the queue, and the translated files until they are downloaded."""

import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from .queue import Busy, Pair, Queue, Translations


MAX_TEXTS_AT_ONCE = 32  # so that a document of a thousand sentences does not block other requests
DOWNLOAD_SECONDS = 30 * 60
MAX_DOWNLOADS = 100


class QueuedPipeline:
    """Takes the place of a pipeline and puts the texts of a document into the queue, a few at a time."""

    def __init__(self, queue: Queue, pair: Pair, config: Any):
        self.queue, self.pair = queue, pair
        self.can_align = getattr(config, "alignment_head", None) is not None
        self.pending: Future[Translations] | None = None
        self.is_withdrawn = False

    def translate(
        self, texts: Sequence[str], batch_size: int | None, progress: Callable[[int], object] | None, **settings: Any
    ) -> Translations:
        """Raises Busy if the queue takes no text of the document, and CancelledError when it is withdrawn."""
        # Drop defaults, so that equal requests can share a batch.
        settings = {name: value for name, value in settings.items() if value is not False}
        records: Translations = []
        for start in range(0, len(texts), MAX_TEXTS_AT_ONCE):
            self.pending = self._submit(texts[start : start + MAX_TEXTS_AT_ONCE], settings)
            records += self.pending.result()
        return records

    def _submit(self, texts: Sequence[str], settings: dict[str, Any]) -> Future[Translations]:
        while not self.is_withdrawn:
            try:
                return self.queue.submit(self.pair, texts, **settings)
            except Busy:
                if self.pending is None or self.queue.is_closing:
                    raise
                time.sleep(0.1)  # a document that is already being translated waits
        raise CancelledError

    def withdraw(self):
        """Cancels the document, because the client has disconnected."""
        self.is_withdrawn = True
        if self.pending is not None:
            self.pending.cancel()


class Downloads:
    """Translated files, kept for half an hour under URLs that cannot be guessed."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="vaswani-"))

    def add(self, name: str, content: bytes) -> str:
        """Stores a file and returns the last part of its URL."""
        self._tidy()
        token = secrets.token_urlsafe(24)
        (self.folder / token).mkdir()
        (self.folder / token / name).write_bytes(content)
        return f"{token}/{quote(name)}"

    def find(self, token: str, name: str) -> Path | None:
        # Compares with the files that exist, so that no name leads out of the folder.
        files = self.folder.glob("*/*")
        return next((file for file in files if (file.parent.name, file.name) == (token, name)), None)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tidy(self):
        oldest_first = sorted(self.folder.iterdir(), key=lambda folder: folder.stat().st_mtime)
        for i, folder in enumerate(oldest_first):
            if i <= len(oldest_first) - MAX_DOWNLOADS or folder.stat().st_mtime < time.time() - DOWNLOAD_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def translated_name(name: str, target: str) -> str:
    """Returns "report.de.docx" for "report.docx", without folders and with only characters that all systems accept."""
    file = PurePosixPath(name.replace("\\", "/"))
    stem = re.sub(r"[^\w .()+,-]", "_", file.stem)[:100]
    return f"{stem or 'document'}.{target}{file.suffix}"
