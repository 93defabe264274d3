"""Stages a checkpoint's folder as a model repository for the Hugging Face Hub."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from huggingface_hub import EvalResultEntry, ModelCard, eval_result_entries_to_yaml
from huggingface_hub.errors import StrictDataclassError
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from safetensors import SafetensorError, safe_open

from vaswani_transformer import catalogue
from vaswani_transformer.cards import HUB_ID
from vaswani_transformer.system.files import atomic_folder

from ..files.text import one_line, read_json_object, read_text
from ..options import ConversionError, shown
from .card import conversion_card, read_scores
from .own_card import has_record, own_card
from .private import without_paths


if TYPE_CHECKING:  # imported lazily: torch and transformers take seconds to import
    from vaswani_transformer import VaswaniConfig

WEIGHTS = ("model*.safetensors", "model.safetensors.index.json")
# The files of a repository, besides the model's code; no other files are uploaded.
PUBLISHED = (
    *WEIGHTS, "README.md", "LICENSE*", "NOTICE*", "config.json", "generation_config.json",
    "*tokenizer*", "*vocab*", "special_tokens_map.json", "added_tokens.json", "merges.txt", "*.spm", "*.model", "*.bpe",
    "about.json", "conversion.json", "scores.json", "training.json", "curves.png",
    ".eval_results/*.yaml",
)  # fmt: skip
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
# Records that may contain local paths.
RECORDS = (
    *("README.md", "about.json", "conversion.json", "scores.json", "training.json", "tokenizer_config.json"),
    *("config.json", "generation_config.json"),
)
TOKEN = re.compile(rb"\bhf_[A-Za-z0-9]{30,}")  # an access token of the Hub
# Files of transformers' Trainer that are left out. They are pickles, but only Trainer itself loads them.
TRAINER_PICKLES = {"training_args.bin", "optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state.pth"}
STAGED = "-staged"
# Files that the Hub stores as LFS, by its .gitattributes; only for the listing.
LARGE_KINDS, LARGE = (".safetensors", ".model"), 10_000_000
# Test sets that are datasets on the Hub. Scores on other test sets appear only on the card.
DATASETS = {"multi30k test_2016_flickr": "bentrevett/multi30k", "newstest2014": "wmt/wmt14"}

SAVE_IT = "model.save_pretrained(FOLDER) writes it and config.json"


def stage(
    folder: Path, repo_id: str, out: Path, languages: Sequence[str] = (), licence: str | None = None
) -> list[str]:
    """Fills the folder `out` with the files of the repository `repo_id`. An earlier NAME-staged is overwritten.

    `languages` (source, target) and `licence` take the place of those on the card.

    Returns:
        Notes for the user.

    Raises:
        ConversionError: the checkpoint is incomplete or invalid (the message names every problem), or `out` contains
            other files.
    """
    from vaswani_transformer.remote_code import copy_code

    check_folder(folder)
    files = {path for path in folder.rglob("*") if path.is_file() and is_published(path.relative_to(folder))}
    if outside := sorted(path.name for path in files if not is_inside(folder, path)):
        raise ConversionError.from_problems(
            f"{folder} contains links to files outside it, which would be uploaded", outside
        )
    check_stage(folder, out)
    card = make_card(folder, repo_id.partition("/")[2], languages, licence).replace(HUB_ID, repo_id)
    notes = check_card(card)
    results, unlisted = eval_result_files(folder)
    with atomic_folder(out) as repository:
        for path in files:
            target = repository / path.relative_to(folder)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(path, target)
        copy_code(repository)
        (repository / "README.md").write_text(card, encoding="utf-8")
        for name, text in results.items():
            (repository / ".eval_results").mkdir(exist_ok=True)
            (repository / ".eval_results" / name).write_text(text, encoding="utf-8")
        shortened = [name for name in RECORDS if (repository / name).is_file() and without_paths(repository / name)]
        check_tokens(repository)
    if unlisted:
        notes.append(
            f"Only on the card, because these test sets are not datasets on the Hub: scores on {', '.join(unlisted)}."
        )
    if shortened:
        notes.append(f"Local paths were shortened to file names in {', '.join(shortened)}.")
    if not (folder / "tokenizer_config.json").is_file():
        notes.append("No tokenizer: AutoTokenizer and pipeline will not work with this repository.")
    left = sorted(p.name for p in folder.iterdir() if p.is_file() and not (out / p.name).is_file())
    return [*notes, f"Not uploaded: {', '.join(left)}."] if left else notes


def make_card(folder: Path, name: str, languages: Sequence[str], licence: str | None) -> str:
    """Returns the folder's README.md, or a card from its record, with the languages and the licence if they are given.

    Raises:
        ConversionError: a record or the metadata are invalid.
    """
    if not (folder / "README.md").is_file() and not (folder / "conversion.json").is_file():
        return own_card(folder, name, languages, licence)
    is_written = (folder / "README.md").is_file()
    card = read_text(folder / "README.md") if is_written else conversion_card(folder, name)
    if not languages and not licence:
        return card
    check_card(card)
    changed = ModelCard(card)
    changed.data.language = list(languages) or changed.data.language
    changed.data.license = licence or changed.data.license
    return str(changed)


def check_tokens(folder: Path):
    """Checks that no staged file contains a token of the Hub, which would let anyone act as its owner.

    Raises:
        ConversionError: a file contains one.
    """
    for name, path in staged_files(folder).items():
        if not is_weights(name) and TOKEN.search(path.read_bytes()):
            raise ConversionError(f"{name} contains a token of the Hub (hf_...). Remove it, and revoke the token.")


def is_published(path: Path) -> bool:
    return any(fnmatch(path.as_posix(), pattern) for pattern in PUBLISHED if pattern.count("/") == len(path.parts) - 1)


def is_staged(path: Path) -> bool:
    return is_published(path) or fnmatch(path.as_posix(), "*.py")


def is_inside(folder: Path, path: Path) -> bool:
    """Whether a file is really in `folder`, not a link out of it. In the Hub's cache, files are links to `blobs`."""
    root, target = folder.resolve(), path.resolve()
    cached = root.parent.name == "snapshots" and target.parent == root.parent.parent / "blobs"
    return cached or target.is_relative_to(root)


