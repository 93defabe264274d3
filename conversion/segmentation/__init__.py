"""Builds tokenizers that segment texts like the original's, with the original's ids.

    subword_nmt(codes, source, target)           codes of subword-nmt or fastBPE with a toolkit's vocabulary
    sentencepiece(model, source, target)         SentencePiece models with a toolkit's vocabulary
    t2t_subwords(source, target)                 tensor2tensor's vocabulary files
    words(source, target)                        words between spaces
    characters(source, target)                   characters
    choose(source, target, codes, spm)           the first of these whose files are available

`fairseq.py`, `joeynmt.py`, `marian.py`, `opennmt.py` and `tensor2tensor.py` know what each toolkit records about its
segmentation and where its files are.

transformers also converts SentencePiece models, but not exactly, and not with another vocabulary. Tests compare the
tokenizers built here with the original tools.
"""

from pathlib import Path
from typing import Annotated

import typer

from .byte_pairs import subword_nmt
from .sentencepiece import sentencepiece
from .tensor2tensor import t2t_subwords, t2t_vocabulary
from .vocabulary import SPACE, ConvertedTokenizer, MosesSettings, Vocabulary, moses_escapes
from .words import characters, separator_mark, words


__all__ = [
    "SPACE",
    "Codes",
    "CodesOfSides",
    "ConvertedTokenizer",
    "MosesSettings",
    "SentencePieceModel",
    "SentencePieceModels",
    "Vocabulary",
    "characters",
    "choose",
    "moses_escapes",
    "sentencepiece",
    "subword_nmt",
    "t2t_subwords",
    "t2t_vocabulary",
    "words",
]


# Options of converters for segmentation files: one file, or one or two (of source and target).
CODES = "Byte-pair codes (subword-nmt or fastBPE){}, if not beside the checkpoint."
SPM = "SentencePiece model{}, if not beside the checkpoint."
SIDES = " of source and target, or one for both"
Codes = Annotated[Path | None, typer.Option(metavar="FILE", help=CODES.format(""))]
SentencePieceModel = Annotated[Path | None, typer.Option(metavar="FILE", help=SPM.format(""))]
CodesOfSides = Annotated[list[Path] | None, typer.Option(metavar="FILE...", help=CODES.format(SIDES))]
SentencePieceModels = Annotated[list[Path] | None, typer.Option(metavar="FILE...", help=SPM.format(SIDES))]


def choose(
    source: Vocabulary,
    target: Vocabulary,
    codes: Path | tuple[Path, Path] | None = None,
    spm: Path | tuple[Path, Path] | None = None,
    *,
    separator: str | None = None,
    advice: str | None = None,
    only_in_vocabulary: bool = False,
    **settings,
) -> ConvertedTokenizer:
    """Uses byte-pair codes, else a SentencePiece model, else words; texts must then be segmented already.

    Reports a vocabulary with Moses' escapes if there are no settings for Moses.

    `separator` is subword-nmt's, if not `@@`. `advice` tells the user how to add a segmentation; by default it names
    the option that fits the source vocabulary.

    Raises:
        ConversionError: a file is of another kind, or the special ids of the two sides differ.
    """
    if codes is not None:
        separator = "@@" if separator in (None, SPACE) else separator
        tokenizer = subword_nmt(
            codes, source, target, separator=separator, only_in_vocabulary=only_in_vocabulary, **settings
        )
        if settings.get("moses") is None and (escapes := moses_escapes(source, target)):
            tokenizer.differences.append(
                f"Input must already be tokenized by Moses: the vocabulary has {' and '.join(escapes)}."
            )
        return tokenizer
    if spm is not None:
        return sentencepiece(spm, source, target, only_in_vocabulary=only_in_vocabulary, **settings)
    # Each side joins pieces by the mark of its vocabulary.
    marks = separator_mark(source, separator or "@@"), separator_mark(target, separator or "@@")
    tokenizer = words(source, target, separator=marks, **settings)
    if any(marks):
        option = "--spm" if SPACE in marks else "--codes"
        advice = advice or f"Pass {option} FILE to include the segmentation."
        tokenizer.differences = [f"Input must already be segmented. {advice}"]
    return tokenizer
