"""The tokenizer of a converted checkpoint: the source's own segmentation with the source's own ids.

What converters call:

    subword_nmt(codes, source, target)           subword-nmt's or fastBPE's codes with a toolkit's vocabulary
    sentencepiece(model, source, target)         SentencePiece models with a toolkit's vocabulary
    t2t_subwords(source, target)                 tensor2tensor's vocabulary files
    words(source, target)                        words between spaces
    characters(source, target)                   characters

Each gives a `Segmentation`. It is one plain tokenizer.json wherever that can say everything; where it cannot (the
target has a vocabulary of its own, the segmentation has pieces that the vocabulary lacks, Moses comes before it) it is
a `VaswaniTokenizer`, whose code is saved with it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from vaswani_transformer.tokenization_vaswani import VaswaniTokenizer

from .core import ConversionError


@dataclass(frozen=True)
class Vocabulary:
    """A toolkit's vocabulary: `tokens` in the order of their ids, special ones included, and which are special.

    A source is encoded as `before`, its pieces, `after`; unset, `after` is the end token. A target always is its pieces
    and the end token. `pad` may be unset where the toolkit has none: batches are then padded with the end token. `eos`
    may be unset in the vocabulary of a source that is encoded without an end, where `pad` and `after` are set.
    """

    tokens: Sequence[str]
    eos: int | None
    unk: int | None = None
    pad: int | None = None
    bos: int | None = None
    before: tuple[int, ...] = ()
    after: tuple[int, ...] | None = None

    @property
    def special(self) -> dict[str, int]:
        """Names of transformers' special tokens, and their ids."""
        ids = {"pad_token": self.eos if self.pad is None else self.pad, "eos_token": self.eos}
        ids |= {"unk_token": self.unk, "bos_token": self.bos}
        return {name: i for name, i in ids.items() if i is not None}

    def as_target(self) -> "Vocabulary":
        return replace(self, before=(), after=None)

    @property
    def ends(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids before and after a text."""
        return tuple(self.before), (self.eos,) if self.after is None else tuple(self.after)

    def named(self, name: Callable[[str], str] = str) -> dict[str, int]:
        """Ids by `name(token)`, special tokens under their own names.

        A token that reads like a special one or like a later one can never be the result of encoding, as in the
        toolkits; it is named so that no text can spell it.
        """
        special = set(self.special.values())
        names = {self.tokens[i]: i for i in special}
        for i, token in reversed(list(enumerate(self.tokens))):
            if i not in special:
                key = name(token)
                names[key if key not in names else f"{key} {i}"] = i
        return dict(sorted(names.items(), key=lambda item: item[1]))


@dataclass(frozen=True)
class Moses:
    """Moses' tokenizer before the segmentation, and its detokenizer after; `source` and `target` are languages."""

    source: str
    target: str
    normalize: bool = False
    clean: bool = False
    dash_splits: bool = False
    escape: bool = True


@dataclass
class Segmentation:
    """A tokenizer, and in plain words whatever it does otherwise than the source's own tool."""

    tokenizer: PreTrainedTokenizerBase
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Side:
    """The tokenizer of one side. Its ids from `known` on are pieces that the vocabulary lacks; `surfaces` are tokens of
    the vocabulary that can only be met as text that the segmentation does not know."""

    tokenizer: Tokenizer
    known: int
    surfaces: dict[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not self.surfaces and self.tokenizer.get_vocab_size(with_added_tokens=False) <= self.known


def subword_nmt(
    codes: Path | tuple[Path, Path],
    source: Vocabulary,
    target: Vocabulary | None = None,
    *,
    separator: str = "@@",
    version: str | None = None,
    only_in_vocabulary: bool = False,
    lowercase: bool = False,
    moses: Moses | None = None,
) -> Segmentation:
    """Byte-pair codes of subword-nmt (versions 0.1 and 0.2) or fastBPE, with a vocabulary of pieces like `ab@@`.

    `codes` may be two files, of source and target. Without `target` both sides share the vocabulary. `version` is for
    files that do not say theirs. `only_in_vocabulary` stands for subword-nmt's `--vocabulary`, which takes back merges
    that give unknown pieces.

    Raises:
        ConversionError: a file is no file of codes, or the special ids of the two sides differ.
    """
    differences = []

    def side(path: Path, vocabulary: Vocabulary) -> Side:
        merges = read_codes(path, version)
        if odd := out_of_order(merges.pairs):
            differences.append(
                f"In words that repeat a syllable, such as {odd[0]!r}, {len(odd)} of {len(merges.pairs)} merges of "
                f"{path.name} could be done in another order than by subword-nmt."
            )
        if late := ends_late(merges):
            differences.append(
                f"{path.name} is of version 0.1: words that end in one of {len(late)} pieces, such as {late[0]!r}, may "
                "be merged further than by subword-nmt."
            )
        made = byte_pairs(merges, vocabulary, separator, lowercase)
        end = SYMBOL_OF_END if merges.end_is_symbol else END_OF_WORD
        differences.extend(misfit(path, made, {(a + b).replace(END_OF_WORD, end) for a, b in merges.pairs}))
        if moses is None:
            differences.append(
                "White space of other kinds than the space and the end of a line is an unknown piece at the end of a "
                "word; toolkits drop it."
            )
            if any(character.isspace() for pair in merges.pairs for character in "".join(pair)):
                differences.append(
                    f"{path.name} has merges with white space inside: what they give is an unknown piece; toolkits "
                    "split it once more."
                )
        if only_in_vocabulary and not made.complete:
            differences.append(
                f"Where a merge of {path.name} gives a piece outside the vocabulary, subword-nmt takes the merge back; "
                "here the piece is unknown."
            )
        return made

    return segmentation(side, codes, source, target, differences, moses)


@dataclass(frozen=True)
class Codes:
    pairs: list[tuple[str, str]]  # merges, the most frequent first
    end_is_symbol: bool  # version 0.1: the end of a word is a symbol of its own, not a mark on the last character


END_OF_WORD = "</w>"
SYMBOL_OF_END = "\ue000"
NO_BREAK_SPACE = "\u00a0"


def read_codes(path: Path, version: str | None = None) -> Codes:
    """A file of merges by subword-nmt, or by fastBPE, whose lines also have a count.

    Raises:
        ConversionError: it is none.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise ConversionError(f"{path} is no file of byte-pair codes: it is not text.") from None
    first = 1
    if lines[0].startswith("#version:"):
        version, first = lines.pop(0).split()[-1], 2
    rows = [line.strip("\r\n ").split(" ") for line in lines]
    if wrong := [i for i, row in enumerate(rows, first) if len(row) not in (2, 3)]:
        raise ConversionError(f"{path} is no file of byte-pair codes: line {wrong[0]} does not have two pieces.")
    fast = all(len(row) == 3 for row in rows)
    version = version or ("0.2" if fast else "0.1")
    if version not in ("0.1", "0.2"):
        raise ConversionError(f"{path} is of version {version!r} of subword-nmt; 0.1 and 0.2 are known.")
    return Codes(list(dict.fromkeys((row[0], row[1]) for row in rows)), version == "0.1")


def out_of_order(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Words in which merging the first of two equal pairs lets another merge come before the second pair's.

    subword-nmt merges all equal pairs at once; tokenizers always takes the best one that there is.
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
    """Pieces of version 0.1 that take the end of the word on only after all merges, though there are merges of what
    comes out."""
    if not codes.end_is_symbol:
        return []
    pairs = set(codes.pairs)
    return sorted(
        {right for _, right in pairs if right.endswith(END_OF_WORD) and right != END_OF_WORD}
        - {left + right for left, right in pairs if right == END_OF_WORD}
    )


def byte_pairs(codes: Codes, vocabulary: Vocabulary, separator: str, lowercase: bool) -> Side:
    """`ab@@` is called `ab` in the tokenizer, and `ab`, which ends a word, `ab</w>`.

    A no-break space or tab inside a word is a piece to subword-nmt, of which toolkits, splitting at white space, see
    only the separator.
    """
    # In version 0.1 the end is a character of every word, for which one is taken that has no other use.
    end = SYMBOL_OF_END if codes.end_is_symbol else END_OF_WORD
    unk = None if vocabulary.unk is None else vocabulary.tokens[vocabulary.unk]

    def name(token: str) -> str:
        if token == separator:
            return NO_BREAK_SPACE
        return token.removesuffix(separator) if token.endswith(separator) else token + end

    names = vocabulary.named(name)
    merges = [(a.replace(END_OF_WORD, end), b.replace(END_OF_WORD, end)) for a, b in codes.pairs]
    if codes.end_is_symbol:
        # Whatever is left of a word takes the end on, after all other merges.
        special = {vocabulary.tokens[i] for i in vocabulary.special.values()} - {unk}
        pieces = [name for name in names if name not in special] + [piece for pair in merges for piece in pair]
        pieces += [a + b for a, b in merges] + [name[0] for name in pieces if len(name) == 2 and name[1] == end]
        merges += [(piece, end) for piece in pieces if not piece.endswith(end)]
        merges = list(dict.fromkeys(merges))
    hidden = [piece for a, b in merges for piece in (a, b, a + b)]
    for piece in dict.fromkeys(hidden):
        names.setdefault(piece, len(names))
    suffix = {} if codes.end_is_symbol else {"end_of_word_suffix": end}
    tokenizer = Tokenizer(models.BPE(vocab=names, merges=merges, unk_token=unk, **suffix))
    letter, space = r"[^ \r\n]", r"[ \r\n]"
    steps = [normalizers.Replace(Regex(rf"(?<!{letter})\s+(?!{letter})"), " ")]  # words of other white space only
    if separator in vocabulary.tokens:
        steps.append(normalizers.Replace(Regex(r"[^\S \r\n]"), NO_BREAK_SPACE))
    if codes.end_is_symbol:
        steps.append(normalizers.Replace(end, "\ue001"))
        steps.append(normalizers.Replace(Regex(rf"(?<={letter})(?={space}|\z)"), end))
    tokenizer.normalizer = normalizers.Sequence(lower(lowercase) + steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(f"{space}+"), "removed")
    steps = [decoders.Replace(Regex(f"{re.escape(end)}\\z"), " "), decoders.Fuse(), decoders.Replace(Regex(r" \z"), "")]
    if separator in vocabulary.tokens:
        steps.insert(0, decoders.Replace(Regex(rf"\A{NO_BREAK_SPACE}\z"), ""))
    tokenizer.decoder = decoders.Sequence(steps)
    return Side(tokenizer, len(vocabulary.tokens))


def misfit(path: Path, side: Side, pieces: set[str]) -> list[str]:
    """A warning where most pieces of a file are none of the vocabulary's."""
    ids = [side.tokenizer.token_to_id(piece) for piece in pieces]
    found = sum(i is not None and i < side.known for i in ids)
    if 2 * found >= len(ids):
        return []
    return [f"Only {found} of {len(ids)} pieces of {path.name} are in the vocabulary; it may be of another model."]


def lower(lowercase: bool) -> list:
    """Python's `str.lower`: unlike the plain mapping of characters it knows the sigma that ends a word."""
    if not lowercase:
        return []
    return [normalizers.Replace(Regex(r"(?<=\p{L})\u03A3(?!\p{L})"), "\u03c2"), normalizers.Lowercase()]


def sentencepiece(
    model: Path | tuple[Path, Path],
    source: Vocabulary,
    target: Vocabulary | None = None,
    *,
    only_in_vocabulary: bool = False,
    lowercase: bool = False,
    moses: Moses | None = None,
) -> Segmentation:
    """A SentencePiece model (unigram or BPE), with a vocabulary that gives its pieces other ids, or lacks some.

    `model` may be two files, of source and target. Without `target` both sides share the vocabulary.
    `only_in_vocabulary` stands for SentencePiece's `SetVocabulary`, which JoeyNMT uses.

    Raises:
        ConversionError: a file is no such model, a vocabulary has no unknown token, or the special ids of the two
            sides differ.
    """
    differences = []

    def side(path: Path, vocabulary: Vocabulary) -> Side:
        if vocabulary.unk is None:
            raise ConversionError(f"The vocabulary for {path.name} has no unknown token, which SentencePiece needs.")
        pieces = Pieces.read(path)
        made = pieces.side(vocabulary, only_in_vocabulary, lowercase)
        differences.extend(misfit(path, made, {piece for piece, kind in pieces.types.items() if kind == NORMAL}))
        differences.extend(f"{path.name}: {difference}" for difference in pieces.differences)
        return made

    return segmentation(side, model, source, target, differences, moses)


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPACE = "\u2581"


class Pieces:
    """A SentencePiece model."""

    def __init__(self, proto):
        self.trainer, self.normalizer = proto.trainer_spec, proto.normalizer_spec
        self.types = {piece.piece: piece.type for piece in proto.pieces}
        self.scores = {piece.piece: piece.score for piece in proto.pieces}
        self.unigram = self.trainer.model_type == 1
        self.differences: list[str] = []
        if proto.denormalizer_spec.precompiled_charsmap:
            self.differences.append("SentencePiece also changes characters of what it decodes, by a table of its own.")

    @classmethod
    def read(cls, path: Path) -> "Pieces":
        try:
            from sentencepiece import sentencepiece_model_pb2
        except ImportError:
            raise ConversionError(f"{path} needs packages to read it: pip install sentencepiece protobuf") from None
        proto = sentencepiece_model_pb2.ModelProto()
        try:
            proto.ParseFromString(Path(path).read_bytes())
        except Exception as error:
            raise ConversionError(f"{path} is no SentencePiece model.") from error
        if not proto.pieces:
            raise ConversionError(f"{path} is no SentencePiece model.")
        if proto.trainer_spec.model_type not in (1, 2):
            raise ConversionError(f"{path} is a model of words or characters; known are unigram and BPE.")
        return cls(proto)

    def side(self, vocabulary: Vocabulary, only_in_vocabulary: bool, lowercase: bool) -> Side:
        known = set(vocabulary.tokens)
        types = dict(self.types)
        if only_in_vocabulary:
            for piece, kind in types.items():
                if kind in (NORMAL, UNUSED):
                    types[piece] = NORMAL if piece in known or len(piece) == 1 else UNUSED
        used = {piece: kind for piece, kind in types.items() if kind in (NORMAL, USER_DEFINED, BYTE)}
        special = {vocabulary.tokens[i] for i in vocabulary.special.values()}
        codes = {token for token in vocabulary.tokens if re.fullmatch(">>.+<<", token)}  # OPUS-MT's target languages
        literal = special | codes

        def name(token: str) -> str:
            # There are no spaces in a text any more when it is looked up.
            return token if token in used or token in codes else f" {token}"

        names = vocabulary.named(name)
        for piece in used:
            if piece not in literal:
                names.setdefault(piece, len(names))
        byte_fallback = any(kind == BYTE for kind in types.values())
        if byte_fallback:
            self.differences.append(
                "Bytes that are no UTF-8, should the model write any, are decoded to more replacement characters."
            )
        if self.unigram:
            model = models.Unigram(self.unigram_scores(names, used), vocabulary.unk, byte_fallback)
        else:
            model = self.merges(names, used, vocabulary, byte_fallback)
            if strange := self.surfaces(vocabulary, used, literal, byte_fallback):
                self.differences.append(
                    f"{len(strange)} entries of the vocabulary, such as {next(iter(strange))!r}, are spelt with "
                    "characters that the model does not know; in texts they are unknown."
                )
            if only_in_vocabulary and (lost := [p for p, kind in types.items() if kind == UNUSED]):
                self.differences.append(
                    f"{len(lost)} pieces that the vocabulary lacks are never made; SentencePiece makes them on its "
                    "way to longer ones."
                )
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = normalizers.Sequence(lower(lowercase) + self.normalizers())
        unsplit = literal | {piece for piece, kind in used.items() if kind == BYTE}
        if splits := self.splits(unsplit - codes, used):
            tokenizer.pre_tokenizer = splits
        tokenizer.add_tokens([AddedToken(code, normalized=False) for code in sorted(codes)])
        tokenizer.decoder = self.decoder(byte_fallback)
        surfaces = self.surfaces(vocabulary, used, literal, byte_fallback) if self.unigram else {}
        return Side(tokenizer, len(vocabulary.tokens), surfaces)

    @staticmethod
    def surfaces(vocabulary: Vocabulary, used: dict, literal: set[str], byte_fallback: bool) -> dict[str, int]:
        """Entries of the vocabulary that are runs of unknown characters: toolkits look these up as they are spelt."""
        if byte_fallback:
            return {}
        return {
            token: i
            for i, token in enumerate(vocabulary.tokens)
            if token not in used and token not in literal and not set(token) & used.keys()
        }

    def unigram_scores(self, names: dict[str, int], used: dict[str, int]) -> list[tuple[str, float]]:
        normal = [self.scores[piece] for piece, kind in self.types.items() if kind == NORMAL] or [0.0]
        self.differences.append(
            "Of two equally likely ways to cut a word, such as 0 00 and 00 0, rounding may choose another one than in "
            "SentencePiece."
        )
        lowest = min(normal)  # unknown characters count less than the lowest score, so that nothing may lower it

        def score(piece: str) -> float:
            kind = used.get(piece)
            if kind == USER_DEFINED:
                return -0.1  # SentencePiece's own figure
            return self.scores[piece] if kind == NORMAL else lowest

        return [(piece, score(piece)) for piece in names]

    def merges(self, names: dict[str, int], used: dict[str, int], vocabulary: Vocabulary, byte_fallback: bool):
        """SentencePiece joins any two neighbours that make a piece, the best piece first."""
        parts = {piece for piece, kind in used.items() if kind == NORMAL}
        ranked = sorted(parts, key=lambda piece: -self.scores[piece])
        merges = [
            (piece[:i], piece[i:])
            for piece in ranked
            for i in range(1, len(piece))
            if piece[:i] in parts and piece[i:] in parts
        ]
        return models.BPE(
            vocab=names,
            merges=merges,
            unk_token=vocabulary.tokens[vocabulary.unk],
            fuse_unk=True,
            byte_fallback=byte_fallback,
            ignore_merges=USER_DEFINED in used.values(),
        )

    def normalizers(self) -> list:
        """SentencePiece's own order: its table of characters, then spaces."""
        spec, steps = self.normalizer, []
        if spec.precompiled_charsmap:
            steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
            self.differences.append(
                "Characters typed as several, such as a letter and then its accents or kana and Indic vowels in parts, "
                "may be normalised otherwise than by SentencePiece."
            )
            defined = [piece for piece, kind in self.types.items() if kind == USER_DEFINED]
            if changed := [piece for piece in defined if steps[0].normalize_str(piece) != piece]:
                self.differences.append(
                    f"User-defined pieces such as {changed[0]!r} are normalised, and not found then; SentencePiece "
                    "leaves them."
                )
        if spec.remove_extra_whitespaces:
            steps.append(normalizers.Replace(Regex(rf"\A +|[ {SPACE}]+\z"), ""))
            steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        if spec.add_dummy_prefix:
            suffix = self.trainer.treat_whitespace_as_suffix
            steps.append(normalizers.Replace(Regex(r"(?m)(?<=.)\z" if suffix else r"(?m)\A(?=.)"), " "))
        if spec.escape_whitespaces:
            steps.append(normalizers.Replace(" ", SPACE))
        return steps

    def splits(self, unsplit: set[str], used: dict[str, int]):
        """Cuts special tokens in two where a text spells them, so that they are text; and user-defined pieces out."""
        steps = []
        special = sorted(token for token in unsplit if len(token) > 1)
        if self.unigram and special:
            by_first: dict[str, list[str]] = {}
            for token in special:
                by_first.setdefault(token[0], []).append(re.escape(token[1:]))
            cuts = [f"(?<={re.escape(first)})(?={'|'.join(rest)})" for first, rest in by_first.items()]
            steps.append(pre_tokenizers.Split(Regex("|".join(cuts)), "isolated"))
        defined = sorted((piece for piece, kind in used.items() if kind == USER_DEFINED), key=len, reverse=True)
        if not self.unigram and defined:
            steps.append(pre_tokenizers.Split(Regex("|".join(map(re.escape, defined))), "isolated"))
        return pre_tokenizers.Sequence(steps) if steps else None

    def decoder(self, byte_fallback: bool):
        spec = self.normalizer
        steps = [decoders.Replace(Regex(r"\A "), "")]  # of tokens that are no pieces
        if byte_fallback:
            steps.append(decoders.ByteFallback())
        steps += [decoders.Replace(SPACE, " "), decoders.Fuse()]
        if spec.remove_extra_whitespaces:
            steps.append(decoders.Replace(Regex(r"\A +"), ""))
        elif spec.add_dummy_prefix:
            steps.append(decoders.Replace(Regex(r"\A "), ""))
        return decoders.Sequence(steps)


def t2t_subwords(source: Path, target: Path | None = None) -> Segmentation:
    """A vocabulary file of tensor2tensor's SubwordTextEncoder (`vocab.*.subwords`), or two.

    Raises:
        ConversionError: the file is no such vocabulary.
    """

    def side(_, vocabulary: Vocabulary) -> Side:
        tokenizer = Tokenizer(
            models.WordPiece(vocabulary.named(), continuing_subword_prefix="", max_input_chars_per_word=1_000_000)
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Split("_", "merged_with_previous")
        tokenizer.decoder = decoders.Fuse()
        return Side(tokenizer, len(vocabulary.tokens))

    vocabularies = t2t_vocabulary(source), None if target is None else t2t_vocabulary(target)
    return segmentation(side, source, *vocabularies, [], None, escape="t2t")


def t2t_vocabulary(path: Path) -> Vocabulary:
    """The subwords of a vocabulary file of tensor2tensor, in the order of their ids; `<pad>` is 0 and `<EOS>` 1.

    Raises:
        ConversionError: the file is no such vocabulary.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise ConversionError(f"{path} is no vocabulary of tensor2tensor: it is not text.") from None
    tokens = [line.rstrip() for line in lines]
    tokens = [t[1:-1] if len(t) > 1 and t[0] == t[-1] and t[0] in "'\"" else t for t in tokens]
    if [token.removesuffix("_") for token in tokens[:2]] != ["<pad>", "<EOS>"]:
        raise ConversionError(f"{path} is no vocabulary of subwords by tensor2tensor: it has no <pad> and <EOS>.")
    return Vocabulary(("<pad>", "<EOS>", *tokens[2:]), eos=1, pad=0)


def words(
    source: Vocabulary,
    target: Vocabulary | None = None,
    *,
    separator: str | None = None,
    lowercase: bool = False,
    moses: Moses | None = None,
) -> Segmentation:
    """Words between spaces. With `separator` texts are expected in pieces already, which are joined when decoded: like
    `ab@@`, or SentencePiece's where it is `SPACE`.

    Raises:
        ConversionError: the special ids of the two sides differ.
    """

    def side(_, vocabulary: Vocabulary) -> Side:
        special = [vocabulary.tokens[i] for i in vocabulary.special.values()]
        unk = {} if vocabulary.unk is None else {"unk_token": vocabulary.tokens[vocabulary.unk]}
        tokenizer = Tokenizer(models.WordLevel(vocabulary.named(), **unk))
        steps = lower(lowercase)
        if unk:  # a word that reads like a special token is none
            spelt = "|".join(map(re.escape, sorted(set(special), key=len, reverse=True)))
            steps.append(normalizers.Replace(Regex(rf"(?<!\S)(?:{spelt})(?!\S)"), unk["unk_token"]))
        tokenizer.normalizer = normalizers.Sequence(steps)
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if separator == SPACE:
            ends = decoders.Replace(Regex(r"\A +| +\z"), "")
            tokenizer.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace(SPACE, " "), ends])
        elif separator:
            tokenizer.decoder = decoders.Sequence(
                [
                    decoders.Replace(Regex(r"\z"), " "),
                    decoders.Fuse(),
                    decoders.Replace(f"{separator} ", ""),
                    decoders.Replace(Regex(r" \z"), ""),
                ]
            )
        return Side(tokenizer, len(vocabulary.tokens))

    differences = ["Texts have to come in pieces already; no file of codes was given."] if separator else []
    return segmentation(side, None, source, target, differences, moses)


def characters(
    source: Vocabulary,
    target: Vocabulary | None = None,
    *,
    space: str = SPACE,
    lowercase: bool = False,
    moses: Moses | None = None,
) -> Segmentation:
    """Characters, of which `space` stands for the space.

    Raises:
        ConversionError: the special ids of the two sides differ.
    """

    def side(_, vocabulary: Vocabulary) -> Side:
        unk = {} if vocabulary.unk is None else {"unk_token": vocabulary.tokens[vocabulary.unk]}
        tokenizer = Tokenizer(models.WordLevel(vocabulary.named(), **unk))
        tokenizer.normalizer = normalizers.Sequence([*lower(lowercase), normalizers.Replace(" ", space)])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")  # Oniguruma's m: newlines too
        tokenizer.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace(space, " ")])
        return Side(tokenizer, len(vocabulary.tokens))

    return segmentation(side, None, source, target, [], moses)


def segmentation(
    side: Callable[[Path | None, Vocabulary], Side],
    files: Path | tuple[Path, Path] | None,
    source: Vocabulary,
    target: Vocabulary | None,
    differences: list[str],
    moses: Moses | None,
    **settings,
) -> Segmentation:
    """Both sides, each made by `side(file, vocabulary)`, as one tokenizer."""
    files = files if isinstance(files, tuple) else (files, files)
    target = (source if target is None else target).as_target()
    check_special(source, target)
    first = finished(side(files[0], source), source)
    one = files[0] == files[1] and tuple(source.tokens) == tuple(target.tokens) and source.ends == target.ends
    second = None if one else finished(side(files[1], target), target)
    names = {name: source.tokens[i] for name, i in source.special.items()}
    options = dict(names, padding_side="right", clean_up_tokenization_spaces=False, split_special_tokens=True)
    options["model_input_names"] = ["input_ids", "attention_mask"]
    differences = list(dict.fromkeys(differences))
    if one and first.complete and moses is None and not settings:
        return Segmentation(PreTrainedTokenizerFast(tokenizer_object=first.tokenizer, **options), differences)
    for prefix, made in (("", first), ("target_", second)):
        if made is not None and not made.complete:
            settings[f"{prefix}known_tokens"] = made.known
            if made.surfaces:
                settings[f"{prefix}surfaces"] = made.surfaces
    if moses is not None:
        settings |= {f"moses_{name}": value for name, value in vars(moses).items()}
    tokenizer = VaswaniTokenizer.of(first.tokenizer, second and second.tokenizer, **options, **settings)
    return Segmentation(tokenizer, differences)


def check_special(source: Vocabulary, target: Vocabulary):
    if (source.eos or 0) >= len(source.tokens) or target.eos >= len(target.tokens):
        raise ConversionError("The end token is outside the vocabulary: it is not this checkpoint's.")
    wrong = [
        f"{name} is {source.special.get(name)} in the source's and {target.special.get(name)} in the target's"
        for name in sorted({*source.special, *(target.special if source.eos is not None else ())})
        if source.special.get(name) != target.special.get(name)
        or source.tokens[source.special[name]] != target.tokens[target.special[name]]
    ]
    if wrong:
        raise ConversionError.of("The two vocabularies have other special tokens", wrong)


def finished(side: Side, vocabulary: Vocabulary) -> Side:
    """With its special tokens, and with those that begin and end each text."""
    tokens = [vocabulary.tokens[i] for i in dict.fromkeys(vocabulary.special.values())]
    side.tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
    before, after = ([vocabulary.tokens[i] for i in ids] for ids in vocabulary.ends)
    around = {vocabulary.tokens[i]: i for ids in vocabulary.ends for i in ids}
    side.tokenizer.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, *before, "$B", *after],
        special_tokens=list(around.items()),
    )
    return side
