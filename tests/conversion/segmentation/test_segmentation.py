"""Tokenizers of converted checkpoints beside the tools that they stand for: subword-nmt, SentencePiece, sacremoses."""

import argparse
import functools
import io
import itertools
import json
import pickle
import shutil
import subprocess
import sys
import sysconfig
import unicodedata
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sacremoses
import sentencepiece
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from typer.testing import CliRunner

from conversion import segmentation
from conversion.options import ConversionError
from conversion.segmentation import MosesSettings, Vocabulary, byte_pairs
from conversion.toolkits import fairseq
from vaswani_transformer import TranslationPipeline, VaswaniTokenizer
from vaswani_transformer.commands import app


ROOT = Path(__file__).parents[3]
FILES = ROOT / "tests" / "fixtures"
CODES = FILES / "torch_nn_transformer" / "bpe.codes"
# English and some German: prose, tables, code, addresses.
DOCUMENTS = [FILES / "documents" / f"{name}.md" for name in ("readme", "contributing", "training", "card")]
LINES = [line for document in DOCUMENTS for line in document.read_text(encoding="utf-8").splitlines()]
AWKWARD = [
    "", " ", "   ", "\t", "\u00a0", "a", "  two  spaces  ", " \u00a0 x", "a\tb", "10\u00a0000\u00a0€", "\u200bx\u200b",
    "👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪1️⃣", "中文 日本語 한국어", "Ü ﬁ Å ™ ½ Ⅷ …", "ΑΣ ΣΑΣ", "İ ẞ ß",
    "</s> <s>a <pad><unk> <mark>x",
    "@@ a@@b x@@ @@y", "\u2581 a\u2581b", "<0x41>", "....... ------- aaaaaaaa 0000000", "\x00\x01\ufeff",
]  # fmt: skip
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def vocabulary(pieces) -> Vocabulary:
    return Vocabulary([*SPECIAL, *pieces], bos=0, pad=1, eos=2, unk=3)


def ids_of(pieces, known: Vocabulary) -> list[int]:
    """As toolkits look pieces up."""
    numbers = {token: number for number, token in enumerate(known.tokens)}
    return [*(numbers.get(piece, 3) for piece in pieces), 2]


# subword-nmt ---------------------------------------------------------------------------------------------------------


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


def subword_nmt_on(path: Path) -> BPE:
    text = path.read_text(encoding="utf-8")
    if text.splitlines()[0].count(" ") == 2:  # fastBPE's counts
        text = "#version: 0.2\n" + "".join(line.rpartition(" ")[0] + "\n" for line in text.splitlines())
    return BPE(io.StringIO(text))


@pytest.fixture(scope="module")
def both_bpe(codes):
    """subword-nmt, a vocabulary without some pieces, and the tokenizer."""
    bpe = subword_nmt_on(codes)
    counts = Counter(piece for line in LINES for piece in bpe.segment(line).split())
    known = vocabulary([piece for piece, count in counts.most_common() if count > 1] + ["@@"])
    return bpe, known, segmentation.subword_nmt(codes, known)


def check_bpe(text, bpe, known, tokenizer):
    ids = tokenizer(text).input_ids
    assert ids == ids_of(bpe.segment(text).split(), known)
    pieces = "".join(f"{known.tokens[i]} " for i in ids[:-1] if i != 3)
    assert tokenizer.decode(ids, skip_special_tokens=True) == pieces.replace("@@ ", "").rstrip()


def test_byte_pairs_are_those_of_subword_nmt(both_bpe):
    bpe, known, made = both_bpe
    for text in [*LINES, *AWKWARD]:
        check_bpe(text, bpe, known, made.tokenizer)


@settings(max_examples=100, deadline=None)
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
    assert again(LINES).input_ids == [ids_of(bpe.segment(line).split(), known) for line in LINES]


@settings(max_examples=150, deadline=None)
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
        if [i if i < len(known.tokens) else 3 for i in encoding.ids] != ids_of(bpe.segment(word).split(), known)[:-1]
    ]
    assert not differs or byte_pairs.out_of_order(merges) or byte_pairs.ends_late(made), (merges, differs)


