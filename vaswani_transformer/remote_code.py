"""Adds this package's code to a checkpoint, so that it loads from the Hub without the package."""

import inspect
import shutil
from pathlib import Path

from transformers.dynamic_module_utils import get_relative_import_files

from .model.configuration_vaswani import VaswaniConfig
from .model.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
from .model.pipeline_translation import TranslationPipeline
from .model.tokenization_vaswani import VaswaniTokenizer
from .system.files import read_json, write_json


# Copied only for a `VaswaniTokenizer`. Other tokenizers are a tokenizer.json, which needs no code.
TOKENIZER_FILE = "tokenization_vaswani.py"


def code_files(cls: type) -> set[Path]:
    """Returns the file of a class and those that it imports relatively, which transformers copies together."""
    file = inspect.getfile(cls)
    return {Path(path) for path in (file, *get_relative_import_files(file))}


def auto_map_name(cls: type) -> str:
    """Returns the name of a class in an `auto_map`, such as "modeling_vaswani.VaswaniModel"."""
    return f"{cls.__module__.rpartition('.')[-1]}.{cls.__name__}"


# The code of a model, and of a model with its pipeline.
MODEL_FILES = sorted(path.name for path in code_files(VaswaniForConditionalGeneration))
FILES = sorted({*MODEL_FILES, *(path.name for path in code_files(TranslationPipeline))})
AUTO_MAP = {
    "AutoConfig": auto_map_name(VaswaniConfig),
    "AutoModel": auto_map_name(VaswaniModel),
    "AutoModelForSeq2SeqLM": auto_map_name(VaswaniForConditionalGeneration),
}
CUSTOM_PIPELINES = {"translation": {"impl": auto_map_name(TranslationPipeline), "pt": ["AutoModelForSeq2SeqLM"]}}
CODE_FIELDS = ("auto_map", "custom_pipelines")  # in config.json
TOKENIZER_AUTO_MAP = {"AutoTokenizer": [auto_map_name(VaswaniTokenizer), None]}


def copy_code(folder: str | Path):
    """Copies the code to the folder of a saved checkpoint, and adds it to config.json and tokenizer_config.json.

    `AutoModelForSeq2SeqLM` and `pipeline("translation", ...)` then load the folder with `trust_remote_code=True`.

    Raises:
        FileNotFoundError: `folder` has no config.json.
    """
    folder, model = Path(folder), Path(inspect.getfile(VaswaniForConditionalGeneration)).parent
    config = read_json(folder / "config.json")
    entries = {"auto_map": AUTO_MAP, "custom_pipelines": CUSTOM_PIPELINES}
    write_json(folder / "config.json", {**config, **entries}, sort_keys=True)
    for name in FILES:
        shutil.copyfile(model / name, folder / name)

    tokenizer = folder / "tokenizer_config.json"
    settings = read_json(tokenizer) if tokenizer.is_file() else {}
    has_entry = auto_map_name(VaswaniTokenizer) in settings.get("auto_map", {}).get("AutoTokenizer", ())
    if has_entry or settings.get("tokenizer_class") == VaswaniTokenizer.__name__:
        write_json(tokenizer, {"auto_map": TOKENIZER_AUTO_MAP, **settings}, sort_keys=True)
        shutil.copyfile(model / TOKENIZER_FILE, folder / TOKENIZER_FILE)


def remove_code(folder: str | Path):
    """Removes the code that `save_pretrained` copied, and its entries in config.json. The package does not need them.

    Raises:
        FileNotFoundError: `folder` has no config.json.
    """
    folder = Path(folder)
    config = read_json(folder / "config.json")
    settings = {name: config[name] for name in config if name not in CODE_FIELDS}
    write_json(folder / "config.json", settings, sort_keys=True)
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
