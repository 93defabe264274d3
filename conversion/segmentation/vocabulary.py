"""A toolkit's vocabulary, and the assembly of a converted tokenizer from its two sides.

The result is a plain tokenizer.json if that can express everything. Otherwise (a separate target vocabulary, pieces
missing in the vocabulary, Moses) it is a `VaswaniTokenizer`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, normalizers, processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from vaswani_transformer.model.tokenization_vaswani import VaswaniTokenizer

from ..options import ConversionError


SPACE = "\u2581"  # SentencePiece's space
MOSES_ESCAPES = "&quot;", "&apos;"  # how Moses writes quotation marks and apostrophes


@dataclass(frozen=True)
class Vocabulary:
    """A toolkit's vocabulary: all tokens in the order of their ids, and the ids of special tokens.

    A source is encoded as the ids `before`, its pieces and the ids `after`, by default the end token. A target is
    always encoded as its pieces and the end token. Without `pad`, batches are padded with the end token. `eos` may be
    unset for a source without an end token, if `pad` and `after` are set.
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
        """The ids of the special tokens, by transformers' names."""
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
        """Maps `name(token)` to ids; special tokens keep their names.

        If several tokens have the same name, only the last can result from encoding, as in the toolkits. The others get
        names that match no text.
        """
        special = set(self.special.values())
        names = {self.tokens[i]: i for i in special}
        for i, token in reversed(list(enumerate(self.tokens))):
            if i not in special:
                key = name(token)
                names[key if key not in names else f"{key} {i}"] = i
        return dict(sorted(names.items(), key=lambda item: item[1]))


def moses_escapes(*vocabularies: Vocabulary) -> list[str]:
    """Returns Moses' escapes among the tokens. If there are any, the model was trained on text tokenized by Moses."""
    return [escape for escape in MOSES_ESCAPES if any(escape in vocabulary.tokens for vocabulary in vocabularies)]


@dataclass(frozen=True)
class MosesSettings:
    """Settings of Moses, which tokenizes before encoding and detokenizes. `source` and `target` are languages."""

    source: str
    target: str
    normalize: bool = False
    clean: bool = False
    dash_splits: bool = False
    escape: bool = True


@dataclass
class ConvertedTokenizer:
    """A tokenizer, None if there is none, and its known differences from the original tool."""

    tokenizer: PreTrainedTokenizerBase | None
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Side:
    """The tokenizer of the source or of the target.

    Ids from `known` on are pieces missing in the vocabulary. `surfaces` are tokens that match only text unknown to the
    segmentation.
    """

    tokenizer: Tokenizer
    known: int
    surfaces: dict[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not self.surfaces and self.tokenizer.get_vocab_size(with_added_tokens=False) <= self.known


def assemble(
    side: Callable[[Any, Vocabulary], Side],
    means: Any,
    source: Vocabulary,
    target: Vocabulary | None,
    differences: list[str],
    moses: MosesSettings | None,
    **settings,
) -> ConvertedTokenizer:
    """Builds one tokenizer for both sides, each with `side(means, vocabulary)`.

    `means` is what segments a side, such as a file, or a tuple of those of source and target.

    Raises:
        ConversionError: the special ids of the two vocabularies differ.
    """
    means = means if isinstance(means, tuple) else (means, means)
    target = (source if target is None else target).as_target()
    check_special(source, target)
    source_side = with_special_tokens(side(means[0], source), source)
    shared = means[0] == means[1] and tuple(source.tokens) == tuple(target.tokens) and source.ends == target.ends
    target_side = None if shared else with_special_tokens(side(means[1], target), target)
    names = {name: source.tokens[i] for name, i in source.special.items()}
    options = dict(names, padding_side="right", clean_up_tokenization_spaces=False, split_special_tokens=True)
    options["model_input_names"] = ["input_ids", "attention_mask"]
    differences = list(dict.fromkeys(differences))
    if shared and source_side.complete and moses is None and not settings:
        return ConvertedTokenizer(
            PreTrainedTokenizerFast(tokenizer_object=source_side.tokenizer, **options), differences
        )
    for prefix, built in (("", source_side), ("target_", target_side)):
        if built is not None and not built.complete:
            settings[f"{prefix}known_tokens"] = built.known
            if built.surfaces:
                settings[f"{prefix}surfaces"] = built.surfaces
    if moses is not None:
        settings |= {f"moses_{name}": value for name, value in vars(moses).items()}
    tokenizer = VaswaniTokenizer.from_sides(
        source_side.tokenizer, target_side and target_side.tokenizer, **options, **settings
    )
    return ConvertedTokenizer(tokenizer, differences)


def check_special(source: Vocabulary, target: Vocabulary):
    if (source.eos or 0) >= len(source.tokens) or target.eos >= len(target.tokens):
        raise ConversionError("The end token is not in the vocabulary. Does the file belong to another checkpoint?")
    wrong = [
        f"{name} is {source.special.get(name)} in the source and {target.special.get(name)} in the target"
        for name in sorted({*source.special, *(target.special if source.eos is not None else ())})
        if source.special.get(name) != target.special.get(name)
        or source.tokens[source.special[name]] != target.tokens[target.special[name]]
    ]
    if wrong:
        raise ConversionError.from_problems("The special tokens of the two vocabularies differ", wrong)


def with_special_tokens(side: Side, vocabulary: Vocabulary) -> Side:
    """Adds the special tokens, including those at the beginning and end of each text."""
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


def lower(lowercase: bool) -> list:
    """Lowercases like Python's `str.lower`, including the final sigma."""
    if not lowercase:
        return []
    return [normalizers.Replace(Regex(r"(?<=\p{L})\u03A3(?!\p{L})"), "\u03c2"), normalizers.Lowercase()]


def vocabulary_mismatch(path: Path, side: Side, pieces: set[str]) -> list[str]:
    """Warns if most pieces of a segmentation file are not in the vocabulary."""
    ids = [side.tokenizer.token_to_id(piece) for piece in pieces]
    known = sum(i is not None and i < side.known for i in ids)
    if 2 * known >= len(ids):
        return []
    return [
        f"Only {known} of {len(ids)} pieces of {path.name} are in the vocabulary; the file may belong to another model."
    ]
