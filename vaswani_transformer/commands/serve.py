"""`vaswani serve`: translations for other programs, and a page to type into."""

import os
from typing import Annotated, Any

import typer

from .. import catalogue
from ..system import web
from ..system.command_line import option_groups
from ..system.console import Failure, err, errors_as_messages
from . import models, options


SERVER, LIMITS = "Server", "Limits"
MAX_DEFAULT_PROCESSES = 4

Source = tuple[str, str | None, str | None]  # folder or Hub id, source language, target language

Checkpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--checkpoint",
        "-c",
        metavar="MODEL",
        rich_help_panel=options.MODEL,
        help="A name listed by `vaswani checkpoints`, a folder, or a Hub id; repeat it for more language pairs. "
        "If a checkpoint does not record its languages, write en-de=FOLDER. "
        "[dim]\\[default: all included checkpoints for general text][/]",
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        rich_help_panel=SERVER,
        help="Address to listen on. With 0.0.0.0, anyone who can reach this computer can use the server.",
    ),
]
Port = Annotated[
    int,
    typer.Option("--port", min=0, max=65535, metavar="PORT", rich_help_panel=SERVER, help="Port; 0 for any free port."),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="VASWANI_API_KEY",
        show_default=False,
        metavar="KEY",
        rich_help_panel=SERVER,
        help="Accept only requests with this key. Prefer the environment variable: other users of this computer can "
        "see command lines.",
    ),
]
Origins = Annotated[
    list[str] | None,
    typer.Option(
        "--origin",
        metavar="URL",
        rich_help_panel=SERVER,
        help="Public address of this server behind a proxy, such as https://translate.example.org/path; links to "
        "translated files start with it. Repeat it for other websites that may call this server; * allows all.",
    ),
]
Characters = Annotated[
    int,
    typer.Option("--char-limit", min=1, metavar="N", rich_help_panel=LIMITS, help="Maximum characters in a request."),
]
Megabytes = Annotated[
    int, typer.Option("--file-limit", min=1, metavar="MB", rich_help_panel=LIMITS, help="Maximum size of a document.")
]
Waiting = Annotated[
    int,
    typer.Option(
        "--waiting",
        min=1,
        metavar="N",
        rich_help_panel=LIMITS,
        help="Maximum number of waiting requests; further ones get status 429.",
    ),
]
RequestTimeout = Annotated[
    int,
    typer.Option(
        "--request-timeout",
        min=1,
        metavar="SECONDS",
        rich_help_panel=LIMITS,
        help="Maximum time to translate a batch of texts; after it, requests get status 504.",
    ),
]
RequestsPerMinute = Annotated[
    int | None,
    typer.Option(
        "--requests-per-minute",
        min=1,
        show_default=False,
        metavar="N",
        rich_help_panel=LIMITS,
        help="Maximum number of requests from one address in a minute; further ones get status 429. "
        "[dim]\\[default: no limit][/]",
    ),
]
LogRequests = Annotated[
    bool,
    typer.Option(
        "--log-requests",
        rich_help_panel=SERVER,
        help="Write a line for each request to standard error: method, path, status, time and number of characters; "
        "never its text.",
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes",
        min=1,
        metavar="N",
        rich_help_panel=options.MODEL,
        help="Number of translation processes, each with its own copy of the models. "
        f"[dim]\\[default: one for each core, at most {MAX_DEFAULT_PROCESSES}; 1 on an accelerator][/]",
    ),
]


