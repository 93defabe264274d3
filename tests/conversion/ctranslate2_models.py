"""Models that CTranslate2's own converters write from the other toolkits' fixtures, and changed copies of model.bin."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import torch


FIXTURES = Path(__file__).parents[1] / "fixtures"
OPUS = FIXTURES / "ctranslate2" / "opus"
TYPES = ["float32", "int8", "int16", "int32", "float16", "bfloat16"]  # by CTranslate2's numbers


def marian(folder: Path, kind: str, quantization: str | None = None) -> Path:
    """Converts a fixture of Marian. CTranslate2 reads its options only if at most one zero byte follows."""
    from ctranslate2.converters import MarianConverter

    arrays = dict(np.load(FIXTURES / "marian" / kind / "model.npz"))
    options = arrays["special:model.yml"].tobytes().rstrip(b"\0") + b"\0"
    arrays["special:model.yml"] = np.frombuffer(options, dtype=np.int8)
    np.savez(folder.with_suffix(".npz"), **arrays)
    vocabularies = [str(path) for path in (FIXTURES / "marian" / kind).glob("*vocab.yml")]
    converter = MarianConverter(str(folder.with_suffix(".npz")), vocabularies)
    return Path(converter.convert(str(folder), quantization=quantization, force=True))


def opennmt(folder: Path, kind: str, quantization: str | None = None) -> Path:
    """Converts a fixture of OpenNMT-py. CTranslate2 knows the attention of version 3.5 only by its older name."""
    from ctranslate2.converters import OpenNMTPyConverter

    [path] = (FIXTURES / "opennmt" / kind).glob("*.pt")
    saved = torch.load(path, weights_only=False)
    saved["opt"].self_attn_type = "scaled-dot"
    torch.save(saved, folder.with_suffix(".pt"))
    converter = OpenNMTPyConverter(str(folder.with_suffix(".pt")), unsafe_deserialization=True)
    return Path(converter.convert(str(folder), quantization=quantization, force=True))


class Binary:
    """The content of a model.bin, to change and to write in any version."""

    def __init__(self, content: bytes):
        self.content, self.place = content, 0
        self.version, self.spec, self.revision = self.number("I"), self.string(), self.number("I")
        self.variables = dict(self.variable() for _ in range(self.number("I")))
        self.aliases = dict((self.string(), self.string()) for _ in range(self.number("I")))

    def number(self, kind: str) -> int:
        [value] = struct.unpack_from(f"<{kind}", self.content, self.place)
        self.place += struct.calcsize(f"<{kind}")
        return value

    def string(self) -> str:
        return self.bytes(self.number("H"))[:-1].decode()

    def bytes(self, size: int) -> bytes:
        self.place += size
        return self.content[self.place - size : self.place]

    def variable(self) -> tuple[str, tuple[list[int], int, bytes]]:
        name, rank = self.string(), self.number("B")
        shape = [self.number("I") for _ in range(rank)]
        return name, (shape, self.number("B"), self.bytes(self.number("I")))

    def set(self, name: str, value):
        """Sets a variable to a number or an array."""
        array = np.asarray(value)
        self.variables[name] = (list(array.shape), TYPES.index(array.dtype.name), array.tobytes())
        self.aliases.pop(name, None)

    def array(self, name: str) -> np.ndarray:
        shape, kind, content = self.variables[self.aliases.get(name, name)]
        return np.frombuffer(content, dtype=TYPES[kind]).reshape(shape)

    def write(self) -> bytes:
        text = struct.pack("<I", self.version)
        if self.version >= 2:
            text += packed(self.spec) + struct.pack("<I", self.revision)
        text += struct.pack("<I", len(self.variables))
        for name, (shape, kind, content) in self.variables.items():
            text += packed(name) + struct.pack(f"<B{len(shape)}I", len(shape), *shape)
            item = {0: 4, 1: 1, 2: 2}.get(kind)
            numbers = (kind, len(content)) if self.version >= 4 else (item, len(content) // item)
            text += struct.pack("<BI", *numbers) + content
        if self.version >= 3:
            text += struct.pack("<I", len(self.aliases))
            text += b"".join(packed(alias) + packed(name) for alias, name in self.aliases.items())
        return text


def packed(text: str) -> bytes:
    content = text.encode() + b"\0"
    return struct.pack("<H", len(content)) + content


def changed(folder: Path, change=None, config=None, source: Path = OPUS) -> Path:
    """Copies a model, with changes to its model.bin and its config.json."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("reference.*"))
    if change is not None:
        binary = Binary((folder / "model.bin").read_bytes())
        change(binary)
        (folder / "model.bin").write_bytes(binary.write())
    if config is not None:
        recorded = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "config.json").write_text(json.dumps(recorded | config), encoding="utf-8")
    return folder
