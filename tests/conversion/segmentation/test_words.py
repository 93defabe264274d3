"""Whole words and single characters."""

import pytest
from segmentation_texts import SPECIAL, piece_ids, vocabulary

from conversion import segmentation
from conversion.options import ConversionError
from conversion.segmentation import Vocabulary


def test_words_lower_case_as_python_does():
    known = vocabulary(["οδός", "σας", "i̇", "straße"])
    tokenizer = segmentation.words(known, lowercase=True).tokenizer
    for text in ("ΟΔΌΣ ΣΑΣ İ STRAßE </S>", "</s> <unk>"):
        assert tokenizer(text).input_ids == piece_ids(text.lower().replace("</s>", "?").split(), known)


def test_words_are_put_together_with_spaces_between():
    source, target = (Vocabulary(["<s>", "<pad>", "</s>", "<unk>", *words], 2, 3, 1, 0) for words in ("ab", "xy"))
    tokenizer = segmentation.words(source, target).tokenizer
    assert tokenizer.convert_tokens_to_string(["x", "y"]) == tokenizer.decode([4, 5]) == "x y"


def test_characters(tmp_path):
    known = vocabulary(["a", "b", "\u2581", "\u00a0"])
    tokenizer = segmentation.characters(known).tokenizer
    assert tokenizer("ab b\u00a0c\n").input_ids == [4, 5, 6, 5, 7, 3, 3, 2]
    assert tokenizer.decode([4, 6, 5, 2], skip_special_tokens=True) == "a b"


def test_vocabularies_with_other_special_tokens_are_refused():
    source, target = vocabulary(["a"]), Vocabulary([*SPECIAL, "a"], bos=0, pad=1, eos=3, unk=2)
    with pytest.raises(ConversionError, match="eos_token is 2 in the source and 3 in the target"):
        segmentation.words(source, target)
    with pytest.raises(ConversionError, match="end token is not in the vocabulary"):
        segmentation.words(Vocabulary(["a"], eos=7))
