"""A file of pairs, texts to score, and BLEU as its paper defines it."""

import math
from collections import Counter

from tiny_checkpoint import PAIRS


SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())


def write_tsv(path, pairs):
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    return path


TRANSLATIONS = ["Ein Mann mit T-Shirt fährt Rad.", "Zwei Hunde rennen.", "Das ist ein Haus am See."] * 4
REFERENCES = ["Ein Mann im T-Shirt fährt Fahrrad.", "Zwei Hunde Rennen.", "Das ist ein Haus am See."] * 4


def reference_multi_bleu(translations, references):
    """BLEU of Papineni et al. 2002 over a corpus, as multi-bleu.perl prints it: no smoothing, words between spaces."""
    logs = 0.0
    for n in range(1, 5):
        matched = total = 0
        for translation, reference in zip(translations, references, strict=True):
            grams = [
                Counter(zip(*(w[i:] for i in range(n)), strict=False)) for w in (translation.split(), reference.split())
            ]
            matched += (grams[0] & grams[1]).total()
            total += grams[0].total()
        if not matched:
            return 0.0
        logs += math.log(matched / total) / 4
    lengths = [sum(len(text.split()) for text in side) for side in (translations, references)]
    return 100 * math.exp(logs + min(0.0, 1 - lengths[1] / lengths[0]))
