"""Publishes a checkpoint's folder as a model repository of the Hugging Face Hub.

python -m conversion publish FOLDER user/name           # makes the repository in a folder and shows what it holds
python -m conversion publish FOLDER user/name --push    # sends it, in one commit
"""

import argparse
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token
from huggingface_hub.errors import (
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import logging, validate_repo_id

from vaswani_transformer import __version__, catalogue

from .core import ConversionError
from .staging import STAGED, is_weights, show, stage, staged_files


TOKENS = "https://huggingface.co/settings/tokens"
LOG_IN = f"log in with `hf auth login`, or set HF_TOKEN to a token with write access from {TOKENS}"


def check_repo_id(repo_id: str):
    """Raises:
    ConversionError: it is no `user/name`.
    """
    try:
        validate_repo_id(repo_id)
        if repo_id.count("/") != 1:
            raise HFValidationError("it must be user/name")
    except HFValidationError as error:
        reason = " ".join(str(error).split()).partition(": ")[0]
        raise ConversionError(f"{repo_id!r} is no user/name, such as ada/vaswani-en-de: {reason}.") from None


def push(
    folder: Path, repo_id: str, private: bool = False, revision: str | None = None, create_pr: bool = False
) -> str:
    """Sends what `stage` made in one commit, to a branch `revision` or as a pull request if asked for.

    A repository or branch that is not there is made, except for a pull request. What else the repository holds stays,
    but for weights of other names: they would be of another model.

    Returns:
        What was done, in a sentence.

    Raises:
        ConversionError: it could not be sent; the repository is as it was before.
    """
    if not get_token():
        raise ConversionError(f"There is no token for the Hub: {LOG_IN}.")
    logging.set_verbosity_error()
    api = HfApi(library_name="vaswani-transformer", library_version=__version__)
    try:
        if not create_pr:
            api.create_repo(repo_id, private=private or None, exist_ok=True)
            if revision:
                api.create_branch(repo_id, branch=revision, exist_ok=True)
        before = api.model_info(repo_id, revision=revision)
        if private and not before.private:
            raise ConversionError(f"{repo_id} is there and public: make it private in its settings, or push without.")
        files = staged_files(folder)
        additions = [CommitOperationAdd(name, path) for name, path in files.items()]
        there = {sibling.rfilename for sibling in before.siblings or ()}
        old = [name for name in sorted(there - files.keys()) if is_weights(name)]
        commit = api.create_commit(
            repo_id,
            [*additions, *map(CommitOperationDelete, old)],
            commit_message=f"Publish with vaswani-transformer {__version__}",
            revision=revision,
            create_pr=create_pr,
        )
    except ConversionError:
        raise
    except Exception as error:  # the client's own, those of the connection below it, and the Hub's words on the card
        raise ConversionError(explain(error, repo_id)) from error
    if commit.oid == before.sha:
        return f"Nothing has changed: {repo_id} holds all of this already (commit {commit.oid[:7]})."
    if create_pr:
        return f"Pull request: {commit.pr_url}"
    return f"Published: {api.endpoint}/{repo_id} (commit {commit.oid[:7]})."


def explain(error: Exception, repo_id: str) -> str:
    """What went wrong at the Hub and what can be done, in one line."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, and publishing needs the Hub: unset it."
    if status == 401:
        return f"The Hub refused the token (401): it is wrong or has expired; {LOG_IN}."
    if status == 403:
        return f"The Hub refused this (403): the token may not write to {repo_id}; {LOG_IN}."
    if isinstance(error, RepositoryNotFoundError):
        return f"There is no repository {repo_id} that this token can see; without --create-pr it is made."
    if isinstance(error, RevisionNotFoundError):
        return f"There is no such revision in {repo_id}."
    reason = " ".join(str(error).split()) or type(error).__name__
    return (
        f"{repo_id} could not be sent whole and is as it was before: {reason.rstrip('.')}. Give the same command again "
        "when this is mended; large files that have arrived are not sent again."
    )


def add_command(commands):
    """`publish`, among the commands of `python -m conversion`."""
    command = commands.add_parser(
        "publish",
        help="a checkpoint's folder to the Hugging Face Hub",
        description="Makes a repository of a checkpoint's folder and shows what it holds; --push sends it to the Hub. "
        "The card is the folder's README.md, to which you may add; without one it is made of what was recorded.",
    )
    command.add_argument("folder", metavar="FOLDER", help="a checkpoint's folder, or the name of one that ships")
    command.add_argument("repo_id", metavar="user/name", help="the repository on the Hub")
    command.add_argument("--stage", type=Path, metavar="DIR", help="where it is made (default: NAME-staged, here)")
    command.add_argument("--push", action="store_true", help="send it, with the token of `hf auth login` or HF_TOKEN")
    command.add_argument("--private", action="store_true", help="make the repository a private one")
    where = command.add_mutually_exclusive_group()
    where.add_argument("--revision", metavar="BRANCH", help="commit to this branch instead of main")
    where.add_argument("--create-pr", action="store_true", help="open a pull request instead of changing a branch")
    command.set_defaults(run=publish)


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
        print(push(out, arguments.repo_id, arguments.private, arguments.revision, arguments.create_pr))
    else:
        print(f"Nothing was sent; --push sends it to {arguments.repo_id}.")
