"""Tokenizers for words between spaces and for characters."""

import re

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from .vocabulary import SPACE, ConvertedTokenizer, MosesSettings, Side, Vocabulary, assemble, lower


def words(
    source: Vocabulary,
    target: Vocabulary | None = None,
    *,
    separator: str | tuple[str | None, str | None] | None = None,
    lowercase: bool = False,
    moses: MosesSettings | None = None,
) -> ConvertedTokenizer:
    """Builds a tokenizer of words between spaces.

    With `separator` (one mark, or those of source and target), texts must be segmented already. Decoding joins pieces
    like `ab@@`, or SentencePiece's if the separator is `SPACE`.

    Raises:
        ConversionError: the special ids of the two sides differ.
    """
    marks = separator if isinstance(separator, tuple) else (separator, separator)

    def side(mark: str | None, vocabulary: Vocabulary) -> Side:
        special = [vocabulary.tokens[i] for i in vocabulary.special.values()]
        unk = {} if vocabulary.unk is None else {"unk_token": vocabulary.tokens[vocabulary.unk]}
        tokenizer = Tokenizer(models.WordLevel(vocabulary.named(), **unk))
        steps = lower(lowercase)
        if unk:  # a word spelled like a special token is unknown
            spellings = "|".join(map(re.escape, sorted(set(special), key=lambda token: (-len(token), token))))
            steps.append(normalizers.Replace(Regex(rf"(?<!\S)(?:{spellings})(?!\S)"), unk["unk_token"]))
        tokenizer.normalizer = normalizers.Sequence(steps)
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if mark is not None:
            tokenizer.decoder = joining(mark)
        return Side(tokenizer, len(vocabulary.tokens))

    differences = ["Input must already be segmented; no segmentation file was given."] if any(marks) else []
    return assemble(side, marks, source, target, differences, moses)


def separator_mark(vocabulary: Vocabulary, separator: str) -> str | None:
    """Returns the mark of a vocabulary's pieces, subword-nmt's or SentencePiece's; None if there is none."""
    special = {vocabulary.tokens[i] for i in vocabulary.special.values()}
    tokens = [token for token in vocabulary.tokens if token not in special]
    if any(token.endswith(separator) for token in tokens) and separator != SPACE:
        return separator
    return SPACE if any(token.startswith(SPACE) for token in tokens) else None


def joining(mark: str):
    """Returns a decoder that joins pieces."""
    if mark == SPACE:
        ends = decoders.Replace(Regex(r"\A +| +\z"), "")
        return decoders.Sequence([decoders.Fuse(), decoders.Replace(SPACE, " "), ends])
    return decoders.Sequence(
        [
            decoders.Replace(Regex(r"\z"), " "),
            decoders.Fuse(),
            decoders.Replace(f"{mark} ", ""),
            decoders.Replace(Regex(r" \z"), ""),
        ]
    )


def characters(
    source: Vocabulary,
    target: Vocabulary | None = None,
    *,
    space: str = SPACE,
    lowercase: bool = False,
    moses: MosesSettings | None = None,
) -> ConvertedTokenizer:
    """Builds a tokenizer of characters; `space` replaces the space.

    Raises:
        ConversionError: the special ids of the two sides differ.
    """

    def side(_, vocabulary: Vocabulary) -> Side:
        unk = {} if vocabulary.unk is None else {"unk_token": vocabulary.tokens[vocabulary.unk]}
        tokenizer = Tokenizer(models.WordLevel(vocabulary.named(), **unk))
        tokenizer.normalizer = normalizers.Sequence([*lower(lowercase), normalizers.Replace(" ", space)])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(
            Regex("(?m)."), "isolated"
        )  # m: in Oniguruma, a dot matches newlines
        tokenizer.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace(space, " ")])
        return Side(tokenizer, len(vocabulary.tokens))

    return assemble(side, None, source, target, [], moses)
