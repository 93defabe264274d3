"""The checkpoints that the explorer offers, opened when first asked for."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from .. import catalogue
from ..registration import load


@dataclass
class Opened:
    """A checkpoint in memory."""

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
    """No checkpoint of this name is offered; the message lists those that are."""


class Shelf:
    """The shipped checkpoints by name, and one more by its folder's or repository's last name.

    Args:
        checkpoint: A shipped name, a folder or a Hub id; None for the checkpoint into German.

    Raises:
        ValueError: there is no such checkpoint.
        LoadingError: it cannot be loaded.
    """

    def __init__(self, checkpoint: str | None = None):
        self.sources = {about.name: str(about.path) for about in catalogue.shipped()}
        source = catalogue.for_languages() if checkpoint is None else catalogue.resolve(checkpoint)
        self.current = name_of(source)
        self.sources = {self.current: source} | {n: s for n, s in self.sources.items() if n != self.current}
        self.opened: dict[str, Opened] = {}
        self.opening = threading.Lock()
        self.open(self.current)

    def open(self, name: str | None = None) -> Opened:
        """The checkpoint of this name, or the current one.

        Raises:
            UnknownCheckpoint: there is none of this name.
        """
        name = name or self.current
        if name not in self.sources:
            raise UnknownCheckpoint(f"There is no checkpoint {name!r} here; there are: {', '.join(self.sources)}.")
        with self.opening:
            if name not in self.opened:
                self.opened[name] = open_checkpoint(name, self.sources[name])
        return self.opened[name]

    def listed(self) -> list[dict[str, Any]]:
        """Name, languages and parameter count of each, the current one first."""
        abouts = {about.name: about for about in catalogue.shipped()}
        return [
            self.opened[name].to_dict()
            if name in self.opened
            else {
                key: getattr(abouts[name], key) for key in ("name", "source_language", "target_language", "parameters")
            }
            for name in self.sources
        ]


def name_of(source: str) -> str:
    """A folder's or a repository's last name, or the name that its about.json gives."""
    about = catalogue.read_about(Path(source)) if Path(source).is_dir() else None
    return about.name if about else Path(catalogue.split_revision(source)[0]).resolve().name


def open_checkpoint(name: str, source: str) -> Opened:
    model, tokenizer = load(source, dtype="float32")
    folder = Path(source) if Path(source).is_dir() else None
    return Opened(name, folder, catalogue.read_about(folder) if folder else None, model, tokenizer)
