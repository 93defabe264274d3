"""Subtitles: sentences across cues are translated; times, numbers, tags and notes stay."""

import re

import pytest
from fake_pipeline import SENTENCE, SENTENCES, few, reversed_words, shouted, texts_of, unchanged
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.documents.subtitles import split_by_length, split_lines


TAGGED = st.sampled_from(
    [
        "{}",
        "  {}  ",
        "{}\n{}",
        "{}\n\n- {}",
        "<i>{0}\n{0}</i>",
        "<rt>x</rt>{}",
        "&amp; {}",
        "<i>{}</i>",
        "<b>a <i>{}</i></b>",
        "{{\\an8}}{}",
        "<c.red>{}</c>",
        "<v Ann>{}",
        "{}</i>",
    ]
)
CUE = st.lists(st.builds(str.format, TAGGED, SENTENCE, SENTENCE), min_size=1, max_size=3).map(" ".join)


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
def test_words_that_change_keep_times_and_tags(cues, suffix):
    text = file_of(suffix, cues)
    pattern = r"^.*-->.*$|</?\w[^>]*>|\{.*?\}"
    for change in (shouted, reversed_words):
        after = change(suffix, text)
        assert sorted(re.findall(pattern, after, re.MULTILINE)) == sorted(re.findall(pattern, text, re.MULTILINE))


@few
@given(SENTENCES)
def test_every_sentence_is_translated(sentences):
    seen = " ".join(texts_of(".srt", file_of(".srt", sentences)))
    assert all(sentence in seen for sentence in sentences if re.search(r"\w", sentence))


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
    assert {*texts_of(".srt", text)} == {"He went to the sea.", "Then he slept."}


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


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (["- Yes, we", "- No"], ["- Yes, we", "- No"]),
        (["one", "two three"], ["one two three"]),
        (["<b>One is bold</b>", "<i>two is not</i>", "nor three"], ["One is bold", "two is not", "nor three"]),
        (["<i>One goes", "on here</i>"], ["One goes on here"]),
        (["he says", "ANN: Hello", "there"], ["he says", "ANN: Hello there"]),
        (["he says", "{\\an2}hello"], ["he says", "hello"]),
        (["he says", '<font color="red">hello', "you</font>"], ["he says", "hello you"]),
        (["Stop. Do you", "see?", "Yes"], ["Stop. Do you see?", "Yes"]),
        (["the happy", "", "man"], ["the happy man"]),
    ],
)
def test_lines_that_stand_for_themselves_are_texts_of_their_own(lines, texts):
    content = file_of(".srt", ["\n".join(lines)])
    assert sorted(texts_of(".srt", content)) == sorted(texts)
    assert unchanged(".srt", content) == content


def test_capitals_keep_the_lines_of_the_original():
    content = file_of(".srt", ["one two three\nfour five", "<i>six seven\neight</i> nine"])
    assert shouted(".srt", content) == re.sub(r"[a-z]{2,}", lambda match: match[0].upper(), content)


def test_ruby_and_entities_of_webvtt():
    content = file_of(".vtt", ["Two <ruby>dogs<rt>inu</rt></ruby> &amp; cats &lt;now"])
    assert texts_of(".vtt", content) == ["Two dogs & cats <now"]
    assert "<ruby>DOGS<rt>inu</rt></ruby> &amp; CATS &lt;NOW" in shouted(".vtt", content)


def test_lines_are_balanced():
    assert split_lines("one two three four five six", [9, 9]) == ["one two three", "four five six"]
    assert split_lines('<i class="a b">one two</i> three', [7, 5]) == ['<i class="a b">one two</i>', "three"]
    assert split_lines("one", [3, 3, 3]) == ["one"]
    assert split_lines("", [2, 2]) == []


@few
@given(st.lists(st.text("ab", min_size=1), max_size=9), st.lists(st.integers(0, 50), min_size=1, max_size=4))
def test_words_are_distributed_without_loss(words, lengths):
    texts = split_by_length(words, dict(enumerate(lengths)))
    assert list(texts) == list(range(len(lengths)))
    if sum(lengths):
        assert " ".join(texts.values()).split() == words


def test_words_are_distributed_in_proportion():
    assert split_by_length(list("abcdef"), {3: 20, 4: 10}) == {3: "a b c d", 4: "e f"}
