"""`pipeline("translation", ...)` and `TranslationPipeline`, on a model that knows six sentences by heart."""

import json
from pathlib import Path

import datasets
import pytest
import torch
from tiny_checkpoint import PAIRS, tiny_checkpoint
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
from transformers.pipelines.pt_utils import KeyDataset

from vaswani_transformer import (
    TranslationPipeline,
    VaswaniForConditionalGeneration,
    checkpoint_path,
    translate_texts,
)


pytestmark = pytest.mark.quick


SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())
# With texts that the model has never seen: their translations are long, strange and easily changed by the batch.
MIXED = [*SOURCES, "", "Dogs watch the park and a woman rides.", " \t", "zzz " * 30, "Hello! Thanks"]


@pytest.fixture(scope="module")
def folder():
    return str(tiny_checkpoint())


@pytest.fixture(scope="module")
def translate(folder):
    return pipeline("translation", model=folder, pipeline_class=TranslationPipeline, dtype=torch.float32)


def texts(records):
    return [record["translation_text"] for record in records]


# What goes in and what comes out --------------------------------------------------------------------------------------


def test_a_string_gives_a_list_of_its_translations(translate):
    assert translate(SOURCES[0]) == [{"translation_text": TARGETS[0]}]


@pytest.mark.parametrize("kind", [list, tuple, lambda x: datasets.Dataset.from_dict({"en": x})["en"]])
def test_a_list_gives_a_translation_for_each_text(translate, kind):
    assert translate(kind(SOURCES)) == [{"translation_text": target} for target in TARGETS]


def test_an_empty_list_gives_an_empty_list(translate):
    assert translate([]) == []


@pytest.mark.parametrize("batch_size", [1, 4])
def test_generators_and_data_sets_give_iterators(translate, batch_size):
    rows = datasets.Dataset.from_dict({"en": SOURCES})
    for inputs in ((text for text in SOURCES), KeyDataset(rows, "en"), iter(SOURCES)):
        results = translate(inputs, batch_size=batch_size)
        assert not isinstance(results, list)
        assert list(results) == [[{"translation_text": target}] for target in TARGETS]


def test_a_generator_is_read_only_as_far_as_its_translations_are(translate):
    read = []
    results = translate(read.append(text) or text for text in SOURCES)
    next(iter(results))
    assert len(read) == 1


@pytest.mark.parametrize("batch_size", [2, 5, 11])
def test_translations_and_scores_do_not_depend_on_the_batch(translate, batch_size):
    arguments = dict(num_return_sequences=2, return_scores=True, max_new_tokens=25)
    alone = translate(MIXED, **arguments)
    together = translate(MIXED, batch_size=batch_size, **arguments)
    assert [texts(records) for records in together] == [texts(records) for records in alone]
    for a, b in zip(alone, together, strict=True):
        assert [r["score"] for r in a] == pytest.approx([r["score"] for r in b], abs=1e-4)


@pytest.mark.parametrize("blank", ["", " ", "\n\t\u3000"])
def test_blank_text_stays_unchanged_without_the_model(translate, monkeypatch, blank):
    monkeypatch.setattr(translate.model, "generate", lambda **kwargs: pytest.fail("the model was called"))
    assert translate(blank) == [{"translation_text": blank}]
    assert translate([blank, blank], batch_size=2) == [{"translation_text": blank}] * 2
    assert texts(translate(blank, num_return_sequences=2)) == [blank]
    assert translate(blank, split_sentences=False) == [{"translation_text": ""}]


@pytest.mark.parametrize("wrong", [None, 3, b"Hello!", ["Hello!", None], [["Hello!"]], {"en": "Hello!"}.items()])
def test_what_is_not_a_string_is_refused(translate, wrong):
    with pytest.raises(TypeError, match="translates strings, but got (NoneType|int|bytes|list|tuple)"):
        list(translate(wrong))


def test_a_dict_is_refused_with_advice_instead_of_its_keys_translated(translate):
    for wrong in ({"en": "Hello!"}, [{"en": "Hello!"}], ({"en": text} for text in SOURCES)):
        with pytest.raises(TypeError, match="got dict. .*KeyDataset"):
            list(translate(wrong))


def test_a_whole_data_set_is_refused_with_advice(translate):
    with pytest.raises(TypeError, match="KeyDataset"):
        list(translate(datasets.Dataset.from_dict({"en": SOURCES})))


# Lists of texts ------------------------------------------------------------------------------------------------------


