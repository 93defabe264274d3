"""An export starts from a checkpoint that is whole."""

import shutil
from pathlib import Path

import pytest
from tiny_checkpoint import tiny_checkpoint

from conversion.options import ConversionError
from conversion.runtimes.exports import load


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("model.safetensors", b"x" * 20, "Cannot load"),
        ("config.json", b'{"model_type": "vaswani", "d_model": "x"}', "d_model must be a whole number"),
        ("generation_config.json", b"[]", "Cannot load"),
        ("tokenizer_config.json", b"{", "Cannot load the tokenizer of"),
        ("tokenizer.json", b"{}", "Cannot load the tokenizer of"),
    ],
)
def test_damaged_checkpoints_are_not_exported(tmp_path, name, content, message):
    folder = Path(shutil.copytree(tiny_checkpoint(), tmp_path / "copy"))
    (folder / name).write_bytes(content)
    with pytest.raises(ConversionError, match=message):
        load(str(folder))
