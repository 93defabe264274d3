"""Reads the folder of a CTranslate2 model: model.bin, config.json and the vocabularies."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..options import ConversionError, Options
from .ctranslate2_binary import STRINGS, ModelFile
from .text import one_line, read_json_object, read_text


MODEL, CONFIG, VOCABULARY_MAP = "model.bin", "config.json", "vmap.txt"
VOCABULARIES = ("shared_vocabulary", "source_vocabulary", "target_vocabulary")
FILES = (MODEL, CONFIG, VOCABULARY_MAP, *(f"{name}.{kind}" for name in VOCABULARIES for kind in ("json", "txt")))
DEFAULTS = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}


@dataclass(frozen=True)
class CTranslate2Files:
    """The content of a model's folder, but for the weights. The first of two equal tokens is the one that is used."""

    folder: Path
    model: ModelFile
    options: Options
    source: list[str]
    target: list[str]
    paths: tuple[Path, ...]  # of model and vocabularies

    @classmethod
    def read(cls, folder: Path) -> "CTranslate2Files":
        """Reads the folder of a model.

        Raises:
            ConversionError: a file is damaged, or the model is not a translation model.
            FileNotFoundError: a file is missing.
        """
        model = ModelFile.read(folder / MODEL)
        shared, source, target = (find_vocabulary(folder, name) for name in VOCABULARIES)
        paths = (shared, shared) if shared else (source, target)
        if None in paths:
            raise FileNotFoundError(
                f"Vocabularies missing in {folder}: expected shared_vocabulary.json, or source_vocabulary.json and "
                "target_vocabulary.json (or .txt)."
            )
        tokens = {path: read_vocabulary(path) for path in paths}
        options = Options(model.attributes | read_config(folder, model), "CTranslate2")
        files = dict.fromkeys((folder / MODEL, *paths))
        return cls(folder, model, options, tokens[paths[0]], tokens[paths[1]], tuple(files))


def read_config(folder: Path, model: ModelFile) -> dict[str, Any]:
    """Reads config.json. Before binary version 6, the settings of tokens are in the model."""
    path = folder / CONFIG
    config = read_json_object(path) if path.is_file() or model.version >= 6 else {}
    if model.version >= 6:
        return config
    tokens = {name: model.string(name) or DEFAULTS[name] for name in STRINGS}
    ends = {f"add_source_{name}": bool(model.attributes.get(f"with_source_{name}")) for name in ("bos", "eos")}
    start = tokens["bos_token" if model.attributes.get("with_target_bos", True) else "eos_token"]
    if model.attributes.get("user_decoder_start_tokens"):
        start = None
    return config | tokens | ends | {"decoder_start_token": start}


def find_vocabulary(folder: Path, name: str) -> Path | None:
    paths = (folder / f"{name}.{kind}" for kind in ("json", "txt"))
    return next((path for path in paths if path.exists()), None)


def read_vocabulary(path: Path) -> list[str]:
    """Reads a JSON list of tokens, or a text file with a token in each line. Tokens may contain carriage returns.

    Raises:
        ConversionError: it is neither.
    """
    text = read_text(path)
    if path.suffix == ".json":
        try:
            tokens = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConversionError(f"{path} is not JSON: {one_line(error)}") from None
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ConversionError(f"{path} is not a vocabulary: expected a list of tokens.")
    else:
        tokens = text.removesuffix("\n").split("\n")
        if all(token.endswith("\r") for token in tokens):
            tokens = [token[:-1] for token in tokens]
    if any("\ud800" <= character <= "\udfff" for token in tokens for character in token):
        raise ConversionError(f"{path} is not a vocabulary: a token has invalid Unicode (a lone surrogate).")
    return distinct(tokens)


def distinct(tokens: Sequence[str]) -> list[str]:
    """Renames a token that is equal to an earlier one: CTranslate2 only ever uses the first."""
    seen: set[str] = set()
    renamed = []
    for i, token in enumerate(tokens):
        renamed.append(f"<repeated {i}>" if token in seen else token)
        seen.add(token)
    return renamed
