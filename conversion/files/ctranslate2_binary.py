"""Reads CTranslate2's model.bin: the header with the shape of every variable, then the weights.

All versions that CTranslate2 4 reads are supported: binary versions 1 to 6. Numbers are little-endian:

    u32 version, string spec, u32 revision                   version 1 has neither spec nor revision
    u32 count of variables; for each:
        string name, u8 rank, u32 dimensions[rank]
        u8 dtype, u32 bytes                                  versions 1 to 3: u8 bytes of an item, u32 count of items
        payload
    u32 count of aliases; for each: string alias, string name     from version 3 on

A string is a u16 length, which counts the zero byte at its end, and its bytes.
"""

import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import torch

from ..options import ConversionError, shown
from .folders import regular


DTYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)  # by their numbers
DTYPES_BY_ITEM_BYTES = {4: torch.float32, 2: torch.int16, 1: torch.int8}
NEWEST_VERSION, NEWEST_REVISION = 6, 7
HEADS = {"": 8, "TransformerBase": 8, "TransformerBig": 16, "TransformerSpec": None}  # of revisions 1 and 2, by spec
SPEC = "TransformerSpec"
MAX_VARIABLES, MAX_RANK = 200_000, 8  # far above any model
GLOBAL_SCALE = 1000.0  # of int16 weights without a scale
SCALE = "weight_scale"
STRINGS = ("unk_token", "bos_token", "eos_token")
# Names in revision 1, which are those of OpenNMT-tf.
OLD_NAMES = (
    ("transformer/", ""), (":0", ""), ("w_embs", "embeddings/weight"), ("kernel", "weight"),
    ("LayerNorm", "layer_norm"), ("dense", "projection"), ("conv1d_", "linear_"), ("conv1d", "linear_0"),
)  # fmt: skip
# Revisions 1 to 4 have one value for both stacks.
SHARED_ATTRIBUTES = {
    "encoder": ("num_heads", "pre_norm", "activation"),
    "decoder": ("num_heads", "pre_norm", "activation", "alignment_layer", "alignment_heads"),
}


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable in the file: its shape, its type, and where its bytes begin."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class ModelFile:
    """The header of a model.bin. An alias has the same `Variable` as the name that it stands for."""

    path: Path
    version: int
    spec: str
    revision: int
    variables: Mapping[str, Variable]
    attributes: dict[str, int | float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "ModelFile":
        """Reads the header, without the weights.

        Raises:
            ConversionError: the file is damaged, too new, or another kind of model.
            FileNotFoundError: it does not exist.
        """
        path = regular(path)
        with path.open("rb") as file:
            reader = Reader(file, path)
            version = reader.number("I")
            if not 1 <= version <= NEWEST_VERSION:
                raise ConversionError(
                    f"{path} has binary version {version} (supported: 1 to {NEWEST_VERSION}), or is not a model of "
                    "CTranslate2."
                )
            spec, revision = (reader.string(), reader.number("I")) if version >= 2 else ("", 1)
            if spec not in HEADS:
                raise ConversionError(f"{path} is a {shown(spec)} model (supported: {SPEC}, an encoder and a decoder).")
            if not 1 <= revision <= NEWEST_REVISION:
                raise ConversionError(f"{path} has revision {revision} of {SPEC} (supported: 1 to {NEWEST_REVISION}).")
            variables = modern_names(read_variables(reader, version), revision)
            attributes = {
                name: reader.scalar(variable)
                for name, variable in variables.items()
                if not variable.shape and not name.endswith(SCALE)
            }
        if revision < 3 and HEADS[spec] is not None:
            attributes.setdefault("num_heads", HEADS[spec])
        if revision < 5:
            add_shared(attributes)
        return cls(path, version, spec or SPEC, revision, variables, attributes)

    def weights(self) -> dict[str, torch.Tensor]:
        """Reads all variables but attributes and scales, in float32. Aliases share a tensor."""
        tensors: dict[Variable, torch.Tensor] = {}
        with self.path.open("rb") as file:
            reader = Reader(file, self.path)
            for name, variable in self.weight_variables().items():
                if variable not in tensors:
                    tensors[variable] = self._weight(reader, name, variable)
        return {name: tensors[variable] for name, variable in self.weight_variables().items()}

    def weight_variables(self) -> dict[str, Variable]:
        return {
            name: variable
            for name, variable in self.variables.items()
            if variable.shape and not name.endswith(SCALE) and name not in STRINGS
        }

    def _weight(self, reader: "Reader", name: str, variable: Variable) -> torch.Tensor:
        """Multiplies quantised weights by the reciprocal of their scale, as CTranslate2 does, bit for bit."""
        tensor = reader.tensor(variable)
        if tensor.is_floating_point():
            return tensor.float()
        scale = self.variables.get(f"{name}_scale")
        if scale is not None:
            scales = reader.tensor(scale)
        elif variable.dtype is torch.int16:
            scales = torch.tensor(GLOBAL_SCALE)
        else:
            raise ConversionError(f"{self.path} is damaged: {name} is {variable.dtype}, but {name}_scale is missing.")
        rows = () if variable.dtype is torch.int16 else variable.shape[:1]
        if tuple(scales.shape) not in {(), rows} or scales.dtype is not torch.float32:
            raise ConversionError(
                f"{self.path} is damaged: {name}_scale is {scales.dtype} {list(scales.shape)}, for a weight "
                f"{list(variable.shape)}."
            )
        factors = 1.0 / scales
        return tensor.float() * (factors.reshape(-1, *[1] * (len(variable.shape) - 1)) if factors.dim() else factors)

    def string(self, name: str) -> str | None:
        """Returns a text attribute of versions 1 to 5; None if there is none."""
        variable = self.variables.get(name)
        if variable is None or variable.dtype is not torch.int8:
            return None
        with self.path.open("rb") as file:
            return decoded(bytes(Reader(file, self.path).payload(variable)), self.path)

    def quantisation(self) -> str | None:
        """Names the types of the stored weights other than float32, such as int8; None if there are none."""
        types = {str(variable.dtype).removeprefix("torch.") for variable in self.weight_variables().values()}
        return " and ".join(sorted(types - {"float32"})) or None


class Reader:
    """Reads numbers, strings and tensors of a file, never beyond its end."""

    def __init__(self, file: BinaryIO, path: Path):
        self.file, self.path = file, path
        self.size = path.stat().st_size

    def take(self, size: int) -> bytearray:
        self.check(size)
        content = bytearray(size)
        if self.file.readinto(content) != size:
            raise ConversionError(f"{self.path} is incomplete.")
        return content

    def check(self, size: int):
        """Checks that `size` more bytes follow, before memory is allocated for them.

        Raises:
            ConversionError: the file ends before.
        """
        place = self.file.tell()
        if size > self.size - place:
            raise ConversionError(
                f"{self.path} is incomplete or not a model of CTranslate2: {size:,} bytes are expected at byte "
                f"{place:,} of {self.size:,}."
            )

    def number(self, kind: str) -> int:
        [value] = struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))
        return value

    def string(self) -> str:
        text = self.take(self.number("H"))
        return decoded(bytes(text[:-1]), self.path)

    def payload(self, variable: Variable) -> bytearray:
        self.file.seek(variable.offset)
        return self.take(variable.bytes)

    def tensor(self, variable: Variable) -> torch.Tensor:
        if not variable.bytes:
            return torch.empty(variable.shape, dtype=variable.dtype)
        return torch.frombuffer(self.payload(variable), dtype=variable.dtype).reshape(variable.shape)

    def scalar(self, variable: Variable) -> int | float:
        return self.tensor(variable).item()


