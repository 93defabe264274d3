"""Texts of any length through the pipeline: what stays unchanged, which translations are retried, and warnings."""

import dataclasses
import inspect
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_checkpoint import ABOUT, PAIRS, tiny_checkpoint

from vaswani_transformer import TranslationPipeline, checkpoint_path, load
from vaswani_transformer.model.spans_vaswani import Replaced
from vaswani_transformer.model.texts_vaswani import (
    LongTexts,
    Sentence,
    TextSettings,
    TrainingTexts,
    add_stand_ins,
    remove_broken,
)


SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())


@pytest.fixture(scope="module")
def translate():
    model, tokenizer = load(tiny_checkpoint(), dtype="float32")
    return TranslationPipeline(model=model, tokenizer=tokenizer)


class Fake:
    """Translates in place of the model: gives the `answers` for a text in turn, or the text in capitals."""

    def __init__(self, answers=None):
        self.answers, self.calls = answers or {}, []

    def __call__(self, sentences, progress=None, **settings):
        self.calls += [(sentence.model_input, settings) for sentence in sentences]
        if progress:
            for _ in sentences:
                progress(1)
        records = [sentence.restore({"translation_text": self.answer(sentence)}) for sentence in sentences]
        return [[record] if record else [] for record in records]

    def answer(self, sentence):
        answers = self.answers.get(sentence.model_input, [sentence.model_input.upper()])
        return answers.pop(0) if len(answers) > 1 else answers[0]


def long_texts(translate, fake, **settings):
    return LongTexts(
        translate.tokenizer, fake, TextSettings(source_language="en", **{"longest_sentence": 40, **settings})
    )


# Settings ------------------------------------------------------------------------------------------------------------


def test_settings_are_those_of_the_pipeline_until_a_call_changes_them(translate):
    """Every setting is an argument of the pipeline, with the same default."""
    parameters = inspect.signature(TranslationPipeline.__init__).parameters
    for field in dataclasses.fields(TextSettings):
        assert parameters[field.name].default == field.default
    settings, arguments = TextSettings(longest_sentence=9).updated({"glossary": {"dog": "Hund"}, "num_beams": 2})
    assert arguments == {"num_beams": 2}
    assert settings.longest_sentence == 9 and settings.glossary.forms == {"dog": ("Hund",)}
    assert translate.text_settings == TextSettings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.glossary = None


# Structure -----------------------------------------------------------------------------------------------------------


def test_spacing_and_text_without_words_stay_unchanged(translate):
    text = f"  {SOURCES[0]}  {SOURCES[1]}\r\n\r\n- {SOURCES[2]}\n\n\t12345 https://a.org/b ???\n{SOURCES[3]}"
    wanted = text
    for source, target in PAIRS.items():
        wanted = wanted.replace(source, target)
    assert translate(text) == [{"translation_text": wanted}]
    assert translate([text, SOURCES[0]]) == [{"translation_text": wanted}, {"translation_text": TARGETS[0]}]


@pytest.mark.parametrize(
    "text", ["", " ", "-", "???", "12345", "😀", "https://example.org/a", "{name}", "日本語です", "x\n"]
)
def test_text_without_words_comes_back_without_the_model(translate, monkeypatch, text):
    monkeypatch.setattr(translate.model, "generate", lambda **kwargs: pytest.fail("the model was called"))
    assert translate(text, return_scores=True) == [{"translation_text": text, "score": 0.0}]


def test_several_translations_of_several_sentences(translate):
    text = f"{SOURCES[0]} {SOURCES[1]}"
    both = translate(text, num_return_sequences=2, return_scores=True)
    alone = [translate(source, num_return_sequences=2, return_scores=True) for source in SOURCES[:2]]
    for i, record in enumerate(both):
        assert record["translation_text"] == " ".join(records[i]["translation_text"] for records in alone)
        assert record["score"] == pytest.approx(sum(records[i]["score"] for records in alone) / 2, abs=1e-4)


def test_alignments_count_from_the_beginning_of_the_text(translate, monkeypatch):
    head = {"layer": 0, "head": 0, "when": "produced"}
    monkeypatch.setattr(translate.model.generation_config, "alignment_head", head, raising=False)
    [one] = translate(SOURCES[1], return_alignments=True)
    [two] = translate(f"12\n{SOURCES[1]}", return_alignments=True)
    assert two["alignments"][0] == ((0, 2), (0, 2))
    assert two["alignments"][1:] == [((a + 3, b + 3), (c + 3, d + 3)) for (a, b), (c, d) in one["alignments"]]


