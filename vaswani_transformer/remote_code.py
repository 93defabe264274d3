"""Puts the code of the model beside its weights, so that they load where this package is not installed."""

import json
import shutil
from pathlib import Path


# What `AutoModelForSeq2SeqLM` and `pipeline` run from a repository with `trust_remote_code=True`.
REMOTE_CODE = [
    "configuration_vaswani.py",
    "modeling_vaswani.py",
    "loss_vaswani.py",
    "processor_vaswani.py",
    "generation_vaswani.py",
    "pipeline_translation.py",
]
TOKENIZER_CODE = "tokenization_vaswani.py"  # only where a tokenizer.json cannot express the tokenizer
AUTO_MAP = {
    "AutoConfig": "configuration_vaswani.VaswaniConfig",
    "AutoModel": "modeling_vaswani.VaswaniModel",
    "AutoModelForSeq2SeqLM": "modeling_vaswani.VaswaniForConditionalGeneration",
}
PIPELINE = {"impl": "pipeline_translation.TranslationPipeline", "pt": ["AutoModelForSeq2SeqLM"]}


def copy_code(folder: str | Path):
    """Copies the code into the folder of a saved model, and names it in `config.json`."""
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["auto_map"] = AUTO_MAP
    config["custom_pipelines"] = {"translation": PIPELINE}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    names = list(REMOTE_CODE)
    tokenizer = folder / "tokenizer_config.json"
    if tokenizer.is_file() and "auto_map" in json.loads(tokenizer.read_text(encoding="utf-8")):
        names.append(TOKENIZER_CODE)
    for name in names:
        shutil.copy(Path(__file__).with_name(name), folder)
