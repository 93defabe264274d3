"""Scores a model on test sets. Every score is named as what it is, with its signature and 95% confidence.

python -m training.evaluate MODEL --recipe training/recipes/mini-en-de.yaml --data DATA   # a recipe's test sets
python -m training.evaluate MODEL --tsv newstest2014.tsv.xz --tsv newstest2013.tsv.xz     # columns of TSV files
python -m training.evaluate MODEL --source test.en --reference test.de                    # two text files
"""

import argparse
import json
import platform
import re
import time
from collections.abc import Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sacrebleu
import torch
import transformers
from tqdm import tqdm
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from vaswani_transformer import catalogue

from .files import read_lines, whole_file
from .parallel_text import Pair, read_pairs
from .recipe import Source, load_recipe


RESAMPLES = 1000  # of the bootstrap, as sacrebleu's own default

SACREBLEU, CHRF = "sacreBLEU", "chrF"
PAPER = "tokenised BLEU (the paper's)"
PAPER_GERMAN = "tokenised BLEU, compounds split (the paper's)"
LOWER_CASED = "tokenised lower-cased BLEU (Multi30k's)"


# Translating ---------------------------------------------------------------------------------------------------------


@torch.no_grad()  # not inference_mode: a training run goes on with what the model may keep
def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    batch_size: int = 32,
    progress: bool = False,
    **generate_kwargs: Any,
) -> list[str]:
    """Translations in the order of `texts`; those of like length share a batch, the longest come first.

    The model stays on its device, and in training mode if it was. An empty text translates to "".
    """
    lengths = [len(ids) for ids in tokenizer(list(texts), verbose=False)["input_ids"]] if texts else []
    order = sorted((i for i in range(len(texts)) if texts[i].strip()), key=lambda i: -lengths[i])
    translations = [""] * len(texts)
    with evaluation_mode(model), tqdm(total=len(texts), disable=None if progress else True, leave=False) as bar:
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            inputs = tokenizer([texts[i] for i in batch], padding=True, return_tensors="pt", verbose=False)
            inputs = {name: inputs[name].to(model.device) for name in ("input_ids", "attention_mask")}
            sequences = model.generate(**inputs, **generate_kwargs)
            for i, text in zip(batch, tokenizer.batch_decode(sequences, skip_special_tokens=True), strict=True):
                translations[i] = text
            bar.update(len(batch))
    return translations


@contextmanager
def evaluation_mode(model: torch.nn.Module):
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


# Scoring -------------------------------------------------------------------------------------------------------------


def score(
    translations: Sequence[str],
    references: Sequence[str],
    language: str | None = None,
    *,
    paper: bool = False,
    lower_cased: bool = False,
    resamples: int = RESAMPLES,
) -> dict[str, dict]:
    """Scores of detokenised text, by the name of each.

    Each has "value" and "signature", and with `resamples` also "confidence_95", half the width of the bootstrap's 95%
    interval, and "bootstrap_mean", its centre. `paper` and `lower_cased` add tokenised BLEU scores, which need the
    target `language` (a two-letter code) and sacremoses. They are no sacreBLEU scores: the names say so.

    Raises:
        ValueError: there are no translations, or not as many references, or the language is not given.
    """
    if not translations or len(translations) != len(references):
        raise ValueError(f"{len(translations)} translations cannot be scored with {len(references)} references.")
    if (paper or lower_cased) and not language:
        raise ValueError("Tokenised BLEU needs the target language.")
    scores = {
        SACREBLEU: measure(sacrebleu.BLEU(), translations, references, resamples),
        CHRF: measure(sacrebleu.CHRF(), translations, references, resamples),
    }
    if paper:
        name = PAPER_GERMAN if language == "de" else PAPER
        scores[name] = multi_bleu(*map(PaperTokeniser(language), (translations, references)), resamples)
        scores[name]["signature"] = moses_signature(scores[name], language, PaperTokeniser.steps(language))
    if lower_cased:
        sides = map(Multi30kTokeniser(language), (translations, references))
        scores[LOWER_CASED] = multi_bleu(*sides, resamples)
        scores[LOWER_CASED]["signature"] = moses_signature(scores[LOWER_CASED], language, Multi30kTokeniser.STEPS)
    return scores


