"""Asks the Hub for a model before a command loads it: the client would try again and again for a minute, in silence."""

import sys
from pathlib import Path

from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from .catalogue import split_revision


SECONDS = 10  # without an answer of the Hub


def look_on_hub(source: str):
    """Says on standard error that the Hub is asked for `source`, and waits for an answer; of a folder it says nothing.

    Without an answer, what was downloaded before is used, and this process asks the Hub no more.

    Raises:
        ValueError: the Hub has no such model or revision, or does not answer and the model was not downloaded before.
    """
    name, revision = split_revision(source)
    if Path(name).is_dir() or constants.HF_HUB_OFFLINE:
        return
    print(f"Looking for {source} on the Hub ...", file=sys.stderr, flush=True)
    try:
        HfApi().model_info(name, revision=revision, timeout=SECONDS)
    except RepositoryNotFoundError as error:
        raise ValueError(
            f"There is no model {name} on the Hub, or it is private: then log in with `hf auth login`."
        ) from error
    except RevisionNotFoundError as error:
        raise ValueError(f"{name} has no revision {revision!r} on the Hub.") from error
    except Exception as error:  # what a broken connection raises depends on where it breaks
        if not isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
            raise ValueError(
                f"The Hub does not answer, and {source} was not downloaded before. "
                "Check the connection, or give a folder."
            ) from error
        print("The Hub does not answer: using what was downloaded before.", file=sys.stderr)
        constants.HF_HUB_OFFLINE = True
