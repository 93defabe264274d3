"""Publishes a checkpoint's folder as a model repository on the Hugging Face Hub.

vaswani publish FOLDER user/name           # prepare the repository in a local folder and list its files
vaswani publish FOLDER user/name --push    # upload it in one commit
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_session, get_token
from huggingface_hub.errors import (
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import logging, validate_repo_id

from vaswani_transformer import __version__
from vaswani_transformer.locating import checkpoint_path
from vaswani_transformer.system.command_line import make_app

from ..messages import quiet
from ..options import ConversionError
from ..recognise import OURS, recognise
from .staging import STAGED, is_weights, show, stage, staged_files


TOKENS = "https://huggingface.co/settings/tokens"
TIMEOUT = 60  # seconds without a response
LOG_IN = f"log in with `hf auth login`, or set HF_TOKEN to a token with write access from {TOKENS}"


def check_repo_id(repo_id: str):
    """Checks that a repository id has the form `user/name`.

    Raises:
        ConversionError: it has not.
    """
    try:
        validate_repo_id(repo_id)
        if repo_id.count("/") != 1:
            raise HFValidationError("it must be user/name")
    except HFValidationError as error:
        reason = "" if repo_id.count("/") != 1 else " " + " ".join(str(error).split()).partition(": ")[0] + "."
        raise ConversionError(
            f"Invalid repository name: {repo_id!r}. It must be user/name, for example ada/vaswani-en-de.{reason}"
        ) from None


def check_token():
    """Raises ConversionError without a token for the Hub."""
    if not get_token():
        raise ConversionError(f"No token for the Hub: {LOG_IN}.")


def push(
    folder: Path,
    repo_id: str,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    timeout: float = TIMEOUT,
    repo_type: str = "model",
) -> str:
    """Uploads a staged folder in one commit, to `revision` (a branch) or as a pull request if `create_pr`.

    Creates the repository and the branch if needed, except for a pull request. Other files in the repository are kept,
    except old weights under other names. `timeout` is in seconds. A `repo_type` of "space" means a static Space.

    Returns:
        A sentence about the result.

    Raises:
        ConversionError: the upload failed, or the Hub did not confirm it; the message says whether the repository has
            changed.
    """
    check_token()
    logging.set_verbosity_error()
    get_session().timeout = timeout  # by default, requests wait without limit
    api = HfApi(library_name="vaswani-transformer", library_version=__version__)
    outcome = f"{repo_id} is unchanged"
    try:
        if not create_pr:
            sdk = "static" if repo_type == "space" else None
            api.create_repo(repo_id, private=private or None, exist_ok=True, repo_type=repo_type, space_sdk=sdk)
            if revision:
                api.create_branch(repo_id, branch=revision, exist_ok=True, repo_type=repo_type)
        before = api.repo_info(repo_id, revision=revision, repo_type=repo_type)
        if private and not before.private:
            raise ConversionError(f"{repo_id} is public. Make it private in its settings, or push without --private.")
        files = staged_files(folder)
        additions = [CommitOperationAdd(name, path) for name, path in files.items()]
        present = {sibling.rfilename for sibling in before.siblings or ()}
        old = [name for name in sorted(present - files.keys()) if is_weights(name)]
        try:
            commit = api.create_commit(
                repo_id,
                [*additions, *map(CommitOperationDelete, old)],
                commit_message=f"Publish with vaswani-transformer {__version__}",
                revision=revision,
                create_pr=create_pr,
                repo_type=repo_type,
            )
        except Exception:
            outcome = outcome_of_failure(api, repo_id, revision, create_pr, before.sha, repo_type)
            raise
    except ConversionError:
        raise
    except Exception as error:  # of huggingface_hub, its HTTP client, and the Hub's check of the card
        raise ConversionError(explain(error, repo_id, outcome, timeout)) from error
    if commit.oid == before.sha:
        return f"No changes: {repo_id} already contains these files (commit {commit.oid[:7]})."
    if create_pr:
        return f"Pull request: {commit.pr_url}"
    return f"Published: {address(api, repo_id, repo_type)} (commit {commit.oid[:7]})."


def address(api: HfApi, repo_id: str, repo_type: str = "model") -> str:
    """Returns the address of a repository on the Hub."""
    return f"{api.endpoint}/{'spaces/' if repo_type == 'space' else ''}{repo_id}"


def outcome_of_failure(
    api: HfApi, repo_id: str, revision: str | None, create_pr: bool, before: str | None, repo_type: str
) -> str:
    """Asks the Hub whether a commit arrived whose answer did not, and returns a clause about it.

    `before` is the commit before it.
    """
    if create_pr:
        return f"{repo_id} may have a new pull request: see {address(api, repo_id, repo_type)}/discussions"
    try:
        now = api.repo_info(repo_id, revision=revision, repo_type=repo_type).sha
    except Exception:  # as above
        return f"{repo_id} may have changed: see {address(api, repo_id, repo_type)}"
    return f"{repo_id} is unchanged so far" if now == before or not now else f"{repo_id} has a new commit, {now[:7]}"


def explain(error: Exception, repo_id: str, outcome: str, timeout: float = TIMEOUT) -> str:
    """Explains an error of the Hub, with the `outcome` for the repository, and says what to do, in one line."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, OfflineModeIsEnabled):
        return "Publishing needs the Hub, but HF_HUB_OFFLINE is set. Unset it."
    if "Timeout" in type(error).__name__:  # by name, because huggingface_hub has changed its HTTP client before
        return (
            f"The Hub did not respond within {timeout:g} seconds; {outcome}. Check your connection and rerun the "
            "command, or wait longer with --timeout SECONDS."
        )
    if status == 401:
        return f"The Hub rejected the token (401): it is invalid or has expired; {LOG_IN}."
    if status == 403:
        return f"Permission denied (403): the token cannot write to {repo_id}; {LOG_IN}."
    if isinstance(error, RepositoryNotFoundError):
        return f"Repository not found with this token: {repo_id}. Push without --create-pr to create it."
    if isinstance(error, RevisionNotFoundError):
        return f"Revision not found in {repo_id}."
    reason = " ".join(str(error).split()) or type(error).__name__
    return (
        f"The upload failed: {reason.rstrip('.')}; {outcome}. Rerun the command; files that were uploaded completely "
        "are skipped."
    )


