"""The cache of converted checkpoints: each is converted once, by one process, and kept completely or not at all.

The folder is `vaswani` beside the Hub's cache (`HF_HOME`), or `VASWANI_CACHE`. It holds

    checkpoints/KEY/    a checkpoint in our format, with its record cached.json. KEY has the name, the commit or the
                        digest of the original, and CONVERTER_VERSION
    names/              which commit a name on the Hub had when it was last used, for use without a network
    locks/              one file for each key, so that one process converts while others wait
"""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from .catalogue import CACHED
from .system.console import Failure
from .system.extras import missing_package
from .system.files import atomic_folder, read_json, write_json
from .system.programs import find


# Part of the keys. Increase it when a converter's result changes, so that checkpoints are converted again.
CONVERTER_VERSION = 1
# The starts of those notes on a tokenizer that users must know: a step is missing, or was guessed.
MISSING_STEP = "Input must already be"  # reported at every use: plain text would become unknown tokens
REPORTED = MISSING_STEP, "Input is not tokenized", "Texts are tokenized by Moses"
# The ends of the names of folders that a killed process leaves behind.
UNFINISHED = ".partial", ".previous", ".unpacked", ".removed"


class Original(NamedTuple):
    """What is to be converted.

    Attributes:
        name: The name for messages, such as "Helsinki-NLP/opus-mt-en-de".
        version: The commit, or the digest of the files.
        fetch: Returns the name of the converter, as in `vaswani convert`, and the file or folder to convert. Is called
            with the path of a folder that it may create for temporary files.
        facts: Facts for the record and the card.
    """

    name: str
    version: str
    fetch: Callable[[Path], tuple[str, Path]]
    facts: Mapping[str, Any] = {}

    @property
    def key(self) -> str:
        name = "--".join(re.sub(r"[^\w.-]+", "-", part) for part in Path(self.name).parts[-2:])[-80:].strip(".-")
        return f"{name}--{self.version[:12]}--{CONVERTER_VERSION}"


def cache_folder() -> Path:
    """Returns the folder of the cache, which may not exist yet."""
    from huggingface_hub import constants

    chosen = os.environ.get("VASWANI_CACHE")
    return Path(chosen).expanduser() if chosen else Path(constants.HF_HOME) / "vaswani"


def entries() -> list[Path]:
    """Returns the folders of the cached checkpoints, sorted by name."""
    folder = cache_folder() / "checkpoints"
    paths = (path.parent for path in folder.glob(f"*/{CACHED}"))
    return sorted(path for path in paths if path.suffix not in UNFINISHED)


def convert_once(original: Original) -> Path:
    """Returns the folder of the converted checkpoint; converts it first if the cache does not have it.

    Raises:
        ValueError: it cannot be converted, or it differs from the original; nothing is kept.
        OSError: the cache cannot be written.
    """

    def convert(folder: Path) -> tuple[str, dict[str, Any]]:
        print(f"Converting {original.name}; later uses take it from the cache ...", file=sys.stderr, flush=True)
        with temporary_folder(folder) as temporary:
            imported = import_original(original, *original.fetch(temporary), folder)
        checks = [check.to_dict() for check in imported.checks]
        reported = problems(imported.converted)
        warn(original.name, reported)
        message = f"Converted {original.name} ({millions(imported.parameters)} parameters), {outcome(checks)}"
        lasting = [problem for problem in reported if problem.startswith(MISSING_STEP)]
        return message, {"parameters": imported.parameters, "warnings": lasting}

    warn_again(cache_folder() / "checkpoints" / original.key, original.name)
    return keep(original.key, convert, {"name": original.name, "version": original.version})


def problems(converted: Any) -> list[str]:
    """Returns what its files do not say and translations depend on: parts that are missing, and what was guessed."""
    if converted.tokenizer is None:
        return ["It has no vocabulary files, and cannot translate without them."]
    differences = converted.facts.get("tokenizer_differences", ())
    return [f"{difference} (`vaswani convert`)" for difference in differences if difference.startswith(REPORTED)]


def warn(name: str, problems: Iterable[str]):
    for problem in problems:
        print(f"warning: {name}: {problem}", file=sys.stderr, flush=True)


def warn_again(entry: Path, name: str):
    """Repeats the warnings of a conversion that concern every use of its result; none if the cache does not have it."""
    try:
        warn(name, read_json(entry / CACHED).get("warnings", ()))
    except (OSError, ValueError, AttributeError):
        return


