"""`vaswani corpus`: a corpus of any size, on one machine or many, with Ray Data."""

import codecs
import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import catalogue
from ..system.command_line import count, number, option_groups
from ..system.console import errors_as_messages
from ..system.files import atomic_file, check_regular
from ..system.memory import return_unused_memory
from . import models, options


PLAN, TRANSLATIONS = "plan.json", "translations.txt"
MODEL_FILES = {".json", ".safetensors", ".bin", ".model", ".spm", ".txt"}  # those that translations can depend on
OTHER_FIELDS = "confidence", "lowest_word_confidence", "warnings"  # of a line, besides its translation

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="UTF-8 files to translate line by line."),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the shards and for translations.txt.")
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers", parser=count, metavar="N", help="Number of workers, each with its own copy of the model."
    ),
]
CPUs = Annotated[
    int | None,
    typer.Option(
        "--cpus",
        parser=count,
        metavar="N",
        help="CPU cores of each worker. [dim]\\[default: this machine's, divided among the workers][/]",
    ),
]
GPUs = Annotated[float, typer.Option("--gpus", parser=number, metavar="N", help="GPUs of each worker.")]
Lines = Annotated[int, typer.Option("--lines", parser=count, metavar="N", help="Lines in each shard.")]
Confidence = Annotated[
    bool,
    typer.Option("--confidence", help="Record the expected share of correct words with each translation."),
]


@option_groups
def corpus(
    *,
    files: Files,
    output: Output,
    choice: options.ModelChoice,
    workers: Workers = 1,
    cpus: CPUs = None,
    gpus: GPUs = 0,
    lines: Lines = 2000,
    beams: options.Beams = None,
    dtype: options.DType = "auto",
    confidence: Confidence = False,
):
    """Translate a corpus of any size, on one machine or many, with Ray Data.

    The lines are split into shards, and each worker translates one shard after another.
    A shard's file is written completely or not at all: after a crash, rerun the
    command, and it translates only the missing shards. On a cluster (RAY_ADDRESS,
    or `ray job submit`), use paths that all machines can access.

    [dim]$[/] vaswani corpus corpus.en --output translated --to de
    """
    keep_ray_local()
    import ray.data  # noqa: F401  first, so that a missing package is reported before any work

    cpus = cpus or max(1, (os.cpu_count() or 1) // workers)
    with errors_as_messages(OSError, ValueError):
        source = models.choose(choice)
        settings: dict[str, Any] = {"num_beams": beams} if beams else {}
        settings |= choice.languages() | ({"return_confidence": True} if confidence else {})
        request = {"checkpoint": checkpoint_version(source), "dtype": dtype, **settings}
        model = source, "cuda" if gpus else "cpu", dtype, cpus
        job = Corpus(output, files, lines, request)
        translate(job, model, settings, workers, cpus, gpus)
        print(f"{job.join()} holds the translations of {sum(shard.lines for shard in job.shards):,} lines.")


def keep_ray_local():
    """Without RAY_ADDRESS, lets the Ray of this command listen on this machine's loopback address only.

    Ray has no argument for it, but a setting with this name, which it reads when it is imported.
    """
    if "RAY_ADDRESS" not in os.environ and "ray" not in sys.modules:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")


def checkpoint_version(source: str) -> str:
    """Returns the name of a checkpoint and a digest of its files, or the commit of a Hub id.

    Raises:
        OSError: a file cannot be read, or the Hub does not have the checkpoint.
    """
    if not Path(source).is_dir():
        from ..hub import download_config

        name, revision = catalogue.split_revision(source)
        return f"{name}@{download_config(name, revision).parent.name}"
    files = sorted(path for path in Path(source).iterdir() if path.is_file() and path.suffix in MODEL_FILES)
    digests = "".join(f"{path.name} {digest(path)}\n" for path in files)
    return f"{Path(source).name} {hashlib.sha256(digests.encode()).hexdigest()[:16]}"


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Shard:
    """Lines of a file that are translated together; `line` is the first one's number, from 1, over all files."""

    number: int
    file: str
    begin: int  # in bytes
    line: int
    lines: int

    def path(self, folder: str | Path) -> Path:
        return Path(folder) / f"shard-{self.number:06}.jsonl"

    def texts(self) -> list[str]:
        """Reads the lines, without their ends and without a byte order mark at the start of the file."""
        with open(self.file, "rb") as file:
            file.seek(self.begin)
            lines = [file.readline() for _ in range(self.lines)]
        if self.begin == 0:
            lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        return [line.decode().rstrip("\r\n") for line in lines]


def plan(files: Sequence[Path], lines: int) -> list[Shard]:
    """Cuts files into shards of `lines` lines; the last shard of a file may be shorter. Lines end with a line feed.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not UTF-8.
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
    """Raises ValueError for a line that is not UTF-8: now, and not after days in a worker."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number:,}: not UTF-8. Convert it first, e.g. with `iconv -f latin1 -t utf-8`."
        ) from error


