"""The `vaswani` command.

torch and transformers take seconds to import, so they are imported in the functions that need them.
"""

import json
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, TextIO

import typer
from rich import box
from rich.console import Console, Group
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from . import catalogue
from ._version import __version__


app = typer.Typer(
    name="vaswani",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
out = Console()
err = Console(stderr=True)

DEFAULT_LANGUAGE = "de"
WARNINGS_SHOWN = 5
SORTED_BATCHES = 16  # lines of similar length share a batch: so many batches of a file are sorted together


class Failure(Exception):
    """What went wrong, in a sentence for the user."""


def say(message: str, style: str, label: str):
    """One message on standard error: wrapped between words on a terminal, in one line in a file."""
    err.print(Text.assemble((f"{label}: ", style), message), soft_wrap=not err.is_terminal)


@contextmanager
def failures_are_messages():
    """Ends the command with status 1 and the message of a `Failure`, with no traceback."""
    try:
        yield
    except Failure as failure:
        say(str(failure), "bold red", "error")
        raise typer.Exit(1) from failure


def print_version(wanted: bool):
    if wanted:
        print(f"vaswani-transformer {__version__}")
        raise typer.Exit


@app.callback()
def vaswani(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
):
    """The Transformer of "Attention Is All You Need": translation with the checkpoints that ship with it, or yours."""


# vaswani translate ---------------------------------------------------------------------------------------------------


INPUT, MODEL, SEARCH = "Input and output", "Model", "Search"


@app.command()
def translate(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts to translate. With none, and no --input: standard input."),
    ] = None,
    input: Annotated[
        Path | None,
        typer.Option(
            "--input", "-i", exists=True, dir_okay=False, readable=True, metavar="FILE", rich_help_panel=INPUT,
            help="A UTF-8 file to translate line by line.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", dir_okay=False, writable=True, metavar="FILE", rich_help_panel=INPUT,
            help="Where translations go instead of standard output. They are written as they are made: after an "
            "interrupt the file holds those made so far, in whole lines.",
        ),
    ] = None,
    n_best: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", rich_help_panel=INPUT,
            help="Translations of each line, best first. More than 1 are written as LINE <tab> TEXT, or as LINE <tab> "
            "SCORE <tab> TEXT with --scores, where LINE is the line's number, from 1.",
        ),
    ] = 1,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", rich_help_panel=INPUT,
            help="Write SCORE <tab> TEXT. The score is log-probability / ((5 + tokens) / 6)^alpha.",
        ),
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE", rich_help_panel=MODEL, show_default=False,
            help="Language to translate to: picks a checkpoint that ships with this package. "
            f"[dim]\\[default: {DEFAULT_LANGUAGE}][/]",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", rich_help_panel=MODEL,
            help="A name that `vaswani checkpoints` lists, a folder, or a Hub id: owner/name, or owner/name@REVISION "
            "for a branch, a tag or a commit.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE", rich_help_panel=MODEL,
            help="cpu, cuda, cuda:1, mps, ... [dim]\\[default: an accelerator if there is one][/]",
        ),
    ] = None,
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        typer.Option(
            metavar="DTYPE", rich_help_panel=MODEL,
            help="float32, bfloat16, float16, or auto: float32 on a processor, the checkpoint's own elsewhere.",
        ),
    ] = "auto",
    batch_size: Annotated[
        int, typer.Option(min=1, metavar="N", rich_help_panel=MODEL, help="Lines that are translated at once.")
    ] = 16,
    beams: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", rich_help_panel=SEARCH,
            help="Size of the beam. [dim]\\[default: the checkpoint's; 4 in the paper][/]",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="ALPHA", rich_help_panel=SEARCH,
            help="Length penalty: more is longer. [dim]\\[default: the checkpoint's; 0.6 in the paper][/]",
        ),
    ] = None,
):  # fmt: skip
    """Translate texts, a file, or standard input line by line.

    Each line of input gives one line of output, as soon as it is read; an empty line gives an empty line.

    [dim]$[/] vaswani translate "A man is riding a bicycle."
    [dim]$[/] vaswani translate --input news.en --output news.de
    [dim]$[/] tail -f chat.log | vaswani translate
    """
    if text and input:
        raise typer.BadParameter("Give either texts or --input, not both.")
    if input and output and output.exists() and input.samefile(output):
        raise typer.BadParameter("This is the input file; it would be overwritten.", param_hint="--output")
    if alpha is not None and not math.isfinite(alpha):
        raise typer.BadParameter("It must be finite.", param_hint="--alpha")
    check_n_best(n_best, beams)
    source = choose(checkpoint, to)
    settings = {"num_beams": beams, "length_penalty": alpha, "num_return_sequences": n_best}
    settings = {name: value for name, value in settings.items() if value is not None}

    with failures_are_messages():
        lines, total = open_lines(text, input)
        translator = Translator(source, device, dtype, batch_size, scores, settings)
        check_n_best(n_best, beams or translator.pipeline.model.generation_config.num_beams or 1)
        if not text and not input and sys.stdin.isatty():
            err.print("Type a line and press Enter; Ctrl-D ends.", style="dim")
        window = batch_size * SORTED_BATCHES if input else batch_size
        bar_shown = output is not None or (input is not None and not sys.stdout.isatty())
        written = 0
        with open_output(output) as target, progress_bar(total, bar_shown) as advance:
            try:
                for batch in windows(lines, window):
                    results = translator.translate(batch, first_line=written + 1, advance=advance)
                    translations = [format_records(written + i, r, n_best, scores) for i, r in enumerate(results, 1)]
                    with interrupts_held():
                        target.write("".join(translations))
                        target.flush()
                        written += len(batch)
            except KeyboardInterrupt:
                if output:
                    say(f"{output} holds the translations of the first {written} lines.", "bold yellow", "interrupted")
                raise
        translator.summarise_warnings()


