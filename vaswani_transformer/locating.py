"""Any checkpoint by one name: finds it, and converts it if another toolkit wrote it."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from . import cache, catalogue
from .catalogue import is_commit, split_revision
from .languages import GROUPS, match_code, opus_names, same_language
from .system.programs import find
from .targets import for_target, target_codes


# The languages before a name, as in "en-fr=Helsinki-NLP/opus-mt-en-ROMANCE".
LANGUAGES = re.compile(r"([a-z]{2,3})-([a-z]{2,3}(?:[-_]\w+)*)=(.+)", re.DOTALL)


def split_languages(name: str) -> tuple[str | None, str | None, str]:
    """Splits a name into the source and target language before it, or None, and the name itself."""
    if (match := LANGUAGES.fullmatch(name)) and not Path(name).exists():
        return match[1], match[2], match[3]
    return None, None, name


def locate(name: str, target: str | None = None, needs_target: bool = True) -> str:
    """Returns the folder of a checkpoint in our format; for one that the Hub has in our format, its id and commit.

    Args:
        name: The name of an included checkpoint; a folder or a Hub id (owner/name or owner/name@REVISION) of a model in
            our format, a MarianMTModel or an FSMT model; a folder, an archive or a file of any toolkit that
            `vaswani convert` reads. The languages may come first, as in "en-fr=NAME".
        target: The target language, for a model with several; by default the one before the name.
        needs_target: If False, a model with several target languages is returned as it is if none is named.

    A checkpoint of another toolkit is converted on its first use, and kept in the cache (see `cache`).

    Raises:
        ValueError: the checkpoint does not exist, cannot be converted, or differs from the original after conversion;
            the message says what to do.
    """
    _, named_target, name = split_languages(name)
    source = catalogue.resolve(name)
    try:
        folder = locate_file(Path(source)) if Path(source).exists() else locate_on_hub(source)
        target = target or named_target
        if not Path(folder).is_dir() or not (target or needs_target):
            return folder
        return str(for_target(Path(folder), target, name))
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        raise ValueError(f"Cannot use {name}: {reason}.") from error


def checkpoint_path(name: str, target_language: str | None = None, needs_target: bool = True) -> str:
    """Returns the folder of a checkpoint, for `from_pretrained` and `pipeline`.

    Args:
        name: The name of an included checkpoint, such as "mini-en-de", or any other checkpoint, as in `load`: for
            example "Helsinki-NLP/opus-mt-en-de", which is converted on its first use.
        target_language: The target language, such as "fr", for a model with several.
        needs_target: If False, a model with several target languages is returned as it is if none is named: each text
            must then begin with its token, such as ">>fra<<".

    Raises:
        ValueError: the checkpoint does not exist or cannot be converted; the message says what to do.
    """
    is_name = "/" not in name and "=" not in name and not Path(name).expanduser().exists()
    source = catalogue.checkpoint_path(name) if is_name else locate(name, target_language, needs_target)
    if Path(source).is_dir():
        return source
    repo_id, revision = split_revision(source)
    return str(fetch(repo_id, revision))


# By languages ---------------------------------------------------------------------------------------------------------


def locate_by_languages(source: str | None, target: str | None, download: bool = False) -> str:
    """Returns the checkpoint for two languages: an included one, or else one from the cache.

    Args:
        source, target: Language codes, or None.
        download: Whether to download OPUS-MT's model if there is none.

    Raises:
        ValueError: there is none, or several fit; the message says what to do.
    """
    try:
        return catalogue.for_languages(source, target)
    except catalogue.NoCheckpoint as error:
        if cached := cached_for_languages(source, target):
            return cached
        if not source or not target:
            raise
        names = opus_names(source, target)
        if download:
            return download_first(names, source, target)
        raise ValueError(
            f"No checkpoint here translates from {source!r} into {target!r}. OPUS-MT may have one: add --download, or "
            f"use --checkpoint {names[0]}{f' --to {target}' if is_group(names[0]) else ''}"
        ) from error


def cached_for_languages(source: str | None, target: str | None) -> str | None:
    """Returns the first checkpoint in the cache for these languages, and says which it is."""
    for entry in cache.entries() if source and target else ():
        record = cache.read_record(entry)
        codes = target_codes(entry)
        if not same_language(record.get("source_language") or named_source(record["name"]), source or ""):
            continue
        only = record.get("target_language") or ""
        if fits(target or "", codes) if codes else same_language(only, target or ""):
            print(f"Using {record['name']} from the cache.", file=sys.stderr, flush=True)
            cache.warn_again(entry, record["name"])
            return str(for_target(entry, target, record["name"]))
    return None


def named_source(name: str) -> str:
    """Returns the source language in the name of one of OPUS-MT's models, such as "en" in opus-mt-en-ROMANCE."""
    match = re.search(r"opus-mt-(?:tc-\w+-)?([a-z]{2,3})-\w+$", name)
    return match[1] if match else ""


def fits(target: str, codes: Sequence[str]) -> bool:
    try:
        return match_code(target, codes) is not None
    except LookupError:
        return True


def download_first(names: Sequence[str], source: str, target: str) -> str:
    """Returns the first model of `names` that the Hub has.

    Raises:
        ValueError: it has none of them, or does not respond.
    """
    from . import hub

    for name in names:
        try:
            return locate(name, target)
        except hub.NotOnHub:
            continue
    raise ValueError(
        f"The Hub does not have OPUS-MT's model from {source!r} into {target!r} under these names: {', '.join(names)}. "
        "Search huggingface.co/Helsinki-NLP, and give its name with --checkpoint."
    )


def is_group(name: str) -> bool:
    """Whether a model of OPUS-MT translates into a group of languages, by its name."""
    target = name.rpartition("-")[2]
    return target.isupper() or target in GROUPS


# Folders, files and archives ------------------------------------------------------------------------------------------


def locate_file(path: Path) -> str:
    """Returns a folder in our format, or one that transformers itself loads, as it is; converts other checkpoints."""
    recognise = find("conversion.recognise")
    if path.is_file() and find("conversion.files.archives").archive_suffix(path):
        return str(cache.convert_once(archived(path)))
    known = recognise.recognise(path)
    if known is None or known.toolkit == recognise.OURS:
        if path.is_file():
            raise ValueError(f"{path} is a file. Give the folder that contains the model.")
        if path.name.startswith("models--") and (path / "snapshots").is_dir():
            name = path.name.removeprefix("models--").replace("--", "/")
            raise ValueError(f"{path} is a folder of the Hub's cache. Give the model's name: {name}")
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

    incomplete = f"Only parts of {name} are downloaded. Use it once with a connection and without HF_HUB_OFFLINE."
    try:
        folder = hub.download(name, revision)
    except Exception as error:  # huggingface_hub also raises errors of its HTTP client
        reason = f"Cannot download {name}: {hub.first_paragraph(error)}"
        raise ValueError(incomplete if hub.is_offline() else reason) from error
    if not any(file for pattern in hub.WEIGHTS for file in folder.glob(pattern)):
        none = f"{name} on the Hub has no weights for PyTorch (model.safetensors or pytorch_model.bin)."
        raise ValueError(incomplete if hub.is_offline() else none)
    return folder
