"""Checkpoints that tensor2tensor 1.15.7 wrote on TensorFlow 1.15.5, and the logits that it gave.

`base_v1` was trained; the optimiser's moments in its data file are zeroed and the file is compressed, to keep it small.
The others have random weights and other options. `bundle` is of TensorFlow alone, in two data files; beside it is
base_v1's index, compressed with Snappy.
"""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from conversion.__main__ import main
from conversion.files.tensor2tensor import canonical, embeddings, weights
from conversion.files.tensor_bundle import read_bundle
from conversion.options import ConversionError
from conversion.parity.recorded import compare_recorded
from conversion.segmentation.tensor2tensor import fits
from conversion.toolkits.tensor2tensor import WEIGHTS, convert


ALL = Path(__file__).parents[2] / "fixtures" / "tensor2tensor"
FILES = ALL / "base_v1"
DATA = "model.ckpt-300.data-00001-of-00002"
HPARAMS = json.loads((FILES / "hparams.json").read_text())


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    folder = tmp_path / "base_v1"
    shutil.copytree(FILES, folder)
    (folder / DATA).write_bytes(gzip.decompress((folder / f"{DATA}.gz").read_bytes()))
    return folder


@pytest.fixture
def as_npz(tmp_path):
    """The variables of a fixture as variables.npz, changed."""

    def make(name: str, without=(), **more) -> Path:
        tensors = read_bundle(ALL / name / "model.ckpt-1.index", weights)
        arrays = {key: tensor.numpy() for key, tensor in tensors.items() if key not in without}
        np.savez(tmp_path / "variables.npz", **arrays, **more)
        shutil.copy(ALL / name / "hparams.json", tmp_path)
        return tmp_path

    return make


def test_logits_and_translations_are_tensor2tensors(checkpoint):
    parity = compare_recorded(convert(checkpoint).model(), FILES / "reference.npz")
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree
    assert parity.translations_agree == parity.translations == 16  # greedy, and beam 4 with alpha 0.6


@pytest.mark.parametrize(
    "name, share_embeddings, settings",
    [
        ("base_v2", "all", dict(norm_position="pre", attention_dropout=0.1)),
        ("base_v3_untied", "none", dict(norm_position="pre", vocab_size=23, decoder_vocab_size=19)),
        ("big_shared_embedding", "none", dict(dropout=0.3)),  # and with target space 7
        ("two_vocabularies", "none", dict(vocab_size=23, decoder_vocab_size=19)),  # though hparams.json shares
        ("channels", "all", dict(d_k=4, d_v=6, encoder_layers=1, decoder_layers=3)),
        ("learned", "all", dict(position_encoding="learned", scale_embedding=False)),
        ("no_space", "all", dict(position_encoding="none", source_space_embedding=False, layer_norm_eps=1e-3)),
    ],
)
def test_other_options_give_the_same_logits(name, share_embeddings, settings):
    record = json.loads((ALL / name / "reference.json").read_text())
    converted = convert(ALL / name, target_space_id=record["target_space_id"])
    parity = compare_recorded(converted.model(), ALL / name / "reference.npz")
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree
    assert converted.config.share_embeddings == share_embeddings
    assert {field: getattr(converted.config, field) for field in settings} == settings


def test_the_table_reads_backwards():
    name = ALL / "base_v2"
    theirs = canonical(read_bundle(name / "model.ckpt-1.index", weights), "layer_prepostprocess")
    theirs |= embeddings(theirs)
    converted = convert(name)
    written = WEIGHTS.write(converted.weights, converted.config)
    assert written.keys() == theirs.keys()
    theirs["target_space_embedding.kernel"] = theirs["target_space_embedding.kernel"][:1]
    assert all(torch.equal(theirs[key], tensor) for key, tensor in written.items())


def test_what_optimisers_keep_is_ignored(as_npz):
    slots = ("Adam", "Adam_1", "Adafactor", "Ftrl")
    kept = {f"transformer/body/encoder/layer_0/ffn/conv1/bias/{slot}": np.ones(24) for slot in slots}
    folder = as_npz("base_v2", **kept, **{"losses_avg/problem_0/total_loss": np.ones(())})
    assert compare_recorded(convert(folder).model(), ALL / "base_v2" / "reference.npz").holds


def test_other_variables_are_not_ignored(as_npz):
    folder = as_npz("base_v2", **{"transformer/body/encoder/layer_0/ffn/gate": np.ones(24, np.float32)})
    with pytest.raises(ConversionError, match="layer_0.ffn.gate is not part of this model"):
        convert(folder)


def test_target_spaces_are_told_apart(checkpoint):
    default, other = (convert(checkpoint, target_space_id=i) for i in (None, 7))
    name = "model.encoder.embedding.space.weight"
    assert not torch.equal(default.weights[name], other.weights[name])
    with pytest.raises(ConversionError, match="0 to 31"):
        convert(checkpoint, target_space_id=32)


