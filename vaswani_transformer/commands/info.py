"""`vaswani info`: a model's configuration and parameters, read from the files without loading the weights."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from .. import catalogue
from ..system import console
from ..system.console import Failure, errors_as_messages


# Fields of config.json that are for loaders and say nothing about the model.
PLUMBING = {"architectures", "auto_map", "custom_pipelines", "dtype", "model_type", "transformers_version"}

# The order of the paper, from the source to the output; files store tensors in the order of their names.
ORDER: Sequence[str] = """
    shared encoder decoder lm_head
    embed_tokens embedding layers norm
    self_attn self_attn_norm cross_attn cross_attn_norm feed_forward feed_forward_norm
    qkv_proj q_proj kv_proj out_proj fc1 fc2
""".split()

Shapes = dict[str, tuple[int, ...]]


def info(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Name of an included checkpoint, a folder, or a Hub id.")],
):
    """Show a model's configuration and parameters without loading its weights."""
    from ..locating import locate

    with errors_as_messages():
        try:
            source = locate(path, needs_target=False)
        except ValueError as error:
            raise Failure(str(error)) from error
        try:
            config, shapes, remark = read_folder(source) if Path(source).is_dir() else read_hub(source)
        except Failure:
            raise
        except Exception as error:
            reason = " ".join(str(error).strip().partition("\n\n")[0].split()) or type(error).__name__
            raise Failure(f"Cannot read {path}: {reason}") from error
    title = Text(catalogue.display_name(source), style="bold")
    console.out.print(title, "", configuration_table(config), "", parameter_table(shapes), "", sep="\n")
    console.out.print(f"{sum(map(math.prod, shapes.values())):,} parameters{remark}")


def read_folder(folder: str) -> tuple[dict, Shapes, str]:
    """Returns the configuration, each parameter's shape, and a remark on the dtype and size of the files."""
    from safetensors import safe_open

    config = read_config(Path(folder) / "config.json")
    files = sorted(Path(folder).glob("model*.safetensors"))
    shapes, dtypes = {}, set()
    for file in files:
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():
                tensor = tensors.get_slice(name)
                shapes[name] = tuple(tensor.get_shape())
                dtypes.add(tensor.get_dtype())
    if not files:
        return config, configured_shapes(folder), "; no weights in model.safetensors"
    return config, shapes, f" in {', '.join(sorted(dtypes))}, {decimal(sum(file.stat().st_size for file in files))}"


def read_config(file: Path) -> dict:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise Failure(f"{file} is not valid JSON (line {error.lineno}, column {error.colno}).") from error
    if not isinstance(config, dict):
        raise Failure(f"{file} must contain a JSON object: names and values in braces.")
    return config


def read_hub(source: str) -> tuple[dict, Shapes, str]:
    """Like `read_folder` for a model on the Hub; downloads only the headers of the weights."""
    from huggingface_hub import get_safetensors_metadata

    from ..hub import download_config

    repo_id, revision = catalogue.split_revision(source)
    file = download_config(repo_id, revision)
    if file.with_name("model.safetensors").is_file():  # already downloaded: no network is needed
        return read_folder(str(file.parent))
    config = read_config(file)
    files = get_safetensors_metadata(repo_id, revision=revision).files_metadata.values()
    tensors = {name: tensor for file in files for name, tensor in file.tensors.items()}
    dtypes = sorted({tensor.dtype for tensor in tensors.values()})
    return config, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, f" in {', '.join(dtypes)}"


def configured_shapes(folder: str) -> Shapes:
    """Computes the shapes from the configuration, with a model without storage."""
    import torch
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    from .. import registration  # noqa: F401  registers the model with the Auto classes

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with torch.device("meta"):
        model = AutoModelForSeq2SeqLM.from_config(config, trust_remote_code=False)
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def configuration_table(config: dict) -> Table:
    """Returns the fields that are set, in two columns of names and values."""
    fields = [(name, str(value)) for name, value in config.items() if name not in PLUMBING and value is not None]
    half = (len(fields) + 1) // 2
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=False)
    for style in ("dim", "", "dim", ""):
        table.add_column(style=style)
    for i in range(half):
        table.add_row(*fields[i], *(fields[i + half] if i + half < len(fields) else ("", "")))
    return table


def parameter_table(shapes: Shapes) -> Table:
    """Returns a row for each module with parameters; the same module of several layers is one row."""
    modules: dict[str, dict[str, list[tuple[int, ...]]]] = {}
    for name, shape in shapes.items():
        module, _, kind = re.sub(r"\.\d+\.", ".*.", name.removeprefix("model.")).rpartition(".")
        modules.setdefault(module, {}).setdefault(kind, []).append(shape)
    total = sum(map(math.prod, shapes.values()))
    # Without double padding, the longest names and shapes fit into 80 columns.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("Module", overflow="fold")
    table.add_column("Layers", justify="right")
    table.add_column("Shape")
    table.add_column("Parameters", justify="right")
    table.add_column("%", justify="right")
    for module in sorted(modules, key=position):
        kinds = modules[module]
        count = sum(sum(map(math.prod, shapes)) for shapes in kinds.values())
        shape = " + ".join("×".join(map(str, kinds[kind][0])) for kind in sorted(kinds, reverse=True))
        layers = str(len(next(iter(kinds.values())))) if "*" in module else ""
        table.add_row(module, layers, shape, f"{count:,}", f"{100 * count / total:.1f}")
    return table


def position(module: str) -> list[tuple[int, str]]:
    """Returns the key that sorts modules by `ORDER`, and other names after them."""
    return [(ORDER.index(part) if part in ORDER else len(ORDER), part) for part in module.split(".")]
