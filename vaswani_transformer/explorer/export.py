"""Write a static copy of the page with a few precomputed sentences, for a file server or a static Space."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..system.files import atomic_folder
from .checkpoints import LoadedCheckpoint
from .responses import model_response, position_tensors, tensors_file
from .runs import Runs


BEAMS = (1, 2, 3, 4)
ALPHAS = (0.0, 0.6, 1.0)
DIGITS = 6  # decimal places of the numbers in the files


def export(
    checkpoint: LoadedCheckpoint,
    folder: Path,
    page: Path,
    texts: Sequence[str] = (),
    progress: Callable[[str], object] = lambda text: None,
):
    """Write a static copy of the page, completely or not at all.

    Args:
        checkpoint: The checkpoint that translates.
        folder: A new or empty folder for the copy.
        page: The folder that contains index.html.
        texts: The sentences. By default the examples for the checkpoint's source language.
        progress: Called before each sentence, with a line of text such as "2 of 4: Hello!".

    Raises:
        FileExistsError: `folder` exists and is not empty.
        Refused: A text cannot be shown; see `Runs.run`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} already exists and is not empty. Choose a new folder.")
    model = model_response(checkpoint, live=False)
    texts = list(texts) or [model["example"], *(example["text"] for example in model["examples"])]
    with atomic_folder(folder) as copy:
        shutil.copytree(page, copy, dirs_exist_ok=True)
        index = copy / "index.html"
        # The attribute tells the page that it runs without a server.
        index.write_text(index.read_text(encoding="utf-8").replace("<html", "<html data-exported", 1), encoding="utf-8")
        data = copy / "data"
        (data / "runs").mkdir(parents=True)
        write(data / "checkpoints.json", {"current": checkpoint.name, "checkpoints": [checkpoint.to_dict()]})
        write(data / "model.json", model | {"example": texts[0]})
        (data / "model.safetensors").write_bytes(tensors_file(position_tensors(checkpoint)))
        for number, text in enumerate(texts):
            progress(f"{number + 1} of {len(texts)}: {text}")
            write_sentence(checkpoint, data / "runs", number, text)
        write(data / "runs.json", [{"text": text, "file": str(n)} for n, text in enumerate(texts)])


def write_sentence(checkpoint: LoadedCheckpoint, folder: Path, number: int, text: str):
    """Write all responses that the page can request for a sentence."""
    runs = Runs(time_limit=600.0)

    def write_run(name: str, response: dict[str, Any]):
        write(folder / f"{name}.json", response)
        (folder / f"{name}.safetensors").write_bytes(tensors_file(runs.tensors(response["id"])))

    write_run(f"{number}", runs.run(checkpoint, text))
    write_run(f"{number}.leak", runs.run(checkpoint, text, causal=False))
    write(folder / f"{number}.heads.json", runs.heads(checkpoint, text))
    write(folder / f"{number}.beyond.json", runs.beyond(checkpoint, text))
    write(folder / f"{number}.off.json", runs.without_each_head(checkpoint, text))
    searches = [runs.run(checkpoint, text, beams=beams, alpha=alpha) for beams in BEAMS for alpha in ALPHAS]
    write(folder / f"{number}.beams.json", searches)


def write(file: Path, response: Any):
    file.write_text(json.dumps(round_numbers(response), ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def round_numbers(response: Any) -> Any:
    """Round all numbers in a response, to make the file smaller."""
    if isinstance(response, float):
        return round(response, DIGITS)
    if isinstance(response, dict):
        return {name: round_numbers(value) for name, value in response.items()}
    return [round_numbers(value) for value in response] if isinstance(response, list | tuple) else response
