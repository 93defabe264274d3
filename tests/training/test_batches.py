"""The plan of batches, what of it each process computes, and the tensors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.batches import Shares, collate, padding, plan_batches, share


class Pairs(list):
    """Pairs of token ids, as the corpus gives them."""

    @property
    def lengths(self):
        return np.array([[len(side) for side in pair] for pair in self]).reshape(-1, 2)


def random_pairs(count, longest=12, seed=0):
    rng = np.random.default_rng(seed)
    return Pairs(tuple(rng.integers(2, 99, rng.integers(2, longest)) for _ in range(2)) for _ in range(count))


def sentence_lengths(count=50_000, seed=0):
    """Like those of news in subwords: median 24, long tails, a translation about as long as its source."""
    rng = np.random.default_rng(seed)
    source = rng.lognormal(np.log(24), 0.6, count)
    target = source * rng.lognormal(0.04, 0.2, count)
    lengths = np.stack([source, target], axis=1).round().astype(np.int32) + 1
    return lengths[(lengths.max(axis=1) <= 128) & (lengths.min(axis=1) > 1)]


def greedy(lengths, order, budget):
    """Batches as one would write them: pairs from short to long, a new batch when the next does not fit."""

    def key(i):
        source, target = lengths[i]
        return max(source, target), (target - source) * (-1) ** max(source, target)

    batches, batch, longest = [], [], 0
    for i in sorted(order, key=key):
        longest = max(longest, *lengths[i])
        if batch and longest * (len(batch) + 1) > budget:
            batches.append(batch)
            batch, longest = [], max(lengths[i])
        batch.append(i)
    return [*batches, batch] if batch else batches


LENGTHS = st.lists(st.tuples(st.integers(2, 40), st.integers(2, 40)), min_size=1, max_size=80)


@settings(max_examples=80)
@given(lengths=LENGTHS, budget=st.integers(40, 300), epoch=st.integers(0, 3), data=st.data())
def test_batches_hold_what_is_taken_within_the_budget_and_are_those_of_a_greedy_loop(lengths, budget, epoch, data):
    lengths = np.array(lengths)
    taken = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=100)))
    plan = plan_batches(lengths, taken, budget, seed=1, epoch=epoch)
    assert sorted(np.concatenate(plan)) == sorted(taken)
    assert all(lengths[batch].max() * len(batch) <= budget for batch in plan)
    # Pairs of the same two lengths are drawn by lot, so the batches are alike up to those.
    expected = greedy(lengths.tolist(), taken.tolist(), budget)
    assert sorted(lengths[batch].tolist() for batch in plan) == sorted(lengths[batch].tolist() for batch in expected)


def test_a_pair_longer_than_the_budget_is_a_batch_of_its_own():
    plan = plan_batches(np.array([[50, 3], [3, 60], [2, 2]]), np.arange(3), 40, seed=1, epoch=0)
    assert sorted(batch.tolist() for batch in plan) == [[0], [1], [2]]


def test_the_order_changes_with_seed_and_epoch_alone():
    lengths = sentence_lengths(3000)
    taken = np.arange(len(lengths))

    def plan(seed, epoch):
        return [batch.tolist() for batch in plan_batches(lengths, taken, 500, seed, epoch)]

    first = plan(1, 0)
    np.random.seed(5)  # what else draws numbers is of no influence
    torch.manual_seed(5)
    assert plan(1, 0) == first
    for other in (plan(1, 1), plan(2, 0)):
        assert {frozenset(batch) for batch in other} != {frozenset(batch) for batch in first}, "the same pairs together"
        assert [lengths[batch].max() for batch in other] != [lengths[batch].max() for batch in first], "the same order"
    longest = [lengths[batch].max() for batch in first]
    middle = len(longest) // 2
    assert abs(np.mean(longest[:middle]) - np.mean(longest[middle:])) < 10, "not shuffled: short ones first"


@pytest.mark.parametrize("budget, count", [(4096, 50_000), (25_000, 300_000)])
def test_under_five_percent_of_the_positions_are_padding(budget, count):
    """Of whole batches, and of what each of two processes computes."""
    lengths = sentence_lengths(count)
    plan = plan_batches(lengths, np.arange(len(lengths)), budget, seed=1, epoch=0)
    assert padding(lengths, plan) < 0.05
    positions = np.array([lengths[batch].max(axis=0) * len(batch) for batch in plan]).sum(axis=0)
    assert padding(lengths, plan) == pytest.approx(1 - lengths.sum() / positions.sum())
    assert padding(lengths, [part for batch in plan for part in share(batch, 2) if len(part)]) < 0.05


def test_collate_pads_sources_with_pad_and_labels_with_minus_100():
    pairs = [(np.array([5, 1]), np.array([8, 9, 1])), (np.array([6, 7, 1]), np.array([1])), ([9], [9])]
    batch = collate(pairs, [0, 1], pad_token_id=0)
    assert batch["input_ids"].tolist() == [[5, 1, 0], [6, 7, 1]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["labels"].tolist() == [[8, 9, 1], [1, -100, -100]]
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}


def test_share_keeps_every_pair_in_parts_of_like_size():
    parts = list(share(np.arange(10), 3))
    assert np.concatenate(parts).tolist() == list(range(10))
    assert sorted(map(len, parts)) == [3, 3, 4]
    assert list(map(len, share(np.arange(2), 4))) == [1, 1, 0, 0]


@pytest.mark.parametrize("ranks, micro_batches", [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_the_parts_of_all_processes_make_up_the_batch(ranks, micro_batches):
    pairs = random_pairs(60)
    plan = plan_batches(pairs.lengths, np.arange(60), 60, seed=1, epoch=0)
    for number, batch in enumerate(plan):
        sources, labels = [], []
        for rank in range(ranks):
            parts, tokens = Shares(pairs, plan, 0, micro_batches, rank, ranks)[number]
            assert tokens == sum(len(pairs[i][1]) for i in batch), "not the target tokens of the whole batch"
            assert len(parts) == micro_batches
            for part in parts:
                if part["labels"].eq(-100).all():  # where there are fewer pairs than parts
                    assert len(part["labels"]) == 1
                    continue
                rows = zip(part["input_ids"], part["attention_mask"].bool(), strict=True)
                sources += [row[mask].tolist() for row, mask in rows]
                labels += [row[row != -100].tolist() for row in part["labels"]]
        assert sorted(sources) == sorted(pairs[i][0].tolist() for i in batch)
        assert sorted(labels) == sorted(pairs[i][1].tolist() for i in batch)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loader_goes_on_at_a_batch_and_leaves_the_random_numbers_alone(workers):
    pairs = random_pairs(80)
    plan = plan_batches(pairs.lengths, np.arange(80), 100, seed=1, epoch=0)
    shares = Shares(pairs, plan, 0, 1, 0, 1)
    state = torch.get_rng_state()
    loaded = list(shares.loader(3, workers, pin_memory=False))
    assert torch.equal(torch.get_rng_state(), state), "dropout would go on with other numbers after a resume"
    assert len(loaded) == len(plan) - 3 > 2
    for (parts, tokens), number in zip(loaded, range(3, len(plan)), strict=True):
        expected, count = shares[number]
        assert tokens == count
        assert all(torch.equal(parts[0][key], expected[0][key]) for key in expected[0])
