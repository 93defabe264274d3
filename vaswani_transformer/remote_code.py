"""The code that a repository on the Hub carries, so that it loads where this package is not installed."""

import shutil
from pathlib import Path

from .configuration_vaswani import VaswaniConfig
from .files import read_json, write_json
from .modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
from .pipeline_translation import TranslationPipeline
from .tokenization_vaswani import VaswaniTokenizer


# All that modeling_vaswani.py and the pipeline import, each from the others by relative import.
FILES = (
    "alignment_vaswani.py",
    "checks_vaswani.py",
    "configuration_vaswani.py",
    "confidence_vaswani.py",
    "constraints_vaswani.py",
    "modeling_vaswani.py",
    "attention_vaswani.py",
    "beam_search_vaswani.py",
    "cpu_vaswani.py",
    "decoding_vaswani.py",
    "generation_vaswani.py",
    "glossary_vaswani.py",
    "greedy_search_vaswani.py",
    "int8_vaswani.py",
    "limits_vaswani.py",
    "long_texts_vaswani.py",
    "loss_vaswani.py",
    "outputs_vaswani.py",
    "pipeline_translation.py",
    "pretrained_vaswani.py",
    "replacements_vaswani.py",
    "settings_vaswani.py",
    "shortlist_vaswani.py",
    "texts_vaswani.py",
    "vocabulary_vaswani.py",
    "words_vaswani.py",
)
# Only for a tokenizer of this class: the others are a tokenizer.json, which needs no code.
TOKENIZER_FILE = "tokenization_vaswani.py"


def name_of(cls: type) -> str:
    """As an `auto_map` names it: "modeling_vaswani.VaswaniModel"."""
    return f"{cls.__module__.rpartition('.')[-1]}.{cls.__name__}"


AUTO_MAP = {
    "AutoConfig": name_of(VaswaniConfig),
    "AutoModel": name_of(VaswaniModel),
    "AutoModelForSeq2SeqLM": name_of(VaswaniForConditionalGeneration),
}
NAMES_OF_CODE = ("auto_map", "custom_pipelines")  # in config.json
TOKENIZER_AUTO_MAP = {"AutoTokenizer": [name_of(VaswaniTokenizer), None]}


def copy_code(folder: str | Path):
    """Puts the code into a saved checkpoint's folder, and its name into config.json and tokenizer_config.json.

    `AutoModelForSeq2SeqLM` and `pipeline("translation", ...)` then load the folder with `trust_remote_code=True`.

    Raises:
        FileNotFoundError: `folder` holds no config.json.
    """
    folder, package = Path(folder), Path(__file__).parent
    config = read_json(folder / "config.json")
    pipelines = VaswaniConfig()
    TranslationPipeline.name_in(pipelines)
    names = {"auto_map": AUTO_MAP, "custom_pipelines": pipelines.custom_pipelines}
    write_json(folder / "config.json", {**config, **names}, sort_keys=True)
    for name in FILES:
        shutil.copyfile(package / name, folder / name)

    tokenizer = folder / "tokenizer_config.json"
    settings = read_json(tokenizer) if tokenizer.is_file() else {}
    names_code = name_of(VaswaniTokenizer) in settings.get("auto_map", {}).get("AutoTokenizer", ())
    if names_code or settings.get("tokenizer_class") == VaswaniTokenizer.__name__:
        write_json(tokenizer, {"auto_map": TOKENIZER_AUTO_MAP, **settings}, sort_keys=True)
        shutil.copyfile(package / TOKENIZER_FILE, folder / TOKENIZER_FILE)


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
