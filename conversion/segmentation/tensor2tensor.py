"""tensor2tensor's SubwordTextEncoder, and its vocabulary files of source and target."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from vaswani_transformer import VaswaniConfig

from ..files.text import read_lines
from ..options import ConversionError
from .vocabulary import ConvertedTokenizer, Side, Vocabulary, assemble


def t2t_subwords(source: Path, target: Path | None = None) -> ConvertedTokenizer:
    """Builds a tokenizer from one vocabulary file (`vocab.*.subwords`) or two.

    Raises:
        ConversionError: a file is not such a vocabulary.
    """

    def side(_, vocabulary: Vocabulary) -> Side:
        tokenizer = Tokenizer(
            models.WordPiece(vocabulary.named(), continuing_subword_prefix="", max_input_chars_per_word=1_000_000)
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Split("_", "merged_with_previous")
        tokenizer.decoder = decoders.Fuse()
        return Side(tokenizer, len(vocabulary.tokens))

    vocabularies = t2t_vocabulary(source), None if target is None else t2t_vocabulary(target)
    return assemble(side, source, *vocabularies, [], None, escape="t2t")


def t2t_vocabulary(path: Path) -> Vocabulary:
    """Reads the subwords of a vocabulary file in the order of their ids; `<pad>` is 0 and `<EOS>` 1.

    Raises:
        ConversionError: the file is not such a vocabulary.
    """
    tokens = [line.rstrip() for line in read_lines(path)]
    tokens = [t[1:-1] if len(t) > 1 and t[0] == t[-1] and t[0] in "'\"" else t for t in tokens]
    if [token.removesuffix("_") for token in tokens[:2]] != ["<pad>", "<EOS>"]:
        raise ConversionError(f"{path} is not a subword vocabulary of tensor2tensor: <pad> and <EOS> are missing.")
    return Vocabulary(("<pad>", "<EOS>", *tokens[2:]), eos=1, pad=0)


def read_tokenizer(folder: Path, given: Sequence[Path] | None, config: VaswaniConfig, divisor: int):
    """Reads the tokens of source and target and builds the tokenizer; returns nothing without a vocabulary file.

    Two files in `folder` are told apart by size: embeddings have as many rows as the vocabulary has tokens, rounded up
    to a multiple of `divisor`.

    Raises:
        ConversionError: a file is not a vocabulary of the model, or the sizes are ambiguous.
    """
    paths = list(given or sorted(folder.glob("vocab.*.subwords*")))
    if not paths:
        return None, None
    rows = (config.vocab_size, config.decoder_vocab_size)
    tokens = {path: t2t_vocabulary(path).tokens for path in paths}
    pairs = [(paths[0], paths[-1])] if given or len(paths) == 1 else list(itertools.permutations(paths, 2))
    fitting = [pair for pair in pairs if all(fits(len(tokens[p]), n, divisor) for p, n in zip(pair, rows, strict=True))]
    if len(paths) > 2 or len(fitting) != 1:
        listed = ", ".join(f"{path.name} ({len(tokens[path])} tokens)" for path in paths)
        raise ConversionError(
            f"Cannot tell source from target among these vocabularies: {listed}. The model has {rows[0]} source and "
            f"{rows[1]} target tokens. Pass --vocab FILE, or --vocab SOURCE_FILE TARGET_FILE."
        )
    source, target = fitting[0]
    return (tokens[source], tokens[target]), t2t_subwords(*dict.fromkeys((source, target)))


def fits(tokens: int, rows: int, divisor: int) -> bool:
    return rows == -(-tokens // max(divisor, 1)) * max(divisor, 1)
