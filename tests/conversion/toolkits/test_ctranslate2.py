"""CTranslate2's models, beside what CTranslate2 computes; our own exports, read back; Argos packages."""

import json
import re
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
from ctranslate2_models import FIXTURES, OPUS, Binary, changed, marian, opennmt
from transformers import AutoTokenizer

from conversion import __main__ as command
from conversion.files import argos, arrays
from conversion.files.argos import ArgosPackage
from conversion.options import ConversionError
from conversion.parity import ctranslate2 as parity_module
from conversion.parity.recorded import compare_recorded
from conversion.toolkits import fairseq
from conversion.toolkits.ctranslate2 import compare_live, convert
from vaswani_transformer.learn_bpe import learn_tokenizer
from vaswani_transformer.model.tokenization_vaswani import Moses


ctranslate2 = pytest.importorskip("ctranslate2", reason="comes with the extra called convert")

from conversion.runtimes import exports  # noqa: E402
from conversion.runtimes.ctranslate2 import export  # noqa: E402
from conversion.runtimes.ctranslate2_spec import VaswaniConverter  # noqa: E402


QUANTISATIONS = ["int8", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32"]
TEXT = "shobike doshü kire ma bolobü lübo ro 1984 demashü ."


def check(folder: Path):
    """Converts a model and compares it with CTranslate2."""
    converted = convert(folder)
    parity = compare_live(folder, converted, converted.model())
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree and parity.positions == 41 - 1
    assert parity.translations == 8 and not parity.translations_different
    return converted


# The same model.


def test_logits_and_translations_are_the_original_toolkits():
    """As recorded from MarianMTModel, which CTranslate2 converted."""
    converted = convert(OPUS)
    parity = compare_recorded(converted.model(), OPUS / "reference.npz", tokens=converted.target_tokens)
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree
    assert parity.translations_agree == parity.translations == 8


def test_scores_and_translations_are_ctranslate2s():
    config = check(OPUS).config
    assert (config.pad_token_id, config.decoder_start_token_id, config.eos_token_id) == (120, 120, 0)
    assert config.zero_pad_embedding and config.softmax_bias and config.share_embeddings == "all"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("opus", {"activation_function": "silu", "share_embeddings": "all", "norm_position": "post"}),
        ("gelu", {"activation_function": "quick_gelu", "share_embeddings": "none"}),
    ],
)
def test_models_of_marian(tmp_path, kind, expected):
    config = check(marian(tmp_path / "model", kind)).config
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("qkvbias", {"norm_position": "pre", "attention_bias": True, "feed_forward_bias": False, "pad_token_id": 1}),
        ("options", {"share_embeddings": "none", "vocab_size": 19, "decoder_vocab_size": 24, "softmax_bias": True}),
        ("half", {"position_encoding": "learned", "decoder_start_token_id": 2}),
    ],
)
def test_models_of_opennmt(tmp_path, kind, expected):
    converted = check(opennmt(tmp_path / "model", kind))
    assert {name: getattr(converted.config, name) for name in expected} == expected
    assert converted.config.pad_token_id == 1 and not converted.config.zero_pad_embedding  # <blank>


def test_a_model_as_written_from_fairseq(tmp_path):
    """Our export, changed to what CTranslate2's converter of fairseq writes; fairseq recorded the logits."""
    source = fairseq.convert(FIXTURES / "fairseq" / "base")
    VaswaniConverter(source.model(), source.tokenizer, positions=80).convert(str(tmp_path / "export"))

    def change(binary):
        for stack in ("encoder", "decoder"):
            binary.set(f"{stack}/scale_embeddings", np.float32(source.config.d_model**0.5))
        del binary.variables["decoder/projection/bias"]
        binary.set("decoder/alignment_heads", np.int16(0))

    settings = {"add_source_eos": True, "bos_token": "<s>", "layer_norm_epsilon": None}
    folder = changed(tmp_path / "model", change, settings, source=tmp_path / "export")
    for path in folder.glob("*_vocabulary.json"):
        path.write_text(path.read_text(encoding="utf-8").replace('"<pad>"', '"<blank>"'), encoding="utf-8")
    converted = check(folder)
    parity = compare_recorded(converted.model(), FIXTURES / "fairseq" / "base" / "reference.npz")
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree
    training = {"dropout": 0, "label_smoothing": 0}  # which CTranslate2 does not record
    assert converted.config.to_dict() | training == source.config.to_dict() | training


