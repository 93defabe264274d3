"""Checkpoints that fairseq 0.12.2 and 0.6.2 wrote, and variants of them."""

import argparse
import json
from pathlib import Path

import pytest
import torch

from conversion.core import ConversionError
from conversion.from_fairseq import TABLE, convert
from conversion.verify import compare_recorded


FILES = Path(__file__).parent / "fixtures" / "fairseq"
KINDS = ["base", "tieddec", "old_0.6.2"]


def saved(kind: str) -> dict:
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(FILES / kind / "checkpoint_last.pt", weights_only=True)


@pytest.fixture
def changed(tmp_path):
    """A base checkpoint with other options or tensors."""

    def make(tensors=None, **options) -> Path:
        checkpoint = saved("base")
        vars(checkpoint["cfg"]["model"]).update(options)
        checkpoint["model"].update(tensors or {})
        checkpoint["model"] = {name: tensor for name, tensor in checkpoint["model"].items() if tensor is not None}
        torch.save(checkpoint, tmp_path / "checkpoint_last.pt")
        return tmp_path / "checkpoint_last.pt"

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_translations_are_fairseqs(kind):
    parity = compare_recorded(convert(FILES / kind).model(), FILES / kind / "reference.npz")
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree
    assert parity.translations_agree == parity.translations == 24


@pytest.mark.parametrize("kind", KINDS)
def test_a_swapped_bias_would_be_seen(kind):
    converted = convert(FILES / kind)
    name = "model.decoder.layers.1.feed_forward.fc2.bias"
    converted.weights = {**converted.weights, name: torch.zeros_like(converted.weights[name])}
    assert not compare_recorded(converted.model(), FILES / kind / "reference.npz").holds


def test_the_table_reads_backwards():
    converted = convert(FILES / "tieddec")
    theirs = saved("tieddec")["model"]
    written = TABLE.write(converted.weights, converted.config)
    assert written.keys() == {name for name in theirs if not TABLE.ignored.fullmatch(name)}
    assert all(torch.equal(theirs[name], tensor) for name, tensor in written.items())


def test_ids_and_ranking_are_fairseqs():
    converted = convert(FILES / "base")
    config, record = converted.config, json.loads((FILES / "base" / "reference.json").read_text())
    assert (config.pad_token_id, config.eos_token_id) == (record["ids"]["pad"], record["ids"]["eos"])
    assert config.decoder_start_token_id == record["ids"]["decoder_start"]
    assert converted.generation.length_penalty_offset == 0


def test_learned_positions_start_at_their_third_row(changed):
    table = torch.randn(20, 32)
    path = changed(
        {f"{stack}.embed_positions.weight": table for stack in ("encoder", "decoder")},
        encoder_learned_pos=True,
        decoder_learned_pos=True,
    )
    model = convert(path).model()
    embedded = model.model.encoder.embedding(torch.nn.Embedding(112, 32), None, torch.zeros(1, 18, 32), None)
    assert torch.equal(embedded[0], table[2:])


def test_pre_norm_stacks_have_final_norms(changed):
    norms = {f"{s}.layer_norm.{p}": torch.rand(32) for s in ("encoder", "decoder") for p in ("weight", "bias")}
    converted = convert(changed(norms, encoder_normalize_before=True, decoder_normalize_before=True))
    assert converted.config.norm_position == converted.config.decoder_norm_position == "pre"
    assert torch.equal(converted.model().model.decoder.norm.bias, norms["decoder.layer_norm.bias"])


def test_the_first_pre_norm_stacks_had_no_final_norms(changed):
    converted = convert(changed(encoder_normalize_before=True, decoder_normalize_before=True))
    assert converted.config.final_norm is False
    assert isinstance(converted.model().model.decoder.norm, torch.nn.Identity)


def test_a_final_norm_after_one_stack_alone_is_refused(changed):
    norm = {f"encoder.layer_norm.{p}": torch.rand(32) for p in ("weight", "bias")}
    with pytest.raises(ConversionError, match="one of two pre-norm stacks"):
        convert(changed(norm, encoder_normalize_before=True, decoder_normalize_before=True))


def test_nested_options_are_those_of_the_stacks(tmp_path):
    checkpoint = saved("base")
    flat = vars(checkpoint["cfg"]["model"])
    nested = {}
    for name, value in flat.items():
        stack, _, rest = name.partition("_")
        if stack in ("encoder", "decoder"):
            nested.setdefault(stack, {})[rest] = value
        else:
            nested[name] = value
    checkpoint["cfg"]["model"] = nested
    torch.save(checkpoint, tmp_path / "checkpoint_last.pt")
    assert convert(tmp_path).config.to_dict() == convert(FILES / "base").config.to_dict()


def test_everything_unsupported_is_named_at_once(changed):
    path = changed(
        layernorm_embedding=True, adaptive_softmax_cutoff=[10], activation_fn="relu_squared", arch="lightconv"
    )
    with pytest.raises(ConversionError) as error:
        convert(path)
    for option in (
        "layernorm_embedding",
        "adaptive_softmax_cutoff",
        "activation_fn='relu_squared'",
        "arch='lightconv'",
    ):
        assert option in str(error.value)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"encoder.layers.0.fc1.bias": None}, "encoder.layers.0.fc1.bias is missing"),
        ({"encoder.layers.0.gate.weight": torch.ones(2)}, "encoder.layers.0.gate.weight has no place"),
        ({"decoder.layers.1.fc2.weight": torch.ones(32, 60)}, r"decoder.layers.1.fc2.weight: \[32, 60\] does not fit"),
        ({"decoder.output_projection.weight": torch.ones(112, 32)}, "one matrix, but they differ"),
    ],
)
def test_tensors_that_do_not_fit_the_options_are_named(changed, tensors, message):
    with pytest.raises(ConversionError, match=message):
        convert(changed(tensors)).model()


def test_other_files_are_refused(tmp_path):
    torch.save({"model": {"weight": torch.ones(2)}}, tmp_path / "other.pt")
    with pytest.raises(ConversionError, match="no checkpoint of fairseq"):
        convert(tmp_path / "other.pt")
    with pytest.raises(FileNotFoundError, match="neither a file nor a folder"):
        convert(tmp_path / "nothing")