def test_what_differs_is_said(tmp_path):
    path = tmp_path / "codes"
    path.write_text("#version: 0.2\na b\nab ab\n")
    made = segmentation.subword_nmt(path, vocabulary(["a@@", "b"]), only_in_vocabulary=True)
    assert any("undoes it" in difference for difference in made.differences)
    path.write_text("#version: 0.2\nab a\na b\n")
    (first, *_) = segmentation.subword_nmt(path, vocabulary(["a@@", "b"])).differences
    assert "another order" in first


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
        ("#version: 0.2\na b\na b c d\n", "line 3 is not two pieces"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        ("", "it is empty"),
    ],
)
def test_other_files_are_no_codes(tmp_path, content, message):
    path = tmp_path / "codes"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConversionError, match=message):
        segmentation.subword_nmt(path, vocabulary(["a"]))


# SentencePiece -------------------------------------------------------------------------------------------------------


MODELS = {
    "unigram": {"model_type": "unigram"},
    "bpe": {"model_type": "bpe"},
    "unigram as it comes": {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "bpe as it comes": {"model_type": "bpe", "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "unigram, bytes": {"byte_fallback": True, "vocab_size": 560},
    "bpe, bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 560},
    "unigram, marks": {"user_defined_symbols": ["<mark>", "the"], "control_symbols": ["<ctl>"]},
    "bpe, marks": {"model_type": "bpe", "user_defined_symbols": ["<mark>", "the"], "control_symbols": ["<ctl>"]},
    "unigram, no prefix": {"add_dummy_prefix": False, "normalization_rule_name": "nmt_nfkc_cf"},
    "bpe, suffix": {"model_type": "bpe", "treat_whitespace_as_suffix": True},
}


@pytest.fixture(scope="module", params=MODELS)
def spm(request, tmp_path_factory):
    """A model, and SentencePiece with it."""
    model = io.BytesIO()
    options = {"vocab_size": 400, "character_coverage": 0.995, **MODELS[request.param]}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES[::2]), model_writer=model, minloglevel=2, num_threads=1, **options
    )
    path = tmp_path_factory.mktemp("spm") / "text.model"
    path.write_bytes(model.getvalue())
    return path, sentencepiece.SentencePieceProcessor(model_file=str(path))


def all_pieces(spm) -> list[str]:
    return [spm.id_to_piece(i) for i in range(spm.get_piece_size()) if not spm.is_control(i) and not spm.is_unknown(i)]


@pytest.fixture(scope="module")
def both_spm(spm):
    """SentencePiece, its pieces in another order, and the tokenizer."""
    path, processor = spm
    known = vocabulary(sorted(all_pieces(processor)))
    return processor, known, segmentation.sentencepiece(path, known).tokenizer


def check_spm(text, processor, known, tokenizer) -> bool:
    """Whether the pieces are the same; they may come in another order, where rounding decides which."""
    ids, expected = tokenizer(text).input_ids, ids_of(processor.encode(text, out_type=str), known)
    assert Counter(ids) == Counter(expected), text
    if 3 not in ids:
        pieces = [known.tokens[i] for i in expected[:-1]]
        assert tokenizer.decode(ids, skip_special_tokens=True) == processor.decode_pieces(pieces)
    return ids == expected


def test_pieces_are_those_of_sentencepiece(both_spm):
    assert type(both_spm[-1]) is PreTrainedTokenizerFast
    same = [check_spm(text, *both_spm) for text in [*LINES, *AWKWARD]]
    assert same.count(False) <= len(same) / 100


@settings(max_examples=60, deadline=None)
@given(text=st.text("abcdeinrst .,<>/mark\u2581ÄßéA中\u3000\u00a0", max_size=60))
def test_pieces_of_any_text(both_spm, text):
    check_spm(text, *both_spm)


def test_vocabularies_may_lack_pieces(spm):
    """A piece that a toolkit's vocabulary lacks is its unknown token, and is not cut in other pieces."""
    path, processor = spm
    known = vocabulary([piece for i, piece in enumerate(all_pieces(processor)) if i % 7 or piece.startswith("<0x")])
    tokenizer = segmentation.sentencepiece(path, known).tokenizer
    assert len(tokenizer) == tokenizer.vocab_size == len(known.tokens)
    for text in [*LINES[:150], *AWKWARD]:
        expected = ids_of(processor.encode(text, out_type=str), known)
        assert Counter(tokenizer(text).input_ids) == Counter(expected)


