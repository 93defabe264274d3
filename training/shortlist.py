"""Makes a lexical shortlist for a checkpoint: which target tokens a source token may become, by aligned training text.

python -m training.shortlist CHECKPOINT --recipe training/recipes/mini-en-de.yaml --data DATA --output CHECKPOINT
python -m training.shortlist CHECKPOINT --tsv pairs.tsv --output CHECKPOINT

eflomal (Östling and Tiedemann 2016) aligns the tokens of pairs in both directions; the links of either count. The file,
shortlist.safetensors, is for `generate(shortlist=...)` and `vaswani translate --shortlist`. eflomal is installed by
`pip install vaswani-transformer[align]`.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_transformer.system.command_line import whole_number
from vaswani_transformer.system.console import exit_with_error

from .parallel_text import held_out_pairs, read_pairs, training_pairs
from .recipe import Source, load_recipe
from .variations import Pair


if TYPE_CHECKING:  # torch and transformers take seconds to import: they wait until the command line is read
    from transformers import PreTrainedTokenizerBase

    from vaswani_transformer import Shortlist

PAIRS, SEED = 400_000, 2017
PER_TOKEN, FREQUENT = 64, 500
Ids = list[list[int]]


def make_shortlist(
    pairs: Sequence[Pair],
    tokenizer: PreTrainedTokenizerBase,
    vocab_size: int,
    per_token: int = PER_TOKEN,
    frequent: int = FREQUENT,
) -> Shortlist:
    """A shortlist learned from pairs.

    Args:
        vocab_size: Source tokens of the model, which may be more than the tokenizer's.
        per_token: Target tokens kept for a source token: itself, and those that were aligned to it most often.
        frequent: The most frequent target tokens, which any translation may hold; so may all single characters.
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
    counts = Counter(token for target in targets for token in target)
    characters = [i for word, i in target_words.items() if len(bare(word)) <= 1 and i not in tokenizer.all_special_ids]
    always = {*ends, *characters, *(i for i, _ in counts.most_common(frequent))}
    rows = [[ends[0]] * per_token for _ in range(vocab_size)]
    for word, i in vocabulary_of(tokenizer, target=False).items():
        copies = [] if i in tokenizer.all_special_ids else copies_of(word, target_words)
        aligned = [token for token, _ in links[i].most_common() if token not in always]
        row = list(dict.fromkeys([*copies, *aligned]))[:per_token]
        rows[i][: len(row)] = row
    return Shortlist(torch.tensor(rows), torch.tensor(sorted(always)))


def vocabulary_of(tokenizer: PreTrainedTokenizerBase, target: bool) -> dict[str, int]:
    """Token -> id, of the side of the source or of the target."""
    side = getattr(tokenizer, "_target_side", None) if target else None
    return (side or tokenizer.backend_tokenizer).get_vocab()


def bare(word: str) -> str:
    """Without the mark of a word's beginning or end."""
    return word.replace("▁", "").replace("Ġ", "").replace("</w>", "").replace("@@", "")


def copies_of(word: str, target_words: dict[str, int]) -> list[int]:
    """The same token in the target vocabulary, also with and without the mark, and in the other case."""
    text, forms = bare(word), [word]
    for form in (text, text[:1].swapcase() + text[1:]):
        forms += [form, f"▁{form}", f"Ġ{form}"]
    return [target_words[form] for form in dict.fromkeys(forms) if form in target_words][:4]


def count_links(sources: Ids, targets: Ids, words: list[list[int | None]]) -> dict[int, Counter[int]]:
    """How often each target token stood in a word that was aligned to each source token.

    `words` counts the words of each target: the parts of a word depend on each other, and belong together.
    """
    links: dict[int, Counter[int]] = defaultdict(Counter)
    for source, target, word_of, pairs in zip(sources, targets, words, align(sources, targets), strict=True):
        linked: dict[int, set] = defaultdict(set)  # words of the target, by the source's token
        for i, j in pairs:
            linked[source[i]].add(word_of[j])
        for token, those in linked.items():
            links[token].update({target[j] for j, word in enumerate(word_of) if word in those})
    return links


def align(sources: Ids, targets: Ids) -> Iterator[set[tuple[int, int]]]:
    """The links that eflomal finds in either direction, as (position in the source, position in the target)."""
    try:
        from eflomal import Aligner
    except ImportError as error:
        raise ValueError("Alignment needs eflomal: pip install vaswani-transformer[align]") from error
    with tempfile.TemporaryDirectory() as folder:
        forward, reverse = Path(folder, "forward"), Path(folder, "reverse")
        Aligner(n_samplers=1).align(as_lines(sources), as_lines(targets), str(forward), str(reverse))
        with forward.open(encoding="utf-8") as one, reverse.open(encoding="utf-8") as other:
            for lines in zip(one, other, strict=True):
                yield {tuple(map(int, link.split("-"))) for line in lines for link in line.split()}  # type: ignore[misc]


def as_lines(sentences: Iterable[Sequence[int]]) -> Iterator[str]:
    return (" ".join(map(str, ids)) for ids in sentences)


def pairs_of(arguments: argparse.Namespace) -> list[Pair]:
    """The pairs to learn from: all, or as many as asked for, drawn by a seed."""
    if arguments.recipe:
        recipe = load_recipe(arguments.recipe)
        apart = held_out_pairs(recipe.data, arguments.data, recipe.seed)
        held_out = list(chain.from_iterable(apart.values()))
        pairs = [p for source in recipe.data.train for p in training_pairs(source, arguments.data, held_out)]
    else:
        pairs = [pair for path in arguments.tsv for pair in read_pairs(Source(path=path))]
    random.Random(SEED).shuffle(pairs)
    return list(islice(pairs, arguments.pairs))


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog="python -m training.shortlist", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="CHECKPOINT", help="a folder, a checkpoint that ships, or a Hub id")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write shortlist.safetensors into")
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--recipe", help="the recipe whose training text is aligned")
    text.add_argument("--tsv", action="append", help="a file of pairs, between tabs; repeatable")
    parser.add_argument("--data", default=".", help="the folder that the recipe's paths start from")
    parser.add_argument("--pairs", type=whole_number, default=PAIRS, help=f"pairs to align (default: {PAIRS:,})")
    parser.add_argument(
        "--per-token", type=whole_number, default=PER_TOKEN, metavar="N",
        help=f"target tokens for each source token (default: {PER_TOKEN})",
    )  # fmt: skip
    parser.add_argument(
        "--frequent", type=whole_number, default=FREQUENT, metavar="N",
        help=f"target tokens that any translation may hold, the most frequent (default: {FREQUENT})",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if not options.output.is_dir():
        parser.error(f"there is no folder {options.output}")
    try:
        from .evaluate import load

        model, tokenizer = load(options.model, "cpu")
        pairs = pairs_of(options)
        if not pairs:
            raise ValueError("There are no pairs to align.")
        shortlist = make_shortlist(pairs, tokenizer, model.config.vocab_size, options.per_token, options.frequent)
        shortlist.save_pretrained(options.output)
    except (OSError, ValueError) as error:
        exit_with_error(error)
    target_size = model.lm_head.out_features
    sources = tokenizer([source for source, _ in pairs[:1000]], padding=True, return_tensors="pt", verbose=False)
    size = shortlist.of(sources["input_ids"], target_size).sum() / len(sources["input_ids"])
    print(f"{len(pairs):,} pairs aligned; a sentence may hold {size:,.0f} of {target_size:,} tokens on average.")


if __name__ == "__main__":
    main()