app = make_app()


@app.command()
def publish(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="A checkpoint's folder, or the name of an included checkpoint.")
    ],
    repo_id: Annotated[str, typer.Argument(metavar="user/name", help="The repository on the Hub.")],
    staging: Annotated[
        Path | None,
        typer.Option(
            "--stage",
            metavar="FOLDER",
            help="Prepare the repository in this folder, and keep it. Its name must end in "
            f"{STAGED} to be overwritten. [dim]\\[default: a temporary folder][/]",
        ),
    ] = None,
    languages: Annotated[
        list[str] | None,
        typer.Option(
            "--language", metavar="CODE", help="Language for the card, such as en: first the source, then the target."
        ),
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--licence", "--license", metavar="NAME", help="Licence for the card, such as mit.")
    ] = None,
    upload: Annotated[
        bool, typer.Option("--push", help="Upload it, with the token from `hf auth login` or HF_TOKEN.")
    ] = False,
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="BRANCH", help="Commit to this branch instead of main.")
    ] = None,
    create_pr: Annotated[
        bool, typer.Option("--create-pr", help="Open a pull request instead of changing a branch.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Wait this long for a response.")
    ] = TIMEOUT,
):
    """Publish a checkpoint on the Hugging Face Hub.

    Prepare a checkpoint's folder as a repository and list its files; --push
    uploads it. The model card is the folder's README.md, which you can edit. If
    it is missing, a card is generated from the record of `vaswani convert`,
    `train` or `finetune`, or of transformers' Trainer.

    [dim]$[/] vaswani publish FOLDER user/name
    [dim]$[/] vaswani publish FOLDER user/name --push
    """
    if revision and create_pr:
        raise typer.BadParameter("Use either --revision or --create-pr, not both.")
    with quiet():
        check_repo_id(repo_id)
        path = Path(folder)
        if not path.is_dir() or is_foreign(path):
            path = convert_or_find(folder)
        if upload:
            check_token()
        with staging_folder(staging) as out:
            notes = stage(path, repo_id, out, languages or (), licence)
            show(out, is_temporary=staging is None)
            for note in notes:
                print(note)
            if upload:
                print(push(out, repo_id, private, revision, create_pr, timeout))
            else:
                advice = "" if staging else f", or --stage NAME{STAGED} to keep the prepared files"
                print(f"Dry run: nothing was uploaded. Add --push to upload to {repo_id}{advice}.")


def is_foreign(folder: Path) -> bool:
    """Whether another toolkit wrote the checkpoint in a folder."""
    known = recognise(folder)
    return known is not None and known.toolkit != OURS


def convert_or_find(name: str) -> Path:
    """Returns the folder of any checkpoint, in our format.

    Raises:
        ConversionError: it does not exist or cannot be converted.
    """
    try:
        return Path(checkpoint_path(name, needs_target=False))
    except ValueError as error:
        raise ConversionError(str(error)) from error


@contextmanager
def staging_folder(folder: Path | None) -> Iterator[Path]:
    """Yields `folder`, or by default a temporary one."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary, STAGED.strip("-"))
