"""The limits of an unpacked document: a few kilobytes can unpack to gigabytes."""

from zipfile import ZipFile

from .document import DocumentError


MAX_PARTS = 20_000
MAX_UNPACKED_BYTES = 2**28
MAX_RATIO = 200  # of unpacked to packed bytes in a part; text reaches 30, and tables of equal cells 100
MIN_RATIO_BYTES = 2**20  # in a smaller part, any ratio is harmless
MAX_TAGS = 1_000_000  # of XML in all parts: up to 500 MB when parsed; a long book has 400,000
CHUNK_BYTES = 2**20
START_BYTES = 64  # XML has its first tag among them


def check_archive(archive: ZipFile):
    """Check the limits of a packed document before it is parsed.

    Raises:
        DocumentError: The document exceeds a limit; the message says which one.
    """
    if len(archive.infolist()) > MAX_PARTS:
        raise DocumentError(f"The file has {len(archive.infolist()):,} parts; the limit is {MAX_PARTS:,}.")
    size = sum(part.file_size for part in archive.infolist())
    if size > MAX_UNPACKED_BYTES:
        raise DocumentError(f"The file unpacks to {size:,} bytes; the limit is {MAX_UNPACKED_BYTES:,}.")
    for part in archive.infolist():
        if part.file_size > max(MIN_RATIO_BYTES, MAX_RATIO * part.compress_size):
            raise DocumentError(
                f"{part.filename} in the file unpacks to more than {MAX_RATIO} times its size, which is the limit."
            )
    tags = 0
    for part in archive.infolist():
        tags += count_tags(archive, part.filename)
        if tags > MAX_TAGS:
            raise DocumentError(f"The file has more than {MAX_TAGS:,} XML tags, which is the limit. Split it.")


def count_tags(archive: ZipFile, name: str) -> int:
    """Count the tags of a part, or 0 if it is not XML."""
    with archive.open(name) as part:
        chunk = part.read(CHUNK_BYTES)
        if b"<" not in chunk[:START_BYTES]:
            return 0
        tags = 0
        while chunk:
            tags += chunk.count(b"<")
            chunk = part.read(CHUNK_BYTES)
    return tags