@pytest.mark.parametrize("quantization", QUANTISATIONS)
def test_all_types_of_weights(tmp_path, quantization):
    """CTranslate2 computes in float32 too, with the same weights, so no more than rounding differs."""
    converted = check(marian(tmp_path / "model", "opus", quantization))
    types = set(quantization.split("_")) - {"float32"}
    recorded = converted.facts["quantisation"]
    assert recorded is None if not types else set(recorded.split(",")[0].split(" and ")) == types
    # CTranslate2 adds the stored values of a table rounded to half precision.
    learned = quantization.endswith("float16")
    assert converted.config.position_encoding == ("learned" if learned else "sinusoidal")


def test_int8_weights_are_divided_by_their_rows_scales(tmp_path):
    folder = marian(tmp_path / "model", "opus", "int8")
    binary, name = Binary((folder / "model.bin").read_bytes()), "encoder/layer_0/ffn/linear_0/weight"
    expected = binary.array(name).astype(np.float32) / binary.array(f"{name}_scale")[:, None]
    weight = convert(folder).weights["model.encoder.layers.0.feed_forward.fc1.weight"]
    np.testing.assert_allclose(weight, expected, rtol=1e-6)


def test_int16_weights_without_a_scale_have_the_global_one(tmp_path):
    name = "encoder/layer_0/ffn/linear_0/weight"

    def remove(binary):
        del binary.variables[f"{name}_scale"]

    folder = changed(tmp_path / "old", remove, source=marian(tmp_path / "model", "opus", "int16"))
    expected = Binary((folder / "model.bin").read_bytes()).array(name).astype(np.float32) / 1000
    weight = check(folder).weights["model.encoder.layers.0.feed_forward.fc1.weight"]
    np.testing.assert_allclose(weight, expected, rtol=1e-6)


def in_version(version: int):
    """Writes what an older version wrote: no aliases, shared attributes, OpenNMT-tf's names, settings in the model."""

    def change(binary: Binary):
        if version < 3:
            for alias, name in binary.aliases.items():
                binary.variables[alias] = binary.variables[name]
        if version < 5:
            for name in ("num_heads", "pre_norm", "activation"):
                binary.variables[name] = binary.variables.pop(f"encoder/{name}")
                del binary.variables[f"decoder/{name}"]
            binary.revision = 4
        if version < 4:  # types of numbers were told apart by their size only
            for name in ("decoder/alignment_layer", "decoder/alignment_heads", "num_heads"):
                binary.variables.pop(name, None)
            binary.set("num_heads", np.int8(4))
        if version == 1:
            binary.variables = {old_name(name): value for name, value in binary.variables.items()}
            binary.spec = ""
        binary.set("with_source_eos", np.int8(1))
        binary.set("with_target_bos", np.int8(0))
        binary.set("unk_token", np.frombuffer(b"<unk>", dtype=np.int8))
        binary.version = version

    return change


