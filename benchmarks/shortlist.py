"""The effect of a lexical shortlist on time, BLEU, and words copied from the source.

    python -m benchmarks.shortlist FOLDER tatoeba=FILE.tsv.xz news=FILE.tsv.xz --threads 1 \\
        --output benchmarks/results/shortlist.json

FOLDER is a checkpoint with a shortlist.safetensors. Files have lines of `source <tab> translation`. Runs with the
shortlist and without it take turns.
"""

from functools import partial

from vaswani_transformer import Shortlist, load, translate_texts

from .measure import in_turns, ratios, write_results
from .sets import named_files, parser_for_test_sets, prepare, quality, read_pairs, settings_of


def copied_words(source: str, translation: str) -> set[str]:
    """Words of a source that its translation repeats."""
    return {word for word in source.split() if len(word) > 1} & set(translation.split())


def main(arguments: list[str] | None = None):
    parser = parser_for_test_sets("benchmarks.shortlist", str(__doc__).splitlines()[0], limit=500)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "int8"])
    parser.add_argument("--beams", type=int, nargs="+", default=[4, 1])
    options = parser.parse_args(arguments)

    folder = prepare(options)
    shortlist, results = Shortlist.from_pretrained(folder), []
    for dtype in options.dtypes:
        model, tokenizer = load(folder, dtype=dtype)
        for name, file in named_files(options.sets):
            sources, references = read_pairs(file, [0, 1], options.limit)
            for beams in options.beams:
                translate = partial(translate_texts, model, tokenizer, sources, num_beams=beams)
                functions = {"full": translate, "short": partial(translate, shortlist=shortlist)}
                seconds = in_turns(functions, options.rounds)
                outputs = {kind: function() for kind, function in functions.items()}
                copied = [copied_words(*pair) for pair in zip(sources, outputs["full"], strict=True)]
                copied_too = [words & set(t.split()) for words, t in zip(copied, outputs["short"], strict=True)]
                result = {"dtype": dtype, "set": name, "beams": beams, "sentences": len(sources)}
                for kind, translations in outputs.items():
                    result |= {f"{metric} {kind}": score for metric, score in quality(translations, references).items()}
                same = sum(a == b for a, b in zip(*outputs.values(), strict=True)) / len(sources)
                result |= {
                    "the same": round(same, 3),
                    "copied words": sum(map(len, copied)),
                    "of these kept": sum(map(len, copied_too)),
                    "sentences/s full": round(len(sources) / sorted(seconds["full"])[options.rounds // 2], 1),
                    "short / full": ratios(seconds, "short", baseline="full"),
                }
                results.append(result)
                print(result, flush=True)
    write_results(
        options.output, "python -m benchmarks.shortlist", settings_of(options, checkpoint=folder.name), results
    )


if __name__ == "__main__":
    main()
