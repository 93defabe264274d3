"""Decoding with a cache of keys and values gives what the full forward gives."""

import pytest
import torch
from generation_examples import BATCH, PAD
from model_examples import logits_of, static_cache
from transformers import DynamicCache, EncoderDecoderCache

from vaswani_transformer.model.attention_vaswani import CACHE
from vaswani_transformer.model.decoding_vaswani import DecoderStep, can_step


# Variants of the paper's decoder.
VARIANTS = [
    dict(),
    dict(norm_position="pre"),
    dict(decoder_norm_position="pre", final_norm=False),
    dict(position_encoding="learned", max_position_embeddings=20, position_offset=2),
    dict(position_encoding="none", zero_pad_embedding=False, scale_embedding=False),
    dict(position_layout="concatenated", position_divisor="half_minus_one", attention_bias=True),
    dict(d_k=6, d_v=10, feed_forward_bias=False, activation_function="gelu"),
    dict(layer_norm_deviation="unbiased", share_embeddings="none", softmax_bias=True),
]


@pytest.mark.parametrize("fields", [dict(), dict(d_k=6, d_v=10)], ids=["equal widths", "own widths"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_cached_steps_equal_the_full_forward(tiny_model, make_batch, kind, implementation, fields):
    """A prompt of two tokens, then one at a time; the encoder's keys and values are computed once."""
    model = tiny_model(attn_implementation=implementation, **fields)
    batch = make_batch(target_lengths=(6, 6, 6))
    target = batch.pop("decoder_input_ids")
    batch.pop("decoder_attention_mask")
    expected = logits_of(model, {**batch, "decoder_input_ids": target})
    if kind == "dynamic":
        cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    else:
        cache = static_cache(model, source_length=7, target_length=9)
    calls = []
    model.model.decoder.layers[0].cross_attn.kv_proj.register_forward_hook(lambda *_: calls.append(1))
    steps = []
    for ids in (target[:, :2], *target[:, 2:].split(1, dim=1)):
        steps.append(logits_of(model, {**batch, "decoder_input_ids": ids, "cache": cache}))
    assert len(calls) == 1
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=1e-4, atol=1e-5)


def test_caches_follow_a_reordering_of_the_batch(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch(target_lengths=(6, 6, 6))
    order = torch.tensor([2, 0, 0])
    source = {name: batch[name][order] for name in ("input_ids", "attention_mask")}
    target = batch["decoder_input_ids"]
    with torch.no_grad():
        past = model(**{**batch, "decoder_input_ids": target[:, :3], "decoder_attention_mask": None})[CACHE]
        past.reorder_cache(order)
        step = model(**source, decoder_input_ids=target[:, 3:4], cache=past).logits
        expected = model(**source, decoder_input_ids=torch.cat((target[order, :3], target[:, 3:4]), dim=1)).logits
    torch.testing.assert_close(step[:, 0], expected[:, 3], rtol=1e-4, atol=1e-5)


def test_no_cache_unless_wanted(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch()
    with torch.no_grad():
        assert isinstance(model(**batch)[CACHE], EncoderDecoderCache)
        assert model(**batch, use_cache=False).get(CACHE) is None
        assert model(**batch, labels=batch["decoder_input_ids"]).get(CACHE) is None


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_the_cache_goes_by_its_newer_and_older_name(tiny_model, make_batch, name):
    """Without it the second token would see no first one, and the logits would be those of a first token."""
    model, batch = tiny_model(), make_batch(target_lengths=(2, 2, 2))
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    first, second = batch["decoder_input_ids"].split(1, dim=1)
    with torch.no_grad():
        expected = model(**source, decoder_input_ids=batch["decoder_input_ids"]).logits[:, 1]
        given = {name: model(**source, decoder_input_ids=first)[CACHE]}
        torch.testing.assert_close(model(**source, decoder_input_ids=second, **given).logits[:, 0], expected)


def test_the_library_refuses_a_quantised_cache_for_encoder_decoders(tiny_model, make_batch):
    with pytest.raises(ValueError, match="does not support the quantized cache"):
        tiny_model().generate(make_batch()["input_ids"], cache_implementation="quantized", max_new_tokens=2)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("beams", [1, 3])
@torch.no_grad()
def test_steps_equal_the_model(monkeypatch, tiny_model, variant, beams):
    """Beams that are chosen at random, dropped and doubled have the logits of their own histories.

    This also holds for sentences that stay when others leave, and with slots that have to grow.
    """
    monkeypatch.setattr("vaswani_transformer.model.decoding_vaswani.INITIAL_CAPACITY", 2)
    model = tiny_model(**variant)
    source, mask = BATCH, BATCH.ne(PAD).long()
    encoded = model.get_encoder()(source, attention_mask=mask).last_hidden_state
    assert can_step(model.get_decoder())
    step = DecoderStep(model, encoded, mask, beams)
    history = torch.randint(2, 48, (len(BATCH) * beams, 3))  # a prompt of three tokens
    for turn in range(6):
        logits = step(history)
        whole = model(
            encoder_outputs=(encoded.repeat_interleave(beams, dim=0),),
            attention_mask=mask.repeat_interleave(beams, dim=0),
            decoder_input_ids=history,
            use_cache=False,
        ).logits
        torch.testing.assert_close(logits, whole[:, -1], atol=1e-5, rtol=1e-4)
        sentences = len(encoded)
        chosen = torch.randint(beams, (sentences, beams)) + beams * torch.arange(sentences).unsqueeze(1)
        step.reorder(chosen.flatten())
        history = torch.cat((history[chosen.flatten()], torch.randint(2, 48, (sentences * beams, 1))), dim=1)
        if turn == 2:
            stay = torch.tensor([2, 0])
            step.select(stay)
            encoded, mask = encoded[stay], mask[stay]
            history = history.unflatten(0, (sentences, beams))[stay].flatten(0, 1)