def old_name(name: str) -> str:
    """The name of a variable in revision 1."""
    if name in ("num_heads", "pre_norm", "activation"):
        return name
    for new, old in (("embeddings_0/", "embeddings/"), ("embeddings/weight", "w_embs"), ("layer_norm", "LayerNorm")):
        name = name.replace(new, old)
    name = name.replace("projection", "dense").replace("linear_", "conv1d_").replace("weight", "kernel")
    attention = {"encoder": {"self_attention": "multi_head"}}.get(
        name[:7], {"self_attention": "masked_multi_head", "/attention": "/multi_head"}
    )
    for new, old in attention.items():
        name = name.replace(new, old)
    return f"transformer/{name}:0"


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_older_versions(tmp_path, version):
    folder = changed(tmp_path / "old", in_version(version))
    (folder / "config.json").unlink()
    tokens = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    (folder / "shared_vocabulary.json").unlink()
    (folder / "shared_vocabulary.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    converted, newest = check(folder), convert(OPUS)
    assert converted.config.to_dict() == newest.config.to_dict()
    assert all(torch.equal(tensor, newest.weights[name]) for name, tensor in converted.weights.items())
    assert converted.facts["format"].startswith(f"binary version {version}")
    assert converted.tokenizer(TEXT).input_ids == newest.tokenizer(TEXT).input_ids


def test_positions_that_are_not_stored(tmp_path):
    def remove(binary):
        for stack in ("encoder", "decoder"):
            binary.variables.pop(f"{stack}/position_encodings/encodings", None)
        binary.aliases = {alias: name for alias, name in binary.aliases.items() if "encodings" not in alias}

    config = check(changed(tmp_path / "model", remove)).config
    assert (config.position_offset, config.position_divisor) == (1, "half_minus_one")


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("scale_embeddings", np.float32(32**0.5), "scale_embedding", True),  # the width is 32
        ("scale_embeddings", np.float32(1), "scale_embedding", False),
        ("scale_embeddings", np.int8(0), "scale_embedding", False),
        ("pre_norm", np.int8(1), "norm_position", "pre"),
    ],
)
def test_attributes(tmp_path, name, value, field, expected):
    def change(binary):
        for stack in ("encoder", "decoder"):
            binary.set(f"{stack}/{name}", value)

    config = check(changed(tmp_path / "model", change)).config
    assert getattr(config, field) == expected


@pytest.mark.parametrize("scale, expected", [(1.0, False), (8**-0.5, True)])
def test_scale_of_queries(tmp_path, scale, expected):
    def change(binary):
        for name in [name for name in binary.variables if name.endswith("attention/linear_0/weight")]:
            binary.set(name.replace("linear_0/weight", "queries_scale"), np.float32(scale))

    assert check(changed(tmp_path / "model", change)).config.scale_attention == expected


def test_epsilon(tmp_path):
    assert convert(OPUS).config.layer_norm_eps == 1e-5  # CTranslate2's default
    assert check(changed(tmp_path / "model", config={"layer_norm_epsilon": 0.05})).config.layer_norm_eps == 0.05


def test_a_source_that_begins_with_a_token(tmp_path):
    settings = {"add_source_bos": True, "add_source_eos": True, "bos_token": "▁.", "decoder_start_token": "a"}

    def start_from_token(binary):
        binary.set("decoder/start_from_zero_embedding", np.int8(0))

    converted = check(changed(tmp_path / "model", start_from_token, settings))
    ids = converted.tokenizer(TEXT).input_ids
    assert (ids[0], ids[-1], converted.config.decoder_start_token_id) == (7, 0, 5)
    assert converted.config.pad_token_id == 120 and not converted.config.zero_pad_embedding


def test_a_vocabulary_with_fewer_tokens_than_embeddings(tmp_path):
    folder = changed(tmp_path / "model")
    tokens = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    (folder / "shared_vocabulary.json").write_text(json.dumps([*tokens[:110], tokens[3]]), encoding="utf-8")
    tokenizer = convert(folder).tokenizer
    names = [token.strip() for token in tokenizer.convert_ids_to_tokens([110, 111, 120])]
    assert names == ["<repeated 110>", "<unused 111>", "<pad>"]
    assert len(tokenizer) == 121


