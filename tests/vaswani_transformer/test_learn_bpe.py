"""The tokenizer: every string comes back, and AutoTokenizer needs nothing of ours."""

import copy
import itertools
import json
import os
import pickle
import random
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken
from transformers import AutoTokenizer, PreTrainedTokenizerFast, TextStreamer

from vaswani_transformer.learn_bpe import MARK, MIN_VOCAB_SIZE, learn_tokenizer


pytestmark = pytest.mark.quick


VOCAB_SIZE = 400

ENGLISH = (
    ["A man", "The old woman", "Two children", "My neighbour", "Nobody here"],
    ["is reading", "buys", "has lost", "carries", "is looking for", "paints"],
    ["a book.", "the red bicycle.", "three apples!", "her umbrella?", "a letter from Berlin."],
)
GERMAN = (
    ["Ein Mann", "Die alte Frau", "Zwei Kinder", "Mein Nachbar", "Niemand hier"],
    ["liest", "kauft", "verliert", "trägt", "sucht", "malt"],
    ["ein Buch.", "das rote Fahrrad.", "drei Äpfel!", "ihren Regenschirm?", "einen Brief aus Köln."],
)
LINES = [" ".join(words) for language in (ENGLISH, GERMAN) for words in itertools.product(*language)]  # 300

AWKWARD = {
    "nothing": "",
    "spaces": "   ",
    "a space before": " Hund",
    "a space after": "Hund ",
    "spaces inside": "ein   Hund",
    "tabs and lines": "\t a\n\n b\r\n\x0b\x0c",
    "other spaces": "\u00a0 \u2003\u3000\u2028\u2029\u200b\ufeff",
    "control characters": "\x00\x01a\x1b[0m\x7f\x85",
    "end token": "</s>",
    "pad token": "<pad>",
    "special tokens inside": "a</s>b <pad><pad> </s> ",
    "signs of byte-level vocabularies": "ĠHund Ċ ▁Hund",
    "scripts": "Straße Ελλάδα Москва العربية שלום हिन्दी 中文 日本語 한국어 ไทย 𐍈",
    "composed and not": "Ü U\u0308 ﬁ Å A\u030a",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪1️⃣",
    "right to left marks": "\u202eabc\u202c\u200f",
    "last code points": "\ufffd\uffff\U0010ffff",
}


@pytest.fixture(scope="module")
def tokenizer():
    return learn_tokenizer(LINES, VOCAB_SIZE)


