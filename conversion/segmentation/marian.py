"""How Marian's texts are segmented: by its vocabularies, or by files that are looked for beside the model."""

from collections.abc import Sequence
from pathlib import Path

from ..files.folders import pair, regular
from ..files.marian import SENTENCEPIECE, MarianFiles, MarianVocabulary
from ..options import ConversionError
from . import ConvertedTokenizer, Vocabulary, choose, sentencepiece


def tokenizer(
    files: MarianFiles, rows: Sequence[int], pad: int, spm: Sequence[Path] | None = None,
    codes: Sequence[Path] | None = None,
) -> ConvertedTokenizer:  # fmt: skip
    """With the files given, or found beside the model.

    `rows` are the sizes of the two embeddings; the vocabularies may have more tokens.

    Raises:
        ConversionError: a file does not fit, or the special tokens of the two sides differ.
        FileNotFoundError: a file that was named is missing.
    """
    sides, folder = files.vocabularies, files.path.parent
    for file in [*(spm or []), *(codes or [])]:
        regular(file)
    vocabularies = [vocabulary(side, known, pad) for side, known in zip(sides, rows, strict=True)]
    if all(side.path.suffix in SENTENCEPIECE for side in sides):
        return sentencepiece((sides[0].path, sides[1].path), *vocabularies)
    models = None if codes else files_for(folder, ("*.spm", "*.model"), spm)
    merges = None if models else files_for(folder, ("*.bpe", "*.codes", "bpecodes"), codes)
    advice = "Pass --spm or --codes with the files of source and target to segment it here."
    return choose(*vocabularies, merges, models, advice=advice)


def files_for(folder: Path, patterns: Sequence[str], given: Sequence[Path] | None) -> tuple[Path, Path] | None:
    """Those of source and target: as given, else by their names, else the only one."""
    if given:
        return given[0], given[-1]
    files = sorted(file for pattern in patterns for file in folder.glob(pattern) if file.is_file())
    named = [file for name in ("source", "target") for file in files if file.stem == name]
    if len(named) == 2:
        return pair(*named)
    return (files[0], files[0]) if len(files) == 1 else None


def vocabulary(side: MarianVocabulary, rows: int, pad: int) -> Vocabulary:
    """The tokens that have an embedding, and padding after the last."""
    if max(side.eos, side.unk) >= rows:
        raise ConversionError(
            f"{side.path} belongs to another model: this one has {rows} tokens, without </s> or <unk>."
        )
    known = side.tokens[:rows]
    tokens = [*known, *(f"<unused {i}>" for i in range(len(known), pad)), "<pad>"]
    return Vocabulary(tokens, eos=side.eos, unk=side.unk, pad=pad)