@pytest.fixture(scope="module")
def joint():
    """The model that JoeyNMT's checkpoint comes with."""
    path = FILES / "joeynmt" / "base" / "joint.model"
    return path, sentencepiece.SentencePieceProcessor(model_file=str(path))


def test_only_pieces_of_the_vocabulary(joint):
    """As SentencePiece does after `SetVocabulary`: longer pieces that are not in it are unused."""
    path, processor = joint
    some = [piece for i, piece in enumerate(all_pieces(processor)) if i % 3 or len(piece) == 1]
    model = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    for piece in model.pieces:
        if piece.type == model.SentencePiece.NORMAL and piece.piece not in some:
            piece.type = model.SentencePiece.UNUSED
    restricted = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    known = vocabulary(some)
    tokenizer = segmentation.sentencepiece(path, known, only_in_vocabulary=True).tokenizer
    texts = json.loads((FILES / "tensor2tensor" / "base_v1" / "reference.json").read_text())["source"]
    pieces = [restricted.encode(text, out_type=str) for text in texts]
    assert pieces != [processor.encode(text, out_type=str) for text in texts]
    assert tokenizer(texts).input_ids == [ids_of(one, known) for one in pieces]


def test_normalisation_that_differs_is_said(spm):
    """Of letters with accents in front of them; these are not among the texts above."""
    path, processor = spm
    known = vocabulary(all_pieces(processor))
    made = segmentation.sentencepiece(path, known)
    texts = ["U\u0308 e\u0302\u0301", "\u304b\u3099 \uff76\uff9e"]
    same = all(made.tokenizer(text).input_ids == ids_of(processor.encode(text, out_type=str), known) for text in texts)
    assert same or any("normalised differently" in difference for difference in made.differences)


def test_what_is_no_model_is_refused(tmp_path):
    path = tmp_path / "text.model"
    for content in (b"", b"no model", CODES.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ConversionError, match="is not a SentencePiece model"):
            segmentation.sentencepiece(path, vocabulary(["a"]))


# tensor2tensor -------------------------------------------------------------------------------------------------------


def t2t_encode(text: str, subwords: list[str]) -> list[int]:
    """As its documentation describes it, without this package's code: the longest subword first, from the left."""
    letter = [unicodedata.category(c)[0] in "LN" for c in text]
    words, start = [], 0
    for i in range(1, len(text) + 1):
        if i == len(text) or letter[i] != letter[i - 1]:
            if text[start:i] != " ":
                words.append(text[start:i])
            start = i
    alphabet = set("".join(subwords)) | set("\\_u;0123456789")
    ids = []
    for word in words:
        word = word.replace("\\", "\\\\").replace("_", "\\u")
        word = "".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in word) + "_"
        while word:
            longest = max((s for s in subwords[2:] if word.startswith(s)), key=len)
            ids.append(subwords.index(longest))
            word = word[len(longest) :]
    return [*ids, 1]


@pytest.fixture(scope="module")
def t2t(tmp_path_factory):
    """A vocabulary as tensor2tensor writes it, of frequent words, their parts and all characters of the lines."""
    words = Counter(word for line in LINES for word in line.split() if word.isalnum()).most_common(300)
    subwords = [f"{word}_" for word, _ in words] + [word[:3] for word, _ in words if len(word) > 3] + [", ", " ("]
    subwords = list(dict.fromkeys([*subwords, *sorted({c for line in LINES for c in line} | set("\\_u;0123456789<>"))]))
    path = tmp_path_factory.mktemp("t2t") / "vocab.subwords"
    path.write_text("".join(f"'{s}'\n" for s in ["<pad>", "<EOS>", *subwords]), encoding="utf-8")
    return ["<pad>", "<EOS>", *subwords], segmentation.t2t_subwords(path).tokenizer