def measure(metric, translations: Sequence[str], references: Sequence[str], resamples: int) -> dict:
    result = metric.corpus_score(list(translations), [list(references)], n_bootstrap=max(resamples, 1))
    signature = str(metric.get_signature())
    recorded = json.loads(result.format(signature=signature, is_json=True))
    confidence = {"confidence_95": recorded.get("confidence_var"), "bootstrap_mean": recorded.get("confidence_mean")}
    known = {name: value for name, value in confidence.items() if value is not None}
    return {"value": recorded["score"], **known, "signature": signature}


def multi_bleu(translations: Sequence[str], references: Sequence[str], resamples: int) -> dict:
    """What Moses' multi-bleu.perl computes of tokenised text."""
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    return measure(metric, translations, references, resamples)


class PaperTokeniser:
    """Tokenises as the authors did for their BLEU (tensor2tensor's get_ende_bleu.sh).

    Unicode punctuation becomes plain, Moses tokenises, and German words are split at hyphens. Their reference for
    newstest2014 had plain quotes, of which the script says nothing; hence lower quotes become plain as well.
    """

    def __init__(self, language: str):
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        self.plain = MosesPunctNormalizer(language).replace_unicode_punct
        self.tokenise = MosesTokenizer(language).tokenize
        self.splits = language == "de"

    @staticmethod
    def steps(language: str) -> str:
        return "plain-punctuation+moses" + ("+compounds" if language == "de" else "")

    def __call__(self, texts: Sequence[str]) -> list[str]:
        lines = [self.tokenise(self.plain(text).replace("„", '"'), return_str=True) for text in texts]
        return [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line) for line in lines] if self.splits else lines


class Multi30kTokeniser:
    """Tokenises as Multi30k's own lc.norm.tok files were: lower-cased, punctuation normalised, then Moses."""

    STEPS = "lc+norm+moses"

    def __init__(self, language: str):
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        self.normalise = MosesPunctNormalizer(language, perl_parity=True).normalize
        self.tokenise = MosesTokenizer(language).tokenize

    def __call__(self, texts: Sequence[str]) -> list[str]:
        # The Perl script sees the line's end, on which one of its rules for quotes depends.
        return [self.tokenise(self.normalise(f"{text.lower()}\n"), return_str=True) for text in texts]


def moses_signature(scored: dict, language: str, steps: str) -> str:
    """The signature with the tokenisation that sacrebleu did not see."""
    import sacremoses

    case = "case:lc" if steps.startswith("lc") else "case:mixed"
    signature = scored["signature"].replace("tok:none", f"tok:{steps}-{language}").replace("case:mixed", case)
    return f"{signature}|sacremoses:{sacremoses.__version__}"


def evaluate_pairs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[Pair],
    *,
    num_beams: int | None = None,
    batch_size: int = 32,
    resamples: int = 0,
    language: str | None = None,
    paper: bool = False,
    lower_cased: bool = False,
    progress: bool = False,
    **generate_kwargs: Any,
) -> tuple[dict[str, dict], list[str]]:
    """(The scores of `score`, the translations) of pairs of source and reference.

    The model is used where it is and left as it was, so that a training run can call this between two steps; then
    `num_beams=1` is the fastest. Settings that are not given are the model's own `generation_config`.
    """
    if num_beams is not None:
        generate_kwargs["num_beams"] = num_beams
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    translations = translate(model, tokenizer, sources, batch_size, progress, **generate_kwargs)
    scores = score(translations, references, language, paper=paper, lower_cased=lower_cased, resamples=resamples)
    return scores, translations


def pick_samples(pairs: Sequence[Pair], translations: Sequence[str], count: int = 12) -> list[dict]:
    """`count` translations spread evenly from the worst to the best sentence chrF, so that the choice is nobody's."""
    metric = sacrebleu.CHRF()
    rated = [
        {"source": s, "reference": r, "translation": t, "chrF": round(metric.sentence_score(t, [r]).score, 1)}
        for (s, r), t in zip(pairs, translations, strict=True)
    ]
    rated.sort(key=lambda sample: (sample["chrF"], sample["source"]))
    places = {round(i * (len(rated) - 1) / max(count - 1, 1)) for i in range(count)}
    return [rated[i] for i in sorted(places)]


# The command ---------------------------------------------------------------------------------------------------------


