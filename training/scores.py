"""Scores of translations, each with its name, signature and 95% confidence interval.

sacreBLEU and chrF are computed on detokenised text. The paper's BLEU and Multi30k's are computed on tokens; their names
say so.
"""

import json
import re
from collections.abc import Sequence

from .variations import Pair


RESAMPLES = 1000  # of the bootstrap; sacrebleu's default

SACREBLEU, CHRF = "sacreBLEU", "chrF"
PAPER = "tokenised BLEU (the paper's)"
PAPER_GERMAN = "tokenised BLEU, compounds split (the paper's)"
LOWER_CASED = "tokenised lower-cased BLEU (Multi30k's)"


def score(
    translations: Sequence[str],
    references: Sequence[str],
    language: str | None = None,
    *,
    paper: bool = False,
    lower_cased: bool = False,
    resamples: int = RESAMPLES,
) -> dict[str, dict]:
    """Score detokenised translations; return the scores by name.

    Each score has "value" and "signature". With `resamples`, it also has "confidence_95", half the width of the
    bootstrap's 95% interval, and "bootstrap_mean", its centre. `paper` and `lower_cased` add tokenised BLEU scores,
    which need the target `language` (a two-letter code) and sacremoses.

    Raises:
        ValueError: There are no translations, the number of references differs, or the language is missing.
    """
    if not translations or len(translations) != len(references):
        raise ValueError(f"{len(translations)} translations cannot be scored with {len(references)} references.")
    if (paper or lower_cased) and not language:
        raise ValueError("Tokenised BLEU needs the target language.")
    import sacrebleu  # not above: --help works without the extra `train`

    scores = {
        SACREBLEU: measure(sacrebleu.BLEU(), translations, references, resamples),
        CHRF: measure(chrf(), translations, references, resamples),
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


def chrf():
    """Return sacreBLEU's chrF. Its bootstrap fails if only some resamples score 0, which has another type."""
    import sacrebleu

    class CHRF(sacrebleu.CHRF):
        def _compute_f_score(self, statistics) -> float:
            return float(super()._compute_f_score(statistics))

    return CHRF()


def measure(metric, translations: Sequence[str], references: Sequence[str], resamples: int) -> dict:
    result = metric.corpus_score(list(translations), [list(references)], n_bootstrap=max(resamples, 1))
    signature = str(metric.get_signature())
    recorded = json.loads(result.format(signature=signature, is_json=True))
    confidence = {"confidence_95": recorded.get("confidence_var"), "bootstrap_mean": recorded.get("confidence_mean")}
    known = {name: value for name, value in confidence.items() if value is not None}
    return {"value": recorded["score"], **known, "signature": signature}


def bootstrap_p_values(
    before: Sequence[str], after: Sequence[str], references: Sequence[str], resamples: int = RESAMPLES
) -> dict[str, float]:
    """Return the p-values of the paired bootstrap (Koehn 2004) for sacreBLEU and chrF, by name."""
    if list(before) == list(after):  # sacrebleu counts strictly larger differences, and would return its smallest p
        return {SACREBLEU: 1.0, CHRF: 1.0}
    import sacrebleu
    from sacrebleu.significance import PairedTest

    systems = [("before", list(before)), ("after", list(after))]
    metrics = {metric.__name__: metric(references=[list(references)]) for metric in (sacrebleu.BLEU, sacrebleu.CHRF)}
    _, (_, *results) = (part.values() for part in PairedTest(systems, metrics, None, "bs", resamples)())
    return {name: result[1].p_value for name, result in zip((SACREBLEU, CHRF), results, strict=True)}


def multi_bleu(translations: Sequence[str], references: Sequence[str], resamples: int) -> dict:
    """Compute the BLEU of Moses' multi-bleu.perl on tokenised text."""
    import sacrebleu

    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    return measure(metric, translations, references, resamples)


class PaperTokeniser:
    """Tokenises as the authors did for their BLEU (tensor2tensor's get_ende_bleu.sh).

    Unicode punctuation becomes plain, Moses tokenises, and German words are split at hyphens. The authors' reference
    for newstest2014 had plain quotes, which the script does not produce; so lower quotes become plain, too.
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
    """Tokenises like Multi30k's lc.norm.tok files: lower-cased, punctuation normalised, then Moses."""

    STEPS = "lc+norm+moses"

    def __init__(self, language: str):
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        self.normalise = MosesPunctNormalizer(language, perl_parity=True).normalize
        self.tokenise = MosesTokenizer(language).tokenize

    def __call__(self, texts: Sequence[str]) -> list[str]:
        # The Perl script sees the end of the line, which one of its rules for quotes depends on.
        return [self.tokenise(self.normalise(f"{text.lower()}\n"), return_str=True) for text in texts]


def moses_signature(scored: dict, language: str, steps: str) -> str:
    """Return sacrebleu's signature with the tokenisation that was done before."""
    import sacremoses

    case = "case:lc" if steps.startswith("lc") else "case:mixed"
    signature = scored["signature"].replace("tok:none", f"tok:{steps}-{language}").replace("case:mixed", case)
    return f"{signature}|sacremoses:{sacremoses.__version__}"


def pick_samples(pairs: Sequence[Pair], translations: Sequence[str], count: int = 12) -> list[dict]:
    """Pick `count` translations, spread evenly from the worst to the best sentence chrF."""
    import sacrebleu

    metric = sacrebleu.CHRF()
    rated = [
        {"source": s, "reference": r, "translation": t, "chrF": round(metric.sentence_score(t, [r]).score, 1)}
        for (s, r), t in zip(pairs, translations, strict=True)
    ]
    rated.sort(key=lambda sample: (sample["chrF"], sample["source"]))
    indices = {round(i * (len(rated) - 1) / max(count - 1, 1)) for i in range(count)}
    return [rated[i] for i in sorted(indices)]
