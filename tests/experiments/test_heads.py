"""What heads are counted to look at, and how many of them a checkpoint can spare."""

from collections import Counter

import numpy as np
import pytest
from tiny_checkpoint import PAIRS, tiny_checkpoint

from experiments import figures, heads
from vaswani_transformer import load


@pytest.fixture(scope="module")
def loaded():
    model, tokenizer = load(tiny_checkpoint())
    return heads.shared_copy(model.float()), tokenizer


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("encoder", "self_attn"), {"queries": 3, "rare": 1, "end": 2, 0: 2, 1: 1}),
        (("decoder", "self_attn"), {"queries": 3, 0: 2, 1: 1}),
        (("decoder", "cross_attn"), {"queries": 3, "end": 2}),
    ],
)
def test_marks_are_those_that_the_attention_can_have(place, expected):
    """Of three queries the second looks one to its right. Of three keys the last is the end, which is never rare."""
    found = heads.marks([0, 2, 2], [7, 8, 1], place, Counter({7: 1, 8: 2, 1: 9}))
    assert {name: count for name, count in found.items() if count} == expected


@pytest.mark.parametrize(
    ("tally", "role"),
    [
        ({"queries": 10, -1: 9, 0: 1, "rare": 0, "end": 0}, "position -1"),
        ({"queries": 10, 0: 10, "rare": 0, "end": 0}, "itself"),
        ({"queries": 10, 1: 8, 0: 2, "rare": 6, "end": 0}, "rare words"),
        ({"queries": 10, "rare": 0, "end": 6}, "end of the sentence"),
        ({"queries": 10, "rare": 5, "end": 5}, ""),
    ],
)
def test_a_role_needs_a_clear_majority(tally, role):
    assert heads.role(Counter(tally), ("encoder", "self_attn", 0, 0))["role"] == role


def test_losses_do_not_depend_on_the_batch_and_come_in_the_order_of_the_pairs(loaded):
    pairs = list(PAIRS.items())
    together, alone = (heads.losses(*loaded, pairs, batch) for batch in (100, 1))
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)
    tokens = [len(loaded[1](text_target=target)["input_ids"]) for _, target in pairs]
    assert together[:, 1].tolist() == tokens
    assert together[:, 0].sum() / together[:, 1].sum() < 0.05, "it knows them by heart"


def test_a_checkpoint_that_knows_its_pairs_has_all_of_bleu(loaded):
    assert heads.bleu_of(*loaded, list(PAIRS.items())) == pytest.approx(100)


def test_every_head_has_a_role_and_shares_of_what_it_looks_at(loaded):
    found = heads.roles_of(*loaded, list(PAIRS))
    assert set(found) == set(heads.head_names(loaded[0]))
    for (stack, kind, _, _), of_head in found.items():
        assert ("place" in of_head) == (kind == "self_attn") and 0 <= of_head["rare"] <= 1
        assert stack == "encoder" or of_head["rare"] == 0


def test_the_report_names_heads_from_one(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    single = [
        {"head": ["encoder", "self_attn", 0, 1], "loss": [0.0, -0.1, 0.1], "place": -1, "at_place": 0.95, "role": "a"},
        {"head": ["decoder", "self_attn", 0, 0], "loss": [0.1, 0.1, 0.1], "place": 0, "at_place": 0.5, "role": ""},
        {"head": ["decoder", "cross_attn", 1, 2], "loss": [0.3, 0.2, 0.4], "role": ""},
    ]
    removed = [{"head": single[0]["head"], "loss": 2.04, "sacrebleu_greedy": 19.0}]
    found = {"tiny": {"single": single, "removed": removed, "loss": 2.0, "sacrebleu_greedy": 20.0}}
    line = heads.report({"checkpoints": found}).split("\n\n")[1].splitlines()[-1]
    assert line == "| `tiny` | 3 | 1 | 1 | cross 2.3 (+0.30 nats) | 20.0 | encoder 1.2, -1 for 95% | 1 a |"
