"""`vaswani corpus`: a corpus of any size, on one machine or many, with Ray Data."""

import codecs
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ..system.files import whole_file
from ..system.memory import return_unused_memory
from . import options
from .console import Failure, failures_are_messages
from .rooms import install_command
from .translate import choose, load_pipeline


PLAN, WHOLE = "plan.json", "translations.txt"


def corpus(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="UTF-8 files to translate line by line.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the shards and for translations.txt."),
    ],
    checkpoint: options.Checkpoint = None,
    source_language: options.From = None,
    to: options.To = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", parser=options.whole_number, metavar="N", help="Workers, each with a model of its own."
        ),
    ] = 1,
    cpus: Annotated[
        int | None,
        typer.Option(
            "--cpus", parser=options.whole_number, metavar="N",
            help="CPU cores of each worker. [dim]\\[default: this machine's, divided among the workers][/]",
        ),
    ] = None,
    gpus: Annotated[
        float, typer.Option("--gpus", parser=options.number, metavar="N", help="GPUs of each worker.")
    ] = 0,
    lines: Annotated[
        int, typer.Option("--lines", parser=options.whole_number, metavar="N", help="Lines in each shard.")
    ] = 2000,
    beams: options.Beams = None,
    dtype: options.DType = "auto",
    confidence: Annotated[
        bool, typer.Option("--confidence", help="Write with each translation how likely it is right, from 0 to 1.")
    ] = False,
):  # fmt: skip
    """Translate a corpus of any size, on one machine or many, with Ray Data.

    The lines are cut into shards. Each worker holds a model and translates one shard after the other. A shard's file is
    written completely or not at all: after a crash, rerun the command, and it translates only the missing shards. On a
    cluster (RAY_ADDRESS, or `ray job submit`), use paths that all machines see.

    [dim]$[/] vaswani corpus corpus.en --output translated --to de
    """
    cpus = cpus or max(1, (os.cpu_count() or 1) // workers)
    with failures_are_messages():
        try:
            import ray.data  # noqa: F401
        except ImportError as error:
            raise Failure(
                f"vaswani corpus needs {error.name}, which is not installed: {install_command('ray')}"
            ) from error
        source = choose(checkpoint, source_language, to)
        settings: dict[str, Any] = {"num_beams": beams} if beams else {}
        settings |= {"return_confidence": True} if confidence else {}
        asked = {"checkpoint": Path(source).name, "dtype": dtype, **settings}
        model = source, "cuda" if gpus else "cpu", dtype, cpus
        try:
            work = Corpus(output, files, lines, asked)
            translate(work, model, settings, workers, cpus, gpus)
            print(f"{work.put_together()} holds the translations of {sum(s.lines for s in work.shards):,} lines.")
        except OSError as error:
            raise Failure(f"{error.filename}: {error.strerror}." if error.filename else str(error)) from error
        except ValueError as error:
            raise Failure(str(error)) from error


@dataclass(frozen=True)
class Shard:
    """Lines of a file that are translated together; `line` is the first of them, counted from 1 over all files."""

    number: int
    file: str
    begin: int  # in bytes
    line: int
    lines: int

    def path(self, folder: str | Path) -> Path:
        return Path(folder) / f"shard-{self.number:06}.jsonl"

    def texts(self) -> list[str]:
        """The lines without their ends; a byte order mark at the start of the file is dropped."""
        with open(self.file, "rb") as file:
            file.seek(self.begin)
            lines = [file.readline() for _ in range(self.lines)]
        if self.begin == 0:
            lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        return [line.decode().rstrip("\r\n") for line in lines]


def plan(files: Sequence[Path], lines: int) -> list[Shard]:
    """The shards of files, `lines` in each but the last of a file. Lines end with a line feed.

    Raises:
        OSError: a file cannot be read.
        ValueError: it is not UTF-8.
    """
    shards: list[Shard] = []
    first = 1
    for path in files:
        with open(path, "rb") as file:
            begin = inside = 0
            for number, line in enumerate(file, 1):
                check_text(line, path, number)
                if inside == 0:
                    begin = file.tell() - len(line)
                inside += 1
                if inside == lines:
                    shards.append(Shard(len(shards), str(path.absolute()), begin, first, inside))
                    first, inside = first + inside, 0
            if inside:
                shards.append(Shard(len(shards), str(path.absolute()), begin, first, inside))
                first += inside
    return shards


def check_text(line: bytes, path: Path, number: int):
    """Now, and not after days in a worker."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 (line {number:,}). Convert it first.") from error


class Corpus:
    """A folder with the plan of what is translated, and what has been.

    Raises:
        ValueError: the folder holds another corpus, or a file is not UTF-8.
        OSError: a file cannot be read or written.
    """

    def __init__(self, folder: Path, files: Sequence[Path], lines: int, asked: dict[str, Any]):
        self.folder = folder
        sizes = {str(path.absolute()): path.stat().st_size for path in files}
        record = {"asked": asked, "lines of a shard": lines, "bytes": sizes}
        file = folder / PLAN
        if file.exists():
            held = json.loads(file.read_text(encoding="utf-8"))
            if held["record"] != record:
                changed = ", ".join(name for name in record if held["record"].get(name) != record[name])
                raise ValueError(f"{folder} holds another corpus or other settings ({changed}). Give another --output.")
            self.shards = [Shard(**shard) for shard in held["shards"]]
            return
        self.shards = plan(files, lines)
        content = {"record": record, "shards": [asdict(shard) for shard in self.shards]}
        with whole_file(file) as partial:
            partial.write_text(json.dumps(content), encoding="utf-8")

    def missing(self) -> list[Shard]:
        return [shard for shard in self.shards if not shard.path(self.folder).exists()]

    def put_together(self) -> Path:
        """Writes the translations of all lines in their order, one a line."""
        whole = self.folder / WHOLE
        with whole_file(whole) as partial, open(partial, "w", encoding="utf-8", newline="\n") as out:
            out.writelines(" ".join(record["translation"].splitlines()) + "\n" for record in self.records())
        return whole

    def records(self) -> Iterator[dict[str, Any]]:
        for shard in self.shards:
            with open(shard.path(self.folder), encoding="utf-8") as file:
                yield from map(json.loads, file)


class Translator:
    """What a worker is: a model, which translates one shard after the other.

    Args:
        folder: Where translations are written.
        model: The arguments of `load_pipeline`.
        settings: Of the pipeline's calls.
    """

    def __init__(self, folder: str, model: tuple[Any, ...], settings: dict[str, Any]):
        self.folder, self.settings = folder, settings
        self.pipeline = load_pipeline(*model)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        shard = Shard(**row)
        start = time.perf_counter()
        path = shard.path(self.folder)
        if not path.exists():  # a worker that was lost may have finished it
            results = self.pipeline.translate(shard.texts(), **self.settings)
            with whole_file(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
                for line, (best, *_) in enumerate(results, shard.line):
                    record = {"line": line, "translation": best["translation_text"]}
                    record |= {name: best[name] for name in ("confidence", "warnings") if name in best}
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
            return_unused_memory()
        return {"number": shard.number, "lines": shard.lines, "seconds": time.perf_counter() - start}


def translate(corpus: Corpus, model: tuple[Any, ...], settings: dict[str, Any], workers: int, cpus: int, gpus: float):
    """Translates what is missing, with Ray."""
    import ray

    missing = corpus.missing()
    total = sum(shard.lines for shard in corpus.shards)
    done = total - sum(shard.lines for shard in missing)
    if not missing:
        return
    if not ray.is_initialized():
        # Not "auto": after a crash that would be the cluster that crashed.
        ray.init(os.environ.get("RAY_ADDRESS", "local"), log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # A task for each shard, which Ray gives to another worker if the one that had it is lost.
    rows = ray.data.from_items([asdict(shard) for shard in missing], override_num_blocks=len(missing))
    results = rows.map(
        Translator,  # ty: ignore[invalid-argument-type]  # Ray makes one for each worker
        fn_constructor_args=(str(corpus.folder.absolute()), model, settings),
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=cpus,
        num_gpus=gpus or None,
    )
    start, fresh = time.perf_counter(), 0
    for result in results.iter_rows():
        fresh += result["lines"]
        rate = fresh / (time.perf_counter() - start)
        print(f"{done + fresh:,} of {total:,} lines, {rate:,.1f} lines/s", flush=True)