class Corpus:
    """A folder with the plan of all shards and the finished ones.

    Raises:
        ValueError: the folder holds another corpus or other settings, or a file is not UTF-8 or not a regular file.
        OSError: a file cannot be read or written.
    """

    def __init__(self, folder: Path, files: Sequence[Path], lines: int, request: dict[str, Any]):
        self.folder = folder
        for path in files:
            check_regular(path)
        texts = {str(path.absolute()): digest(path) for path in files}
        record = {**request, "lines of a shard": lines, "texts": texts}
        file = folder / PLAN
        if file.exists():
            previous = json.loads(file.read_text(encoding="utf-8"))
            if previous["record"] != record:
                names = dict.fromkeys([*record, *previous["record"]])
                changed = ", ".join(name for name in names if previous["record"].get(name) != record.get(name))
                raise ValueError(
                    f"{folder} holds another corpus or other settings. Changed: {changed}. Choose a new --output."
                )
            self.shards = [Shard(**shard) for shard in previous["shards"]]
            return
        self.shards = plan(files, lines)
        content = {"record": record, "shards": [asdict(shard) for shard in self.shards]}
        with atomic_file(file) as partial:
            partial.write_text(json.dumps(content), encoding="utf-8")

    def missing(self) -> list[Shard]:
        return [shard for shard in self.shards if not shard.path(self.folder).exists()]

    def join(self) -> Path:
        """Writes the translations of all shards to one file, line by line, and returns its path."""
        path = self.folder / TRANSLATIONS
        with atomic_file(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as out:
            out.writelines(" ".join(record["translation"].splitlines()) + "\n" for record in self.records())
        return path

    def records(self) -> Iterator[dict[str, Any]]:
        for shard in self.shards:
            with open(shard.path(self.folder), encoding="utf-8") as file:
                yield from map(json.loads, file)


class Translator:
    """A worker: a model that translates one shard after the other.

    Args:
        folder: The folder for the translations.
        model: The arguments of `load_pipeline`.
        settings: The arguments of the pipeline's `translate`.
    """

    def __init__(self, folder: str, model: tuple[Any, ...], settings: dict[str, Any]):
        self.folder, self.settings = folder, settings
        self.pipeline = models.load_pipeline(*model)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        shard = Shard(**row)
        start = time.perf_counter()
        path = shard.path(self.folder)
        if not path.exists():  # a lost worker may have finished it
            results = self.pipeline.translate(shard.texts(), **self.settings)
            with atomic_file(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
                for line, (best, *_) in enumerate(results, shard.line):
                    record = {"line": line, "translation": best["translation_text"]}
                    record |= {name: best[name] for name in OTHER_FIELDS if name in best}
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
            return_unused_memory()
        return {"number": shard.number, "lines": shard.lines, "seconds": time.perf_counter() - start}


def translate(corpus: Corpus, model: tuple[Any, ...], settings: dict[str, Any], workers: int, cpus: int, gpus: float):
    """Translates the missing shards with Ray."""
    import ray

    missing = corpus.missing()
    total = sum(shard.lines for shard in corpus.shards)
    done = total - sum(shard.lines for shard in missing)
    if not missing:
        return
    if not ray.is_initialized():
        # Not "auto": after a crash, that would be the crashed cluster.
        ray.init(os.environ.get("RAY_ADDRESS", "local"), log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # One task for each shard: if its worker is lost, Ray gives it to another one.
    rows = ray.data.from_items([asdict(shard) for shard in missing], override_num_blocks=len(missing))
    results = rows.map(
        Translator,  # ty: ignore[invalid-argument-type]  # Ray creates one in each worker
        fn_constructor_args=(str(corpus.folder.absolute()), model, settings),
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=cpus,
        num_gpus=gpus or None,
    )
    start, new = time.perf_counter(), 0
    for result in results.iter_rows():
        new += result["lines"]
        rate = new / (time.perf_counter() - start)
        print(f"{done + new:,} of {total:,} lines, {rate:,.1f} lines/s", flush=True)
