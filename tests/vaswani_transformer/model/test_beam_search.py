"""Beam search: against the paper's, written from the paper alone, and our loop against the library's."""

import copy
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from generation_examples import (
    BATCH,
    EOS,
    MODEL,
    PAD,
    PAPER,
    SOURCES,
    LibrarySearch,
    assert_well_formed,
    ending_model,
    generated,
    log_probability,
    padded,
    paper_search,
    shapes,
)
from paper_beam_search import length_penalty
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from vaswani_transformer.model.attention_vaswani import CACHE
from vaswani_transformer.model.beam_search_vaswani import best_tokens


# Against the paper's --------------------------------------------------------------------------------------------------


BLOCKS, MODELS = 5, 12  # about 150 sentences


@pytest.mark.parametrize("block", [pytest.param(0, marks=pytest.mark.quick), *range(1, BLOCKS)])
def test_agrees_with_the_paper(block):
    """Token for token on random models, and the scores; where rounding decides, either answer would do."""
    compared = too_close = 0
    lengths_of_ended = set()
    for seed in range(block * MODELS, (block + 1) * MODELS):
        rng = random.Random(seed)
        vocab_size = rng.randint(7, 50)
        share = rng.choice(["all", "target", "none"])
        target_vocab_size = vocab_size if share == "all" else rng.randint(7, 50)
        model = ending_model(
            seed,
            vocab_size=vocab_size,
            decoder_vocab_size=target_vocab_size,
            share_embeddings=share,
            norm_position=rng.choice(["post", "pre"]),
        )
        sources = [[rng.randrange(1, vocab_size) for _ in range(rng.randint(1, 8))] for _ in range(rng.randint(1, 4))]
        prefix_length = rng.choice([0, 0, 0, 1, 3])
        prefixes = [[rng.randrange(2, target_vocab_size) for _ in range(prefix_length)] for _ in sources]
        beams, alpha = rng.randint(1, 5), rng.choice([0.0, 0.6, 1.0, rng.uniform(0.0, 2.0)])
        n_best, limit = rng.randint(1, beams), rng.choice([None, *[rng.randint(1, 30)] * 4])
        with_scores = rng.random() < 0.4
        offset = rng.choice([None, None, 0, 1, 10])

        options = dict(num_beams=beams, num_return_sequences=n_best, max_new_tokens=limit)
        if beams > 1:
            options |= dict(length_penalty=alpha, early_stopping="never")
            model.generation_config.length_penalty_offset = offset
        if prefix_length:
            options["decoder_input_ids"] = torch.tensor(prefixes)
        if with_scores:
            options |= dict(return_dict_in_generate=True, output_scores=True)
        output = model.generate(padded(sources, rng.choice(["left", "right"])), **options)
        sequences = output.sequences if with_scores else output
        if not with_scores:
            assert_well_formed(sequences)

        for i, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
            room = len(source) + 50 - prefix_length if limit is None else limit
            reference = paper_search(
                model, source, beams, alpha, room, n_best, prefix, offset=5 if offset is None else offset
            )
            if reference.margin < 1e-5:
                too_close += 1
                continue
            compared += 1
            rows = range(i * n_best, (i + 1) * n_best)
            for row, hypothesis in zip(rows, reference.hypotheses, strict=True):
                ours, expected_output = sequences[row].tolist()[1:], prefix + hypothesis.tokens
                assert ours[: len(expected_output)] == expected_output, f"model {seed}, sentence {i}"
                assert set(ours[len(expected_output) :]) <= {PAD, EOS}
                if with_scores and beams > 1:
                    assert output.sequences_scores[row].item() == pytest.approx(hypothesis.score, abs=1e-4)
                if hypothesis.tokens[-1] == EOS:
                    lengths_of_ended.add(len(hypothesis.tokens))
    assert compared >= 20 and too_close <= 2
    assert len(lengths_of_ended) >= 5 and max(lengths_of_ended) > 8


def test_alpha_prefers_longer():
    """The best of all that were found changes with alpha, as the paper's penalty would have it."""
    lengths = {}
    for alpha in (0.0, 2.0):
        for seed in range(8):
            output = ending_model(seed).generate(BATCH, **{**PAPER, "length_penalty": alpha}, max_new_tokens=20)
            lengths[alpha] = lengths.get(alpha, 0) + sum(map(len, generated(output)))
    assert lengths[2.0] > lengths[0.0]


