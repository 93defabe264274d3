"""VaswaniConfig: presets against the paper's Table 3, what is refused and how, and the round trip through JSON."""

import json

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig

from vaswani_transformer import PRESETS, VaswaniConfig, VaswaniForConditionalGeneration


# Parameters x 10^6: as Table 3 prints them, then counted with 37,000 rows and no attention biases, then with the
# authors' 40,960 rows and attention biases. The big model's 213 is explained by neither.
PARAMETERS = {
    "base": (65, 63.05, 65.11),
    "table3-b-dk16": (58, 55.97, 58.02),
    "table3-b-dk32": (60, 58.33, 60.38),
    "table3-c-n2": (36, 33.64, 35.68),
    "table3-c-n4": (50, 48.35, 50.40),
    "table3-c-n8": (80, 77.75, 79.82),
    "table3-c-d256": (28, 26.82, 27.85),
    "table3-c-d1024": (168, 163.82, 167.94),
    "table3-c-ff1024": (53, 50.45, 52.51),
    "table3-c-ff4096": (90, 88.24, 90.30),
    "big": (213, 214.17, 218.30),
}

# Table 3 itself: N, d_model, d_ff, h, d_k, d_v, P_drop, eps_ls.
TABLE_3 = {
    "base": (6, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "table3-a-h1": (6, 512, 2048, 1, 512, 512, 0.1, 0.1),
    "table3-a-h4": (6, 512, 2048, 4, 128, 128, 0.1, 0.1),
    "table3-a-h16": (6, 512, 2048, 16, 32, 32, 0.1, 0.1),
    "table3-a-h32": (6, 512, 2048, 32, 16, 16, 0.1, 0.1),
    "table3-b-dk16": (6, 512, 2048, 8, 16, 64, 0.1, 0.1),
    "table3-b-dk32": (6, 512, 2048, 8, 32, 64, 0.1, 0.1),
    "table3-c-n2": (2, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "table3-c-n4": (4, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "table3-c-n8": (8, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "table3-c-d256": (6, 256, 2048, 8, 32, 32, 0.1, 0.1),
    "table3-c-d1024": (6, 1024, 2048, 8, 128, 128, 0.1, 0.1),
    "table3-c-ff1024": (6, 512, 1024, 8, 64, 64, 0.1, 0.1),
    "table3-c-ff4096": (6, 512, 4096, 8, 64, 64, 0.1, 0.1),
    "table3-d-dropout0": (6, 512, 2048, 8, 64, 64, 0.0, 0.1),
    "table3-d-dropout0.2": (6, 512, 2048, 8, 64, 64, 0.2, 0.1),
    "table3-d-smoothing0": (6, 512, 2048, 8, 64, 64, 0.1, 0.0),
    "table3-d-smoothing0.2": (6, 512, 2048, 8, 64, 64, 0.1, 0.2),
    "table3-e-learned": (6, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "big": (6, 1024, 4096, 16, 64, 64, 0.3, 0.1),
}


def meta_model(config: VaswaniConfig) -> VaswaniForConditionalGeneration:
    with torch.device("meta"):
        return VaswaniForConditionalGeneration(config)


def millions(model: torch.nn.Module) -> float:
    return sum(parameter.numel() for parameter in model.parameters()) / 1e6


@pytest.mark.parametrize(("preset", "counts"), PARAMETERS.items())
def test_parameter_counts(preset, counts):
    published, plain, authors = counts
    assert round(millions(meta_model(VaswaniConfig.from_preset(preset))), 2) == plain
    variant = VaswaniConfig.from_preset(preset, vocab_size=40_960, attention_bias=True)
    count = millions(meta_model(variant))
    assert round(count, 2) == authors
    assert (round(count) == published) == (preset != "big")


@pytest.mark.parametrize("size", ["base", "big"])
def test_2017_presets_are_the_authors_variant(size):
    config = VaswaniConfig.from_preset(f"{size}-t2t-2017")
    assert round(millions(meta_model(config)), 2) == PARAMETERS[size][2]
    assert (config.position_layout, config.position_divisor) == ("concatenated", "half_minus_one")


@pytest.mark.parametrize(("preset", "row"), TABLE_3.items())
def test_presets_are_the_rows_of_table_3(preset, row):
    layers, d_model, d_ff, heads, d_k, d_v, dropout, smoothing = row
    config = VaswaniConfig.from_preset(preset)
    model = meta_model(config)
    assert (len(model.model.encoder.layers), len(model.model.decoder.layers)) == (layers, layers)
    assert (config.vocab_size, config.label_smoothing) == (37_000, smoothing)
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        attention, feed_forward = layer.self_attn, layer.feed_forward
        assert (attention.num_heads, attention.d_k, attention.d_v) == (heads, d_k, d_v)
        assert attention.qkv_proj.weight.shape == (heads * (2 * d_k + d_v), d_model)
        assert feed_forward.fc1.weight.shape == (d_ff, d_model)
        assert layer.dropout == dropout
    assert config.position_encoding == ("learned" if preset == "table3-e-learned" else "sinusoidal")


def test_big_en_fr_differs_from_big_in_vocabulary_and_dropout():
    big, en_fr = (VaswaniConfig.from_preset(name).to_dict() for name in ("big", "big-en-fr"))
    changed = {name: en_fr[name] for name in big if big[name] != en_fr[name]}
    assert changed == {"vocab_size": 32_000, "decoder_vocab_size": 32_000, "dropout": 0.1}


def test_defaults_are_base_and_overrides_win():
    assert VaswaniConfig().to_dict() == VaswaniConfig.from_preset("base").to_dict()
    assert VaswaniConfig.from_preset("big", d_ff=64).d_ff == 64


def test_unknown_preset_names_those_there_are():
    with pytest.raises(ValueError, match="base-t2t-2017.*table3-c-n2"):
        VaswaniConfig.from_preset("bse")


REFUSED = {
    "wrong type": (dict(d_model="512"), ["d_model", "int"]),
    "a float for an int": (dict(d_model=512.0), ["d_model", "int"]),
    "a bool for an int": (dict(encoder_layers=True), ["encoder_layers", "int"]),
    "an int for a bool": (dict(attention_bias=1), ["attention_bias", "bool"]),
    "a string for a number": (dict(dropout="0.1"), ["dropout", "float"]),
    "layout": (dict(position_layout="alternating"), ["interleaved", "concatenated"]),
    "divisor": (dict(position_divisor="third"), ["half", "half_minus_one"]),
    "position encoding": (dict(position_encoding="rotary"), ["sinusoidal", "learned", "none"]),
    "norm position": (dict(norm_position="sandwich"), ["post", "pre"]),
    "sharing": (dict(share_embeddings="source"), ["all", "target", "none"]),
    "smoothing type": (dict(label_smoothing_type="fairseq"), ["t2t", "uniform"]),
    "activation": (dict(activation_function="rleu"), ["relu", "gelu", "silu"]),
    "encoder heads": (
        dict(encoder_attention_heads=7),
        ["512", "encoder_attention_heads", "divisor", "`d_k` and `d_v`"],
    ),
    "decoder heads": (dict(decoder_attention_heads=7, d_k=64), ["decoder_attention_heads", "`d_k` and `d_v`"]),
    "no layers": (dict(decoder_layers=0), ["decoder_layers", "at least 1"]),
    "no width": (dict(d_v=0), ["d_v", "at least 1"]),
    "odd width": (dict(d_model=63, d_k=8, d_v=8), ["d_model", "even"]),
    "learned without length": (dict(position_encoding="learned"), ["learned", "max_position_embeddings"]),
    "negative offset": (dict(position_offset=-1), ["position_offset", "at least 0"]),
    "two vocabularies, one matrix": (dict(decoder_vocab_size=9), ["37000", "9", "'target' or 'none'"]),
    "tied but not shared": (dict(share_embeddings="none", tie_word_embeddings=True), ["'all', 'target' or 'none'"]),
    "padding outside the vocabulary": (dict(pad_token_id=37_000), ["pad_token_id", "below 37000"]),
    "start outside the vocabulary": (dict(decoder_start_token_id=-1), ["decoder_start_token_id", "below 37000"]),
    "certain dropout": (dict(dropout=1.0), ["dropout", "less than 1"]),
    "negative smoothing": (dict(label_smoothing=-0.1), ["label_smoothing", "at least 0"]),
    "deviation": (dict(layer_norm_deviation="population"), ["biased", "unbiased"]),
    "no inner width in the decoder": (dict(decoder_d_ff=0), ["decoder_d_ff", "at least 1"]),
    "no epsilon": (dict(layer_norm_eps=0.0), ["layer_norm_eps", "greater than 0"]),
}


@pytest.mark.parametrize(("fields", "words"), REFUSED.values(), ids=REFUSED)
def test_refusals_say_what_is_allowed(fields, words):
    with pytest.raises(StrictDataclassError) as error:
        VaswaniConfig(**fields)
    for word in words:
        assert word in str(error.value)


def test_one_vocabulary_has_one_size(tmp_path):
    """`vocab_size` alone is enough where embeddings are shared, wherever it is set."""
    VaswaniConfig().save_pretrained(tmp_path)
    assigned = VaswaniConfig()
    assigned.vocab_size = 60
    for config in (
        VaswaniConfig(vocab_size=60),
        assigned,
        VaswaniConfig.from_pretrained(tmp_path, vocab_size=60),
        AutoConfig.from_pretrained(tmp_path, vocab_size=60),
    ):
        assert (config.vocab_size, config.decoder_vocab_size) == (60, 60)
        config.validate()


def test_two_vocabularies_have_two(tmp_path):
    VaswaniConfig(share_embeddings="target", vocab_size=50, decoder_vocab_size=70).save_pretrained(tmp_path)
    config = VaswaniConfig.from_pretrained(tmp_path, vocab_size=60)
    assert (config.vocab_size, config.decoder_vocab_size) == (60, 70)


@pytest.mark.parametrize("fields", [dict(tie_word_embeddings=False), dict(share_embeddings="none")], ids=str)
def test_either_name_unties(tmp_path, fields):
    VaswaniConfig().save_pretrained(tmp_path)
    for config in (VaswaniConfig(**fields), VaswaniConfig.from_pretrained(tmp_path, **fields)):
        config.validate()
        assert (config.share_embeddings, config.tie_word_embeddings) == ("none", False)
        model = meta_model(config)
        matrices = [model.model.encoder.embed_tokens, model.model.decoder.embed_tokens, model.lm_head]
        assert len({id(module.weight) for module in matrices}) == 3


def test_padding_may_be_the_end():
    """Such a model can be made, loaded and trained; it is `generate` that refuses it."""
    assert VaswaniConfig(pad_token_id=1, eos_token_id=1).pad_token_id == 1


def test_assignment_is_checked_too():
    config = VaswaniConfig()
    with pytest.raises(StrictDataclassError, match="expected int"):
        config.d_model = "512"


def test_a_config_file_is_checked_too(tmp_path):
    VaswaniConfig().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "position_layout": "alternating"}))
    with pytest.raises(StrictDataclassError, match="interleaved"):
        VaswaniConfig.from_pretrained(tmp_path)


# Fields that are filled in from others when they are unset, and None where the default is not None.
UNUSUAL = {
    "mixed norms": dict(norm_position="pre", decoder_norm_position="post", final_norm=False),
    "separate vocabularies": dict(vocab_size=100, decoder_vocab_size=37_000, share_embeddings="target"),
    "nothing shared": dict(share_embeddings="none"),
    "no special tokens": dict(pad_token_id=None, eos_token_id=None, decoder_start_token_id=None),
    "several ends": dict(eos_token_id=[1, 2]),
    "two inner widths": dict(d_ff=100, decoder_d_ff=200),
    "fairseq": dict(position_offset=2, layer_norm_eps=1e-5, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2),
}


@pytest.mark.parametrize("fields", [*PRESETS.values(), *UNUSUAL.values()], ids=[*PRESETS, *UNUSUAL])
def test_json_round_trip(fields, tmp_path):
    config = VaswaniConfig(**fields)
    config.save_pretrained(tmp_path)
    for loaded in (VaswaniConfig.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)):
        assert isinstance(loaded, VaswaniConfig)
        for name in VaswaniConfig.__annotations__:
            assert getattr(loaded, name) == getattr(config, name), name
        for name, value in fields.items():
            assert getattr(loaded, name) == value
