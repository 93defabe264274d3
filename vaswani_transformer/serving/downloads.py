"""Translated files until they are downloaded."""

import re
import secrets
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import IO, NamedTuple
from urllib.parse import quote


DOWNLOAD_SECONDS = 30 * 60
MAX_DOWNLOADS = 100


class Download(NamedTuple):
    name: str
    file: IO[bytes]
    end: float


class Downloads:
    """Translated files, kept for half an hour under URLs that cannot be guessed.

    Temporary files without a name disappear with the process, even if it is killed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock, self.files, self.lock = clock, dict[str, Download](), threading.Lock()

    def add(self, name: str, content: bytes) -> str:
        """Stores a file and returns the last part of its URL."""
        file = tempfile.TemporaryFile(prefix="vaswani-")
        file.write(content)
        token = secrets.token_urlsafe(24)
        with self.lock:
            self._drop(max(self._expired(), len(self.files) - MAX_DOWNLOADS + 1))
            self.files[token] = Download(name, file, self.clock() + DOWNLOAD_SECONDS)
        return f"{token}/{quote(name)}"

    def read(self, token: str, name: str) -> bytes | None:
        """Returns the content of a file, or None if there is none."""
        with self.lock:
            self._drop(self._expired())
            download = self.files.get(token)
            if download is None or download.name != name:
                return None
            download.file.seek(0)
            return download.file.read()

    def close(self):
        with self.lock:
            self._drop(len(self.files))

    def _expired(self) -> int:
        return sum(download.end <= self.clock() for download in self.files.values())

    def _drop(self, number: int):
        for token in list(self.files)[: max(0, number)]:  # the oldest come first
            self.files.pop(token).file.close()


def translated_name(name: str, target: str) -> str:
    """Returns "report.de.docx" for "report.docx", without folders and with only characters that all systems accept."""
    file = PurePosixPath(name.replace("\\", "/"))
    stem = re.sub(r"[^\w .()+,-]", "_", file.stem)[:100]
    return f"{stem or 'document'}.{target}{file.suffix}"
