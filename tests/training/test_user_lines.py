"""Lines as users type them: the sets are whole, and the judgement can fail each kind of line."""

import re
import unicodedata
from collections import Counter

import pytest
from tiny_checkpoint import tiny_checkpoint

from training.models import load
from training.parallel_text import read_pairs
from training.recipe import Source
from training.user_lines import COPIED, Line, format_lines, lines_of, measure_lines, measure_model, passes


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_each_language_has_two_hundred_lines_whose_kept_strings_are_in_them(language):
    lines = lines_of(language)
    assert len(lines) == 200 == len({line.text for line in lines})
    assert len({line.kind for line in lines}) == 14
    for kind, text, kept in lines:
        assert unicodedata.is_normalized("NFC", text) and text.strip() == text
        if kind in COPIED:
            for string, count in Counter(kept.split(" | ")).items():
                assert string and text.count(string) >= count, text


def test_other_languages_have_none():
    assert lines_of("it") == []


@pytest.mark.parametrize("line", lines_of("en"), ids=lambda line: f"{line.kind} {line.text[:20]}")
def test_a_line_that_comes_back_as_it_was_passes(line):
    """All that is asked for is in the source itself; how good a translation is, is not asked."""
    assert passes(line, line.required if line.kind == "typo" else line.text, corrected=line.required)


@pytest.mark.parametrize(
    ("line", "wrong", "right"),
    [
        (Line("url", "See http://a.example/b?c=1.", "http://a.example/b?c=1"), "Siehe http://a.example/b.", None),
        (Line("printf", "%d of %d files", "%d | %d"), "%d Dateien", "%d von %d Dateien"),
        (Line("number", "It weighs 25 kg.", "25 kg"), "Es wiegt 52 kg.", "Es wiegt 25\u00a0kg."),
        (Line("number", "It starts at 14:30.", "14:30"), "Ça commence à 14 h 20.", "Ça commence à 14 h 30."),
        (Line("emoji", "Thanks 🙏", "🙏"), "Danke", "🙏 Danke"),
        (Line("odd", "???", "???"), "Was ist das?", "???"),
        (Line("list", "- milk", "- "), "Milch", "- Milch"),
        (Line("capitals", "KEEP OUT OF HERE", ""), "Draußen bleiben!", "DRAUSSEN BLEIBEN"),
        (Line("capitals", "KEEP OUT OF HERE", ""), "JA", "DRAUSSEN BLEIBEN"),
        (
            Line("no_final_punctuation", "cheap flights to Rome", ""),
            "billige Flüge nach Rom.",
            "Billige Flüge nach Rom",
        ),
        (Line("several", "Sit. Wait. Go now.", "3"), "Setz dich. Warte.", "Setz dich. Warte! Geh jetzt."),
    ],
)
def test_what_fails_and_what_passes(line, wrong, right):
    assert not passes(line, wrong)
    assert right is None or passes(line, right)


def test_a_typing_error_must_not_change_the_translation():
    line = Line("typo", "I lost my kyes.", "I lost my keys.")
    assert passes(line, "Ich habe meine Schlüssel verloren.", "Ich habe meinen Schlüssel verloren.")
    assert not passes(line, "Ich habe meine Kyes.", "Wo sind die Schlüssel?")


def test_figures_count_what_passed():
    lines = lines_of("de")
    whole = measure_lines(lines, list)
    assert (whole["lines"], whole["kept"]) == (200, 1.0) and whole["passed"] >= 195
    nothing = measure_lines(lines, lambda texts: [""] * len(texts))
    assert nothing["kept"] == 0.0 and nothing["kinds"]["url"] == "0 of 18"
    assert "100.0% of those with strings to copy kept all" in format_lines(whole)


def test_the_pipeline_and_the_model_alone_are_both_measured():
    lines = [
        Line("odd", "!!! 12345 ???", "!!! 12345 ???"),
        Line("url", "See https://a.example/b.", "https://a.example/b"),
    ]
    measured = measure_model(lines, *load(str(tiny_checkpoint()), "cpu"), batch_size=2)
    assert (measured["passed"], measured["alone"]["passed"]) == (2, 0), "only the pipeline copies what has no words"
    assert "the model alone: 0 pass, 0.0% kept all" in format_lines(measured)


def plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold()).strip()


@pytest.mark.parametrize(
    "file, least", [("phrases", 1700), ("sentences", 71_000), ("news", 30_000), ("emphasis", 3900), ("things", 1000)]
)
@pytest.mark.parametrize("column, language", [(0, "en"), (1, "de"), (2, "fr")])
def test_no_line_is_among_those_of_ours_that_models_are_trained_on(file, least, column, language):
    pairs = read_pairs(Source(path=f"shipped:{file}.tsv", target_column=column))
    assert len(pairs) > least and all(text.strip() == text != "" for pair in pairs for text in pair)
    phrases = {plain(text) for _, text in pairs}
    assert not phrases & {plain(line.text) for line in lines_of(language)}
    assert not phrases & {plain(line.required) for line in lines_of(language) if line.kind == "typo"}
