"""Any checkpoint by one name: finds it, and converts it if another toolkit wrote it."""

import sys
from pathlib import Path

from . import cache, catalogue
from .catalogue import is_commit, split_revision
from .system.programs import find


def locate(name: str) -> str:
    """Returns the folder of a checkpoint in our format; for a model of ours on the Hub, its id and commit.

    Args:
        name: The name of an included checkpoint; a folder or a Hub id (owner/name or owner/name@REVISION) of ours, of a
            MarianMTModel or an FSMT model; a folder, an archive or a file of any toolkit that `vaswani convert` reads.

    A checkpoint of another toolkit is converted on its first use, and kept in the cache (see `cache`).

    Raises:
        ValueError: the checkpoint does not exist, cannot be converted, or differs from the original after conversion;
            the message says what to do.
    """
    source = catalogue.resolve(name)
    try:
        return locate_file(Path(source)) if Path(source).exists() else locate_on_hub(source)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        raise ValueError(f"Cannot use {name}: {reason}.") from error


def checkpoint_path(name: str) -> str:
    """Returns the folder of a checkpoint, for `from_pretrained` and `pipeline`.

    Args:
        name: The name of an included checkpoint, such as "mini-en-de", or any other checkpoint, as in `load`: for
            example "Helsinki-NLP/opus-mt-en-de", which is converted on its first use.

    Raises:
        ValueError: the checkpoint does not exist or cannot be converted; the message says what to do.
    """
    source = locate(name) if "/" in name or Path(name).expanduser().exists() else catalogue.checkpoint_path(name)
    if Path(source).is_dir():
        return source
    repo_id, revision = split_revision(source)
    return str(fetch(repo_id, revision))


# Folders, files and archives ------------------------------------------------------------------------------------------


def locate_file(path: Path) -> str:
    """Returns a folder of ours, or one that transformers loads by itself, as it is; converts any other checkpoint."""
    recognise = find("conversion.recognise")
    if path.is_file() and find("conversion.files.archives").archive_suffix(path):
        return str(cache.convert_once(archived(path)))
    known = recognise.recognise(path)
    if known is None or known.toolkit == recognise.OURS:
        if path.is_file():
            raise ValueError(f"{path} is a file. Give the folder that contains the model.")
        if not (path / "config.json").is_file():
            raise ValueError(
                f"No model in {path}: config.json is missing, and it does not have the files of a toolkit "
                f"({recognise.describe_files()}). `vaswani convert --help` lists the toolkits."
            )
        return str(path)
    folder = known.source if known.source.is_dir() else known.source.parent
    version = cache.digest(known.source, [*folder.glob("*"), *folder.glob("model/*")])
    return str(cache.convert_once(cache.Original(str(path), version, lambda temporary: known)))


def archived(archive: Path) -> cache.Original:
    """Returns the checkpoint in an archive, which is unpacked only if it must be converted."""
    recognise, archives = find("conversion.recognise"), find("conversion.files.archives")
    stem = archive.name[: -len(archives.archive_suffix(archive))]

    def fetch(temporary: Path) -> tuple[str, Path]:
        archives.unpack(archive, temporary / stem)  # converters read the languages from the name of the folder
        known = recognise.find_checkpoint(temporary / stem)
        if known is None:
            raise ValueError(f"No checkpoint in {archive}: no folder in it has {recognise.describe_files()}.")
        if known.toolkit == recognise.OURS:
            raise ValueError(f"The checkpoint in {archive} needs no conversion. Unpack it, and give the folder.")
        return known

    return cache.Original(str(archive), cache.digest(archive, [archive]), fetch)


# The Hub --------------------------------------------------------------------------------------------------------------


def locate_on_hub(source: str) -> str:
    """Returns the id and commit of a model that needs no conversion; converts a MarianMTModel or an FSMT model."""
    from . import hub

    name, revision = split_revision(source)
    entry = cache.remembered(source)
    if entry and (hub.is_offline() or is_commit(revision)):
        return str(entry)
    if hub.is_offline() and (commit := cache.remembered_commit(source)):
        revision = commit  # whose original may be downloaded
    try:
        commit = hub.check_on_hub(f"{name}@{revision}" if revision else name)
    except hub.Unreachable:
        if entry is None:
            raise
        print(f"The Hub does not respond: using {entry}", file=sys.stderr)
        return str(entry)
    recognise = find("conversion.recognise")
    config = hub.download_config(name, commit or revision)
    toolkit = recognise.MODEL_TYPES.get(recognise.model_type(config.parent), recognise.OURS)
    if toolkit == recognise.OURS:
        return f"{name}@{commit}" if commit else source  # the files of one commit, also in other processes
    commit = commit or config.parent.name  # without a network, the folder in the Hub's cache names it
    facts = {"repository": name, "commit": commit}
    entry = cache.convert_once(cache.Original(name, commit, lambda _: (toolkit, fetch(name, commit)), facts))
    cache.remember(source, commit, entry)
    return str(entry)


def fetch(name: str, revision: str | None) -> Path:
    """Downloads a repository.

    Raises:
        ValueError: files are missing, or the connection broke.
    """
    from . import hub

    try:
        return hub.download(name, revision)
    except Exception as error:  # huggingface_hub also raises errors of its HTTP client
        raise ValueError(f"Cannot download {name}: {hub.first_paragraph(error)}") from error
