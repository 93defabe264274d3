"""Byte-pair codes in the formats of subword-nmt (0.1 and 0.2) and fastBPE."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from ..files.text import read_lines
from ..options import ConversionError
from .vocabulary import ConvertedTokenizer, MosesSettings, Side, Vocabulary, assemble, lower, vocabulary_mismatch


def subword_nmt(
    codes: Path | tuple[Path, Path],
    source: Vocabulary,
    target: Vocabulary | None = None,
    *,
    separator: str = "@@",
    version: str | None = None,
    only_in_vocabulary: bool = False,
    lowercase: bool = False,
    moses: MosesSettings | None = None,
) -> ConvertedTokenizer:
    """Builds a tokenizer from byte-pair codes and a vocabulary of pieces like `ab@@`.

    `codes` may be two files, for source and target. Without `target` both sides share the vocabulary. `version` is the
    default for files without a version. `only_in_vocabulary` is subword-nmt's `--vocabulary`, which undoes merges that
    result in unknown pieces.

    Raises:
        ConversionError: a file does not contain codes, or the special ids of the two sides differ.
    """
    differences = []

    def side(path: Path, vocabulary: Vocabulary) -> Side:
        merges = read_codes(path, version)
        if odd := out_of_order(merges.pairs):
            differences.append(
                f"In words that repeat a syllable, such as {odd[0]!r}, {len(odd)} of the {len(merges.pairs)} merges in "
                f"{path.name} may be applied in a different order from subword-nmt."
            )
        if late := ends_late(merges):
            differences.append(
                f"{path.name} has version 0.1: words that end in one of {len(late)} pieces, such as {late[0]!r}, may "
                "be merged further than by subword-nmt."
            )
        built = byte_pairs(merges, vocabulary, separator, lowercase)
        end = SYMBOL_OF_END if merges.end_is_symbol else END_OF_WORD
        differences.extend(
            vocabulary_mismatch(path, built, {(a + b).replace(END_OF_WORD, end) for a, b in merges.pairs})
        )
        if moses is None:
            differences.append(
                "White space other than spaces and newlines becomes an unknown piece at the end of a word; toolkits "
                "drop it."
            )
            if any(character.isspace() for pair in merges.pairs for character in "".join(pair)):
                differences.append(
                    f"{path.name} has merges that contain white space: they result in an unknown piece, which toolkits "
                    "split once more."
                )
        if only_in_vocabulary and not built.complete:
            differences.append(
                f"Where a merge of {path.name} results in a piece outside the vocabulary, subword-nmt undoes it; here "
                "the piece is unknown."
            )
        return built

    return assemble(side, codes, source, target, differences, moses)


@dataclass(frozen=True)
class Codes:
    pairs: list[tuple[str, str]]  # merges, most frequent first
    end_is_symbol: bool  # version 0.1: the end of a word is a separate symbol, not a mark on the last character


END_OF_WORD = "</w>"
SYMBOL_OF_END = "\ue000"
NO_BREAK_SPACE = "\u00a0"


def read_codes(path: Path, version: str | None = None) -> Codes:
    """Reads the merges in a file of subword-nmt or fastBPE; lines of the latter also have a count.

    Raises:
        ConversionError: the file contains anything else.
    """
    lines = read_lines(path)
    while lines and not lines[-1]:
        lines.pop()
    first = 1
    if not lines:
        raise ConversionError(f"{path} does not contain byte-pair codes: the file is empty.")
    if lines[0].startswith("#version:"):
        version, first = lines.pop(0).removeprefix("#version:").strip(), 2
    rows = [line.strip("\r\n ").split(" ") for line in lines]
    if wrong := [i for i, row in enumerate(rows, first) if len(row) not in (2, 3)]:
        raise ConversionError(f"{path} does not contain byte-pair codes: line {wrong[0]} is not a pair of pieces.")
    fast = all(len(row) == 3 for row in rows)
    version = version or ("0.2" if fast else "0.1")
    if version not in ("0.1", "0.2"):
        raise ConversionError(
            f"Unsupported version {version!r} of subword-nmt's format in {path} (supported: 0.1, 0.2)."
        )
    return Codes(list(dict.fromkeys((row[0], row[1]) for row in rows)), version == "0.1")


def out_of_order(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Finds words in which merging the first of two equal pairs enables a better merge before the second pair's turn.

    subword-nmt merges all equal pairs at once; tokenizers always applies the best merge available.
    """
    following: dict[str, list[tuple[str, int]]] = {}
    for rank, (left, right) in enumerate(pairs):
        following.setdefault(right, []).append((left, rank))
    return [
        f"{left}{a}{b}"
        for rank, (a, b) in enumerate(pairs)
        for left, earlier in following.get(a, ())
        if earlier < rank and left.endswith(a + b)
    ]


