"""Subtitles: sentences across cues, and that times, numbers, tags and notes stay."""

import re

import pytest
from fake_pipeline import SENTENCE, SENTENCES, few, identity, reversed_words, texts_of, translated, unchanged
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.documents.subtitles import split_by_length, split_lines


TAGGED = st.sampled_from(
    ["{}", "<i>{}</i>", "<b>a <i>{}</i></b>", "{{\\an8}}{}", "<c.red>{}</c>", "<v Ann>{}", "{}</i>"]
)
CUE = st.lists(st.builds(str.format, TAGGED, SENTENCE), min_size=1, max_size=3).map(" ".join)


def file_of(suffix: str, cues: list[str]) -> str:
    point = "," if suffix == ".srt" else "."
    numbered = [f"{i + 1}\n00:00:{i:02}{point}000 --> 00:00:{i:02}{point}900\n{cue}\n" for i, cue in enumerate(cues)]
    return ("WEBVTT\n\n" if suffix == ".vtt" else "") + "\n".join(numbered)


@few
@given(st.lists(CUE, min_size=1, max_size=4), st.sampled_from([".srt", ".vtt"]))
def test_cues_with_tags_stay(cues, suffix):
    text = file_of(suffix, cues)
    assert unchanged(suffix, text) == text


@few
@given(st.lists(CUE, min_size=1, max_size=4), st.sampled_from([".srt", ".vtt"]))
def test_reversed_words_keep_times_and_tags(cues, suffix):
    text = file_of(suffix, cues)
    after = reversed_words(suffix, text)
    pattern = r"^.*-->.*$|</?\w[^>]*>|\{.*?\}"
    assert sorted(re.findall(pattern, after, re.MULTILINE)) == sorted(re.findall(pattern, text, re.MULTILINE))


@few
@given(SENTENCES)
def test_every_sentence_is_translated(sentences):
    seen = " ".join(texts_of(".srt", file_of(".srt", sentences)))
    assert all(sentence in seen for sentence in sentences)


@pytest.mark.parametrize(
    "text",
    [
        "WEBVTT - a title\nKind: captions\n\n00:01.000 --> 00:02.000\nHello.\n",
        "WEBVTT\n\nSTYLE\n::cue { color: red }\n\nREGION\nid:a\n\n00:01.000 --> 00:02.000\nHello.\n",
        "WEBVTT\n\nNOTE\none\ntwo\n\nname of a cue\n00:01.000 --> 00:02.000 align:start\nHello.\n\nNOTE end\n",
        "\n\n1\n00:00:01,000 --> 00:00:02,000\nHello.\n\n\n\n7\n00:00:03,000 --> 00:00:04,000\nBye.\n\n\n",
        "1\n00:00:01,000 --> 00:00:02,000\n\n2\n00:00:03,000 --> 00:00:04,000\nBye.",
        "1\n00:00:01,000 --> 00:00:02,000\nHello.\n2\n00:00:03,000 --> 00:00:04,000\nBye.\n",
        "1\n0:00:01.5 --> 0:00:02.25  X1:1 X2:2\n- Yes.\n- No.\n",
        "1\r\n00:00:01,000 --> 00:00:02,000\r\nHello\r\nyou.\r\n",
        "1\n00:00:01,000 --> 00:00:02,000\n♪ la la ♪\n",
        "1\n00:00:01,000 --> 00:00:02,000\nThe year 2000\n",
        "WEBVTT\n\n00:01.000 --> 00:02.000\nOne <00:01.500>two <ruby>a<rt>b</rt></ruby>\n",
    ],
)
def test_everything_but_the_texts_stays(text):
    suffix = ".vtt" if text.startswith("WEBVTT") else ".srt"
    assert unchanged(suffix, text) == text
    assert not re.search("NOTE|color|id:a|name of|title", " ".join(texts_of(suffix, text)))


def test_a_sentence_across_cues_is_translated_as_a_whole():
    text = file_of(".srt", ["He went", "to the sea.", "Then he slept."])
    assert [seen.strip() for seen in texts_of(".srt", text)] == ["He went to the sea.", "Then he slept."]


@pytest.mark.parametrize("cues", [["- Come in", "- Thanks"], ["Stop.", "Go"], ["♪ la ♪", "Go"], ["Go", "", "on"]])
def test_other_cues_are_translated_by_themselves(cues):
    seen = [text.strip() for text in texts_of(".srt", file_of(".srt", cues)) if text.strip()]
    assert seen == [cue for cue in cues if cue]


def test_a_sentence_has_at_most_four_cues():
    seen = [text.split() for text in texts_of(".srt", file_of(".srt", list("abcdef")))]
    assert seen == [["a", "b", "c", "d"], ["e", "f"]]


def test_every_cue_of_a_sentence_keeps_some_words():
    text = file_of(".srt", ["He went to", "the sea."])
    after = reversed_words(".srt", text)
    cues = [cue.splitlines()[2:] for cue in after.strip().split("\n\n")]
    assert all(len(cue) == 1 and cue[0] for cue in cues)
    assert sorted(" ".join(line for cue in cues for line in cue).split()) == sorted("He went to the sea .".split())


def test_speakers_keep_their_lines_and_other_lines_are_balanced():
    translator = identity()
    text = file_of(".srt", ["- Yes, we\n- No", "one\ntwo three"])
    translated(".srt", text, translator)
    assert translator.pipeline.seen == ["- Yes, we\n- No", "one two three"]
    assert split_lines("one two three four five six", 2) == "one two three\nfour five six"
    assert split_lines("<i>one two</i> three four", 2) == "<i>one two</i>\nthree four"
    assert split_lines("one", 3) == "one" and split_lines("", 2) == ""
    assert split_lines("a\nb c", 1) == "a\nb c"


@few
@given(st.lists(st.text("ab", min_size=1), max_size=9), st.lists(st.integers(0, 50), min_size=1, max_size=4))
def test_words_are_distributed_without_loss(words, lengths):
    texts = split_by_length(words, dict(enumerate(lengths)))
    assert list(texts) == list(range(len(lengths)))
    if sum(lengths):
        assert " ".join(texts.values()).split() == words


def test_words_are_distributed_in_proportion():
    assert split_by_length(list("abcdef"), {3: 20, 4: 10}) == {3: "a b c d", 4: "e f"}
