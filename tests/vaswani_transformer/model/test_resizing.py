"""Vocabularies that grow and shrink, with matrices shared in each way."""

import pytest
import torch
from model_examples import SHARING, assert_same_parameters, each_sharing, logits_of
from transformers import MarianConfig, MarianMTModel

from vaswani_transformer import VaswaniForConditionalGeneration, VaswaniModel


def assert_works_after_resizing(model, batch, tmp_path):
    """It runs, trains, generates, and is the same after saving and loading."""
    model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=3)
    labels = batch["decoder_input_ids"]
    model(**batch, labels=labels).loss.backward()
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    assert_same_parameters(loaded, model)
    torch.testing.assert_close(logits_of(loaded, batch), logits_of(model, batch), rtol=0, atol=0)


@pytest.mark.parametrize("size", [60, 40])
def test_resize_a_shared_vocabulary(tiny_model, make_batch, tmp_path, size):
    model, batch = tiny_model(**SHARING["all"]), make_batch(vocab_size=40)
    before = logits_of(model, batch)
    embeddings = model.resize_token_embeddings(size)
    assert embeddings is model.get_input_embeddings()
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (size, size)
    after = logits_of(model, batch)
    assert after.shape[-1] == model.lm_head.out_features == size
    torch.testing.assert_close(after[..., :40], before[..., :40], rtol=0, atol=0)
    assert model.lm_head.weight is model.model.decoder.embed_tokens.weight is model.model.encoder.embed_tokens.weight
    assert_works_after_resizing(model, batch, tmp_path)


@pytest.mark.parametrize("share", ["target", "none"])
@pytest.mark.parametrize("size", [60, 40])
def test_resize_the_source_vocabulary_alone(tiny_model, make_batch, tmp_path, share, size):
    model, batch = tiny_model(**SHARING[share]), make_batch(vocab_size=40)
    before = logits_of(model, batch)
    model.resize_token_embeddings(size)
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (size, 56)
    assert model.model.encoder.embed_tokens.weight.shape[0] == size
    assert model.lm_head.out_features == 56
    torch.testing.assert_close(logits_of(model, batch), before, rtol=0, atol=0)
    assert_works_after_resizing(model, batch, tmp_path)


@pytest.mark.parametrize("share", ["target", "none"])
@pytest.mark.parametrize("size", [60, 40])
def test_resize_the_target_vocabulary_alone(tiny_model, make_batch, tmp_path, share, size):
    model, batch = tiny_model(**SHARING[share]), make_batch(vocab_size=40)
    before = logits_of(model, batch)
    embeddings = model.resize_decoder_token_embeddings(size)
    assert embeddings is model.model.decoder.embed_tokens
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (48, size)
    after = logits_of(model, batch)
    assert after.shape[-1] == model.lm_head.out_features == size
    torch.testing.assert_close(after[..., :40], before[..., :40], rtol=0, atol=0)
    assert (model.lm_head.weight is embeddings.weight) == (share == "target")
    assert_works_after_resizing(model, batch, tmp_path)


@pytest.mark.parametrize("size", [60, 40])
def test_resize_one_vocabulary_in_three_matrices(tiny_model, make_batch, tmp_path, size):
    """As in MarianMTModel with `tie_word_embeddings=False`: source, target and output layer have the new size."""
    sizes = dict(
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        vocab_size=48,
        tie_word_embeddings=False,
    )
    marian = MarianMTModel(MarianConfig(**sizes, encoder_ffn_dim=16, decoder_ffn_dim=16))
    model, batch = tiny_model(tie_word_embeddings=False), make_batch(vocab_size=40)
    before = logits_of(model, batch)
    shapes = []
    for resized in (marian, model):
        embeddings = resized.resize_token_embeddings(size)
        assert embeddings is resized.get_input_embeddings()
        decoder = resized.get_decoder().embed_tokens
        shapes.append([layer.weight.shape[0] for layer in (embeddings, decoder, resized.get_output_embeddings())])
    assert shapes == [[size] * 3] * 2
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (size, size)
    assert (
        len({id(p) for name, p in model.named_parameters() if name.endswith(("embed_tokens.weight", "head.weight"))})
        == 3
    )
    torch.testing.assert_close(logits_of(model, batch)[..., :40], before[..., :40], rtol=0, atol=0)
    assert_works_after_resizing(model, batch, tmp_path)


def test_a_shared_vocabulary_has_no_target_side_of_its_own(tiny_model):
    with pytest.raises(ValueError, match="resize_token_embeddings"):
        tiny_model().resize_decoder_token_embeddings(60)


@each_sharing
def test_resize_the_model_without_its_head(tiny_model, tmp_path, fields):
    model = tiny_model(**fields).model
    model.resize_token_embeddings(60)
    expected = 60 if fields["share_embeddings"] == "all" else 56
    assert model.decoder.embed_tokens.num_embeddings == model.config.decoder_vocab_size == expected
    model.save_pretrained(tmp_path)
    assert_same_parameters(VaswaniModel.from_pretrained(tmp_path), model)
