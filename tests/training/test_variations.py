"""What is made of pairs: the meaning stays, and what must be copied is the same on both sides."""

import os
import random
import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.invented import PATTERNS, invent
from training.variations import KINDS, forms, vary


PAIR = ("Tomke has lived in Bostan since 2013.", "Tomke lebt seit 2013 in Bostan.")
SEEDS = st.integers(0, 10**9)


def tokens(text: str) -> Counter:
    return Counter(re.findall(r"\w+|[^\w\s]", text))


@pytest.mark.parametrize("kind", ["exchanged", "appended", "with_emoji", "in_tags", "in_list"])
@settings(max_examples=200)
@given(seed=SEEDS)
def test_what_is_added_is_the_same_on_both_sides(kind, seed):
    varied = KINDS[kind](random.Random(seed), PAIR)
    added = [tokens(new) - tokens(old) for new, old in zip(varied, PAIR, strict=True)]
    removed = [tokens(old) - tokens(new) for new, old in zip(varied, PAIR, strict=True)]
    assert added[0] == added[1] and added[0] and removed[0] == removed[1]
    assert bool(removed[0]) <= (kind == "exchanged")


@settings(max_examples=200)
@given(seed=SEEDS)
def test_copied_texts_are_their_own_translation(seed):
    source, target = KINDS["copied"](random.Random(seed), PAIR)
    assert source == target and source.strip()


@settings(max_examples=200)
@given(seed=SEEDS, kind=st.sampled_from(sorted(PATTERNS)))
def test_inventions_have_no_fields_left_and_no_spaces_at_their_ends(seed, kind):
    text = invent(random.Random(seed), kind)
    assert text and text == text.strip() and not re.search(r"\{(Word|WORD|n|nn|nnnnn|unit|domain)\}", text)


@settings(max_examples=200)
@given(seed=SEEDS)
def test_typing_errors_are_in_the_source_alone_and_few(seed):
    source, target = KINDS["typing_errors"](random.Random(seed), PAIR)
    assert target == PAIR[1]
    words = list(zip(source.split(" "), PAIR[0].split(" "), strict=True))
    wrong = [(new, old) for new, old in words if new != old]
    assert len(wrong) <= 3
    for new, old in wrong:
        assert abs(len(new) - len(old)) <= 1 and new[0] == old[0]


def test_other_ways_to_write_the_same():
    rng = random.Random(0)
    assert KINDS["capitals"](rng, PAIR) == tuple(side.upper() for side in PAIR)
    assert KINDS["lower_case"](rng, PAIR) == (PAIR[0].lower(), PAIR[1])
    assert KINDS["no_final_punctuation"](rng, PAIR) == tuple(side.rstrip(".") for side in PAIR)
    assert KINDS["no_final_punctuation"](rng, ("no stop", "kein Punkt")) is None
    assert KINDS["typing_errors"](rng, ("a b", "c d")) is None
    assert KINDS["exchanged"](rng, ("nothing shared", "nichts gemein")) is None


def test_a_phrase_in_every_form_that_people_type():
    assert set(forms(("Good night!", "Bonne nuit !"))) == {
        ("Good night!", "Bonne nuit !"),
        ("Good night", "Bonne nuit"),
        ("Good night.", "Bonne nuit."),
        ("good night!", "Bonne nuit !"),
        ("good night", "Bonne nuit"),
        ("good night.", "Bonne nuit."),
        ("GOOD NIGHT!", "BONNE NUIT !"),
        ("GOOD NIGHT", "BONNE NUIT"),
    }
    assert ("how are you", "Wie geht es dir") in forms(("How are you?", "Wie geht es dir?"))
    assert not any(source.endswith(".") for source, _ in forms(("How are you?", "Wie geht es dir?")))
    assert forms(("...", "…")) == [("...", "…")]


def test_a_word_inside_an_address_or_a_tag_is_not_exchanged():
    pair = ("Write to <Tom> or www.Boston.com.", "Schreib an <Tom> oder www.Boston.com.")
    assert KINDS["exchanged"](random.Random(0), pair) is None


def test_several_names_and_numbers_are_exchanged_at_once():
    varied = [KINDS["exchanged"](random.Random(seed), PAIR) for seed in range(200)]
    kept = [sum(word in source for word in ("Tomke", "Bostan", "2013")) for source, _ in varied]
    assert set(kept) == {0, 1, 2}


def test_names_have_letters_of_many_languages_and_are_the_same_for_the_same_seed():
    names = [invent(random.Random(seed), "name") for seed in range(1500)]
    assert names == [invent(random.Random(seed), "name") for seed in range(1500)]
    assert len(set(names)) > 1200 and set("äöüéøłšçñ") <= set("".join(names).lower())


def test_names_are_the_same_in_every_process():
    """Sets have another order in each; Faker makes one of Italy's towns."""
    program = "from training.invented import people; print([people('it_IT', seed).city() for seed in range(20)])"
    lists = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd()},
            cwd=os.getcwd(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(lists) == 1


def test_shares_and_seeds():
    pairs = [(f"sentence {i}.", f"Satz {i}.") for i in range(4000)]
    varied = list(vary(pairs, 0.1, {"capitals": 0.2, "copied": 0.05}, 128, "seed"))
    assert [pair for pair in varied if pair in set(pairs)] == pairs, "each pair once, in its order"
    capitals = sum(source.startswith("SENTENCE") for source, _ in varied)
    joined = [pair for pair in varied if pair[0].count(".") > 1]
    assert capitals == pytest.approx(800, rel=0.15) and len(joined) == pytest.approx(400, rel=0.2)
    assert {source.count(".") for source, _ in joined} == {2, 3, 4, 5, 6}
    assert all(source.count(".") == target.count(".") for source, target in joined)
    assert varied == list(vary(pairs, 0.1, {"capitals": 0.2, "copied": 0.05}, 128, "seed"))
    assert varied != list(vary(pairs, 0.1, {"capitals": 0.2, "copied": 0.05}, 128, "other"))


def test_texts_of_several_have_about_the_length_that_training_takes():
    pairs = [("word " * 20 + f"{i}.", "Wort " * 20 + f"{i}.") for i in range(500)]
    joined = [source for source, _ in vary(pairs, 1.0, {}, 100, "seed") if source.count(".") > 1]
    assert {source.count(".") for source in joined} == {2}, "300 characters have no room for three"
