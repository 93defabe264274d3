"""Checkpoints that OpenNMT-py 3.5.1 and 2.3.0 wrote, and variants of them."""

import argparse
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from conversion import __main__ as command
from conversion.options import ConversionError
from conversion.parity.recorded import compare_recorded
from conversion.toolkits.opennmt import WEIGHTS, convert
from vaswani_transformer.model.modeling_vaswani import sinusoidal_positions
from vaswani_transformer.model.tokenization_vaswani import VaswaniTokenizer


FILES = Path(__file__).parents[2] / "fixtures" / "opennmt"
PIECES = FILES.parent / "joeynmt" / "base" / "joint.model"
KINDS = ["base", "qkvbias"]  # trained; with translations
# The texts behind the ids that OpenNMT-py recorded, before they were cut by bpe.codes.
SOURCES = ["x-ray mü rema bo ?", "rülü x-ray ba make Anna 1984 büsho lürosho düki 42 ritashü ?"]


def saved(kind: str) -> dict:
    with torch.serialization.safe_globals([argparse.Namespace, set]):
        return torch.load(FILES / kind / "model.pt", weights_only=True)


@pytest.fixture
def changed(tmp_path):
    """A base checkpoint with other options, tensors or entries."""

    def make(tensors=None, entries=None, **options) -> Path:
        checkpoint = {**saved("base"), **(entries or {})}
        vars(checkpoint["opt"]).update(options)
        checkpoint["model"].update(tensors or {})
        checkpoint["model"] = {name: tensor for name, tensor in checkpoint["model"].items() if tensor is not None}
        torch.save(checkpoint, tmp_path / "model.pt")
        return tmp_path / "model.pt"

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_translations_are_opennmts(kind):
    converted = convert(FILES / kind)
    parity = compare_recorded(converted.model(), FILES / kind / "reference.npz", tokens=converted.target_tokens)
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree
    assert parity.translations_agree == parity.translations == 12  # greedy, and beam 4 with both penalties


def test_a_file_of_version_2_with_torchtexts_vocabularies():
    converted = convert(FILES / "version2")
    assert converted.target_tokens[:4] == ["<unk>", "<blank>", "<s>", "</s>"] and len(converted.target_tokens) == 60
    assert converted.config.attention_bias and converted.config.feed_forward_bias
    assert converted.generation.length_penalty == 0
    parity = compare_recorded(converted.model(), FILES / "version2" / "reference.npz")
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree and parity.positions == 18


@pytest.mark.parametrize("kind", ["options", "half"])
def test_models_with_other_options(kind):
    """Of random weights. "options" has all biases, three matrices, two vocabularies, GELU, SinusoidalConcat and another
    epsilon; "half" was saved in half precision, its tables of positions too, and the toolkit ran it in float32."""
    converted = convert(FILES / kind)
    parity = compare_recorded(converted.model(), FILES / kind / "reference.npz")
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree and parity.positions == 18
    assert converted.config.position_encoding == ("learned" if kind == "half" else "sinusoidal")


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_norm_would_be_seen(kind):
    converted = convert(FILES / kind)
    name = "model.decoder.norm.bias"
    converted.weights = {**converted.weights, name: torch.zeros_like(converted.weights[name])}
    assert not compare_recorded(converted.model(), FILES / kind / "reference.npz").holds


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_reads_backwards(kind):
    converted, theirs = convert(FILES / kind), saved(kind)
    written = WEIGHTS.write(converted.weights, converted.config)
    theirs = {**theirs["model"], **{f"generator.{name}": tensor for name, tensor in theirs["generator"].items()}}
    assert written.keys() == {name for name in theirs if not name.endswith(".pe.pe")}
    assert all(torch.equal(theirs[name], tensor) for name, tensor in written.items())


def test_biases_are_where_the_file_has_them():
    assert not convert(FILES / "base").config.attention_bias
    assert convert(FILES / "qkvbias").config.attention_bias
    assert not convert(FILES / "qkvbias").config.feed_forward_bias


def test_ids_and_ranking_are_opennmts():
    converted = convert(FILES / "base")
    config, generation = converted.config, converted.generation
    assert (config.pad_token_id, config.eos_token_id, config.decoder_start_token_id) == (1, 3, 2)
    # `-length_penalty avg` divides by the number of tokens and one more, the start token.
    assert (generation.length_penalty, generation.length_penalty_offset) == (1.0, 1)


def test_another_start_token(changed):
    vocab = {**saved("base")["vocab"], "decoder_start_token": "</s>"}
    assert convert(changed(entries={"vocab": vocab})).config.decoder_start_token_id == 3


def test_positions_are_those_that_the_file_holds(changed):
    config = convert(FILES / "base").config
    names = [f"{side}.embeddings.make_embedding.pe.pe" for side in ("encoder", "decoder")]
    table = sinusoidal_positions(torch.arange(64) + 2, config)[:, None]
    assert convert(changed(dict.fromkeys(names, table))).config.position_offset == 2
    table = torch.randn_like(table)
    other = convert(changed(dict.fromkeys(names, table)))
    assert (other.config.position_encoding, other.config.max_position_embeddings) == ("learned", 64)
    assert torch.equal(other.weights["model.decoder.embedding.positions.weight"], table[:, 0])
    with pytest.raises(ConversionError, match="different kinds or lengths"):
        convert(changed({names[0]: table, names[1]: table[:50]}))


