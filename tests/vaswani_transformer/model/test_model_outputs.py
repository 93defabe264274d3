"""The model's inputs (ids, embeddings, encoder outputs) and outputs (hidden states, attention maps, tuples)."""

import re

import pytest
import torch
from model_examples import logits_of


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_hidden_states_and_attention_maps(tiny_model, make_batch, norm_position):
    """2 encoder layers with 2 heads, 3 decoder layers with 4; batch 3, source 7, target 6, width 16."""
    model, batch = tiny_model(attn_implementation="eager", norm_position=norm_position), make_batch()
    with torch.no_grad():
        outputs = model(**batch, output_hidden_states=True, output_attentions=True)
    shapes = {
        "encoder_hidden_states": [(3, 7, 16)] * 3,
        "decoder_hidden_states": [(3, 6, 16)] * 4,
        "encoder_attentions": [(3, 2, 7, 7)] * 2,
        "decoder_attentions": [(3, 4, 6, 6)] * 3,
        "cross_attentions": [(3, 4, 6, 7)] * 3,
    }
    for name, expected in shapes.items():
        assert [tuple(tensor.shape) for tensor in outputs[name]] == expected, name
    source, target = batch["attention_mask"], batch["decoder_attention_mask"]
    for maps, keys in (
        (outputs.encoder_attentions, source[:, None, None]),
        (outputs.decoder_attentions, target[:, None, None] * torch.ones(6, 6).tril()),
        (outputs.cross_attentions, source[:, None, None]),
    ):
        queries = source if maps is outputs.encoder_attentions else target
        for weights in maps:
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
            seen = weights.transpose(1, 2)[queries == 1], keys.expand_as(weights).transpose(1, 2)[queries == 1]
            assert seen[0][seen[1] == 0].eq(0).all(), "padding and the future get no weight"
    torch.testing.assert_close(outputs.encoder_hidden_states[-1], outputs.encoder_last_hidden_state)
    torch.testing.assert_close(model.lm_head(outputs.decoder_hidden_states[-1]), outputs.logits)


def test_attention_maps_can_be_switched_on_for_a_loaded_model(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch()
    expected = logits_of(model, batch)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = model(**batch, output_attentions=True)
    assert len(outputs.cross_attentions) == 3
    torch.testing.assert_close(outputs.logits, expected, rtol=1e-5, atol=1e-5)


def test_embeddings_instead_of_ids(tiny_model, make_batch):
    model, batch = tiny_model(share_embeddings="none", decoder_vocab_size=56), make_batch()
    expected = logits_of(model, batch)
    embedded = {
        "inputs_embeds": model.model.encoder.embed_tokens(batch.pop("input_ids")),
        "decoder_inputs_embeds": model.model.decoder.embed_tokens(batch.pop("decoder_input_ids")),
    }
    actual = logits_of(model, {**batch, **embedded})
    real = batch["decoder_attention_mask"] == 1
    torch.testing.assert_close(actual[real], expected[real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "names, message",
    [
        (["decoder_input_ids"], "The source is missing: pass `input_ids` or `inputs_embeds`."),
        (["input_ids"], "The target is missing: pass `labels`, `decoder_input_ids` or `decoder_inputs_embeds`."),
        (["input_ids", "inputs_embeds", "decoder_input_ids"], "Pass `input_ids` or `inputs_embeds`, not both."),
    ],
    ids=["no source", "no target", "source twice"],
)
def test_ids_or_embeddings_but_one_of_them(tiny_model, names, message):
    inputs = {name: torch.ones(1, 2, 16) if "embeds" in name else torch.ones(1, 2).long() for name in names}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        tiny_model()(**inputs)


def test_encoder_outputs_instead_of_a_source(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch()
    expected = logits_of(model, batch)
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=batch.pop("input_ids"), attention_mask=batch["attention_mask"])
    for encoder_outputs in (encoded, encoded.to_tuple()):
        actual = logits_of(model, {**batch, "encoder_outputs": encoder_outputs})
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_tuples(tiny_model, make_batch):
    model, batch = tiny_model(attn_implementation="eager"), make_batch()
    options = dict(output_hidden_states=True, output_attentions=True, use_cache=False)
    with torch.no_grad():
        named = model(**batch, **options)
        plain = model(**batch, **options, return_dict=False)

    def flatten(values):
        for value in values:
            yield from flatten(value) if isinstance(value, tuple) else [value]

    for actual, expected in zip(flatten(plain), flatten(named.to_tuple()), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_logits_of_the_last_positions_alone(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch()
    full = logits_of(model, batch)
    for keep, expected in ((0, full), (1, full[:, -1:]), (3, full[:, -3:]), (torch.tensor([0, 4]), full[:, [0, 4]])):
        torch.testing.assert_close(logits_of(model, {**batch, "logits_to_keep": keep}), expected)
