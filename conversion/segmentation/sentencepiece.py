"""SentencePiece models, unigram and BPE, with a toolkit's vocabulary, which may reorder or omit pieces."""

import re
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from vaswani_transformer.learn_bpe import MARK, prefix_once
from vaswani_transformer.system.extras import missing_package

from ..files.folders import regular
from ..options import ConversionError
from .vocabulary import SPACE, ConvertedTokenizer, MosesSettings, Side, Vocabulary, assemble, lower, vocabulary_mismatch


# The types of pieces in a model.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2
LANGUAGE_CODE = re.compile(">>.+<<")  # OPUS-MT's prefix that selects the target language
UNKNOWN_CHARACTER = "\ufdd1"  # reserved by Unicode, so that no piece has it


def sentencepiece(
    model: Path | tuple[Path, Path],
    source: Vocabulary,
    target: Vocabulary | None = None,
    *,
    only_in_vocabulary: bool = False,
    lowercase: bool = False,
    moses: MosesSettings | None = None,
) -> ConvertedTokenizer:
    """Builds a tokenizer from one or two SentencePiece models. Without `target` both sides share the vocabulary.

    `only_in_vocabulary` is SentencePiece's `SetVocabulary`, which JoeyNMT uses.

    Raises:
        ConversionError: a file is not such a model, a vocabulary has no unknown token, or the special ids of the two
            sides differ.
    """
    differences = []

    def side(path: Path, vocabulary: Vocabulary) -> Side:
        if vocabulary.unk is None:
            raise ConversionError(f"SentencePiece needs an unknown token, but the vocabulary for {path.name} has none.")
        pieces = Pieces.from_file(path)
        built = pieces.side(vocabulary, only_in_vocabulary, lowercase)
        normal = {piece for piece, kind in pieces.types.items() if kind == NORMAL}
        differences.extend(vocabulary_mismatch(path, built, normal))
        differences.extend(f"{path.name}: {difference}" for difference in pieces.differences)
        return built

    return assemble(side, model, source, target, differences, moses)


