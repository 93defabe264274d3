"""Make a lexical shortlist: the target tokens that each source token may become, learned from aligned text.

python -m training.release shortlist CHECKPOINT --recipe mini-en-de --data DATA --output CHECKPOINT
python -m training.release shortlist CHECKPOINT --tsv pairs.tsv --output CHECKPOINT

eflomal (Östling and Tiedemann 2016, `pip install "vaswani-transformer[align]"`) aligns the tokens of the pairs in both
directions; the links of either direction count. The result, shortlist.safetensors, is for `generate(shortlist=...)` and
`vaswani translate --shortlist`.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_transformer.system.command_line import whole_number
from vaswani_transformer.system.extras import missing_package

from .models import load
from .parallel_text import held_out_pairs, read_pairs, training_pairs
from .recipe import Source, load_recipe
from .variations import Pair


if TYPE_CHECKING:  # importing torch and transformers takes seconds, so it waits until the command line is parsed
    from transformers import PreTrainedTokenizerBase

    from vaswani_transformer import Shortlist

PAIRS, SEED = 400_000, 2017  # pairs to align, and the seed that draws them
PER_TOKEN, FREQUENT = 64, 500  # see `make_shortlist`
Ids = list[list[int]]


def make_shortlist(
    pairs: Sequence[Pair],
    tokenizer: PreTrainedTokenizerBase,
    vocab_size: int,
    per_token: int = PER_TOKEN,
    frequent: int = FREQUENT,
) -> Shortlist:
    """Learn a shortlist from pairs.

    Args:
        vocab_size: The model's number of source tokens, which may be larger than the tokenizer's.
        per_token: Target tokens to keep for each source token: itself, and those most often aligned to it.
        frequent: The most frequent target tokens, which every translation may contain. All single characters are
            always allowed, too.
    """
    import torch

    from vaswani_transformer import Shortlist

    plain = {"verbose": False, "add_special_tokens": False}
    sources = tokenizer([source for source, _ in pairs], **plain)["input_ids"]
    encoded = tokenizer(text_target=[target for _, target in pairs], **plain)
    targets = encoded["input_ids"]
    links = count_links(sources, targets, [encoded.word_ids(i) for i in range(len(targets))])
    target_words = vocabulary_of(tokenizer, target=True)
    ends = [i for i in (tokenizer.eos_token_id, tokenizer.unk_token_id) if i is not None]
    special = set(tokenizer.all_special_ids)
    counts = Counter(token for target in targets for token in target)
    characters = [
        i for word, i in target_words.items() if len(without_mark(word)) <= 1 and i not in tokenizer.all_special_ids
    ]
    always = {*ends, *characters, *(i for i, _ in counts.most_common(frequent))}
    rows = [[ends[0]] * per_token for _ in range(vocab_size)]
    for word, i in vocabulary_of(tokenizer, target=False).items():
        copies = [] if i in special else copies_of(word, target_words)
        aligned = [token for token, _ in links[i].most_common() if token not in always]
        row = list(dict.fromkeys([*copies, *aligned]))[:per_token]
        rows[i][: len(row)] = row
    return Shortlist(torch.tensor(rows), torch.tensor(sorted(always)))


def vocabulary_of(tokenizer: PreTrainedTokenizerBase, target: bool) -> dict[str, int]:
    """Map the tokens of the source side, or of the target side, to their ids."""
    side = getattr(tokenizer, "_target_side", None) if target else None
    return (side or tokenizer.backend_tokenizer).get_vocab()


def without_mark(word: str) -> str:
    """Remove the mark of a word's start or end from a token."""
    return word.replace("▁", "").replace("Ġ", "").replace("</w>", "").replace("@@", "")


def copies_of(word: str, target_words: dict[str, int]) -> list[int]:
    """Return the ids of the same token in the target vocabulary, with and without the mark and in the other case."""
    text, forms = without_mark(word), [word]
    for form in (text, text[:1].swapcase() + text[1:]):
        forms += [form, f"▁{form}", f"Ġ{form}"]
    return [target_words[form] for form in dict.fromkeys(forms) if form in target_words][:4]


