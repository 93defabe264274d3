"""Word alignments: the weights of a head equal the model's own, and the pipeline aligns any text."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_checkpoint import PAIRS, tiny_checkpoint

from vaswani_transformer import TranslationPipeline, load
from vaswani_transformer.model.alignment_vaswani import WHEN, AlignmentHead, align, attention_weights
from vaswani_transformer.model.forced_vaswani import PairBatch
from vaswani_transformer.model.spans_vaswani import words


SENTENCES = list(PAIRS)
HEAD = {"layer": 0, "head": 1, "when": "read"}


@pytest.fixture
def pipeline():
    model, tokenizer = load(tiny_checkpoint())
    model.generation_config.alignment_head = HEAD
    return TranslationPipeline(model=model.float(), tokenizer=tokenizer)


# Weights -------------------------------------------------------------------------------------------------------------

SHAPES = {
    "the paper's": dict(),
    "pre-norm": dict(norm_position="pre"),
    "other widths": dict(d_k=6, d_v=10),
    "biases": dict(attention_bias=True),
    "unscaled": dict(scale_attention=False),
}


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("fields", SHAPES.values(), ids=SHAPES)
def test_weights_are_those_that_the_model_records(tiny_model, make_batch, fields, kernel):
    model, batch = tiny_model(**fields), make_batch(source_lengths=(7, 4, 1), target_lengths=(9, 3, 5))
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    is_token, ids = batch["decoder_attention_mask"].bool(), batch["decoder_input_ids"]
    ids = torch.cat([torch.full_like(ids[:, :1], model.config.decoder_start_token_id), ids], dim=1)
    pair_batch = PairBatch([], source, ids, is_token.sum(dim=1).tolist(), [], [])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        recorded = model(**source, decoder_input_ids=ids, output_attentions=True).cross_attentions
    model.set_attn_implementation(kernel)
    for layer, layer_weights in enumerate(recorded):
        for head in range(model.config.decoder_attention_heads):
            for when, shift in WHEN.items():
                weights = attention_weights(model, pair_batch, AlignmentHead(layer, head, when))
                expected = layer_weights[:, head, shift : shift + weights.shape[1]]
                torch.testing.assert_close(weights[is_token], expected[is_token], rtol=1e-4, atol=1e-5)


@given(st.text(max_size=40))
def test_words_do_not_overlap_and_cover_all_but_spaces(text):
    spans = words(text)
    assert all(a < b <= c < d for (a, b), (c, d) in zip(spans, spans[1:], strict=False))
    outside = "".join(
        text[end:start] for (_, end), (start, _) in zip([(0, 0), *spans], [*spans, (len(text), 0)], strict=True)
    )
    assert not outside.strip() or all(character.isspace() or not character.isprintable() for character in outside)


# The pipeline --------------------------------------------------------------------------------------------------------


def test_each_word_of_a_translation_links_to_a_source_word(pipeline):
    for text, record in zip(SENTENCES, pipeline(SENTENCES, return_alignments=True), strict=True):
        translation, links = record["translation_text"], record["alignments"]
        assert translation == PAIRS[text]
        assert [span for _, span in links] == words(translation)
        assert {span for span, _ in links} <= set(words(text))


def test_links_do_not_depend_on_the_batch(pipeline):
    texts = [*SENTENCES, "", SENTENCES[0]]
    expected = [pipeline(text, return_alignments=True)[0] for text in texts]
    assert expected[-2]["alignments"] == []
    for batch_size in (1, 3, None):
        assert pipeline(texts, return_alignments=True, batch_size=batch_size) == expected
    assert [records[0] for records in pipeline(iter(texts), return_alignments=True, batch_size=2)] == expected


def test_each_of_several_translations_has_its_alignments(pipeline):
    records = pipeline(SENTENCES[0], return_alignments=True, num_return_sequences=3, num_beams=3, return_scores=True)
    for record in records:
        assert [span for _, span in record["alignments"]] == words(record["translation_text"])
        assert record["score"] < 0


def test_the_default_head_is_the_checkpoints(pipeline):
    pair = (SENTENCES[0], PAIRS[SENTENCES[0]])
    [links] = align(pipeline.model, pipeline.tokenizer, [pair])
    assert links == align(pipeline.model, pipeline.tokenizer, [pair], AlignmentHead(0, 1, "read"))[0]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (None, "has no word alignments. `vaswani calibrate CHECKPOINT FILE` looks for one"),
        ({"layer": 99, "head": 0, "when": "read"}, "Invalid `alignment_head`.*'layer': 99.*2 layers of 2 heads"),
        ({"layer": 0, "head": 0, "when": "never"}, "Invalid `alignment_head`.*'never'"),
        ({"layer": 0}, "Invalid `alignment_head`"),
        ("0-1", "Invalid `alignment_head`.*'0-1'"),
    ],
)
def test_a_checkpoint_without_a_head_is_refused_before_it_translates(pipeline, entry, message, monkeypatch):
    pipeline.model.generation_config.alignment_head = entry
    monkeypatch.setattr(pipeline.model, "generate", None)
    with pytest.raises(ValueError, match=message):
        pipeline(SENTENCES, return_alignments=True)


def test_the_pipeline_can_align_if_its_checkpoint_names_a_head(pipeline):
    assert pipeline.can_align
    pipeline.model.generation_config.alignment_head = None
    assert not pipeline.can_align
    del pipeline.model.generation_config.alignment_head
    assert not pipeline.can_align


def test_the_head_is_saved_and_loaded_with_the_checkpoint(pipeline, tmp_path):
    pipeline.save_pretrained(tmp_path)
    assert AlignmentHead.from_model(load(tmp_path)[0]) == AlignmentHead(**HEAD)