def test_a_lost_bias_would_be_seen():
    converted = convert(OPUS)
    model = converted.model()
    model.model.decoder.layers[1].feed_forward.fc2.bias.data[0] += 0.1
    assert not compare_live(OPUS, converted, model).holds


def test_without_ctranslate2_nothing_is_compared(monkeypatch):
    monkeypatch.setattr(parity_module, "find_spec", lambda name: None)
    converted = convert(OPUS)
    assert compare_live(OPUS, converted, converted.model()) is None


# Our own exports, read back.

CONFIGURATIONS = {
    "paper": {},
    "pre-norm encoder": dict(norm_position="pre", decoder_norm_position="post"),
    "post-norm with final norms": dict(final_norm=True),
    "pre-norm without final norms": dict(norm_position="pre", final_norm=False),
    "narrow heads": dict(d_k=3, d_v=3),
    "tensor2tensor": dict(
        position_layout="concatenated", position_divisor="half_minus_one", attention_bias=True,
        source_space_embedding=True, decoder_vocab_size=270, vocab_size=270,
    ),
    "fairseq": dict(position_offset=2, zero_pad_embedding=False, decoder_start_token_id=1, attention_bias=True),
    "learned positions": dict(position_encoding="learned", max_position_embeddings=30, position_offset=2),
    "no positions": dict(position_encoding="none"),
    "no biases": dict(feed_forward_bias=False, scale_embedding=False),
    "three matrices": dict(share_embeddings="none", decoder_d_ff=24, layer_norm_eps=0.05),
    "no padding": dict(pad_token_id=None, decoder_start_token_id=7, zero_pad_embedding=False),
    "tanh": dict(activation_function="tanh"),
}  # fmt: skip