def read_test_sets(arguments: argparse.Namespace) -> dict[str, list[Pair]]:
    """The pairs of every test set, by its name.

    Raises:
        OSError, ValueError: one cannot be read, has no pairs, or not as many references as sources.
    """
    sets: dict[str, list[Pair]] = {}

    def add(name: str, pairs: list[Pair], path: object):
        if not pairs:
            raise ValueError(f"{path} has no pairs.")
        sets[str(path) if name in sets else name] = pairs

    if arguments.recipe:
        recipe = load_recipe(arguments.recipe)
        for source in recipe.data.test:
            add(source.title, read_pairs(source, arguments.data), source.path or source.dataset)
    for path in arguments.tsv:
        columns = {"source_column": arguments.source_column, "target_column": arguments.target_column}
        add(path.name, read_pairs(Source(path=str(path), **columns), "."), path)
    if arguments.source:
        sides = [list(read_lines(path)) for path in (arguments.source, arguments.reference)]
        if len(sides[0]) != len(sides[1]):
            raise ValueError(f"{arguments.source} has {len(sides[0])} lines, {arguments.reference} {len(sides[1])}.")
        add(arguments.source.name, list(zip(*sides, strict=True)), arguments.source)
    if not sets:
        raise ValueError(f"{arguments.recipe} names no test sets (data.test).")
    return sets


def target_language(arguments: argparse.Namespace, model: str) -> str | None:
    """As given, or as the recipe or the model's own about.json or training.json says."""
    if arguments.target_language:
        return arguments.target_language.lower()
    if arguments.recipe:
        return load_recipe(arguments.recipe).target_language
    for name in ("about.json", "training.json"):
        if (file := Path(model) / name).is_file():
            facts = json.loads(file.read_text(encoding="utf-8"))
            return facts.get("recipe", facts).get("target_language")
    return None


def format_scores(scores: dict[str, dict]) -> str:
    """A line for each score: name, value with its confidence, signature."""
    width = max(map(len, scores))
    lines = []
    for name, scored in scores.items():
        confidence = f" ± {scored['confidence_95']:.2f}" if "confidence_95" in scored else ""
        lines.append(f"  {name:<{width}}  {scored['value']:6.2f}{confidence}  {scored['signature']}")
    return "\n".join(lines)


def save_hypotheses(folder: Path, name: str, translations: Sequence[str]):
    """One translation a line, in the order of the test set."""
    with whole_file(folder / f"{file_name(name)}.txt") as file:
        file.write_text("".join(" ".join(t.split()) + "\n" for t in translations), encoding="utf-8")


def file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("_.")


