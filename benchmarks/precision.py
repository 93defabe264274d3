"""The effect of a dtype on translations: BLEU, chrF, and how many translations are identical.

    python -m benchmarks.precision mini-en-de tatoeba=FILE.tsv.xz news=FILE.tsv.xz captions=FILE.tsv.xz \\
        --output benchmarks/results/precision.json

Files have lines of `source <tab> translation`; `--columns 1 0` swaps them.
"""

import argparse
from pathlib import Path

from sacrebleu.metrics import BLEU, CHRF

from vaswani_transformer import checkpoint_path, load, translate_texts
from vaswani_transformer.system.memory import keep_freed_memory

from .measure import write_results
from .sets import named_files, read_pairs, settings_of


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.precision", description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", help="a name listed by `vaswani checkpoints`")
    parser.add_argument("sets", nargs="+", metavar="NAME=FILE", help="test sets")
    parser.add_argument(
        "--dtypes", nargs="+", default=["float32", "int8", "bfloat16"], help="dtypes; the first is the baseline"
    )
    parser.add_argument(
        "--columns", type=int, nargs=2, default=[0, 1], help="columns of the source and of its translation"
    )
    parser.add_argument("--limit", type=int, help="sentences to read of each set")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    options = parser.parse_args(arguments)

    keep_freed_memory()
    sets = {name: read_pairs(file, options.columns, options.limit) for name, file in named_files(options.sets)}
    results, first = [], {}
    for dtype in options.dtypes:
        model, tokenizer = load(checkpoint_path(options.checkpoint), dtype=dtype)
        for name, (sources, references) in sets.items():
            translations = translate_texts(model, tokenizer, sources)
            first.setdefault(name, translations)
            result = {"dtype": dtype, "set": name, "sentences": len(sources)}
            bleu = BLEU()
            result["BLEU"] = round(bleu.corpus_score(translations, [references]).score, 2)
            result["chrF"] = round(CHRF().corpus_score(translations, [references]).score, 2)
            same = sum(a == b for a, b in zip(first[name], translations, strict=True))
            result[f"the same as in {options.dtypes[0]}"] = round(same / len(sources), 3)
            results.append(result | {"signature": str(bleu.get_signature())})
    write_results(options.output, "python -m benchmarks.precision", settings_of(options), results)


if __name__ == "__main__":
    main()