@option_groups
def serve(
    *,
    checkpoint: Checkpoints = None,
    host: Host = "127.0.0.1",
    port: Port = 5000,
    api_key: Key = None,
    origin: Origins = None,
    char_limit: Characters = 10_000,
    file_limit: Megabytes = 10,
    waiting: Waiting = 256,
    request_timeout: RequestTimeout = 60,
    requests_per_minute: RequestsPerMinute = None,
    log_requests: LogRequests = False,
    device: options.Device = None,
    dtype: options.DType = "auto",
    threads: options.Threads = None,
    processes: Processes = None,
    search: options.Search,
):
    """Run a translation server with LibreTranslate's API and a web page.

    Texts from different clients are translated in the same batches.
    On SIGTERM or Ctrl-C, the server finishes pending requests and stops within 10 seconds.

    [dim]$[/] vaswani serve
    [dim]$[/] vaswani serve --checkpoint mini-en-de --checkpoint ./my-model --port 8000
    [dim]$[/] curl -d q="Good morning." -d source=en -d target=de http://127.0.0.1:5000/translate
    """
    from ..serving.app import Settings, create_app
    from ..serving.languages import Languages
    from ..serving.server import MAX_CONNECTIONS, serve
    from ..serving.workers import ProcessWorker

    with errors_as_messages(OSError):
        processes = processes or default_processes(device)
        threads = threads or max(1, (os.cpu_count() or 1) // processes)
        sources = resolve(checkpoint)
        check_origins(origin or [])
        settings = Settings(
            host=host,
            origins=tuple(origin or ()),
            api_key=api_key,
            max_characters=char_limit,
            max_file_bytes=file_limit * 10**6,
            max_waiting=waiting,
            requests_per_minute=requests_per_minute,
            search=search.settings(),
        )
        with web.listening(host, port) as listener:  # first, so that a busy port is reported before the models load
            arguments = sources, (device, dtype, threads)
            workers = [ProcessWorker(load_pipelines, *arguments, max_seconds=request_timeout) for _ in range(processes)]
            configs = [worker.configs() for worker in workers][0]
            pairs = ", ".join(f"{source}-{target}" for source, target in configs)
            app = create_app(Languages(configs), workers, settings)
            err.print(f"{pairs} at {web.address(host, listener)} (Ctrl-C ends)", soft_wrap=True, highlight=False)
            serve(app, listener, max_connections=max(MAX_CONNECTIONS, 2 * waiting), log_requests=log_requests)


def check_origins(origins: list[str]):
    """Checks the websites of --origin.

    Raises:
        Failure: one is not a website's address, or has a path that is not that of the first.
    """
    try:
        paths = [web.split_origin(url)[1] for url in origins if url != "*"]
    except ValueError as error:
        raise Failure(str(error)) from error
    if any(paths[1:]):
        raise Failure("Only the first --origin, the public address of this server, can have a path.")


def default_processes(device: str | None) -> int:
    """Returns the number of processes that translates most on this machine within moderate memory."""
    import torch

    on_cpu = device.startswith("cpu") if device else not torch.accelerator.is_available()
    return min(MAX_DEFAULT_PROCESSES, os.cpu_count() or 1) if on_cpu else 1


def resolve(names: list[str] | None) -> list[Source]:
    """Finds each checkpoint, with its languages if they are given; without names, the included ones for general text.

    Raises:
        Failure: a checkpoint does not exist.
    """
    from ..locating import locate, split_languages

    sources = []
    for name in names or [about.name for about in catalogue.included() if not about.domain]:
        source, target, _ = split_languages(name)
        try:
            sources.append((locate(name), source, target))
        except ValueError as error:
            raise Failure(str(error)) from error
    return sources


def load_pipelines(sources: list[Source], model: tuple[Any, ...]) -> dict[tuple[str, str], Any]:
    """Loads the pipelines by language pair; `model` holds the further arguments of `load_pipeline`.

    Raises:
        Failure: a checkpoint cannot be loaded, does not record its languages, or has the same as another one.
    """
    pipelines: dict[tuple[str, str], Any] = {}
    for place, source, target in sources:
        pipeline = models.load_pipeline(place, *model)
        record = pipeline.training_texts
        source, target = source or record.source_language, target or record.target_language
        if not source or not target:
            name = catalogue.display_name(place)
            raise Failure(f"{name} does not record its languages. Name them, for example --checkpoint en-de={name}")
        if (source, target) in pipelines:
            raise Failure(f"Two checkpoints translate {source}-{target}. Serve one of them.")
        pipelines[source, target] = pipeline
    return pipelines
