"""Reads tensor2tensor's checkpoints and hyperparameters."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from ..options import ConversionError
from .arrays import read_npz
from .folders import checkpoint_in
from .text import read_json_object


MODEL = "transformer/"
SHARD = re.compile(r"symbol_modality_(\d+)_(\d+)\.(shared|input_emb|target_emb|softmax)\.weights_(\d+)")


def find(source: Path) -> Path:
    """Finds the `.index` or `.npz`; in a folder, the one named in the file `checkpoint`, else the latest."""
    if not source.is_dir():
        index = source.with_name(f"{source.name}.index")
        source = index if index.is_file() else source
        if source.is_file() and source.suffix not in (".index", ".npz"):
            raise ConversionError(f"{source} is not a TensorFlow checkpoint. Pass its .index file or its folder.")
        return checkpoint_in(source)
    state = source / "checkpoint"
    text = state.read_text(encoding="utf-8", errors="replace") if state.is_file() else ""
    named = re.search(r'^model_checkpoint_path: "(.*)"', text, re.MULTILINE)
    names = [f"{Path(named[1]).name}.index"] if named else []
    if not any(source.glob("*.index")):
        return checkpoint_in(source, "*.index", names=["variables.npz"])
    return checkpoint_in(source, "*.index", names=names, newest=step_number)


def step_number(path: Path) -> tuple[int, str]:
    """The step in a file name: `model.ckpt-300.index` was saved after 300 steps."""
    return int(re.search(r"(\d{0,18})$", path.stem)[1] or 0), path.name


def files(path: Path) -> list[Path]:
    return [path] if path.suffix == ".npz" else [path, *sorted(path.parent.glob(f"{path.stem}.data-*"))]


def read_hparams(path: Path) -> dict:
    if not path.exists():
        raise FileNotFoundError(
            f"{path} not found; tensor2tensor saves it with the checkpoints. Pass --hparams FILE with the "
            'hyperparameters, such as {"hidden_size": 512, "num_heads": 8, "num_hidden_layers": 6}; hparams_set in '
            "flags_t2t.txt names them."
        )
    values = read_json_object(path)
    if "hidden_size" not in values:
        raise ConversionError(f"{path} is not an hparams.json of tensor2tensor: 'hidden_size' is missing.")
    return values


def npz_variables(path: Path) -> dict[str, torch.Tensor]:
    try:
        return {name: torch.from_numpy(array) for name, array in read_npz(path, weights).items()}
    except TypeError as error:
        raise ConversionError(f"{path} contains arrays that are not weights: {error}") from None


def weights(names: Iterable[str]) -> list[str]:
    """Selects the model's variables. Those of the optimiser have the same names with a suffix."""
    names = set(names)
    return sorted(
        name
        for name in names
        if name.startswith(MODEL) and not any(name[: slash.start()] in names for slash in re.finditer("/", name))
    )


def canonical(variables: Mapping[str, torch.Tensor], scope: str) -> dict[str, torch.Tensor]:
    """Renames variables to the table's names: norms are called "norm" in every scope."""
    tensors = {}
    for name, tensor in variables.items():
        if "kv_transform" in name:
            raise ConversionError(f"Unsupported layout: {name} was written before tensor2tensor 1.4 (November 2017).")
        name = name.removeprefix(MODEL).removeprefix("body/").replace("/", ".")
        norm = re.sub(rf"{scope}\.layer_norm\.layer_norm_", "norm.", name)
        tensors[norm.replace("norm.scale", "norm.kernel") if norm != name else name] = tensor
    return tensors


def embeddings(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Joins the shards of input_emb [V_source, D], target_emb and softmax [V_target, D]; removes them from `tensors`.

    The names tell which matrices are shared: if the vocabularies differ in size, tensor2tensor ignores hparams.json.
    A matrix of V rows is divided into n shards, of which the first V % n have one more row.

    Raises:
        ConversionError: shards are missing, or the embeddings are not those of a text-to-text model.
    """
    shards: dict[tuple[int, int, str], dict[int, torch.Tensor]] = {}
    for name in [name for name in tensors if SHARD.fullmatch(name)]:
        rows, width, table, number = SHARD.fullmatch(name).groups()
        shards.setdefault((int(rows), int(width), table), {})[int(number)] = tensors.pop(name)
    tables: dict[str, dict[int, torch.Tensor]] = {}
    for (rows, width, table), parts in shards.items():
        n = len(parts)
        shapes = [[rows // n + (i < rows % n), width] for i in range(n)]
        if [list(parts[i].shape) if i in parts else None for i in range(n)] != shapes:
            raise ConversionError(
                f"symbol_modality_{rows}: shards of {table} are missing or do not have the shapes {shapes}."
            )
        tables.setdefault(table, {})[rows] = torch.cat([parts[i] for i in range(n)])
    shared = tables.get("shared", {})  # told apart by size if there are two vocabularies
    sources, targets = tables.get("input_emb", shared), tables.get("target_emb", shared)
    softmax = tables.get("softmax", shared)
    target = next(iter(softmax), None)
    source = next((rows for rows in sources if rows != target), target)
    if len(softmax) == 1 and sources.keys() | targets.keys() == {source, target} and target in targets:
        return {"input_emb": sources[source], "target_emb": targets[target], "softmax": softmax[target]}
    listed = [f"{table} ({rows} tokens)" for table, sizes in sorted(tables.items()) for rows in sorted(sizes)]
    raise ConversionError(
        f"The checkpoint has the embeddings {', '.join(listed) or 'none'}, not those of a text-to-text model."
    )