def test_progress_counts_texts(translate):
    done = []
    long_texts(translate, Fake()).translate(["One. Two. Three words.", "", "Four five."], progress=done.append)
    assert sum(done) == 3
    done.clear()
    long_texts(translate, Fake()).translate(["", "12"], progress=done.append)
    assert sum(done) == 2


# Long sentences ------------------------------------------------------------------------------------------------------


def test_a_sentence_that_is_too_long_is_split_and_nothing_is_lost(translate):
    text = "we went out, and they came in; " * 30 + "that was all."
    fake = Fake()
    [[record]] = long_texts(translate, fake, longest_sentence=40).translate([text])
    assert record["translation_text"] == text.upper()
    assert len(fake.calls) > 5
    assert all(len(translate.tokenizer(text)["input_ids"]) <= 40 for text, _ in fake.calls)
    [warning] = record["warnings"]
    assert re.fullmatch(r"a sentence of \d+ tokens was translated in \d+ pieces", warning)


def test_the_length_limit_is_the_checkpoints_and_can_be_set(translate):
    assert TrainingTexts.from_model(translate.model) == TrainingTexts("en", ABOUT["max_length"], "de")
    text = "A man rides a bicycle, a man rides a bicycle."
    assert "warnings" not in translate(text)[0]
    assert "in 2 pieces" in translate(text, longest_sentence=20)[0]["warnings"][0]


def test_a_word_that_is_too_long_stays_unchanged(translate):
    word = "Aa" + "b" * 150
    [[record]] = long_texts(translate, Fake(), longest_sentence=20).translate([f"See {word} now."])
    assert word in record["translation_text"]


# Retries -------------------------------------------------------------------------------------------------------------


def test_a_good_translation_is_not_retried(translate):
    fake = Fake()
    assert long_texts(translate, fake).translate(["It is 1985."]) == [[{"translation_text": "IT IS 1985."}]]
    assert len(fake.calls) == 1


def test_a_wrong_number_is_retried_with_more_beams(translate):
    fake = Fake({"It was 1985.": ["Es war 1958.", "Es war 1985."]})
    assert long_texts(translate, fake).translate(["It was 1985."]) == [[{"translation_text": "Es war 1985."}]]
    assert fake.calls[1][1]["num_beams"] == fake.calls[1][1]["num_return_sequences"] == 8


def test_a_letter_replaces_a_missing_item(translate):
    text = "Write to me@x.org or X, now."
    fake = Fake({text: ["Schreib mir, jetzt."], "Write to Y or X, now.": ["Schreib Y oder X, jetzt."]})
    [[record]] = long_texts(translate, fake).translate([text])
    assert record == {"translation_text": "Schreib me@x.org oder X, jetzt."}


def test_text_around_an_item_is_translated_if_it_is_lost_again(translate):
    text = "Click {name} and <b>now</b>."
    fake = Fake({text: ["Klick."], "Click X and YnowZ.": ["Klick."]})
    [[record]] = long_texts(translate, fake).translate([text])
    assert record["translation_text"] == "CLICK {name} AND <b>NOW</b>."


def test_a_sentence_with_a_repetition_is_translated_in_pieces(translate):
    text = "When the rain had stopped at last, we all went out of the house again."
    fake = Fake({text: ["Als der der der der Regen, Regen"]})
    [[record]] = long_texts(translate, fake, longest_sentence=100).translate([text])
    assert record == {"translation_text": text.upper()}


def test_the_same_input_is_not_translated_again(translate):
    """A short sentence has a single clause, and no items to translate around."""
    fake = Fake({"It was 1985.": ["Es war."]})
    long_texts(translate, fake).translate(["It was 1985."])
    assert len(fake.calls) == 2


@pytest.mark.parametrize(
    "retried, wanted", [("1985.", "Es war damals so."), ("Es war so 1985.", "Es war so 1985.")], ids=["short", "whole"]
)
def test_a_retry_must_not_lose_text(translate, retried, wanted):
    fake = Fake({"It was so in 1985.": ["Es war damals so.", retried]})
    [[record]] = long_texts(translate, fake).translate(["It was so in 1985."])
    assert record["translation_text"] == wanted
    assert ("warnings" in record) == ("1985" not in wanted)


