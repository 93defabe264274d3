"""Scores given translations: how likely the model thinks each one is (log-probability, in nats).

python -m training.likelihood MODEL pairs.tsv                        # source and translation, between tabs
python -m training.likelihood MODEL --source test.en --target test.de

One line for each pair: its log-probability, and the same divided by its tokens (the end of the sentence is one).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vaswani_transformer import catalogue
from vaswani_transformer.system.command_line import whole_number
from vaswani_transformer.system.console import exit_with_error

from .evaluate import load
from .parallel_text import read_pairs
from .recipe import Source
from .variations import Pair


if TYPE_CHECKING:  # torch and transformers take seconds to import: they wait until the command line is read
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def log_likelihoods(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair], batch_size: int = 32
) -> list[tuple[float, int]]:
    """(log p(target | source) in nats, tokens of the target) of each pair, without label smoothing or dropout."""
    import torch

    from .batches import pad

    sources = tokenizer([source for source, _ in pairs], verbose=False)["input_ids"] if pairs else []
    targets = tokenizer(text_target=[target for _, target in pairs], verbose=False)["input_ids"] if pairs else []
    order = sorted(range(len(pairs)), key=lambda i: len(targets[i]))
    likelihoods: list[tuple[float, int]] = [(0.0, 0)] * len(pairs)
    was_training = model.training
    model.eval()
    try:
        for start in range(0, len(order), batch_size):
            some = order[start : start + batch_size]
            inputs = pad([np.array(sources[i]) for i in some], model.config.pad_token_id).to(model.device)
            labels = pad([np.array(targets[i]) for i in some], -100).to(model.device)
            mask = pad([np.ones(len(sources[i])) for i in some], 0).to(model.device)
            # No labels for the model: its loss is one figure, and here each pair has one.
            decoder_inputs = model.prepare_decoder_input_ids_from_labels(labels)
            with torch.no_grad():
                output = model(input_ids=inputs, attention_mask=mask, decoder_input_ids=decoder_inputs)
            logits = output.logits  # [B, T, V]
            losses = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="none")
            totals = -losses.view(labels.shape).sum(dim=1)  # [B]; positions without a label add nothing
            for i, total in zip(some, totals.tolist(), strict=True):
                likelihoods[i] = total, len(targets[i])
    finally:
        model.train(was_training)
    return likelihoods


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog="python -m training.likelihood", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL", help="a folder, a checkpoint that ships with the package, a Hub id")
    parser.add_argument("pairs", metavar="FILE", type=Path, nargs="?", help="a TSV file, .xz and .gz too")
    parser.add_argument("--source", type=Path, help="a text file, one sentence a line")
    parser.add_argument("--target", type=Path, help="its translation, line by line")
    parser.add_argument("--batch-size", type=whole_number, default=32, metavar="N", help="pairs; default: 32")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, mps; default: cpu")
    options = parser.parse_args(arguments)
    if bool(options.pairs) == bool(options.source) or bool(options.source) != bool(options.target):
        parser.error("give either a TSV file, or --source and --target")
    try:
        catalogue.resolve(options.model)  # before the data are read
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
    print(f"{len(pairs):,} pairs, {tokens:,} tokens: {-nats / tokens:.4f} nats a token", file=sys.stderr)


if __name__ == "__main__":
    main()
