"""Confidence in words and texts: its definition, and what the pipeline returns."""

import json
import math
from pathlib import Path
from statistics import mean

import pytest
import torch
from tiny_checkpoint import PAIRS, tiny_checkpoint

from vaswani_transformer import TranslationPipeline, load
from vaswani_transformer.model.confidence_vaswani import (
    DEFAULT_CALIBRATION,
    Calibration,
    confidences,
    least_certain_word,
    mean_confidence,
    word_features,
)


SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())
CALIBRATION = {"word": 0.5, "sentence": 0.25, "bias": 2.0}


@pytest.fixture
def translate(monkeypatch):
    model, tokenizer = load(tiny_checkpoint(), dtype="float32")
    model.generation_config.confidence = CALIBRATION
    return TranslationPipeline(model=model, tokenizer=tokenizer)


def test_features_are_the_models_log_probabilities(translate):
    """Summed up by words, with no batch and no offsets: by the model's own loss."""
    model, tokenizer = translate.model, translate.tokenizer
    all_features = word_features(model, tokenizer, list(PAIRS.items()))
    for (source, target), features in zip(PAIRS.items(), all_features, strict=True):
        batch = tokenizer([source], text_target=[target], return_tensors="pt")
        with torch.no_grad():
            loss = model(**batch).loss
        assert features.mean_log_prob == pytest.approx(-loss.item(), abs=1e-4)
        labels = batch["labels"][0].tolist()
        tokens = [tokenizer.decode([i]) for i in labels[:-1]]
        assert "".join(target[a:b] for a, b in features.spans) == "".join("".join(tokens).split())
        assert features.log_probs.sum().item() == pytest.approx(-loss.item() * len(labels), abs=0.05)


def test_confidence_is_the_logistic_function_of_the_features(translate):
    [features] = word_features(translate.model, translate.tokenizer, [(SOURCES[0], "Ein Hund.")])
    [words] = confidences(translate.model, translate.tokenizer, [(SOURCES[0], "Ein Hund.")])
    for (span, value), wanted, log_prob in zip(words, features.spans, features.log_probs.tolist(), strict=True):
        assert span == wanted
        odds = math.exp(log_prob) / (1 - math.exp(min(log_prob, -1e-5)))
        logit = 0.5 * math.log(odds) + 0.25 * features.mean_log_prob + 2.0
        assert value == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-5)
    pairs = [(SOURCES[0], TARGETS[0]), (SOURCES[0], TARGETS[2])]
    known, unknown = map(mean_confidence, confidences(translate.model, translate.tokenizer, pairs))
    assert known > 0.85 > 0.5 > unknown


def test_records_have_it_for_words_and_texts(translate):
    [alone] = translate(SOURCES[0], return_confidence=True)
    words = [alone["translation_text"][a:b] for (a, b), _ in alone["word_confidences"]]
    assert words == ["Ein", "Mann", "fährt", "Fahrrad", "."]
    assert alone["confidence"] == pytest.approx(mean_confidence(alone["word_confidences"]))
    [shifted] = translate(f"12\n{SOURCES[0]} {SOURCES[1]}", return_confidence=True)
    assert [s for s, _ in shifted["word_confidences"][:5]] == [
        (a + 3, b + 3) for (a, b), _ in alone["word_confidences"]
    ]
    assert translate("12", return_confidence=True)[0]["confidence"] == 1.0
    whole = translate(SOURCES[:2], return_confidence=True, split_sentences=False, num_return_sequences=2)
    assert all(0 < record["confidence"] < 1 for records in whole for record in records)


def test_sentences_below_the_minimum_are_among_the_warnings(translate):
    odd = "Dogs watch the bicycle."
    known, unknown = (record["confidence"] for record in translate([SOURCES[0], odd], return_confidence=True))
    assert unknown < known
    [record] = translate(f"{SOURCES[0]} {odd}", min_confidence=(known + unknown) / 2)
    assert record["warnings"] == [f'"{odd}": confidence {unknown:.2f}']


def test_a_word_below_its_minimum_is_named(translate):
    [record] = translate(f"12. {SOURCES[0]} Dogs watch the bicycle.", return_confidence=True)
    text = record["translation_text"]
    words = [(text[a:b], value) for (a, b), value in record["word_confidences"] if text[a].isalnum()]
    word, lowest = min(words, key=lambda item: item[1])
    assert record["lowest_word_confidence"] == lowest < record["confidence"]
    [warned] = translate("Dogs watch the bicycle.", min_word_confidence=lowest + 0.01)
    assert warned["warnings"] == [f'"{word}" has confidence {lowest:.2f}']
    assert "warnings" not in translate("Dogs watch the bicycle.", min_word_confidence=lowest - 0.01)[0]


def test_punctuation_is_not_the_least_certain_word():
    assert least_certain_word("Ja .", [((0, 2), 0.5), ((3, 4), 0.1)]) == ((0, 2), 0.5)
    assert least_certain_word(".", [((0, 1), 0.1)])[1] == 1.0


@pytest.mark.parametrize("entry", ["high", {"word": 1.0}, {**CALIBRATION, "bias": "x"}])
def test_an_invalid_calibration_is_refused(translate, entry):
    translate.model.generation_config.confidence = entry
    with pytest.raises(ValueError, match="Invalid `confidence`.*numbers word, sentence, bias.*vaswani calibrate"):
        translate(SOURCES[0], return_confidence=True)
    with pytest.raises(ValueError, match="Invalid `confidence`"):
        Calibration.from_model(translate.model)


def test_a_checkpoint_without_calibration_gets_the_default(translate):
    assert translate.is_calibrated
    translate.model.generation_config.confidence = None
    assert not translate.is_calibrated
    [record] = translate(SOURCES[0], return_confidence=True)
    pairs = [(SOURCES[0], record["translation_text"])]
    [words] = confidences(translate.model, translate.tokenizer, pairs, DEFAULT_CALIBRATION)
    assert record["word_confidences"] == words


def test_the_default_is_the_mean_of_the_included_checkpoints():
    cards = Path(__file__).parents[3].glob("model_cards/*/confidence.json")
    calibrations = [json.loads(card.read_text(encoding="utf-8"))["calibration"] for card in cards]
    assert len(calibrations) == 4
    means = {name: mean(calibration[name] for calibration in calibrations) for name in Calibration._fields}
    assert DEFAULT_CALIBRATION == pytest.approx(Calibration(**means), abs=1e-4)
