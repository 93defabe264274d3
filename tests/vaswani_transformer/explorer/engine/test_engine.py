"""The engine in the browser gives what PyTorch gives: every tensor, every response, every translation."""

import random
from pathlib import Path

import pytest
import torch
from random_checkpoint import random_checkpoint

from vaswani_transformer.explorer.runs import Runs
from vaswani_transformer.inspection.inspection import trace_search


TRAINING = Path(__file__).parents[4] / "training"
TOLERANCE = 1e-4
DIRECTIONS = ["mini-en-de", "mini-de-en", "mini-en-fr", "mini-fr-en"]
COLUMNS = {"en": 0, "de": 1, "fr": 2}  # in phrases.tsv
SENTENCES = {
    "en": ["The girl who lives next door gave her brother a book.", "Hello", "In 1,984 he paid $3.50 for 12 eggs!"],
    "de": ["Das Mädchen von nebenan gab seinem Bruder ein Buch.", "Hallo", "1984 zahlte er 3,50 € für 12 Eier!"],
    "fr": ["La fille d'à côté a donné un livre à son frère.", "Bonjour", "En 1984, il a payé 3,50 € pour 12 œufs !"],
}
ODD = [
    "a\tb\n\nc  d   e", "  two spaces, and a non-breaking one:\u00a0!", "\ufdd0", "\ufdd0 marked", " \ufdd0",
    "\ufeffmark", "</s>", "<pad> is text", "x</s>y", "🙂", "👩‍👩‍👧‍👦 family", "🇩🇪🇫🇷", "e\u0301 is not é",
    "ﬁne ﬂow", "Straße STRASSE ẞ", "Это предложение", "这是一个句子。", "これは文です。", "한국어 문장", "यह एक वाक्य है",
    "هذه جملة", "זה משפט", "ประโยค", "१२३ ٤٥٦ Ⅻ ½ ²", "it's we'll I'VE l’été aujourd'hui",
    "\u0085next\u2028line\u3000wide", "a\x00b\x1c\x7f", "ǅ ſ K", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𒀀", "\U0010ffff\ue000",
    "%$§&/()=?`´", "....!!!???", "1234567890 3.14159 1e-5", "a" * 60, "Ġ ▁ Ċ",
]  # fmt: skip


