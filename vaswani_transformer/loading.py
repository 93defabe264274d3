"""Loads a checkpoint, or says in one sentence why it cannot be used.

`from_pretrained` by itself gives weights that are missing in the file random values, ignores a generation_config.json
that it cannot read, and offers on standard input to run code that it finds in the folder. A translation must not rest
on any of that: here such a checkpoint is refused.
"""

import json
import re
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file

from .catalogue import split_revision
from .model.int8_vaswani import is_int8


# How `config_problem` says Python's types.
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "a list": "a list",
    "NoneType": "null",
}


class LoadingError(ValueError):
    """Why a checkpoint cannot be used, in a sentence for the user."""


def load(
    source: str | Path, dtype: str | torch.dtype = "auto", **settings: Any
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model, on the CPU and in evaluation mode, and its tokenizer.

    Args:
        source: A folder, or a Hub id with or without "@revision"; `catalogue.resolve` gives either for a name.
        dtype: As in `from_pretrained`; "auto" is the dtype in config.json. A checkpoint in int8 stays so unless this is
            another dtype.
        **settings: Passed to the model's `from_pretrained`, such as `attn_implementation`.

    Raises:
        LoadingError: something is missing or damaged, or would have to run code of its own; the message says what.
    """
    model = load_model(source, dtype, **settings)
    return model, load_tokenizer(source, model)


def load_model(source: str | Path, dtype: str | torch.dtype = "auto", **settings: Any) -> PreTrainedModel:
    """The model alone, on the CPU and in evaluation mode. Arguments and errors are those of `load`."""
    name, revision = split_revision(str(source))
    try:
        _check_generation_config(name, revision)
        model, report = AutoModelForSeq2SeqLM.from_pretrained(
            name,
            revision=revision,
            dtype=dtype,
            trust_remote_code=False,  # unset, it would ask on standard input, where the texts to translate are
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that every wrong shape is reported below, not only the first
            **settings,
        )
    except LoadingError:
        raise
    except StrictDataclassError as error:
        raise LoadingError(f"{source}/config.json: {config_problem(error)}") from error
    except Exception as error:  # what a damaged file or a broken connection raises depends on where it breaks
        raise LoadingError(f"Cannot load {source}: {_reason(error)}") from error
    _check_weights(source, model, report)
    if getattr(model, "is_quantized", False) and not (dtype == "auto" or is_int8(dtype)):
        model = model.dequantize(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
    return model.eval()


def load_tokenizer(source: str | Path, model: PreTrainedModel | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer; with `model`, its ids are checked against the model's vocabulary. Errors are those of `load`."""
    name, revision = split_revision(str(source))
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=False)
    except Exception as error:
        raise LoadingError(f"Cannot load the tokenizer of {source}: {_reason(error)}") from error
    if model is not None:
        _check_vocabulary(source, model, tokenizer)
    return tokenizer


def check_device(name: str):
    """Tries a device before a model is loaded for it.

    Raises:
        ValueError: there is no such device here; the message says which there can be.
    """
    try:
        kind = torch.device(name).type
    except RuntimeError:
        kind = "meta"  # which holds no numbers: nothing could be computed on it
    if kind == "meta":
        raise ValueError(f"There is no device {name!r}. Use cpu, cuda, cuda:1 or mps.")
    if kind == "cuda" and not (torch.backends.cuda.is_built() or torch.version.hip):
        raise ValueError("This PyTorch was installed without CUDA. Use --device cpu.")
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(f"The device {name!r} cannot be used here: {reason}. Use --device cpu.") from error


def config_problem(error: StrictDataclassError) -> str:
    """What is wrong with a configuration, with plain words for the types of Python that the message names."""
    text = str(error.__cause__ or error).replace("`", "")
    if choices := re.match(r"Field '(\w+)' expected one of \((.*)\), got (.*)", text):
        return f"{choices[1]} must be one of {choices[2]}, not {choices[3]!r}."
    field, value = re.match(r"Field '(\w+)' ", text), re.search(r"value:? (.*?)(\)$| doesn't match)", text)
    kinds = re.findall(r"expected (a list|\w+), got", text)
    words = [KINDS[kind] for kind in kinds if kind in KINDS and not (kind == "int" and "float" in kinds)]
    if field and value and words:
        return f"{field[1]} must be {' or '.join(words)}, not {value[1]}."
    return " ".join(text.split())


def _check_generation_config(name: str, revision: str | None):
    """Refuses a generation_config.json that `from_pretrained` would ignore: its search settings would be lost."""
    path = cached_file(name, "generation_config.json", revision=revision, _raise_exceptions_for_missing_entries=False)
    if path is None:
        return
    try:
        settings = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LoadingError(f"Cannot read the generation_config.json of {name}: {_reason(error)}") from error
    if not isinstance(settings, dict):
        raise LoadingError(f"The generation_config.json of {name} is not a JSON object.")


def _check_weights(source: str | Path, model: PreTrainedModel, report: dict):
    """Refuses weights that do not fit the configuration, and weights that are not numbers."""
    shapes = [f"{name} {list(in_file)}, not {list(wanted)}" for name, in_file, wanted in report["mismatched_keys"]]
    weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    broken = [name for name, weight in weights.items() if weight.is_floating_point() and not weight.isfinite().all()]
    problems = {
        "missing": report["missing_keys"],
        "of the wrong shape": shapes,
        "not in the model that config.json describes": report["unexpected_keys"],
        "NaN or infinite": broken,
    }
    message = "; ".join(f"{problem}: {_some(names)}" for problem, names in problems.items() if names)
    if message:
        raise LoadingError(f"Cannot use the weights of {source}: {message}.")


def _check_vocabulary(source: str | Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase):
    """Refuses a tokenizer with ids that the embeddings have no row for."""
    embeddings: Any = model.get_input_embeddings()
    rows = embeddings.num_embeddings
    largest = max([*tokenizer.get_vocab().values(), *tokenizer.all_special_ids], default=0)
    if largest >= rows:
        raise LoadingError(
            f"The tokenizer of {source} has ids up to {largest}, and its model embeddings for 0 to {rows - 1}: they "
            "do not belong together, or tokens were added without model.resize_token_embeddings(len(tokenizer))."
        )


def _some(names: set[str] | list[str], shown: int = 3) -> str:
    """The first names, and how many others there are."""
    ordered = sorted(names)
    others = f" and {len(ordered) - shown} more" if len(ordered) > shown else ""
    return ", ".join(ordered[:shown]) + others


def _reason(error: Exception) -> str:
    """An error in plain words where they are known, else its first paragraph; the rest is for programmers."""
    if isinstance(error, SafetensorError):
        return f"its weights are damaged or incomplete ({error}). Download or copy them again."
    if "Error no file named model.safetensors" in str(error):
        return "its weights (model.safetensors) are missing."
    if "backend tokenizer" in str(error):
        return "tokenizer.json is missing."
    if "Unrecognized configuration class" in str(error):
        return "it is not a translation model that this package can load."
    if "trust_remote_code" in str(error):
        return "it would have to run code of its own, which is never done here."
    return " ".join(str(error).strip().partition("\n\n")[0].split()) or type(error).__name__