def test_subwords_are_those_of_tensor2tensor(t2t):
    subwords, tokenizer = t2t
    for text in [*LINES[:300], *AWKWARD]:
        ids = tokenizer(text).input_ids
        assert ids == t2t_encode(text.strip(), subwords)
        assert tokenizer.decode(ids, skip_special_tokens=True) == text.strip()


@settings(max_examples=60, deadline=None)
@given(text=st.text("abe the_\\;0123<>pad中🏽\n ", max_size=40) | st.text(max_size=20))
def test_subwords_of_any_text(t2t, text):
    subwords, tokenizer = t2t
    ids = tokenizer(text).input_ids
    assert ids == t2t_encode(text.strip(), subwords)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text.strip()


def test_subwords_that_tensor2tensor_gave():
    folder = FILES / "tensor2tensor" / "base_v1"
    tokenizer = segmentation.t2t_subwords(folder / "vocab.toy.subwords").tokenizer
    recorded = np.load(folder / "reference.npz")
    texts = json.loads((folder / "reference.json").read_text())["source"]
    padded = tokenizer(texts, padding=True, return_tensors="np")
    assert (padded["input_ids"] == recorded["input_ids"]).all()
    assert (padded["attention_mask"] == recorded["attention_mask"]).all()


# fairseq -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fairseq_folder(tmp_path_factory):
    """Source and target have dictionaries of their own."""
    folder = tmp_path_factory.mktemp("fairseq") / "tieddec"
    shutil.copytree(FILES / "fairseq" / "tieddec", folder)
    shutil.copy(CODES, folder / "bpecodes")
    return folder


@pytest.fixture(scope="module")
def fairseq_moses(fairseq_folder):
    return fairseq.convert(fairseq_folder, moses=True, languages=("en", "de"))


def recorded(kind: str) -> tuple[list[str], list[str], dict, np.lib.npyio.NpzFile]:
    said = json.loads((FILES / "fairseq" / kind / "reference.json").read_text())
    texts = [[line.replace("@@ ", "") for line in said[f"{side}_bpe"]] for side in ("source", "reference")]
    return *texts, said, np.load(FILES / "fairseq" / kind / "reference.npz")


@pytest.mark.parametrize("kind", ["base", "tieddec"])
def test_ids_and_texts_are_those_that_fairseq_gave(kind):
    tokenizer = fairseq.convert(FILES / "fairseq" / kind, codes=CODES).tokenizer
    sources, targets, said, arrays = recorded(kind)
    batch = tokenizer(sources, text_target=targets, padding=True, return_tensors="np")
    assert (batch["input_ids"] == arrays["input_ids"]).all()
    assert (batch["attention_mask"] == arrays["attention_mask"]).all()
    expected = [row[mask == 1][1:].tolist() + [2] for row, mask in
                zip(arrays["decoder_input_ids"], arrays["decoder_attention_mask"], strict=True)]  # fmt: skip
    assert [ids[: len(e)] for ids, e in zip(batch["labels"].tolist(), expected, strict=True)] == expected
    for sentence in next(iter(said["generate"].values())):
        text = f"{sentence[0]['tokens']} ".replace("@@ ", "").rstrip()
        assert tokenizer.decode(sentence[0]["ids"], skip_special_tokens=True) == text.replace("<unk> ", "")


def test_words_are_put_together_with_spaces_between():
    source, target = (Vocabulary(["<s>", "<pad>", "</s>", "<unk>", *words], 2, 3, 1, 0) for words in ("ab", "xy"))
    tokenizer = segmentation.words(source, target).tokenizer
    assert tokenizer.convert_tokens_to_string(["x", "y"]) == tokenizer.decode([4, 5]) == "x y"


