"""Whole documents, translated by way of the queue, and translated files until they are fetched."""

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

from .queue import Busy, Pair, Queue, Records


TEXTS_AT_ONCE = 32  # so that a document of a thousand sentences lets others pass
SECONDS_KEPT = 30 * 60
MOST_KEPT = 100


class QueuedPipeline:
    """What a `DocumentTranslator` takes for its pipeline: its texts wait with those of others, a few at a time."""

    def __init__(self, queue: Queue, pair: Pair, config: Any):
        self.queue, self.pair = queue, pair
        self.can_align = getattr(config, "alignment_head", None) is not None
        self.asked: Future[Records] | None = None
        self.is_withdrawn = False

    def translate(
        self, texts: Sequence[str], batch_size: int | None, progress: Callable[[int], object] | None, **settings: Any
    ) -> Records:
        """Raises Busy if no text of the document has been taken, and CancelledError when it is withdrawn."""
        # Without what is off by default, as others ask who may share a batch.
        settings = {name: value for name, value in settings.items() if value is not False}
        records: Records = []
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            self.asked = self._submit(texts[start : start + TEXTS_AT_ONCE], settings)
            records += self.asked.result()
        return records

    def _submit(self, texts: Sequence[str], settings: dict[str, Any]) -> Future[Records]:
        while not self.is_withdrawn:
            try:
                return self.queue.submit(self.pair, texts, **settings)
            except Busy:
                if self.asked is None or self.queue.is_closing:
                    raise
                time.sleep(0.1)  # what is half done is not thrown away
        raise CancelledError

    def withdraw(self):
        """The client has left."""
        self.is_withdrawn = True
        if self.asked is not None:
            self.asked.cancel()


class Downloads:
    """Translated files, each under an address that nobody can guess, for half an hour."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="vaswani-"))

    def add(self, name: str, content: bytes) -> str:
        """Keeps a file; gives the part of its address that names it."""
        self._tidy()
        token = secrets.token_urlsafe(24)
        (self.folder / token).mkdir()
        (self.folder / token / name).write_bytes(content)
        return f"{token}/{quote(name)}"

    def find(self, token: str, name: str) -> Path | None:
        # Only what is in the folder is given, whatever the names say.
        found = [file for file in self.folder.glob("*/*") if (file.parent.name, file.name) == (token, name)]
        return found[0] if found else None

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tidy(self):
        oldest_first = sorted(self.folder.iterdir(), key=lambda folder: folder.stat().st_mtime)
        for i, folder in enumerate(oldest_first):
            if i <= len(oldest_first) - MOST_KEPT or folder.stat().st_mtime < time.time() - SECONDS_KEPT:
                shutil.rmtree(folder, ignore_errors=True)


def name_of_translation(name: str, target: str) -> str:
    """ "report.docx" -> "report.de.docx", without folders, and of characters that every system takes."""
    file = PurePosixPath(name.replace("\\", "/"))
    stem = re.sub(r"[^\w .()+,-]", "_", file.stem)[:100]
    return f"{stem or 'document'}.{target}{file.suffix}"