def is_weights(name: str) -> bool:
    return "/" not in name and any(fnmatch(name, pattern) for pattern in WEIGHTS)


def check_stage(folder: Path, out: Path):
    """Checks that `out` can be written or overwritten.

    Raises:
        ConversionError: other files would be lost.
    """
    if out.resolve() in (folder.resolve(), *folder.resolve().parents) or folder.resolve() in out.resolve().parents:
        raise ConversionError(f"--stage {out} overlaps {folder}. Choose a folder outside it.")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not out.is_dir() or not out.name.endswith(STAGED):
        raise ConversionError(f"--stage {out} is not empty. Only folders called *{STAGED} are overwritten.")
    foreign = [p.name for p in out.rglob("*") if p.is_file() and not is_staged(p.relative_to(out))]
    if foreign:
        raise ConversionError(f"--stage {out} would be overwritten, but contains {foreign[0]}. Choose another folder.")


def check_folder(folder: Path):
    """Checks a checkpoint's folder.

    Raises:
        ConversionError: it is incomplete or invalid; the message names every problem.
    """
    if not folder.is_dir():
        raise ConversionError(f"No folder or included checkpoint called {str(folder)!r}.")
    problems: list[str] = []
    config = check_config(folder, problems)
    if not (folder / "generation_config.json").is_file():
        problems.append("generation_config.json is missing")
    pickled = sorted(p.name for p in folder.iterdir() if p.suffix in PICKLED and p.name not in TRAINER_PICKLES)
    if pickled:
        problems.append(f"{', '.join(pickled)}: pickles can run code when they are loaded; remove them")
    check_weights(folder, config, problems)
    try:
        read_json_object(folder / "tokenizer_config.json")
    except FileNotFoundError:  # a tokenizer is optional
        pass
    except ConversionError as error:
        problems.append(str(error).rstrip("."))
    if not any((folder / name).is_file() for name in ("README.md", "conversion.json")) and not has_record(folder):
        problems.append(
            "README.md is missing, and so is a record to generate it from: conversion.json, training.json, "
            "fine_tuning.json, or trainer_state.json (`trainer.save_state()` writes it)"
        )
    if problems:
        raise ConversionError(f"{folder} cannot be published:\n" + "\n".join(f"  - {line}" for line in problems))


