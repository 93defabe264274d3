"""Word alignments: a head's weights are the model's own, and the pipeline gives them for any text."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_checkpoint import PAIRS, tiny_checkpoint

from vaswani_transformer import TranslationPipeline, load
from vaswani_transformer.model.alignment_vaswani import WHEN, AlignmentHead, align, attention_weights, by_word, words


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
    "own widths": dict(d_k=6, d_v=10),
    "biases": dict(attention_bias=True),
    "unscaled": dict(scale_attention=False),
}


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("fields", SHAPES.values(), ids=SHAPES)
def test_weights_are_those_that_the_model_records(tiny_model, make_batch, fields, kernel):
    model, batch = tiny_model(**fields), make_batch(source_lengths=(7, 4, 1), target_lengths=(9, 3, 5))
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    target = {"input_ids": batch["decoder_input_ids"], "attention_mask": batch["decoder_attention_mask"]}
    ids = target["input_ids"].masked_fill(target["attention_mask"] == 0, model.config.pad_token_id)
    ids = torch.cat([torch.full_like(ids[:, :1], model.config.decoder_start_token_id), ids], dim=1)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(**source, decoder_input_ids=ids, output_attentions=True).cross_attentions
    model.set_attn_implementation(kernel)
    real = target["attention_mask"].bool()
    for layer, of_layer in enumerate(expected):
        for head in range(model.config.decoder_attention_heads):
            for when, shift in WHEN.items():
                found = attention_weights(model, source, target, AlignmentHead(layer, head, when))
                of_head = of_layer[:, head, shift : shift + found.shape[1]]
                torch.testing.assert_close(found[real], of_head[real], rtol=1e-4, atol=1e-5)


@given(st.text(max_size=40))
def test_words_are_apart_and_hold_all_but_spaces(text):
    spans = words(text)
    assert all(a < b <= c < d for (a, b), (c, d) in zip(spans, spans[1:], strict=False))
    outside = "".join(
        text[end:start] for (_, end), (start, _) in zip([(0, 0), *spans], [*spans, (len(text), 0)], strict=True)
    )
    assert not outside.strip() or all(character.isspace() or not character.isprintable() for character in outside)


def test_tokens_belong_to_the_words_that_they_overlap():
    spans = [(0, 3), (4, 9)]  # "the house"
    tokens = [[0, 3], [3, 7], [7, 9], [9, 9]]  # " hou" begins with the blank; the end of the sentence has no text
    assert by_word(tokens, spans).tolist() == [[1, 0, 0, 0], [0, 1, 1, 0]]


# The pipeline --------------------------------------------------------------------------------------------------------


def test_each_word_of_a_translation_has_one_of_the_source(pipeline):
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


def test_each_of_several_translations_has_its_own(pipeline):
    records = pipeline(SENTENCES[0], return_alignments=True, num_return_sequences=3, num_beams=3, return_scores=True)
    for record in records:
        assert [span for _, span in record["alignments"]] == words(record["translation_text"])
        assert record["score"] < 0


def test_the_head_is_the_checkpoints(pipeline):
    pair = (SENTENCES[0], PAIRS[SENTENCES[0]])
    [links] = align(pipeline.model, pipeline.tokenizer, [pair])
    assert links == align(pipeline.model, pipeline.tokenizer, [pair], AlignmentHead(0, 1, "read"))[0]


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (None, "has no `alignment_head`"),
        ({"layer": 99, "head": 0, "when": "read"}, "no such head"),
        ({"layer": 0, "head": 0, "when": "never"}, "no such head"),
        ({"layer": 0}, "no such head"),
        ("0-1", "no such head"),
    ],
)
def test_a_checkpoint_without_a_head_is_refused_before_it_translates(pipeline, kept, message, monkeypatch):
    pipeline.model.generation_config.alignment_head = kept
    monkeypatch.setattr(pipeline.model, "generate", None)
    with pytest.raises(ValueError, match=message):
        pipeline(SENTENCES, return_alignments=True)


def test_the_head_is_saved_and_loaded_with_the_checkpoint(pipeline, tmp_path):
    pipeline.save_pretrained(tmp_path)
    assert AlignmentHead.of(load(tmp_path)[0]) == AlignmentHead(**HEAD)
