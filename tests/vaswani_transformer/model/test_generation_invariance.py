"""Things that must not change a translation: padding, the rest of the batch, the cache, precision, compilation."""

import copy
import random

import pytest
import torch
from generation_examples import (
    BATCH,
    MODEL,
    MODES,
    PAD,
    PAPER,
    SOURCES,
    assert_well_formed,
    ending_model,
    endless_model,
    every_mode,
    generated,
    log_probability,
    padded,
    paper_search,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_beam_search import length_penalty
from transformers import CompileConfig

from vaswani_transformer.model import generation_vaswani
from vaswani_transformer.model.attention_vaswani import CACHE
from vaswani_transformer.model.beam_search_vaswani import BeamSearch
from vaswani_transformer.model.greedy_search_vaswani import GreedySearch
from vaswani_transformer.model.modeling_vaswani import VaswaniEncoder


pytestmark = pytest.mark.quick


# Padding --------------------------------------------------------------------------------------------------------------


@every_mode
def test_padding_is_never_produced(mode):
    model = ending_model(5)
    model.lm_head.bias.data[PAD] = 1e3
    for seed in range(3):
        torch.manual_seed(seed)
        sequences = model.generate(BATCH, **mode)
        assert_well_formed(sequences)
        assert sequences[:, 1].ne(PAD).all()


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("side", ["left", "right"])
def test_mask_is_inferred_from_padding(beams, side):
    model, source = ending_model(1), padded(SOURCES, side)
    inferred = model.generate(source, num_beams=beams)
    assert torch.equal(inferred, model.generate(source, attention_mask=source.ne(PAD).long(), num_beams=beams))
    assert torch.equal(inferred, model.generate(input_ids=source, attention_mask=None, num_beams=beams))
    limit = inferred.shape[1]
    blind = model.generate(source, attention_mask=torch.ones_like(source), num_beams=beams, max_length=limit)
    assert generated(inferred) != generated(blind)


@settings(max_examples=12)
@given(
    st.lists(st.lists(st.integers(1, 29), min_size=1, max_size=9), min_size=2, max_size=5),
    st.sampled_from(["left", "right"]),
    st.sampled_from([PAPER, {}]),
)
def test_batch_mates_do_not_matter(sentences, side, mode):
    together = generated(MODEL.generate(padded(sentences, side), **mode))
    for sentence, ours in zip(sentences, together, strict=True):
        if ours != generated(MODEL.generate(torch.tensor([sentence]), **mode))[0]:
            reference = paper_search(MODEL, sentence, mode.get("num_beams", 1), 0.6, len(sentence) + 50)
            assert reference.margin < 1e-4  # a tie, but for rounding


@pytest.mark.parametrize("mode", [PAPER, {}])
def test_short_sentences_are_encoded_without_the_padding_of_long_ones(mode, monkeypatch):
    torch.manual_seed(0)
    sentences = [torch.randint(4, 29, (length,)).tolist() for length in [3, 20, 5, 4] * 10]
    batch, widths = padded(sentences, "right"), []
    encode = VaswaniEncoder.forward

    def forward(self, input_ids=None, **arguments):
        widths.append(tuple(input_ids.shape))
        return encode(self, input_ids, **arguments)

    monkeypatch.setattr(VaswaniEncoder, "forward", forward)
    apart = MODEL.generate(batch, **mode)
    assert widths == [(16, 4), (16, 20), (8, 20)]
    monkeypatch.setattr(generation_vaswani, "MIN_ENCODED", 40)
    assert generated(MODEL.generate(batch, **mode)) == generated(apart)
    assert widths[3:] == [(40, 20)]


@pytest.mark.parametrize(
    "side, length, settings", [("left", 3, {}), ("right", 18, {}), ("right", 3, dict(output_hidden_states=True))]
)
def test_other_batches_are_encoded_at_once(side, length, settings, monkeypatch):
    monkeypatch.setattr(generation_vaswani, "encode_by_length", None)
    batch = padded([[5] * length, [5] * 20] * 20, side)
    record = MODEL.generate(batch, num_beams=2, max_new_tokens=2, return_dict_in_generate=True, **settings)
    assert record.encoder_hidden_states is None or record.encoder_hidden_states[0].shape[:2] == (40, 20)


# Caches, precision, compilation ---------------------------------------------------------------------------------------


CACHES = [dict(use_cache=False), dict(cache_implementation="static"), dict(cache_implementation="dynamic")]


@pytest.mark.parametrize("other", CACHES, ids=lambda option: str(next(iter(option.values()))))
@every_mode
def test_caches_agree(mode, other):
    outputs = []
    for options in ({}, other):
        torch.manual_seed(0)
        outputs.append(MODEL.generate(BATCH, **mode, **options, num_return_sequences=3 if mode else 1))
    assert torch.equal(*outputs)


def test_continues_from_a_returned_cache():
    model = endless_model()
    first = model.generate(BATCH, max_new_tokens=4, return_dict_in_generate=True)
    assert first[CACHE].get_seq_length() == 4
    rest = model.generate(
        BATCH,
        decoder_input_ids=first.sequences,
        decoder_attention_mask=torch.ones_like(first.sequences),
        max_new_tokens=5,
        **{CACHE: first[CACHE]},
    )
    assert torch.equal(rest, model.generate(BATCH, max_new_tokens=9))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    half = copy.deepcopy(MODEL).to(dtype)
    for mode in MODES.values():
        assert_well_formed(half.generate(BATCH, **mode))
    output = half.generate(BATCH, **PAPER, return_dict_in_generate=True, output_scores=True)
    lengths = (output.beam_indices >= 0).sum(dim=-1).tolist()
    for source, row, length, score in zip(
        SOURCES, output.sequences.tolist(), lengths, output.sequences_scores.tolist(), strict=True
    ):
        exact = log_probability(MODEL, source, row[1 : 1 + length]) / length_penalty(length, 0.6)
        assert score == pytest.approx(exact, rel=0.05, abs=0.05)


def test_compiled():
    """The decoding step compiles into one graph, with the library's own way to do so."""
    compile_config = CompileConfig(backend="eager", mode=None, fullgraph=True)
    compile_config._compile_all_devices = True
    compiled = MODEL.generate(BATCH, cache_implementation="static", compile_config=compile_config, max_new_tokens=8)
    assert torch.equal(compiled, MODEL.generate(BATCH, max_new_tokens=8))


@pytest.mark.parametrize("mode", [MODES["greedy"], PAPER, MODES["beam"]], ids=["greedy", "paper", "beam"])
def test_sentences_that_leave_the_batch_are_found_as_in_it(monkeypatch, mode):
    """The same tokens and scores with and without `return_cache`, for which all sentences stay to the end."""
    model, left = ending_model(2), []
    for search in (BeamSearch, GreedySearch):
        drop = search.drop_finished
        monkeypatch.setattr(search, "drop_finished", lambda self, drop=drop: left.append(drop(self)) or left[-1])
    sources = torch.randint(2, 30, (12, 7))
    whole, output = (
        model.generate(sources, **mode, return_dict_in_generate=True, return_cache=cached) for cached in (True, False)
    )
    assert whole.get(CACHE) is not None and output.get(CACHE) is None
    assert any(rows is not None and 0 < len(rows) < 12 for rows in left)
    assert torch.equal(whole.sequences, output.sequences)
    for name in ("sequences_scores", "token_log_probs") if "num_beams" in mode else ():
        torch.testing.assert_close(output[name], whole[name], atol=1e-5, rtol=1e-5)
    assert torch.equal(output.sequences, model.generate(sources, **mode))


def test_a_long_sentence_does_not_prolong_the_search_for_a_short_one(monkeypatch):
    """Each search ends as soon as no hypothesis within the sentence's own maximum length can still win."""
    steps: list[list[bool]] = []
    look_ahead = BeamSearch.look_ahead

    def record(self, ended):
        look_ahead(self, ended)
        steps.append(self.may_improve.flatten().tolist())

    def count_steps(sources):
        steps.clear()
        MODEL.generate(padded(sources, "right"), **PAPER, return_dict_in_generate=True)  # with the cache: none leaves
        return [sum(runs) for runs in zip(*steps, strict=True)]

    monkeypatch.setattr(BeamSearch, "look_ahead", record)
    rng = random.Random(0)
    short, long = ([[rng.randint(2, 29) for _ in range(length)] for _ in range(8)] for length in (3, 100))
    assert count_steps([*short, *long])[:8] == count_steps(short)