def check_config(folder: Path, problems: list[str]) -> VaswaniConfig | None:
    """Loads the configuration. If it is missing or invalid, adds to `problems` and returns None."""
    from vaswani_transformer import VaswaniConfig
    from vaswani_transformer.loading import config_problem

    try:
        settings = read_json_object(folder / "config.json")
        if settings.get("model_type") != VaswaniConfig.model_type:
            problems.append(f"config.json describes a {shown(settings.get('model_type'))} model: convert it first")
            return None
        return VaswaniConfig.from_pretrained(folder)
    except FileNotFoundError:
        problems.append("config.json is missing")
    except StrictDataclassError as error:
        problems.append(f"config.json: {config_problem(error).rstrip('.')}")
    except Exception as error:  # damaged files raise errors of many kinds
        problems.append(f"config.json: {one_line(error).rstrip('.')}")
    return None


def check_weights(folder: Path, config: VaswaniConfig | None, problems: list[str]):
    """Checks names and shapes in model*.safetensors and adds to `problems`. Only headers are read."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        problems.append(f"model.safetensors is missing; {SAVE_IT}")
        return
    shapes = {}
    for file in files:
        try:
            with safe_open(file, framework="numpy") as tensors:
                shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}
        except (SafetensorError, OSError) as error:
            problems.append(f"{file.name} is damaged ({error})")
            return
    if config is None:
        return
    import torch

    from vaswani_transformer import VaswaniForConditionalGeneration

    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(config)
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    missing = [name for name in expected if name not in shapes and name not in model.all_tied_weights_keys]
    wrong = [name for name in expected if name in shapes and shapes[name] != expected[name]]
    extra = [name for name in shapes if name not in expected]
    wrong_names = {
        "missing tensors": missing,
        "tensors whose shape differs from config.json": wrong,
        "unknown tensors": extra,
    }
    for what, names in wrong_names.items():
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            problems.append(f"{what} in model.safetensors: {names[0]}{more}")


def check_card(text: str) -> list[str]:
    """Checks the card's metadata and returns notes on optional fields that are missing.

    Raises:
        ConversionError: the metadata is invalid, or a required field is missing.
    """
    try:
        data = ModelCard(text, ignore_metadata_errors=False).data
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise ConversionError(f"Cannot read the metadata of README.md: {' '.join(str(error).split())}") from None
    wanted = {"library_name": "transformers", "pipeline_tag": "translation"}
    if wrong := [f"{key}: {value}" for key, value in wanted.items() if data.get(key) != value]:
        raise ConversionError(
            f"Missing in the metadata of README.md (between the --- lines at the top): {', '.join(wrong)}."
        )
    notes = []
    if data.get("license") in (None, "unknown"):
        notes.append("The card has no licence. If you know it, give it with --licence, such as --licence mit.")
    if not data.get("language"):
        notes.append("The card has no languages. Give them with --language, such as --language en --language de.")
    return notes


def eval_result_files(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Returns the files of .eval_results, one per score, and the test sets that are not datasets on the Hub."""
    try:
        about = catalogue.read_about(folder)
    except ValueError as error:
        raise ConversionError(str(error)) from None
    task = f"{about.source_language}-{about.target_language}" if about else "translation"
    files, unlisted = {}, []
    for score in read_scores(folder):
        dataset = next((hub for name, hub in DATASETS.items() if name in score["dataset"].lower()), None)
        if dataset is None:
            unlisted.append(score["dataset"])
            continue
        notes = f"{score['metric']}, {score['dataset']}: {score['signature']}"
        entry = EvalResultEntry(dataset_id=dataset, task_id=task, value=score["value"], notes=notes)
        name = re.sub(r"[\W_]+", "-", f"{score['dataset']} {score['metric']}".lower())
        files[f"{name}.yaml"] = yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False, width=1000)
    return files, list(dict.fromkeys(unlisted))


def staged_files(folder: Path) -> dict[str, Path]:
    """The staged files, by their paths in the repository."""
    return {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}


def show(folder: Path, is_temporary: bool = False):
    """Prints a table of the staged files; a temporary folder is not named."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("File", overflow="fold")
    table.add_column("Size", justify="right")
    table.add_column("Stored as")
    files = staged_files(folder)
    for name, path in files.items():
        size = path.stat().st_size
        large = path.suffix in LARGE_KINDS or size > LARGE
        table.add_row(name, decimal(size), "LFS" if large else "regular")
    Console().print(table)
    place = "" if is_temporary else f" in {folder}"
    print(f"{len(files)} files, {decimal(sum(path.stat().st_size for path in files.values()))}{place}")
