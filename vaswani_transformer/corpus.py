"""Translates a corpus of any size, on one machine or many, with Ray Data.

    python -m vaswani_transformer.corpus corpus.en --output translated --to de

The lines of the files are cut into shards. Workers, which hold a model each, take one after the other; a shard's
translations are written whole or not at all, so after a crash the same command goes on with what is missing. On a
cluster (RAY_ADDRESS, or `ray job submit`) the files and the folder must be where all machines see them.
"""

import argparse
import codecs
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .command_line import stop, whole_number
from .commands.console import Failure
from .commands.translate import choose, load_pipeline
from .files import whole_file
from .memory import return_unused_memory


PLAN, WHOLE = "plan.json", "translations.txt"


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


def translate(corpus: Corpus, model: tuple[Any, ...], settings: dict[str, Any], options: argparse.Namespace):
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
        Translator,
        fn_constructor_args=(str(corpus.folder.absolute()), model, settings),
        compute=ray.data.ActorPoolStrategy(size=options.workers),
        num_cpus=options.cpus,
        num_gpus=options.gpus or None,
    )
    start, fresh = time.perf_counter(), 0
    for result in results.iter_rows():
        fresh += result["lines"]
        rate = fresh / (time.perf_counter() - start)
        print(f"{done + fresh:,} of {total:,} lines, {rate:,.1f} lines/s", flush=True)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vaswani_transformer.corpus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="UTF-8, a text a line")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="for the shards, and the result")
    parser.add_argument("--checkpoint", help="a name listed by `vaswani checkpoints`, a folder, or a Hub id")
    parser.add_argument("--from", dest="source", metavar="LANGUAGE", help="such as en, where several are possible")
    parser.add_argument("--to", metavar="LANGUAGE", help="such as fr; default: de")
    parser.add_argument("--workers", type=whole_number, default=1, metavar="N", help="each with a model (default: 1)")
    parser.add_argument(
        "--cpus", type=whole_number, metavar="N", help="cores of each worker; default: this machine's, shared out"
    )
    parser.add_argument("--gpus", type=float, default=0, metavar="N", help="GPUs of each worker (default: 0)")
    parser.add_argument("--lines", type=whole_number, default=2000, metavar="N", help="of a shard (default: 2,000)")
    parser.add_argument("--beams", type=whole_number, metavar="N", help="default: the checkpoint's")
    parser.add_argument("--dtype", default="auto", help="auto, float32, int8, bfloat16 or float16")
    parser.add_argument("--confidence", action="store_true", help="write how likely each translation is right")
    return parser


def main(arguments: Sequence[str] | None = None):
    parser = make_parser()
    options = parser.parse_args(arguments)
    options.cpus = options.cpus or max(1, (os.cpu_count() or 1) // options.workers)
    try:
        try:
            import ray.data  # noqa: F401
        except ImportError as error:
            raise ValueError(f'This needs Ray: pip install "vaswani-transformer[ray]" ({error.name})') from error
        source = choose(options.checkpoint, options.source, options.to)
        settings: dict[str, Any] = {"num_beams": options.beams} if options.beams else {}
        settings |= {"return_confidence": True} if options.confidence else {}
        asked = {"checkpoint": Path(source).name, "dtype": options.dtype, **settings}
        corpus = Corpus(options.output, options.files, options.lines, asked)
        model = source, "cuda" if options.gpus else "cpu", options.dtype, options.cpus
        translate(corpus, model, settings, options)
        print(f"{corpus.put_together()} holds the translations of {sum(s.lines for s in corpus.shards):,} lines.")
    except (Failure, OSError, ValueError) as error:
        stop(parser, error)


if __name__ == "__main__":
    main()
