"""The effect of a glossary on its terms, BLEU, chrF and time, compared with required words and with neither.

    python -m benchmarks.glossary mini-en-de tatoeba=FILE.tsv.xz docs=FILE.tsv.xz --threads 1 \\
        --output benchmarks/results/glossary.json

A sentence's terms are one or two of its longer words, each with the word of the reference that the checkpoint's
alignment head links to it. "required" only requires these words in the search; "glossary" also replaces them in the
source, as the pipeline does. Files have lines of `source <tab> translation`.
"""

import random
import re
from functools import partial

from vaswani_transformer import TranslationPipeline, load
from vaswani_transformer.model.alignment_vaswani import align, words
from vaswani_transformer.model.glossary_vaswani import Glossary
from vaswani_transformer.model.spans_vaswani import Replaced
from vaswani_transformer.model.texts_vaswani import LongTexts, Sentence, TextSettings

from .measure import in_turns, ratios, write_results
from .sets import named_files, parser_for_test_sets, prepare, quality, read_pairs, settings_of


MIN_LETTERS = 5  # in a term


def terms_of(source: str, target: str, links: list[tuple[int, int]], number: int) -> dict[str, str]:
    """At most `number` pairs of words that are linked only to each other."""
    source_words, target_words = ([text[slice(*span)] for span in words(text)] for text in (source, target))
    by_source = [[j for i, j in links if i == word] for word in range(len(source_words))]
    pairs = {
        source_words[i]: target_words[js[0]]
        for i, js in enumerate(by_source)
        if len(js) == 1 and min(len(source_words[i]), len(target_words[js[0]])) >= MIN_LETTERS
        and source_words[i].isalpha() and target_words[js[0]].isalpha() and source.count(source_words[i]) == 1
    }  # fmt: skip
    chosen = random.Random(source).sample(sorted(pairs), min(number, len(pairs)))
    return {term: pairs[term] for term in chosen}


def has_term(translation: str, term: str) -> bool:
    return bool(re.search(rf"\b{re.escape(term)}\b", translation, re.IGNORECASE))


def main(arguments: list[str] | None = None):
    parser = parser_for_test_sets("benchmarks.glossary", str(__doc__).splitlines()[0], limit=300)
    parser.add_argument("--terms", type=int, nargs="+", default=[1, 2], help="terms per sentence")
    options = parser.parse_args(arguments)

    folder = prepare(options)
    model, tokenizer = load(folder, dtype="float32")
    pipeline, results = TranslationPipeline(model=model, tokenizer=tokenizer), []
    for name, file in named_files(options.sets):
        pairs = list(zip(*read_pairs(file, [0, 1], options.limit), strict=True))
        links = align(model, tokenizer, pairs)
        for number in options.terms:
            terms = [terms_of(*pair, pair_links, number) for pair, pair_links in zip(pairs, links, strict=True)]
            chosen = [
                (pair, pair_terms) for pair, pair_terms in zip(pairs, terms, strict=True) if len(pair_terms) == number
            ]
            with_terms = [
                LongTexts(tokenizer, pipeline.translate, TextSettings(glossary=Glossary(pair_terms))).as_sentence(
                    source
                )
                for (source, _), pair_terms in chosen
            ]
            sentences = {
                "plain": [Sentence(sentence.text, Replaced(sentence.text)) for sentence in with_terms],
                "required": [s._replace(replaced=Replaced(s.text)) for s in with_terms],
                "glossary": with_terms,
            }
            functions = {kind: partial(pipeline.translate_sentences, texts) for kind, texts in sentences.items()}
            seconds = in_turns(functions, options.rounds)
            result = {"set": name, "terms in a sentence": number, "sentences": len(chosen)}
            for kind, function in functions.items():
                translations = [records[0]["translation_text"] for records in function()]
                is_there = [
                    has_term(translation, term)
                    for translation, (_, pair_terms) in zip(translations, chosen, strict=True)
                    for term in pair_terms.values()
                ]
                references = [target for (_, target), _ in chosen]
                result[f"terms there, {kind}"] = round(sum(is_there) / max(1, len(is_there)), 4)
                result |= {f"{metric} {kind}": score for metric, score in quality(translations, references).items()}
            result["glossary / plain"] = ratios(seconds, "glossary", baseline="plain")
            results.append(result)
    write_results(
        options.output, "python -m benchmarks.glossary", settings_of(options, checkpoint=folder.name), results
    )


if __name__ == "__main__":
    main()
