"""tensor2tensor's SubwordTextEncoder."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from ..files.text import read_lines
from ..options import ConversionError
from .vocabulary import ConvertedTokenizer, Side, Vocabulary, assemble


def t2t_subwords(source: Path, target: Path | None = None) -> ConvertedTokenizer:
    """The tokenizer of one vocabulary file (`vocab.*.subwords`), or of two.

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
    """The subwords of a vocabulary file in the order of their ids; `<pad>` is 0 and `<EOS>` 1.

    Raises:
        ConversionError: the file is not such a vocabulary.
    """
    tokens = [line.rstrip() for line in read_lines(path)]
    tokens = [t[1:-1] if len(t) > 1 and t[0] == t[-1] and t[0] in "'\"" else t for t in tokens]
    if [token.removesuffix("_") for token in tokens[:2]] != ["<pad>", "<EOS>"]:
        raise ConversionError(f"{path} is not a tensor2tensor vocabulary of subwords: it has no <pad> and <EOS>.")
    return Vocabulary(("<pad>", "<EOS>", *tokens[2:]), eos=1, pad=0)
