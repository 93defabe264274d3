"""Models on the Hub: checks that one exists, because the client would silently retry for a minute, and downloads it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

from .catalogue import is_commit, split_revision


TIMEOUT = 10  # seconds without a response
# Weights for other frameworks, and the files in subfolders, such as those of ONNX, stay on the Hub.
SMALL_FILES = ["*.json", "*.spm", "*.txt", "*.model", "*.md"]
SAFETENSORS, PICKLES = ["*.safetensors"], ["pytorch_model*.bin"]
WEIGHTS = SAFETENSORS + PICKLES


class NotOnHub(ValueError):
    """The Hub does not have the model, or does not show it to this user."""


class Unreachable(ValueError):
    """The Hub does not respond, or HF_HUB_OFFLINE is set, and the model is not downloaded."""


def is_offline() -> bool:
    """Whether this process must not contact the Hub."""
    return constants.HF_HUB_OFFLINE


def download_config(repo_id: str, revision: str | None = None) -> Path:
    """Returns the path of a repository's config.json in the Hub's cache.

    Raises:
        ValueError: the Hub does not have it or does not let you read it; the message is a sentence for the user.
    """
    try:
        return Path(hf_hub_download(repo_id, "config.json", revision=revision))
    except EntryNotFoundError as error:
        raise ValueError(f"No model in {repo_id} on the Hub: config.json is missing.") from error
    except Exception as error:  # broken connections raise many kinds of errors
        raise ValueError(f"Cannot download config.json of {repo_id}: {first_paragraph(error)}") from error


def first_paragraph(error: Exception) -> str:
    return " ".join(str(error).strip().partition("\n\n")[0].split()) or type(error).__name__


def download(repo_id: str, revision: str | None = None) -> Path:
    """Returns the folder of a repository's files in the Hub's cache; without safetensors, with the pickled weights.

    Raises:
        Exception: the Hub does not have the files, or does not respond. Its client raises many kinds of errors.
    """
    from huggingface_hub import snapshot_download

    get = partial(snapshot_download, repo_id, revision=revision, ignore_patterns=["*/*"])
    with bars_on_terminals_only():
        folder = Path(get(allow_patterns=SMALL_FILES + SAFETENSORS))
        return folder if any(folder.glob("*.safetensors")) else Path(get(allow_patterns=SMALL_FILES + PICKLES))


@contextmanager
def bars_on_terminals_only() -> Iterator[None]:
    """Hides the client's progress bars if standard error is a file or a pipe."""
    is_unchanged = sys.stderr.isatty() or are_progress_bars_disabled()
    if not is_unchanged:
        disable_progress_bars()
    try:
        yield
    finally:
        if not is_unchanged:
            enable_progress_bars()


def check_on_hub(source: str) -> str | None:
    """Checks that the Hub has `source`, and reports the request on standard error. Does nothing for a folder.

    If the Hub does not respond, this process uses the downloaded files and does not contact the Hub again.

    Returns:
        The commit of the source's revision, or None without a response.

    Raises:
        ValueError: the Hub does not have the model or the revision.
        Unreachable: it does not respond, and no files were downloaded.
    """
    name, revision = split_revision(source)
    if Path(name).is_dir():
        return None
    is_downloaded = isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str)
    if is_commit(revision) and is_downloaded:
        return revision
    if constants.HF_HUB_OFFLINE:
        if not is_downloaded:
            raise Unreachable(
                f"{source} is not downloaded, and HF_HUB_OFFLINE is set. Unset HF_HUB_OFFLINE, or give a folder."
            )
        return None
    print(f"Looking for {source} on the Hub ...", file=sys.stderr, flush=True)
    try:
        return HfApi().model_info(name, revision=revision, timeout=TIMEOUT).sha
    except RepositoryNotFoundError as error:
        raise NotOnHub(f"Model not found on the Hub: {name}. If it is private, log in with `hf auth login`.") from error
    except RevisionNotFoundError as error:
        raise ValueError(f"{name} has no revision {revision!r} on the Hub.") from error
    except Exception as error:  # broken connections raise many kinds of errors
        if not is_downloaded:
            raise Unreachable(
                f"The Hub does not respond, and {source} is not downloaded. Check the connection, or give a folder."
            ) from error
        print("The Hub does not respond: using the downloaded files.", file=sys.stderr)
        constants.HF_HUB_OFFLINE = True
        return None