@pytest.mark.parametrize("fields", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_exports_have_equal_logits(tiny_model, tmp_path, make_batch, fields):
    tokenizer = learn_tokenizer(["a b c d e f g h the cat sat on the mat"], 262)
    model = tiny_model(**{"vocab_size": 262, **fields})
    VaswaniConverter(model, tokenizer, positions=40).convert(str(tmp_path / "out"))
    back = check(tmp_path / "out").model()
    batch = make_batch(vocab_size=262)
    batch["decoder_input_ids"][:, 0] = model.config.decoder_start_token_id
    starts = {**batch, "decoder_input_ids": batch["decoder_input_ids"].clone()}
    starts["decoder_input_ids"][:, 0] = back.config.decoder_start_token_id
    with torch.no_grad():
        ours, read = model(**batch).logits, back(**starts).logits
    size = model.config.decoder_vocab_size
    ordinary = [i for i in range(size) if i != model.config.pad_token_id]  # CTranslate2 never generates padding
    real = batch["decoder_attention_mask"].bool()
    # CTranslate2 adds the source space to the table of positions, which changes the order of the sum.
    atol = 2e-6 if model.config.source_space_embedding else 1e-6
    torch.testing.assert_close(read[real][:, ordinary], ours[real][:, ordinary], atol=atol, rtol=0)


@pytest.fixture(scope="module")
def mini(tmp_path_factory):
    """mini-en-de, exported and converted back by the commands."""
    out = tmp_path_factory.mktemp("mini")
    export("mini-en-de", out / "ct2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["conversion", "ctranslate2", str(out / "ct2"), str(out / "back")])
        command.main()
    return exports.load("mini-en-de"), exports.load(str(out / "back"))


def test_an_included_checkpoint_comes_back(mini):
    (model, tokenizer), (back, read) = mini
    texts = ["A man is riding a bicycle through the park.", "Two dogs are running in the snow!", "x"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    assert read(texts).input_ids == tokenizer(texts).input_ids
    for beams in (1, 4):
        assert torch.equal(*(m.generate(**inputs, num_beams=beams, length_penalty=0.6) for m in (model, back)))
    decoder_input_ids = torch.randint(2, 8000, (3, 9))
    decoder_input_ids[:, 0] = model.config.decoder_start_token_id
    with torch.no_grad():
        ours, theirs = (m(**inputs, decoder_input_ids=decoder_input_ids).logits[..., 1:] for m in (model, back))
    torch.testing.assert_close(theirs, ours, atol=1e-6, rtol=0)


def test_a_saved_tokenizer_of_another_model_is_refused(tmp_path, tiny_model):
    tokenizer = learn_tokenizer(["a b c d e f g h the cat sat on the mat"], 262)
    VaswaniConverter(tiny_model(vocab_size=262), tokenizer, positions=40).convert(str(tmp_path / "out"))
    learn_tokenizer(["other words make other pieces"], 262).save_pretrained(tmp_path / "out")
    with pytest.raises(ConversionError, match="does not match the model .pass --spm or --codes"):
        convert(tmp_path / "out")


# Refused models.


def test_everything_unsupported_is_named_at_once(tmp_path):
    row = np.ones(8, dtype=np.float32)
    parts = {
        "encoder/layer_0/self_attention/relative_position_keys": "relative positions",
        "encoder/layer_1/self_attention/rotary_dim": "rotary positions",
        "encoder/layer_0/ffn/linear_0_noact/weight": "a gated feed-forward network",
        "encoder/layer_0/self_attention/q_norm/gamma": "norms of queries, keys or values",
        "decoder/layernorm_embedding/gamma": "a LayerNorm after the embeddings",
        "decoder/project_in/weight": "projections around the decoder",
        "decoder/layer_0/input_layer_norm/gamma": "more LayerNorms than two or three in a layer",
        "encoder/embeddings_1/weight": "features of source words",
        "decoder/layer_0/self_attention/memory_kv/weight": "merged attention",
        "encoder/layer_0/ffn/linear_0/weight_zero": "AWQ's weights",
    }
    numbers = {
        "decoder/alibi": 1, "decoder/layer_0/self_attention/sliding_window": 8, "decoder/scale_outputs": 0.5,
        "encoder/multi_query_attention": 1, "decoder/final_logit_softcapping": 30.0, "decoder/something_new": 3,
    }  # fmt: skip

    def add(binary):
        for name in parts:
            binary.set(name, row)
        for name, value in numbers.items():
            binary.set(name, np.float32(value))

    with pytest.raises(ConversionError, match="This CTranslate2 model uses unsupported options") as error:
        convert(changed(tmp_path / "model", add, {"quantization_type": 1}))
    for part in parts.values():
        assert part in str(error.value)
    for name in (*numbers, "RMSNorm", "quantization_type"):
        assert name.replace("layer_0/", "layer/") in str(error.value)


def test_fewer_heads_of_keys_and_other_widths_are_refused(tmp_path):
    def change(binary):
        binary.set("encoder/layer_0/self_attention/num_heads_kv", np.int32(2))
        binary.set("encoder/layer_0/self_attention/head_dim", np.int32(6))
        binary.set("decoder/layer_0/attention/queries_scale", np.float32(0.3))
        binary.set("decoder/scale_embeddings", np.float32(3))
        binary.set("encoder/layer_norm/gamma", np.ones(32, dtype=np.float32))
        binary.set("encoder/layer_norm/beta", np.ones(32, dtype=np.float32))
        binary.set("encoder/activation", np.int8(3))
        binary.set("decoder/alignment_layer", np.int16(9))

    with pytest.raises(ConversionError) as error:
        convert(changed(tmp_path / "model", change, {"eos_token": "none", "decoder_start_token": None}))
    reasons = "num_heads_kv", "heads of different widths", "queries_scale", "scale_embeddings=3.0", "eos_token='none'"
    for reason in (*reasons, "a LayerNorm after one stack only", "encoder/activation=3", "alignment_layer=9"):
        assert reason in str(error.value)


@pytest.mark.parametrize("start", [None, "<not a token>", 3])
def test_a_start_token_must_be_in_the_vocabulary(tmp_path, start):
    """Models with several target languages have none: the caller passes the language."""

    def start_from_token(binary):
        binary.set("decoder/start_from_zero_embedding", np.int8(0))

    with pytest.raises(ConversionError, match=re.escape(f"decoder_start_token={start!r} (supported: a token of")):
        convert(changed(tmp_path / "model", start_from_token, {"decoder_start_token": start}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda binary: setattr(binary, "spec", "WhisperSpec"), "is a 'WhisperSpec' model .supported: TransformerSpec"),
        (lambda binary: setattr(binary, "version", 7), "has binary version 7 .supported: 1 to 6"),
        (lambda binary: setattr(binary, "revision", 8), "has revision 8"),
        (lambda binary: binary.variables.pop("decoder/layer_0/ffn/linear_1/weight"), "linear_1/weight is missing"),
        (lambda binary: binary.variables.pop("encoder/embeddings_0/weight", None), "no tensors"),
        (lambda binary: binary.set("decoder/new/weight", np.ones((2, 2), np.float32)), "new/weight is not part"),
        (lambda binary: binary.set("encoder/num_heads", np.int16(5)), "not divisible by"),
        (lambda binary: binary.set("encoder/layer_0/ffn/linear_1/weight", np.ones((2, 2), np.float32)), "does not fit"),
    ],
)  # fmt: skip
def test_other_models_and_damaged_ones_are_refused(tmp_path, change, message):
    def apply(binary):
        if "encoder/embeddings_0/weight" in binary.aliases:
            binary.set("encoder/embeddings_0/weight", binary.array("encoder/embeddings_0/weight"))
        change(binary)

    with pytest.raises(ConversionError, match=message):
        convert(changed(tmp_path / "model", apply))


def test_a_vocabulary_of_another_model_is_refused(tmp_path):
    folder = changed(tmp_path / "model")
    (folder / "shared_vocabulary.json").write_text(json.dumps([*map(str, range(121)), "</s>"]), encoding="utf-8")
    with pytest.raises(ConversionError, match="a vocabulary of 122 tokens with 120 embeddings in the encoder"):
        convert(folder)


def test_missing_files_are_named(tmp_path):
    folder = changed(tmp_path / "model")
    with pytest.raises(FileNotFoundError, match="absent"):
        convert(tmp_path / "absent")
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match="config.json"):
        convert(folder)
    (folder / "shared_vocabulary.json").unlink()
    with pytest.raises(FileNotFoundError, match="Vocabularies missing in .* expected shared_vocabulary.json"):
        convert(folder)
    (folder / "model.bin").unlink()
    with pytest.raises(FileNotFoundError, match="model.bin"):
        convert(folder)


# Tokenizers.


def pieces_of_ids(tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.convert_ids_to_tokens(i) for i in ids]


def test_sentencepiece_beside_the_model_and_given(tmp_path):
    model = sentencepiece.SentencePieceProcessor(model_file=str(OPUS / "source.spm"))
    expected = [*model.encode(TEXT, out_type=str), "</s>"]
    converted = convert(OPUS)
    assert pieces_of_ids(converted.tokenizer, converted.tokenizer(TEXT).input_ids) == expected
    folder = changed(tmp_path / "model")
    for side in ("source", "target"):
        (folder / f"{side}.spm").unlink()
    without = convert(folder)
    assert "Pass --spm or --codes" in without.facts["tokenizer_differences"][0]
    assert without.tokenizer(" ".join(expected[:-1])).input_ids == converted.tokenizer(TEXT).input_ids
    given = convert(folder, spm=[OPUS / "source.spm"]).tokenizer
    assert given(TEXT).input_ids == converted.tokenizer(TEXT).input_ids


def test_the_end_of_a_source(tmp_path):
    """Marian's and our models have one; of others, the user decides if the files do not say it."""
    assert convert(OPUS).tokenizer(TEXT).input_ids[-1] == 0
    assert convert(OPUS, source_eos=False).tokenizer(TEXT).input_ids[-1] != 0
    folder = opennmt(tmp_path / "model", "options")
    assert convert(folder).tokenizer("a").input_ids[-1] != 3
    assert convert(folder, source_eos=True).tokenizer("a").input_ids[-1] == 3


def test_sides_with_other_special_tokens_have_no_tokenizer(tmp_path):
    folder = changed(tmp_path / "model")
    tokens = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    (folder / "shared_vocabulary.json").unlink()
    (folder / "target_vocabulary.json").write_text(json.dumps(tokens), encoding="utf-8")
    (folder / "source_vocabulary.json").write_text(json.dumps(tokens[::-1]), encoding="utf-8")
    converted = convert(folder)
    assert converted.tokenizer is None
    assert "special tokens of source and target differ" in converted.facts["tokenizer_differences"][0]


def test_text_vocabularies_keep_carriage_returns_of_some_lines(tmp_path):
    """All lines end in one: the file was written on Windows. Only some: they are part of the tokens."""
    from conversion.files.ctranslate2 import read_vocabulary

    path = tmp_path / "shared_vocabulary.txt"
    path.write_bytes(b"a\r\nb\r\n")
    assert read_vocabulary(path) == ["a", "b"]
    path.write_bytes("a\r\nb\n\u2028\n\n".encode())
    assert read_vocabulary(path) == ["a\r", "b", "\u2028", ""]


# Argos packages.

METADATA = dict(package_version="1.9", argos_version="1.9.1", from_code="en", to_code="de", from_name="English")


def package(folder: Path, segmentation: str | None = "sentencepiece.model", **metadata) -> Path:
    """An unpacked package of the model `opus`."""
    folder.mkdir()
    changed(folder / "model")
    for side in ("source", "target"):
        (folder / "model" / f"{side}.spm").unlink()
    (folder / "metadata.json").write_text(json.dumps(METADATA | metadata), encoding="utf-8")
    files = {"sentencepiece.model": OPUS / "source.spm", "bpe.model": FIXTURES / "opennmt" / "bpe.codes"}
    if segmentation:
        (folder / segmentation).write_bytes(files[segmentation].read_bytes())
    return folder


def packed(folder: Path, root: str = "en_de/") -> Path:
    path = folder.with_suffix(".argosmodel")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{root}stanza/large.pt", b"not needed")
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, f"{root}{file.relative_to(folder)}")
    return path


