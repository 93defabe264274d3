"""What `generate` takes besides ids, and what it returns besides sequences."""

import pytest
import torch
from generation_examples import BATCH, EOS, MODEL, MODES, PAD, ending_model, every_mode, shapes
from transformers import MarianConfig, MarianMTModel

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.model.attention_vaswani import CACHE


@every_mode
def test_encoder_outputs(mode):
    mask = BATCH.ne(PAD).long()
    encoded = MODEL.get_encoder()(BATCH, attention_mask=mask)
    outputs = []
    for source in (dict(input_ids=BATCH), dict(encoder_outputs=encoded)):
        torch.manual_seed(0)
        outputs.append(MODEL.generate(**source, attention_mask=mask, **mode))
    assert torch.equal(*outputs)


@pytest.mark.parametrize("beams", [1, 3])
def test_inputs_embeds(beams):
    model = ending_model(2, zero_pad_embedding=False)
    mask = BATCH.ne(PAD).long()
    embedded = model.get_input_embeddings()(BATCH)
    expected = model.generate(BATCH, attention_mask=mask, num_beams=beams)
    assert torch.equal(expected, model.generate(inputs_embeds=embedded, attention_mask=mask, num_beams=beams))


def test_shapes_are_those_of_the_librarys_own_models():
    """Everything that `generate` can return, beside MarianMTModel: the encoder's has a row a sentence, not a beam."""
    sizes = dict(
        vocab_size=30, d_model=16, encoder_layers=2, decoder_layers=3, encoder_attention_heads=2,
        decoder_attention_heads=4, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD,
    )  # fmt: skip
    marian = MarianConfig(**sizes, encoder_ffn_dim=24, decoder_ffn_dim=24, forced_eos_token_id=None)
    models = MarianMTModel(marian).eval(), VaswaniForConditionalGeneration(VaswaniConfig(**sizes, d_ff=24)).eval()
    wanted = ("scores", "logits", "attentions", "hidden_states")
    for mode in MODES.values():
        found = []
        for model in models:
            model.set_attn_implementation("eager")
            torch.manual_seed(0)
            output = model.generate(
                BATCH, attention_mask=BATCH.ne(PAD).long(), **mode, num_return_sequences=2 if mode else 1,
                min_new_tokens=5, max_new_tokens=5, suppress_tokens=[PAD], return_dict_in_generate=True,
                **{f"output_{name}": True for name in wanted},
            )  # fmt: skip
            parts = {name: x for name, x in output.items() if name not in ("token_log_probs", CACHE)}
            cached = [tuple(layer.keys.shape) for layer in output[CACHE].self_attention_cache.layers]
            found.append({name: shapes(x) for name, x in parts.items()} | {"cached": cached})
        assert found[0] == found[1]


def test_attentions_and_hidden_states_of_beams():
    """The documented shapes, with one row a beam; and the weights are those of the returned sentence's own history."""
    model = ending_model(7, attn_implementation="eager", encoder_layers=2)
    config, n, batch, width = model.config, 3, len(BATCH), BATCH.shape[1]
    output = model.generate(
        BATCH, num_beams=n, max_new_tokens=6, min_new_tokens=6,
        return_dict_in_generate=True, output_attentions=True, output_hidden_states=True, output_scores=True,
    )  # fmt: skip
    steps, heads, d = 6, 4, config.d_model
    assert [tuple(x.shape) for x in output.encoder_attentions] == [(batch, 2, width, width)] * 2
    assert [tuple(x.shape) for x in output.encoder_hidden_states] == [(batch, width, d)] * 3
    assert len(output.scores) == steps and output.scores[0].shape == (batch * n, 30)
    for name, entries, shape in (
        ("decoder_attentions", config.decoder_layers, lambda t: (batch * n, heads, 1, t + 1)),
        ("cross_attentions", config.decoder_layers, lambda t: (batch * n, heads, 1, width)),
        ("decoder_hidden_states", config.decoder_layers + 1, lambda t: (batch * n, 1, d)),
    ):
        assert [[tuple(x.shape) for x in step] for step in getattr(output, name)] == [
            [shape(t)] * entries for t in range(steps)
        ]

    whole = model(BATCH, decoder_input_ids=output.sequences[:, :-1], output_attentions=True, output_hidden_states=True)
    for t in range(steps):
        rows = output.beam_indices[:, t].long()
        for layer in range(config.decoder_layers):
            for name in ("decoder_attentions", "cross_attentions"):
                ours = getattr(output, name)[t][layer][rows, :, 0]
                expected = getattr(whole, name)[layer][:, :, t, : ours.shape[-1]]
                torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(
            output.decoder_hidden_states[t][-1][rows, 0], whole.decoder_hidden_states[-1][:, t], atol=1e-5, rtol=1e-4
        )
