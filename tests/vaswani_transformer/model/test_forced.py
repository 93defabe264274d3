"""Teacher-forced log-probabilities against torch's cross-entropy, and the loop over pairs of texts."""

import pytest
import torch
from tiny_checkpoint import PAIRS, tiny_checkpoint

from vaswani_transformer import load
from vaswani_transformer.model.forced_vaswani import (
    check_offsets,
    encode_pairs,
    forced_log_probs,
    forced_logits,
    map_pairs,
    word_mask,
)


TEXTS = [*PAIRS.items(), ("", "Ein Hund."), ("Two dogs run.", ""), ("zzz " * 20, "Ein Hund. " * 5)]


@pytest.fixture(scope="module")
def loaded():
    return load(tiny_checkpoint(), dtype="float32")


def cross_entropies(model, source_ids, target_ids):
    """-log P of each token of one target, by torch alone: no cache, no mask, no batch."""
    with torch.no_grad():
        logits = model(input_ids=source_ids, decoder_input_ids=target_ids[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits[0], target_ids[0, 1:], reduction="none")


def test_log_probabilities_are_torchs_cross_entropy(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch(source_lengths=(7, 4, 1), target_lengths=(9, 3, 5))
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    start = torch.full((3, 1), model.config.decoder_start_token_id)
    target_ids = torch.cat([start, batch["decoder_input_ids"]], dim=1)
    found, logits = forced_log_probs(model, inputs, target_ids), forced_logits(model, inputs, target_ids)
    assert found.dtype == logits.dtype == torch.float32 and not found.requires_grad
    for row, (source, target) in enumerate(((7, 9), (4, 3), (1, 5))):
        alone = cross_entropies(model, batch["input_ids"][[row], :source], target_ids[[row], : 1 + target])
        torch.testing.assert_close(found[row, :target], -alone, rtol=1e-4, atol=1e-5)
        chosen = logits[row, :target].log_softmax(-1).gather(-1, target_ids[row, 1 : 1 + target, None])[:, 0]
        torch.testing.assert_close(chosen, -alone, rtol=1e-4, atol=1e-5)


def test_without_a_mask_every_source_token_counts(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch(source_lengths=(6, 6), target_lengths=(4, 4))
    start = torch.full((2, 1), model.config.decoder_start_token_id)
    target_ids = torch.cat([start, batch["decoder_input_ids"]], dim=1)
    found = forced_log_probs(model, {"input_ids": batch["input_ids"]}, target_ids)
    expected = [-cross_entropies(model, batch["input_ids"][[i]], target_ids[[i]]) for i in range(2)]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 4, 32])
def test_each_pair_has_in_a_batch_what_it_has_alone(loaded, batch_size):
    model, tokenizer = loaded

    def totals(batch):
        assert len(batch.pairs) <= batch_size
        rows = zip(forced_log_probs(model, batch.inputs, batch.target_ids), batch.target_lengths, strict=True)
        return [row[:length].sum().item() for row, length in rows]

    found = map_pairs(totals, model, tokenizer, TEXTS, batch_size)
    for (source, target), total in zip(TEXTS, found, strict=True):
        source_ids = tokenizer(source, return_tensors="pt")["input_ids"]
        target_ids = tokenizer(text_target=target, return_tensors="pt")["input_ids"]
        start = torch.tensor([[model.config.decoder_start_token_id]])
        alone = cross_entropies(model, source_ids, torch.cat([start, target_ids], dim=1))
        assert total == pytest.approx(-alone.sum().item(), rel=1e-4, abs=1e-3)


def test_pairs_of_similar_length_share_a_batch(loaded):
    lengths = []
    map_pairs(lambda batch: lengths.append(batch.target_lengths) or batch.pairs, *loaded, TEXTS, 3)
    assert [len(batch) for batch in lengths] == [3] * (len(TEXTS) // 3) + [len(TEXTS) % 3] * (len(TEXTS) % 3 > 0)
    assert max(lengths[0]) < min(lengths[-1])
    assert map_pairs(lambda batch: batch.pairs, *loaded, TEXTS, 3) == TEXTS
    assert map_pairs(lambda batch: pytest.fail("there is nothing to do"), *loaded, []) == []


def test_a_function_with_too_few_results_is_refused(loaded):
    with pytest.raises(ValueError, match="zip"):
        map_pairs(lambda batch: [1], *loaded, TEXTS)


def test_offsets_find_the_tokens_in_their_text(loaded):
    batch = encode_pairs(*loaded, TEXTS)
    assert [len(offsets) for offsets in batch.target_offsets] == batch.target_lengths
    for side, all_offsets in enumerate((batch.source_offsets, batch.target_offsets)):
        for pair, offsets in zip(TEXTS, all_offsets, strict=True):
            covered = {i for begin, end in offsets for i in range(begin, end)}
            assert {i for i, character in enumerate(pair[side]) if not character.isspace()} <= covered
            assert max(covered, default=-1) < len(pair[side])


def test_tokens_belong_to_the_words_that_they_overlap():
    spans = [(0, 3), (4, 9)]  # "the house"
    tokens = [(0, 3), (3, 7), (7, 9), (9, 9)]  # " hou" begins with the blank; the end of the sentence has no text
    assert word_mask(tokens, spans).tolist() == [[1, 0, 0, 0], [0, 1, 1, 0]]
    assert word_mask(tokens, []).shape == (0, 4) and word_mask([], spans).shape == (2, 0)


def test_a_slow_tokenizer_is_refused(loaded):
    check_offsets(loaded[1])

    class SlowTokenizer:
        is_fast = False

    with pytest.raises(ValueError, match=r"a fast tokenizer.*SlowTokenizer does not say"):
        check_offsets(SlowTokenizer())