def check_n_best(n_best: int, beams: int | None):
    if beams is not None and n_best > beams:
        raise typer.BadParameter(
            f"{n_best} translations need a beam of at least {n_best}, and it is {beams}: add --beams {n_best}.",
            param_hint="--n-best",
        )


def choose(checkpoint: str | None, to: str | None) -> str:
    """The folder or the Hub id of the model that the options ask for."""
    try:
        source = catalogue.for_language(to or DEFAULT_LANGUAGE) if checkpoint is None else catalogue.resolve(checkpoint)
        about = catalogue.read_about(Path(source))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to" if checkpoint is None else "--checkpoint") from error
    if to and about and about.target_language != to.lower():
        message = f"{about.name} translates to {about.target_language!r}, not {to!r}."
        raise typer.BadParameter(message, param_hint="--to")
    return source


# Lines in


def open_lines(texts: list[str] | None, input: Path | None) -> tuple[Iterator[list[str]], int | None]:
    """The lines to translate, in lists of those that are there already, and their number where it can be known.

    A regular file is read through once before, so that an error in it is found before anything is translated.
    """
    if texts:
        lines = [line for text in texts for line in re.split(r"\r\n|\n|\r", text)]
        for line in lines:
            if any("\ud800" <= c <= "\udfff" for c in line):
                raise Failure("A text is not valid UTF-8.")
        return iter([lines]), len(lines)
    if input is None:
        return arriving_lines(sys.stdin.buffer, "standard input"), None
    try:
        total = None
        if input.is_file():
            with input.open("rb") as stream:
                total = sum(map(len, arriving_lines(stream, str(input))))
        return arriving_lines(input.open("rb"), str(input)), total
    except OSError as error:
        raise Failure(f"Cannot read {input}: {error.strerror}.") from error


