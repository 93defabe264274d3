"""A state dict of the Annotated Transformer (2022); its tables of positions are cut to 64 rows, to keep it small."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from conversion.options import ConversionError
from conversion.parity.recorded import compare_recorded
from conversion.toolkits.annotated import WEIGHTS, convert, usual_names


FILES = Path(__file__).parents[2] / "fixtures" / "annotated_transformer" / "base"


@pytest.fixture
def changed(tmp_path):
    """The folder with other tensors or another description."""

    def change(tensors=None, **description) -> Path:
        shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
        state = {**torch.load(FILES / "model.pt", weights_only=True), **(tensors or {})}
        torch.save({name: tensor for name, tensor in state.items() if tensor is not None}, tmp_path / "model.pt")
        if description:
            (tmp_path / "description.json").write_text(json.dumps(description))
        return tmp_path

    return change


def test_logits_and_translations_are_its_own():
    parity = compare_recorded(convert(FILES).model(), FILES / "reference.npz")
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree
    assert parity.translations_agree == parity.translations == 16  # its own greedy search, and another


def test_its_norm_is_not_the_usual_one():
    converted = convert(FILES)
    converted.config.layer_norm_deviation = "biased"
    assert not compare_recorded(converted.model(), FILES / "reference.npz").holds


def test_the_table_reads_backwards():
    converted = convert(FILES)
    theirs = usual_names(torch.load(FILES / "model.pt", weights_only=True))
    written = WEIGHTS.write(converted.weights, converted.config)
    assert written.keys() == {name for name in theirs if "_embed.1." not in name}
    assert all(torch.equal(theirs[name], tensor) for name, tensor in written.items())


def test_a_description_counts_more_than_a_reference(changed):
    config = convert(changed(heads=2, ids={"pad": 3, "unk": 2})).config
    assert (config.encoder_attention_heads, config.pad_token_id, config.eos_token_id) == (2, 3, 1)


def test_heads_have_to_be_said(changed):
    folder = changed()
    (folder / "reference.json").unlink()
    with pytest.raises(ConversionError, match="--heads"):
        convert(folder)
    assert compare_recorded(convert(folder, heads=4).model(), FILES / "reference.npz").holds
    assert not compare_recorded(convert(folder, heads=8).model(), FILES / "reference.npz").holds


def test_shared_matrices_are_kept_once(changed):
    matrix = torch.randn(60, 32)
    names = ("src_embed.0.lut.weight", "tgt_embed.0.lut.weight", "generator.proj.weight")
    folder = changed(dict.fromkeys(names, matrix))
    (folder / "vocab.src.txt").unlink()
    assert convert(folder).config.share_embeddings == "all"
    folder = changed({"generator.proj.weight": torch.load(FILES / "model.pt")["tgt_embed.0.lut.weight"]})
    assert convert(folder).config.share_embeddings == "target"


def test_texts_are_encoded_as_recorded():
    record = json.loads((FILES / "reference.json").read_text())
    with np.load(FILES / "reference.npz") as recorded:
        rows = zip(recorded["input_ids"], recorded["attention_mask"].astype(bool), strict=True)
        expected = [ids[mask].tolist() for ids, mask in rows]
    assert convert(FILES).tokenizer(record["source_bpe"])["input_ids"] == expected


@pytest.mark.parametrize(
    "change, said",
    [
        ({"encoder.layers.0.sublayer.0.norm.a_2": None}, "norm.weight is missing"),
        ({"encoder.layers.0.self_attn.relative.weight": torch.zeros(2, 2)}, "is not part of this model"),
        ({"encoder.norm.a_2": None, "encoder.norm.weight": torch.ones(32)}, "norms with weight and bias"),
        ({"src_embed.1.pe": None}, "src_embed.1.pe"),
        ({"src_embed.1.pe": torch.randn(1, 9, 32)}, "different kinds"),
        ({"generator.proj.weight": torch.zeros(32)}, "generator.proj"),
        ({"decoder.layers.1.src_attn.linears.1.weight": torch.zeros(31, 32)}, "does not fit"),
        ({"generator.proj.weight": torch.zeros(61, 32)}, "does not fit"),
    ],
    ids=lambda x: x if isinstance(x, str) else "-".join(x),
)
def test_other_models_are_refused(changed, change, said):
    with pytest.raises(ConversionError, match=said):
        convert(changed(change))


def test_learned_positions_are_read(changed):
    table = torch.randn(1, 20, 32)
    converted = convert(changed({"src_embed.1.pe": table, "tgt_embed.1.pe": table}))
    assert converted.config.position_encoding == "learned" and converted.config.max_position_embeddings == 20
    assert torch.equal(converted.weights["model.encoder.embedding.positions.weight"], table[0])


@pytest.mark.parametrize("kept", [0, 100, 200_000])
def test_a_file_that_is_cut_off_is_refused(changed, kept):
    folder = changed()
    path = folder / "model.pt"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ConversionError, match="damaged|is empty"):
        convert(folder)
