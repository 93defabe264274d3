"""The checkpoints that ship with the package, and how a name, a folder or a Hub id is resolved. Needs no torch.

The wheel leaves out the weights that only research may use; it lists those checkpoints, and says where they are.
"""

import json
import re
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path


CHECKPOINTS = Path(__file__).parent / "checkpoints"
DEFAULT_LANGUAGE = "de"  # to translate into
ELSEWHERE = "the project's repository has it in"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint's about.json says about it.

    `bytes` is its size on disk, `max_length` the length of the longest training example in tokens, `domain` the kind of
    text it is made for, if only one, and each of `scores` has "dataset", "metric", "value" and "signature".
    """

    name: str
    path: Path
    source_language: str
    target_language: str
    parameters: int
    bytes: int
    licence: str
    notice: str = ""
    domain: str = ""
    trained_on: list[str] = field(default_factory=list)
    max_length: int | None = None
    scores: list[dict] = field(default_factory=list)

    @property
    def languages(self) -> str:
        return f"{self.source_language} → {self.target_language}"

    @property
    def is_here(self) -> bool:
        """Whether its weights are in this installation, or only its description."""
        return (self.path / "config.json").is_file()

    @property
    def place(self) -> str:
        """Its folder in the project's repository."""
        return f"vaswani_transformer/checkpoints/{self.name}"

    def to_dict(self) -> dict:
        return {**asdict(self), "path": str(self.path)}


def read_about(folder: Path) -> Checkpoint | None:
    """What the folder's about.json says, or None if it has none.

    Raises:
        ValueError: the file is not JSON, or a field is missing.
    """
    file = folder / "about.json"
    if not file.is_file():
        return None
    names = {field.name for field in fields(Checkpoint)} - {"path"}
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        return Checkpoint(path=folder, **{name: value for name, value in about.items() if name in names})
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} does not describe a checkpoint: {error}") from error


def known() -> list[Checkpoint]:
    """The checkpoints that the package describes, by name; the weights of some may be elsewhere."""
    folders = sorted(CHECKPOINTS.iterdir()) if CHECKPOINTS.is_dir() else []
    return [about for about in map(read_about, folders) if about is not None]


def shipped() -> list[Checkpoint]:
    """The checkpoints whose weights are in the package, by name."""
    return [about for about in known() if about.is_here]


def checkpoint_path(name: str) -> str:
    """The folder of the checkpoint that ships as `name`, for `from_pretrained` and `pipeline`.

    Raises:
        ValueError: none ships under that name; the message says which do, or where this one is.
    """
    for about in known():
        if about.name == name and about.is_here:
            return str(about.path)
        if about.name == name:
            raise ValueError(
                f"The checkpoint {name} is not in this package ({about.licence}); {ELSEWHERE} {about.place}: "
                "clone it and give that folder."
            )
    names = [about.name for about in shipped()]
    close = get_close_matches(name, names, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(
        f"There is no checkpoint called {name!r}.{hint} This package comes with {', '.join(names) or 'none'}."
    )


def resolve(checkpoint: str) -> str:
    """A shipped checkpoint's name, a folder or a Hub id -> the folder, or the id as it is.

    A Hub id is "owner/name", or "owner/name@revision" for a branch, a tag or a commit; see `split_revision`.

    Raises:
        ValueError: there is no such checkpoint; the message says what there is instead, and how to name others.
    """
    if not checkpoint:
        raise ValueError("The name of the checkpoint is empty.")
    if any(about.name == checkpoint for about in known()):
        return checkpoint_path(checkpoint)
    folder = Path(checkpoint).expanduser()
    if (folder / "config.json").is_file():
        return str(folder)
    if folder.is_dir():
        raise ValueError(f"There is no model in {checkpoint}: it has no config.json.")
    if folder.is_file():
        raise ValueError(f"{checkpoint} is a file; give the folder that holds the model.")
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+(@[\w./-]+)?", checkpoint):
        return checkpoint
    name, at, revision = checkpoint.partition("@")
    if at and any(about.name == name for about in known()):
        raise ValueError(f"{name} comes with this package and has no revisions: leave out @{revision}.")
    if "/" in name.replace("\\", "/"):
        raise ValueError(f"There is no folder {checkpoint}. (A Hub id is owner/name, or owner/name@REVISION.)")
    try:
        return checkpoint_path(checkpoint)
    except ValueError as error:
        raise ValueError(f"{error} For another model give its folder, or its Hub id (owner/name).") from None


def split_revision(source: str) -> tuple[str, str | None]:
    """What `resolve` gives -> the folder or the Hub id alone, and the revision if the Hub id names one."""
    if Path(source).is_dir():
        return source, None
    repo_id, _, revision = source.partition("@")
    return repo_id, revision or None


def for_languages(source_language: str | None = None, target_language: str | None = None) -> str:
    """The folder of the shipped checkpoint for these languages; where a choice is left, of the one into German.

    Of several for the same languages, one for all kinds of text goes before one for a domain, then the larger before
    the smaller.

    Raises:
        ValueError: there is none, or the language that was left out could be one of several; the message says which.
    """
    source, target = source_language and source_language.lower(), target_language and target_language.lower()
    matching = [
        about
        for about in shipped()
        if source in (None, about.source_language) and target in (None, about.target_language)
    ]
    if target is None:
        matching = [about for about in matching if about.target_language == DEFAULT_LANGUAGE] or matching
    pairs = ", ".join(sorted({about.languages for about in matching}))
    asked = (f" from {source!r}" if source else "") + (f" into {target!r}" if target else "")
    if not matching:
        there = ", ".join(sorted({about.languages for about in shipped()})) or "none"
        raise ValueError(
            f"None of the included checkpoints translates{asked} (only {there}). "
            "To use another model, give its folder or Hub id with --checkpoint."
        )
    if "," in pairs:
        other = "into, too (--to)" if source else "from, too (--from)"
        raise ValueError(
            f"Several of the included checkpoints translate{asked} ({pairs}). "
            f"Give the language to translate {other}, or a checkpoint's name."
        )
    return str(max(matching, key=lambda about: (not about.domain, about.parameters)).path)
