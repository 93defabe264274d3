"""Marian's segmentation: by its vocabularies, or by files beside the model."""

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
    """Builds the tokenizer from the given files or those beside the model.

    `rows` are the sizes of the two embeddings; vocabularies may have more tokens.

    Raises:
        ConversionError: a file does not match the model, or the special tokens of the two sides differ.
        FileNotFoundError: a given file is missing.
    """
    sides, folder = files.vocabularies, files.path.parent
    for file in [*(spm or []), *(codes or [])]:
        regular(file)
    vocabularies = [vocabulary(side, known, pad) for side, known in zip(sides, rows, strict=True)]
    if all(side.path.suffix in SENTENCEPIECE for side in sides):
        return sentencepiece((sides[0].path, sides[1].path), *vocabularies)
    models = None if codes else files_for(folder, ("*.spm", "*.model"), spm)
    merges = None if models else files_for(folder, ("*.bpe", "*.codes", "bpecodes"), codes)
    advice = "Pass --spm or --codes with the files of source and target to include the segmentation."
    return choose(*vocabularies, merges, models, advice=advice)


def files_for(folder: Path, patterns: Sequence[str], given: Sequence[Path] | None) -> tuple[Path, Path] | None:
    """Finds the files of source and target: those given, else by name, else the only one."""
    if given:
        return given[0], given[-1]
    files = sorted(file for pattern in patterns for file in folder.glob(pattern) if file.is_file())
    named = [file for name in ("source", "target") for file in files if file.stem == name]
    if len(named) == 2:
        return pair(*named)
    return (files[0], files[0]) if len(files) == 1 else None


def vocabulary(side: MarianVocabulary, rows: int, pad: int) -> Vocabulary:
    """The tokens with an embedding, followed by padding."""
    if max(side.eos, side.unk) >= rows:
        raise ConversionError(
            f"{side.path} does not match the model, whose {rows} tokens would not include </s> or <unk>."
        )
    known = side.tokens[:rows]
    tokens = [*known, *(f"<unused {i}>" for i in range(len(known), pad)), "<pad>"]
    return Vocabulary(tokens, eos=side.eos, unk=side.unk, pad=pad)