@pytest.mark.parametrize("root", [None, "en_de/", ""], ids=["folder", "archive", "archive without a folder"])
def test_a_package(tmp_path, root):
    folder = package(tmp_path / "package")
    source = folder if root is None else packed(folder, root)
    converted = convert(source)
    model = sentencepiece.SentencePieceProcessor(model_file=str(OPUS / "source.spm"))
    ids = converted.tokenizer(TEXT).input_ids
    assert pieces_of_ids(converted.tokenizer, ids) == [*model.encode(TEXT, out_type=str), "</s>"]
    assert converted.tokenizer.decode(ids, skip_special_tokens=True) == TEXT
    facts = {"source_language": "en", "target_language": "de", "package_version": "1.9", "argos_version": "1.9.1"}
    assert facts.items() <= converted.facts.items()
    assert (converted.generation.num_beams, converted.generation.length_penalty) == (4, 0.2)  # Argos Translate's
    assert any("underscores" in difference for difference in converted.facts["tokenizer_differences"])
    assert compare_live(source, converted, converted.model()).holds
    assert ("package.argosmodel" in converted.facts["files"]) == (root is not None)


def test_unpacked_files_are_deleted_with_the_package(tmp_path):
    read = ArgosPackage.read(packed(package(tmp_path / "package")))
    folder = read.folder
    assert {path.name for path in folder.iterdir()} == {"metadata.json", "model", "sentencepiece.model"}
    del read
    assert not folder.exists()


