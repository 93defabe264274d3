"""Learns the paper's shared source-target vocabulary (section 5.1) as one plain tokenizer.json.

It uses byte-level byte-pair encoding: every string, in any script, can be encoded, and decodes to itself.

Whitespace is preserved. Each text is encoded with a space in front, which decoding removes, so a word has the same
token at the start of a text as inside it.

Text that spells a special token, such as "</s>", stays text, because texts are not searched for special tokens
(`split_special_tokens`). If texts contain tokens of yours, such as language tags, add them as ordinary tokens:
`tokenizer.add_tokens([AddedToken("<2de>", normalized=False)])`, not with `special_tokens=True`. The text around them
is encoded as it is, without additional spaces.
"""

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast


PAD, EOS = "<pad>", "</s>"
MIN_VOCAB_SIZE = 2 + 256  # the special tokens and every byte
MARK = "\ufdd0"  # a code point that Unicode reserves for use inside programs


def learn_tokenizer(
    texts: Iterable[str], vocab_size: int, model_max_length: int | None = None
) -> PreTrainedTokenizerFast:
    """Learns `vocab_size` tokens from `texts`, source and target together. The same texts give the same tokens.

    The id of `<pad>` is 0. The id of `</s>`, which ends every text, is 1. `AutoTokenizer` loads what `save_pretrained`
    writes, without this package.

    Raises:
        ValueError: `vocab_size` is too small for all bytes, or too large for so little text.
    """
    if vocab_size < MIN_VOCAB_SIZE:
        raise ValueError(
            f"vocab_size is {vocab_size}; it must be at least {MIN_VOCAB_SIZE}, for every byte, {PAD} and {EOS}."
        )
    tokenizer = Tokenizer(models.BPE())
    marks, prefix = prefix_once(" ")
    tokenizer.normalizer = normalizers.Sequence(marks)
    # Each digit is a token, so that the model copies numbers equally well whether or not it has seen them in training.
    digits = pre_tokenizers.Split(Regex(r" ?\d"), "isolated")
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*prefix, digits, words])
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[PAD, EOS],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    if tokenizer.get_vocab_size() != vocab_size:
        raise ValueError(
            f"The texts give only {tokenizer.get_vocab_size()} tokens, not {vocab_size}. Lower vocab_size, or add text."
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", pair=f"$A {EOS} $B {EOS}", special_tokens=[(EOS, tokenizer.token_to_id(EOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
        **({} if model_max_length is None else {"model_max_length": model_max_length}),
    )


def prefix_once(prefix: str) -> tuple[list, list]:
    """Returns normalizers and pre-tokenizers that together put `prefix`, a character, in front of each text.

    A normalizer alone, such as `Prepend`, would put it after every added token as well, because it sees only the
    stretch of text between two of them. `Metaspace` knows which stretch is the first, but adds nothing to one that
    already starts with the prefix. So the normalizers hide the start of such a stretch behind a mark and another
    prefix:

        first stretch, after Metaspace      prefix mark prefix prefix text -> prefix prefix text
        later stretch                              mark prefix prefix text -> prefix text

    A stretch that starts with the mark itself is treated in the same way.
    """
    marks = [normalizers.Replace(Regex(rf"\A{start}"), MARK + prefix + start) for start in (MARK, prefix)]
    removals = [pre_tokenizers.Split(Regex(rf"\A{marked}"), "removed") for marked in (prefix + MARK, MARK + prefix)]
    return marks, [pre_tokenizers.Metaspace(prefix, "first", split=False), *removals]