def ends_late(codes: Codes) -> list[str]:
    """Finds pieces of version 0.1 that are joined with the end symbol only after all merges, though merges use it."""
    if not codes.end_is_symbol:
        return []
    pairs = set(codes.pairs)
    return sorted(
        {right for _, right in pairs if right.endswith(END_OF_WORD) and right != END_OF_WORD}
        - {left + right for left, right in pairs if right == END_OF_WORD}
    )


def byte_pairs(codes: Codes, vocabulary: Vocabulary, separator: str, lowercase: bool) -> Side:
    """Builds the tokenizer of one side. It renames `ab@@` to `ab`, and `ab`, which ends a word, to `ab</w>`.

    subword-nmt treats a no-break space or tab inside a word as a piece. Toolkits split at white space, so they see only
    the separator of that piece.
    """
    # In version 0.1 the end is a character of every word; here, one of Unicode's private use area.
    end = SYMBOL_OF_END if codes.end_is_symbol else END_OF_WORD
    unk = None if vocabulary.unk is None else vocabulary.tokens[vocabulary.unk]

    def name(token: str) -> str:
        if token == separator:
            return NO_BREAK_SPACE
        return token.removesuffix(separator) if token.endswith(separator) else token + end

    names = vocabulary.named(name)
    merges = [(a.replace(END_OF_WORD, end), b.replace(END_OF_WORD, end)) for a, b in codes.pairs]
    if codes.end_is_symbol:
        special = {vocabulary.tokens[i] for i in vocabulary.special.values()} - {unk}
        merges = with_ends(merges, [name for name in names if name not in special], end)
    # Intermediate results of merges need an id, even if the model does not know them.
    for piece in (piece for a, b in merges for piece in (a, b, a + b)):
        names.setdefault(piece, len(names))
    suffix = {} if codes.end_is_symbol else {"end_of_word_suffix": end}
    tokenizer = Tokenizer(models.BPE(vocab=names, merges=merges, unk_token=unk, **suffix))
    keeps_spaces = separator in vocabulary.tokens
    tokenizer.normalizer = normalizers.Sequence(
        lower(lowercase) + byte_pair_normalizers(codes.end_is_symbol, keeps_spaces)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[ \r\n]+"), "removed")
    steps = [decoders.Replace(Regex(f"{re.escape(end)}\\z"), " "), decoders.Fuse(), decoders.Replace(Regex(r" \z"), "")]
    if keeps_spaces:
        steps.insert(0, decoders.Replace(Regex(rf"\A{NO_BREAK_SPACE}\z"), ""))
    tokenizer.decoder = decoders.Sequence(steps)
    return Side(tokenizer, len(vocabulary.tokens))


def with_ends(merges: list[tuple[str, str]], names: list[str], end: str) -> list[tuple[str, str]]:
    """Extends the merges of version 0.1 by those that join any last piece of a word with the end symbol."""
    pieces = names + [piece for pair in merges for piece in pair] + [a + b for a, b in merges]
    pieces += [name[0] for name in pieces if len(name) == 2 and name[1] == end]
    ends = [(piece, end) for piece in pieces if not piece.endswith(end)]
    return list(dict.fromkeys(merges + ends))


def byte_pair_normalizers(end_is_symbol: bool, keeps_spaces: bool) -> list:
    """Removes words that consist of other white space, and appends version 0.1's end symbol to each word."""
    letter, space = r"[^ \r\n]", r"[ \r\n]"
    steps = [normalizers.Replace(Regex(rf"(?<!{letter})\s+(?!{letter})"), " ")]
    if keeps_spaces:
        steps.append(normalizers.Replace(Regex(r"[^\S \r\n]"), NO_BREAK_SPACE))
    if end_is_symbol:
        steps.append(normalizers.Replace(SYMBOL_OF_END, "\ue001"))  # the text may contain the character
        steps.append(normalizers.Replace(Regex(rf"(?<={letter})(?={space}|\z)"), SYMBOL_OF_END))
    return steps
