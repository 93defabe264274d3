"""Checks that the Hub has a model before a command loads it; otherwise the client would silently retry for a minute."""

import sys
from pathlib import Path

from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from .catalogue import split_revision


TIMEOUT = 10  # seconds without a response


def check_on_hub(source: str):
    """Checks that the Hub has `source`, and reports the request on standard error. Does nothing for a folder.

    If the Hub does not respond, this process uses the downloaded files and does not contact the Hub again.

    Raises:
        ValueError: the Hub does not have the model or the revision, or does not respond and no files were downloaded.
    """
    name, revision = split_revision(source)
    if Path(name).is_dir():
        return
    is_downloaded = isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str)
    if constants.HF_HUB_OFFLINE:
        if not is_downloaded:
            raise ValueError(
                f"{source} is not downloaded, and HF_HUB_OFFLINE is set. Unset HF_HUB_OFFLINE, or give a folder."
            )
        return
    print(f"Looking for {source} on the Hub ...", file=sys.stderr, flush=True)
    try:
        HfApi().model_info(name, revision=revision, timeout=TIMEOUT)
    except RepositoryNotFoundError as error:
        raise ValueError(
            f"Model not found on the Hub: {name}. If it is private, log in with `hf auth login`."
        ) from error
    except RevisionNotFoundError as error:
        raise ValueError(f"{name} has no revision {revision!r} on the Hub.") from error
    except Exception as error:  # broken connections raise many kinds of errors
        if not is_downloaded:
            raise ValueError(
                f"The Hub does not respond, and {source} is not downloaded. Check the connection, or give a folder."
            ) from error
        print("The Hub does not respond: using the downloaded files.", file=sys.stderr)
        constants.HF_HUB_OFFLINE = True
