"""Reads the files of Marian: the model, its options, its decoder's settings and its vocabularies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from .core import ConversionError
from .reading import read_npz


LARGEST = 10_000_000  # tokens of a vocabulary
SENTENCEPIECE = (".spm", ".model")


@dataclass(frozen=True)
class Words:
    """A vocabulary: its tokens in the order of their ids, and the two that Marian knows."""

    path: Path
    tokens: Sequence[str]
    eos: int
    unk: int


def find(source: Path) -> Path:
    """The model's file: `source`, or in the folder `source` what decoder.yml names, model.npz, or the only one."""
    if source.is_file():
        return source
    if not source.is_dir():
        raise FileNotFoundError(f"There is no {source}.")
    if (source / "decoder.yml").is_file():
        models = read_yaml(source / "decoder.yml").get("models") or []
        if len(models) > 1:
            raise ConversionError(f"{source} is an ensemble of {len(models)} models: name the file of one of them.")
        if models and (source / Path(models[0]).name).is_file():
            return source / Path(models[0]).name
    if (source / "model.npz").is_file():
        return source / "model.npz"
    found = [
        path for path in sorted(source.glob("*.npz")) if not path.name.endswith((".optimizer.npz", "reference.npz"))
    ]
    if len(found) > 1:
        raise ConversionError.of(f"{source} holds several models; name one", [path.name for path in found])
    if not found:
        binary = next(source.glob("*.bin"), None)
        hint = f" {binary.name} was made from one by marian-conv, and is not read." if binary else ""
        raise FileNotFoundError(f"{source} holds no model.npz.{hint}")
    return found[0]


def decoder_file(path: Path) -> Path | None:
    files = (path.with_name(f"{path.name}.decoder.yml"), path.with_name("decoder.yml"))
    return next((file for file in files if file.is_file()), None)


def read_yaml(path: Path) -> dict[str, Any]:
    """Raises:
    ConversionError: it is no YAML that describes anything.
    """
    return parsed_yaml(path.read_bytes(), path)


def parsed_yaml(text: bytes, path: Path) -> dict[str, Any]:
    try:
        read = yaml.safe_load(text.decode("utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConversionError(f"The YAML of {path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(read, dict):
        raise ConversionError(f"The YAML of {path} is no list of options.")
    return read


def number(options: Mapping[str, Any], name: str, default: float) -> float:
    """Raises:
    ConversionError: the option is no number.
    """
    try:
        return float(options.get(name) or default)
    except (TypeError, ValueError):
        raise ConversionError(f"{name} is {options[name]!r}, which is no number.") from None


def read_training(path: Path) -> dict[str, Any]:
    """What the model was trained with, where that is recorded; it matters to further training only."""
    file = path.with_name(f"{path.name}.yml")
    return read_yaml(file) if file.is_file() else {}


def read_model(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors under Marian's names, and the options that Marian keeps beside them.

    Raises:
        ConversionError: the file is damaged, or no model of Marian's.
    """
    arrays = read_npz(path)
    if (text := arrays.pop("special:model.yml", None)) is not None:
        values = parsed_yaml(text.tobytes().rstrip(b"\0"), path)  # padded to 256 bytes by some versions
    elif (values := read_training(path)) == {}:
        raise ConversionError(f"{path} is no model of Marian's: it has no special:model.yml, and no {path.name}.yml.")
    if strange := [name for name, array in arrays.items() if array.dtype.kind != "f" or array.dtype.itemsize > 8]:
        raise ConversionError.of(f"{path} holds what are no ordinary weights", strange)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, values


def read_vocabularies(path: Path, decoding: Mapping, given: Sequence[Path] | None) -> tuple[Words, Words]:
    """Source and target: as given, as decoder.yml names them, else the only ones beside the model.

    Raises:
        ConversionError, FileNotFoundError: they are not to be found, are more than two, or no vocabularies.
    """
    files = list(given or [path.with_name(Path(name).name) for name in decoding.get("vocabs") or []])
    if not files:
        files = sorted(file for end in ("vocab.yml", "vocab.yaml", "vocab.spm") for file in path.parent.glob(f"*{end}"))
    if missing := [file.name for file in files if not file.is_file()]:
        raise FileNotFoundError(f"{', '.join(missing)} must be beside {path}, or name it with --vocabs SOURCE TARGET.")
    if not files:
        raise FileNotFoundError(f"No vocabularies are beside {path}: name them with --vocabs SOURCE TARGET.")
    if len(files) > 2:
        names = " ".join(file.name for file in files)
        raise ConversionError(f"Source and target must be known among {names}: name them with --vocabs SOURCE TARGET.")
    words = {file: read_vocabulary(file) for file in files}
    return words[files[0]], words[files[-1]]


def read_vocabulary(path: Path) -> Words:
    """A .yml or .json of token: id, a SentencePiece model, or a text with a token on each line.

    Raises:
        ConversionError: it is none of them, or a vocabulary of factors.
    """
    if path.suffix == ".fsv":
        raise ConversionError(f"{path} is a vocabulary of factors, which is not supported.")
    try:
        if path.suffix in (".spm", ".model"):
            import sentencepiece

            model = sentencepiece.SentencePieceProcessor(model_file=str(path))
            if model.eos_id() < 0:
                raise ValueError("it has no </s>")
            return Words(path, [model.id_to_piece(i) for i in range(len(model))], model.eos_id(), model.unk_id())
        text = path.read_text(encoding="utf-8")
        if path.suffix in (".yml", ".yaml", ".json"):
            # Only strings: to YAML, a bare "no" is false and 1984 a number.
            ids = yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
            ids = {token: int(i) for token, i in ids.items()}
            if not 0 <= min(ids.values()) <= max(ids.values()) < LARGEST:
                raise ValueError("it has ids that no vocabulary has")
            tokens = [f"<unused{i}>" for i in range(max(ids.values()) + 1)]
            for token, i in ids.items():
                tokens[i] = token
        else:
            tokens = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
            ids = {token: i for i, token in enumerate(tokens)}
    except ImportError as error:
        raise ConversionError(f"{path} needs sentencepiece: pip install sentencepiece") from error
    except FileNotFoundError:
        raise
    except (OSError, ValueError, AttributeError, TypeError, RuntimeError, yaml.YAMLError) as error:
        raise ConversionError(f"{path} is no vocabulary: {' '.join(str(error).split())}") from None
    # The second names are those of old models, made by Nematus.
    special = [
        next((ids[name] for name in names if name in ids), None) for names in (("</s>", "eos"), ("<unk>", "UNK"))
    ]
    if None in special:
        raise ConversionError(f"{path} is no vocabulary of Marian's: it has no </s> or no <unk>.")
    return Words(path, tokens, *special)


def pair(source: Path, target: Path) -> tuple[Path, Path]:
    """Files of source and target; one of them twice where both hold the same."""
    return (source, source if source.read_bytes() == target.read_bytes() else target)