def read_variables(reader: Reader, version: int) -> dict[str, Variable]:
    """Reads the names, shapes and places of all variables, including aliases."""
    variables: dict[str, Variable] = {}
    for _ in range(counted(reader, "variables")):
        name, variable = read_variable(reader, version)
        if name in variables:
            raise ConversionError(f"{reader.path} is damaged: {shown(name)} is stored twice.")
        variables[name] = variable
    for alias, name in read_aliases(reader) if version >= 3 else ():
        for suffix in ("", "_scale"):
            if name + suffix in variables:
                variables.setdefault(alias + suffix, variables[name + suffix])
    return variables


def read_variable(reader: Reader, version: int) -> tuple[str, Variable]:
    name, rank = reader.string(), reader.number("B")
    if rank > MAX_RANK:
        raise ConversionError(f"{reader.path} is damaged: {shown(name)} has {rank} dimensions.")
    shape = tuple(reader.number("I") for _ in range(rank))
    kind, size = reader.number("B"), reader.number("I")
    dtypes = dict(enumerate(DTYPES)) if version >= 4 else DTYPES_BY_ITEM_BYTES
    if kind not in dtypes:
        raise ConversionError(f"{reader.path} is damaged: {shown(name)} has the unknown type {kind}.")
    variable = Variable(shape, dtypes[kind], reader.file.tell())
    if (size if version >= 4 else size * kind) != variable.bytes:
        raise ConversionError(f"{reader.path} is damaged: the size of {shown(name)} does not match its shape.")
    reader.check(variable.bytes)
    reader.file.seek(variable.bytes, 1)
    return name, variable


def read_aliases(reader: Reader) -> Iterator[tuple[str, str]]:
    for _ in range(counted(reader, "aliases")):
        yield reader.string(), reader.string()


def counted(reader: Reader, what: str) -> int:
    count = reader.number("I")
    if count > MAX_VARIABLES:
        raise ConversionError(f"{reader.path} is damaged: {count:,} {what} are announced.")
    return count


def modern_names(variables: Mapping[str, Variable], revision: int) -> dict[str, Variable]:
    """Renames the variables of any revision to the names of the newest."""
    if revision == 1:
        variables = {modern_name(name): variable for name, variable in variables.items()}
    # The encoder has a list of embeddings since it can have several.
    return {re.sub("^encoder/embeddings/", "encoder/embeddings_0/", name): v for name, v in variables.items()}


def modern_name(name: str) -> str:
    for old, new in OLD_NAMES:
        name = name.replace(old, new, 1)
    if "encoder" in name:
        return name.replace("multi_head", "self_attention", 1)
    return name.replace("masked_multi_head", "self_attention", 1).replace("multi_head", "attention", 1)


def add_shared(attributes: dict[str, int | float]):
    for stack, names in SHARED_ATTRIBUTES.items():
        for name in names:
            if name in attributes:
                attributes.setdefault(f"{stack}/{name}", attributes[name])


def decoded(text: bytes, path: Path) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise ConversionError(f"{path} is damaged or not a model of CTranslate2: a name is not UTF-8 text.") from None