def test_two_vocabularies_are_told_apart_by_their_sizes(tmp_path):
    shutil.copytree(ALL / "two_vocabularies", tmp_path, dirs_exist_ok=True)
    paths = [tmp_path / f"vocab.toy.subwords.{language}" for language in ("de", "en")]
    for path, size in zip(paths, (19, 23), strict=True):  # the source's comes second
        path.write_text("".join(f"'{token}_'\n" for token in ["<pad>", "<EOS>", *map(str, range(size - 2))]))
    converted = convert(tmp_path)
    assert len(converted.tokenizer) == 23 and len(converted.target_tokens) == 19
    with pytest.raises(ConversionError, match="--vocab SOURCE_FILE TARGET_FILE"):
        convert(tmp_path, vocab=paths)
    paths[1].write_text(paths[0].read_text())
    with pytest.raises(ConversionError, match="--vocab SOURCE_FILE TARGET_FILE"):
        convert(tmp_path)


def test_an_unknown_target_space_is_what_the_error_points_at(tmp_path, capsys):
    source = ALL / "big_shared_embedding"  # of a target space that its hparams.json does not name
    with pytest.raises(SystemExit):
        main(["tensor2tensor", str(source), str(tmp_path / "out")])
    assert (
        "differs from the original" in (error := capsys.readouterr().err)
        and "pass --target-space-id N, from 0 to 31" in error
    )
    with pytest.raises(SystemExit):
        main(["tensor2tensor", str(source), str(tmp_path / "out"), "--target-space-id", "0"])
    assert "pass --target-space-id" not in capsys.readouterr().err, "it was given"


def test_a_vocabulary_that_was_cut_is_refused(checkpoint):
    file = checkpoint / "vocab.toy.subwords"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:13]), encoding="utf-8")
    with pytest.raises(ConversionError, match=r"vocab.toy.subwords \(1[34] tokens\)"):
        convert(checkpoint)


def test_a_vocabulary_may_be_padded_to_a_multiple(checkpoint):
    size = len((checkpoint / "vocab.toy.subwords").read_text(encoding="utf-8").splitlines())
    assert fits(size, size, 1) and fits(size - 1, size, size) and not fits(size - 1, size, 1)


def test_tensors_of_all_types_are_read_from_several_files():
    index = ALL / "bundle" / "model.ckpt-3.index"
    tensors = read_bundle(
        index, lambda names: {"half", "single", "scalar", "scope/double", "scope/brain", "scope/empty"}
    )
    shapes = {"half": (5, 6), "single": (2, 3, 4), "scope/double": (7,), "scope/brain": (3, 4)}
    for name, shape in shapes.items():
        assert torch.equal(tensors[name].double(), torch.arange(np.prod(shape)).double().view(shape) / 8 - 3)
    kinds = {name.rpartition("/")[2]: tensor.dtype for name, tensor in tensors.items()}
    assert kinds["half"] == torch.float16 and kinds["brain"] == torch.bfloat16 and kinds["double"] == torch.float64
    assert tensors["scalar"] == 0.25 and tensors["scope/empty"].shape == (0, 3)
    for name in ("parts", "count"):  # a variable in parts, and whole numbers
        with pytest.raises(ConversionError, match=f"{name} is partitioned"):
            read_bundle(index, lambda names, name=name: [name])


def test_an_index_from_before_tensorflow_1_1_is_refused(checkpoint):
    """It is compressed, which no version does that wrote a layout known here."""
    shutil.copy(ALL / "bundle" / "snappy.ckpt-300.index", checkpoint / "model.ckpt-300.index")
    with pytest.raises(ConversionError, match="compressed.*not supported"):
        convert(checkpoint)


def test_texts_are_encoded_as_recorded(checkpoint):
    record = json.loads((FILES / "reference.json").read_text())
    tokenizer = convert(checkpoint).tokenizer
    encoded = tokenizer(record["source"])["input_ids"]
    with np.load(FILES / "reference.npz") as recorded:
        masks = recorded["attention_mask"].astype(bool)
        assert encoded == [ids[mask].tolist() for ids, mask in zip(recorded["input_ids"], masks, strict=True)]
    for sentence in record["generate"]["greedy"]:
        assert tokenizer.decode(sentence[0]["ids"], skip_special_tokens=True) == sentence[0]["text"]


def test_odd_texts_are_encoded_as_by_its_encoder(checkpoint):
    """`encoded.json` is what its SubwordTextEncoder gave, for texts without spaces around, as it reads them."""
    tokenizer = convert(checkpoint).tokenizer
    recorded = json.loads((ALL / "encoded.json").read_text(encoding="utf-8"))
    for text, ids in recorded["encoded"]:
        assert tokenizer(text)["input_ids"] == [*ids, 1], text
    for ids, text in recorded["decoded"]:
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    "option, value",
    [
        ("self_attention_type", "dot_product_relative"),
        ("ffn_layer", "conv_relu_conv"),
        ("norm_type", "noam"),
        ("proximity_bias", True),
        ("unidirectional_encoder", True),
        ("causal_decoder_self_attention", False),
        ("attention_variables_3d", True),
        ("hard_attention_k", 4),
        ("layer_preprocess_sequence", "n"),
        ("layer_postprocess_sequence", "dnz"),
        ("prepend_mode", "prepend_inputs_masked_attention"),
        ("weight_dtype", "bfloat16"),
        ("target_modality", "symbol:ctc"),
        ("pos", "timing_from_features"),
        ("multiply_embedding_mode", "rescale"),
        ("num_heads", "four"),
        ("num_heads", 5),
    ],
)
def test_what_is_not_supported_is_refused_by_name(checkpoint, option, value):
    (checkpoint / "hparams.json").write_text(json.dumps({**HPARAMS, option: value}))
    with pytest.raises(ConversionError, match=option):
        convert(checkpoint)