def arriving_lines(stream: BinaryIO, name: str) -> Iterator[list[str]]:
    """Lists of the lines that have arrived; waits only while there is none.

    Only a line feed, or a carriage return and a line feed, ends a line. A byte order mark at the start is dropped.

    Raises:
        Failure: the stream cannot be read, or a line is not UTF-8; the lines before have been given.
    """
    number, rest = 0, b""
    while True:
        try:
            chunk = stream.read1(1 << 16)
        except OSError as error:
            raise Failure(f"Cannot read {name}: {error.strerror}.") from error
        *complete, rest = (rest + chunk).split(b"\n")
        if not chunk and rest:
            complete.append(rest)
        lines, failure = [], None
        for line in complete:
            number += 1
            try:
                lines.append(line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                failure = Failure(
                    f"{name}, line {number}: not UTF-8 (byte {error.object[error.start]:#04x} at position "
                    f"{error.start + 1}). Convert it first, e.g. with `iconv -f latin1 -t utf-8`."
                )
                break
        if lines:
            yield lines
        if failure:
            raise failure
        if not chunk:
            return


def windows(arrivals: Iterator[list[str]], size: int) -> Iterator[list[str]]:
    """The same lines in lists of at most `size`."""
    for lines in arrivals:
        for start in range(0, len(lines), size):
            yield lines[start : start + size]


# The model


class Translator:
    """A loaded model with the options of one command."""

    def __init__(self, source: str, device: str | None, dtype: str, batch_size: int, scores: bool, settings: dict):
        about = catalogue.read_about(Path(source))
        self.name = about.name if about else source
        with err.status(f"Loading {self.name}") if err.is_terminal else nullcontext():
            self.pipeline = load_pipeline(source, device, dtype)
        self.arguments = {"batch_size": batch_size, "return_scores": scores, **settings}
        config, tokenizer = self.pipeline.model.config, self.pipeline.tokenizer
        self.trained_length = about.max_length if about and about.max_length else tokenizer.model_max_length
        self.greatest_length = math.inf
        if getattr(config, "position_encoding", None) == "learned":
            self.greatest_length = config.max_position_embeddings - config.position_offset
        self.long_lines = 0

    def translate(self, lines: list[str], first_line: int, advance: Callable[[], None]) -> list[list[dict]]:
        """Lines -> for each the pipeline's records, best first; `advance` is called once for each line."""
        lengths = [len(ids) for ids in self.pipeline.tokenizer(lines, verbose=False)["input_ids"]]
        for number, length in enumerate(lengths, first_line):
            self.check_length(number, length)
        longest_first = sorted(range(len(lines)), key=lambda i: -lengths[i])
        results = [[]] * len(lines)
        translations = self.pipeline((lines[i] for i in longest_first), **self.arguments)
        for i, records in zip(longest_first, translations, strict=True):
            results[i] = records if lines[i].strip() else records[:1]
            advance()
        return results

    def check_length(self, number: int, length: int):
        if length > self.greatest_length:
            raise Failure(
                f"Line {number} has {length} tokens, and {self.name} has learned positions for {self.greatest_length} "
                "only: split the line."
            )
        if length > self.trained_length:
            self.long_lines += 1
            if self.long_lines <= WARNINGS_SHOWN:
                say(
                    f"line {number} has {length} tokens, and {self.name} was trained on at most {self.trained_length}: "
                    "the translation may be poor. Split it into sentences.",
                    "bold yellow",
                    "warning",
                )

    def summarise_warnings(self):
        if self.long_lines > WARNINGS_SHOWN:
            say(f"{self.long_lines} lines were longer than {self.trained_length} tokens.", "bold yellow", "warning")


def load_pipeline(source: str, device: str | None, dtype: str):
    """The translation pipeline of a folder or a Hub id, with or without a revision.

    Raises:
        Failure: it cannot be loaded, or not on this device.
    """
    from huggingface_hub.utils import logging as hub_logging
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
    from transformers.utils import logging

    from . import TranslationPipeline

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    hub_logging.set_verbosity_error()
    name, revision = catalogue.split_revision(source)
    pinned = {"revision": revision} if revision else {}
    try:
        model = AutoModelForSeq2SeqLM.from_pretrained(name, dtype=dtype, **pinned)
        tokenizer = AutoTokenizer.from_pretrained(name, **pinned)
    except Exception as error:  # whatever is wrong with a folder or a connection, its first paragraph says it
        raise Failure(f"Cannot load {source}: {first_paragraph(error)}") from error
    try:
        pipeline = TranslationPipeline(model=model, tokenizer=tokenizer, device=device)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise Failure(f"Cannot use the device {device!r}: {first_paragraph(error)}") from error
    if dtype == "auto" and pipeline.device.type == "cpu":
        pipeline.model.float()
    return pipeline


def first_paragraph(error: Exception) -> str:
    return " ".join(str(error).strip().partition("\n\n")[0].split()) or type(error).__name__


# Lines out


def format_records(number: int, records: list[dict], n_best: int, scores: bool) -> str:
    """The output for one line of input, with its line ends."""
    lines = []
    for record in records:
        text = " ".join(record["translation_text"].splitlines())
        columns = ([str(number)] if n_best > 1 else []) + ([f"{record['score']:.4f}"] if scores else [])
        lines.append("\t".join([*columns, text.replace("\t", " ") if columns else text]) + "\n")
    return "".join(lines)


@contextmanager
def open_output(output: Path | None) -> Iterator[TextIO]:
    """The file or standard output, to be written in UTF-8.

    Raises:
        Failure: it cannot be opened or written.
    """
    try:
        if output is not None:
            with output.open("w", encoding="utf-8", newline="\n") as file:
                yield file
        else:
            sys.stdout.reconfigure(encoding="utf-8")
            yield sys.stdout
    except BrokenPipeError:
        raise
    except OSError as error:
        if output is None:  # or the interpreter would try to write the rest when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Failure(f"Cannot write {output or 'to standard output'}: {error.strerror}.") from error


@contextmanager
def interrupts_held():
    """Holds an interrupt (Ctrl-C) back until the block is done, so that no line is cut in two."""
    held = []
    try:
        previous = signal.signal(signal.SIGINT, lambda *args: held.append(args))
    except ValueError:  # not in the main thread, which interrupts do not reach
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if held and callable(previous):
            previous(*held[0])


@contextmanager
def progress_bar(total: int | None, shown: bool) -> Iterator[Callable[[], None]]:
    """A function to call after each line; it moves a bar on standard error if that is a terminal."""
    if not shown or not err.is_terminal:
        yield lambda: None
        return
    columns = [
        TextColumn("Translating"), BarColumn(), MofNCompleteColumn(), TextColumn("lines"), TimeRemainingColumn()
    ]  # fmt: skip
    with Progress(*columns, console=err) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


# vaswani checkpoints -------------------------------------------------------------------------------------------------


@app.command()
def checkpoints(
    as_json: Annotated[bool, typer.Option("--json", help="Print everything about them as JSON.")] = False,
):
    """List the checkpoints that ship with this package."""
    found = catalogue.shipped()
    if as_json:
        print(json.dumps([about.to_dict() for about in found], indent=2, ensure_ascii=False))
        return
    if not found:
        print("No checkpoint ships with this version.")
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=False, show_lines=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for about in found:
        scores: dict[str, list[str]] = {}
        for s in about.scores:
            scores.setdefault(s["dataset"], []).append(f"{s['value']:.1f} {s['metric']}")
        facts = {
            "languages": about.languages,
            "made for": about.domain,
            "size": f"{about.parameters / 1e6:.1f} million parameters, {decimal(about.bytes)}",
            "scores": "\n".join(f"{', '.join(values)}, {dataset}" for dataset, values in scores.items()),
            "licence": about.licence,
        }
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        for row in facts.items():
            if row[1]:
                grid.add_row(*row)
        # What a user must know before taking the weights comes first.
        notice = [Text(about.notice, style="bold yellow")] if about.notice else []
        table.add_row(about.name, Group(*notice, grid))
    out.print(table)


# vaswani info --------------------------------------------------------------------------------------------------------


PLUMBING = {"architectures", "auto_map", "custom_pipelines", "dtype", "model_type", "transformers_version"}
ORDER = [
    "shared", "encoder", "decoder", "lm_head",
    "embed_tokens", "embedding", "layers", "norm",
    "self_attn", "self_attn_norm", "cross_attn", "cross_attn_norm", "feed_forward", "feed_forward_norm",
    "qkv_proj", "q_proj", "kv_proj", "out_proj", "fc1", "fc2",
]  # fmt: skip


@app.command()
def info(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A checkpoint's name, a folder, or a Hub id.")],
):
    """Show a model's configuration and parameters, without loading its weights."""
    try:
        source = catalogue.resolve(path)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="PATH") from error
    with failures_are_messages():
        try:
            config, shapes, remark = read_folder(source) if Path(source).is_dir() else read_hub(source)
        except Exception as error:
            raise Failure(f"Cannot read {path}: {first_paragraph(error)}") from error
    out.print(Text(source, style="bold"), "", configuration_table(config), "", parameter_table(shapes), "", sep="\n")
    out.print(f"{sum(map(math.prod, shapes.values())):,} parameters{remark}")