class Pieces:
    """A SentencePiece model: pieces with types and scores, and the normalisation of texts."""

    def __init__(self, proto):
        self.trainer, self.normalizer = proto.trainer_spec, proto.normalizer_spec
        self.types = {piece.piece: piece.type for piece in proto.pieces}
        self.scores = {piece.piece: piece.score for piece in proto.pieces}
        self.unigram = self.trainer.model_type == UNIGRAM
        self.differences: list[str] = []
        if proto.denormalizer_spec.precompiled_charsmap:
            self.differences.append("SentencePiece also replaces characters when decoding, by a table in the model.")

    @classmethod
    def from_file(cls, path: Path) -> "Pieces":
        try:
            from sentencepiece import sentencepiece_model_pb2
        except ImportError as error:
            raise ConversionError(missing_package(f"Reading {path}", error.name, "convert")) from None
        proto = sentencepiece_model_pb2.ModelProto()
        content = regular(path).read_bytes()
        try:
            proto.ParseFromString(content)
        except Exception as error:  # the error class depends on protobuf's implementation
            raise ConversionError(f"{path} is not a SentencePiece model.") from error
        if not proto.pieces:
            raise ConversionError(f"{path} is not a SentencePiece model.")
        if proto.trainer_spec.model_type not in (UNIGRAM, BPE):
            raise ConversionError(f"Unsupported: {path} is a model of words or characters (supported: unigram, BPE).")
        return cls(proto)

    def side(self, vocabulary: Vocabulary, only_in_vocabulary: bool, lowercase: bool) -> Side:
        """Builds the tokenizer of one side; adds its differences from SentencePiece to `differences`."""
        types = self.types_in(vocabulary) if only_in_vocabulary else self.types
        used = {piece: kind for piece, kind in types.items() if kind in (NORMAL, USER_DEFINED, BYTE)}
        special = {vocabulary.tokens[i] for i in vocabulary.special.values()}
        codes = {token for token in vocabulary.tokens if LANGUAGE_CODE.fullmatch(token)}
        literal = special | codes
        byte_fallback = BYTE in types.values()
        if byte_fallback:
            self.differences.append("Bytes that are not UTF-8 may be decoded to more replacement characters.")
        surfaces = {} if byte_fallback else unknown_surfaces(vocabulary, used, literal)
        names = self.token_ids(vocabulary, used, codes, literal)
        if self.unigram:
            model = models.Unigram(self.unigram_scores(names, used), vocabulary.unk, byte_fallback)
        else:
            model = self.byte_pairs(names, used, vocabulary, byte_fallback)
            unused = [piece for piece, kind in types.items() if kind == UNUSED] if only_in_vocabulary else []
            self.note_missing(surfaces, unused)
        tokenizer = Tokenizer(model)
        spelled = sorted(token for token in literal - codes if len(token) > 1)
        disguises = [] if byte_fallback else disguise_unknown(spelled, used)
        normalizing, prefix = self.normalizer_steps(repeat_prefix=bool(codes))
        tokenizer.normalizer = normalizers.Sequence(lower(lowercase) + normalizing + disguises)
        spelled += sorted(piece for piece, kind in used.items() if kind == BYTE)
        splits = self.cuts(spelled) if self.unigram else self.isolate_defined(model, names, used)
        if prefix or splits:
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(prefix + splits)
        tokenizer.add_tokens([AddedToken(code, normalized=False) for code in sorted(codes)])
        tokenizer.decoder = self.decoder(byte_fallback)
        return Side(tokenizer, len(vocabulary.tokens), surfaces if self.unigram else {})

    def types_in(self, vocabulary: Vocabulary) -> dict[str, int]:
        """The types after `SetVocabulary`: a piece is unused unless it is in the vocabulary or a single character."""
        known = set(vocabulary.tokens)
        return {
            piece: (NORMAL if piece in known or len(piece) == 1 else UNUSED) if kind in (NORMAL, UNUSED) else kind
            for piece, kind in self.types.items()
        }

    @staticmethod
    def token_ids(vocabulary: Vocabulary, used: dict[str, int], codes: set[str], literal: set[str]) -> dict[str, int]:
        """The ids of the vocabulary's tokens, followed by those of missing pieces.

        Tokens that are not pieces get a leading space, so that no text matches them: spaces are replaced before lookup.
        """
        names = vocabulary.named(lambda token: token if token in used or token in codes else f" {token}")
        for piece in used:
            if piece not in literal:
                names.setdefault(piece, len(names))
        return names

    def unigram_scores(self, names: dict[str, int], used: dict[str, int]) -> list[tuple[str, float]]:
        self.differences.append(
            "Rounding may choose differently between two equally likely segmentations of a word, such as 0 00 and 00 0."
        )
        normal = [self.scores[piece] for piece, kind in self.types.items() if kind == NORMAL] or [0.0]
        # Unknown characters score below the lowest score, so other tokens must not lower it.
        lowest = min(normal)

        def score(piece: str) -> float:
            kind = used.get(piece)
            if kind == USER_DEFINED:
                return -0.1  # SentencePiece's constant
            return self.scores[piece] if kind == NORMAL else lowest

        return [(piece, score(piece)) for piece in names]

    def byte_pairs(self, names: dict[str, int], used: dict[str, int], vocabulary: Vocabulary, byte_fallback: bool):
        """Lists SentencePiece's merges: any two neighbours that form a piece, best piece first."""
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
            ignore_merges=USER_DEFINED in used.values(),  # no merges form these pieces; see `isolate_defined`
        )

    def note_missing(self, surfaces: dict[str, int], unused: list[str]):
        """Adds the differences of a BPE model."""
        if surfaces:
            self.differences.append(
                f"{len(surfaces)} entries of the vocabulary, such as {next(iter(surfaces))!r}, contain characters that "
                "the model does not know; in texts they are unknown."
            )
        if unused:
            self.differences.append(
                f"{len(unused)} pieces outside the vocabulary are never formed; SentencePiece forms them as "
                "intermediate results."
            )

    def normalizer_steps(self, repeat_prefix: bool) -> tuple[list, list]:
        """SentencePiece's normalisation: its table of characters, then spaces.

        Returns normalizers, and the pre-tokenizers that write the prefix once for each text. With `repeat_prefix`, the
        normalizers write it after each added token as well, as MarianTokenizer does after a language code.
        """
        spec, steps = self.normalizer, []
        if spec.precompiled_charsmap:
            steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
            self.differences.append(
                "Characters composed of several code points (letters with combining accents, kana, Indic vowels) may "
                "be normalised differently from SentencePiece."
            )
            defined = [piece for piece, kind in self.types.items() if kind == USER_DEFINED]
            if changed := [piece for piece in defined if steps[0].normalize_str(piece) != piece]:
                self.differences.append(
                    f"User-defined pieces such as {changed[0]!r} are normalised and then not matched; SentencePiece "
                    "does not normalise them."
                )
        suffix = self.trainer.treat_whitespace_as_suffix
        once = spec.add_dummy_prefix and spec.escape_whitespaces and not suffix and not repeat_prefix
        marks, prefix = prefix_once(SPACE) if once else ([], [])
        if spec.remove_extra_whitespaces:
            # Written once, the prefix takes the place of spaces at the start.
            start = rf"\A +(?={MARK})" if once else r"\A +"
            steps.append(normalizers.Replace(Regex(rf"{start}|[ {SPACE}]+\z"), ""))
            steps.append(normalizers.Replace(Regex(" {2,}"), " "))
            steps += marks
        if spec.add_dummy_prefix and not once:
            steps.append(normalizers.Replace(Regex(r"(?m)(?<=.)\z" if suffix else r"(?m)\A(?=.)"), " "))
        if spec.escape_whitespaces:
            steps.append(normalizers.Replace(" ", SPACE))
        if not spec.remove_extra_whitespaces:
            steps += marks
        return steps, prefix

    def cuts(self, spelled: list[str]) -> list:
        """Cuts special tokens spelled out in a text after their first character, so that they are plain text."""
        by_first: dict[str, list[str]] = {}
        for token in spelled:
            by_first.setdefault(token[0], []).append(re.escape(token[1:]))
        cuts = [f"(?<={re.escape(first)})(?={'|'.join(rest)})" for first, rest in by_first.items()]
        return [pre_tokenizers.Split(Regex("|".join(cuts)), "isolated")] if cuts else []

    def isolate_defined(self, model: models.BPE, names: dict[str, int], used: dict[str, int]) -> list:
        """Isolates user-defined pieces, which are then looked up as a whole, because no merges form them.

        Any other text between two of them is looked up as a whole, too. Where it spells an entry that its merges do not
        form, such as a special token, it is cut into the pieces that they do form.
        """
        defined = sorted((piece for piece, kind in used.items() if kind == USER_DEFINED), key=len, reverse=True)
        if not defined:
            return []
        model.ignore_merges = False
        cuts = []
        for entry in names.keys() - set(defined):
            ends = [token.offsets[1] for token in model.tokenize(entry)][:-1]
            parts = [(re.escape(entry[:end]), re.escape(entry[end:])) for end in ends]
            cuts += [rf"(?<=\A{before})(?={after}\z)" for before, after in parts]
        model.ignore_merges = True
        patterns = ["|".join(map(re.escape, defined)), "|".join(sorted(cuts))]
        return [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns if pattern]

    def decoder(self, byte_fallback: bool):
        spec = self.normalizer
        steps = [decoders.Replace(Regex(r"\A "), "")]  # the leading space of tokens that are not pieces
        if byte_fallback:
            steps.append(decoders.ByteFallback())
        steps += [decoders.Replace(SPACE, " "), decoders.Fuse()]
        if spec.remove_extra_whitespaces:
            steps.append(decoders.Replace(Regex(r"\A +"), ""))
        elif spec.add_dummy_prefix:
            steps.append(decoders.Replace(Regex(r"\A "), ""))
        return decoders.Sequence(steps)


def unknown_surfaces(vocabulary: Vocabulary, used: dict[str, int], literal: set[str]) -> dict[str, int]:
    """Entries of the vocabulary made of unknown characters; toolkits match them by spelling."""
    return {
        token: i
        for i, token in enumerate(vocabulary.tokens)
        if token not in used and token not in literal and not set(token) & used.keys()
    }


def disguise_unknown(spelled: list[str], used: dict[str, int]) -> list:
    """Replaces an unknown character in each special token spelled out in a text by another unknown one.

    The token is then plain text, and a run of unknown characters stays one unknown piece.
    """
    known = set().union(*used)
    steps = []
    for token in spelled:
        i = next((i for i, character in enumerate(token) if character not in known), None)
        if i is not None:
            before, character, after = (re.escape(part) for part in (token[:i], token[i], token[i + 1 :]))
            pattern = f"(?<={before}){character}(?={after})"
            steps.append(normalizers.Replace(Regex(pattern), UNKNOWN_CHARACTER))
    return steps
