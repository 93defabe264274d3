"""Byte pairs, against subword-nmt itself."""

import functools
import io
import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from segmentation_texts import (
    AWKWARD,
    CODES,
    FILES,
    LINES,
    SPECIAL,
    all_pieces,
    piece_ids,
    subword_nmt_on,
    vocabulary,
)
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from conversion import segmentation
from conversion.options import ConversionError
from conversion.segmentation import Vocabulary, byte_pairs, fairseq


@functools.cache
def learned(end: str) -> list[str]:
    """Codes of 0.2, learned from half of the lines, with their header; `end` comes after each word."""
    codes = io.StringIO()
    learn_bpe([" ".join(f"{word}{end}" for line in LINES[::2] for word in line.split())], codes, 500)
    return codes.getvalue().splitlines()


@pytest.fixture(scope="module", params=["0.1", "0.2", "fastBPE"])
def codes(request, tmp_path_factory):
    """Codes of each format."""
    if request.param == "0.1":  # the end of a word is a symbol of its own: a character learned like any other
        lines = [merge.replace("\ue000</w>", "</w>") for merge in learned("\ue000")[1:]]
    elif request.param == "0.2":
        lines = learned("")
    else:
        lines = [f"{merge} {1000 - i}" for i, merge in enumerate(learned("")[1:])]
    path = tmp_path_factory.mktemp("codes") / "codes"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def both_bpe(codes):
    """subword-nmt, a vocabulary without some pieces, and the tokenizer."""
    bpe = subword_nmt_on(codes)
    counts = Counter(piece for line in LINES for piece in bpe.segment(line).split())
    known = vocabulary([piece for piece, count in counts.most_common() if count > 1] + ["@@"])
    return bpe, known, segmentation.subword_nmt(codes, known)


def check_bpe(text, bpe, known, tokenizer):
    ids = tokenizer(text).input_ids
    assert ids == piece_ids(bpe.segment(text).split(), known)
    pieces = "".join(f"{known.tokens[i]} " for i in ids[:-1] if i != 3)
    assert tokenizer.decode(ids, skip_special_tokens=True) == pieces.replace("@@ ", "").rstrip()


def test_byte_pairs_are_those_of_subword_nmt(both_bpe):
    bpe, known, made = both_bpe
    for text in [*LINES, *AWKWARD]:
        check_bpe(text, bpe, known, made.tokenizer)


@settings(max_examples=100)
@given(text=st.text("abcdeinrst .,@<>/中\u00a0\t", max_size=60).map(lambda text: " ".join(text.split(" "))))
def test_byte_pairs_of_any_text(both_bpe, text):
    bpe, known, made = both_bpe
    # White space at the end of a word is stated to be otherwise.
    text = " ".join(word.rstrip() for word in text.split(" "))
    check_bpe(text, bpe, known, made.tokenizer)


def test_complete_codes_are_one_plain_file(codes, tmp_path):
    if byte_pairs.read_codes(codes).end_is_symbol:
        pytest.skip("the end of a word is a piece that no vocabulary has")
    bpe = subword_nmt_on(codes)
    pieces = {piece for line in LINES for piece in bpe.segment(line).split()}
    everything = {a + b for a, b in byte_pairs.read_codes(codes).pairs} | set("".join(LINES))
    everything = {piece.removesuffix("</w>") for piece in everything} - {""}
    known = vocabulary(sorted(pieces | everything | {f"{piece}@@" for piece in everything}))
    tokenizer = segmentation.subword_nmt(codes, known).tokenizer
    assert type(tokenizer) is PreTrainedTokenizerFast
    tokenizer.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again(LINES).input_ids == [piece_ids(bpe.segment(line).split(), known) for line in LINES]


@settings(max_examples=150)
@given(
    draws=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=8),
    old=st.booleans(),
)
def test_merges_that_come_in_another_order_are_said(draws, old):
    """Every word of up to six letters, by codes that are drawn at random."""
    inside, final, merges = ["a", "b"], ["</w>"] if old else ["a</w>", "b</w>"], []
    for first, second in draws:
        left, right = inside[first % len(inside)], (inside + final)[second % len(inside + final)]
        if (left, right) not in merges:
            merges.append((left, right))
            (final if right.endswith("</w>") else inside).append(left + right)
    made = byte_pairs.Codes(merges, end_is_symbol=old)
    pieces = {piece.removesuffix("</w>") for piece in inside + final} - {""}
    known = vocabulary(sorted(pieces | {f"{piece}@@" for piece in pieces}))
    bpe = BPE(io.StringIO(f"#version: {'0.1' if old else '0.2'}\n" + "".join(f"{a} {b}\n" for a, b in merges)))
    tokenizer = byte_pairs.byte_pairs(made, known, "@@", False).tokenizer
    words = ["".join(letters) for n in range(1, 7) for letters in itertools.product("ab", repeat=n)]
    differs = [
        word
        for word, encoding in zip(words, tokenizer.encode_batch(words), strict=True)
        if [i if i < len(known.tokens) else 3 for i in encoding.ids] != piece_ids(bpe.segment(word).split(), known)[:-1]
    ]
    assert not differs or byte_pairs.out_of_order(merges) or byte_pairs.ends_late(made), (merges, differs)


def test_what_differs_is_said(tmp_path):
    path = tmp_path / "codes"
    path.write_text("#version: 0.2\na b\nab ab\n")
    made = segmentation.subword_nmt(path, vocabulary(["a@@", "b"]), only_in_vocabulary=True)
    assert any("undoes it" in difference for difference in made.differences)
    path.write_text("#version: 0.2\nab a\na b\n")
    (first, *_) = segmentation.subword_nmt(path, vocabulary(["a@@", "b"])).differences
    assert "a different order" in first


def test_files_of_another_model_are_said(tmp_path, joint):
    fitting, other = Vocabulary([*SPECIAL, *all_pieces(joint[1])], eos=2, unk=3), vocabulary(["a@@", "b"])
    assert not any("another model" in line for line in segmentation.sentencepiece(joint[0], fitting).differences)
    for made in (segmentation.sentencepiece(joint[0], other), segmentation.subword_nmt(CODES, other)):
        assert any("may belong to another model" in line for line in made.differences)
    path = FILES / "fairseq" / "base" / "dict.src.txt"
    known = fairseq.read_dictionary(path, 112)
    assert not any("another model" in line for line in segmentation.subword_nmt(CODES, known).differences)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("#version: 0.3\na b\n", "version '0.3'"),
        ("#version: 0.2\na b\na b c d\n", "line 3 is not a pair of pieces"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        ("", "the file is empty"),
    ],
)
def test_other_files_are_no_codes(tmp_path, content, message):
    path = tmp_path / "codes"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConversionError, match=message):
        segmentation.subword_nmt(path, vocabulary(["a"]))
