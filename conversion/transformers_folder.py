"""Reads what transformers' `save_pretrained` writes: a folder, or a repository of the Hugging Face Hub."""

import pickle
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from huggingface_hub import metadata_load, snapshot_download
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from .core import ConversionError, Options
from .reading import load_pickle, read_json, sha256


WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Rows of a mapping.Table: how the models that came to transformers from fairseq call their layers.
LAYERS = """
    model.encoder.layers.{e}.self_attn.qkv_proj      model.encoder.layers.{e}.self_attn.{q,k,v}_proj
    model.encoder.layers.{e}.self_attn.out_proj      model.encoder.layers.{e}.self_attn.out_proj
    model.encoder.layers.{e}.self_attn_norm          model.encoder.layers.{e}.self_attn_layer_norm
    model.encoder.layers.{e}.feed_forward.fc1        model.encoder.layers.{e}.fc1
    model.encoder.layers.{e}.feed_forward.fc2        model.encoder.layers.{e}.fc2
    model.encoder.layers.{e}.feed_forward_norm       model.encoder.layers.{e}.final_layer_norm

    model.decoder.layers.{d}.self_attn.qkv_proj      model.decoder.layers.{d}.self_attn.{q,k,v}_proj
    model.decoder.layers.{d}.self_attn.out_proj      model.decoder.layers.{d}.self_attn.out_proj
    model.decoder.layers.{d}.self_attn_norm          model.decoder.layers.{d}.self_attn_layer_norm
    model.decoder.layers.{d}.cross_attn.q_proj       model.decoder.layers.{d}.encoder_attn.q_proj
    model.decoder.layers.{d}.cross_attn.kv_proj      model.decoder.layers.{d}.encoder_attn.{k,v}_proj
    model.decoder.layers.{d}.cross_attn.out_proj     model.decoder.layers.{d}.encoder_attn.out_proj
    model.decoder.layers.{d}.cross_attn_norm         model.decoder.layers.{d}.encoder_attn_layer_norm
    model.decoder.layers.{d}.feed_forward.fc1        model.decoder.layers.{d}.fc1
    model.decoder.layers.{d}.feed_forward.fc2        model.decoder.layers.{d}.fc2
    model.decoder.layers.{d}.feed_forward_norm       model.decoder.layers.{d}.final_layer_norm
    """
SMALL_FILES = ["*.json", "*.spm", "*.txt", "*.model", "*.md"]


def folder_of(source: Path) -> Path:
    """`source` itself, or a copy of the repository of that name, without weights for other frameworks.

    Raises:
        ConversionError: it is neither a folder nor a repository that can be read.
    """
    if source.is_dir():
        return source
    name = source.as_posix()
    if source.is_file() or name.count("/") > 1:
        raise ConversionError(
            f"{source} is neither a folder nor the id of a repository, such as Helsinki-NLP/opus-mt-en-de."
        )
    try:
        folder = Path(snapshot_download(name, allow_patterns=[*SMALL_FILES, "*.safetensors"]))
        if not list(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(name, allow_patterns=[*SMALL_FILES, "pytorch_model*.bin"]))
    except Exception as error:  # a connection's errors are those of whatever library the client uses
        raise ConversionError(f"There is no folder {source}, and no repository can be read: {error}") from error
    return folder


def weight_files(folder: Path) -> list[Path]:
    """The file of weights, or its parts, safetensors before pickles.

    Raises:
        FileNotFoundError: there are none.
    """
    for name in WEIGHTS:
        if (folder / name).is_file():
            return [folder / name]
        index = folder / f"{name}.index.json"
        if index.is_file():
            parts = read_json(index).get("weight_map")
            if not isinstance(parts, dict):
                raise ConversionError(f"{index} does not say which file holds which weight.")
            return [folder / name for name in sorted({Path(str(part)).name for part in parts.values()})]
    raise FileNotFoundError(f"{folder} holds no {' or '.join(WEIGHTS)}.")


def read_weights(folder: Path, unsafe: bool = False) -> dict[str, torch.Tensor]:
    """Raises:
    ConversionError: a file is damaged, or a pickle asks for more than tensors.
    FileNotFoundError: there are no weights, or a part of them is missing.
    """
    tensors = {}
    for path in weight_files(folder):
        if path.suffix == ".safetensors":
            try:
                tensors.update(load_file(path))
            except SafetensorError as error:
                raise ConversionError(f"{path} is damaged, or no safetensors: {error}") from None
        else:
            loaded = load_pickle(path, unsafe=unsafe)
            if not isinstance(loaded, Mapping):
                raise ConversionError(f"{path} is no state dict.")
            tensors.update(loaded)
    if wrong := [name for name, tensor in tensors.items() if not isinstance(tensor, torch.Tensor)]:
        raise ConversionError.of(f"{folder} holds what are no tensors", wrong)
    return tensors


