"""Reads Marian's files: the model, its options, the decoder's settings and the vocabularies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vaswani_transformer.system.extras import missing_package

from ..mapping import with_unused_rows
from ..options import ConversionError, Options
from .arrays import read_npz
from .folders import checkpoint_in, regular
from .text import one_line, parse_yaml, read_lines, read_yaml, read_yaml_strings


MAX_VOCABULARY = 10_000_000  # tokens
SENTENCEPIECE = (".spm", ".model")
# The second names are those of old models, inherited from Nematus.
END, UNKNOWN = ("</s>", "eos"), ("<unk>", "UNK")


@dataclass(frozen=True)
class MarianVocabulary:
    """Tokens in the order of their ids, and the ids of Marian's two special tokens."""

    path: Path
    tokens: Sequence[str]
    eos: int
    unk: int


@dataclass(frozen=True)
class MarianFiles:
    """The content of a model's files. `options` are the model's; `decoding` and `training` may be empty."""

    path: Path
    tensors: Mapping[str, torch.Tensor]
    options: Options
    decoding: Options
    training: Options
    vocabularies: tuple[MarianVocabulary, MarianVocabulary]

    @classmethod
    def from_path(cls, source: Path, vocabularies: Sequence[Path] | None = None) -> "MarianFiles":
        """Reads a model.npz, or the folder that contains it. Pass `vocabularies` if they are elsewhere.

        Raises:
            ConversionError: a file is damaged or was not written by Marian.
            FileNotFoundError: the model or a vocabulary is missing.
        """
        path = find(source)
        tensors, options = read_model(path)
        decoding = decoder_settings(path)
        sides = read_vocabularies(path, decoding, vocabularies)
        settings = (Options(values, "Marian") for values in (options, decoding, read_training(path)))
        return cls(path, one_way(tensors, options), *settings, sides)


def find(source: Path) -> Path:
    """Finds the model: `source`; in a folder, the file named in decoder.yml, else model.npz, else the only .npz."""
    if not source.is_dir():
        return regular(source)
    models = list_option(read_yaml(source / "decoder.yml"), "models") if (source / "decoder.yml").is_file() else []
    if len(models) > 1:
        raise ConversionError(f"{source} is an ensemble of {len(models)} models. Pass the path of one file.")
    if models and (source / Path(str(models[0])).name).is_file():
        return source / Path(str(models[0])).name
    if not list(source.glob("*.npz")) and (binary := next(source.glob("*.bin"), None)):
        raise FileNotFoundError(f"No model.npz in {source}. {binary.name}, written by marian-conv, is not supported.")
    return checkpoint_in(source, "*.npz", names=["model.npz"], but=("*.optimizer.npz", "*reference.npz"))


def decoder_settings(path: Path) -> dict[str, Any]:
    """Reads the search settings, model.npz.decoder.yml or decoder.yml; returns {} if there is neither."""
    files = (path.with_name(f"{path.name}.decoder.yml"), path.with_name("decoder.yml"))
    file = next((file for file in files if file.is_file()), None)
    return {} if file is None else {"beam-size": 12} | read_yaml(file)  # 12 is Marian's default


def read_training(path: Path) -> dict[str, Any]:
    """Reads the training settings, if they are recorded; only further training needs them."""
    file = path.with_name(f"{path.name}.yml")
    return read_yaml(file) if file.is_file() else {}


