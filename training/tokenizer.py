"""Learn the vocabulary that source and target share (section 5.1), as training does, and report how well it fits.

python -m training.tokenizer OUTPUT --vocab-size 37000 train.en train.de
python -m training.tokenizer OUTPUT --recipe training/recipes/mini-en-de.yaml --data DATA
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vaswani_transformer.system.command_line import describe_program, whole_number
from vaswani_transformer.system.console import exit_with_error
from vaswani_transformer.system.files import check_writable

from .files import atomic_folder, read_lines
from .parallel_text import held_out_pairs, tokenizer_pairs
from .recipe import load_recipe


if TYPE_CHECKING:  # importing torch and transformers takes seconds, so it waits until the command line is parsed
    from transformers import PreTrainedTokenizerBase


@dataclass
class Usage:
    """Counts of one side: texts, words (between spaces) and tokens (without </s>)."""

    texts: int
    words: int
    counts: np.ndarray  # of each token, [vocabulary]

    @property
    def tokens(self) -> int:
        return int(self.counts.sum())

    @property
    def share(self) -> float:
        """Return the share of the vocabulary that occurs at all."""
        return float((self.counts > 0).mean())


def measure(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> Usage:
    from .data import remove_padding

    usage = Usage(0, 0, np.zeros(len(tokenizer), dtype=np.int64))
    remove_padding(tokenizer)
    texts = iter(texts)
    while batch := list(islice(texts, 1000)):
        usage.texts += len(batch)
        usage.words += sum(len(text.split()) for text in batch)
        for encoding in tokenizer.backend_tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            np.add.at(usage.counts, encoding.ids, 1)
    return usage


def describe(usages: dict[str, Usage]) -> str:
    """Return a table of each side and of both together."""
    usages = dict(usages)
    if len(usages) > 1:
        usages["both"] = Usage(
            sum(u.texts for u in usages.values()),
            sum(u.words for u in usages.values()),
            np.sum([u.counts for u in usages.values()], axis=0),
        )
    rows = [("", "texts", "words", "tokens", "tokens/word", "vocabulary used")]
    rows += [
        (name, f"{u.texts:,}", f"{u.words:,}", f"{u.tokens:,}", f"{u.tokens / max(u.words, 1):.3f}", f"{u.share:.1%}")
        for name, u in usages.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )


Sides = dict[str, Callable[[], Iterator[str]]]


def read_sides(arguments: argparse.Namespace) -> tuple[Sides, int]:
    """Return a function per side that reads its texts, by the name of the side, and the size of the vocabulary."""
    if not arguments.recipe:
        return {str(file): lambda file=file: read_lines(file) for file in arguments.files}, arguments.vocab_size
    recipe = load_recipe(arguments.recipe)
    vocab_size = arguments.vocab_size or recipe.vocab_size
    if not vocab_size:
        raise ValueError(f"{arguments.recipe} has no vocab_size. Set --vocab-size.")
    held_out = list(chain.from_iterable(held_out_pairs(recipe.data, arguments.data, recipe.seed).values()))
    names = (recipe.source_language, recipe.target_language)
    sides = {
        name: lambda i=i: (pair[i] for pair in tokenizer_pairs(recipe.data, arguments.data, held_out))
        for i, name in enumerate(names)
    }
    return sides, vocab_size


def interleave(sides: Sides) -> Iterator[str]:
    """Yield the first text of each side, then the second, and so on: the order in which training reads pairs."""
    nothing = object()
    readers = [read() for read in sides.values()]
    while readers:
        texts = [next(reader, nothing) for reader in readers]
        readers = [reader for reader, text in zip(readers, texts, strict=True) if text is not nothing]
        yield from (text for text in texts if text is not nothing)


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        **describe_program(__spec__, __doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", metavar="OUTPUT", type=Path, help="folder to write, for AutoTokenizer")
    parser.add_argument(
        "files", metavar="FILE", type=Path, nargs="*", help="text in either language, also .gz, .xz, .zst"
    )
    parser.add_argument("--vocab-size", type=whole_number, metavar="N", help="number of tokens (default: the recipe's)")
    parser.add_argument("--recipe", type=Path, help="learn from a recipe's training pairs instead of files")
    parser.add_argument("--data", type=Path, default=Path("."), help="folder that the recipe's paths are relative to")
    parser.add_argument("--overwrite", action="store_true", help="replace OUTPUT if it exists")
    arguments = parser.parse_intermixed_args(arguments)
    if bool(arguments.files) == bool(arguments.recipe):
        parser.error("give either text files or --recipe")
    if arguments.files and arguments.vocab_size is None:
        parser.error("text files need --vocab-size N")
    if arguments.output.is_file():
        parser.error(f"{arguments.output} is a file. OUTPUT must be the folder to write, and come first")
    if arguments.output.exists() and not arguments.overwrite:
        parser.error(f"{arguments.output} already exists. Use --overwrite to replace it")
    from vaswani_transformer import learn_tokenizer

    try:
        check_writable(arguments.output)
        sides, vocab_size = read_sides(arguments)
        if not any(text.strip() for text in chain.from_iterable(read() for read in sides.values())):
            raise ValueError(f"No text in {', '.join(sides)}.")
        tokenizer = learn_tokenizer(interleave(sides), vocab_size)
        usages = {name: measure(tokenizer, read()) for name, read in sides.items()}
        with atomic_folder(arguments.output) as folder:
            tokenizer.save_pretrained(folder)
    except (OSError, ValueError) as error:
        exit_with_error(error)
    print(f"{len(tokenizer):,} tokens learned, saved in {arguments.output}", describe(usages), sep="\n\n")


if __name__ == "__main__":
    main()
