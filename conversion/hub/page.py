"""Publishes the explorer's page with its checkpoints as a static Space on the Hugging Face Hub.

vaswani publish-page user/space           # write the Space into a local folder and list its files
vaswani publish-page user/space --push    # upload it in one commit
"""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from vaswani_transformer.system.command_line import make_app

from ..messages import quiet
from ..options import ConversionError
from .publish import TIMEOUT, check_repo_id, check_token, push, staging_folder
from .staging import STAGED, show


README = """---
title: The Transformer at work
emoji: 🔍
colorFrom: blue
colorTo: gray
sdk: static
app_file: index.html
license: other
short_description: Attention Is All You Need, live in your browser
tags: [transformer, attention, explainer, translation]
---

# The Transformer at work

Every part of the model from [Attention Is All You Need](https://arxiv.org/abs/1706.03762), at work on a sentence of
your own. The model runs in your browser: the text that you type stays in the page.

Start with the guided play, which takes 90 seconds, then follow the ten chapters. Below each figure you can copy a link
to what it shows, or save it as SVG or PNG.

Checkpoints: {checkpoints}. The model card beside each one (`data/NAME/README.md`) names its training data and its
licence. Code and text: [vaswani-transformer](https://pypi.org/project/vaswani-transformer/) (Apache-2.0), with D3 (ISC)
and KaTeX (MIT).
"""


def stage_page(checkpoints: list[str], out: Path):
    """Writes the files of the Space into the folder `out`. An earlier NAME-staged is overwritten.

    Raises:
        ConversionError: a checkpoint cannot be loaded or does not run in a browser, or `out` contains other files.
    """
    from vaswani_transformer.explorer.checkpoints import CheckpointCache
    from vaswani_transformer.explorer.export import PAGE, export

    check_stage(out)
    try:
        cache = CheckpointCache(*checkpoints)
        if out.exists():
            shutil.rmtree(out)
        export([cache.open(name) for name in cache.chosen], out, PAGE)
    except ValueError as error:
        raise ConversionError(str(error)) from error
    (out / "README.md").write_text(README.format(checkpoints=", ".join(cache.chosen)), encoding="utf-8")


def check_stage(out: Path):
    """Checks that `out` can be written or overwritten.

    Raises:
        ConversionError: it contains something else than an earlier page.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out.name.endswith(STAGED) and (out / "data" / "checkpoints.json").is_file()):
        raise ConversionError(
            f"--stage {out} is not empty. Only an earlier page in a folder called *{STAGED} is overwritten."
        )


app = make_app()


@app.command()
def publish_page(
    repo_id: Annotated[str, typer.Argument(metavar="user/space", help="The Space on the Hub.")],
    checkpoints: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint",
            metavar="MODEL",
            help="A name listed by `vaswani checkpoints`, a folder, or a Hub id. Repeat it for more; the page opens "
            "with the first. [dim]\\[default: the one that translates into German][/]",
        ),
    ] = None,
    staging: Annotated[
        Path | None,
        typer.Option(
            "--stage",
            metavar="FOLDER",
            help=f"Write the Space into this folder, and keep it. Its name must end in {STAGED} to be overwritten. "
            "[dim]\\[default: a temporary folder][/]",
        ),
    ] = None,
    upload: Annotated[
        bool, typer.Option("--push", help="Upload it, with the token from `hf auth login` or HF_TOKEN.")
    ] = False,
    private: Annotated[bool, typer.Option("--private", help="Create a private Space.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Wait this long for a response.")
    ] = TIMEOUT,
):
    """Publish the explorer's page as a static Space on the Hugging Face Hub.

    The models run in the reader's browser. Write the Space and list its files;
    --push uploads it.

    [dim]$[/] vaswani publish-page user/space --checkpoint mini-en-de
    [dim]$[/] vaswani publish-page user/space --checkpoint mini-en-de --push
    """
    with quiet():
        check_repo_id(repo_id)
        if upload:
            check_token()
        with staging_folder(staging) as out:
            stage_page(checkpoints or [], out)
            show(out, is_temporary=staging is None)
            if upload:
                print(push(out, repo_id, private, timeout=timeout, repo_type="space"))
            else:
                advice = "" if staging else f", or --stage NAME{STAGED} to keep the files"
                print(f"Dry run: nothing was uploaded. Add --push to upload to the Space {repo_id}{advice}.")