def test_byte_pairs_of_a_package_follow_moses(tmp_path):
    converted = convert(package(tmp_path / "package", "bpe.model"))
    tokenizer = converted.tokenizer
    moses = Moses("en", normalize=True)
    assert tokenizer.init_kwargs["moses_source"] == "en" and tokenizer.init_kwargs["moses_target"] == "de"
    assert tokenizer._prepare("It’s “so”…") == moses.tokenize("It’s “so”…")
    with pytest.raises(ConversionError, match="no from_code or to_code, which Moses needs"):
        convert(package(tmp_path / "other", "bpe.model", from_code=None))


def test_a_package_without_segmentation(tmp_path):
    differences = convert(package(tmp_path / "package", None)).facts["tokenizer_differences"]
    assert "Pass --spm or --codes" in differences[0]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [({"type": "sbd"}, "type='sbd'"), ({"target_prefix": ">>pob<<"}, "target_prefix='>>pob<<' .supported: packages")],
)
def test_packages_that_are_refused(tmp_path, metadata, message):
    with pytest.raises(ConversionError, match=message):
        convert(package(tmp_path / "package", **metadata))


def archive_with(path: Path, names: dict[str, bytes | None]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in names.items():
            info = zipfile.ZipInfo(name)
            if content is None:
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, content if content is not None else b"/etc/passwd", zipfile.ZIP_DEFLATED)
    return path


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"a/b/metadata.json": b"{}"}, "it has 0 files called metadata.json"),
        ({"a/metadata.json": b"{}", "b/metadata.json": b"{}"}, "it has 2 files called"),
        ({"../metadata.json": b"{}", "../model/model.bin": b"x"}, "model.bin"),
        ({"/metadata.json": b"{}"}, "No such file"),
        ({"a/metadata.json": None}, "is not JSON"),
        ({"a/metadata.json": b"[]"}, "is not a JSON object"),
        ({"metadata.json": b"{}", "model/../../out": b"x"}, "No such file"),
    ],
)
def test_archives_write_only_where_they_may(tmp_path, names, message):
    path = archive_with(tmp_path / "package.argosmodel", names)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((ConversionError, FileNotFoundError), match=message):
        convert(path)
    assert sorted(tmp_path.rglob("*")) == before