Shapes = dict[str, tuple[int, ...]]


def read_folder(folder: str) -> tuple[dict, Shapes, str]:
    """The configuration, each parameter's shape, and a remark on the files that hold them."""
    from safetensors import safe_open

    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    files = sorted(Path(folder).glob("model*.safetensors"))
    shapes, dtypes = {}, set()
    for file in files:
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():
                tensor = tensors.get_slice(name)
                shapes[name] = tuple(tensor.get_shape())
                dtypes.add(tensor.get_dtype())
    if not files:
        return config, shapes_of(folder), "; no weights in model.safetensors"
    return config, shapes, f" in {', '.join(sorted(dtypes))}, {decimal(sum(file.stat().st_size for file in files))}"


def read_hub(source: str) -> tuple[dict, Shapes, str]:
    """The same of a model on the Hub; of weights that are not here yet, only the headers are downloaded."""
    from huggingface_hub import get_safetensors_metadata, hf_hub_download

    repo_id, revision = catalogue.split_revision(source)
    file = hf_hub_download(repo_id, "config.json", revision=revision)
    if Path(file).with_name("model.safetensors").is_file():  # it was downloaded before: no network is needed
        return read_folder(str(Path(file).parent))
    config = json.loads(Path(file).read_text(encoding="utf-8"))
    files = get_safetensors_metadata(repo_id, revision=revision).files_metadata.values()
    tensors = {name: tensor for file in files for name, tensor in file.tensors.items()}
    dtypes = sorted({tensor.dtype for tensor in tensors.values()})
    return config, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, f" in {', '.join(dtypes)}"


