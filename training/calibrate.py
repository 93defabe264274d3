"""Calibrate the confidence of a checkpoint on your own translations.

vaswani calibrate mine memory.tsv

A word counts as right if its reference has it. `confidence.py` has the method.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from vaswani_transformer import catalogue, locating
from vaswani_transformer.documents.memories import is_memory, read_memory
from vaswani_transformer.system.command_line import count, count_or_zero, make_app, option_groups, run_app
from vaswani_transformer.system.console import errors_as_messages
from vaswani_transformer.system.files import check_regular, check_writable

from .confidence import fit, measure_rows, store, translate_pairs
from .files import atomic_folder
from .models import load
from .parallel_text import read_pairs
from .recipe import Source
from .variations import Pair


if TYPE_CHECKING:  # importing torch and transformers takes seconds, so it waits until the command line is parsed
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from vaswani_transformer.model.alignment_vaswani import AlignmentHead

MIN_PAIRS = 20
ERROR, CORRELATION = "expected calibration error", "correlation with sentence chrF"


@dataclass(kw_only=True)
class Options:
    """The options of `vaswani calibrate`."""

    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="A folder, which is changed; or, with --output, any checkpoint.")
    ]
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Translations that the model was not trained on: lines of SOURCE <tab> REFERENCE (.tsv, also .gz, "
            ".bz2, .xz or .zst), .tmx, .xliff or .po.",
        ),
    ]
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FOLDER", help="Calibrate a copy of the checkpoint in this new folder."),
    ] = None
    limit: Annotated[int, typer.Option("--limit", parser=count, metavar="N", help="Use at most this many pairs.")] = (
        1000
    )
    beams: Annotated[
        int | None,
        typer.Option("--beams", parser=count, metavar="N", help="Beam size. [dim]\\[default: the checkpoint's][/]"),
    ] = None
    source_column: Annotated[int, typer.Option("--source-column", parser=count_or_zero, metavar="N")] = 0
    target_column: Annotated[int, typer.Option("--target-column", parser=count_or_zero, metavar="N")] = 1


app = make_app()


@app.command()
@option_groups
def calibrate(options: Options):
    """Calibrate the confidence of a checkpoint on your own translations.

    Half of them are used to fit it, half to measure it; 200 pairs or more are best.
    If the checkpoint names no head for word alignments, it also looks for one.

    [dim]$[/] vaswani calibrate my-model memory.tsv
    [dim]$[/] vaswani calibrate mini-en-de memory.tmx --output mine
    """
    with errors_as_messages(OSError, ValueError):
        run(options)


def run(options: Options):
    """Measure a new calibration, and write it if it is better than the old one.

    Raises:
        OSError, ValueError: A file cannot be read or written, there are too few pairs, or the checkpoint is not a
            folder that may be changed.
    """
    folder = checkpoint_folder(options)
    pairs = read(options)[: options.limit]
    if len(pairs) < MIN_PAIRS:
        raise ValueError(
            f"{options.file} has only {len(pairs)} pairs; at least {MIN_PAIRS} are needed, and 200 are better."
        )
    model, tokenizer = load(str(folder), "cpu")
    from vaswani_transformer.model.confidence_vaswani import Calibration, is_calibrated

    rows = translate_pairs(model, tokenizer, pairs, options.beams)
    old, new = Calibration.from_model(model), fit(rows[1::2])
    before, after = (measure_rows(calibration, rows[::2]) for calibration in (old, new))
    print(f"{len(rows[1::2])} pairs to fit, {len(rows[::2])} pairs to measure ({after['words']} words)")
    print(f"{ERROR}: {before[ERROR]:.3f} ({'before' if is_calibrated(model) else 'default'}), {after[ERROR]:.3f} (new)")
    print(f"{CORRELATION}: {before[CORRELATION]:.2f}, {after[CORRELATION]:.2f}")
    entries: dict[str, NamedTuple] = {}
    if after[ERROR] < before[ERROR]:
        entries["confidence"] = new
    else:
        print("The new calibration is not better, so confidence stays as it is. More pairs may help.")
    has_head = getattr(model.generation_config, "alignment_head", None) is not None
    if not has_head and (head := find_head(model, tokenizer, pairs)):
        entries["alignment_head"] = head
    write(folder, options.output, entries)


def find_head(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair]
) -> AlignmentHead | None:
    """Look for the head that aligns words, by what sources and references have in common."""
    from vaswani_transformer.inspection.alignment_head import choose_alignment_head

    try:
        choice = choose_alignment_head(model, tokenizer, pairs=pairs)
    except ValueError as error:
        print(f"Word alignments: none. {error}")
        return None
    print(f"Word alignments: {choice}")
    return choice.head


def checkpoint_folder(options: Options) -> Path:
    """Return the checkpoint's folder; one on the Hub is downloaded.

    Raises:
        ValueError: The checkpoint does not exist, or may not be changed and there is no `output`.
    """
    given = Path(options.checkpoint).expanduser()
    if options.output:
        check_writable(options.output)
        if options.output.exists() and (not options.output.is_dir() or any(options.output.iterdir())):
            raise ValueError(f"{options.output} already exists and is not empty. Choose another name, or delete it.")
    elif not (given / "model.safetensors").is_file():
        catalogue.resolve(options.checkpoint)  # reports a name that does not exist
        raise ValueError(
            f"{options.checkpoint} is not a model folder. Add --output FOLDER to calibrate a copy of the checkpoint."
        )
    return Path(locating.checkpoint_path(options.checkpoint))


def read(options: Options) -> list[Pair]:
    """Read the pairs of a memory or of a tab-separated file.

    Raises:
        OSError, ValueError: The file cannot be read.
    """
    check_regular(options.file)
    if is_memory(options.file):
        return read_memory(options.file).pairs
    columns = {"source_column": options.source_column, "target_column": options.target_column}
    return read_pairs(Source(path=str(options.file), **columns))


def write(folder: Path, output: Path | None, entries: dict[str, NamedTuple]):
    """Write the entries into the folder's generation_config.json, or into that of a copy of the folder."""
    if output is None:
        if entries:
            store(folder, **entries)
            print(f"{folder / 'generation_config.json'} is updated.")
        return
    with atomic_folder(output) as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        store(copy, **entries)
    print(f"{output} is ready.")


def main(arguments: Sequence[str] | None = None):
    run_app(app, "vaswani calibrate", arguments)


if __name__ == "__main__":
    main()
