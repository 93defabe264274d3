"""Reads folders written by transformers' `save_pretrained`, and repositories of the Hugging Face Hub."""

import pickle
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from huggingface_hub import metadata_load
from huggingface_hub.errors import LocalEntryNotFoundError, StrictDataclassError
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.hub import download
from vaswani_transformer.languages import is_language, short_code

from ..options import ConversionError, Options
from .arrays import read_safetensors
from .folders import regular
from .pickles import load_pickle
from .text import one_line, read_json_object


WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Search settings.
SEARCH = (
    "num_beams", "max_length", "min_length", "length_penalty", "early_stopping", "no_repeat_ngram_size",
    "repetition_penalty", "bad_words_ids", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens",
    "begin_suppress_tokens", "encoder_no_repeat_ngram_size", "num_beam_groups", "diversity_penalty",
    "renormalize_logits", "do_sample",
)  # fmt: skip


def local_folder(source: Path) -> Path:
    """Returns `source` if it is a folder, else downloads the repository, without weights for other frameworks.

    Raises:
        ConversionError: it is neither a folder nor a repository that can be downloaded.
    """
    if source.is_dir():
        return source
    name = source.as_posix()
    if source.is_file() or name.count("/") != 1:
        raise ConversionError(f"{source} is neither a folder nor a repository id such as Helsinki-NLP/opus-mt-en-de.")
    print(f"Looking for {name} on the Hub ...", file=sys.stderr, flush=True)
    try:
        return download(name)
    except LocalEntryNotFoundError as error:
        raise ConversionError(
            f"No folder {source}. The Hub does not respond, and {name} is not in the cache."
        ) from error
    except Exception as error:  # huggingface_hub also raises errors of its HTTP client
        raise ConversionError(f"No folder {source}, and no such repository on the Hub: {one_line(error)}") from error


def weight_files(folder: Path) -> list[Path]:
    """Returns the file of weights or its shards, preferably safetensors.

    Raises:
        FileNotFoundError: there are none.
    """
    for name in WEIGHTS:
        if (folder / name).is_file():
            return [folder / name]
        index = folder / f"{name}.index.json"
        if index.is_file():
            parts = read_json_object(index).get("weight_map")
            if not isinstance(parts, dict):
                raise ConversionError(f"{index} has no 'weight_map' of weights and files.")
            return [folder / name for name in sorted({Path(str(part)).name for part in parts.values()})]
    raise FileNotFoundError(f"No weights in {folder}: expected {' or '.join(WEIGHTS)}.")


def read_weights(folder: Path, unsafe: bool = False) -> dict[str, torch.Tensor]:
    """Reads the tensors of a folder, from all shards.

    Raises:
        ConversionError: a file is damaged, or a pickle contains more than tensors.
        FileNotFoundError: there are no weights, or a shard is missing.
    """
    tensors = {}
    for path in weight_files(folder):
        loaded = read_safetensors(path) if path.suffix == ".safetensors" else load_pickle(path, unsafe=unsafe)
        if not isinstance(loaded, Mapping):
            raise ConversionError(f"{path} is not a state dict.")
        tensors.update(loaded)
    if wrong := [str(name) for name, tensor in tensors.items() if not isinstance(tensor, torch.Tensor)]:
        raise ConversionError.from_problems(f"The weights in {folder} contain entries that are not tensors", wrong)
    return tensors


def with_defaults(kind: type[PreTrainedConfig], options: Options) -> Options:
    """Completes the options with the defaults of transformers' configuration class.

    Raises:
        ConversionError: a value is invalid.
    """
    try:
        config = kind(**{name: value for name, value in options.values.items() if name != "model_type"})
    except (StrictDataclassError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise ConversionError(f"Not a config.json of {options.toolkit}: {one_line(error)}") from None
    return Options(vars(config), options.toolkit)


def load_reference(kind: type[PreTrainedModel], folder: Path) -> tuple[PreTrainedModel, dict] | None:
    """Loads transformers' model in float32, with the loading report; None if only `--unsafe` can read the file.

    Tables of positions in the file may have another length than config.json says: they are computed.

    Raises:
        ConversionError: transformers cannot load it, or another tensor has the wrong shape.
    """
    try:
        model, info = kind.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, trust_remote_code=False, ignore_mismatched_sizes=True
        )
    except pickle.UnpicklingError:
        return None
    except Exception as error:  # invalid options raise errors of many kinds
        raise ConversionError(f"transformers cannot load {folder}: {one_line(error)}") from error
    shapes = [
        f"{name} {list(in_file)}, not {list(wanted)}"
        for name, in_file, wanted in info["mismatched_keys"]
        if "embed_positions" not in name
    ]
    if shapes:
        raise ConversionError.from_problems(f"Shapes in {folder} differ from config.json", sorted(shapes))
    return model.eval(), info


