"""The page's own sentences: the included checkpoints translate them correctly and attend to the right words."""

from functools import cache

import pytest
import torch

from vaswani_transformer import checkpoint_path, load
from vaswani_transformer.explorer.responses import EXAMPLES, OPENING
from vaswani_transformer.inspection.inspection import Inspection, inspect_translation


# Checked by hand; a retrained checkpoint may need other sentences.
TRANSLATIONS = {
    "mini-en-de": {
        "opening": "Ich kann das Buch nicht lesen, weil es zu schwierig ist.",
        "long-distance": "Er schaltete den Fernseher in der Küche aus.",
        "anaphora": "Die Frau hat ihre Tasche am Bahnhof vergessen.",
        "structure": "Das Buch, das ich gestern gelesen habe, war sehr interessant.",
    },
    "mini-en-fr": {
        "opening": "Je ne peux pas lire le livre parce qu'il est trop difficile.",
        "long-distance": "Il a éteint la télévision dans la cuisine.",
        "anaphora": "La femme a oublié son sac à la gare.",
        "structure": "Le livre que j'ai lu hier était très intéressant.",
    },
    "mini-de-en": {
        "opening": "The man didn't buy the car because it was too expensive.",
        "long-distance": "The child read a long book at school yesterday.",
        "anaphora": "The mother brought her child to the park.",
        "structure": "I read the book you gave me yesterday.",
    },
    "mini-fr-en": {
        "opening": "The dog didn't cross the street because he was too tired.",
        "long-distance": "They both left the city.",
        "anaphora": "The king and his wife live in a big house.",
        "structure": "The book I read yesterday was very interesting.",
    },
}
PRONOUNS = {"en": ("it", "book"), "de": ("es", "Auto"), "fr": ("il", "chien")}  # of the opening, and its noun
# Words of the opening's translation, and the source words that the last cross-attention aligns with them.
ALIGNED = {
    "mini-en-de": {"kann": "cannot", "Buch": "book", "lesen": "read", "weil": "because", "es": "it", "ist": "is"},
    "mini-en-fr": {"lire": "read", "livre": "book", "est": "is", "trop": "too", "difficile": "difficult"},
    "mini-de-en": {"man": "Mann", "car": "Auto", "buy": "kaufte", "because": "weil", "it": "es"},
    "mini-fr-en": {"dog": "chien", "street": "rue", "because": "parce", "he": "il", "tired": "fatigué"},
}
SENTENCES = [(checkpoint, kind) for checkpoint, texts in TRANSLATIONS.items() for kind in texts]


@cache
def loaded(checkpoint: str):
    return load(checkpoint_path(checkpoint), dtype="float32")


@cache
def inspected(checkpoint: str, text: str) -> Inspection:
    return inspect_translation(*loaded(checkpoint), text)


def inspection_of(checkpoint: str, kind: str) -> Inspection:
    source = checkpoint.split("-")[1]
    return inspected(checkpoint, OPENING[source] if kind == "opening" else EXAMPLES[source][kind][0])


def words(tokens) -> list[str]:
    """Return the word of each token, with the pieces that follow it."""
    texts = [token.text.strip() for token in tokens]
    for i in range(len(texts) - 2, -1, -1):
        if tokens[i].kind == "word" and tokens[i + 1].kind == "part" and tokens[i + 1].text[:1].isalpha():
            texts[i] += texts[i + 1]
    return texts


@pytest.mark.parametrize(("checkpoint", "kind"), SENTENCES)
def test_the_translation_is_correct(checkpoint, kind):
    assert inspection_of(checkpoint, kind).translation == TRANSLATIONS[checkpoint][kind]


def strongest_row(inspection: Inspection, first: str, second: str) -> tuple[torch.Tensor, int]:
    """Return the weights [S] of the encoder head that attends most from a word to another, and the other's index."""
    texts = [token.text.strip() for token in inspection.source]
    row, column = (next(i for i, text in enumerate(texts) if word.startswith(text)) for word in (first, second))
    encoder = (w for name, w in inspection.tensors.items() if name.startswith("encoder") and name.endswith("weights"))
    rows = torch.cat([weights[:, row] for weights in encoder])
    return rows[rows[:, column].argmax()], column


@pytest.mark.parametrize("checkpoint", TRANSLATIONS)
def test_the_pronoun_of_the_opening_attends_most_to_its_noun(checkpoint):
    inspection = inspection_of(checkpoint, "opening")
    weights, noun = strongest_row(inspection, *PRONOUNS[checkpoint.split("-")[1]])
    assert weights[noun] > 2 / len(weights)
    assert weights.argmax() == noun


@pytest.mark.parametrize(("checkpoint", "kind"), [(c, k) for c in TRANSLATIONS for k in ("long-distance", "anaphora")])
def test_a_head_links_the_words_of_the_papers_figures(checkpoint, kind):
    inspection = inspection_of(checkpoint, kind)
    first, second = EXAMPLES[checkpoint.split("-")[1]][kind][1]
    weights, column = strongest_row(inspection, first, second)
    assert weights[column] > 2 / len(weights)


@pytest.mark.parametrize("checkpoint", TRANSLATIONS)
def test_the_openings_words_are_aligned(checkpoint):
    inspection = inspection_of(checkpoint, "opening")
    last = max(name for name in inspection.tensors if name.endswith("cross_attn.weights"))
    weights = inspection.tensors[last].mean(dim=0)
    source, outputs = words(inspection.source), words(inspection.outputs)
    best = {word: source[int(weights[i].argmax())] for i, word in enumerate(outputs)}
    assert {word: best[word] for word in ALIGNED[checkpoint]} == ALIGNED[checkpoint]
