"""Zip archives for the tests of office documents."""

import io
import zipfile


def packed(parts: dict[str, bytes], **settings) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **settings) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name, (1999, 12, 31, 23, 59, 58)), content, settings.get("compression"))
    return file.getvalue()


def part_of(content: bytes, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name).decode()