def sentences(language: str, count: int) -> list[str]:
    """`count` texts in a language: odd ones, phrases, and lines with numbers, names and addresses."""
    table = (TRAINING / "phrases.tsv").read_text(encoding="utf-8").splitlines()
    phrases = [line.split("\t")[COLUMNS[language]] for line in table]
    lines = [line.split("\t")[1] for line in (TRAINING / f"lines/{language}.tsv").read_text("utf-8").splitlines()]
    chosen = random.Random(1)
    odd = chosen.sample(ODD, min(len(ODD), count // 5))
    long = chosen.sample(lines, min(len(lines), 2 * count // 5))
    return odd + long + chosen.sample(sorted(set(phrases)), count - len(odd) - len(long))


def differences(ours, theirs, place=""):
    """Where two responses differ; numbers may differ by `TOLERANCE`."""
    if isinstance(theirs, dict):
        return [
            difference
            for name in sorted(ours.keys() | theirs.keys())
            for difference in differences(ours.get(name), theirs.get(name), f"{place}.{name}")
        ]
    if isinstance(theirs, list | tuple) and isinstance(ours, list) and len(ours) == len(theirs):
        return [
            difference
            for i, (a, b) in enumerate(zip(ours, theirs, strict=True))
            for difference in differences(a, b, f"{place}[{i}]")
        ]
    if isinstance(theirs, float):
        return [] if ours == pytest.approx(theirs, abs=TOLERANCE) else [(place, ours, theirs)]
    return [] if ours == theirs else [(place, ours, theirs)]


def check_run(node, **settings):
    """Compare the response and every tensor of a run."""
    runs = Runs(time_limit=600.0)
    theirs = runs.run(node.checkpoint, **settings)
    ours = node.ask("run", settings)
    for response in (ours, theirs):
        del response["timing_ms"], response["id"]
    assert differences(ours, theirs) == []
    [(run_id, _)] = [(i, run) for i, (run, key) in runs.stored.items() if key.off == tuple(settings.get("off", ()))][:1]
    tensors, expected = node.tensors(theirs["request"]), runs.tensors(run_id)
    assert list(tensors) == list(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(tensors[name], tensor, atol=TOLERANCE, rtol=0, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize(
    "name, number",
    [
        *[(name, number % 3) for number, name in enumerate(DIRECTIONS)],
        *[pytest.param(name, (n + k) % 3, marks=pytest.mark.slow) for n, name in enumerate(DIRECTIONS) for k in (1, 2)],
    ],
)
def test_every_tensor_and_response_equals_pytorchs(node, name, number):
    check_run(node(name), text=SENTENCES[name[5:7]][number])


@pytest.mark.parametrize("settings", [
    dict(beams=1), dict(beams=8, alpha=1.5), dict(beams=2, alpha=0.0), dict(causal=False),
    dict(off=[("decoder", "cross_attn", 0, 1), ("encoder", "self_attn", 3, 0)]),
])  # fmt: skip
def test_the_settings_of_a_run_are_the_servers(node, settings):
    check_run(node("mini-en-de"), text="The dog sleeps under the old table.", **settings)


@pytest.mark.parametrize("norms", [
    dict(norm_position="pre"), dict(decoder_norm_position="pre"),
    dict(norm_position="pre", decoder_norm_position="post"),
    dict(final_norm=True), dict(norm_position="pre", final_norm=False),
], ids=str)  # fmt: skip
def test_every_tensor_equals_pytorchs_wherever_the_norms_are(node, tmp_path, norms):
    check_run(node(random_checkpoint(tmp_path / "random", **norms)), text="A woman reads.", beams=2)


def test_each_head_by_itself_and_longer_texts_are_the_servers(node):
    engine, runs, text = node("mini-en-de"), Runs(time_limit=600.0), "The dog sleeps."
    assert differences(engine.ask("heads", {"text": text}), runs.heads(engine.checkpoint, text)) == []
    assert differences(engine.ask("beyond", {"text": text}), runs.beyond(engine.checkpoint, text)) == []


@pytest.mark.parametrize(
    "text, words", [("", "text is empty"), (" \n\x1c", "text is empty"), ("word " * 200, "at most 100")]
)
def test_what_the_server_refuses_is_refused_in_the_same_words(node, text, words):
    engine = node("mini-en-de")
    with pytest.raises(ValueError, match=words) as error:
        Runs().run(engine.checkpoint, text)
    assert engine.ask("run", {"text": text})["problem"] == str(error.value)


def test_plain_javascript_gives_the_same_where_webassembly_is_missing(node):
    engine, request = node("mini-en-de"), {"text": "The dog sleeps."}
    ours, plain = engine.ask("run", request), engine.ask("without WebAssembly", request)
    del ours["timing_ms"], plain["timing_ms"]
    assert differences(plain, ours) == []


# Tokens --------------------------------------------------------------------------------------------------------------


def check_tokens(node, texts):
    tokenizer = node.checkpoint.tokenizer
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        assert node.ask("encode", text) == ids, text
        assert node.ask("decode", ids) == tokenizer.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize("name", ["mini-en-de", "mini-fr-en", "multi30k-en-de"])
def test_tokens_are_the_tokenizers_for_any_unicode(node, name):
    chosen = random.Random(2)
    scripts = [
        (0x20, 0x250),
        (0x300, 0x590),
        (0x2000, 0x2E80),
        (0x3000, 0xD7A3),
        (0xE000, 0x10FFFF),
        (0x1F300, 0x1FAFF),
    ]
    characters = [chr(chosen.randint(*chosen.choice(scripts))) for _ in range(2000)]
    noise = ["".join(chosen.choices([*characters, " ", "'s", "\n"], k=12)) for _ in range(100)]
    check_tokens(node(name), [*ODD, *noise, *sentences("de", 100)])


def test_incomplete_characters_are_decoded_alike(node):
    engine, chosen = node("mini-en-de"), random.Random(3)
    for _ in range(100):
        ids = [chosen.randrange(2, 400) for _ in range(6)]
        assert engine.ask("decode", ids) == engine.checkpoint.tokenizer.decode(ids, skip_special_tokens=True), ids


# Translations --------------------------------------------------------------------------------------------------------


def translate(model, tokenizer, texts: list[str]) -> list[str]:
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    return tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)


def translate_alone(model, tokenizer, text: str) -> str:
    ids, _ = trace_search(model, tokenizer(text, return_tensors="pt")["input_ids"])
    return tokenizer.decode(ids[0], skip_special_tokens=True)


@pytest.mark.parametrize("name", DIRECTIONS)
@pytest.mark.parametrize("count", [12, pytest.param(500, marks=pytest.mark.slow)])
def test_translations_are_pytorchs(node, name, count):
    engine, different = node(name), []
    pytorch = engine.checkpoint.model, engine.checkpoint.tokenizer
    lengths = {text: len(engine.checkpoint.tokenizer(text)["input_ids"]) for text in sentences(name[5:7], count)}
    texts = sorted((text for text in lengths if lengths[text] <= 100), key=lambda text: lengths[text])
    for start in range(0, len(texts), 25):
        batch = texts[start : start + 25]
        for text, expected in zip(batch, translate(*pytorch, batch), strict=True):
            translation = engine.ask("translate", text)["text"]
            # In a batch PyTorch's sums have another order, which can decide between two equally good hypotheses.
            if translation != expected and translation != (alone := translate_alone(*pytorch, text)):
                different.append((text, translation, alone))
    assert different == []
