r"""Select sentences in a recipe's target language that are not in its data, for back-translation (arXiv 1511.06709).

python -m training.monolingual mini-de-en --data DATA --text en-fr/train.tsv.xz --tag-column 2 --tags tatoeba \
    --output DATA/back_translation/tatoeba-de-en.en
vaswani translate --from en --to de --input DATA/back_translation/tatoeba-de-en.en \
    --output DATA/back_translation/tatoeba-de-en.de

The sentences become the target side; a model for the opposite direction translates them into the source side. Sentences
on the target side of the recipe's training, validation and test sets are left out: training sentences are already
known, and the others must not be seen. (Training itself leaves out the pairs that the recipe holds out.) Sources in the
folder of --output are back-translations themselves and are not read.
"""

import argparse
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from vaswani_transformer.system.command_line import describe_program
from vaswani_transformer.system.console import exit_with_error

from .files import atomic_file
from .parallel_text import check_files, iterate_pairs
from .recipe import Source, load_recipe


def new_texts(texts: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Yield each text that is not known, once, in order. Case and the width of spaces do not matter."""
    seen = {"", *map(_key, known)}
    for text in texts:
        if (key := _key(text)) not in seen:
            seen.add(key)
            yield " ".join(text.split())


def _key(text: str) -> str:
    return " ".join(text.casefold().split())


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        **describe_program(__spec__, __doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", help="select sentences that are not in this recipe's data, in its target language")
    parser.add_argument("--data", default=".", help="folder that the recipe's paths and --text are relative to")
    parser.add_argument("--text", required=True, help="file with sentences, one per line or in a column")
    parser.add_argument("--column", type=int, default=0, help="tab-separated column, counted from 0 (default: 0)")
    parser.add_argument("--tag-column", type=int, help="with --tags: column of the tags")
    parser.add_argument("--tags", nargs="+", default=[], help="use only lines with one of these tags")
    parser.add_argument("--max-words", type=int, metavar="N", help="use only sentences of at most N words")
    parser.add_argument("--output", type=Path, required=True, help="file to write, one sentence per line")
    options = parser.parse_args(arguments)
    if bool(options.tags) != (options.tag_column is not None):
        parser.error("--tags and --tag-column must be used together")
    try:
        data = load_recipe(options.recipe).data
        column = {"source_column": options.column, "target_column": options.column}
        text = Source(
            path=options.text, tag_column=options.tag_column, tags=options.tags, max_words=options.max_words, **column
        )
        # The recipe may name the files that are being made, which may not exist yet: those in the folder of --output.
        made = options.output.resolve().parent
        sources = [
            source
            for source in chain(data.train, data.validation, data.test)
            if made not in [path.resolve().parent for path in source.files(options.data)]
        ]
        check_files([text, *sources], Path(options.data))
        known = (target for source in sources for _, target in iterate_pairs(source, options.data))
        new = list(new_texts((text for text, _ in iterate_pairs(text, options.data)), known))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(options.output) as partial:
            partial.write_text("".join(f"{line}\n" for line in new), encoding="utf-8")
    except (OSError, ValueError) as error:
        exit_with_error(error)
    print(f"{len(new):,} sentences")


if __name__ == "__main__":
    main()
