"""The text of tokens for display, and whether they begin a word."""

from dataclasses import dataclass
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase


START = "<start>"


@dataclass(frozen=True)
class Token:
    """A token for display.

    Attributes:
        id: Its id.
        text: Its text, after a space if it begins a word.
        kind: It begins a word ("word"), continues the word before it ("part"), or is not text ("special").
        unknown: Whether it is the unknown token.
    """

    id: int
    text: str
    kind: Literal["word", "part", "special"]
    unknown: bool = False


class TokenReader:
    """Turns the ids of one side, source or target, into `Token`s.

    Args:
        side: The side's tokenizer, a `tokenizers.Tokenizer`.
        special: The text of each special token, by id.
        unknown: The id of the unknown token, if any.
    """

    def __init__(self, side: Any, special: dict[int, str], unknown: int | None):
        self.side, self.special, self.unknown = side, special, unknown
        pieces = side.get_vocab()
        # If the start of a word is not marked, then its end (tensor2tensor) or all pieces but its last (subword-nmt).
        self.is_start_marked = any(piece[:1] in ("Ġ", "▁") for piece in pieces)
        self.is_end_marked = not self.is_start_marked and sum(p.endswith("_") for p in pieces) > len(pieces) / 4

    def token(self, i: int, before: str = "") -> Token:
        """The token with this id, after the piece `before`, if any."""
        if i in self.special:
            return Token(i, self.special[i], "special", i == self.unknown)
        piece = self.piece(i)
        starts = self.starts_word(piece, before)
        text = self.text(i, piece)
        return Token(i, f" {text}" if starts else text, "word" if starts else "part", i == self.unknown)

    def tokens(self, ids: list[int]) -> list[Token]:
        pieces = ["", *(self.piece(i) for i in ids)]
        return [self.token(i, before) for i, before in zip(ids, pieces, strict=False)]

    def start(self, i: int) -> Token:
        """The start token of the decoder's input, whose id is often that of padding."""
        return Token(i, START, "special")

    def piece(self, i: int) -> str:
        return self.side.id_to_token(i) or ""

    def starts_word(self, piece: str, before: str) -> bool:
        if self.is_start_marked:
            return piece[:1] in ("Ġ", "▁")
        if self.is_end_marked:
            return not before or before.endswith("_")
        return not before.endswith("@@")

    def text(self, i: int, piece: str) -> str:
        if self.is_end_marked:
            return piece.removesuffix("_").replace("\\u", "_").replace("\\\\", "\\")
        if piece.endswith("@@"):
            return piece.removesuffix("@@")
        text = self.side.decode([i], skip_special_tokens=False)
        return text.strip(" ") or piece.strip("Ġ▁")


def source_reader(tokenizer: PreTrainedTokenizerBase) -> TokenReader:
    side = getattr(tokenizer, "_source_side", None) or tokenizer.backend_tokenizer
    return TokenReader(side, special_tokens(tokenizer), tokenizer.unk_token_id)


def target_reader(tokenizer: PreTrainedTokenizerBase) -> TokenReader:
    side = getattr(tokenizer, "_target_side", None) or tokenizer.backend_tokenizer
    return TokenReader(side, special_tokens(tokenizer), tokenizer.unk_token_id)


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    return dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
