"""The names in the state dict, the ties between matrices, and what saving and loading keep of both."""

import copy
import re

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from model_examples import SHARING, assert_same_parameters, each_sharing, logits_of
from safetensors import safe_open
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniModel
from vaswani_transformer.loading import load_model


# Names and ties -------------------------------------------------------------------------------------------------------


def linear(name, bias=False):
    return [f"{name}.weight", f"{name}.bias"] if bias else [f"{name}.weight"]


def expected_names(share, attention_bias=False, softmax_bias=False, learned=False, final_norm=False):
    names = ["model.shared.weight"] if share == "all" else []
    for stack in ("encoder", "decoder"):
        names += [f"model.{stack}.embed_tokens.weight"]
        names += [f"model.{stack}.embedding.positions.weight"] if learned else []
        layer = f"model.{stack}.layers.0"
        names += linear(f"{layer}.self_attn.qkv_proj", attention_bias)
        names += linear(f"{layer}.self_attn.out_proj", attention_bias)
        names += linear(f"{layer}.self_attn_norm", True)
        if stack == "decoder":
            for projection in ("q_proj", "kv_proj", "out_proj"):
                names += linear(f"{layer}.cross_attn.{projection}", attention_bias)
            names += linear(f"{layer}.cross_attn_norm", True)
        for name in ("feed_forward.fc1", "feed_forward.fc2", "feed_forward_norm"):
            names += linear(f"{layer}.{name}", True)
        names += linear(f"model.{stack}.norm", True) if final_norm else []
    return sorted(names + linear("lm_head", softmax_bias))


@pytest.mark.parametrize(
    "options",
    [
        dict(share="all"),
        dict(share="target", attention_bias=True),
        dict(share="none", softmax_bias=True, final_norm=True),
        dict(share="all", learned=True),
    ],
)
def test_the_names_of_the_state_dict_are_the_interface(tiny_config, options):
    fields = dict(options, share_embeddings=options["share"])
    del fields["share"]
    if fields.pop("learned", False):
        fields.update(position_encoding="learned", max_position_embeddings=20)
    model = VaswaniForConditionalGeneration(tiny_config(encoder_layers=1, decoder_layers=1, **fields))
    assert sorted(model.state_dict()) == expected_names(**options)


def test_nothing_but_parameters_is_kept(tiny_model):
    """No position table, and no buffer that loading could leave uninitialised."""
    model = tiny_model()
    assert list(model.buffers()) == []
    assert not any("position" in name for name in model.state_dict())


@each_sharing
def test_ties(tiny_model, fields):
    model = tiny_model(**fields)
    source, target = model.model.encoder.embed_tokens.weight, model.model.decoder.embed_tokens.weight
    assert (source is target) == (fields["share_embeddings"] == "all")
    assert (model.lm_head.weight is target) == (fields["share_embeddings"] != "none")
    assert model.get_input_embeddings().weight is source
    assert model.get_output_embeddings() is model.lm_head
    assert model.get_encoder() is model.model.encoder
    assert model.get_decoder() is model.model.decoder
    assert (
        set(model.all_tied_weights_keys)
        == {
            "all": {"lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"},
            "target": {"lm_head.weight"},
            "none": set(),
        }[fields["share_embeddings"]]
    )


# Saving and loading ---------------------------------------------------------------------------------------------------


