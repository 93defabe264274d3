"""What a dtype does to translations: BLEU and chrF of each on the same sentences, and how many are the same.

    python -m benchmarks.precision mini-en-de tatoeba=FILE.tsv.xz news=FILE.tsv.xz captions=FILE.tsv.xz \\
        --output benchmarks/results/precision.json

A file has a source and its translation in a line, with a tab between them; `--columns 1 0` takes them the other way.
"""

import argparse
import lzma
from pathlib import Path

from sacrebleu.metrics import BLEU, CHRF

from vaswani_transformer import checkpoint_path, load, translate_texts
from vaswani_transformer.system.memory import keep_freed_memory

from .measure import record


def read_pairs(path: Path, columns: list[int], limit: int | None) -> tuple[list[str], list[str]]:
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][:limit]
    return tuple([row[column] for row in rows] for column in columns)


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.precision", description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", help="a name listed by `vaswani checkpoints`")
    parser.add_argument("sets", nargs="+", metavar="NAME=FILE", help="test sets")
    parser.add_argument(
        "--dtypes", nargs="+", default=["float32", "int8", "bfloat16"], help="the first is compared with"
    )
    parser.add_argument("--columns", type=int, nargs=2, default=[0, 1], help="of the source and of its translation")
    parser.add_argument("--limit", type=int, help="sentences of each set")
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    options = parser.parse_args(arguments)

    keep_freed_memory()
    sets = {}
    for name_and_file in options.sets:
        name, _, file = name_and_file.partition("=")
        sets[name] = read_pairs(Path(file), options.columns, options.limit)
    results, first = [], {}
    for dtype in options.dtypes:
        model, tokenizer = load(checkpoint_path(options.checkpoint), dtype=dtype)
        for name, (sources, references) in sets.items():
            translations = translate_texts(model, tokenizer, sources)
            first.setdefault(name, translations)
            bleu, chrf = BLEU(), CHRF()
            result = {"dtype": dtype, "set": name, "sentences": len(sources)}
            result["BLEU"] = round(bleu.corpus_score(translations, [references]).score, 2)
            result["chrF"] = round(chrf.corpus_score(translations, [references]).score, 2)
            same = sum(one == other for one, other in zip(first[name], translations, strict=True))
            result[f"the same as in {options.dtypes[0]}"] = round(same / len(sources), 3)
            results.append(result | {"signature": str(bleu.get_signature())})
    settings = {**vars(options), "sets": [Path(x.partition("=")[2]).name for x in options.sets]}
    record(options.output, "python -m benchmarks.precision", settings, results)


if __name__ == "__main__":
    main()
