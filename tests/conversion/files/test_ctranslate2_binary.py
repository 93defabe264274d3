"""model.bin, damaged or made to mislead: one clear error each, and never more memory than the file has bytes."""

import random
import re
import shutil
import struct
import tracemalloc

import numpy as np
import pytest
from ctranslate2_models import OPUS, Binary, changed, packed

from conversion.files import ctranslate2_binary
from conversion.files.ctranslate2_binary import ModelFile
from conversion.options import ConversionError
from conversion.toolkits.ctranslate2 import convert


HEADER = struct.pack("<I", 6) + packed("TransformerSpec") + struct.pack("<I", 7)


def variable(name: str, shape: list[int], kind: int, size: int, content: bytes = b"") -> bytes:
    return packed(name) + struct.pack(f"<B{len(shape)}IBI", len(shape), *shape, kind, size) + content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is incomplete or not a model of CTranslate2: 4 bytes are expected at byte 0 of 0"),
        (b"PK\x03\x04 something else", "has binary version .* or is not a model of CTranslate2"),
        (struct.pack("<I", 0), "has binary version 0"),
        (struct.pack("<IH", 6, 0xFFFF) + b"a", "65,535 bytes are expected at byte 6 of 7"),
        (struct.pack("<IH", 6, 3) + b"\xff\xfe\0", "a name is not UTF-8 text"),
        (HEADER + struct.pack("<I", 0xFFFFFFFF), "4,294,967,295 variables are announced"),
        (HEADER + struct.pack("<I", 1) + variable("w", [2**16, 2**15], 0, 2**32 - 1), "does not match its shape"),
        (HEADER + struct.pack("<I", 1) + variable("w", [2**15, 2**15 - 1], 0, 2**32 - 2**17), "4,294,836,224 bytes"),
        (HEADER + struct.pack("<I", 1) + variable("w", [2**32 - 1] * 8, 0, 4), "does not match its shape"),
        (HEADER + struct.pack("<I", 1) + variable("w", [1] * 9, 0, 4, b"1234"), "has 9 dimensions"),
        (HEADER + struct.pack("<I", 1) + variable("w", [1], 6, 4, b"1234"), "has the unknown type 6"),
        (HEADER + struct.pack("<I", 2) + 2 * variable("w", [1], 0, 4, b"1234"), "'w' is stored twice"),
        (HEADER + struct.pack("<II", 0, 0xFFFFFFFF), "4,294,967,295 aliases are announced"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_headers_that_mislead(tmp_path, content, message):
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ConversionError, match=message):
        ModelFile.read(path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_file_may_have_many_variables_but_not_any_number(tmp_path, monkeypatch):
    monkeypatch.setattr(ctranslate2_binary, "MAX_VARIABLES", 3)
    path = tmp_path / "model.bin"
    variables = [variable(f"w{i}", [], 1, 1, b"7") for i in range(4)]
    for count in (3, 4):
        content = HEADER + struct.pack("<I", count) + b"".join(variables[:count]) + struct.pack("<I", 0)
        path.write_bytes(content)
        if count == 3:
            assert ModelFile.read(path).attributes == {"w0": 55, "w1": 55, "w2": 55}
    with pytest.raises(ConversionError, match="4 variables are announced"):
        ModelFile.read(path)


def test_empty_weights_and_unknown_aliases_are_not_errors_of_the_file(tmp_path):
    """The table of tensors refuses what is missing, by name."""
    path = tmp_path / "model.bin"
    aliases = packed("a") + packed("nothing") + packed("b") + packed("w")
    path.write_bytes(HEADER + struct.pack("<I", 1) + variable("w", [0, 3], 0, 0) + struct.pack("<I", 2) + aliases)
    weights = ModelFile.read(path).weights()
    assert weights.keys() == {"w", "b"} and weights["b"] is weights["w"] and weights["w"].shape == (0, 3)


@pytest.mark.parametrize("scale", [np.ones(3, np.float32), np.ones(1, np.int8), None], ids=["rows", "type", "missing"])
def test_scales_must_fit(tmp_path, scale):
    name = "encoder/layer_0/ffn/linear_0/weight"

    def change(binary):
        binary.set(name, np.ones((64, 32), dtype=np.int8))
        if scale is not None:
            binary.set(f"{name}_scale", scale)

    with pytest.raises(ConversionError, match=re.escape(f"{name}_scale is ")):
        convert(changed(tmp_path / "model", change))
    with pytest.raises(ConversionError, match=re.escape(f"{name} is torch.int32, but")):
        changed_type = changed(tmp_path / "other", lambda binary: binary.set(name, np.ones((64, 32), dtype=np.int32)))
        convert(changed_type)


def damaged(content: bytes, draw: random.Random) -> bytes:
    """A copy with flipped bits, without its end, with added bytes, or with other numbers in its header."""
    content = bytearray(content)
    place = draw.randrange(len(content))
    kind = draw.choice(["bits", "end", "bytes", "numbers"])
    if kind == "bits":
        for _ in range(draw.choice([1, 2, 8, 64])):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    elif kind == "end":
        del content[place:]
    elif kind == "bytes":
        content[place:place] = draw.randbytes(draw.choice([1, 4, 100]))
    else:
        place = draw.randrange(min(len(content), 60))
        content[place : place + 4] = draw.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"])
    return bytes(content)


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_is_an_error_or_harmless(tmp_path, seed):
    draw = random.Random(seed)
    folder = shutil.copytree(OPUS, tmp_path / "model", ignore=shutil.ignore_patterns("reference.*"))
    file = draw.choice([folder / "model.bin"] * 3 + sorted(folder.iterdir()))
    file.write_bytes(damaged(file.read_bytes(), draw))
    try:
        convert(folder).model()
    except (ConversionError, OSError) as error:
        assert str(error) and "\n" not in str(error)


@pytest.mark.parametrize("seed", range(40))
def test_changed_names_and_numbers_are_an_error_or_harmless(tmp_path, seed):
    """Well-formed files with other attributes, shapes or names."""
    draw = random.Random(seed)

    def change(binary: Binary):
        for name in draw.sample(sorted(binary.variables), 3):
            shape, kind, content = binary.variables.pop(name)
            how = draw.choice(["name", "shape", "number", "missing"])
            if how == "name":
                binary.variables[name.replace(draw.choice("abcde012"), "x")] = (shape, kind, content)
            elif how == "shape":
                binary.variables[name] = ([*shape[::-1], 1], kind, content)
            elif how == "number":
                binary.set(name, draw.choice([np.int32(-1), np.float32("nan"), np.float32("inf"), np.int32(2**31 - 1)]))

    try:
        convert(changed(tmp_path / "model", change)).model()
    except (ConversionError, OSError) as error:
        assert str(error) and "\n" not in str(error)