def test_a_warning_quotes_its_sentence_if_there_are_several(translate):
    fake = Fake({"It was 1985.": ["Es war."], "Hello there.": ["Hallo."]})
    [[record]] = long_texts(translate, fake).translate(["Hello there. It was 1985."])
    assert record == {
        "translation_text": "Hallo. Es war.",
        "warnings": ['"It was 1985.": 1985 is missing from the translation'],
    }


@pytest.mark.parametrize("settings", [{"max_new_tokens": 3}, {"do_sample": True}, {"num_return_sequences": 4}])
def test_several_translations_samples_and_limits_are_not_retried_by_default(translate, monkeypatch, settings):
    calls, generate = [], translate.model.generate
    monkeypatch.setattr(translate.model, "generate", lambda **inputs: calls.append(inputs) or generate(**inputs))
    [record, *_] = translate("In 1985 and 1986 zzz.", **settings)
    assert len(calls) == 1 and record["warnings"]
    # The command passes the number of translations and limits that the user did not set.
    for plain in (
        {},
        {"num_return_sequences": 1, "max_length": None},
        {"num_return_sequences": 4, "tries_again": True},
    ):
        calls.clear()
        translate("In 1985 and 1986 zzz.", **plain)
        assert len(calls) > 1


# Broken characters ---------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["\ufffd", "\ufffd\ufffd", "Hal", "lo", " ", "❤", "\ufe0f", ".", "12"])).map("".join))
def test_no_text_has_a_broken_character_that_its_source_does_not_have(translate, answer):
    """A byte-level tokenizer decodes a part of a character as U+FFFD, and the search may choose such a part."""
    fake = Fake({"Hello there.": [answer], "HELLO THERE.": [answer], "Hello \ufffd.": ["Hallo \ufffd."]})
    [[plain], [several], [same]] = long_texts(translate, fake).translate(
        ["Hello there.", "Hello there. Hello there.", "Hello \ufffd."]
    )
    assert "\ufffd" not in plain["translation_text"] + several["translation_text"]
    assert plain["translation_text"].lower() == answer.replace("\ufffd", "").lower()  # the first word gets a capital
    assert ("\ufffd" in answer) <= any(
        "broken" in warning or "empty" in warning for warning in plain.get("warnings", ())
    )
    assert same == {"translation_text": "Hallo \ufffd."}


def test_the_models_own_output_has_no_broken_characters_either(translate, monkeypatch):
    monkeypatch.setattr(translate, "_decode", lambda *_: "❤Kin\ufffd\ufffd")
    for options in ({"split_sentences": False}, {"truncation": True}, {"num_return_sequences": 2}):
        [record, *others] = translate("I love you", **options)
        assert {"❤Kin"} == {x["translation_text"] for x in (record, *others)}
        assert record["warnings"] == ["a broken character was removed"]


def test_spans_follow_when_a_broken_character_is_removed():
    record = {
        "translation_text": "❤\ufffd kin\ufffd\ufffd so",
        "alignments": [((0, 1), (0, 1)), ((0, 1), (1, 2)), ((2, 5), (3, 6)), ((6, 8), (9, 11))],
        "word_confidences": [((1, 2), 0.1), ((3, 6), 0.2), ((9, 11), 0.3)],
    }
    assert remove_broken("I love you", record)
    assert record == {
        "translation_text": "❤ kin so",
        "alignments": [((0, 1), (0, 1)), ((2, 5), (2, 5)), ((6, 8), (6, 8))],
        "word_confidences": [((2, 5), 0.2), ((6, 8), 0.3)],
    }


# Any input -----------------------------------------------------------------------------------------------------------


def random_text(seed: int) -> str:
    rng = random.Random(seed)
    pieces = [
        *SOURCES, *"abc .!?;:,()-*\t\n\r\"'’«»{}<>&%$/\\@#`~^|_=+", "\u2028", "\u00a0", "\x00", "日本", "😀", "é",
        "https://a.b/c ", "me@x.org ", "{name}", "%s", "</b>", "12,345.6", "M. ", "A" * 300, "\ufeff", "\u202e", "١٢",
    ]  # fmt: skip
    return "".join(rng.choice(pieces) for _ in range(rng.randrange(30)))


