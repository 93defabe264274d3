"""The inputs of `generate` besides ids, and its outputs besides sequences, compared with transformers' own."""

import pytest
import torch
from generation_examples import (
    BATCH,
    EOS,
    MODEL,
    MODES,
    PAD,
    SOURCES,
    ending_model,
    every_mode,
    generated,
    log_probability,
    shapes,
)
from transformers import GenerationMixin, MarianConfig, MarianMTModel

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.model.attention_vaswani import CACHE


SIZES = dict(
    vocab_size=30,
    d_model=16,
    encoder_layers=2,
    decoder_layers=3,
    encoder_attention_heads=2,
    decoder_attention_heads=4,
    pad_token_id=PAD,
    eos_token_id=EOS,
    decoder_start_token_id=PAD,
)


def marian_model() -> MarianMTModel:
    config = MarianConfig(**SIZES, encoder_ffn_dim=24, decoder_ffn_dim=24, forced_eos_token_id=None)
    return MarianMTModel(config).eval()


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
    models = marian_model(), VaswaniForConditionalGeneration(VaswaniConfig(**SIZES, d_ff=24)).eval()
    wanted = ("scores", "logits", "attentions", "hidden_states")
    for mode in MODES.values():
        outputs = []
        for model in models:
            model.set_attn_implementation("eager")
            torch.manual_seed(0)
            output = model.generate(
                BATCH,
                attention_mask=BATCH.ne(PAD).long(),
                **mode,
                num_return_sequences=2 if mode else 1,
                min_new_tokens=5,
                max_new_tokens=5,
                suppress_tokens=[PAD],
                return_dict_in_generate=True,
                **{f"output_{name}": True for name in wanted},
            )
            parts = {name: x for name, x in output.items() if name not in ("token_log_probs", CACHE)}
            cached = [tuple(layer.keys.shape) for layer in output[CACHE].self_attention_cache.layers]
            outputs.append({name: shapes(x) for name, x in parts.items()} | {"cached": cached})
        assert outputs[0] == outputs[1]


@every_mode
@pytest.mark.parametrize("use_cache", [True, False])
def test_the_output_is_the_librarys(mode, use_cache):
    """The class and the fields of MarianMTModel's output. Beam search adds two fields: the scores of its ranking."""
    settings = dict(**mode, max_new_tokens=4, use_cache=use_cache, return_dict_in_generate=True)
    expected, output = (model.generate(BATCH, **settings) for model in (marian_model(), MODEL))
    added = {"sequences_scores", "token_log_probs"} if "num_beams" in mode else set()
    assert isinstance(output, type(expected)) and (added or type(output) is type(expected))
    assert output.keys() == expected.keys() | added


TWO_VOCABULARIES = dict(share_embeddings="target", decoder_vocab_size=41)


@every_mode
@pytest.mark.parametrize("fields", [{}, TWO_VOCABULARIES], ids=["one vocabulary", "two vocabularies"])
def test_transition_scores_are_log_probabilities_and_0_after_the_end(mode, fields):
    model = ending_model(4, **fields)
    torch.manual_seed(0)
    output = model.generate(BATCH, **mode, return_dict_in_generate=True, output_scores=True, output_logits=True)
    if "num_beams" in mode:
        scores = model.compute_transition_scores(output.sequences, output.scores, output.beam_indices)
    else:
        scores = model.compute_transition_scores(output.sequences, output.logits, normalize_logits=True)
    lengths = [len(row) for row in generated(output.sequences)]
    assert min(lengths) < max(lengths) == scores.shape[1]
    for i, (source, row) in enumerate(zip(SOURCES, generated(output.sequences), strict=True)):
        assert scores[i].sum().item() == pytest.approx(log_probability(model, source, row), abs=1e-4)
        assert not scores[i, len(row) :].any()
        for length in range(1, len(row)):
            so_far = log_probability(model, source, row[:length])
            assert scores[i, :length].sum().item() == pytest.approx(so_far, abs=1e-4)


def test_transition_scores_of_unnormalised_logits_are_the_librarys():
    """Up to the end; after it the library gives the score of padding, which is never produced here."""
    output = MODEL.generate(BATCH, return_dict_in_generate=True, output_scores=True)
    scores = MODEL.compute_transition_scores(output.sequences, output.scores)
    expected = GenerationMixin.compute_transition_scores(MODEL, output.sequences, output.scores)
    is_produced = output.sequences[:, 1:] != PAD
    assert torch.equal(scores[is_produced], expected[is_produced])
    assert (~is_produced).any() and not scores[~is_produced].any()


def test_attentions_and_hidden_states_of_beams():
    """The documented shapes, with one row a beam; and the weights are those of the returned sentence's own history."""
    model = ending_model(7, attn_implementation="eager", encoder_layers=2)
    config, n, batch, width = model.config, 3, len(BATCH), BATCH.shape[1]
    output = model.generate(
        BATCH,
        num_beams=n,
        max_new_tokens=6,
        min_new_tokens=6,
        return_dict_in_generate=True,
        output_attentions=True,
        output_hidden_states=True,
        output_scores=True,
    )
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
