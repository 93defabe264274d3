"""Reads the files of JoeyNMT: checkpoint, configuration and vocabularies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..options import ConversionError, Options, shown
from .folders import beside
from .pickles import load_pickle
from .text import check_count, read_lines, read_yaml


REQUIRED = ("data", "model", "model.encoder", "model.decoder")
GROUPS = (
    "data.special_symbols", "data.src.tokenizer_cfg", "data.trg.tokenizer_cfg", "testing", "training",
    "model.encoder.embeddings", "model.decoder.embeddings",
)  # fmt: skip


def step_number(path: Path) -> tuple[int, str]:
    """The step in a file name: `300.ckpt` was saved after 300 steps."""
    return int(path.stem) if path.stem.isdecimal() else -1, path.name


def load_tensors(path: Path, unsafe: bool) -> dict[str, torch.Tensor]:
    saved = load_pickle(path, unsafe=unsafe)
    tensors = saved.get("model_state") if isinstance(saved, dict) else None
    if not isinstance(tensors, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
        raise ConversionError(f"{path} is not a JoeyNMT checkpoint: no state dict called 'model_state'.")
    for side in ("encoder", "decoder"):  # position tables [1, length, d_model], renamed like embeddings
        if f"{side}.pe.pe" in tensors:
            tensors[f"{side}.pe.weight"] = tensors.pop(f"{side}.pe.pe").flatten(0, 1)
    return tensors


def read_config_file(path: Path) -> dict[str, Any]:
    """Reads config.yaml.

    Raises:
        ConversionError: it is not a JoeyNMT configuration.
        FileNotFoundError: it does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(f"Configuration not found: {path}. Pass its path with --config.")
    values = read_yaml(path)
    options = Options(values, "JoeyNMT")
    if missing := [name for name in REQUIRED if not isinstance(options.take(name), dict)]:
        raise ConversionError.from_problems(f"{path} is not a JoeyNMT configuration; missing", missing)
    if wrong := [name for name in GROUPS if not isinstance(options.take(name), dict | None)]:
        raise ConversionError.from_problems(
            f"{path} is not a JoeyNMT configuration; these are not groups of settings", wrong
        )
    return values


def is_version_1(config: Options) -> bool:
    """Whether "src" and "trg" are languages, as in version 1; in version 2 they are groups of settings."""
    return isinstance(config.take("data.src"), str)


def version(config: Options) -> tuple[int, ...] | None:
    return (1, 0) if is_version_1(config) else config.version("joeynmt_version", parts=2)


@dataclass(frozen=True)
class Specials:
    """The special tokens in `data.special_symbols`, by default JoeyNMT's."""

    unk: str = "<unk>"
    pad: str = "<pad>"
    bos: str = "<s>"
    eos: str = "</s>"
    unk_id: int = 0
    pad_id: int = 1
    bos_id: int = 2
    eos_id: int = 3
    language_tags: tuple[str, ...] = ()  # never generated

    @classmethod
    def from_options(cls, config: Options) -> "Specials":
        named = {name: config.take(f"data.special_symbols.{name}_token") for name in ("unk", "pad", "bos", "eos")}
        ids = {name: config.take(f"data.special_symbols.{name}") for name in ("unk_id", "pad_id", "bos_id", "eos_id")}
        if wrong := [name for name, i in ids.items() if not isinstance(i, int | None) or isinstance(i, bool)]:
            raise ConversionError.from_problems("data.special_symbols: these are not ids", wrong)
        if wrong := [name for name, token in named.items() if not isinstance(token, str | None)]:
            raise ConversionError.from_problems(
                "data.special_symbols: these are not tokens", [f"{name}_token" for name in wrong]
            )
        tags = config.take("data.special_symbols.lang_tags", [])
        if not isinstance(tags, list):
            raise ConversionError(f"data.special_symbols.lang_tags is not a list: {shown(tags)}.")
        values = {name: value for name, value in {**named, **ids}.items() if value is not None}
        separator = config.take("data.special_symbols.sep_token")
        return cls(**values, language_tags=(*([separator] if separator else []), *tags))

    def ids(self) -> dict[str, int]:
        return {"unk": self.unk_id, "pad": self.pad_id, "bos": self.bos_id, "eos": self.eos_id}


def read_vocabulary(folder: Path, config: Options, side: str, specials: Specials, size: int) -> list[str]:
    """Reads the tokens of "src" or "trg" in the order of their ids; returns [] if no file is found.

    Training writes `src_vocab.txt` and `trg_vocab.txt`; the configuration may name another file, without the special
    tokens.

    Raises:
        ConversionError: the ids of the special tokens differ from the configuration's, or there are not `size` tokens.
    """
    named = config.take(f"data.{side}.voc_file", config.take(f"data.{side}_vocab"))
    file = beside(folder, f"{side}_vocab.txt") or beside(folder, named)
    if file is None:
        return []
    first = [specials.unk, specials.pad, specials.bos, specials.eos, *map(str, specials.language_tags)]
    tokens = list(dict.fromkeys([*first, *read_lines(file)]))
    for name, number in specials.ids().items():
        token = getattr(specials, name)
        if tokens.index(token) != number:
            raise ConversionError(f"{file} does not match the configuration, which gives {token} the id {number}.")
    check_count(file, tokens, size)
    return tokens
