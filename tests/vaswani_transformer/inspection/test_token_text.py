"""The text of tokens, whatever marks the start or the end of a word."""

import pytest

from vaswani_transformer import VaswaniTokenizer, learn_tokenizer
from vaswani_transformer.inspection.token_text import Token, TokenReader, source_reader, target_reader


class Side:
    """A vocabulary without a segmentation."""

    def __init__(self, pieces: list[str]):
        self.pieces = pieces

    def get_vocab(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.pieces)}

    def id_to_token(self, i: int) -> str:
        return self.pieces[i]

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return "".join(self.pieces[i] for i in ids).replace("▁", " ").strip()


@pytest.mark.parametrize(
    "pieces",
    [
        ["<unk>", "</s>", "▁der", "▁Fahr", "rad", "weg"],
        ["<unk>", "</s>", "der", "Fahr@@", "rad@@", "weg"],
        ["<unk>", "</s>", "der_", "Fahr", "rad", "weg_"],
    ],
    ids=["sentencepiece", "subword-nmt", "tensor2tensor"],
)
def test_words_and_their_parts(pieces):
    reader = TokenReader(Side(pieces), {0: "<unk>", 1: "</s>"}, unknown=0)
    assert reader.tokens([2, 3, 4, 5, 0, 1]) == [
        Token(2, " der", "word"),
        Token(3, " Fahr", "word"),
        Token(4, "rad", "part"),
        Token(5, "weg", "part"),
        Token(0, "<unk>", "special", unknown=True),
        Token(1, "</s>", "special"),
    ]


def test_tensor2tensors_escapes_are_undone():
    reader = TokenReader(Side(["\\u_", "\\\\_", "a_"]), {}, None)
    assert [token.text for token in reader.tokens([0, 1, 2])] == [" _", " \\", " a"]


def test_each_side_is_read_with_its_own_vocabulary():
    source, target = (learn_tokenizer([text] * 3, vocab_size=262) for text in ("the dog the dog", "der Hund der Hund"))
    sides = source.backend_tokenizer, target.backend_tokenizer
    tokenizer = VaswaniTokenizer.from_sides(*sides, eos_token="</s>", pad_token="<pad>")
    for reader, ids, text in (
        (source_reader(tokenizer), tokenizer("the dog")["input_ids"], " the dog"),
        (target_reader(tokenizer), tokenizer(text_target="der Hund")["input_ids"], " der Hund"),
    ):
        assert "".join(token.text for token in reader.tokens(ids) if token.kind != "special") == text
