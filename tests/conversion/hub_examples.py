"""A converted folder to publish, and code that loads one where the package is not installed."""

import sysconfig
from pathlib import Path

import torch
from tiny_checkpoint import PAIRS, tiny_checkpoint
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from conversion.converted import Converted
from conversion.hub.repository import write
from conversion.parity.scores import Parity


ROOT = Path(__file__).parents[2]
SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())
CHECK = Parity("fairseq 0.12.2", 8, 1152, 2.4e-6, True, 24, 24)
FACTS = {"files": {"model.pt": "ab" * 32}, "arch": "transformer_tiny", "trained_by": "a | b"}


def converted_folder(out: Path, checks=(CHECK,), tokenizer=True, negated=False) -> Path:
    """What a conversion writes, of the model that knows `PAIRS`; or of one that is as far from it as can be."""
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_checkpoint(), dtype=torch.float32)
    if negated:
        model.get_input_embeddings().weight.data.neg_()
    converted = Converted(
        toolkit="fairseq",
        config=model.config,
        weights=model.state_dict(),
        generation=model.generation_config,
        tokenizer=AutoTokenizer.from_pretrained(tiny_checkpoint()) if tokenizer else None,
        facts=FACTS,
    )
    write(converted, model, checks, out)
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


TRANSLATE = """
import json, sys
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

repository, *sources = sys.argv[1:]
model = AutoModelForSeq2SeqLM.from_pretrained(repository, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(repository, trust_remote_code=True)
output = model.generate(**tokenizer(sources, padding=True, return_tensors="pt"))
translate = pipeline("translation", model=repository, trust_remote_code=True)
facts = [record["translation_text"] for record in translate(sources)], type(model).__module__
print(json.dumps([tokenizer.batch_decode(output, skip_special_tokens=True), *facts]))
"""
WITHOUT_PACKAGE = f"""
import sys

sys.path += [{sysconfig.get_path("purelib")!r}]

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "vaswani_transformer":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""
