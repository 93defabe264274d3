"""Scores: sacreBLEU's with its bootstrap, and the tokenised BLEU of the paper and of Multi30k."""

import pytest
import sacrebleu
from scored_pairs import REFERENCES, TRANSLATIONS, reference_multi_bleu

from training.scores import (
    CHRF,
    LOWER_CASED,
    PAPER,
    PAPER_GERMAN,
    SACREBLEU,
    Multi30kTokeniser,
    PaperTokeniser,
    bootstrap_p_values,
    multi_bleu,
    pick_samples,
    score,
)


# Tokenised BLEU -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "translations, references",
    [
        (["the cat sat on the mat .", "a b c d e"], ["the cat is on the mat .", "a b c d f"]),
        (["the the the the the the", "one two three four"], ["the cat the dog", "one two three four five six seven"]),
        (["a b c"], ["a b c"]),  # no four words in a row
        (["A ##AT##-##AT## b c d ."], ["a ##AT##-##AT## b c d ."]),
        (["x &quot; y z . w", ""], ["x &quot; y z . v", "something else here now"]),
    ],
    ids=["two sentences", "repeated words, short", "no 4-grams", "cased", "an empty translation"],
)
def test_multi_bleu_is_that_of_the_script(translations, references):
    expected = reference_multi_bleu(translations, references)
    assert multi_bleu(translations, references, 0)["value"] == pytest.approx(expected, abs=0.005)


def test_moses_tokens_of_the_paper():
    """The expected lines are what tokenizer.perl -l de prints, then split at hyphens."""
    lines = [
        "„Rich-Text-Editor“ z. B. kostet 3.50 € – d.h. wenig… (ca. 5%)",
        "E-Mail: a-b-c, Müller's Hund & Katz'.",
    ]
    assert PaperTokeniser("de")(lines) == [
        "&quot; Rich ##AT##-##AT## Text ##AT##-##AT## Editor &quot; z. B. kostet 3.50 € – d.h. wenig ... ( ca. 5 % )",
        "E ##AT##-##AT## Mail : a ##AT##-##AT## b-c , Müller &apos; s Hund &amp; Katz &apos; .",
    ]
    assert PaperTokeniser("fr")(["l'arc-en-ciel d'aujourd'hui"]) == ["l&apos; arc-en-ciel d&apos; aujourd&apos; hui"]


def test_moses_tokens_of_multi30k():
    """The expected lines are what lowercase, normalize-punctuation.perl and tokenizer.perl print one after another."""
    lines = ['Er sagte: "Nein."', "Ein „ÄLTERER“ Mann – mit T-Shirt", "A girl's   dog"]
    assert Multi30kTokeniser("de")(lines[:2]) == [
        "er sagte : &quot; nein &quot; .",
        "ein &quot; älterer &quot; mann - mit t-shirt",
    ]
    assert Multi30kTokeniser("en")(lines[2:]) == ["a girl &apos;s dog"]


# Scores ---------------------------------------------------------------------------------------------------------------


def test_scores_are_sacrebleus_with_its_own_bootstrap():
    scores = score(TRANSLATIONS, REFERENCES)
    assert list(scores) == [SACREBLEU, CHRF]
    for name, metric in ((SACREBLEU, sacrebleu.BLEU()), (CHRF, sacrebleu.CHRF())):
        expected = metric.corpus_score(TRANSLATIONS, [REFERENCES], n_bootstrap=1000)
        assert scores[name]["value"] == round(expected.score, 2)
        assert scores[name]["signature"] == str(metric.get_signature())
        assert f"{scores[name]['bootstrap_mean']:.2f} ± {scores[name]['confidence_95']:.2f}" in str(expected)
    assert "tok:13a" in scores[SACREBLEU]["signature"] and "bs:1000" in scores[SACREBLEU]["signature"]
    assert "confidence_95" not in score(TRANSLATIONS, REFERENCES, resamples=0)[SACREBLEU]


def test_equal_translations_are_not_a_significant_change():
    assert bootstrap_p_values(TRANSLATIONS, list(TRANSLATIONS), REFERENCES) == {SACREBLEU: 1.0, CHRF: 1.0}
    changed = bootstrap_p_values(["nothing"] * len(REFERENCES), REFERENCES, REFERENCES, resamples=100)
    assert max(changed.values()) < 0.05


def test_resamples_without_a_common_letter():
    scores = score(["abc def", "qqqqq"], ["abc dxf", "zzzzzz"], resamples=20)
    assert 0 < scores[CHRF]["confidence_95"] <= 100


def test_no_score_can_be_taken_for_another():
    scores = score(TRANSLATIONS, REFERENCES, "de", paper=True, lower_cased=True)
    assert list(scores) == [SACREBLEU, CHRF, PAPER_GERMAN, LOWER_CASED]
    assert len({scored["value"] for scored in scores.values()}) == 4
    assert len({scored["signature"] for scored in scores.values()}) == 4
    assert (
        "case:mixed" in scores[PAPER_GERMAN]["signature"] and "moses+compounds-de" in scores[PAPER_GERMAN]["signature"]
    )
    assert "case:lc" in scores[LOWER_CASED]["signature"] and "tok:none" not in scores[LOWER_CASED]["signature"]
    french = score(["a b c d"], ["a b c e"], "fr", paper=True, resamples=0)
    assert PAPER in french and "compounds" not in french[PAPER]["signature"]


def test_scores_are_those_of_the_tokens():
    scores = score(TRANSLATIONS, REFERENCES, "de", paper=True, lower_cased=True, resamples=0)
    for name, tokenise in ((PAPER_GERMAN, PaperTokeniser("de")), (LOWER_CASED, Multi30kTokeniser("de"))):
        expected = reference_multi_bleu(tokenise(TRANSLATIONS), tokenise(REFERENCES))
        assert scores[name]["value"] == pytest.approx(expected, abs=0.005)


def test_scores_need_as_many_references_and_a_language():
    with pytest.raises(ValueError, match="2 translations cannot be scored with 1 references"):
        score(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="0 translations"):
        score([], [])
    with pytest.raises(ValueError, match="target language"):
        score(["a"], ["a"], paper=True)


def test_samples_are_spread_from_worst_to_best():
    pairs = [(str(i), "abcdefghij") for i in range(50)]
    samples = pick_samples(pairs, ["abcdefghij"[: i // 5] for i in range(50)], count=5)
    ratings = [sample["chrF"] for sample in samples]
    assert len(samples) == 5 and ratings == sorted(ratings) and ratings[0] == 0
    assert len(pick_samples(pairs[:2], ["", "abc"])) == 2