def shapes_of(folder: str) -> Shapes:
    """The shapes that the configuration gives, from a model without storage."""
    import torch
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    from . import VaswaniConfig  # noqa: F401  registers the model

    with torch.device("meta"):
        model = AutoModelForSeq2SeqLM.from_config(AutoConfig.from_pretrained(folder))
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def configuration_table(config: dict) -> Table:
    """The fields that are set, in two columns of names and values."""
    fields = [(name, str(value)) for name, value in config.items() if name not in PLUMBING and value is not None]
    half = (len(fields) + 1) // 2
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=False)
    for style in ("dim", "", "dim", ""):
        table.add_column(style=style)
    for i in range(half):
        table.add_row(*fields[i], *(fields[i + half] if i + half < len(fields) else ("", "")))
    return table


def parameter_table(shapes: Shapes) -> Table:
    """A row for each module that has parameters; the same module of several layers is one row."""

    def place(name: str) -> list[tuple[int, str]]:
        return [(ORDER.index(part) if part in ORDER else len(ORDER), part) for part in name.split(".")]

    modules: dict[str, dict[str, list[tuple[int, ...]]]] = {}
    for name, shape in shapes.items():
        module, _, kind = re.sub(r"\.\d+\.", ".*.", name.removeprefix("model.")).rpartition(".")
        modules.setdefault(module, {}).setdefault(kind, []).append(shape)
    total = sum(map(math.prod, shapes.values()))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("Module", overflow="fold")
    table.add_column("Layers", justify="right")
    table.add_column("Shape of one")
    table.add_column("Parameters", justify="right")
    table.add_column("%", justify="right")
    for module in sorted(modules, key=place):
        kinds = modules[module]
        count = sum(math.prod(shape) for shapes in kinds.values() for shape in shapes)
        shape = " + ".join("×".join(map(str, kinds[kind][0])) for kind in sorted(kinds, reverse=True))
        layers = str(len(next(iter(kinds.values())))) if "*" in module else ""
        table.add_row(module, layers, shape, f"{count:,}", f"{100 * count / total:.1f}")
    return table
