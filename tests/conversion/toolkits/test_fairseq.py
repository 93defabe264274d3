"""Checkpoints that fairseq 0.12.2, 0.9.0 and 0.6.2 wrote, and variants of them.

Of the real ones, `pre_learned` is 3 + 1 pre-norm layers of other widths and heads with learned positions, gelu and
unscaled embeddings; `align_fp16` a transformer_align in half precision, whose pre-norm decoder has no final norm;
`pre_post_0.9.0` has a pre-norm encoder only.
"""

import argparse
import json
from pathlib import Path

import pytest
import torch

from conversion.options import ConversionError
from conversion.parity.recorded import compare_recorded
from conversion.toolkits.fairseq import WEIGHTS, convert


pytestmark = pytest.mark.quick


FILES = Path(__file__).parents[2] / "fixtures" / "fairseq"
KINDS = {"base": 24, "tieddec": 24, "old_0.6.2": 24, "pre_learned": 48, "align_fp16": 48, "pre_post_0.9.0": 40}


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
    assert parity.translations_agree == parity.translations == KINDS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_swapped_bias_would_be_seen(kind):
    converted = convert(FILES / kind)
    name = "model.decoder.layers.0.feed_forward.fc2.bias"
    converted.weights = {**converted.weights, name: torch.zeros_like(converted.weights[name])}
    assert not compare_recorded(converted.model(), FILES / kind / "reference.npz").holds


def test_the_table_reads_backwards():
    converted = convert(FILES / "tieddec")
    theirs = saved("tieddec")["model"]
    written = WEIGHTS.write(converted.weights, converted.config)
    assert written.keys() == {name for name in theirs if not WEIGHTS.ignored.fullmatch(name)}
    assert all(torch.equal(theirs[name], tensor) for name, tensor in written.items())


def test_ids_and_ranking_are_fairseqs():
    converted = convert(FILES / "base")
    config, record = converted.config, json.loads((FILES / "base" / "reference.json").read_text())
    assert (config.pad_token_id, config.eos_token_id) == (record["ids"]["pad"], record["ids"]["eos"])
    assert config.decoder_start_token_id == record["ids"]["decoder_start"]
    assert converted.generation.length_penalty_offset == 0


def test_options_of_real_checkpoints_are_read():
    configs = {kind: convert(FILES / kind).config for kind in ("pre_learned", "align_fp16", "pre_post_0.9.0")}
    config = configs["pre_learned"]
    assert (config.encoder_layers, config.decoder_layers, config.d_ff, config.decoder_d_ff) == (3, 1, 40, 24)
    assert (config.encoder_attention_heads, config.decoder_attention_heads) == (4, 2)
    assert (config.position_encoding, config.max_position_embeddings) == ("learned", 82)
    assert (config.activation_function, config.scale_embedding, config.share_embeddings) == ("gelu", False, "target")
    norms = {kind: (c.norm_position, c.decoder_norm_position, c.final_norm) for kind, c in configs.items()}
    assert norms == {
        "pre_learned": ("pre", "pre", None),
        "align_fp16": ("post", "pre", False),
        "pre_post_0.9.0": ("pre", "post", None),
    }


def test_learned_positions_start_at_their_third_row(changed):
    table = torch.randn(20, 32)
    path = changed(
        {f"{stack}.embed_positions.weight": table for stack in ("encoder", "decoder")},
        encoder_learned_pos=True,
        decoder_learned_pos=True,
    )
    model = convert(path).model()
    embedded = model.model.encoder.embedding(torch.zeros(1, 18, 32), None)
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


def test_tables_of_sinusoids_in_very_old_files_are_computed_anew(changed):
    converted = convert(changed({"encoder.embed_positions.weights": torch.zeros(9, 32)}))
    assert converted.config.to_dict() == convert(FILES / "base").config.to_dict()


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
    path = changed(layernorm_embedding=True, adaptive_softmax_cutoff=[10], activation_fn="hardtanh", arch="lightconv")
    with pytest.raises(ConversionError) as error:
        convert(path)
    for option in (
        "layernorm_embedding",
        "adaptive_softmax_cutoff",
        "activation_fn='hardtanh'",
        "arch='lightconv'",
    ):
        assert option in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(arch="transformer_lm_gpt"), "arch='transformer_lm_gpt'"),
        (dict(arch="transformer_unidirectional"), "arch='transformer_unidirectional'"),
        (dict(quant_noise={"pq": 0, "scalar": 0.3}), "quant_noise_scalar=0.3"),  # evaluates rounded weights
        (dict(encoder_xformers_att_config="{}"), "encoder_xformers_att_config"),
        (dict(decoder_output_dim="24"), "decoder_output_dim='24'"),
        (dict(simul_type="waitk"), "simul_type='waitk'"),
    ],
)
def test_what_the_weights_do_not_show_is_refused(changed, options, message):
    with pytest.raises(ConversionError, match=message):
        convert(changed(**options))


def test_a_task_that_tags_its_texts_is_refused(tmp_path):
    checkpoint = saved("base")
    checkpoint["cfg"]["task"]["_name"] = "translation_multi_simple_epoch"
    torch.save(checkpoint, tmp_path / "checkpoint_last.pt")
    with pytest.raises(ConversionError, match="task='translation_multi_simple_epoch'"):
        convert(tmp_path)


def test_learned_positions_of_two_lengths_are_refused(changed):
    tables = {f"{stack}.embed_positions.weight": torch.ones(n, 32) for stack, n in (("encoder", 20), ("decoder", 30))}
    with pytest.raises(ConversionError, match="different numbers of learned positions"):
        convert(changed(tables, encoder_learned_pos=True, decoder_learned_pos=True))


def test_of_an_ensemble_one_is_to_be_named(tmp_path):
    for name in ("model1.pt", "model2.pt"):
        torch.save(saved("base"), tmp_path / name)
    with pytest.raises(ConversionError, match=r"several checkpoints \(model1.pt, model2.pt\)"):
        convert(tmp_path)
    (tmp_path / "model2.pt").unlink()
    assert convert(tmp_path).config.d_model == 32


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"encoder.layers.0.fc1.bias": None}, "encoder.layers.0.fc1.bias is missing"),
        ({"encoder.layers.0.gate.weight": torch.ones(2)}, "encoder.layers.0.gate.weight is not part of this model"),
        ({"decoder.layers.1.fc2.weight": torch.ones(32, 60)}, r"decoder.layers.1.fc2.weight: \[32, 60\] does not fit"),
        ({"decoder.output_projection.weight": torch.ones(112, 32)}, "one matrix, but they differ"),
    ],
)
def test_tensors_that_do_not_fit_the_options_are_named(changed, tensors, message):
    with pytest.raises(ConversionError, match=message):
        convert(changed(tensors)).model()


def test_other_files_are_refused(tmp_path):
    torch.save({"model": {"weight": torch.ones(2)}}, tmp_path / "other.pt")
    with pytest.raises(ConversionError, match="not a fairseq checkpoint"):
        convert(tmp_path / "other.pt")
    with pytest.raises(FileNotFoundError, match="No such file|No checkpoint"):
        convert(tmp_path / "nothing")
