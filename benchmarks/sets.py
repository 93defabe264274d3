"""Benchmarks of a checkpoint on test sets: options, the sentences, and scores."""

import argparse
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics import BLEU, CHRF

from vaswani_transformer import catalogue
from vaswani_transformer.system.memory import keep_freed_memory


def parser_for_test_sets(module: str, description: str, limit: int) -> argparse.ArgumentParser:
    """A parser for benchmarks of a checkpoint on test sets, each given as NAME=FILE."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("checkpoint", help="a name listed by `vaswani checkpoints`, or a folder")
    parser.add_argument("sets", nargs="+", metavar="NAME=FILE", help="test sets")
    parser.add_argument("--limit", type=int, default=limit, help="lines to read of each set")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    return parser


def prepare(options: argparse.Namespace) -> Path:
    """Sets the process up for measuring, and returns the checkpoint's folder."""
    keep_freed_memory()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    return Path(catalogue.resolve(options.checkpoint))


def named_files(sets: list[str]) -> Iterator[tuple[str, Path]]:
    """Names and paths of test sets given as NAME=FILE."""
    return ((name, Path(file)) for name, _, file in (entry.partition("=") for entry in sets))


def read_pairs(path: Path, columns: list[int], limit: int | None) -> tuple[list[str], list[str]]:
    """Sources and targets of the first `limit` lines of a tab-separated file."""
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][:limit]
    return tuple([row[column] for row in rows] for column in columns)


def quality(translations: list[str], references: list[str]) -> dict[str, float]:
    """sacreBLEU's BLEU and chrF."""
    metrics = {"BLEU": BLEU(), "chrF": CHRF()}
    return {name: round(metric.corpus_score(translations, [references]).score, 2) for name, metric in metrics.items()}


def settings_of(options: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """The options to record: files without their folders, which differ from machine to machine."""
    return {**vars(options), "sets": [path.name for _, path in named_files(options.sets)], **more}
