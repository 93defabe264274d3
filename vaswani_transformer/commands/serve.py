"""`vaswani serve`: translations for other programs, and a page to type into."""

import os
import re
from typing import Annotated, Any

import typer

from .. import catalogue
from ..system import web
from . import options
from .console import Failure, err, failures_are_messages
from .rooms import install_command
from .translate import load_pipeline


SERVER, LIMITS = "Server", "Limits"
MOST_PROCESSES = 4

Checkpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--checkpoint", "-c", metavar="NAME", rich_help_panel=options.MODEL,
        help="A name listed by `vaswani checkpoints`, a folder, or a Hub id; repeat it for more pairs of languages. "
        "Where the checkpoint does not say its languages: en-de=FOLDER. "
        "[dim]\\[default: all that come with this package][/]",
    ),
]  # fmt: skip
Host = Annotated[
    str,
    typer.Option(
        "--host", metavar="ADDRESS", rich_help_panel=SERVER,
        help="Address to listen on. With another than this computer's own, whoever reaches it can use the server.",
    ),
]  # fmt: skip
Port = Annotated[
    int,
    typer.Option(
        "--port", min=0, max=65535, metavar="PORT", rich_help_panel=SERVER, help="Port; 0 for any that is free."
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key", envvar="VASWANI_API_KEY", show_default=False, metavar="KEY", rich_help_panel=SERVER,
        help="Answer only to requests with this key. Better set by the environment, which other users cannot read.",
    ),
]  # fmt: skip
Origins = Annotated[
    list[str] | None,
    typer.Option(
        "--origin", metavar="URL", rich_help_panel=SERVER,
        help="Where pages may be from that ask this server, such as https://translate.example.org; also the address "
        "by which people know it behind a proxy. May be given more than once; * is any.",
    ),
]  # fmt: skip
Characters = Annotated[
    int,
    typer.Option("--char-limit", min=1, metavar="N", rich_help_panel=LIMITS, help="Characters of a request's texts."),
]
Megabytes = Annotated[
    int, typer.Option("--file-limit", min=1, metavar="MB", rich_help_panel=LIMITS, help="Megabytes of a document.")
]
Waiting = Annotated[
    int,
    typer.Option(
        "--waiting", min=1, metavar="N", rich_help_panel=LIMITS,
        help="Requests that may wait for their turn; more are answered with 429.",
    ),
]  # fmt: skip
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes", min=1, metavar="N", rich_help_panel=options.MODEL,
        help="Processes that translate, each with models of its own and its share of the cores. "
        "[dim]\\[default: one for each core, 4 at most; 1 on an accelerator][/]",
    ),
]  # fmt: skip


def serve(
    checkpoint: Checkpoints = None,
    host: Host = "127.0.0.1",
    port: Port = 5000,
    api_key: Key = None,
    origin: Origins = None,
    char_limit: Characters = 10_000,
    file_limit: Megabytes = 10,
    waiting: Waiting = 256,
    device: options.Device = None,
    dtype: options.DType = "auto",
    threads: options.Threads = None,
    processes: Processes = None,
    beams: options.Beams = None,
    alpha: options.Alpha = None,
    shortlist: options.ShortlistUsed = False,
):
    """Serve translations to other programs, by LibreTranslate's API, with a page to type into.

    Texts that come from many clients at once are translated together. SIGTERM or Ctrl-C finishes what is there.

    [dim]$[/] vaswani serve
    [dim]$[/] vaswani serve --checkpoint mini-en-de --checkpoint ./my-model --port 8000
    [dim]$[/] curl -d q="Good morning." -d source=en -d target=de http://127.0.0.1:5000/translate
    """
    with failures_are_messages():
        try:
            from ..serving.app import Settings, create_app
            from ..serving.languages import Languages
            from ..serving.server import serve
            from ..serving.workers import ProcessWorker
        except ModuleNotFoundError as error:
            raise Failure(f"vaswani serve needs {error.name}: {install_command('serve')}") from error
        processes = processes or default_processes(device)
        threads = threads or max(1, (os.cpu_count() or 1) // processes)
        sources = resolved(checkpoint)
        search = {"num_beams": beams, "length_penalty": alpha, "shortlist": shortlist or None}
        settings = Settings(
            host=host,
            origins=tuple(origin or ()),
            api_key=api_key,
            most_characters=char_limit,
            most_file_bytes=file_limit * 10**6,
            most_waiting=waiting,
            search={name: value for name, value in search.items() if value is not None},
        )
        try:
            with web.listening(host, port) as listener:  # before the models: a port that is taken is soon said
                workers = [ProcessWorker(load_pipelines, sources, (device, dtype, threads)) for _ in range(processes)]
                configs = [worker.configs() for worker in workers][0]
                pairs = ", ".join(f"{source}-{target}" for source, target in configs)
                app = create_app(Languages(configs), workers, settings)
                err.print(f"{pairs} at {web.address(host, listener)} (Ctrl-C ends)", soft_wrap=True, highlight=False)
                serve(app, listener)
        except OSError as error:
            raise Failure(str(error)) from error


def default_processes(device: str | None) -> int:
    """As many as do most on this machine, for the memory that they take."""
    import torch

    on_cpu = device.startswith("cpu") if device else not torch.accelerator.is_available()
    return min(MOST_PROCESSES, os.cpu_count() or 1) if on_cpu else 1


def resolved(names: list[str] | None) -> list[tuple[str, str | None, str | None]]:
    """Folder or Hub id of each checkpoint, and its languages where they are given.

    Raises:
        Failure: there is no such checkpoint.
    """
    found = []
    for name in names or [about.name for about in catalogue.shipped() if not about.domain]:
        given = re.match(r"([a-z]{2,3})-([a-z]{2,3})=", name)
        source, target = (given[1], given[2]) if given else (None, None)
        try:
            found.append((catalogue.resolve(name[given.end() :] if given else name), source, target))
        except ValueError as error:
            raise Failure(str(error)) from error
    return found


def load_pipelines(
    sources: list[tuple[str, str | None, str | None]], model: tuple[Any, ...]
) -> dict[tuple[str, str], Any]:
    """The pipelines by pair of languages; `model` holds what else `load_pipeline` takes.

    Raises:
        Failure: a checkpoint cannot be loaded, does not say which languages it is for, or another has the same.
    """
    pipelines: dict[tuple[str, str], Any] = {}
    for place, source, target in sources:
        pipeline = load_pipeline(place, *model)
        record = pipeline.training_texts
        source, target = source or record.source_language, target or record.target_language
        if not source or not target:
            raise Failure(f"{place} does not say which languages it is for. Say it: --checkpoint en-de={place}")
        if (source, target) in pipelines:
            raise Failure(f"Two checkpoints translate {source}-{target}: give one of them.")
        pipelines[source, target] = pipeline
    return pipelines
