"""Compute the log-probability, in nats, that a model gives to existing translations.

python -m training.likelihood MODEL pairs.tsv                        # tab-separated source and translation
python -m training.likelihood MODEL --source test.en --target test.de

Prints one line per pair: its log-probability, and its log-probability per token (</s> included).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_transformer.locating import locate
from vaswani_transformer.system.command_line import describe_program, whole_number
from vaswani_transformer.system.console import exit_with_error

from .models import load
from .parallel_text import read_pairs
from .recipe import Source
from .variations import Pair


if TYPE_CHECKING:  # importing torch and transformers takes seconds, so it waits until the command line is parsed
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def log_likelihoods(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair], batch_size: int = 32
) -> list[tuple[float, int]]:
    """Return (log p(target | source) in nats, target tokens) of each pair, without label smoothing or dropout."""
    from vaswani_transformer.model.forced_vaswani import PairBatch, forced_log_probs, map_pairs

    def likelihoods(batch: PairBatch) -> list[tuple[float, int]]:
        log_probs = forced_log_probs(model, batch.inputs, batch.target_ids)  # [B, T]
        rows = zip(log_probs, batch.target_lengths, strict=True)
        return [(row[:length].sum().item(), length) for row, length in rows]

    was_training = model.training
    model.eval()
    try:
        return map_pairs(likelihoods, model, tokenizer, pairs, batch_size)
    finally:
        model.train(was_training)


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        **describe_program(__spec__, __doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL", help="a folder, an included checkpoint, or a Hub id")
    parser.add_argument("pairs", metavar="FILE", type=Path, nargs="?", help="a TSV file; may be .gz, .bz2, .xz or .zst")
    parser.add_argument("--source", type=Path, help="a text file, one sentence per line")
    parser.add_argument("--target", type=Path, help="its translation, line by line")
    parser.add_argument("--batch-size", type=whole_number, default=32, metavar="N", help="batch size; default: 32")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, mps; default: cpu")
    options = parser.parse_args(arguments)
    if bool(options.pairs) == bool(options.source) or bool(options.source) != bool(options.target):
        parser.error("give either a TSV file, or --source and --target")
    try:
        locate(options.model)  # fails before the data are read
        target = str(options.target) if options.target else None
        pairs = read_pairs(Source(path=str(options.pairs or options.source), target_path=target))
        if not pairs:
            raise ValueError(f"{options.pairs or options.source} has no pairs.")
        model, tokenizer = load(options.model, options.device)
    except (OSError, ValueError) as error:
        exit_with_error(error)
    likelihoods = log_likelihoods(model, tokenizer, pairs, options.batch_size)
    for total, tokens in likelihoods:
        print(f"{total:.4f}\t{total / tokens:.4f}")
    nats, tokens = (sum(column) for column in zip(*likelihoods, strict=True))
    print(f"{len(pairs):,} pairs, {tokens:,} tokens: {-nats / tokens:.4f} nats per token", file=sys.stderr)


if __name__ == "__main__":
    main()
