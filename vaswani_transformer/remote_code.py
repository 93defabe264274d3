"""The code that a repository on the Hub carries, so that it loads where this package is not installed."""

import inspect
import shutil
from pathlib import Path

from transformers.dynamic_module_utils import get_relative_import_files

from .model.configuration_vaswani import VaswaniConfig
from .model.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
from .model.pipeline_translation import TranslationPipeline
from .model.tokenization_vaswani import VaswaniTokenizer
from .system.files import read_json, write_json


# Only for a tokenizer of this class: the others are a tokenizer.json, which needs no code.
TOKENIZER_FILE = "tokenization_vaswani.py"


def code_files(cls: type) -> set[Path]:
    """The file of a class, and those that transformers copies with it: it follows their relative imports."""
    file = inspect.getfile(cls)
    return {Path(path) for path in (file, *get_relative_import_files(file))}


def name_of(cls: type) -> str:
    """As an `auto_map` names it: "modeling_vaswani.VaswaniModel"."""
    return f"{cls.__module__.rpartition('.')[-1]}.{cls.__name__}"


# What a model needs, and what it and its pipeline need.
MODEL_FILES = sorted(path.name for path in code_files(VaswaniForConditionalGeneration))
FILES = sorted({*MODEL_FILES, *(path.name for path in code_files(TranslationPipeline))})
AUTO_MAP = {
    "AutoConfig": name_of(VaswaniConfig),
    "AutoModel": name_of(VaswaniModel),
    "AutoModelForSeq2SeqLM": name_of(VaswaniForConditionalGeneration),
}
CUSTOM_PIPELINES = {"translation": {"impl": name_of(TranslationPipeline), "pt": ["AutoModelForSeq2SeqLM"]}}
NAMES_OF_CODE = ("auto_map", "custom_pipelines")  # in config.json
TOKENIZER_AUTO_MAP = {"AutoTokenizer": [name_of(VaswaniTokenizer), None]}


def copy_code(folder: str | Path):
    """Puts the code into a saved checkpoint's folder, and its name into config.json and tokenizer_config.json.

    `AutoModelForSeq2SeqLM` and `pipeline("translation", ...)` then load the folder with `trust_remote_code=True`.

    Raises:
        FileNotFoundError: `folder` holds no config.json.
    """
    folder, model = Path(folder), Path(inspect.getfile(VaswaniForConditionalGeneration)).parent
    config = read_json(folder / "config.json")
    names = {"auto_map": AUTO_MAP, "custom_pipelines": CUSTOM_PIPELINES}
    write_json(folder / "config.json", {**config, **names}, sort_keys=True)
    for name in FILES:
        shutil.copyfile(model / name, folder / name)

    tokenizer = folder / "tokenizer_config.json"
    settings = read_json(tokenizer) if tokenizer.is_file() else {}
    names_code = name_of(VaswaniTokenizer) in settings.get("auto_map", {}).get("AutoTokenizer", ())
    if names_code or settings.get("tokenizer_class") == VaswaniTokenizer.__name__:
        write_json(tokenizer, {"auto_map": TOKENIZER_AUTO_MAP, **settings}, sort_keys=True)
        shutil.copyfile(model / TOKENIZER_FILE, folder / TOKENIZER_FILE)


def remove_code(folder: str | Path):
    """Takes away the code that `save_pretrained` put into a folder, and its name; beside the package it is not needed.

    Raises:
        FileNotFoundError: `folder` holds no config.json.
    """
    folder = Path(folder)
    config = read_json(folder / "config.json")
    settings = {name: config[name] for name in config if name not in NAMES_OF_CODE}
    write_json(folder / "config.json", settings, sort_keys=True)
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