@pytest.mark.parametrize("number", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_any_text_has_a_translation(translate, number):
    """Random texts through everything but the model."""
    texts = [random_text(seed) for seed in range(number)]
    results = long_texts(translate, Fake()).translate(texts)
    for text, [record] in zip(texts, results, strict=True):
        assert record["translation_text"].upper() == text.upper(), text


def test_odd_texts_through_the_model(translate):
    texts = [random_text(seed) for seed in range(40)]
    for text, record in zip(texts, translate(texts), strict=True):
        assert len(re.findall("[\n\r\u2028]", record["translation_text"])) >= len(re.findall("[\n\r\u2028]", text))


@pytest.fixture(scope="module")
def german():
    model, tokenizer = load(checkpoint_path("mini-en-de"))
    return TranslationPipeline(model=model, tokenizer=tokenizer, device="cpu")


def test_a_time_in_words_is_retried_in_digits(german):
    """Without the retry, the model translates it by "halb acht"."""
    [once], [again] = (german("The meeting starts at half past nine.", tries_again=flag) for flag in (False, True))
    assert "half past nine is missing" in once["warnings"][0]
    assert "9.30" in again["translation_text"].replace(":", ".")
    assert "warnings" not in again


def test_missing_names_become_letters_in_a_retry():
    sentence = Sentence("Ask Mrs Ada Byron.", Replaced("Ask Mrs Ada Byron."))
    retried = add_stand_ins(sentence, "Frag Frau Ada.", True, ("en", "de"))
    assert retried.model_input == "Ask Mrs Ada X."
    assert ("X",) in retried.required and ("Byron",) not in retried.required
    assert retried.restore({"translation_text": "Frag Frau Ada X."})["translation_text"] == "Frag Frau Ada Byron."


def test_halves_become_digits_in_a_retry():
    text = "It took two and a half years, and cost one and a half million at half past nine."
    retried = add_stand_ins(Sentence(text, Replaced(text)), "Es war.", True, ("en", "de"))
    assert retried.model_input == "It took 2,5 years, and cost 1,5 Millionen at 9:30 Uhr."


@pytest.mark.parametrize(
    "languages, text, translation, model_input",
    [
        (
            ("en", "fr"),
            "Closed from 24 Dec. to 2 Jan, you may enter in Feb 3.",
            "Fermé.",
            "Closed from 24 December to 2 January, you may enter in February 3.",
        ),
        (("en", "de"), "Happy hour: 5–7pm", "Glückliche Stunde: 5–7pm", "Happy hour: 5–7pm"),
        (("fr", "en"), "Quatre-vingt-dix-huit pour cent des parents.", "For parents.", "98 pour cent des parents."),
        (
            ("de", "en"),
            "Er zahlt 1,2 Mrd. Euro und 5 Mio. Franken",
            "He pays.",
            "Er zahlt 1,2 Milliarden Euro und 5 Millionen Franken",
        ),
        (("en", "fr"), "The deal is worth $1.4bn.", "Il vaut 1,4bn $.", "The deal is worth $1.4 billion"),
        (("de", "en"), "Wir warteten zweieinhalb Stunden.", "We waited.", "Wir warteten 2.5 Stunden."),
    ],
)
def test_months_and_numbers_in_words_are_written_out_in_a_retry(languages, text, translation, model_input):
    retried = add_stand_ins(Sentence(text, Replaced(text)), translation, True, languages)
    assert retried.model_input == model_input


def test_a_large_number_needs_its_word_in_a_retry():
    text = "Die Firma zahlte 1,2 Mrd. Dollar."
    retried = add_stand_ins(Sentence(text, Replaced(text)), "The company paid dollars.", True, ("de", "en"))
    assert ("1.2 billion", "1.2 bn") in retried.required


def test_tags_at_words_do_not_become_letters():
    """A letter in place of the tag would become part of the word, and spoil its translation."""
    text = "<li>Fresh bread</li> and <b> cheese"
    retried = add_stand_ins(Sentence(text, Replaced(text)), "Frisches Brot und Käse", True, ("en", "de"))
    assert retried.model_input == "<li>Fresh bread</li> and X cheese"


def test_copied_numbers_get_the_form_of_the_target_language(german):
    text = "You saved $3.99!"
    [record] = german([text], return_alignments=True)
    assert "3,99" in record["translation_text"]
    assert ("3.99", "3,99") in [
        (text[slice(*a)], record["translation_text"][slice(*b)]) for a, b in record["alignments"]
    ]


def test_a_lone_surrogate_is_refused(translate):
    with pytest.raises(ValueError, match=r"Invalid Unicode \(a lone surrogate\) at position 3"):
        translate("abc\ud800")