def read_command_line() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        prog="python -m training.evaluate",
        usage="%(prog)s MODEL [options]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="a folder, a checkpoint that ships with the package, a Hub id")
    sets = parser.add_argument_group("test sets; several can be given")
    sets.add_argument("--recipe", type=Path, help="the recipe's test sets")
    sets.add_argument("--data", type=Path, default=Path("."), help="the folder that the recipe's paths start from")
    sets.add_argument("--tsv", type=Path, action="append", default=[], help="a TSV file, .xz and .gz too; repeatable")
    sets.add_argument("--source-column", type=int, default=0, metavar="I", help="of --tsv, from 0; default: 0")
    sets.add_argument("--target-column", type=int, default=1, metavar="I", help="of --tsv, from 0; default: 1")
    sets.add_argument("--source", type=Path, help="a text file, one sentence a line")
    sets.add_argument("--reference", type=Path, help="its translation, line by line")
    scores = parser.add_argument_group("scores; sacreBLEU (cased, 13a) and chrF are always given")
    scores.add_argument(
        "--paper-bleu", action="store_true", help="also the paper's: Moses tokens, German compounds split, multi-bleu"
    )
    scores.add_argument(
        "--lowercase-tokenised", action="store_true", help="also Multi30k's: lower-cased Moses tokens, multi-bleu"
    )
    scores.add_argument(
        "--target-language", metavar="CODE", help="for these two, e.g. de; default: as the recipe or the model says"
    )
    scores.add_argument(
        "--resamples", type=int, default=RESAMPLES, metavar="N", help=f"of the bootstrap, or 0; default: {RESAMPLES}"
    )
    search = parser.add_argument_group("translation")
    search.add_argument("--beams", type=int, metavar="N", help="default: the model's own; the paper's is 4")
    search.add_argument("--alpha", type=float, help="length penalty; default: the model's own; the paper's is 0.6")
    search.add_argument("--batch-size", type=int, default=32, metavar="N", help="sentences; default: 32")
    search.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, mps; default: cpu")
    results = parser.add_argument_group("results")
    results.add_argument(
        "--output", type=Path, metavar="FILE", help="JSON with scores and samples, the tokenised scores among them"
    )
    results.add_argument("--hypotheses", type=Path, metavar="FOLDER", help="a text file of translations for each set")
    arguments = parser.parse_args()
    if not (arguments.recipe or arguments.tsv or arguments.source or arguments.reference):
        parser.error("give --recipe, --tsv, or --source and --reference")
    if bool(arguments.source) != bool(arguments.reference):
        parser.error("--source and --reference go together")
    for name in ("batch_size", "beams"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if arguments.output and arguments.output.is_dir():
        parser.error(f"--output: {arguments.output} is a folder, not a file")
    if arguments.hypotheses and arguments.hypotheses.is_file():
        parser.error(f"--hypotheses: {arguments.hypotheses} is a file, not a folder")
    return parser, arguments


def main():
    parser, arguments = read_command_line()
    tokenised = arguments.paper_bleu or arguments.lowercase_tokenised
    try:
        sets = read_test_sets(arguments)
        if arguments.hypotheses and len({file_name(name) for name in sets}) < len(sets):
            raise ValueError("--hypotheses: the names of two test sets give the same file name.")
        source = catalogue.resolve(arguments.model)
        language = target_language(arguments, source)
        if tokenised and not language:
            raise ValueError("tokenised BLEU needs --target-language: neither a recipe nor the model names it.")
        if tokenised and not find_spec("sacremoses"):
            raise ValueError("tokenised BLEU needs sacremoses: pip install sacremoses")
        model, tokenizer = load(source, arguments.device)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    # What is recorded is complete where it can be: which score a paper gives is not known beforehand.
    record_all = bool(arguments.output and language and find_spec("sacremoses"))

    given = {"num_beams": arguments.beams, "length_penalty": arguments.alpha}
    settings = {name: value for name, value in given.items() if value is not None}
    results = []
    for name, pairs in sets.items():
        start = time.perf_counter()
        sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
        translations = translate(model, tokenizer, sources, arguments.batch_size, progress=True, **settings)
        seconds = time.perf_counter() - start
        scores = score(
            translations,
            references,
            language,
            paper=arguments.paper_bleu or record_all,
            lower_cased=arguments.lowercase_tokenised or record_all,
            resamples=arguments.resamples,
        )
        shown = {SACREBLEU, CHRF} | ({PAPER, PAPER_GERMAN} if arguments.paper_bleu else set())
        shown |= {LOWER_CASED} if arguments.lowercase_tokenised else set()
        print(f"{name}: {len(pairs):,} sentences in {seconds:.0f} s")
        print(format_scores({n: s for n, s in scores.items() if n in shown}), flush=True)
        if arguments.hypotheses:
            save_hypotheses(arguments.hypotheses, name, translations)
        samples = pick_samples(pairs, translations)
        results.append(
            {"dataset": name, "sentences": len(pairs), "seconds": round(seconds, 1), **scores, "samples": samples}
        )
    if arguments.output:
        with whole_file(arguments.output) as file:
            report = {**circumstances(arguments, model, settings), "results": results}
            file.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(source: str, device: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model on its device, and its tokenizer.

    Raises:
        ValueError: one of them cannot be loaded, or there is no such device; the message names it.
    """
    transformers.utils.logging.disable_progress_bar()
    try:
        model = AutoModelForSeq2SeqLM.from_pretrained(source)
        tokenizer = AutoTokenizer.from_pretrained(source)
    except Exception as error:  # whatever is wrong with a folder or a connection, its first paragraph says it
        raise ValueError(f"cannot load {source}: {str(error).strip().partition(chr(10) * 2)[0]}") from error
    try:
        return model.to(device), tokenizer
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"cannot use the device {device!r}: {str(error).partition(chr(10))[0]}") from error


def circumstances(arguments: argparse.Namespace, model: PreTrainedModel, settings: dict) -> dict:
    """How the scores came about."""
    config = model.generation_config
    return {
        "command": f"python -m training.evaluate {arguments.model}"
        + (f" --recipe {arguments.recipe} --data DATA" if arguments.recipe else "")
        + "".join(f" --tsv {path.name}" for path in arguments.tsv)
        + (f" --source {arguments.source.name} --reference {arguments.reference.name}" if arguments.source else ""),
        "beams": settings.get("num_beams", config.num_beams),
        "alpha": settings.get("length_penalty", config.length_penalty),
        "batch_size": arguments.batch_size,
        "device": arguments.device,
        "threads": torch.get_num_threads(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "sacrebleu": sacrebleu.__version__,
        },
    }


if __name__ == "__main__":
    main()