def test_transition_scores_add_up_to_the_score():
    """`compute_transition_scores` and the paper's penalty give back `sequences_scores`."""
    model = ending_model(3)
    output = model.generate(
        BATCH, **PAPER, num_return_sequences=3, max_new_tokens=12, return_dict_in_generate=True, output_scores=True
    )
    steps = model.compute_transition_scores(output.sequences, output.scores, output.beam_indices)
    lengths = (output.beam_indices >= 0).sum(dim=-1)
    penalties = torch.tensor([length_penalty(length, 0.6) for length in lengths.tolist()])
    torch.testing.assert_close(steps.sum(dim=-1) / penalties, output.sequences_scores)


def test_scores_are_the_models_log_probabilities():
    """Padding is impossible, but the others are not scaled up for it unless the caller asks."""
    model = ending_model(5)
    model.lm_head.bias.data[PAD] += 2.0  # padding takes a large share
    options = dict(**PAPER, num_return_sequences=4, max_new_tokens=12, return_dict_in_generate=True)
    output = model.generate(BATCH, **options)
    normalised = model.generate(BATCH, **options, renormalize_logits=True)
    assert (normalised.sequences_scores - output.sequences_scores).min() > 0.01
    lengths = (output.beam_indices >= 0).sum(dim=-1)
    for i, length in enumerate(lengths.tolist()):
        tokens = output.sequences[i, 1 : 1 + length].tolist()
        exact = log_probability(model, SOURCES[i // 4], tokens)
        assert output.sequences_scores[i].item() == pytest.approx(exact / length_penalty(length, 0.6), abs=1e-4)
        assert output.token_log_probs[i].sum().item() == pytest.approx(exact, abs=1e-4)
        last = exact - (log_probability(model, SOURCES[i // 4], tokens[:-1]) if length > 1 else 0)
        assert output.token_log_probs[i, length - 1].item() == pytest.approx(last, abs=1e-4)
        assert not output.token_log_probs[i, length:].any()


def test_threads_may_differ_in_their_settings():
    """Each call ranks by its own settings, whatever other threads do with the same model."""
    model, jobs = ending_model(3), [dict(length_penalty=alpha, offset=k) for alpha in (0.3, 2.0) for k in (0, 1, 5, 50)]

    def translate(job):
        config = GenerationConfig(num_beams=4, length_penalty=job["length_penalty"], early_stopping="never")
        config.length_penalty_offset = job["offset"]
        output = model.generate(BATCH, generation_config=config, max_new_tokens=15, return_dict_in_generate=True)
        return output.sequences_scores.tolist()

    alone = [translate(job) for job in jobs]
    assert len({tuple(scores) for scores in alone}) == len(jobs)
    with ThreadPoolExecutor(4) as pool:
        for together in (list(pool.map(translate, jobs)) for _ in range(3)):
            assert together == alone


# Our loop, against the library's --------------------------------------------------------------------------------------


def favour_7(input_ids, scores):
    scores = scores.clone()
    scores[:, 7] += 1.5
    return scores


def stop_after_two_8s(input_ids, scores, **kwargs):
    return (input_ids == 8).sum(dim=-1) >= 2


EXTRAS = [
    {},
    dict(repetition_penalty=1.7),
    dict(no_repeat_ngram_size=2),
    dict(min_new_tokens=5),
    dict(min_length=4),
    dict(bad_words_ids=[[3], [4, 5]]),
    dict(suppress_tokens=[2, 5]),
    dict(begin_suppress_tokens=[1, 6]),
    dict(forced_eos_token_id=1),
    dict(exponential_decay_length_penalty=(3, 1.3)),
    dict(sequence_bias=[[[6], -4.0]]),
    dict(eos_token_id=[1, 4, 9]),
    dict(renormalize_logits=True, repetition_penalty=0.7),
    dict(logits_processor=LogitsProcessorList([favour_7])),
    dict(stopping_criteria=StoppingCriteriaList([stop_after_two_8s])),
    dict(cache_implementation="static"),
    dict(use_cache=False),
    dict(max_new_tokens=None),
]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("extra", EXTRAS, ids=["+".join(extra) or "nothing" for extra in EXTRAS])
def test_our_loop_equals_the_librarys(attention, extra):
    """Over penalties, ends and prefixes: sequences and all that can be asked for with them."""
    seed = 2 * EXTRAS.index(extra) + (attention == "eager")
    rng = random.Random(seed)
    model = ending_model(seed, attn_implementation=attention)
    model.generation_config.length_penalty_offset = 0
    library = copy.deepcopy(model)
    library.__class__ = LibrarySearch
    for early_stopping in (False, True, "never"):
        beams = rng.randint(2, 5)
        options = dict(
            num_beams=beams,
            num_return_sequences=rng.randint(1, beams),
            early_stopping=early_stopping,
            length_penalty=rng.choice([-0.5, 0.0, 0.6, 1.0, 1.7]),
            max_new_tokens=rng.randint(6, 14),
        )
        prefix_length = rng.choice([0, 0, 2])
        if prefix_length:
            options["decoder_input_ids"] = torch.randint(2, 30, (len(SOURCES), prefix_length))
        options = {**options, **extra, "output_scores": True, "output_logits": True, "output_hidden_states": True}
        ours = model.generate(BATCH, **options, return_dict_in_generate=True)
        expected_output = library.generate(BATCH, **options, return_dict_in_generate=True)
        assert ours.sequences.shape == expected_output.sequences.shape
        lengths = 1 + prefix_length + (expected_output.beam_indices >= 0).sum(dim=-1)
        for row, expected, length in zip(
            ours.sequences.tolist(), expected_output.sequences.tolist(), lengths.tolist(), strict=True
        ):
            assert row[:length] == expected[:length]
            assert set(row[length:]) <= {PAD}  # the library fills with `</s>` where padding is 0
        assert torch.equal(ours.beam_indices, expected_output.beam_indices.long())
        torch.testing.assert_close(ours.sequences_scores, expected_output.sequences_scores, rtol=1e-4, atol=1e-5)
        for name in ("scores", "logits", "decoder_hidden_states", "encoder_hidden_states"):
            assert shapes(getattr(ours, name)) == shapes(getattr(expected_output, name))
        assert torch.equal(model.generate(BATCH, **options), ours.sequences)


def test_a_beam_cache_becomes_an_ordinary_one(tiny_model):
    """The cache that `generate` returns holds each beam's own history, as the library's loop leaves it."""
    model = tiny_model()
    library = copy.deepcopy(model)
    library.__class__ = LibrarySearch
    caches = []
    for searching in (model, library):
        searching.generation_config.length_penalty_offset = 0
        output = searching.generate(
            BATCH, num_beams=3, max_new_tokens=5, min_new_tokens=5, return_dict_in_generate=True, output_scores=True
        )
        caches.append(output[CACHE].self_attention_cache)
    for ours, expected_output in zip(caches[0].layers, caches[1].layers, strict=True):
        torch.testing.assert_close(ours.keys, expected_output.keys)
        torch.testing.assert_close(ours.values, expected_output.values)


def test_processes_that_share_a_model_search_alike(tmp_path):
    """As FSDP and ZeRO-3 ask for it: all run until the last is done. Here there is one."""
    expected = MODEL.generate(BATCH, **PAPER)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        assert torch.equal(MODEL.generate(BATCH, **PAPER, synced_gpus=True), expected)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("vocab_size", [50, 1024, 1025, 5000])
def test_best_tokens_are_those_of_topk(vocab_size):
    scores, offsets = torch.randn(6, 3, vocab_size), torch.randn(6, 3)
    scores[1, :, 5:] = float("-inf")
    offsets[2, 1:] = float("-inf")
    for added in (None, offsets):
        best, places = best_tokens(scores, 8, added)
        totals = scores if added is None else scores + added.unsqueeze(-1)
        expected = totals.flatten(1).topk(8, dim=-1)
        assert torch.equal(best, expected.values)
        finite = best.isfinite()
        assert torch.equal(places[finite], expected.indices[finite])
