"""A static copy of the page with a few sentences worked out, for a file server or a static Space."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..system.files import whole_folder
from .answers import model_answer, position_tensors, tensors_file
from .opened import Opened
from .runs import Runs


BEAMS = (1, 2, 3, 4)
ALPHAS = (0.0, 0.6, 1.0)
DIGITS = 6  # of the numbers that are written


def export(
    opened: Opened,
    folder: Path,
    page: Path,
    texts: Sequence[str] = (),
    progress: Callable[[str], object] = lambda text: None,
):
    """Writes the copy, whole or not at all. `texts` are by default the model's examples; `progress` is told of each.

    Raises:
        FileExistsError: the folder is there and not empty.
        Refused: a text cannot be shown; see `Runs.run`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is there already, and not empty: name a new folder.")
    model = model_answer(opened, live=False)
    texts = list(texts) or [model["example"], *(example["text"] for example in model["examples"])]
    with whole_folder(folder) as copy:
        shutil.copytree(page, copy, dirs_exist_ok=True)
        index = copy / "index.html"  # whose first element says that there is no server
        index.write_text(index.read_text(encoding="utf-8").replace("<html", "<html data-exported", 1), encoding="utf-8")
        data = copy / "data"
        (data / "runs").mkdir(parents=True)
        write(data / "checkpoints.json", {"current": opened.name, "checkpoints": [opened.to_dict()]})
        write(data / "model.json", model | {"example": texts[0]})
        (data / "model.safetensors").write_bytes(tensors_file(position_tensors(opened)))
        for number, text in enumerate(texts):
            progress(f"{number + 1} of {len(texts)}: {text}")
            write_sentence(opened, data / "runs", number, text)
        write(data / "runs.json", [{"text": text, "file": str(n)} for n, text in enumerate(texts)])


def write_sentence(opened: Opened, folder: Path, number: int, text: str):
    """Everything that the page may ask of one sentence."""
    runs = Runs(time_limit=600.0)

    def write_run(name: str, answer: dict[str, Any]):
        write(folder / f"{name}.json", answer)
        (folder / f"{name}.safetensors").write_bytes(tensors_file(runs.tensors(answer["id"])))

    write_run(f"{number}", runs.run(opened, text))
    write_run(f"{number}.leak", runs.run(opened, text, causal=False))
    write(folder / f"{number}.heads.json", runs.heads(opened, text))
    write(folder / f"{number}.beyond.json", runs.beyond(opened, text))
    write(folder / f"{number}.off.json", runs.each_off(opened, text))
    searches = [runs.run(opened, text, beams=beams, alpha=alpha) for beams in BEAMS for alpha in ALPHAS]
    write(folder / f"{number}.beams.json", searches)


def write(file: Path, answer: Any):
    file.write_text(json.dumps(rounded(answer), ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def rounded(answer: Any) -> Any:
    """The same with shorter numbers: the files are read over a network."""
    if isinstance(answer, float):
        return round(answer, DIGITS)
    if isinstance(answer, dict):
        return {name: rounded(value) for name, value in answer.items()}
    return [rounded(value) for value in answer] if isinstance(answer, list | tuple) else answer
