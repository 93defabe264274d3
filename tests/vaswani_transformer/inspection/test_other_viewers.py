"""bertviz and inseq show our models as they show the library's. They run where they are installed."""

import pytest

from vaswani_transformer import checkpoint_path, load


SENTENCE = "A man is riding a bicycle."


@pytest.fixture(scope="module")
def loaded():
    return load(checkpoint_path("mini-en-de"), attn_implementation="eager")


def test_bertviz_shows_the_attentions(loaded):
    bertviz = pytest.importorskip("bertviz")
    model, tokenizer = loaded
    source = tokenizer(SENTENCE, return_tensors="pt")["input_ids"]
    target = model.generate(source)
    outputs = model(input_ids=source, decoder_input_ids=target[:, :-1], output_attentions=True)
    page = bertviz.head_view(
        encoder_attention=outputs.encoder_attentions,
        decoder_attention=outputs.decoder_attentions,
        cross_attention=outputs.cross_attentions,
        encoder_tokens=tokenizer.convert_ids_to_tokens(source[0].tolist()),
        decoder_tokens=tokenizer.convert_ids_to_tokens(target[0, :-1].tolist()),
        include_layers=[0, 1, 2],  # it takes the number of the encoder's layers, 4, for the decoder's
        html_action="return",
    )
    weight = outputs.cross_attentions[2][0, 1, 3, 2].item()
    assert repr(weight)[:8] in page.data


@pytest.mark.parametrize("method", ["attention", "saliency"])
def test_inseq_attributes_a_translation(loaded, method):
    inseq = pytest.importorskip("inseq")
    model, tokenizer = loaded
    attributed = inseq.load_model(model, method, tokenizer=tokenizer)
    result = attributed.attribute(SENTENCE, generation_args={"num_beams": 1}, show_progress=False)
    (translation,) = result.info["generated_texts"]
    expected = model.generate(**tokenizer(SENTENCE, return_tensors="pt"), num_beams=1)
    assert translation == tokenizer.batch_decode(expected, skip_special_tokens=True)[0]
    assert result.sequence_attributions[0].source_attributions.isfinite().any()
