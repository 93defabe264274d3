"""Write the page as a folder for any file server: the checkpoints run in the browser, without `vaswani explore`."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..system.files import atomic_folder
from .checkpoints import LoadedCheckpoint
from .engine import check_engine, engine_files
from .responses import model_response, tensors_file
from .runs import Runs


PAGE = Path(__file__).with_name("page")
DIGITS = 6  # decimal places of the numbers in the files


def export(
    checkpoints: Sequence[LoadedCheckpoint],
    folder: Path,
    page: Path = PAGE,
    text: str | None = None,
    progress: Callable[[str], object] = lambda text: None,
):
    """Write the page with its checkpoints, completely or not at all.

    The first sentence of each checkpoint is precomputed, so that the page can show it before the weights have arrived.

    Args:
        checkpoints: The checkpoints that the page offers, at least one. The page opens with the first one.
        folder: A new or empty folder.
        page: The folder that contains index.html.
        text: The sentence that the page opens with. By default the example for the first checkpoint's source language.
        progress: Called before each checkpoint, with its name.

    Raises:
        FileExistsError: `folder` exists and is not empty.
        Refused: The engine in the browser cannot run a checkpoint, or the text cannot be shown; see `Runs.run`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} already exists and is not empty. Choose a new folder.")
    for checkpoint in checkpoints:
        check_engine(checkpoint)
    with atomic_folder(folder) as copy:
        shutil.copytree(page, copy, dirs_exist_ok=True)
        index = copy / "index.html"
        # The attribute tells the page that it runs without a server.
        index.write_text(index.read_text(encoding="utf-8").replace("<html", "<html data-exported", 1), encoding="utf-8")
        for number, checkpoint in enumerate(checkpoints):
            progress(checkpoint.name)
            write_checkpoint(checkpoint, copy / "data" / checkpoint.name, text if number == 0 else None)
        descriptions = [checkpoint.to_dict() for checkpoint in checkpoints]
        write(copy / "data" / "checkpoints.json", {"current": checkpoints[0].name, "checkpoints": descriptions})


def write_checkpoint(checkpoint: LoadedCheckpoint, folder: Path, text: str | None):
    """Write what the page and its engine read of a checkpoint, and its model card, which names the licence."""
    folder.mkdir(parents=True)
    files = engine_files(checkpoint)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    model = model_response(checkpoint)
    example = text or model["example"]
    runs = Runs(time_limit=600.0)
    response = runs.run(checkpoint, example)
    write(folder / "model.json", model | {"example": example, "bytes": len(files["model.safetensors"])})
    write(folder / "example.json", response)
    (folder / "example.safetensors").write_bytes(tensors_file(runs.tensors(response["id"])))
    if checkpoint.folder is not None and (checkpoint.folder / "README.md").is_file():
        shutil.copyfile(checkpoint.folder / "README.md", folder / "README.md")


def write(file: Path, response: Any):
    file.write_text(json.dumps(round_numbers(response), ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def round_numbers(response: Any) -> Any:
    """Round all numbers in a response, to make the file smaller."""
    if isinstance(response, float):
        return round(response, DIGITS)
    if isinstance(response, dict):
        return {name: round_numbers(value) for name, value in response.items()}
    return [round_numbers(value) for value in response] if isinstance(response, list | tuple) else response