def test_dictionaries_may_name_words_twice(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text("the 9\na@@ 5\nthe 3 #fairseq:overwrite\n<unk> 1 #fairseq:overwrite\nmadeupword0000 0\n")
    known = fairseq.read_dictionary(path, 9)
    tokenizer = segmentation.words(known).tokenizer
    assert tokenizer("the a@@ other madeupword0000").input_ids == [6, 5, 3, 8, 2]
    assert len(tokenizer) == 9
    for content, message in (("the 9\nthe\n", "line 2 is not a token"), ("the 9\n", "wrong vocabulary")):
        path.write_text(content)
        with pytest.raises(ConversionError, match=message):
            fairseq.read_dictionary(path, 6)


def test_what_the_checkpoint_records_of_its_text_is_used(fairseq_folder):
    vocabularies = [vocabulary(["a", "b"])] * 2
    said = {"cfg": {"tokenizer": {"_name": "moses", "source_lang": "en", "target_lang": "de", "moses_no_escape": True}}}
    nothing = (None, None)
    made = fairseq.tokenizer(said, fairseq_folder, vocabularies, nothing, None, None, False).tokenizer
    found = {name: value for name, value in made.init_kwargs.items() if name.startswith("moses_")}
    assert not any(found.pop(f"moses_{name}") for name in ("normalize", "clean", "escape"))
    assert found == {"moses_source": "en", "moses_target": "de", "moses_dash_splits": True}
    shutil.copy(CODES, fairseq_folder / "other.codes")
    said = {"_name": "subword_nmt", "bpe_codes": "/data/other.codes"}
    assert fairseq.files_in(fairseq_folder, "subword_nmt", said) == (fairseq_folder / "other.codes", None)
    assert fairseq.files_in(fairseq_folder, None, {}) == (fairseq_folder / "bpecodes", None)
    assert fairseq.files_in(FILES / "joeynmt" / "base", None, {})[1].name == "joint.model"
    said = {"cfg": {"bpe": {"_name": "gpt2"}, "tokenizer": {"_name": "nltk"}}}
    with pytest.raises(ConversionError, match=r"tokenizer='nltk' .*; bpe='gpt2'"):
        fairseq.tokenizer(said, fairseq_folder, vocabularies, nothing, None, None, False)
    with pytest.raises(ConversionError, match="pass --languages"):
        fairseq.tokenizer({}, fairseq_folder, vocabularies, nothing, None, None, True)


def test_languages_tell_dictionaries_apart(fairseq_folder, tmp_path):
    with torch.serialization.safe_globals([argparse.Namespace]):
        saved = torch.load(fairseq_folder / "checkpoint_last.pt", weights_only=True)
    saved["cfg"]["task"]["source_lang"] = None
    torch.save(saved, tmp_path / "model.pt")
    for side in ("src", "trg"):
        shutil.copy(fairseq_folder / f"dict.{side}.txt", tmp_path)
    with pytest.raises(ConversionError, match="Pass --languages SOURCE TARGET"):
        fairseq.convert(tmp_path)
    named = fairseq.convert(tmp_path, codes=CODES, languages=("src", "trg"))
    expected = fairseq.convert(fairseq_folder).tokenizer
    assert named.tokenizer.get_vocab() == expected.get_vocab()
    assert named.tokenizer(text_target="pésa").input_ids == expected(text_target="pésa").input_ids


def test_pieces_without_what_cuts_them_are_joined():
    for pieces, option in ((["a@@", "b", "c"], "--codes"), (["\u2581a", "b", "\u2581c"], "--spm")):
        known = vocabulary(pieces)
        made = fairseq.tokenizer({}, FILES, (known, known), (None, None), None, None, False)
        assert option in made.differences[0]
        assert made.tokenizer(" ".join(pieces)).input_ids == [4, 5, 6, 2]
        assert made.tokenizer.decode([4, 5, 6, 2], skip_special_tokens=True) == "ab c"


# Moses, two vocabularies ---------------------------------------------------------------------------------------------


MOSES_TEXTS = ["Anna's x-ray: mü re 42?", "“bo”, shobike & ro… (1984)", "", "  düki\u00a0ma  "]


def test_moses_comes_first_and_last(fairseq_moses):
    tokenizer, bpe = fairseq_moses.tokenizer, subword_nmt_on(CODES)
    sides = [
        fairseq.read_dictionary(FILES / "fairseq" / "tieddec" / f"dict.{side}.txt", size)
        for side, size in (("src", fairseq_moses.config.vocab_size), ("trg", fairseq_moses.config.decoder_vocab_size))
    ]
    english, german = sacremoses.MosesTokenizer("en"), sacremoses.MosesTokenizer("de")
    batch = tokenizer(MOSES_TEXTS, text_target=MOSES_TEXTS)
    for ids, moses, known in ((batch.input_ids, english, sides[0]), (batch.labels, german, sides[1])):
        words = [moses.tokenize(text, aggressive_dash_splits=True, return_str=True) for text in MOSES_TEXTS]
        assert ids == [ids_of(bpe.segment(line).split(), known) for line in words]
    ids = ids_of("bo@@ ma &amp; ro , 42 @-@ .".split(), sides[1])
    pieces = [sides[1].tokens[i] for i in ids if i > 3]
    text = " ".join(pieces).replace("@@ ", "")
    assert tokenizer.decode(ids, skip_special_tokens=True) == sacremoses.MosesDetokenizer("de").detokenize(text.split())


def test_moses_may_escape_nothing(tmp_path):
    known = vocabulary(["&", "&amp;"])
    for escape, number in ((True, 5), (False, 4)):
        tokenizer = segmentation.words(known, moses=MosesSettings("en", "de", escape=escape)).tokenizer
        assert tokenizer("&").input_ids == [number, 2]
        tokenizer.save_pretrained(tmp_path / str(escape))
        assert VaswaniTokenizer.from_pretrained(tmp_path / str(escape))("&").input_ids == [number, 2]


@pytest.fixture(scope="module")
def moses_folder(fairseq_moses, tmp_path_factory):
    folder = tmp_path_factory.mktemp("moses") / "model"
    fairseq_moses.model().save_pretrained(folder)
    fairseq_moses.tokenizer.save_pretrained(folder)
    return folder


def test_pipeline_and_command_line_tokenize_and_put_together(moses_folder, fairseq_moses):
    model, tokenizer = fairseq_moses.model(), fairseq_moses.tokenizer
    expected = []
    for text in MOSES_TEXTS[:2]:
        best = model.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=9)[0]
        expected.append(tokenizer.decode(best, skip_special_tokens=True))
    translate = TranslationPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(moses_folder))
    assert [r["translation_text"] for r in translate(MOSES_TEXTS[:2], max_new_tokens=9, batch_size=2)] == expected
    model.generation_config.max_new_tokens = 9
    model.generation_config.save_pretrained(moses_folder)
    options = ["--checkpoint", str(moses_folder), "--device", "cpu"]
    result = CliRunner().invoke(app, ["translate", *options, *MOSES_TEXTS[:2]])
    assert result.stdout.splitlines() == expected