def origin_facts(source: Path, folder: Path) -> dict[str, Any]:
    """Facts about the origin: the repository, the licence on its card, and the languages by its name or its card."""
    card = folder / "README.md"
    try:
        metadata = (metadata_load(card) if card.is_file() else None) or {}
    except (ValueError, OSError, yaml.YAMLError):  # the card is optional
        metadata = {}
    return {
        "repository": None if source.is_dir() else source.as_posix(),
        "licence": licence if isinstance(licence := metadata.get("license"), str) else None,
        **languages(*(named_languages(source.name) or listed_languages(metadata))),
    }


def languages(source: str | None, target: str | None) -> dict[str, str]:
    """The languages as facts, by their shortest codes, if they are single languages and not groups of them."""
    named = {"source_language": source, "target_language": target}
    return {name: short_code(code) for name, code in named.items() if code and is_language(code)}


def named_languages(name: str) -> tuple[str, str] | None:
    """The languages at the end of a name, such as opus-mt-en-de."""
    codes = re.search(r"(?:^|[-_.])([a-z]{2})[-_]([a-z]{2})$", name)
    return (codes[1], codes[2]) if codes else None


def listed_languages(metadata: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The languages in the metadata of a card. Two in a list are source and target, by the Hub's custom."""
    codes = metadata.get("language")
    pair = tuple(codes) if isinstance(codes, list) and len(codes) == 2 else (None, None)
    return pair if all(isinstance(code, str) for code in pair) else (None, None)


def read_generation(folder: Path, values: Mapping[str, Any], config: VaswaniConfig) -> GenerationConfig:
    """Reads the folder's search settings, which rank by log P / length^alpha.

    They are in generation_config.json, or in old folders in config.json, whose content is `values`.

    Raises:
        ConversionError: they are invalid.
    """
    file = folder / "generation_config.json"
    settings = read_json_object(file) if file.is_file() else {name: values[name] for name in SEARCH if name in values}
    settings = {name: value for name, value in settings.items() if value is not None and not name.startswith("_")}
    settings.pop("transformers_version", None)
    ids = {name: getattr(config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    defaults = dict(length_penalty=1.0, early_stopping=False, num_beams=1)
    if settings.get("num_beams", 1) == 1:  # transformers refuses to save settings of beam search for greedy search
        settings = {name: value for name, value in settings.items() if name not in defaults}
    try:
        return GenerationConfig(**{**defaults, **settings, **ids, "length_penalty_offset": 0})
    except (TypeError, ValueError) as error:
        raise ConversionError(f"Invalid search settings in {folder}: {one_line(error)}") from None


def load_tokenizer(
    kind: type[PreTrainedTokenizerBase], folder: Path, files: Sequence[str]
) -> PreTrainedTokenizerBase | None:
    """Loads transformers' tokenizer, which needs `files`; returns None if the folder contains none of them.

    Raises:
        ConversionError: a file is damaged.
        FileNotFoundError: some of the files are missing.
    """
    missing = [name for name in files if not (folder / name).is_file()]
    if len(missing) == len(files):
        return None
    if missing:
        raise FileNotFoundError(f"Files of the tokenizer are missing in {folder}: {', '.join(missing)}.")
    for name in files:
        regular(folder / name)
    try:
        return kind.from_pretrained(folder, trust_remote_code=False)
    except ImportError as error:
        raise ConversionError(one_line(error)) from None
    except Exception as error:  # damaged files raise errors of many kinds
        raise ConversionError(f"Cannot read the tokenizer in {folder}: {one_line(error)}") from None


def tokens_in_order(ids: Mapping[str, int], size: int) -> list[str]:
    """The tokens of a vocabulary by id, for `size` embeddings. Unused ids get a placeholder.

    Raises:
        ConversionError: an id is not less than `size`.
    """
    if beyond := [token for token, i in ids.items() if not 0 <= i < size]:
        raise ConversionError.from_problems(
            f"The vocabulary does not match the model, which has ids 0 to {size - 1}. Tokens with other ids", beyond, 3
        )
    tokens = [f"<unused {i}>" for i in range(size)]
    for token, i in ids.items():
        tokens[i] = token
    return tokens