def test_without_positions_embeddings_are_not_scaled(changed):
    config = convert(changed(position_encoding=False)).config
    assert config.position_encoding == "none" and not config.scale_embedding


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pos_ffn_activation_fn": "gelu"}, {"activation_function": "gelu"}),
        ({"norm_eps": 1e-5}, {"layer_norm_eps": 1e-5}),
        ({"share_decoder_embeddings": False}, {"share_embeddings": "none"}),
        ({"share_embeddings": False}, {"share_embeddings": "target"}),
        ({"num_kv": 4, "lambda_align": 0.05, "alignment_heads": 1}, {}),  # the same function
    ],
)
def test_options_that_are_mapped(changed, options, expected):
    config = convert(changed(**options)).config
    assert {name: getattr(config, name) for name in expected} == expected


def test_everything_unsupported_is_named_at_once(changed):
    options = dict(
        copy_attn=True, parallel_residual=True, layer_norm="rms", max_relative_positions=-1, num_kv=2, num_experts=2,
        self_attn_type="average", sliding_window=8, lora_layers=["linear_query"], quant_layers=["w_1"], n_src_feats=1,
        generator_function="sparsemax", model_task="lm", encoder_type="brnn", decoder_type="transformer_lm",
    )  # fmt: skip
    with pytest.raises(ConversionError) as error:
        convert(changed(**options))
    assert all(f"{name}=" in str(error.value) for name in options)


@pytest.mark.parametrize("activation", ["silu", "gated-gelu"])
def test_gated_feed_forwards_are_refused(changed, activation):
    with pytest.raises(ConversionError, match=f"pos_ffn_activation_fn='{activation}'"):
        convert(changed(pos_ffn_activation_fn=activation))


def test_a_width_of_embeddings_other_than_the_models_is_refused(changed):
    with pytest.raises(ConversionError, match="src_word_vec_size=16"):
        convert(changed(word_vec_size=16))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"decoder.layer_norm.bias": None}, "decoder.layer_norm.bias is missing"),
        (
            {"encoder.transformer.0.feed_forward.w_3.weight": torch.zeros(64, 32)},
            "w_3.weight is not part of this model",
        ),
        ({"encoder.transformer.1.feed_forward.w_2.weight": torch.zeros(32, 63)}, "does not fit"),
        ({"decoder.transformer_layers.0.self_attn.linear_query.bias": torch.zeros(32)}, "linear_keys.bias is missing"),
    ],
)
def test_tensors_that_do_not_fit_the_options_are_named(changed, tensors, message):
    with pytest.raises(ConversionError, match=message):
        convert(changed(tensors))


def test_a_vocabulary_of_another_size_is_refused(changed):
    vocab = {**saved("base")["vocab"]}
    vocab["src"] = vocab["tgt"] = [*vocab["src"], "another"]
    with pytest.raises(ConversionError, match="a vocabulary of .* tokens with .* embeddings in the encoder"):
        convert(changed(entries={"vocab": vocab}))


# Tokenizers.


def recorded_sources(kind: str) -> list[list[int]]:
    with np.load(FILES / kind / "reference.npz") as file:
        rows = zip(file["input_ids"], file["attention_mask"], strict=True)
        return [ids[mask == 1].tolist() for ids, mask in rows][: len(SOURCES)]


def test_texts_are_cut_as_they_were(changed, tmp_path):
    """A source has no end. Without a segmentation in the options, its file is an argument."""
    given = convert(FILES / "base", codes=FILES / "bpe.codes").tokenizer
    assert [given(text).input_ids for text in SOURCES] == recorded_sources("base")
    (tmp_path / "some.codes").write_bytes((FILES / "bpe.codes").read_bytes())
    data = {"corpus": {"transforms": ["bpe", "filtertoolong"]}, "valid": {"transforms": []}}
    named = convert(changed(data=data, src_subword_model="x/some.codes")).tokenizer
    assert [named(text).input_ids for text in SOURCES] == recorded_sources("base")
    target = named(text_target=SOURCES[0]).input_ids
    assert target[-1] == 3 and named.decode(target, skip_special_tokens=True) == SOURCES[0]


def test_texts_in_pieces():
    made = convert(FILES / "base")
    assert made.facts["tokenizer_differences"]
    pieces = [made.target_tokens[i] for i in recorded_sources("base")[0]]
    assert made.tokenizer(" ".join(pieces)).input_ids == recorded_sources("base")[0]
    assert made.tokenizer.decode([*recorded_sources("base")[0], 3], skip_special_tokens=True) == SOURCES[0]