def own_config(kind: type[PreTrainedConfig], options: Options) -> PreTrainedConfig:
    """`options` as transformers' own configuration, with its defaults for what the file does not name.

    Raises:
        ConversionError: a value is none that it can have.
    """
    try:
        return kind(**{name: value for name, value in options.values.items() if name != "model_type"})
    except (StrictDataclassError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise ConversionError(
            f"This config.json is none of {options.toolkit}'s: {' '.join(str(error).split())}"
        ) from None


def load_reference(kind: type[PreTrainedModel], folder: Path) -> tuple[PreTrainedModel, dict] | None:
    """transformers' own model in float32, and what it says of loading it; None where only `unsafe` reads it."""
    try:
        model, info = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    except pickle.UnpicklingError:
        return None
    except Exception as error:  # what options that cannot be lead to depends on which
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConversionError(f"transformers itself does not load {folder}: {reason}") from error
    return model.eval(), info


def facts_of(source: Path, folder: Path) -> dict[str, Any]:
    """Where the model comes from: its files, the repository, and the licence that its own card names."""
    card = folder / "README.md"
    try:
        metadata = (metadata_load(card) if card.is_file() else None) or {}
    except (ValueError, OSError, yaml.YAMLError):  # a card without metadata is no reason to refuse a model
        metadata = {}
    return {
        "files": {path.name: sha256(path) for path in weight_files(folder)},
        "repository": None if source.is_dir() else source.as_posix(),
        "licence": licence if isinstance(licence := metadata.get("license"), str) else None,
    }


def languages(source: str | None, target: str | None) -> dict[str, str]:
    """As facts, where they are the codes of languages."""
    named = {"source_language": source, "target_language": target}
    return {name: code for name, code in named.items() if re.fullmatch("[a-z]{2,3}", code or "")}


# Tokenizers ---------------------------------------------------------------------------------------------------------


def load_tokenizer(
    kind: type[PreTrainedTokenizerBase], folder: Path, files: Sequence[str]
) -> PreTrainedTokenizerBase | None:
    """transformers' own tokenizer of `folder`, which needs `files`; None where the folder holds none of them.

    Raises:
        ConversionError: a file is damaged.
        FileNotFoundError: some of the files are missing.
    """
    missing = [name for name in files if not (folder / name).is_file()]
    if len(missing) == len(files):
        return None
    if missing:
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}, which its tokenizer needs.")
    try:
        return kind.from_pretrained(folder)
    except ImportError as error:
        raise ConversionError(" ".join(str(error).split())) from None
    except Exception as error:  # what a damaged file leads to depends on where it is damaged
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConversionError(f"The tokenizer of {folder} cannot be read: {reason}") from None


def tokens_in_order(ids: Mapping[str, int], size: int) -> list[str]:
    """Of a vocabulary for `size` rows; ids that it does not name get a name that no text has.

    Raises:
        ConversionError: it names ids that the model does not have.
    """
    if beyond := [token for token, i in ids.items() if not 0 <= i < size]:
        raise ConversionError.of(f"The vocabulary is not this model's, which has {size} rows and none for", beyond, 3)
    tokens = [f"<unused {i}>" for i in range(size)]
    for token, i in ids.items():
        tokens[i] = token
    return tokens


def same_pieces(ours: list[int], theirs: list[int]) -> bool:
    """In any order: where two cuts of a word are equally likely, rounding chooses, and `sentencepiece` says so."""
    return sorted(ours) == sorted(theirs)


def tokenizer_differences(
    ours: PreTrainedTokenizerBase, theirs: PreTrainedTokenizerBase, pieces: Sequence[str], targets: Sequence[str],
    spelt: Callable[[str], str], texts: int = 300,
) -> list[str]:  # fmt: skip
    """What the two make otherwise of random texts, in plain words.

    Texts are made of `pieces` of the source's vocabulary as they are `spelt`; what is decoded are ids of `targets`.
    """
    draw = random.Random(0)
    special = {*theirs.all_special_tokens, *(piece for piece in (*pieces, *targets) if piece.startswith(">>"))}
    ordinary = [piece for piece in pieces if piece not in special]
    ids = [i for i, piece in enumerate(targets) if piece not in special and not piece.startswith("<unused ")]
    sources = ["".join(map(spelt, draw.choices(ordinary, k=12))) for _ in range(texts)]
    outputs = [draw.choices(ids, k=12) for _ in range(texts)]
    problems = []
    if wrong := [text for text in sources if not same_pieces(ours(text).input_ids, theirs(text).input_ids)]:
        problems.append(f"{len(wrong)} of {texts} random texts are encoded otherwise, such as {wrong[0]!r}.")
    if wrong := [row for row in outputs if ours.decode(row) != theirs.decode(row)]:
        problems.append(
            f"{len(wrong)} of {texts} random translations are put together otherwise, such as "
            f"{ours.decode(wrong[0])!r} for {theirs.decode(wrong[0])!r}."
        )
    return problems
