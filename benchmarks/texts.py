"""The cost of splitting texts into sentences and checking translations, and how many look wrong.

    python -m benchmarks.texts mini-en-de tatoeba=FILE.tsv.xz news=FILE.tsv.xz docs=FILE.tsv.xz --threads 1 \\
        --output benchmarks/results/texts.json

A text is four lines of a file, joined. "plain" translates the lines in batches; "texts" splits the texts into sentences
and checks each translation. The checks also run on all reference translations, to count false alarms. Files have lines
of `source <tab> translation`.
"""

from vaswani_transformer import TranslationPipeline, load
from vaswani_transformer.model.checks_vaswani import find_problems

from .measure import in_turns, ratios, write_results
from .sets import named_files, parser_for_test_sets, prepare, quality, read_pairs, settings_of


LINES_OF_A_TEXT = 4


def joined(lines: list[str]) -> list[str]:
    return [" ".join(lines[i : i + LINES_OF_A_TEXT]) for i in range(0, len(lines), LINES_OF_A_TEXT)]


def main(arguments: list[str] | None = None):
    parser = parser_for_test_sets("benchmarks.texts", str(__doc__).splitlines()[0], limit=200)
    parser.add_argument(
        "--columns", type=int, nargs=2, default=[0, 1], help="columns of the source and of its translation"
    )
    options = parser.parse_args(arguments)

    folder = prepare(options)
    model, tokenizer = load(folder, dtype="float32")
    pipeline, results = TranslationPipeline(model=model, tokenizer=tokenizer), []
    languages = pipeline.training_texts.source_language, pipeline.training_texts.target_language
    for name, file in named_files(options.sets):
        sources, references = read_pairs(file, options.columns, options.limit)
        texts = joined(sources)
        functions = {
            "plain": lambda sources=sources: pipeline.translate(sources, split_sentences=False),
            "texts": lambda texts=texts: pipeline.translate(texts),
        }
        seconds = in_turns(functions, options.rounds)
        plain = [records[0]["translation_text"] for records in functions["plain"]()]
        whole = functions["texts"]()
        outputs = {"plain": joined(plain), "texts": [records[0]["translation_text"] for records in whole]}
        wrong = sum(bool(find_problems(*pair, languages)) for pair in zip(sources, plain, strict=True))
        pairs = zip(*read_pairs(file, options.columns, None), strict=True)
        by_people = [bool(find_problems(*pair, languages)) for pair in pairs]
        result = {"set": name, "pairs": len(by_people), "references that look wrong": sum(by_people)}
        result |= {"lines": len(sources), "texts": len(texts), "plain lines that look wrong": wrong}
        result["texts with warnings"] = sum("warnings" in records[0] for records in whole)
        for kind, translations in outputs.items():
            result |= {f"{metric} {kind}": score for metric, score in quality(translations, joined(references)).items()}
        result["texts / plain"] = ratios(seconds, "texts", baseline="plain")
        results.append(result)
    write_results(options.output, "python -m benchmarks.texts", settings_of(options, checkpoint=folder.name), results)


if __name__ == "__main__":
    main()