def test_padding_truncation_and_pairs(fairseq_moses):
    tokenizer = fairseq_moses.tokenizer
    batch = tokenizer(MOSES_TEXTS, padding=True, truncation=True, max_length=6, return_tensors="pt")
    assert batch.input_ids.shape == batch.attention_mask.shape == (4, 6)
    assert batch.input_ids[2].tolist() == [2, 1, 1, 1, 1, 1] and batch.attention_mask[2].tolist() == [1, 0, 0, 0, 0, 0]
    assert batch.input_ids[0, -1] == 2 and batch.attention_mask[0].all()
    assert tokenizer.pad({"input_ids": [[4, 2], [2]]}, padding=True)["input_ids"] == [[4, 2], [2, 1]]
    source = tokenizer("mü &").input_ids
    assert tokenizer(text_target="mü &").input_ids != source
    with pytest.raises(ValueError, match="text input must be"):
        tokenizer(text_target=3)
    assert tokenizer.tokenize("mü &") and tokenizer("mü &").input_ids == source  # sources again after an error


def test_saved_copied_pickled_and_in_threads(fairseq_moses, moses_folder, tmp_path):
    tokenizer = fairseq_moses.tokenizer
    assert {path.name for path in moses_folder.iterdir()} >= {
        "tokenizer.json", "target_tokenizer.json", "tokenizer_config.json", "tokenization_vaswani.py"
    }  # fmt: skip
    again = AutoTokenizer.from_pretrained(moses_folder)
    assert type(again) is VaswaniTokenizer
    again.save_pretrained(tmp_path / "again")
    targets, sources = tokenizer(text_target=MOSES_TEXTS).input_ids, tokenizer(MOSES_TEXTS).input_ids
    assert targets != sources
    texts = tokenizer.batch_decode(targets, skip_special_tokens=True)
    for copy in (again, AutoTokenizer.from_pretrained(tmp_path / "again"), pickle.loads(pickle.dumps(tokenizer))):
        assert copy(MOSES_TEXTS).input_ids == sources
        assert copy(text_target=MOSES_TEXTS).input_ids == targets
        assert copy.batch_decode(targets, skip_special_tokens=True) == texts
        assert (len(copy), copy.vocab_size) == (len(tokenizer), tokenizer.vocab_size)
        assert copy.get_vocab() == tokenizer.get_vocab()
    with ThreadPoolExecutor(4) as pool:
        decoded = pool.map(lambda _: again.batch_decode(targets, skip_special_tokens=True), range(40))
        encoded = [again(MOSES_TEXTS).input_ids for _ in range(40)]
    assert all(one == texts for one in decoded) and all(one == sources for one in encoded)


