"""Decoding with a cache of keys and values gives what the full forward gives."""

import pytest
import torch
from generation_examples import BATCH, PAD
from model_examples import logits_of, static_cache
from transformers import DynamicCache, EncoderDecoderCache

from vaswani_transformer.attention_vaswani import BeamCache


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
        steps.append(logits_of(model, {**batch, "decoder_input_ids": ids, "past_key_values": cache}))
    assert len(calls) == 1
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=1e-4, atol=1e-5)


def test_caches_follow_a_reordering_of_the_batch(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch(target_lengths=(6, 6, 6))
    order = torch.tensor([2, 0, 0])
    source = {name: batch[name][order] for name in ("input_ids", "attention_mask")}
    target = batch["decoder_input_ids"]
    with torch.no_grad():
        past = model(**{**batch, "decoder_input_ids": target[:, :3], "decoder_attention_mask": None}).past_key_values
        past.reorder_cache(order)
        step = model(**source, decoder_input_ids=target[:, 3:4], past_key_values=past).logits
        expected = model(**source, decoder_input_ids=torch.cat((target[order, :3], target[:, 3:4]), dim=1)).logits
    torch.testing.assert_close(step[:, 0], expected[:, 3], rtol=1e-4, atol=1e-5)


def test_no_cache_unless_wanted(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch()
    with torch.no_grad():
        assert isinstance(model(**batch).past_key_values, EncoderDecoderCache)
        assert model(**batch, use_cache=False).past_key_values is None
        assert model(**batch, labels=batch["decoder_input_ids"]).past_key_values is None


def test_the_library_refuses_a_quantised_cache_for_encoder_decoders(tiny_model, make_batch):
    with pytest.raises(ValueError, match="does not support the quantized cache"):
        tiny_model().generate(make_batch()["input_ids"], cache_implementation="quantized", max_new_tokens=2)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("prompt, step", [(1, 1), (3, 1), (2, 2)])
@torch.no_grad()
def test_beam_cache_equals_no_cache(tiny_model, attention, prompt, step):
    """Beams that are chosen at random, dropped and doubled have the logits of their own histories."""
    model, n = tiny_model(attn_implementation=attention), 3
    mask = BATCH.ne(PAD).long()
    encoded = model.get_encoder()(BATCH, attention_mask=mask).last_hidden_state
    beams = BeamCache(n, capacity=4)  # so small that it has to grow
    cache = EncoderDecoderCache(beams, DynamicCache(config=model.config))
    assert cache.get_seq_length() == 0
    new = history = torch.randint(2, 48, (len(BATCH) * n, prompt))
    for _ in range(5):
        cached = model(
            encoder_outputs=(encoded,), attention_mask=mask, decoder_input_ids=new, past_key_values=cache,
            decoder_attention_mask=beams.attention_mask(
                *new.shape, new.device, additive=model.dtype if attention == "eager" else None
            ),
        ).logits  # fmt: skip
        whole = model(
            encoder_outputs=(encoded.repeat_interleave(n, dim=0),),
            attention_mask=mask.repeat_interleave(n, dim=0),
            decoder_input_ids=history,
            use_cache=False,
        ).logits
        torch.testing.assert_close(cached, whole[:, -new.shape[1] :], atol=1e-5, rtol=1e-4)
        assert cache.get_seq_length() == history.shape[1]
        chosen = (torch.randint(n, (len(BATCH), n)) + n * torch.arange(len(BATCH)).unsqueeze(1)).flatten()
        beams.reorder_cache(chosen)
        new = torch.randint(2, 48, (len(BATCH) * n, step))
        history = torch.cat((history[chosen], new), dim=1)