def read_model(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Reads the tensors, under Marian's names, and the options stored with them.

    Raises:
        ConversionError: the file is damaged or not a Marian model.
    """
    arrays = read_npz(path)
    if (stored := arrays.pop("special:model.yml", None)) is not None:
        text = stored.tobytes().rstrip(b"\0")  # some versions pad it to 256 bytes
        try:
            options = parse_yaml(text.decode("utf-8"), path)
        except UnicodeDecodeError as error:
            raise ConversionError(f"Cannot read the YAML in {path}: {one_line(error)}") from None
    elif not (options := read_training(path)):
        raise ConversionError(f"{path} is not a Marian model: special:model.yml and {path.name}.yml are missing.")
    if strange := [name for name, array in arrays.items() if array.dtype.kind != "f" or array.dtype.itemsize > 8]:
        raise ConversionError.from_problems(f"{path} contains arrays that are not weights", strange)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, options


def one_way(tensors: Mapping[str, torch.Tensor], options: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Unties shared tensors, transposes old output matrices, and adds identity projections that are left out."""
    tensors = dict(tensors)
    output = "decoder_ff_logit_out_W"
    if "Wemb" in tensors:
        tensors["encoder_Wemb"] = tensors["decoder_Wemb"] = tensors.pop("Wemb")
    if output in tensors:  # transposed until 2018
        tensors[f"{output}t"] = tensors.pop(output).mT
    elif "decoder_Wemb" in tensors:
        tensors.setdefault(f"{output}t", tensors["decoder_Wemb"])
    stored = dict(tensors)  # layer 2 may share the tensors of 1, and layer 3 those stored as 2
    for layer, stored_layer in enumerate(list_option(options, "transformer-tied-layers"), start=1):
        prefix = f"decoder_l{stored_layer}_"
        same = {name: tensor for name, tensor in stored.items() if name.startswith(prefix)}
        tensors |= {f"decoder_l{layer}_{name.removeprefix(prefix)}": tensor for name, tensor in same.items()}
    if options.get("transformer-no-projection"):  # an identity projection has the same effect
        for query in [name for name in tensors if name.endswith("_Wq")]:
            tensors[f"{query[:-1]}o"] = torch.eye(len(tensors[query]))
            tensors[f"{query[:-2]}bo"] = torch.zeros(1, len(tensors[query]))
    return tensors


def with_padding(tensors: Mapping[str, torch.Tensor], size: int) -> dict[str, torch.Tensor]:
    """Extends both vocabularies to `size` rows. Added rows are zero and are never generated."""
    bias = "decoder_ff_logit_out_b"
    no_bias = torch.zeros(1, len(tensors["decoder_Wemb"]))  # output-omit-bias
    matrices = "encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt"
    return with_unused_rows({bias: no_bias, **tensors}, matrices, bias, size)


def list_option(options: Mapping[str, Any], name: str) -> list:
    """Returns an option as a list; a single value becomes a list of one."""
    value = options.get(name)
    return [] if value is None else value if isinstance(value, list) else [value]


def read_vocabularies(
    path: Path, decoding: Mapping, given: Sequence[Path] | None
) -> tuple[MarianVocabulary, MarianVocabulary]:
    """Reads the vocabularies: those given, those in the search settings, or the only ones beside the model.

    Raises:
        ConversionError: there are more than two, or a file is not a vocabulary.
        FileNotFoundError: there are none.
    """
    files = list(given or [path.with_name(Path(str(name)).name) for name in list_option(decoding, "vocabs")])
    if not files:
        files = sorted(file for end in ("vocab.yml", "vocab.yaml", "vocab.spm") for file in path.parent.glob(f"*{end}"))
    if missing := [file.name for file in files if not file.exists()]:
        raise FileNotFoundError(f"{', '.join(missing)} not found beside {path}. Pass --vocabs SOURCE TARGET.")
    if not files:
        raise FileNotFoundError(f"No vocabulary found beside {path}. Pass --vocabs SOURCE TARGET.")
    if len(files) > 2:
        names = " ".join(file.name for file in files)
        raise ConversionError(f"Cannot tell source from target among {names}. Pass --vocabs SOURCE TARGET.")
    vocabularies = {file: read_vocabulary(file) for file in files}
    return vocabularies[files[0]], vocabularies[files[-1]]


def read_vocabulary(path: Path) -> MarianVocabulary:
    """Reads a vocabulary: a .yml or .json file of token: id, a SentencePiece model, or a text file, one token per line.

    Raises:
        ConversionError: it is none of these, or it has factors.
    """
    if path.suffix == ".fsv":
        raise ConversionError(f"Unsupported: {path} is a vocabulary with factors.")
    if path.suffix in SENTENCEPIECE:
        return read_pieces(path)
    if path.suffix in (".yml", ".yaml", ".json"):
        ids = read_ids(path)
        tokens = [f"<unused{i}>" for i in range(max(ids.values()) + 1)]
        for token, i in ids.items():
            tokens[i] = token
    else:
        tokens = read_lines(path)
        ids = {token: i for i, token in enumerate(tokens)}
    special = [next((ids[name] for name in names if name in ids), None) for names in (END, UNKNOWN)]
    if None in special:
        raise ConversionError(f"{path} is not a Marian vocabulary: </s> or <unk> is missing.")
    return MarianVocabulary(path, tokens, *special)


def read_ids(path: Path) -> dict[str, int]:
    try:
        ids = {token: int(i) for token, i in read_yaml_strings(path).items()}
    except ValueError as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"{path} is not a vocabulary: {one_line(error)}") from None
    if not ids or not 0 <= min(ids.values()) <= max(ids.values()) < MAX_VOCABULARY:
        raise ConversionError(f"{path} is not a vocabulary: ids must be from 0 to {MAX_VOCABULARY:,}.")
    return ids


def read_pieces(path: Path) -> MarianVocabulary:
    try:
        import sentencepiece

        model = sentencepiece.SentencePieceProcessor(model_file=str(regular(path)))
    except ImportError as error:
        raise ConversionError(missing_package(f"Reading {path}", "sentencepiece", "convert")) from error
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        if isinstance(error, FileNotFoundError | ConversionError):
            raise
        raise ConversionError(f"{path} is not a SentencePiece model: {one_line(error)}") from None
    if model.eos_id() < 0:
        raise ConversionError(f"{path} is not a Marian vocabulary: </s> is missing.")
    return MarianVocabulary(path, [model.id_to_piece(i) for i in range(len(model))], model.eos_id(), model.unk_id())