@each_sharing
@pytest.mark.parametrize(
    ("save", "load"),
    [
        (dict(), dict()),
        (dict(max_shard_size="8KB"), dict()),
        (dict(), dict(device_map="cpu")),
        (dict(max_shard_size="8KB"), dict(device_map="auto")),
        (dict(), dict(low_cpu_mem_usage=True, attn_implementation="eager")),
    ],
    ids=["plain", "sharded", "device_map cpu", "sharded, device_map auto", "eager"],
)
def test_round_trip(tiny_model, make_batch, tmp_path, fields, save, load):
    model, batch = tiny_model(**fields), make_batch()
    model.save_pretrained(tmp_path, **save)
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert (len(shards) > 1) == ("max_shard_size" in save)
    stored = [name for shard in shards for name in safe_open(shard, "pt").keys()]
    assert len(stored) == len(list(model.parameters())), "a tied matrix is stored once"

    torch.manual_seed(1)
    loaded, info = VaswaniForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True, **load)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert not loaded.training
    assert_same_parameters(loaded, model)
    torch.testing.assert_close(logits_of(loaded, batch), logits_of(model, batch), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("on_disk", ["model.decoder.layers.1", "model.encoder.layers", "model.decoder"])
def test_layers_may_stay_on_disk(tiny_model, make_batch, tmp_path, on_disk):
    """accelerate moves what a module is called with to its device, and weights on disk cannot be moved."""
    model, batch = tiny_model(), make_batch()
    model.save_pretrained(tmp_path)
    names = [name for name, _ in model.named_modules()]
    parts = [
        f"model.{stack}.{part}" for stack in ("encoder", "decoder") for part in ("embed_tokens", "embedding", "norm")
    ]
    parts += [name for name in names if re.fullmatch(r"model.(en|de)coder.layers.\d", name)]
    device_map = {part: "disk" if part.startswith(on_disk) else "cpu" for part in parts}
    device_map |= {"model.shared": "cpu", "lm_head": "cpu", "model.decoder.embed_tokens": "cpu"}
    loaded = VaswaniForConditionalGeneration.from_pretrained(
        tmp_path, device_map=device_map, offload_folder=tmp_path / "offloaded"
    )
    assert any(parameter.is_meta for parameter in loaded.parameters())
    torch.testing.assert_close(logits_of(loaded, batch), logits_of(model, batch), rtol=1e-5, atol=1e-5)
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    options = dict(num_beams=3, max_new_tokens=6)
    assert torch.equal(loaded.generate(**source, **options), model.generate(**source, **options))


@each_sharing
def test_round_trip_in_bfloat16(tiny_model, make_batch, tmp_path, fields):
    model = tiny_model(**fields).to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    assert loaded.dtype == torch.bfloat16
    assert_same_parameters(loaded, model)
    wide = VaswaniForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.float32)
    assert_same_parameters(wide, model.float())
    batch = make_batch()
    torch.testing.assert_close(logits_of(loaded, batch).float(), logits_of(wide, batch), rtol=0.1, atol=0.2)


@each_sharing
def test_a_model_made_on_the_meta_device_lacks_nothing_but_its_weights(tiny_model, make_batch, fields):
    model, batch = tiny_model(**fields), make_batch()
    with torch.device("meta"):
        empty = VaswaniForConditionalGeneration(model.config).eval()
    empty.load_state_dict(model.state_dict(), assign=True)
    empty.tie_weights()
    assert_same_parameters(empty, model)
    torch.testing.assert_close(logits_of(empty, batch), logits_of(model, batch), rtol=0, atol=0)


@each_sharing
def test_the_model_without_its_head_loads_from_the_one_with_it_and_back(tiny_model, tmp_path, fields):
    model = tiny_model(**fields)
    model.save_pretrained(tmp_path / "with")
    base, info = VaswaniModel.from_pretrained(tmp_path / "with", output_loading_info=True)
    assert not info["missing_keys"]
    assert_same_parameters(base, model.model)
    base.save_pretrained(tmp_path / "without")
    again, info = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "without", output_loading_info=True)
    head = {"lm_head.bias", "lm_head.weight"} if fields["share_embeddings"] == "none" else {"lm_head.bias"}
    assert set(info["missing_keys"]) == head
    assert_same_parameters(again.model, model.model)


def test_loading_initialises_what_is_missing_and_nothing_else(tiny_model, tmp_path):
    tiny_model().save_pretrained(tmp_path)
    model = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    changed, info = VaswaniForConditionalGeneration.from_pretrained(
        tmp_path, softmax_bias=True, output_loading_info=True
    )
    assert info["missing_keys"] == {"lm_head.bias"}
    assert changed.lm_head.bias.eq(0).all()
    changed.lm_head.bias = None
    assert_same_parameters(changed, model)


@pytest.mark.parametrize("share", ["all", "target"])
@pytest.mark.parametrize("way", [dict(tie_word_embeddings=False), dict(share_embeddings="none"), "config"], ids=str)
def test_untying_copies_the_shared_matrix(tiny_model, make_batch, tmp_path, share, way):
    model, batch = tiny_model(**SHARING[share]), make_batch(vocab_size=40)
    model.save_pretrained(tmp_path)
    if way == "config":
        way = dict(config=VaswaniConfig.from_pretrained(tmp_path, tie_word_embeddings=False))
    for load in (VaswaniForConditionalGeneration, AutoModelForSeq2SeqLM):
        untied, info = load.from_pretrained(tmp_path, **way, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"]
        assert (untied.config.share_embeddings, untied.config.tie_word_embeddings) == ("none", False)
        assert "model.shared.weight" not in untied.state_dict()
        torch.testing.assert_close(logits_of(untied, batch), logits_of(model, batch), rtol=0, atol=0)
    untied.lm_head.weight.data.zero_()
    untied.model.encoder.embed_tokens.weight.data.fill_(1.0)
    assert untied.model.decoder.embed_tokens.weight.std() > 0.05
    untied.save_pretrained(tmp_path / "untied")
    again = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "untied")
    assert_same_parameters(again, untied)


