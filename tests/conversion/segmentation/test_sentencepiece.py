"""SentencePiece models of every kind, against SentencePiece itself."""

import io
import json
from collections import Counter

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from segmentation_texts import AWKWARD, CODES, FILES, LINES, all_pieces, piece_ids, vocabulary
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from conversion import segmentation
from conversion.options import ConversionError


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


@pytest.fixture(scope="module")
def both_spm(spm):
    """SentencePiece, its pieces in another order, and the tokenizer."""
    path, processor = spm
    known = vocabulary(sorted(all_pieces(processor)))
    return processor, known, segmentation.sentencepiece(path, known).tokenizer


def check_spm(text, processor, known, tokenizer) -> bool:
    """Whether the pieces are the same; they may come in another order, where rounding decides which."""
    ids, expected = tokenizer(text).input_ids, piece_ids(processor.encode(text, out_type=str), known)
    assert Counter(ids) == Counter(expected), text
    if 3 not in ids:
        pieces = [known.tokens[i] for i in expected[:-1]]
        assert tokenizer.decode(ids, skip_special_tokens=True) == processor.decode_pieces(pieces)
    return ids == expected


def test_pieces_are_those_of_sentencepiece(both_spm):
    assert type(both_spm[-1]) is PreTrainedTokenizerFast
    same = [check_spm(text, *both_spm) for text in [*LINES, *AWKWARD]]
    assert same.count(False) <= len(same) / 100


@settings(max_examples=60)
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
        expected = piece_ids(processor.encode(text, out_type=str), known)
        assert Counter(tokenizer(text).input_ids) == Counter(expected)


def test_only_pieces_of_the_vocabulary(joint):
    """As SentencePiece does after `SetVocabulary`: longer pieces that are not in it are unused."""
    path, processor = joint
    kept_pieces = [piece for i, piece in enumerate(all_pieces(processor)) if i % 3 or len(piece) == 1]
    model = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    for piece in model.pieces:
        if piece.type == model.SentencePiece.NORMAL and piece.piece not in kept_pieces:
            piece.type = model.SentencePiece.UNUSED
    restricted = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    known = vocabulary(kept_pieces)
    tokenizer = segmentation.sentencepiece(path, known, only_in_vocabulary=True).tokenizer
    texts = json.loads((FILES / "tensor2tensor" / "base_v1" / "reference.json").read_text())["source"]
    pieces = [restricted.encode(text, out_type=str) for text in texts]
    assert pieces != [processor.encode(text, out_type=str) for text in texts]
    assert tokenizer(texts).input_ids == [piece_ids(row, known) for row in pieces]


def test_normalisation_that_differs_is_reported(spm):
    """Of letters with accents in front of them; these are not among the texts above."""
    path, processor = spm
    known = vocabulary(all_pieces(processor))
    made = segmentation.sentencepiece(path, known)
    texts = ["U\u0308 e\u0302\u0301", "\u304b\u3099 \uff76\uff9e"]
    same = all(
        made.tokenizer(text).input_ids == piece_ids(processor.encode(text, out_type=str), known) for text in texts
    )
    assert same or any("normalised differently" in difference for difference in made.differences)


def test_a_file_that_is_not_a_model_is_refused(tmp_path):
    path = tmp_path / "text.model"
    for content in (b"", b"no model", CODES.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ConversionError, match="is not a SentencePiece model"):
            segmentation.sentencepiece(path, vocabulary(["a"]))


# Special tokens spelled out, and added tokens -------------------------------------------------------------------------

SPELLED = [
    "<mark></s>", "<mark><unk>", "<mark></s><mark>", "the</s>", "</s>the<pad>", "<mark>s", "<mark>§§", "the<0x41>the",
    "</s> <unk> <s>", "<s></s>", "§</s>§ <pad>§", "<ctl> <mark><ctl>", "<s><pad><unk></s>", "<mark>on<mark>",
]  # fmt: skip


def test_a_special_token_spelled_out_is_text_whatever_surrounds_it(both_spm):
    processor, known, tokenizer = both_spm
    for text in SPELLED:
        pieces = processor.encode(text, out_type=str)
        assert tokenizer(text).input_ids == piece_ids(pieces, known), (text, pieces)


@pytest.mark.parametrize(
    "options", [{"model_type": "unigram"}, {"model_type": "bpe"}, {"user_defined_symbols": "<mark>"}]
)
def test_unknown_characters_of_a_special_token_are_one_unknown_token(tmp_path, options):
    """Also together with unknown characters beside it, in a model that does not know the brackets."""
    path = tmp_path / "text.model"
    lines = (line.translate({ord(mark): None for mark in "</>"}) for line in LINES[::2])
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_prefix=str(path.with_suffix("")), vocab_size=300, minloglevel=2, **options
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    known = vocabulary(sorted(all_pieces(processor)))
    tokenizer = segmentation.sentencepiece(path, known).tokenizer
    for text in [*SPELLED, "a</s>b", "</s><", "<</s>", "//</s>//", "§§<s>§§ x"]:
        pieces = processor.encode(text, out_type=str)
        assert tokenizer(text).input_ids == piece_ids(pieces, known), (text, pieces)


@pytest.mark.parametrize("text", ["(<ph>)", "a<ph>b", "<ph>a", "A <ph>, b"])
def test_no_space_is_written_after_an_added_token(spm, text):
    path, processor = spm
    spec = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    if spec.trainer_spec.treat_whitespace_as_suffix:
        pytest.skip("the prefix follows the text")
    tokenizer = segmentation.sentencepiece(path, vocabulary(sorted(all_pieces(processor)))).tokenizer
    tokenizer.add_tokens([AddedToken("<ph>", normalized=False)])
    tokens = tokenizer.tokenize(text)
    after = "".join(tokens[tokens.index("<ph>") + 1 :])
    assert len(after) == len(text.partition("<ph>")[2])  # unknown characters included
