"""Our checkpoints in CTranslate2: the same probabilities and translations; unsupported models are refused."""

import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer

from conversion.options import ConversionError
from conversion.parity.scores import TOLERANCE
from conversion.runtimes import exports
from conversion.segmentation import Vocabulary, words
from vaswani_transformer import Shortlist, VaswaniTokenizer, checkpoint_path
from vaswani_transformer.learn_bpe import learn_tokenizer


ctranslate2 = pytest.importorskip("ctranslate2", reason="comes with the extra called convert")

from conversion.runtimes.ctranslate2 import differences, export, translate  # noqa: E402
from conversion.runtimes.ctranslate2_spec import ACTIVATIONS, VaswaniConverter, tokens_by_id  # noqa: E402


TEXTS = ["a b c d e f g h the cat sat on the mat"]
VOCAB = 262
SENTENCES = [
    "A man is riding a bicycle through the park.",
    "Two dogs are running in the snow!",
    "The children sleep.",
    "An old woman in a red coat sells fruit on the market, and a boy watches her.",
]


@pytest.fixture(scope="module")
def tokenizer():
    return learn_tokenizer(TEXTS, VOCAB)


@pytest.fixture(scope="module")
def mini():
    return exports.load("mini-en-de")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """mini-en-de in float32 and in int8."""
    folders = {kind: tmp_path_factory.mktemp("ctranslate2") / kind for kind in ("float32", "int8")}
    for kind, folder in folders.items():
        export("mini-en-de", folder, quantization=kind)
    return folders


@pytest.fixture
def save(tiny_model, tokenizer, tmp_path):
    def saved(**fields) -> str:
        tiny_model(vocab_size=VOCAB, **fields).save_pretrained(tmp_path / "ours")
        tokenizer.save_pretrained(tmp_path / "ours")
        return str(tmp_path / "ours")

    return saved


CONFIGURATIONS = {
    "paper, heads of each stack": {},
    "pre-norm": dict(norm_position="pre"),
    "pre-norm encoder": dict(norm_position="pre", decoder_norm_position="post"),
    "pre-norm decoder": dict(norm_position="post", decoder_norm_position="pre"),
    "post-norm with final norms": dict(final_norm=True),
    "pre-norm without final norms": dict(norm_position="pre", final_norm=False),
    "narrow heads": dict(d_k=3, d_v=3),
    "tensor2tensor": dict(
        position_layout="concatenated", position_divisor="half_minus_one", attention_bias=True,
        source_space_embedding=True, decoder_vocab_size=VOCAB + 8, vocab_size=VOCAB + 8,
    ),
    "fairseq": dict(position_offset=2, zero_pad_embedding=False, decoder_start_token_id=1, attention_bias=True),
    "learned positions": dict(position_encoding="learned", max_position_embeddings=30, position_offset=2),
    "no positions": dict(position_encoding="none", source_space_embedding=True),
    "all biases": dict(attention_bias=True, softmax_bias=True),
    "no biases": dict(feed_forward_bias=False, scale_embedding=False),
    "three matrices": dict(share_embeddings="none", decoder_d_ff=24, layer_norm_eps=0.05),
    "no padding": dict(pad_token_id=None, decoder_start_token_id=7, zero_pad_embedding=False),
    **{f"{name} activation": dict(activation_function=name) for name in ACTIVATIONS},
}  # fmt: skip