def count_links(sources: Ids, targets: Ids, words: list[list[int | None]]) -> dict[int, Counter[int]]:
    """Count how often each target token was part of a word that was aligned to each source token.

    `words` has the word index of each target token. All tokens of an aligned word count, since they are generated
    together.
    """
    links: dict[int, Counter[int]] = defaultdict(Counter)
    for source, target, word_index, pairs in zip(sources, targets, words, align(sources, targets), strict=True):
        linked_words: dict[int, set] = defaultdict(set)  # source token -> target words
        for i, j in pairs:
            linked_words[source[i]].add(word_index[j])
        for token, indices in linked_words.items():
            links[token].update({target[j] for j, index in enumerate(word_index) if index in indices})
    return links


def align(sources: Ids, targets: Ids) -> Iterator[set[tuple[int, int]]]:
    """Yield the links of each pair in either direction, as (source position, target position), found by eflomal."""
    try:
        from eflomal import Aligner
    except ImportError as error:
        raise ValueError(missing_package("Alignment", "eflomal", "align")) from error
    with tempfile.TemporaryDirectory() as folder:
        forward, reverse = Path(folder, "forward"), Path(folder, "reverse")
        Aligner(n_samplers=1).align(as_lines(sources), as_lines(targets), str(forward), str(reverse))
        with forward.open(encoding="utf-8") as forward_links, reverse.open(encoding="utf-8") as reverse_links:
            for lines in zip(forward_links, reverse_links, strict=True):
                yield {tuple(map(int, link.split("-"))) for line in lines for link in line.split()}  # type: ignore[misc]


def as_lines(sentences: Iterable[Sequence[int]]) -> Iterator[str]:
    return (" ".join(map(str, ids)) for ids in sentences)


def draw_pairs(options: argparse.Namespace) -> list[Pair]:
    """Draw the pairs to align, at most `--pairs`, with a fixed seed."""
    if options.recipe:
        recipe = load_recipe(options.recipe)
        held_out = list(chain.from_iterable(held_out_pairs(recipe.data, options.data, recipe.seed).values()))
        pairs = [pair for source in recipe.data.train for pair in training_pairs(source, options.data, held_out)]
    else:
        pairs = [pair for path in options.tsv for pair in read_pairs(Source(path=path))]
    random.Random(SEED).shuffle(pairs)
    return pairs[: options.pairs]


def add_options(parser: argparse.ArgumentParser):
    parser.add_argument("model", metavar="CHECKPOINT", help="a folder, an included checkpoint, or a Hub id")
    parser.add_argument("--output", type=Path, required=True, help="folder to write shortlist.safetensors into")
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--recipe", help="align the training text of this recipe")
    text.add_argument("--tsv", action="append", help="align the pairs of this tab-separated file; repeatable")
    parser.add_argument("--data", default=".", help="folder that the recipe's paths are relative to")
    parser.add_argument("--pairs", type=whole_number, default=PAIRS, help=f"pairs to align (default: {PAIRS:,})")
    parser.add_argument(
        "--per-token",
        type=whole_number,
        default=PER_TOKEN,
        metavar="N",
        help=f"target tokens to keep for each source token (default: {PER_TOKEN})",
    )
    parser.add_argument(
        "--frequent",
        type=whole_number,
        default=FREQUENT,
        metavar="N",
        help=f"allow the N most frequent target tokens everywhere (default: {FREQUENT})",
    )


def run(options: argparse.Namespace):
    """Run the step as the command line asks.

    Raises:
        OSError, ValueError: The checkpoint or the pairs cannot be read, or the output folder does not exist.
    """
    if not options.output.is_dir():
        raise ValueError(f"No such folder: {options.output}.")
    model, tokenizer = load(options.model, "cpu")
    pairs = draw_pairs(options)
    if not pairs:
        raise ValueError("There are no pairs to align.")
    shortlist = make_shortlist(pairs, tokenizer, model.config.vocab_size, options.per_token, options.frequent)
    shortlist.save_pretrained(options.output)
    target_size = model.lm_head.out_features
    sources = tokenizer([source for source, _ in pairs[:1000]], padding=True, return_tensors="pt", verbose=False)
    size = shortlist.allowed_tokens(sources["input_ids"], target_size).sum() / len(sources["input_ids"])
    print(f"{len(pairs):,} pairs aligned. A sentence may use {size:,.0f} of {target_size:,} tokens on average.")