def test_everything_refused_is_named_at_once(checkpoint):
    (checkpoint / "hparams.json").write_text(
        json.dumps({**HPARAMS, "proximity_bias": True, "norm_type": "batch", "num_area_layers": 1, "max_area_width": 2})
    )
    with pytest.raises(ConversionError, match="(?s)norm_type.*proximity_bias.*area"):
        convert(checkpoint)


def test_norms_in_another_place_than_hparams_say_have_no_place(checkpoint):
    pre_norm = {"layer_preprocess_sequence": "n", "layer_postprocess_sequence": "da"}
    (checkpoint / "hparams.json").write_text(json.dumps({**HPARAMS, **pre_norm}))
    with pytest.raises(ConversionError, match="missing"):
        convert(checkpoint)


@pytest.mark.parametrize("position", [0.1, 0.5, 0.9])
def test_a_changed_byte_of_the_index_is_noticed(checkpoint, position):
    index = checkpoint / "model.ckpt-300.index"
    content = bytearray(index.read_bytes())
    content[int(position * len(content))] ^= 1
    index.write_bytes(content)
    with pytest.raises(ConversionError):
        convert(checkpoint)


def test_a_changed_byte_of_a_weight_is_noticed(checkpoint):
    content = bytearray((checkpoint / DATA).read_bytes())
    content[-1000] ^= 1
    (checkpoint / DATA).write_bytes(content)
    with pytest.raises(ConversionError, match=rf"{DATA} .*is damaged"):
        convert(checkpoint)


@pytest.mark.parametrize("name", ["model.ckpt-300.index", DATA])
@pytest.mark.parametrize("kept", [0, 10, 0.3, 0.99])
def test_files_that_are_cut_off_are_refused(checkpoint, name, kept):
    content = (checkpoint / name).read_bytes()
    (checkpoint / name).write_bytes(content[: kept if kept >= 1 else int(kept * len(content))])
    with pytest.raises(ConversionError):
        convert(checkpoint)


def test_a_lost_data_file_is_named(checkpoint):
    (checkpoint / DATA).unlink()
    with pytest.raises(FileNotFoundError, match=DATA):
        convert(checkpoint)


def test_a_lost_shard_is_refused(as_npz):
    folder = as_npz("base_v3_untied", without=["transformer/symbol_modality_23_16/input_emb/weights_1"])
    with pytest.raises(ConversionError, match="symbol_modality_23: shards of input_emb"):
        convert(folder)


@pytest.mark.parametrize(
    "content", [b"", b"not numpy's", b"PK\x03\x04 and then nothing"], ids=["empty", "text", "half an archive"]
)
def test_an_npz_that_is_none_is_refused(as_npz, content):
    folder = as_npz("base_v2")
    (folder / "variables.npz").write_bytes(content)
    with pytest.raises(ConversionError, match="damaged"):
        convert(folder)


def test_pickled_arrays_are_not_loaded(as_npz):
    folder = as_npz("base_v2", **{"transformer/body/x": np.array([object()])})
    with pytest.raises(ConversionError, match="pickle"):
        convert(folder)


@pytest.mark.parametrize("content", ["", "[]", "{}", "{"], ids=repr)
def test_other_json_is_no_hparams(checkpoint, content):
    (checkpoint / "hparams.json").write_text(content)
    with pytest.raises(ConversionError, match="hparams.json"):
        convert(checkpoint)


def test_hparams_are_needed(checkpoint):
    (checkpoint / "hparams.json").rename(checkpoint / "elsewhere.json")
    with pytest.raises(FileNotFoundError, match="--hparams"):
        convert(checkpoint)
    assert convert(checkpoint, hparams=checkpoint / "elsewhere.json").config.d_model == 32


def test_of_several_checkpoints_the_latest_is_read(checkpoint):
    assert "model.ckpt-300.index" in convert(checkpoint).facts["files"]
    (checkpoint / "checkpoint").unlink()
    for path in [*checkpoint.glob("model.ckpt-300.*")]:
        shutil.copy(path, checkpoint / path.name.replace("300", "1000"))
    assert "model.ckpt-1000.index" in convert(checkpoint).facts["files"]
    assert "model.ckpt-300.index" in convert(checkpoint / "model.ckpt-300").facts["files"]