def train_separately(model):
    """As peft's `modules_to_save` does: each of the three is a module of its own."""
    model.lm_head = copy.deepcopy(model.lm_head)
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_tokens = copy.deepcopy(stack.embed_tokens)
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
        model.model.decoder.embed_tokens.weight.mul_(3)


@pytest.mark.parametrize("share", ["all", "target"])
@pytest.mark.parametrize("field", [dict(tie_word_embeddings=False), dict(share_embeddings="none")], ids=str)
@pytest.mark.parametrize("separate", [False, True], ids=["still tied", "separate"])
@pytest.mark.parametrize("sizes", [{}, {"max_shard_size": "4KB"}], ids=["one file", "shards"])
def test_what_the_configuration_unties_later_is_saved_untied(
    tiny_model, make_batch, tmp_path, share, field, separate, sizes
):
    model, batch = tiny_model(**SHARING[share]), make_batch(vocab_size=40)
    if separate:
        train_separately(model)
    expected = logits_of(model, batch)
    for name, value in field.items():
        setattr(model.config, name, value)
    parameters = [id(parameter) for parameter in model.parameters()]
    model.save_pretrained(tmp_path, **sizes)
    assert [id(parameter) for parameter in model.parameters()] == parameters  # an optimizer may hold them
    saved, info = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert saved.config.share_embeddings == "none" and "model.shared.weight" not in saved.state_dict()
    torch.testing.assert_close(logits_of(saved, batch), expected, rtol=0, atol=0)
    load_model(tmp_path)
    _, info = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]


def test_a_shared_matrix_may_become_one_of_the_target(tiny_model, make_batch, tmp_path):
    model, batch = tiny_model(), make_batch(vocab_size=40)
    expected = logits_of(model, batch)
    model.config.share_embeddings = "target"
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(logits_of(load_model(tmp_path), batch), expected, rtol=0, atol=0)


@pytest.mark.parametrize("first, second", [({}, {"max_shard_size": "4KB"}), ({"max_shard_size": "4KB"}, {})])
def test_a_folder_keeps_only_the_weights_of_the_last_save(tiny_model, make_batch, tmp_path, first, second):
    old, new, batch = tiny_model(), tiny_model(), make_batch(vocab_size=40)
    with torch.no_grad():
        new.model.shared.weight.mul_(2)
    old.save_pretrained(tmp_path, **first)
    new.save_pretrained(tmp_path, **second)
    for load in (AutoModelForSeq2SeqLM.from_pretrained, load_model):
        torch.testing.assert_close(logits_of(load(tmp_path), batch), logits_of(new, batch), rtol=0, atol=0)


def test_another_vocabulary_size_needs_no_second_field(tiny_model, tmp_path):
    tiny_model().save_pretrained(tmp_path)
    model = VaswaniForConditionalGeneration.from_pretrained(tmp_path, vocab_size=60, ignore_mismatched_sizes=True)
    assert model.lm_head.weight.shape == model.model.shared.weight.shape == (60, 16)


def test_a_field_overridden_while_loading_is_checked(tiny_model, tmp_path):
    tiny_model().save_pretrained(tmp_path)
    with pytest.raises(StrictDataclassError, match="at least 0 and less than 1"):
        VaswaniForConditionalGeneration.from_pretrained(tmp_path, dropout=1.5)


def test_auto_classes(tiny_model, tmp_path):
    tiny_model().save_pretrained(tmp_path)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), VaswaniConfig)
    assert isinstance(AutoModel.from_pretrained(tmp_path), VaswaniModel)
    assert isinstance(AutoModelForSeq2SeqLM.from_pretrained(tmp_path), VaswaniForConditionalGeneration)
    assert isinstance(AutoModelForSeq2SeqLM.from_config(tiny_model().config), VaswaniForConditionalGeneration)