def test_archives_that_expand_too_much_are_refused(tmp_path, monkeypatch):
    path = archive_with(tmp_path / "a.argosmodel", {"metadata.json": b"{}", "model/model.bin": bytes(2**22)})
    monkeypatch.setattr(argos, "MAX_UNPACKED_BYTES", 2**20)
    with pytest.raises(ConversionError, match="would expand to 4,194,306 bytes"):
        convert(path)
    monkeypatch.setattr(arrays, "MIN_CHECKED_BYTES", 2**20)
    with pytest.raises(ConversionError, match="weights do not compress like this"):
        convert(path)
    monkeypatch.setattr(argos, "MAX_MEMBERS", 1)
    with pytest.raises(ConversionError, match="has 2 files"):
        convert(path)


def test_a_file_that_is_not_an_archive(tmp_path):
    (tmp_path / "a.argosmodel").write_text("hello")
    with pytest.raises(ConversionError, match="is damaged or not an Argos package"):
        convert(tmp_path / "a.argosmodel")


# The command.


def test_the_command_writes_a_checkpoint_that_translates(tmp_path, monkeypatch, capsys):
    source, out = str(packed(package(tmp_path / "package"))), str(tmp_path / "out")
    monkeypatch.setattr("sys.argv", ["conversion", "ctranslate2", source, out])
    command.main()
    printed = capsys.readouterr().out
    assert f"CTranslate2 {ctranslate2.__version__}: largest difference" in printed
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "en → de" in card and "CTranslate2 only runs models" in card and "Argos Translate" in card
    assert AutoTokenizer.from_pretrained(out)(TEXT).input_ids
