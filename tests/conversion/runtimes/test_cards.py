"""What the card of an exported folder shows is what loads it: the snippet is run."""

import re
import shutil
import subprocess
import sys

import pytest
import torch
from huggingface_hub import ModelCard
from tiny_checkpoint import PAIRS, tiny_checkpoint

from conversion.runtimes import marian, onnx
from vaswani_transformer import VaswaniForConditionalGeneration


ctranslate2 = pytest.importorskip("conversion.runtimes.ctranslate2")
CARD = """\
---
library_name: transformers
license: mit
pipeline_tag: translation
---

# Tiny

## How to Get Started

```python
pipeline("translation", model="PATH OR HUB ID OF THIS MODEL", trust_remote_code=True)
```

## Training Details

Six sentences.
"""
SOURCE, TARGET = next(iter(PAIRS.items()))


@pytest.fixture
def checkpoint(tmp_path):
    folder = shutil.copytree(tiny_checkpoint(), tmp_path / "tiny")
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    return folder


def run_snippet(folder, tmp_path) -> str:
    """What the last line of the card's snippet gives, in a process where only the runtime is installed."""
    [code] = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert "vaswani" not in code and "trust_remote_code" not in code
    *lines, last = code.replace("PATH OF THIS FOLDER", str(folder)).replace("TEXT", SOURCE).strip().splitlines()
    script = "\n".join([*lines, f"print({last})"])
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()[-1]


EXPORTS = [(ctranslate2, "ctranslate2"), pytest.param(onnx, "onnxruntime", marks=pytest.mark.slow)]


@pytest.mark.parametrize(("runtime", "library"), EXPORTS)
def test_the_snippet_of_an_export_translates(checkpoint, tmp_path, runtime, library):
    runtime.export(str(checkpoint), tmp_path / "out")
    assert run_snippet(tmp_path / "out", tmp_path) == TARGET
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert (card.data.library_name, card.data.license) == (library, "mit")
    assert card.text.count("## How to Get Started") == 1 and "## Training Details" in card.text
    assert 'pipeline("translation"' not in card.text


def test_the_snippet_of_a_marian_model_translates(checkpoint, tmp_path):
    model = VaswaniForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32)
    model.config.update({"position_layout": "concatenated", "layer_norm_eps": 1e-5})
    model.get_input_embeddings().weight.data[model.config.pad_token_id] = 0  # the softmax shares the row
    model.save_pretrained(checkpoint)
    marian.export(str(checkpoint), tmp_path / "out")
    assert run_snippet(tmp_path / "out", tmp_path)
    assert ModelCard.load(tmp_path / "out" / "README.md").data.library_name == "transformers"