def keep(key: str, make: Callable[[Path], tuple[str, Mapping[str, Any]]], record: Mapping[str, Any]) -> Path:
    """Returns the folder of a cache entry. If it does not exist, one process fills it by `make`, and others wait.

    `make` gets a folder to fill. It returns a message to the user, and further fields for the entry's record.
    """
    from filelock import FileLock, Timeout

    entry = cache_folder() / "checkpoints" / key
    if is_complete(entry):
        return entry
    locks = cache_folder() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    lock = FileLock(locks / f"{key}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print(f"Another process is converting {record['name']}; waiting for it ...", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        if not is_complete(entry):
            with atomic_folder(entry) as partial:
                message, more = make(partial)
                write_json(partial / CACHED, {**record, **more})
            if message:
                print(f"{message}; kept in {entry}", file=sys.stderr, flush=True)
        return entry
    finally:
        lock.release()


def is_complete(entry: Path) -> bool:
    return (entry / CACHED).is_file()


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """Yields an empty folder beside `folder`, whose name a killed process may have left behind."""
    temporary = folder.with_name(f"{folder.name}.unpacked")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def import_original(original: Original, toolkit: str, source: Path, out: Path) -> Any:
    """Converts into the folder `out`, without messages of the libraries, and without a change of torch's random state.

    Raises:
        ValueError: it cannot be converted; the message names the checkpoint and says what to do.
    """
    import torch

    try:
        converter = find(f"conversion.toolkits.{toolkit.replace('-', '_')}")
        with quiet_libraries(), torch.random.fork_rng(devices=[]):
            return find("conversion.importing").import_checkpoint(
                converter, source, out, facts=original.facts, name=original.name.rpartition("/")[2]
            )
    except ModuleNotFoundError as error:
        raise ValueError(missing_package(f"Converting {original.name}", error.name, "convert")) from error
    except (ValueError, FileNotFoundError, Failure) as error:
        message = f"Cannot convert {original.name} ({toolkit}): {error}"
        if "Pass --" in message:
            message += f" `vaswani convert {toolkit}` has these options; use its output folder instead."
        raise ValueError(message) from error


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Silences transformers, whose notes are about the original model, and its progress bars."""
    from transformers.utils import logging

    verbosity, has_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_bar:
            logging.enable_progress_bar()


# Names on the Hub -----------------------------------------------------------------------------------------------------


def remember(name: str, commit: str, entry: Path):
    """Records the commit and the cache entry of a name on the Hub, with or without a revision."""
    record = {"commit": commit, "entry": entry.name}
    if read_name(name) != record:
        write_json(name_file(name), record)


def remembered(name: str) -> Path | None:
    """Returns the cache entry that a name on the Hub had when it was last used; None if the cache does not have it."""
    record = read_name(name)
    entry = cache_folder() / "checkpoints" / record["entry"] if record else None
    return entry if entry and is_complete(entry) else None


def remembered_commit(name: str) -> str | None:
    """Returns the commit that a name on the Hub had when it was last used."""
    return read_name(name).get("commit")


def read_name(name: str) -> dict[str, str]:
    try:
        record = read_json(name_file(name))
        return record if {*record} == {"commit", "entry"} else {}
    except (OSError, ValueError, TypeError):
        return {}


def name_file(name: str) -> Path:
    return cache_folder() / "names" / f"{quote(name, safe='@')}.json"


# Local files ----------------------------------------------------------------------------------------------------------


def digest(path: Path, files: Iterable[Path]) -> str:
    """Returns a digest of the names and contents of a checkpoint's files; those that are not regular files are skipped.

    Args:
        path: The file or folder of the checkpoint. Its own name counts only if it is a file.
        files: The files.

    Raises:
        OSError: a file cannot be read.
    """
    total = hashlib.sha256(path.name.encode() if path.is_file() else b"")
    for file in sorted(file for file in files if file.is_file()):
        with open(file, "rb") as content:
            total.update(f"{file.name} {hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


# Listing and clearing -------------------------------------------------------------------------------------------------


def read_record(entry: Path) -> dict[str, Any]:
    """Returns what `vaswani cache` shows of an entry; fields whose files are damaged are missing."""
    record: dict[str, Any] = {"path": str(entry)}
    for name in ("conversion.json", "about.json", CACHED):  # the last one has the whole name
        try:
            record |= read_json(entry / name)
        except (OSError, ValueError, TypeError):
            continue
    return record | {"bytes": size(entry)}


def clear(entry: Path):
    """Removes an entry. A process that has loaded it keeps its copy in memory.

    Raises:
        OSError: the files cannot be removed.
    """
    removed = entry.with_name(f"{entry.name}.removed")
    shutil.rmtree(removed, ignore_errors=True)
    os.replace(entry, removed)  # at once, so that no process finds half of it
    shutil.rmtree(removed)


def clear_leftovers() -> int:
    """Removes what killed processes left behind; returns its size in bytes. Conversions in progress are kept."""
    from filelock import FileLock, Timeout

    total = 0
    for folder in (cache_folder() / "checkpoints").glob("*"):
        if folder.suffix in UNFINISHED:
            key = folder.name
            while (path := Path(key)).suffix in UNFINISHED:
                key = path.stem
            try:
                with FileLock(cache_folder() / "locks" / f"{key}.lock", timeout=0):
                    total += size(folder)
                    shutil.rmtree(folder, ignore_errors=True)
            except Timeout:
                continue
    return total


def size(folder: Path) -> int:
    """Returns the bytes of the files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def millions(parameters: int) -> str:
    """Formats a number of parameters: "74 M", "0.05 M"."""
    return f"{parameters / 1e6:.0f} M" if parameters >= 9.5e6 else f"{parameters / 1e6:.2g} M"


def outcome(checks: list[dict[str, Any]]) -> str:
    """Returns the result of the comparisons with the original, in words."""
    if not checks:
        return "not compared with the original, which cannot run here"
    return f"logits equal to {max(check['max_difference'] for check in checks):.0e}"
