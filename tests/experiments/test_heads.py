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


def test_losses_are_those_of_the_models_own_loss(loaded):
    """The model's loss in evaluation is the mean over all target tokens of a batch."""
    model, tokenizer = loaded
    for source, target in PAIRS.items():
        inputs = tokenizer([source], text_target=[target], return_tensors="pt")
        [(nats, tokens)] = heads.losses(model, tokenizer, [(source, target)])
        assert nats / tokens == pytest.approx(model(**inputs).loss.item(), rel=1e-4, abs=1e-6)


def test_heads_are_removed_in_the_order_of_what_they_cost(loaded, monkeypatch):
    """Against a search written for this test, over all heads that are left, until half of BLEU is lost."""
    model, tokenizer = loaded
    pairs, names = list(PAIRS.items()), heads.head_names(model)
    monkeypatch.setattr(heads, "CHOSEN", slice(0, 3))
    monkeypatch.setattr(heads, "CANDIDATES", len(names))
    steps = heads.removal(model, tokenizer, names, pairs)

    def cost(removed):
        with heads.without_heads(model, removed):
            return heads.losses(model, tokenizer, pairs[:3])[:, 0].sum()

    removed = []
    for step in steps:
        left = [head for head in names if head not in removed]
        removed.append(min(left, key=lambda head: cost([*removed, head])))
        assert step["head"] == removed[-1]
    best = max(step["sacrebleu_greedy"] for step in steps)
    assert all(step["sacrebleu_greedy"] >= best / 2 for step in steps[:-1])
    assert steps[-1]["sacrebleu_greedy"] < best / 2 or len(steps) == len(names)


@pytest.fixture(scope="module")
def examined():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "checkpoint_path", lambda name: tiny_checkpoint())
        patch.setattr(heads, "CHOSEN", slice(0, 2))
        patch.setattr(heads, "removal", lambda *_: [])
        yield heads.examine("tiny", list(PAIRS.items()), list(PAIRS))


def test_a_checkpoint_is_examined_head_by_head(examined, loaded):
    model, tokenizer = loaded
    pairs = list(PAIRS.items())
    assert [result["head"] for result in examined["single"]] == heads.head_names(model)
    assert examined["sacrebleu_greedy"] == 100 and examined["loss"] < 0.05
    head = heads.most_needed(examined)["head"]
    with heads.without_heads(model, [head]):
        nats, tokens = heads.losses(model, tokenizer, pairs).sum(axis=0)
    value, low, high = heads.most_needed(examined)["loss"]
    assert value == pytest.approx(nats / tokens - examined["loss"], abs=2e-3) and low < value < high
    assert min(result["sacrebleu_greedy"] for result in examined["single"]) < -10, "some head is needed"


def test_the_interval_of_a_change_is_that_of_paired_sentences(examined):
    """By hand, for a head: 1.96 standard errors of a ratio of sums on either side."""
    for result in examined["single"]:
        value, low, high = result["loss"]
        assert value - low == pytest.approx(high - value, abs=2e-4)


def test_heads_without_a_loss_can_all_go(examined):
    assert heads.removable(examined) == 0 and heads.removable({"loss": 1.0, "removed": [{"loss": 1.0}] * 3}) == 3
