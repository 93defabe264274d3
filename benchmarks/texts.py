"""The cost of splitting texts into sentences and checking translations, and how many look wrong.

    python -m benchmarks.texts mini-en-de tatoeba=FILE.tsv.xz news=FILE.tsv.xz docs=FILE.tsv.xz --threads 1 \\
        --output benchmarks/results/texts.json

A text is four lines of a file, joined. "plain" translates the lines in batches; "texts" splits the texts into sentences
and checks each translation. The checks also run on all reference translations, to count false alarms. Files have lines
of `source <tab> translation`.
"""

from pathlib import Path

import torch
from sacrebleu.metrics import BLEU, CHRF

from vaswani_transformer import TranslationPipeline, catalogue, load
from vaswani_transformer.model.checks_vaswani import find_problems
from vaswani_transformer.system.memory import keep_freed_memory

from .measure import in_turns, parser_for_test_sets, ratios, write_results
from .precision import read_pairs


LINES_OF_A_TEXT = 4


def joined(lines: list[str]) -> list[str]:
    return [" ".join(lines[i : i + LINES_OF_A_TEXT]) for i in range(0, len(lines), LINES_OF_A_TEXT)]


def main(arguments: list[str] | None = None):
    parser = parser_for_test_sets("benchmarks.texts", str(__doc__).splitlines()[0], limit=200)
    parser.add_argument(
        "--columns", type=int, nargs=2, default=[0, 1], help="columns of the source and of its translation"
    )
    options = parser.parse_args(arguments)

    keep_freed_memory()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    folder = catalogue.resolve(options.checkpoint)
    model, tokenizer = load(folder, dtype="float32")
    pipeline, results = TranslationPipeline(model=model, tokenizer=tokenizer), []
    languages = pipeline.training_texts.source_language, pipeline.training_texts.target_language
    for name, _, file in (entry.partition("=") for entry in options.sets):
        sources, references = read_pairs(Path(file), options.columns, options.limit)
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
        pairs = zip(*read_pairs(Path(file), options.columns, None), strict=True)
        by_people = [bool(find_problems(*pair, languages)) for pair in pairs]
        result = {"set": name, "pairs": len(by_people), "references that look wrong": sum(by_people)}
        result |= {"lines": len(sources), "texts": len(texts), "plain lines that look wrong": wrong}
        result["texts with warnings"] = sum("warnings" in records[0] for records in whole)
        for kind, translations in outputs.items():
            result[f"BLEU {kind}"] = round(BLEU().corpus_score(translations, [joined(references)]).score, 2)
            result[f"chrF {kind}"] = round(CHRF().corpus_score(translations, [joined(references)]).score, 2)
        result["texts / plain"] = ratios(seconds, "texts", baseline="plain")
        results.append(result)
    settings = {**vars(options), "sets": [Path(x.partition("=")[2]).name for x in options.sets]}
    write_results(options.output, "python -m benchmarks.texts", settings | {"checkpoint": Path(folder).name}, results)


if __name__ == "__main__":
    main()
