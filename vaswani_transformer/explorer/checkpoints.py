"""The checkpoints that the explorer offers. Each is loaded when it is first requested."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from .. import catalogue
from ..locating import locate
from ..registration import load


DESCRIPTION = "name", "source_language", "target_language", "parameters"  # fields of `catalogue.Checkpoint`


@dataclass
class LoadedCheckpoint:
    """A checkpoint in memory.

    `folder` is None for a checkpoint on the Hub, and `about` is None if the folder has no about.json.
    """

    name: str
    folder: Path | None
    about: catalogue.Checkpoint | None
    model: Any  # a PreTrainedModel that can generate
    tokenizer: PreTrainedTokenizerBase

    @property
    def languages(self) -> tuple[str | None, str | None]:
        return (self.about.source_language, self.about.target_language) if self.about else (None, None)

    def to_dict(self) -> dict[str, Any]:
        source, target = self.languages
        return {
            "name": self.name,
            "source_language": source,
            "target_language": target,
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }


class UnknownCheckpoint(LookupError):
    """The checkpoint does not exist; the message lists the available ones."""


class CheckpointCache:
    """The included checkpoints and optionally others. Each is loaded at most once.

    Args:
        checkpoints: Names of included checkpoints, folders or Hub ids; the first one is the current checkpoint. By
            default the included checkpoint that translates into German.

    Raises:
        ValueError: A checkpoint does not exist, or two of them have the same name.
        LoadingError: A checkpoint cannot be loaded.
    """

    def __init__(self, *checkpoints: str):
        included = {about.name: str(about.path) for about in catalogue.included()}
        sources = [locate(checkpoint) for checkpoint in checkpoints] or [catalogue.for_languages()]
        self.chosen = {checkpoint_name(source): source for source in sources}
        if len(self.chosen) < len(sources):
            raise ValueError("Two of the checkpoints have the same name. Rename the folder of one of them.")
        self.current = next(iter(self.chosen))
        self.sources = self.chosen | {name: source for name, source in included.items() if name not in self.chosen}
        self.loaded: dict[str, LoadedCheckpoint] = {}
        self.loading = threading.Lock()
        for name in self.chosen:
            self.open(name)

    def open(self, name: str | None = None) -> LoadedCheckpoint:
        """Return the checkpoint with this name, loading it if necessary; by default the current one.

        Raises:
            UnknownCheckpoint: The cache has no checkpoint with this name.
        """
        name = name or self.current
        if name not in self.sources:
            raise UnknownCheckpoint(f"Checkpoint {name!r} not found. Available: {', '.join(self.sources)}.")
        with self.loading:
            if name not in self.loaded:
                self.loaded[name] = open_checkpoint(name, self.sources[name])
        return self.loaded[name]

    def describe_all(self) -> list[dict[str, Any]]:
        """Return the name, languages and parameter count of each checkpoint, the current one first."""
        abouts = {about.name: about for about in catalogue.included()}
        descriptions = []
        for name in self.sources:
            if name in self.loaded:
                descriptions.append(self.loaded[name].to_dict())
            else:
                about = abouts[name]
                descriptions.append({field: getattr(about, field) for field in DESCRIPTION})
        return descriptions


def checkpoint_name(source: str) -> str:
    """Return the name in about.json, or else the last part of the folder's path or of the Hub id.

    Of a converted checkpoint, this is the path of the original.
    """
    about = catalogue.read_about(Path(source)) if Path(source).is_dir() else None
    return about.name if about else Path(catalogue.split_revision(catalogue.display_name(source))[0]).resolve().name


def open_checkpoint(name: str, source: str) -> LoadedCheckpoint:
    model, tokenizer = load(source, dtype="float32")
    folder = Path(source) if Path(source).is_dir() else None
    return LoadedCheckpoint(name, folder, catalogue.read_about(folder) if folder else None, model, tokenizer)
