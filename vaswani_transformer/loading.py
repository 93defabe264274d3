"""Loads a checkpoint, or explains in one sentence why it cannot be used.

By itself, `from_pretrained` fills missing weights with random values, ignores a generation_config.json that it cannot
read, and asks on standard input whether to run code from the folder. This module rejects such checkpoints, because
their translations would be wrong.
"""

import json
import math
import re
from pathlib import Path
from statistics import median
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file

from .catalogue import split_revision
from .locating import locate
from .model.int8_vaswani import is_int8


# Plain words for the types in messages.
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "a list": "a list",
    "NoneType": "null",
}

OPTIONAL: Any = {"_raise_exceptions_for_missing_entries": False}
# The median of trained matrices is between these; that of float16 read as bfloat16, or the reverse, is not.
MIN_WEIGHT, MAX_WEIGHT = 1e-6, 0.5
MAX_GROWTH = 1000  # by the steps of a tokenizer; those of known ones multiply to less than 100
PROBE_LENGTH = 40  # enough for a regular expression that backtracks to reach the library's limit


class LoadingError(ValueError):
    """A checkpoint cannot be used; the message is a sentence for the user."""


def load(
    source: str | Path, dtype: str | torch.dtype = "auto", **settings: Any
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Returns the model, on the CPU and in evaluation mode, and its tokenizer.

    Args:
        source: Any checkpoint: the name of an included one; a folder, or a Hub id with or without "@revision", in our
            format or of a MarianMTModel or an FSMT model; a folder, an archive or a file of another toolkit that
            `vaswani convert` reads. Other formats are converted on their first use, and kept in the cache.
        dtype: As in `from_pretrained`; "auto" is the dtype in config.json. A checkpoint in int8 stays in int8 unless
            you give another dtype.
        **settings: Passed to the model's `from_pretrained`, such as `attn_implementation`.

    Raises:
        LoadingError: the checkpoint does not exist, is damaged, cannot be converted, or needs its own code; the message
            names the file.
    """
    try:
        source = locate(str(source))
    except ValueError as error:
        raise LoadingError(str(error)) from error
    model = load_model(source, dtype, **settings)
    return model, load_tokenizer(source, model)


def load_model(source: str | Path, dtype: str | torch.dtype = "auto", **settings: Any) -> PreTrainedModel:
    """Returns only the model, on the CPU and in evaluation mode. Arguments and errors are as for `load`."""
    name, revision = _locate(source)
    try:
        _check_generation_config(name, revision)
        _check_weight_files(Path(name))
        model, report = AutoModelForSeq2SeqLM.from_pretrained(
            name,
            revision=revision,
            dtype=dtype,
            trust_remote_code=False,  # None would ask on standard input, from which the texts are read
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # all wrong shapes are reported below, not only the first
            **settings,
        )
    except LoadingError:
        raise
    except StrictDataclassError as error:
        raise LoadingError(f"{source}/config.json: {config_problem(error)}") from error
    except Exception as error:  # damaged files and broken connections raise many kinds of errors
        raise LoadingError(f"Cannot load {source}: {_reason(error)}") from error
    _check_weights(source, model, report)
    _check_dtypes(name, revision, model)
    if getattr(model, "is_quantized", False) and not (dtype == "auto" or is_int8(dtype)):
        model = model.dequantize(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
    return model.eval()


def load_tokenizer(source: str | Path, model: PreTrainedModel | None = None) -> PreTrainedTokenizerBase:
    """Returns the tokenizer, and checks that its ids fit the `model` if it is given. Errors are as for `load`."""
    name, revision = _locate(source)
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=False)
    except Exception as error:
        raise LoadingError(f"Cannot load the tokenizer of {source}: {_reason(error)}") from error
    _check_tokenizer(source, tokenizer)
    if model is not None:
        _check_vocabulary(source, model, tokenizer)
    return tokenizer


def check_device(name: str):
    """Checks that a device can be used, before a model is loaded for it.

    Raises:
        ValueError: this computer does not have the device; the message says what to use.
    """
    try:
        kind = torch.device(name).type
    except RuntimeError:
        kind = "meta"  # rejected below, because tensors on it have no values
    if kind == "meta":
        raise ValueError(f"Unknown device {name!r}. Use cpu, cuda, cuda:1 or mps.")
    if kind == "cuda" and not (torch.backends.cuda.is_built() or torch.version.hip):
        raise ValueError("PyTorch is installed without CUDA support. Use --device cpu.")
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(f"The device {name!r} cannot be used here: {reason}. Use --device cpu.") from error


def config_problem(error: StrictDataclassError) -> str:
    """Explains what is wrong with a configuration, in plain words instead of Python types."""
    text = str(error.__cause__ or error).replace("`", "")
    if choices := re.match(r"Field '(\w+)' expected one of \((.*)\), got (.*)", text):
        return f"{choices[1]} must be one of {choices[2]}, not {choices[3]!r}."
    field, value = re.match(r"Field '(\w+)' ", text), re.search(r"value:? (.*?)(\)$| doesn't match)", text)
    kinds = re.findall(r"expected (a list|\w+), got", text)
    words = [KINDS[kind] for kind in kinds if kind in KINDS and not (kind == "int" and "float" in kinds)]
    if field and value and words:
        return f"{field[1]} must be {' or '.join(words)}, not {value[1]}."
    return " ".join(text.split())


def _locate(source: str | Path) -> tuple[str, str | None]:
    """Returns the folder, or the Hub id and the revision.

    Raises:
        LoadingError: the checkpoint does not exist or cannot be converted.
    """
    try:
        return split_revision(locate(str(source)))
    except ValueError as error:
        raise LoadingError(str(error)) from error


def _check_generation_config(name: str, revision: str | None):
    """Checks generation_config.json, because `from_pretrained` silently ignores an invalid one.

    Raises:
        LoadingError: the file cannot be read, or is not a JSON object.
    """
    path = cached_file(name, "generation_config.json", revision=revision, **OPTIONAL)
    if path is None:
        return
    try:
        settings = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LoadingError(f"Cannot read the generation_config.json of {name}: {_reason(error)}") from error
    if not isinstance(settings, dict):
        raise LoadingError(f"The generation_config.json of {name} is not a JSON object.")


def _check_weight_files(folder: Path):
    """Checks that a folder has one set of weights; `from_pretrained` would prefer the single file, even if it is older.

    Raises:
        LoadingError: there is a single file and an index of shards; the message names both.
    """
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file() and index.is_file() and any(folder.glob("model-*-of-*.safetensors")):
        raise LoadingError(
            f"{folder} has two sets of weights: {whole.name}, and the shards of {index.name}. Remove the older set."
        )


def _check_weights(source: str | Path, model: PreTrainedModel, report: dict):
    """Checks that the weights fit the configuration and are finite.

    Raises:
        LoadingError: some do not or are not; the message names them.
    """
    shapes = [f"{name} {list(in_file)}, not {list(wanted)}" for name, in_file, wanted in report["mismatched_keys"]]
    weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    broken = [name for name, weight in weights.items() if weight.is_floating_point() and not weight.isfinite().all()]
    problems = {
        "missing": report["missing_keys"],
        "of the wrong shape": shapes,
        "not in the model that config.json describes": report["unexpected_keys"],
        "NaN or infinite": broken,
    }
    message = "; ".join(f"{problem}: {_first_names(names)}" for problem, names in problems.items() if names)
    if message:
        raise LoadingError(f"Cannot use the weights of {source}: {message}.")


def _check_dtypes(name: str, revision: str | None, model: PreTrainedModel):
    """Checks that the weights are stored in the format that their file names: any bytes can be read as numbers.

    Raises:
        LoadingError: weights are marked as integers, or make sense only in the format of config.json.
    """
    here = {**OPTIONAL, "_raise_exceptions_for_connection_errors": False, "local_files_only": True}  # once loaded
    weights = cached_file(name, "model.safetensors", revision=revision, **here)
    config = cached_file(name, "config.json", revision=revision, **here)
    if weights is None or config is None or getattr(model, "is_quantized", False):
        return
    parameters = dict(model.named_parameters())
    with safe_open(weights, framework="numpy") as file:
        stored = {key: file.get_slice(key).get_dtype() for key in file.keys() if key in parameters}
    if integers := {key: dtype for key, dtype in stored.items() if not dtype.startswith(("F", "BF"))}:
        names = _first_names([f"{key} ({dtype})" for key, dtype in integers.items()])
        raise LoadingError(f"Cannot use the weights of {name}: stored as integers: {names}.")
    settings = json.loads(Path(config).read_text(encoding="utf-8"))
    wanted = {"float16": "F16", "bfloat16": "BF16"}.get(str(settings.get("dtype", settings.get("torch_dtype"))))
    if wanted is None or not set(stored.values()) <= {"F16", "BF16"} - {wanted}:
        return
    matrices = [weight.detach().abs().float().median().item() for weight in parameters.values() if weight.dim() == 2]
    if not MIN_WEIGHT < median(matrices) < MAX_WEIGHT:
        raise LoadingError(
            f"Cannot use the weights of {name}: model.safetensors marks them as {next(iter(stored.values()))}, but "
            f"their values make sense only as {wanted}, the dtype in config.json."
        )


def _check_tokenizer(source: str | Path, tokenizer: PreTrainedTokenizerBase):
    """Checks that the steps of tokenizer.json take little memory and time.

    Raises:
        LoadingError: they replace characters by long texts, or a regular expression gives up on a simple text.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return
    backend.no_padding()  # of tokenizer.json, which can be of any length; each call sets its own
    steps = [json.loads(step.__getstate__()) for step in (backend.normalizer, backend.decoder) if step]
    growth = max(map(_growth, steps), default=1)
    if growth > MAX_GROWTH:
        raise LoadingError(f"The tokenizer of {source} makes texts up to {growth:,} times as long. Do not use it.")
    try:
        for character in "a1 .":
            backend.encode(character * PROBE_LENGTH + ("!" if character != "." else "a"))
    except BaseException as error:  # the library panics; its exception is not an Exception
        if type(error).__name__ != "PanicException":
            raise
        problem = f"has a regular expression that takes too long ({_reason(error)}). Do not use it."
        raise LoadingError(f"The tokenizer of {source} {problem}") from error


def _growth(step: dict[str, Any]) -> int:
    """Returns how many times as long a text can become by the replacements of a normalizer or decoder."""
    if steps := step.get("normalizers") or step.get("decoders"):
        return math.prod(map(_growth, steps))
    return max(1, len(str(step.get("content", step.get("prepend", "")))))


def _check_vocabulary(source: str | Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase):
    """Checks that the embeddings have a row for each id of the tokenizer.

    Raises:
        LoadingError: some ids have none.
    """
    embeddings: Any = model.get_input_embeddings()
    rows = embeddings.num_embeddings
    largest = max([*tokenizer.get_vocab().values(), *tokenizer.all_special_ids], default=0)
    if largest >= rows:
        raise LoadingError(
            f"The tokenizer of {source} has ids up to {largest}, but its model has embeddings for 0 to {rows - 1}. "
            "They do not belong together, or tokens were added without model.resize_token_embeddings(len(tokenizer))."
        )


def _first_names(names: set[str] | list[str], shown: int = 3) -> str:
    """Lists the first names, and the number of those that are left out."""
    ordered = sorted(names)
    rest = f" and {len(ordered) - shown} more" if len(ordered) > shown else ""
    return ", ".join(ordered[:shown]) + rest


def _reason(error: BaseException) -> str:
    """Explains a known error in plain words; for other errors, returns the first paragraph of the message."""
    if isinstance(error, SafetensorError):
        return f"its weights are damaged or incomplete ({error}). Download or copy them again."
    if "Error no file named model.safetensors" in str(error):
        return "its weights (model.safetensors) are missing."
    if "backend tokenizer" in str(error):
        return "tokenizer.json is missing."
    if "Unrecognized configuration class" in str(error):
        return "it is not a translation model that this package can load."
    if "trust_remote_code" in str(error):
        return "it needs its own code, which is never run here."
    return " ".join(str(error).strip().partition("\n\n")[0].split()) or type(error).__name__