def test_a_model_of_sentencepiece(changed):
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(PIECES))
    size = len(saved("base")["vocab"]["src"])
    known = [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    tokens = (["<unk>", "<blank>", "<s>", "</s>", *known, *(f"averyunlikelytoken{i}" for i in range(size))])[:size]
    vocab = {"src": tokens, "tgt": tokens}
    path = changed(entries={"vocab": vocab}, transforms=["sentencepiece", "prefix"], src_subword_model=PIECES.name)
    without = convert(path)
    assert any("--spm FILE" in difference for difference in without.facts["tokenizer_differences"])
    made = convert(path, spm=PIECES)
    expected = [tokens.index(piece) if piece in tokens else 0 for piece in model.encode(SOURCES[0], out_type=str)]
    assert made.tokenizer(SOURCES[0]).input_ids == expected
    assert any("also applied prefix" in difference for difference in made.facts["tokenizer_differences"])


def test_pyonmttoks_tokenizer_is_not_made_anew(changed):
    made = convert(changed(transforms=["onmt_tokenize"]))
    assert "pyonmttok" in " ".join(made.facts["tokenizer_differences"])


def test_a_source_without_an_end(changed, tmp_path):
    """As version 2 makes vocabularies for source and target."""
    vocab = {**saved("base")["vocab"]}
    vocab["src"] = ["<unk>", "<blank>", *vocab["src"][4:], "x", "y"]
    path = changed(entries={"vocab": vocab}, share_embeddings=False, share_decoder_embeddings=False)
    convert(path, codes=FILES / "bpe.codes").tokenizer.save_pretrained(tmp_path / "saved")
    tokenizer = VaswaniTokenizer.from_pretrained(tmp_path / "saved")
    ids = recorded_sources("base")[0]
    batch = tokenizer([SOURCES[0], "?"])
    assert batch.input_ids[0] == [i - 2 for i in ids]
    assert tokenizer.pad([{"input_ids": [5]}, {"input_ids": [5, 6]}])["input_ids"][0] == [5, 1]
    target = tokenizer(text_target=SOURCES[0]).input_ids
    assert target == [*ids, 3] and tokenizer.decode([2, *target, 1], skip_special_tokens=True) == SOURCES[0]


def test_sides_with_other_special_tokens_have_no_tokenizer(changed):
    vocab = {**saved("base")["vocab"]}
    first, *remaining = vocab["src"]
    vocab["src"] = [remaining.pop(1), remaining.pop(0), first, *remaining]  # <s>, <blank>, <unk>, </s>
    made = convert(changed(entries={"vocab": vocab}, share_embeddings=False, share_decoder_embeddings=False))
    assert (
        made.tokenizer is None
        and "special tokens of source and target differ" in made.facts["tokenizer_differences"][0]
    )


def test_weights_in_safetensors(tmp_path):
    checkpoint = saved("base")
    generator = {f"generator.{name}": tensor.clone() for name, tensor in checkpoint.pop("generator").items()}
    tensors = {name: tensor.clone() for name, tensor in checkpoint.pop("model").items()}
    torch.save(checkpoint, tmp_path / "model.pt")
    with pytest.raises(ConversionError, match="model.safetensors is not beside it"):
        convert(tmp_path / "model.pt")
    save_file({**tensors, **generator}, tmp_path / "model.safetensors")
    converted = convert(tmp_path / "model.pt")
    assert compare_recorded(converted.model(), FILES / "base" / "reference.npz").max_difference < 1e-5
    assert converted.facts["files"].keys() == {"model.pt", "model.safetensors"}
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(ConversionError, match="not a safetensors file"):
        convert(tmp_path / "model.pt")


def test_other_files_are_refused(tmp_path, changed):
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "nothing.pt")
    torch.save({"model_state": {}}, tmp_path / "other.pt")
    with pytest.raises(ConversionError, match="not an OpenNMT-py checkpoint"):
        convert(tmp_path / "other.pt")
    whole = changed().read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConversionError, match="damaged"):
        convert(tmp_path / "cut.pt")
    with pytest.raises(ConversionError, match="Not a vocabulary of OpenNMT-py"):
        convert(changed(entries={"vocab": [("src", ["a"])]}))


class Hostile:
    def __reduce__(self):
        return print, ("this must never be printed",)


def test_code_in_a_file_does_not_run(changed, capsys):
    with pytest.raises(ConversionError, match="contains more than weights"):
        convert(changed(entries={"optim": Hostile()}))
    assert "never" not in capsys.readouterr().out


def test_the_command_writes_a_folder_with_what_was_checked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["conversion", "opennmt", str(FILES / "base"), str(tmp_path / "out")])
    command.main()
    assert "12 of 12 translations the same" in capsys.readouterr().out
    assert {"model.safetensors", "generation_config.json"} <= {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize(
    "options",
    [
        {"transforms": 3},
        {"hidden_size": "x"},
        {"dropout": []},
        {"enc_layers": 10**9, "layers": -1},
        {"hidden_size": 10**12, "word_vec_size": 10**12},
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused(changed, options):
    with pytest.raises(ConversionError):
        convert(changed(**options))


def test_options_are_a_group_of_settings(tmp_path):
    torch.save({**saved("base"), "opt": 3}, tmp_path / "model.pt")
    with pytest.raises(ConversionError, match="no options"):
        convert(tmp_path / "model.pt")