@pytest.fixture(scope="module")
def saved(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def both(tokenizer, saved):
    """The tokenizer as learned, and as `AutoTokenizer` loads it."""
    return tokenizer, AutoTokenizer.from_pretrained(saved)


def run_python(script, *arguments, **environment):
    """Runs a script in a process of its own; returns what it printed, read as JSON."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)],
        env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


# Every string --------------------------------------------------------------------------------------------------------


def assert_comes_back(tokenizer, text):
    ids = tokenizer(text).input_ids
    assert ids[-1] == 1
    assert all(1 < i < VOCAB_SIZE for i in ids[:-1])  # none unknown, and no text makes a special token
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    padding = [0, 0]
    assert tokenizer.decode(ids + padding, skip_special_tokens=True) == text


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD.keys())
def test_awkward_text_comes_back(both, text):
    for tokenizer in both:
        assert_comes_back(tokenizer, text)


PIECES = [" ", "\n", "\t", "\u00a0", "\u200d", "\u0308", "</s>", "<pad>", "Hund", "ß", "👍🏽", "\x00", "中", "'s"]


@settings(max_examples=150)
@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join) | st.sampled_from(LINES))
def test_any_text_comes_back(both, text):
    for tokenizer in both:
        assert_comes_back(tokenizer, text)


def test_every_byte_is_a_token():
    """So that nothing can be unknown, whatever the texts were: here they hold five letters."""
    tokenizer = learn_tokenizer(["aaabbbccc ddeee"], MIN_VOCAB_SIZE)
    assert tokenizer.unk_token is None and tokenizer.backend_tokenizer.model.unk_token is None
    text = "".join(map(chr, range(256))) + "\u0800\U00010000"
    ids = tokenizer(text).input_ids
    assert len(ids) == 1 + len(text.encode()) + 1  # the space in front, each byte, the end
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_no_merge_makes_a_special_token():
    """However often the texts to learn from spell one."""
    tokenizer = learn_tokenizer([*["</s></s> <pad><pad> a</s>b a<pad>b"] * 100, *LINES], 300)
    for text in ("</s>", "<pad>", AWKWARD["special tokens inside"]):
        assert_comes_back(tokenizer, text)


def test_one_space_in_front(tokenizer):
    """The whitespace policy: a word is the same token at the start of a text as inside it, and no space is lost."""
    inside, start = tokenizer.tokenize("ein Mann"), tokenizer.tokenize("Mann")
    assert inside[-len(start) :] == start
    assert tokenizer.tokenize(" Mann") != start
    assert tokenizer("Mann ").input_ids != tokenizer("Mann").input_ids


# The vocabulary ------------------------------------------------------------------------------------------------------


def test_special_tokens(both):
    for tokenizer in both:
        assert tokenizer.convert_tokens_to_ids(["<pad>", "</s>"]) == [0, 1]
        assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)
        assert (tokenizer.pad_token, tokenizer.eos_token) == ("<pad>", "</s>")
        assert tokenizer.bos_token is None and tokenizer.unk_token is None


@pytest.mark.parametrize("size", [MIN_VOCAB_SIZE, MIN_VOCAB_SIZE + 1, 301, 400])
def test_chosen_size(size):
    tokenizer = learn_tokenizer(LINES, size)
    assert len(tokenizer) == tokenizer.vocab_size == size
    assert sorted(tokenizer.get_vocab().values()) == list(range(size))


def test_too_small_is_refused():
    with pytest.raises(ValueError, match=f"257.*at least {MIN_VOCAB_SIZE}"):
        learn_tokenizer(LINES, 257)


@pytest.mark.parametrize("texts", [[], [""], ["kurz"]])
def test_too_little_text_is_refused(texts):
    with pytest.raises(ValueError, match="only 2[0-9][0-9] tokens, not 400.*Lower vocab_size, or add text"):
        learn_tokenizer(texts, VOCAB_SIZE)


def test_any_iterable_of_texts(tokenizer):
    learned = learn_tokenizer((line for line in LINES), VOCAB_SIZE)
    assert learned.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_more_text_makes_shorter_sequences(tokenizer):
    """Merges are learned, from both languages."""
    for text in ("The old woman is reading a book.", "Die alte Frau liest das rote Fahrrad."):
        assert len(tokenizer(text).input_ids) < len(text) / 2


LEARN = """
import json, sys
from vaswani_transformer.learn_bpe import learn_tokenizer
with open(sys.argv[1], encoding="utf-8") as file:
    learn_tokenizer(json.load(file), int(sys.argv[2])).save_pretrained(sys.argv[3])
print("null")
"""


def test_deterministic_across_processes(saved, tmp_path):
    lines = tmp_path / "lines.json"
    lines.write_text(json.dumps(LINES), encoding="utf-8")
    learned = (saved / "tokenizer.json").read_bytes()
    folder = tmp_path / "learned"
    run_python(LEARN, lines, VOCAB_SIZE, folder, PYTHONHASHSEED="1", TOKENIZERS_PARALLELISM="false")
    assert (folder / "tokenizer.json").read_bytes() == learned


def test_same_for_any_order_of_texts(tokenizer):
    """Only counts count: a corpus in another order has the same vocabulary."""
    shuffled = random.Random(0).sample(LINES, len(LINES))
    assert learn_tokenizer(shuffled, VOCAB_SIZE).get_vocab() == tokenizer.get_vocab()


# As a transformers tokenizer -----------------------------------------------------------------------------------------


LOAD_ALONE = """
import json, sys
sys.modules["vaswani_transformer"] = None  # importing it raises ImportError
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
encoded = tokenizer("Zwei Kinder </s> 👍🏽", text_target="Two children")
print(json.dumps([type(tokenizer).__module__, tokenizer.is_fast, dict(encoded)]))
"""


def test_auto_tokenizer_needs_none_of_our_code(tokenizer, saved, tmp_path):
    names = {path.name for path in saved.iterdir()}
    assert names == {"tokenizer.json", "tokenizer_config.json"}
    assert "auto_map" not in json.loads((saved / "tokenizer_config.json").read_text())
    module, is_fast, encoded = run_python(LOAD_ALONE, saved)
    assert module.startswith("transformers.") and is_fast
    assert encoded == dict(tokenizer("Zwei Kinder </s> 👍🏽", text_target="Two children"))


def test_auto_tokenizer_gives_the_fast_class(both):
    learned, loaded = both
    assert type(loaded) is type(learned) is PreTrainedTokenizerFast
    assert loaded.backend_tokenizer.to_str() == learned.backend_tokenizer.to_str()


def test_text_target(both):
    for tokenizer in both:
        encoded = tokenizer("A man", text_target="Ein Mann")
        assert encoded["labels"] == tokenizer("Ein Mann").input_ids
        assert encoded["input_ids"] == tokenizer("A man").input_ids
        assert tokenizer(text_target=["Ein Mann"]).input_ids == [encoded["labels"]]


def test_batch(both):
    texts = ["Two children", "Nobody here buys three apples!", ""]
    for tokenizer in both:
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        assert set(batch) == {"input_ids", "attention_mask"}
        for ids, mask, text in zip(batch.input_ids, batch.attention_mask, texts, strict=True):
            alone = tokenizer(text).input_ids
            padding = [0] * (len(ids) - len(alone))
            assert ids.tolist() == alone + padding
            assert mask.tolist() == [1] * len(alone) + padding
        assert tokenizer.batch_decode(batch.input_ids, skip_special_tokens=True) == texts


def test_pair_and_truncation(both):
    for tokenizer in both:
        one, two = tokenizer("Ein Mann").input_ids, tokenizer("liest").input_ids
        assert tokenizer("Ein Mann", "liest").input_ids == one + two
        cut = tokenizer("Niemand hier verliert drei Äpfel!", truncation=True, max_length=4).input_ids
        assert len(cut) == 4 and cut[-1] == 1
        assert 1 not in tokenizer("Ein Mann", add_special_tokens=False).input_ids


def test_model_max_length_is_saved(tmp_path):
    learn_tokenizer(LINES, 300, model_max_length=77).save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).model_max_length == 77


def test_copies(both):
    text = AWKWARD["special tokens inside"] + AWKWARD["emoji"]
    for tokenizer in both:
        for twin in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
            assert twin(text).input_ids == tokenizer(text).input_ids
            assert_comes_back(twin, text)


# Tokens that somebody adds --------------------------------------------------------------------------------------------


def test_language_tags_are_tokens_and_text_that_spells_a_special_token_stays_text(both, tmp_path):
    """As README.md says to add them. Special tokens are never looked for in texts, so tags must not be special."""
    for tokenizer in both:
        tagged = copy.deepcopy(tokenizer)
        plain = tagged("Ein Mann </s>").input_ids
        assert tagged.add_tokens([AddedToken(tag, normalized=False) for tag in ("<2de>", "<2en>")]) == 2
        tagged.save_pretrained(tmp_path)
        for tags in (tagged, AutoTokenizer.from_pretrained(tmp_path)):
            ids = tags("<2en> Ein Mann </s>").input_ids
            assert ids == [VOCAB_SIZE + 1, *plain]
            assert tags.decode(ids[1:], skip_special_tokens=True) == "Ein Mann </s>"


PLACEHOLDERS = ["<ph>", "[X1]", "\N{WHITE FLAG}"]


@pytest.fixture(scope="module", params=[False, True], ids=["as the guide says", "normalized"])
def extended(request, tokenizer, tmp_path_factory):
    """The tokenizer with added tokens, as `AutoTokenizer` loads it."""
    extended, folder = copy.deepcopy(tokenizer), tmp_path_factory.mktemp("extended")
    extended.add_tokens([AddedToken(token, normalized=request.param) for token in PLACEHOLDERS])
    extended.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PLACEHOLDERS) | st.sampled_from([*PIECES, MARK, f"{MARK} "]) | st.text(max_size=4)))
def test_any_text_with_added_tokens_comes_back(extended, parts):
    text = "".join(parts)
    if extended.added_tokens_decoder[VOCAB_SIZE].normalized:
        text = text.replace(MARK, "")  # such tokens are found after the tokenizer has written its own marks
    ids = extended(text).input_ids
    assert extended.decode(ids, skip_special_tokens=True) == text
    for token, id in zip(PLACEHOLDERS, range(VOCAB_SIZE, len(extended)), strict=True):
        assert ids.count(id) == text.count(token)


@pytest.mark.parametrize("text", ["Click <ph> here", "(<ph>)", "a<ph>b", "<ph> Hund", "<ph>Hund"])
def test_no_space_of_its_own_follows_an_added_token(extended, text):
    tokens = extended.tokenize(text)
    after = "".join(tokens[tokens.index("<ph>") + 1 :])
    assert after.replace("Ġ", " ") == text.partition("<ph>")[2]


def test_tokens_added_as_special_are_text_like_the_others(both):
    """What `split_special_tokens` means in transformers, and what keeps "</s>" in a text from ending it."""
    for tokenizer in both:
        tagged = copy.deepcopy(tokenizer)
        tagged.add_tokens(["<2de>"], special_tokens=True)
        assert tagged("<2de>Mann").input_ids == tokenizer("<2de>Mann").input_ids


# Streams -------------------------------------------------------------------------------------------------------------


STREAMED = ["Die alte Frau sucht Äpfel.", "中文 und 👩‍👩‍👧‍👦 👍🏽!", " a  b ", "'s ist"]


@pytest.mark.parametrize("text", STREAMED)
def test_growing_prefixes(tokenizer, text):
    """What is decoded so far never changes, but for a character whose bytes are not all there yet."""
    ids = tokenizer(text).input_ids
    for length in range(len(ids) + 1):
        so_far = tokenizer.decode(ids[:length], skip_special_tokens=True)
        assert text.startswith(so_far.rstrip("\ufffd"))


class Heard(TextStreamer):
    def __init__(self, tokenizer):
        super().__init__(tokenizer, skip_special_tokens=True)
        self.text = ""

    def on_finalized_text(self, text, stream_end=False):
        self.text += text


@pytest.mark.parametrize("text", [*STREAMED, *LINES[::60]])
def test_text_streamer(tokenizer, text):
    streamer = Heard(tokenizer)
    for i in [0, *tokenizer(text).input_ids]:  # `generate` begins with the start token
        streamer.put(torch.tensor([i]))
    streamer.end()
    assert streamer.text == text