def test_texts_of_similar_length_share_a_batch_and_the_longest_come_first(translate, monkeypatch):
    widths = []
    generate = translate.model.generate
    monkeypatch.setattr(
        translate.model, "generate", lambda **inputs: widths.append(inputs["input_ids"].shape) or generate(**inputs)
    )
    lengths = sorted((len(ids) for ids in translate.tokenizer(SOURCES)["input_ids"]), reverse=True)
    assert translate(SOURCES, batch_size=2) == [{"translation_text": target} for target in TARGETS]
    assert widths == [(2, lengths[0]), (2, lengths[2]), (2, lengths[4])]


def test_batches_of_a_list_are_planned(translate, monkeypatch):
    """At most 64 texts and 2,048 tokens with padding, or one longer text; a given batch size is used as it is."""
    shapes, generate = [], translate.model.generate

    def recording_generate(**inputs):
        shapes.append(inputs["input_ids"].shape)
        return generate(**inputs, max_new_tokens=2)

    monkeypatch.setattr(translate.model, "generate", recording_generate)
    texts = ["Hello! " * 300, "Hello! " * 2000, *["Hello! " * 60] * 20, *["Hello!"] * 100]
    assert len(translate(texts, split_sentences=False)) == len(texts)
    assert len(shapes[0]) == 2 and shapes[0][0] == 1 and shapes[0][1] > 2048
    assert all(rows <= 64 and rows * width <= 2048 for rows, width in shapes[1:])
    assert max(rows for rows, _ in shapes) == 64 and sum(rows for rows, _ in shapes) == len(texts)
    assert len(shapes) <= 8
    shapes.clear()
    translate(texts[2:], batch_size=40, split_sentences=False)
    assert [rows for rows, _ in shapes] == [40, 40, 40]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_translate_texts_keeps_the_order_empty_texts_and_the_models_mode(translate, batch_size):
    sources = [SOURCES[1], "", SOURCES[2], " ", SOURCES[0]]
    done = []
    translate.model.train()
    result = translate_texts(translate.model, translate.tokenizer, sources, batch_size, done.append)
    assert translate.model.training
    translate.model.eval()
    assert result == [TARGETS[1], "", TARGETS[2], "", TARGETS[0]]
    assert sum(done) == len(sources)


def test_translate_texts_takes_a_model_that_accelerate_has_placed(folder, translate, tmp_path):
    parts = ["shared", "encoder", *(f"decoder.{part}" for part in ("embed_tokens", "embedding", "norm"))]
    places = {**{f"model.{part}": "cpu" for part in parts}, "model.decoder.layers": "disk", "lm_head": "cpu"}
    model = AutoModelForSeq2SeqLM.from_pretrained(
        folder, dtype=torch.float32, device_map=places, offload_folder=tmp_path
    )
    assert model.hf_device_map
    assert translate_texts(model, translate.tokenizer, SOURCES[:2]) == TARGETS[:2]


def test_translate_texts_passes_settings_on_and_takes_an_empty_list(translate):
    assert translate_texts(translate.model, translate.tokenizer, []) == []
    [short] = translate_texts(translate.model, translate.tokenizer, SOURCES[:1], max_new_tokens=2, num_beams=1)
    assert len(short) < len(TARGETS[0])
    assert not translate.model.training


# Several translations and their scores --------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_scores_are_those_by_which_beam_search_ranks(translate, alpha):
    text = "Dogs watch the park."
    records = translate(text, num_return_sequences=4, return_scores=True, length_penalty=alpha)
    scores = [record["score"] for record in records]
    encoded = translate.tokenizer(text, return_tensors="pt")
    reference = translate.model.generate(
        **encoded, num_return_sequences=4, length_penalty=alpha, return_dict_in_generate=True, output_scores=True
    )
    assert len(set(texts(records))) == 4
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx(reference.sequences_scores.tolist(), abs=1e-4)


def test_score_of_a_greedy_translation(translate):
    [record] = translate(SOURCES[3], num_beams=1, return_scores=True)
    output = translate.model.generate(
        **translate.tokenizer(SOURCES[3], return_tensors="pt"),
        num_beams=1,
        return_dict_in_generate=True,
        output_logits=True,
    )
    steps = translate.model.compute_transition_scores(output.sequences, output.logits, normalize_logits=True)
    assert record["score"] == pytest.approx(steps.sum().item() / ((5 + steps.shape[1]) / 6) ** 0.6, rel=1e-4)


def test_settings_of_the_pipeline_hold_unless_a_call_changes_them(translate):
    two = TranslationPipeline(model=translate.model, tokenizer=translate.tokenizer, num_return_sequences=2)
    assert len(two(SOURCES[0])) == 2
    assert len(two(SOURCES[0], num_return_sequences=3)) == 3
    assert [len(records) for records in two(SOURCES[:2])] == [2, 2]


