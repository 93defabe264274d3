"""Publishes the folder of a checkpoint as a model repository of the Hugging Face Hub.

python -m conversion publish FOLDER user/name           # prepares the repository in a folder and shows its contents
python -m conversion publish FOLDER user/name --push    # sends it, in one commit
"""

import argparse
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_session, get_token
from huggingface_hub.errors import (
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import logging, validate_repo_id

from vaswani_transformer import __version__, catalogue

from ..options import ConversionError
from .staging import STAGED, is_weights, show, stage, staged_files


TOKENS = "https://huggingface.co/settings/tokens"
TIMEOUT = 60  # seconds without an answer after which a request ends
LOG_IN = f"log in with `hf auth login`, or set HF_TOKEN to a token with write access from {TOKENS}"


def check_repo_id(repo_id: str):
    """Checks the form of `user/name`.

    Raises:
        ConversionError: it has another.
    """
    try:
        validate_repo_id(repo_id)
        if repo_id.count("/") != 1:
            raise HFValidationError("it must be user/name")
    except HFValidationError as error:
        reason = "" if repo_id.count("/") != 1 else " " + " ".join(str(error).split()).partition(": ")[0] + "."
        raise ConversionError(
            f"{repo_id!r} is not a repository name. It must be user/name, for example ada/vaswani-en-de.{reason}"
        ) from None


def push(
    folder: Path,
    repo_id: str,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    timeout: float = TIMEOUT,
) -> str:
    """Sends what `stage` prepared in one commit, to the branch `revision` or as a pull request if asked for.

    A repository or branch is created if it does not exist, except for a pull request. Other files in the repository
    stay, except weights of other names: they belong to another model. `timeout` is in seconds.

    Returns:
        What was done, in a sentence.

    Raises:
        ConversionError: it could not be sent; the repository is unchanged.
    """
    if not get_token():
        raise ConversionError(f"No token for the Hub: {LOG_IN}.")
    logging.set_verbosity_error()
    get_session().timeout = timeout  # the client's own requests would wait without limit
    api = HfApi(library_name="vaswani-transformer", library_version=__version__)
    try:
        if not create_pr:
            api.create_repo(repo_id, private=private or None, exist_ok=True)
            if revision:
                api.create_branch(repo_id, branch=revision, exist_ok=True)
        before = api.model_info(repo_id, revision=revision)
        if private and not before.private:
            raise ConversionError(f"{repo_id} is public: make it private in its settings, or push without --private.")
        files = staged_files(folder)
        additions = [CommitOperationAdd(name, path) for name, path in files.items()]
        present = {sibling.rfilename for sibling in before.siblings or ()}
        old = [name for name in sorted(present - files.keys()) if is_weights(name)]
        commit = api.create_commit(
            repo_id,
            [*additions, *map(CommitOperationDelete, old)],
            commit_message=f"Publish with vaswani-transformer {__version__}",
            revision=revision,
            create_pr=create_pr,
        )
    except ConversionError:
        raise
    except Exception as error:  # the client's, those of the libraries below it, and the Hub's on the card
        raise ConversionError(explain(error, repo_id, timeout)) from error
    if commit.oid == before.sha:
        return f"Nothing has changed: {repo_id} already holds all of this (commit {commit.oid[:7]})."
    if create_pr:
        return f"Pull request: {commit.pr_url}"
    return f"Published: {api.endpoint}/{repo_id} (commit {commit.oid[:7]})."


def explain(error: Exception, repo_id: str, timeout: float = TIMEOUT) -> str:
    """What went wrong at the Hub and what to do, in one line."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, and publishing needs the Hub: unset it."
    if "Timeout" in type(error).__name__:  # the HTTP client's, which huggingface_hub exchanges now and then
        return (
            f"The Hub did not answer within {timeout:g} seconds, and {repo_id} is unchanged. Check the connection, or "
            "wait longer with --timeout SECONDS."
        )
    if status == 401:
        return f"The Hub refused the token (401): it is wrong or has expired; {LOG_IN}."
    if status == 403:
        return f"The Hub refused this (403): the token may not write to {repo_id}; {LOG_IN}."
    if isinstance(error, RepositoryNotFoundError):
        return f"The token sees no repository {repo_id}. Without --create-pr it is created."
    if isinstance(error, RevisionNotFoundError):
        return f"{repo_id} has no such revision."
    reason = " ".join(str(error).split()) or type(error).__name__
    return (
        f"{repo_id} could not be sent completely and is unchanged: {reason.rstrip('.')}. Repeat the command when this "
        "is resolved; large files that have arrived are not sent again."
    )


def add_command(commands):
    """`publish`, among the commands of `python -m conversion`."""
    command = commands.add_parser(
        "publish",
        prog="vaswani publish",
        help="the folder of a checkpoint, to the Hugging Face Hub",
        description="Prepares the folder of a checkpoint as a repository and shows its contents; --push sends it to "
        "the Hub. The card is the folder's README.md, which you may edit; without one it is written from the records.",
    )
    command.add_argument("folder", metavar="FOLDER", help="the folder of a checkpoint, or the name of a shipped one")
    command.add_argument("repo_id", metavar="user/name", help="the repository on the Hub")
    command.add_argument("--stage", type=Path, metavar="DIR", help="where to prepare it (default: NAME-staged, here)")
    command.add_argument("--push", action="store_true", help="send it, with the token of `hf auth login` or HF_TOKEN")
    command.add_argument("--private", action="store_true", help="create a private repository")
    where = command.add_mutually_exclusive_group()
    where.add_argument("--revision", metavar="BRANCH", help="commit to this branch instead of main")
    where.add_argument("--create-pr", action="store_true", help="open a pull request instead of changing a branch")
    command.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"wait this long for an answer (default: {TIMEOUT})",
    )
    command.set_defaults(run=publish, parser=command)


def publish(arguments: argparse.Namespace):
    check_repo_id(arguments.repo_id)
    folder = Path(arguments.folder)
    if not folder.is_dir():
        folder = next((about.path for about in catalogue.shipped() if about.name == arguments.folder), folder)
    out = arguments.stage or Path(f"{arguments.repo_id.partition('/')[2]}{STAGED}")
    notes = stage(folder, arguments.repo_id, out)
    show(out)
    for note in notes:
        print(note)
    if arguments.push:
        where = {"revision": arguments.revision, "create_pr": arguments.create_pr}
        print(push(out, arguments.repo_id, arguments.private, **where, timeout=arguments.timeout))
    else:
        print(f"Nothing was sent; --push sends it to {arguments.repo_id}.")
