"""tensor2tensor's subwords, against its documentation and what it recorded."""

import json
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from segmentation_texts import AWKWARD, FILES, LINES

from conversion import segmentation


def t2t_encode(text: str, subwords: list[str]) -> list[int]:
    """As its documentation describes it, without this package's code: the longest subword first, from the left."""
    letter = [unicodedata.category(c)[0] in "LN" for c in text]
    words, start = [], 0
    for i in range(1, len(text) + 1):
        if i == len(text) or letter[i] != letter[i - 1]:
            if text[start:i] != " ":
                words.append(text[start:i])
            start = i
    alphabet = set("".join(subwords)) | set("\\_u;0123456789")
    ids = []
    for word in words:
        word = word.replace("\\", "\\\\").replace("_", "\\u")
        word = "".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in word) + "_"
        while word:
            longest = max((s for s in subwords[2:] if word.startswith(s)), key=len)
            ids.append(subwords.index(longest))
            word = word[len(longest) :]
    return [*ids, 1]


@pytest.fixture(scope="module")
def t2t(tmp_path_factory):
    """A vocabulary as tensor2tensor writes it, of frequent words, their parts and all characters of the lines."""
    words = Counter(word for line in LINES for word in line.split() if word.isalnum()).most_common(300)
    subwords = [f"{word}_" for word, _ in words] + [word[:3] for word, _ in words if len(word) > 3] + [", ", " ("]
    subwords = list(dict.fromkeys([*subwords, *sorted({c for line in LINES for c in line} | set("\\_u;0123456789<>"))]))
    path = tmp_path_factory.mktemp("t2t") / "vocab.subwords"
    path.write_text("".join(f"'{s}'\n" for s in ["<pad>", "<EOS>", *subwords]), encoding="utf-8")
    return ["<pad>", "<EOS>", *subwords], segmentation.t2t_subwords(path).tokenizer


def test_subwords_are_those_of_tensor2tensor(t2t):
    subwords, tokenizer = t2t
    for text in [*LINES[:300], *AWKWARD]:
        ids = tokenizer(text).input_ids
        assert ids == t2t_encode(text.strip(), subwords)
        assert tokenizer.decode(ids, skip_special_tokens=True) == text.strip()


@settings(max_examples=60)
@given(text=st.text("abe the_\\;0123<>pad中🏽\n ", max_size=40) | st.text(max_size=20))
def test_subwords_of_any_text(t2t, text):
    subwords, tokenizer = t2t
    ids = tokenizer(text).input_ids
    assert ids == t2t_encode(text.strip(), subwords)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text.strip()


def test_subwords_that_tensor2tensor_gave():
    folder = FILES / "tensor2tensor" / "base_v1"
    tokenizer = segmentation.t2t_subwords(folder / "vocab.toy.subwords").tokenizer
    recorded = np.load(folder / "reference.npz")
    texts = json.loads((folder / "reference.json").read_text())["source"]
    padded = tokenizer(texts, padding=True, return_tensors="np")
    assert (padded["input_ids"] == recorded["input_ids"]).all()
    assert (padded["attention_mask"] == recorded["attention_mask"]).all()