# For an isolated interpreter without this package; see test_remote_code.py.
SCRIPT = """
import json, sys
sys.path += [{site_packages!r}]
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "vaswani_transformer":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
from transformers import AutoTokenizer
folder, again, texts = json.loads(sys.argv[1])
AutoTokenizer.from_pretrained(folder, trust_remote_code=True).save_pretrained(again)
tokenizer = AutoTokenizer.from_pretrained(again, trust_remote_code=True)
batch = tokenizer(texts, text_target=texts)
decoded = tokenizer.batch_decode(batch["labels"], skip_special_tokens=True)
print(json.dumps([type(tokenizer).__module__, batch["input_ids"], batch["labels"], decoded]))
"""


def test_its_code_works_where_this_package_is_not_installed(moses_folder, fairseq_moses, tmp_path):
    script = SCRIPT.format(site_packages=sysconfig.get_path("purelib"))
    arguments = json.dumps([str(moses_folder), str(tmp_path / "again"), MOSES_TEXTS])
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, arguments],
        cwd=tmp_path,
        env={"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    module, *found = json.loads(result.stdout.splitlines()[-1])
    batch = fairseq_moses.tokenizer(MOSES_TEXTS, text_target=MOSES_TEXTS)
    decoded = fairseq_moses.tokenizer.batch_decode(batch.labels, skip_special_tokens=True)
    assert module.startswith("transformers_modules.")
    assert found == [batch.input_ids, batch.labels, decoded]


def test_moses_needs_its_package(fairseq_moses, monkeypatch):
    copy = pickle.loads(pickle.dumps(fairseq_moses.tokenizer))
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    copy.__dict__.pop("_moses_by_language", None)
    with pytest.raises(ImportError, match="pip install sacremoses"):
        copy("mü")


# Words, characters, and what all have in common ----------------------------------------------------------------------


def test_words_lower_case_as_python_does():
    known = vocabulary(["οδός", "σας", "i̇", "straße"])
    tokenizer = segmentation.words(known, lowercase=True).tokenizer
    for text in ("ΟΔΌΣ ΣΑΣ İ STRAßE </S>", "</s> <unk>"):
        assert tokenizer(text).input_ids == ids_of(text.lower().replace("</s>", "?").split(), known)


def test_characters(tmp_path):
    known = vocabulary(["a", "b", "\u2581", "\u00a0"])
    tokenizer = segmentation.characters(known).tokenizer
    assert tokenizer("ab b\u00a0c\n").input_ids == [4, 5, 6, 5, 7, 3, 3, 2]
    assert tokenizer.decode([4, 6, 5, 2], skip_special_tokens=True) == "a b"


def test_vocabularies_with_other_special_tokens_are_refused():
    source, target = vocabulary(["a"]), Vocabulary([*SPECIAL, "a"], bos=0, pad=1, eos=3, unk=2)
    with pytest.raises(ConversionError, match="eos_token is 2 in the source and 3 in the target"):
        segmentation.words(source, target)
    with pytest.raises(ConversionError, match="end token is not in the vocabulary"):
        segmentation.words(Vocabulary(["a"], eos=7))
