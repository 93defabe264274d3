"""Lists the included checkpoints, and finds a checkpoint by name, folder or Hub id. Needs no torch.

Weights that are for non-commercial use only are not in the wheel; for these checkpoints, it says where they are.
"""

import json
import re
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path

from .languages import short_code


CHECKPOINTS = Path(__file__).parent / "checkpoints"
DEFAULT_LANGUAGE = "de"  # the target language
CACHED = "cached.json"  # the record of a converted checkpoint in the cache
ELSEWHERE = "the project's repository has it in"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint, as its about.json describes it.

    Attributes:
        bytes: Its size on disk, without its card.
        domain: The kind of text that it was trained for; "" for general text.
        max_length: The length of the longest training example, in tokens.
        scores: Dictionaries with "dataset", "metric", "value" and "signature".
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
        """Returns True if this installation has its weights, not only its description."""
        return (self.path / "config.json").is_file()

    @property
    def place(self) -> str:
        """Returns its folder in the project's repository."""
        return f"vaswani_transformer/checkpoints/{self.name}"

    def to_dict(self) -> dict:
        return {**asdict(self), "path": str(self.path)}


def read_about(folder: Path) -> Checkpoint | None:
    """Reads the folder's about.json; returns None if there is none.

    Raises:
        ValueError: the file is not JSON, or a field is missing.
    """
    file = folder / "about.json"
    if not file.is_file():
        return None
    names = {field.name for field in fields(Checkpoint)} - {"path"}
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        checkpoint = Checkpoint(path=folder, **{name: value for name, value in about.items() if name in names})
        if not isinstance(checkpoint.max_length, int | None):
            raise TypeError(f"max_length must be a whole number, not {checkpoint.max_length!r}")
        return checkpoint
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} does not describe a checkpoint: {error}") from error


def known() -> list[Checkpoint]:
    """Returns the checkpoints that the package describes, by name. It has the weights of only some of them."""
    folders = sorted(CHECKPOINTS.iterdir()) if CHECKPOINTS.is_dir() else []
    return [about for about in map(read_about, folders) if about is not None]


def included() -> list[Checkpoint]:
    """Returns the checkpoints whose weights are in the package, by name."""
    return [about for about in known() if about.is_here]


def checkpoint_path(name: str) -> str:
    """Returns the folder of the included checkpoint `name`, for `from_pretrained` and `pipeline`.

    Raises:
        ValueError: no included checkpoint has this name; the message lists the included ones or says where it is.
    """
    for about in known():
        if about.name == name and about.is_here:
            return str(about.path)
        if about.name == name:
            raise ValueError(
                f"The checkpoint {name} is not in this package ({about.licence}); {ELSEWHERE} {about.place}. "
                "Clone the repository and use that folder."
            )
    names = [about.name for about in included()]
    close = get_close_matches(name, names, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"Checkpoint not found: {name!r}.{hint} Included: {', '.join(names) or 'none'}.")


def resolve(checkpoint: str) -> str:
    """Returns the folder of an included checkpoint, given by its name; returns an existing path and a Hub id unchanged.

    A Hub id is "owner/name", or "owner/name@revision" for a branch, a tag or a commit; see `split_revision`.
    `locating.locate` also converts what other toolkits wrote.

    Raises:
        ValueError: the checkpoint does not exist; the message lists the included ones and how to name others.
    """
    if not checkpoint:
        raise ValueError("The name of the checkpoint is empty. `vaswani checkpoints` lists the names.")
    if any(about.name == checkpoint for about in known()):
        return checkpoint_path(checkpoint)
    path = Path(checkpoint).expanduser()
    if path.exists():
        return str(path)
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+(@[\w./-]+)?", checkpoint):
        return checkpoint
    name, at, revision = checkpoint.partition("@")
    if at and any(about.name == name for about in known()):
        raise ValueError(f"{name} is included in this package and has no revisions. Leave out @{revision}.")
    if "/" in name.replace("\\", "/"):
        raise ValueError(f"Folder not found: {checkpoint}. A Hub id is owner/name or owner/name@REVISION.")
    try:
        return checkpoint_path(checkpoint)
    except ValueError as error:
        raise ValueError(f"{error} To use another model, give its folder or its Hub id (owner/name).") from None


def split_revision(source: str) -> tuple[str, str | None]:
    """Splits the result of `resolve` into the folder or Hub id, and the revision if there is one."""
    if Path(source).is_dir():
        return source, None
    repo_id, _, revision = source.partition("@")
    return repo_id, revision or None


def is_commit(revision: str | None) -> bool:
    """Whether a revision never changes, because it is the full id of a commit."""
    return bool(re.fullmatch("[0-9a-f]{40}", revision or ""))


def display_name(source: str) -> str:
    """Returns the name of a checkpoint for messages: that of a converted one's original, or the one in its about.json.

    Without a name in its files, a folder is its own name. A Hub id is returned without its commit.
    """
    folder = Path(source)
    if not folder.is_dir():
        return re.sub(r"@[0-9a-f]{40}$", "", source)
    try:
        return str(json.loads((folder / CACHED).read_text(encoding="utf-8"))["name"])
    except (OSError, ValueError, TypeError, LookupError):
        about = read_about(folder)
        return about.name if about else source


class NoCheckpoint(ValueError):
    """No included checkpoint is for these languages."""


def for_languages(source_language: str | None = None, target_language: str | None = None) -> str:
    """Returns the folder of the included checkpoint for these languages. The default target language is German.

    Among checkpoints for the same languages, prefers those for general text, then the largest.

    Raises:
        NoCheckpoint: the checkpoint does not exist; the message lists the available languages.
        ValueError: several language pairs match; the message lists them.
    """
    source, target = source_language and short_code(source_language), target_language and short_code(target_language)
    matching = [
        about
        for about in included()
        if source in (None, about.source_language) and target in (None, about.target_language)
    ]
    if target is None:
        matching = [about for about in matching if about.target_language == DEFAULT_LANGUAGE] or matching
    pairs = ", ".join(sorted({about.languages for about in matching}))
    request = (f" from {source!r}" if source else "") + (f" into {target!r}" if target else "")
    if not matching:
        available = ", ".join(sorted({about.languages for about in included()})) or "none"
        raise NoCheckpoint(
            f"No included checkpoint translates{request}. Available: {available}. "
            "To use another model, give its folder or Hub id with --checkpoint."
        )
    if "," in pairs:
        missing = "target language (--to)" if source else "source language (--from)"
        raise ValueError(
            f"Several included checkpoints translate{request}: {pairs}. "
            f"Also give the {missing}, or the name of a checkpoint."
        )
    return str(max(matching, key=lambda about: (not about.domain, about.parameters)).path)
