"""Reads TensorFlow checkpoints (`NAME.index`, `NAME.data-00000-of-00001`) without TensorFlow.

The index is a LevelDB table of sorted names. Each has a protocol buffer with the type and shape of a tensor, its data
file, and the offset of its little-endian bytes.
https://github.com/tensorflow/tensorflow/blob/v2.20.0/tensorflow/core/protobuf/tensor_bundle.proto
"""

import math
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

from vaswani_transformer.system.extras import missing_package

from ..options import ConversionError
from .folders import regular


MAGIC = 0xDB4775248B80FB57
FOOTER = 48
# DataType of types.proto; NumPy has no bfloat16, so its bits are read as integers.
TYPES = {1: "<f4", 2: "<f8", 14: "<i2", 19: "<f2"}
BFLOAT16 = 14


def read_bundle(index: Path, wanted: Callable[[Iterable[str]], Iterable[str]]) -> dict[str, torch.Tensor]:
    """Reads the tensors of `NAME.index` that `wanted` selects from all names, in their stored types.

    Raises:
        ConversionError: a file is damaged, or a tensor is partitioned or not floating-point.
        FileNotFoundError: a file is missing.
    """
    try:
        entries = dict(table(regular(index).read_bytes()))
        header = message(entries.pop(b""))
        shards, big_endian = header.get(1, [1])[-1], header.get(2, [0])[-1]
        if big_endian:
            raise ConversionError(f"Unsupported: {index} was written on a big-endian machine.")
        tensors = {name.decode(errors="replace"): message(entry) for name, entry in entries.items()}
        return {name: tensor(index, name, tensors[name], shards) for name in wanted(tensors)}
    except (IndexError, KeyError, TypeError, ValueError, struct.error, OverflowError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"{index} is damaged or not the index of a TensorFlow checkpoint: {error}.") from error


def tensor(index: Path, name: str, entry: dict[int, list], shards: int) -> torch.Tensor:
    """Reads the tensor that a BundleEntryProto describes.

    Its fields are 1 type, 2 shape, 3 data file, 4 offset, 5 size, 6 checksum, 7 partitions.
    """
    data_type, shard, offset, size = (entry.get(field, [0])[-1] for field in (1, 3, 4, 5))
    if data_type not in TYPES or 7 in entry:
        raise ConversionError(f"{index}: {name} is partitioned or not floating-point (DataType {data_type}).")
    dimensions = [message(dimension) for dimension in message(entry[2][-1]).get(2, [])]
    shape = [dimension.get(1, [0])[-1] for dimension in dimensions]
    kind = np.dtype(TYPES[data_type])
    if math.prod(shape) * kind.itemsize != size:
        raise ConversionError(f"{index}: {name} has {size} bytes, which does not match its shape {shape}.")
    path = index.with_suffix(f".data-{shard:05d}-of-{shards:05d}")
    with open(regular(path), "rb") as file:
        if offset + size > path.stat().st_size:
            raise ConversionError(f"{path} is truncated: {name} would end after its {path.stat().st_size} bytes.")
        file.seek(offset)
        content = file.read(size)
    check_crc(content, entry[6][-1], f"{path} ({name})")
    array = torch.from_numpy(np.frombuffer(content, kind).reshape(shape).copy())
    return array.view(torch.bfloat16) if data_type == BFLOAT16 else array


def table(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Reads the keys and values of a table. Its footer points to the index block, which points to the data blocks."""
    if len(content) < FOOTER or struct.unpack("<Q", content[-8:])[0] != MAGIC:
        raise ConversionError("The index is truncated or not one of a TensorFlow checkpoint.")
    footer = content[-FOOTER:]
    _, _, at = handle(footer, 0)
    start, size, _ = handle(footer, at)
    for _, value in block(content, start, size):
        start, size, _ = handle(value, 0)
        yield from block(content, start, size)


def block(content: bytes, start: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Reads the entries. Each stores the length shared with the previous key, the rest's length, the value's length."""
    kind, checksum = struct.unpack("<BI", content[start + size : start + size + 5])
    check_crc(content[start : start + size + 1], checksum, "The index")
    entries = content[start : start + size]
    if kind:
        raise ConversionError("The index is compressed, as in TensorFlow before 1.1 (2017), which is not supported.")
    (restarts,) = struct.unpack("<I", entries[-4:])
    entries = entries[: len(entries) - 4 * (restarts + 1)]
    at, key = 0, b""
    while at < len(entries):
        shared, at = varint(entries, at)
        unshared, at = varint(entries, at)
        length, at = varint(entries, at)
        key, at = key[:shared] + entries[at : at + unshared], at + unshared
        yield key, entries[at : at + length]
        at += length


def handle(content: bytes, at: int) -> tuple[int, int, int]:
    """Returns the offset and the size of a block, and the position after the handle."""
    start, at = varint(content, at)
    size, at = varint(content, at)
    return start, size, at


def varint(content: bytes, at: int) -> tuple[int, int]:
    """Reads a number in groups of seven bits, lowest first; returns it and the position after it."""
    value = shift = 0
    while content[at] & 0x80:
        value |= (content[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | content[at] << shift, at + 1


def message(content: bytes) -> dict[int, list]:
    """Parses a protocol buffer as {field: values}: numbers, or bytes for text and nested messages."""
    fields, at = {}, 0
    while at < len(content):
        tag, at = varint(content, at)
        field, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = varint(content, at)
        elif kind == 2:
            length, at = varint(content, at)
            value, at = content[at : at + length], at + length
        elif kind == 5:
            (value,), at = struct.unpack("<I", content[at : at + 4]), at + 4
        else:
            raise ValueError(f"unknown wire type {kind}")
        fields.setdefault(field, []).append(value)
    return fields


def check_crc(content: bytes, masked: int, what: str):
    """Checks the recorded CRC-32C, which LevelDB rotates and shifts.

    Raises:
        ConversionError: the checksum of `content` is wrong.
    """
    try:
        from google_crc32c import value as crc32c
    except ImportError:
        raise ConversionError(missing_package("Checking TensorFlow's checksums", "google-crc32c", "convert")) from None
    checksum = crc32c(content)
    if ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF != masked:
        raise ConversionError(f"{what} is damaged: its checksum is wrong.")