# Arguments ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 6])
def test_return_tensors_gives_the_ids_of_the_translation_alone(translate, batch_size):
    records = translate(SOURCES, return_tensors=True, batch_size=batch_size)
    expected = translate.tokenizer(text_target=TARGETS)["input_ids"]
    assert [record["translation_token_ids"].tolist() for record in records] == expected
    assert all(record.keys() == {"translation_token_ids"} for record in records)


def test_ids_and_text_together(translate):
    [record] = translate(SOURCES[0], return_tensors=True, return_text=True)
    assert record.keys() == {"translation_token_ids", "translation_text"}


def test_generation_arguments_reach_the_model(translate):
    [record] = translate(SOURCES[0], return_tensors=True, max_new_tokens=3)
    assert len(record["translation_token_ids"]) == 3
    with pytest.raises(ValueError, match="no_such_argument"):
        translate(SOURCES[0], no_such_argument=1)


def test_text_is_truncated_only_on_request(translate, monkeypatch):
    monkeypatch.setattr(translate.tokenizer, "model_max_length", 6)
    long = SOURCES[2] * 10
    whole = translate.preprocess(long)["input_ids"]
    assert translate.tokenizer.decode(whole[0], skip_special_tokens=True) == long
    cut = translate.preprocess(long, truncation=True)["input_ids"]
    assert cut.shape == (1, 6)
    whole = translate(long, split_sentences=False, max_new_tokens=4)
    assert whole != translate(long, truncation=True, max_new_tokens=4)


def test_text_far_longer_than_any_in_training(translate):
    [record] = translate("A man rides a bicycle. " * 40, max_new_tokens=5)
    assert record["translation_text"]


@pytest.mark.parametrize("name", ["dtype", "torch_dtype"])
@pytest.mark.parametrize("dtype", ["bfloat16", torch.bfloat16])
def test_dtype_argument(folder, name, dtype):
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    translate = TranslationPipeline(model=model, tokenizer=tokenizer, **{name: dtype})
    assert translate.dtype == torch.bfloat16
    assert texts(translate(SOURCES[:1])) == TARGETS[:1]
    assert pipeline("translation", folder, pipeline_class=TranslationPipeline, **{name: dtype}).dtype == torch.bfloat16


def test_device_argument(folder):
    translate = pipeline("translation", folder, pipeline_class=TranslationPipeline, device="meta")
    assert translate.device.type == "meta"
    assert {parameter.device.type for parameter in translate.model.parameters()} == {"meta"}


# Finding the pipeline -------------------------------------------------------------------------------------------------


def test_a_saved_pipeline_names_and_carries_its_code_and_a_saved_model_does_not(folder, tmp_path, translate):
    translate.save_pretrained(tmp_path / "pipeline")
    config = json.loads((tmp_path / "pipeline" / "config.json").read_text(encoding="utf-8"))
    assert config["custom_pipelines"] == {
        "translation": {"impl": "pipeline_translation.TranslationPipeline", "pt": ["AutoModelForSeq2SeqLM"]}
    }
    assert (tmp_path / "pipeline" / "pipeline_translation.py").is_file()
    translate.model.save_pretrained(tmp_path / "model")
    for saved in (Path(folder), tmp_path / "model"):
        assert "custom_pipelines" not in json.loads((saved / "config.json").read_text(encoding="utf-8"))
        assert not (saved / "pipeline_translation.py").exists()


def test_task_by_name_needs_no_flag_where_the_package_is_imported():
    translate = pipeline("translation", model=checkpoint_path("mini-en-de"))
    assert type(translate) is TranslationPipeline
    assert translate.task == "translation"


@pytest.mark.parametrize("flags", [{}, {"trust_remote_code": True}], ids=["no flag", "trust_remote_code"])
@pytest.mark.parametrize("saves", ["model", "pipeline"])
def test_a_saved_folder_has_the_packages_pipeline_where_it_is_imported(folder, tmp_path, translate, saves, flags):
    """Its model is the package's too: the code beside the weights is for machines without the package."""
    if saves == "pipeline":
        translate.save_pretrained(folder := tmp_path / "pipeline")
    translate = pipeline("translation", model=str(folder), **flags)
    assert (type(translate), type(translate.model)) == (TranslationPipeline, VaswaniForConditionalGeneration)
    assert texts(translate(SOURCES)) == TARGETS


def test_task_by_name_for_a_model_in_memory_again_and_again(folder):
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    for _ in range(2):
        translate = pipeline(
            "translation", model, config=model.config, tokenizer=tokenizer, pipeline_class=TranslationPipeline
        )
        assert texts(translate(SOURCES[:1])) == TARGETS[:1]
    model.config.to_json_string()  # the library leaves classes in the configuration, which JSON does not know