@pytest.mark.parametrize("fields", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_probabilities_are_ours(tiny_model, tokenizer, tmp_path, fields):
    model = tiny_model(**{"vocab_size": VOCAB, **fields})
    converter = VaswaniConverter(model, tokenizer, positions=40)
    converter.convert(str(tmp_path), force=True)

    assert max(differences(model, converter, tmp_path)) < 1e-5


@pytest.mark.parametrize(
    "change",
    [
        dict(layer_norm_eps=0.05), dict(activation_function="gelu"), dict(position_layout="concatenated"),
        dict(position_offset=1), dict(zero_pad_embedding=False), dict(scale_embedding=False),
        dict(norm_position="pre", final_norm=False),
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_comparison_sees_other_models(tiny_model, tokenizer, tmp_path, change):
    """A model written with one wrong setting is rejected."""
    model = tiny_model(vocab_size=VOCAB)
    other = tiny_model(vocab_size=VOCAB, **change)
    other.load_state_dict(model.state_dict())
    converter = VaswaniConverter(other, tokenizer, positions=40)
    converter.convert(str(tmp_path), force=True)

    assert max(differences(model, converter, tmp_path)) > 10 * TOLERANCE


def test_conversion_leaves_the_model_as_it_was(tiny_model, tokenizer, tmp_path):
    model = tiny_model(vocab_size=VOCAB)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    VaswaniConverter(model, tokenizer).convert(str(tmp_path), quantization="int8", force=True)

    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("beams", [1, 4])
def test_translations_are_ours(mini, exported, beams):
    """Without a length penalty both rank in the same way."""
    model, tokenizer = mini
    ours = model.generate(
        **tokenizer(SENTENCES, padding=True, return_tensors="pt"), num_beams=beams, length_penalty=0.0
    )
    source = [tokenizer(text).tokens() for text in SENTENCES]
    translator = ctranslate2.Translator(str(exported["float32"]), intra_threads=1)
    theirs = translator.translate_batch(source, beam_size=beams, length_penalty=0)

    expected = [tokenizer.convert_ids_to_tokens(ids, skip_special_tokens=True) for ids in ours.tolist()]
    assert [result.hypotheses[0] for result in theirs] == expected


def test_paper_ranking_gives_our_translations(mini, exported):
    model, tokenizer = mini
    ours = model.generate(**tokenizer(SENTENCES, padding=True, return_tensors="pt"))
    translator = ctranslate2.Translator(str(exported["float32"]), intra_threads=1)

    assert translate(translator, tokenizer, SENTENCES) == tokenizer.batch_decode(ours, skip_special_tokens=True)


def test_ranking_counts_the_end_token(tokenizer):
    """By log P / ((5 + length) / 6)^0.6 the first is better, by log P / length^0.6 the second."""
    texts, log_probs = (["a"], ["a"] * 3), (-1.0, -1.5)
    by_ours = [p / ((6 + len(t)) / 6) ** 0.6 for t, p in zip(texts, log_probs, strict=True)]
    by_theirs = [p / len(t) ** 0.6 for t, p in zip(texts, log_probs, strict=True)]
    result = SimpleNamespace(hypotheses=texts, scores=by_theirs)
    translator = SimpleNamespace(translate_batch=lambda *_, **options: [result])

    best = texts[by_ours.index(max(by_ours))]
    assert by_theirs.index(max(by_theirs)) != by_ours.index(max(by_ours))
    assert translate(translator, tokenizer, ["x"]) == ["".join(best)]


def test_scores_are_ours(mini, exported):
    """Of whole hypotheses, against our own search with the library's scores."""
    model, tokenizer = mini
    inputs = tokenizer(SENTENCES[:1], return_tensors="pt")
    ours = model.generate(
        **inputs, num_beams=4, length_penalty=0.0, return_dict_in_generate=True, output_scores=True
    ).sequences_scores
    translator = ctranslate2.Translator(str(exported["float32"]), intra_threads=1)
    results = translator.translate_batch(
        [tokenizer(SENTENCES[0]).tokens()], beam_size=4, length_penalty=0, return_scores=True
    )

    assert results[0].scores[0] == pytest.approx(ours[0].item(), abs=1e-3)


def test_int8_is_small_and_close(mini, exported):
    model, tokenizer = mini
    ours = model.generate(**tokenizer(SENTENCES, padding=True, return_tensors="pt"), num_beams=1)
    translator = ctranslate2.Translator(str(exported["int8"]), intra_threads=1)
    theirs = translator.translate_batch([tokenizer(text).tokens() for text in SENTENCES], beam_size=1)

    words = [set(tokenizer.convert_ids_to_tokens(ids, skip_special_tokens=True)) for ids in ours.tolist()]
    shared = [len(a & set(b.hypotheses[0])) / len(a) for a, b in zip(words, theirs, strict=True)]
    assert np.mean(shared) > 0.8
    sizes = {kind: (folder / "model.bin").stat().st_size for kind, folder in exported.items()}
    assert sizes["int8"] < 0.4 * sizes["float32"]


def test_folder_is_complete(exported):
    """A user needs nothing else: tokens, and the card with its licence."""
    folder = exported["int8"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    results = ctranslate2.Translator(str(folder)).translate_batch([tokenizer("The children sleep.").tokens()])
    best = results[0].hypotheses[0]

    assert tokenizer.convert_tokens_to_string(best) == "Die Kinder schlafen."
    assert "licen" in (folder / "README.md").read_text(encoding="utf-8").lower()
    assert not [path for path in folder.parent.iterdir() if path.name.endswith(".partial")]


def test_padding_is_never_produced(tiny_model, tokenizer, tmp_path):
    """Not even where it would be the best token."""
    model = tiny_model(vocab_size=VOCAB, softmax_bias=True)
    model.lm_head.bias.data[model.config.pad_token_id] = 100.0
    VaswaniConverter(model, tokenizer).convert(str(tmp_path), force=True)
    results = ctranslate2.Translator(str(tmp_path)).translate_batch([["a", "</s>"]], max_decoding_length=20)

    assert results[0].hypotheses[0] and tokenizer.pad_token not in results[0].hypotheses[0]


SOURCE = ["<pad>", "</s>", "<unk>", "the", "cat", "sat", "on", "mat", "dog", "ran"]
TARGET = ["<pad>", "</s>", "<unk>", "die", "Katze", "sa@@", "ß", "Matte", "auf", "der", "Hund", "lief"]


def test_two_vocabularies(tiny_model, tmp_path):
    """Each side's tokens are its own, words that the source lacks are `<unk>`, and pieces are joined."""
    sides = (Vocabulary(tokens, eos=1, unk=2, pad=0) for tokens in (SOURCE, TARGET))
    tokenizer = words(*sides, separator="@@").tokenizer
    sizes = dict(vocab_size=len(SOURCE), decoder_vocab_size=len(TARGET), share_embeddings="none")
    model = tiny_model(**sizes)
    for parameter in model.parameters():
        parameter.data *= 3  # or it says the same of every source
    model.save_pretrained(tmp_path / "ours")
    tokenizer.save_pretrained(tmp_path / "ours")
    export(str(tmp_path / "ours"), tmp_path / "out")

    texts = ["the cat sat on the mat", "the dog ran", "the bird sat", "mat cat dog"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    ours = model.generate(**inputs, num_beams=1, min_new_tokens=1, max_new_tokens=12, suppress_tokens=[2])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    translator = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    theirs = translator.translate_batch(
        [tokenizer(text).tokens() for text in texts], beam_size=1, max_decoding_length=12, disable_unk=True
    )

    results = [tokenizer.convert_tokens_to_string(result.hypotheses[0]) for result in theirs]
    assert results == tokenizer.batch_decode(ours, skip_special_tokens=True)
    assert len(set(results)) > 1 and set(" ".join(results).split()) <= {*TARGET, "saß"}


def test_tokens_that_are_known_as_they_are_spelt(tiny_config):
    """SentencePiece takes them for unknown characters, and the toolkit's vocabulary has them."""
    tokenizer = VaswaniTokenizer(
        tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0, "</s>": 1, "<unk>": 2, " 中": 3})), surfaces={"中": 3}
    )
    assert tokens_by_id(tokenizer, tiny_config(vocab_size=4))[0] == ["<pad>", "</s>", "<unk>", "中"]


def test_unknown_words_have_a_row(tiny_model, tokenizer, tmp_path):
    converter = VaswaniConverter(tiny_model(vocab_size=VOCAB), tokenizer)
    converter.convert(str(tmp_path), force=True)
    translator = ctranslate2.Translator(str(tmp_path))
    unknown, padding = (
        translator.score_batch([[word, "</s>"]], [["a", "b"]])[0].log_probs for word in ("no such token", "<pad>")
    )

    assert unknown == padding


def test_what_it_lacks_is_refused_at_once(tiny_model):
    model = tiny_model(
        activation_function="mish", layer_norm_deviation="unbiased", d_k=4, d_v=6, eos_token_id=[1, 2],
        scale_attention=False,
    )  # fmt: skip
    with pytest.raises(ConversionError) as error:
        VaswaniConverter(model, None)

    reasons = "activation_function='mish'", "'unbiased'", "d_k=4 with d_v=6", "eos_token_id=[1, 2]", "tokenizer"
    for reason in (*reasons, "scale_attention=False"):
        assert reason in str(error.value)


def test_tokenizer_of_another_model_is_refused(tiny_model, tokenizer):
    with pytest.raises(ConversionError, match=f"does not match the model: {VOCAB} tokens, .* the model has 48"):
        VaswaniConverter(tiny_model(), tokenizer)


def test_model_that_differs_is_not_left(save, tmp_path, monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "relu", ACTIVATIONS["gelu"])
    with pytest.raises(ConversionError, match="differ from ours by up to .*nothing was written"):
        export(save(), tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_existing_folder_is_kept(save, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(ConversionError, match="already exists and is not empty"):
        export(save(), tmp_path / "out")

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_command(save, tmp_path, monkeypatch, capsys):
    from conversion.__main__ import main

    arguments = ["to-ctranslate2", save(), str(tmp_path / "out"), "--quantization", "int8", "--positions", "64"]
    monkeypatch.setattr("sys.argv", ["conversion", *arguments])
    main()

    assert re.search(r"float32: largest difference .*e-0\d\n.*int8: mean difference", capsys.readouterr().out)
    too_long = [["a"] * 64 + ["</s>"]]
    with pytest.raises(RuntimeError, match="positions >= 64"):
        ctranslate2.Translator(str(tmp_path / "out")).translate_batch(too_long)


def test_checkpoint_without_all_weights_is_refused(save, tmp_path):
    weights = Path(save()) / "model.safetensors"
    kept = {name: tensor for name, tensor in load_file(weights).items() if "encoder.layers.1.self_attn" not in name}
    save_file(kept, weights, metadata={"format": "pt"})
    with pytest.raises(ConversionError, match=r"Weights are missing in .*: model\.encoder\.layers\.1\.self_attn\S+; "):
        export(str(weights.parent), tmp_path / "out")


def test_command_says_which_package_is_missing(monkeypatch, capsys):
    from conversion.__main__ import main

    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.delitem(sys.modules, "conversion.runtimes.ctranslate2")
    with pytest.raises(SystemExit, match="1"):
        main(["to-ctranslate2", "mini-en-de", "out"])
    error = capsys.readouterr().err
    assert "to-ctranslate2 needs ctranslate2, which is not installed: pip install" in error and "[convert]" in error


def test_checkpoint_that_does_not_exist(monkeypatch, capsys, tmp_path):
    from conversion.__main__ import main

    monkeypatch.setattr("sys.argv", ["conversion", "to-ctranslate2", "nope", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        main()

    assert "Checkpoint not found: 'nope'" in capsys.readouterr().err


def test_a_shortlist_becomes_a_vocabulary_map(tmp_path):
    """CTranslate2 finds with it what we find, and its card says how."""
    shutil.copytree(checkpoint_path("mini-en-de"), tmp_path / "ours")
    model, tokenizer = exports.load(str(tmp_path / "ours"))
    ids = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    usual = model.generate(**ids, num_beams=1)
    held = usual[usual > tokenizer.eos_token_id].unique()
    allowed = held[torch.randperm(len(held), generator=torch.Generator().manual_seed(1))][: len(held) * 3 // 4]
    tokens = torch.full((model.config.vocab_size, 1), tokenizer.eos_token_id)
    tokens[tokenizer("dogs").input_ids[0]] = tokenizer(text_target="Hunde").input_ids[0]
    shortlist = Shortlist(tokens, torch.cat((allowed, torch.tensor([tokenizer.eos_token_id]))))
    shortlist.save_pretrained(tmp_path / "ours")
    export(str(tmp_path / "ours"), tmp_path / "out")

    lines = (tmp_path / "out" / "vmap.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + model.config.vocab_size and lines[0].startswith("\t")
    translator = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    for text in SENTENCES:  # CTranslate2 has one list for a batch, we have one for each sentence
        [result] = translator.translate_batch(
            [tokenizer(text).tokens()], beam_size=1, use_vmap=True, max_decoding_length=60
        )
        ours = model.generate(**tokenizer([text], return_tensors="pt"), shortlist=shortlist, num_beams=1, max_length=61)
        assert tokenizer.convert_tokens_to_string(result.hypotheses[0]) == tokenizer.decode(
            ours[0], skip_special_tokens=True
        )
    assert "use_vmap=True" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_a_shortlist_of_another_model_is_refused(save, tmp_path):
    folder = save()
    Shortlist(torch.zeros(3, 1), torch.tensor([1])).save_pretrained(folder)
    with pytest.raises(ConversionError, match="This shortlist belongs to another model"):
        export(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
