"""What transformers v5 expects of a model: tying, saving and loading, outputs, resizing, caches, compilation."""

import re

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import safe_open
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM
from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniModel


# One configuration for each way of sharing, with two vocabularies where that is possible.
SHARING = {
    "all": dict(share_embeddings="all", softmax_bias=True),
    "target": dict(share_embeddings="target", softmax_bias=True, decoder_vocab_size=56),
    "none": dict(share_embeddings="none", softmax_bias=True, decoder_vocab_size=56),
}
each_sharing = pytest.mark.parametrize("fields", SHARING.values(), ids=SHARING)


def logits_of(model, batch):
    with torch.no_grad():
        return model(**batch).logits


def assert_same_parameters(actual, expected):
    """The same names, values and ties."""
    actual, expected = (dict(model.named_parameters(remove_duplicate=False)) for model in (actual, expected))
    assert actual.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], rtol=0, atol=0, msg=name)

    def ties(parameters):
        groups = {}
        for name, parameter in parameters.items():
            groups.setdefault(parameter, set()).add(name)
        return sorted(sorted(names) for names in groups.values())

    assert ties(actual) == ties(expected)


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


# Inputs and outputs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_hidden_states_and_attention_maps(tiny_model, make_batch, norm_position):
    """2 encoder layers with 2 heads, 3 decoder layers with 4; batch 3, source 7, target 6, width 16."""
    model, batch = tiny_model(attn_implementation="eager", norm_position=norm_position), make_batch()
    with torch.no_grad():
        outputs = model(**batch, output_hidden_states=True, output_attentions=True)
    shapes = {
        "encoder_hidden_states": [(3, 7, 16)] * 3,
        "decoder_hidden_states": [(3, 6, 16)] * 4,
        "encoder_attentions": [(3, 2, 7, 7)] * 2,
        "decoder_attentions": [(3, 4, 6, 6)] * 3,
        "cross_attentions": [(3, 4, 6, 7)] * 3,
    }
    for name, expected in shapes.items():
        assert [tuple(tensor.shape) for tensor in outputs[name]] == expected, name
    source, target = batch["attention_mask"], batch["decoder_attention_mask"]
    for maps, keys in (
        (outputs.encoder_attentions, source[:, None, None]),
        (outputs.decoder_attentions, target[:, None, None] * torch.ones(6, 6).tril()),
        (outputs.cross_attentions, source[:, None, None]),
    ):
        queries = source if maps is outputs.encoder_attentions else target
        for weights in maps:
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
            seen = weights.transpose(1, 2)[queries == 1], keys.expand_as(weights).transpose(1, 2)[queries == 1]
            assert seen[0][seen[1] == 0].eq(0).all(), "padding and the future get no weight"
    torch.testing.assert_close(outputs.encoder_hidden_states[-1], outputs.encoder_last_hidden_state)
    torch.testing.assert_close(model.lm_head(outputs.decoder_hidden_states[-1]), outputs.logits)


def test_attention_maps_can_be_switched_on_for_a_loaded_model(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch()
    expected = logits_of(model, batch)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = model(**batch, output_attentions=True)
    assert len(outputs.cross_attentions) == 3
    torch.testing.assert_close(outputs.logits, expected, rtol=1e-5, atol=1e-5)


def test_embeddings_instead_of_ids(tiny_model, make_batch):
    model, batch = tiny_model(share_embeddings="none", decoder_vocab_size=56), make_batch()
    expected = logits_of(model, batch)
    embedded = {
        "inputs_embeds": model.model.encoder.embed_tokens(batch.pop("input_ids")),
        "decoder_inputs_embeds": model.model.decoder.embed_tokens(batch.pop("decoder_input_ids")),
    }
    actual = logits_of(model, {**batch, **embedded})
    real = batch["decoder_attention_mask"] == 1
    torch.testing.assert_close(actual[real], expected[real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "inputs",
    [
        dict(decoder_input_ids=torch.ones(1, 2, dtype=torch.long)),
        dict(input_ids=torch.ones(1, 2, dtype=torch.long)),
        dict(
            input_ids=torch.ones(1, 2, dtype=torch.long),
            inputs_embeds=torch.ones(1, 2, 16),
            decoder_input_ids=torch.ones(1, 2, dtype=torch.long),
        ),
    ],
    ids=["no source", "no target", "source twice"],
)
def test_ids_or_embeddings_but_one_of_them(tiny_model, inputs):
    with pytest.raises(ValueError, match="exactly one"):
        tiny_model()(**inputs)


def test_encoder_outputs_instead_of_a_source(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch()
    expected = logits_of(model, batch)
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=batch.pop("input_ids"), attention_mask=batch["attention_mask"])
    for encoder_outputs in (encoded, encoded.to_tuple()):
        actual = logits_of(model, {**batch, "encoder_outputs": encoder_outputs})
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_tuples(tiny_model, make_batch):
    model, batch = tiny_model(attn_implementation="eager"), make_batch()
    options = dict(output_hidden_states=True, output_attentions=True, use_cache=False)
    with torch.no_grad():
        named = model(**batch, **options)
        plain = model(**batch, **options, return_dict=False)

    def flatten(values):
        for value in values:
            yield from flatten(value) if isinstance(value, tuple) else [value]

    for actual, expected in zip(flatten(plain), flatten(named.to_tuple()), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_logits_of_the_last_positions_alone(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch()
    full = logits_of(model, batch)
    for keep, expected in ((0, full), (1, full[:, -1:]), (3, full[:, -3:]), (torch.tensor([0, 4]), full[:, [0, 4]])):
        torch.testing.assert_close(logits_of(model, {**batch, "logits_to_keep": keep}), expected)


# Resizing vocabularies ------------------------------------------------------------------------------------------------


def assert_works_after_resizing(model, batch, tmp_path):
    """It runs, trains, generates, and is the same after saving and loading."""
    model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=3)
    labels = batch["decoder_input_ids"]
    model(**batch, labels=labels).loss.backward()
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    assert_same_parameters(loaded, model)
    torch.testing.assert_close(logits_of(loaded, batch), logits_of(model, batch), rtol=0, atol=0)


@pytest.mark.parametrize("size", [60, 40])
def test_resize_a_shared_vocabulary(tiny_model, make_batch, tmp_path, size):
    model, batch = tiny_model(**SHARING["all"]), make_batch(vocab_size=40)
    before = logits_of(model, batch)
    embeddings = model.resize_token_embeddings(size)
    assert embeddings is model.get_input_embeddings()
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (size, size)
    after = logits_of(model, batch)
    assert after.shape[-1] == model.lm_head.out_features == size
    torch.testing.assert_close(after[..., :40], before[..., :40], rtol=0, atol=0)
    assert model.lm_head.weight is model.model.decoder.embed_tokens.weight is model.model.encoder.embed_tokens.weight
    assert_works_after_resizing(model, batch, tmp_path)


@pytest.mark.parametrize("share", ["target", "none"])
@pytest.mark.parametrize("size", [60, 40])
def test_resize_the_source_vocabulary_alone(tiny_model, make_batch, tmp_path, share, size):
    model, batch = tiny_model(**SHARING[share]), make_batch(vocab_size=40)
    before = logits_of(model, batch)
    model.resize_token_embeddings(size)
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (size, 56)
    assert model.model.encoder.embed_tokens.weight.shape[0] == size
    assert model.lm_head.out_features == 56
    torch.testing.assert_close(logits_of(model, batch), before, rtol=0, atol=0)
    assert_works_after_resizing(model, batch, tmp_path)


@pytest.mark.parametrize("share", ["target", "none"])
@pytest.mark.parametrize("size", [60, 40])
def test_resize_the_target_vocabulary_alone(tiny_model, make_batch, tmp_path, share, size):
    model, batch = tiny_model(**SHARING[share]), make_batch(vocab_size=40)
    before = logits_of(model, batch)
    embeddings = model.resize_decoder_token_embeddings(size)
    assert embeddings is model.model.decoder.embed_tokens
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (48, size)
    after = logits_of(model, batch)
    assert after.shape[-1] == model.lm_head.out_features == size
    torch.testing.assert_close(after[..., :40], before[..., :40], rtol=0, atol=0)
    assert (model.lm_head.weight is embeddings.weight) == (share == "target")
    assert_works_after_resizing(model, batch, tmp_path)


def test_a_shared_vocabulary_has_no_target_side_of_its_own(tiny_model):
    with pytest.raises(ValueError, match="resize_token_embeddings"):
        tiny_model().resize_decoder_token_embeddings(60)


@each_sharing
def test_resize_the_model_without_its_head(tiny_model, tmp_path, fields):
    model = tiny_model(**fields).model
    model.resize_token_embeddings(60)
    assert model.decoder.embed_tokens.num_embeddings == model.config.decoder_vocab_size
    model.save_pretrained(tmp_path)
    assert_same_parameters(VaswaniModel.from_pretrained(tmp_path), model)


# Training modes -------------------------------------------------------------------------------------------------------


def gradients(model, batch, **options):
    model.zero_grad()
    torch.manual_seed(3)
    loss = model(**batch, labels=batch["decoder_input_ids"], **options).loss
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated")
def test_gradient_checkpointing_changes_no_gradient(tiny_model, make_batch, use_reentrant):
    """Dropout included: the second forward draws the same."""
    model, batch = tiny_model(dropout=0.2, attention_dropout=0.1).train(), make_batch()
    loss, expected = gradients(model, batch)
    model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
    calls = []
    hook = model.model.decoder.layers[0].feed_forward.register_forward_hook(lambda *_: calls.append(1))
    again, actual = gradients(model, batch)
    hook.remove()
    assert len(calls) == 2, "the layer ran again for the backward pass"
    torch.testing.assert_close(again, loss)
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], msg=name)


def test_training_under_autocast(tiny_model, make_batch):
    model, batch = tiny_model().train(), make_batch()
    loss, expected = gradients(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(**batch, labels=batch["decoder_input_ids"])
    assert (outputs.logits.dtype, outputs.loss.dtype) == (torch.bfloat16, torch.float32)
    model.zero_grad()
    outputs.loss.backward()
    torch.testing.assert_close(outputs.loss.detach(), loss, rtol=0.02, atol=0.02)
    for name, parameter in model.named_parameters():
        assert parameter.grad.dtype == torch.float32
        error = (parameter.grad - expected[name]).norm() / (expected[name].norm() + 1e-3)
        assert error < 0.1, name


def test_it_learns(tiny_model, make_batch):
    model, batch = tiny_model(dropout=0.1).train(), make_batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    labels = batch.pop("decoder_input_ids").masked_fill(batch.pop("decoder_attention_mask") == 0, -100)
    losses = []
    for _ in range(60):
        loss = model(**batch, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


# Caches ---------------------------------------------------------------------------------------------------------------


def static_cache(model, source_length, target_length):
    config = model.config.get_text_config(decoder=True)
    return EncoderDecoderCache(
        StaticCache(config=config, max_cache_len=target_length), StaticCache(config=config, max_cache_len=source_length)
    )


@pytest.mark.parametrize("fields", [dict(), dict(d_k=6, d_v=10)], ids=["equal widths", "own widths"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_cached_steps_equal_the_full_forward(tiny_model, make_batch, kind, implementation, fields):
    """A prompt of two tokens, then one at a time; the encoder's keys and values are computed once."""
    model = tiny_model(attn_implementation=implementation, **fields)
    batch = make_batch(target_lengths=(6, 6, 6))
    target = batch.pop("decoder_input_ids")
    batch.pop("decoder_attention_mask")
    expected = logits_of(model, {**batch, "decoder_input_ids": target})
    if kind == "dynamic":
        cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    else:
        cache = static_cache(model, source_length=7, target_length=9)
    calls = []
    model.model.decoder.layers[0].cross_attn.kv_proj.register_forward_hook(lambda *_: calls.append(1))
    steps = []
    for ids in (target[:, :2], *target[:, 2:].split(1, dim=1)):
        steps.append(logits_of(model, {**batch, "decoder_input_ids": ids, "past_key_values": cache}))
    assert len(calls) == 1
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=1e-4, atol=1e-5)


def test_caches_follow_a_reordering_of_the_batch(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch(target_lengths=(6, 6, 6))
    order = torch.tensor([2, 0, 0])
    source = {name: batch[name][order] for name in ("input_ids", "attention_mask")}
    target = batch["decoder_input_ids"]
    with torch.no_grad():
        past = model(**{**batch, "decoder_input_ids": target[:, :3], "decoder_attention_mask": None}).past_key_values
        past.reorder_cache(order)
        step = model(**source, decoder_input_ids=target[:, 3:4], past_key_values=past).logits
        expected = model(**source, decoder_input_ids=torch.cat((target[order, :3], target[:, 3:4]), dim=1)).logits
    torch.testing.assert_close(step[:, 0], expected[:, 3], rtol=1e-4, atol=1e-5)


def test_no_cache_unless_wanted(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch()
    with torch.no_grad():
        assert isinstance(model(**batch).past_key_values, EncoderDecoderCache)
        assert model(**batch, use_cache=False).past_key_values is None
        assert model(**batch, labels=batch["decoder_input_ids"]).past_key_values is None


def test_the_library_refuses_a_quantised_cache_for_encoder_decoders(tiny_model, make_batch):
    with pytest.raises(ValueError, match="does not support the quantized cache"):
        tiny_model().generate(make_batch()["input_ids"], cache_implementation="quantized", max_new_tokens=2)


# Compilation and export -----------------------------------------------------------------------------------------------

# Tracing without generating code shows what breaks a graph in a tenth of the time.
each_backend = pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
ONE_LAYER = dict(encoder_layers=1, decoder_layers=1)


@pytest.fixture
def compile_whole():
    """Compiles as one graph, and forgets it after the test."""
    torch.compiler.reset()
    yield lambda model, backend: torch.compile(model, backend=backend, fullgraph=True)
    torch.compiler.reset()


@each_backend
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_forward_compiles_as_one_graph(tiny_model, make_batch, compile_whole, backend, implementation):
    model = tiny_model(attn_implementation=implementation, **ONE_LAYER)
    compiled = compile_whole(model, backend)
    for lengths in ((7, 4, 1), (9, 3, 8)):
        batch = {**make_batch(source_lengths=lengths), "use_cache": False}
        torch.testing.assert_close(logits_of(compiled, batch), logits_of(model, batch), rtol=1e-4, atol=1e-5)


@each_backend
def test_a_training_step_compiles_as_one_graph(tiny_model, make_batch, compile_whole, backend):
    model = tiny_model(**ONE_LAYER).train()
    compiled = compile_whole(model, backend)
    for lengths in ((5, 6, 2), (30, 50, 40)):
        batch = make_batch(target_lengths=lengths)
        loss, expected = gradients(model, batch)
        actual_loss, actual = gradients(compiled, batch)
        torch.testing.assert_close(actual_loss, loss, rtol=1e-5, atol=1e-5)
        for name, grad in expected.items():
            torch.testing.assert_close(actual[f"_orig_mod.{name}"], grad, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("smoothing_type", ["t2t", "uniform"])
def test_training_with_every_dropout_compiles_as_one_graph(tiny_model, make_batch, compile_whole, smoothing_type):
    rates = dict(dropout=0.1, attention_dropout=0.1, activation_dropout=0.1)
    model, batch = tiny_model(label_smoothing_type=smoothing_type, **rates, **ONE_LAYER).train(), make_batch()
    compiled = compile_whole(model, "eager")
    losses = [compiled(**batch, labels=batch["decoder_input_ids"]).loss.item() for _ in range(2)]
    mean = model.eval()(**batch, labels=batch["decoder_input_ids"]).loss.item()
    assert losses[0] != losses[1]
    assert losses == pytest.approx([mean, mean], rel=0.5)


@each_backend
def test_a_decoding_step_with_a_static_cache_compiles_as_one_graph(tiny_model, make_batch, compile_whole, backend):
    model, batch = tiny_model(**ONE_LAYER), make_batch(target_lengths=(8, 8, 8))
    target, mask = batch["decoder_input_ids"], batch["attention_mask"]
    compiled = compile_whole(model, backend)
    with torch.no_grad():
        expected = model(input_ids=batch["input_ids"], attention_mask=mask, decoder_input_ids=target).logits
        memory = (model.get_encoder()(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state,)
        inputs = dict(encoder_outputs=memory, attention_mask=mask, past_key_values=static_cache(model, 7, 8))
        model(decoder_input_ids=target[:, :2], **inputs)
        graphs = []
        for i in range(2, 8):
            step = compiled(decoder_input_ids=target[:, i : i + 1].clone(), **inputs)
            torch.testing.assert_close(step.logits[:, 0], expected[:, i], rtol=1e-4, atol=1e-5)
            graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert graphs[-1] == graphs[0], "every step runs the first step's graph"


def test_forward_exports(tiny_model, make_batch):
    """With free batch size and lengths, and without the mask, which comes from the padding."""
    model, batch = tiny_model(**ONE_LAYER), make_batch()
    del batch["decoder_attention_mask"], batch["attention_mask"]
    batch["use_cache"] = False
    rows, source, target = (torch.export.Dim(name, min=2, max=64) for name in ("rows", "source", "target"))
    shapes = {"input_ids": {0: rows, 1: source}, "decoder_input_ids": {0: rows, 1: target}, "use_cache": None}
    with torch.no_grad():
        program = torch.export.export(model, (), batch, dynamic_shapes=shapes)
    other = make_batch((3, 8, 5, 2), (4, 9, 9, 2))
    inputs = {name: other[name] for name in ("input_ids", "decoder_input_ids")}
    actual = program.module()(**inputs, use_cache=False).logits
    torch.testing.assert_close(actual, logits_of(model, inputs), rtol=1e-4, atol=1e-5)


def test_parameters_are_all_used(tiny_model, make_batch):
    """Distributed training without `find_unused_parameters` needs it."""
    for fields in SHARING.values():
        model = tiny_model(**fields, attention_bias=True)
        for name, grad in gradients(model, make_batch())[1].items():
            assert grad is not None, name
        assert isinstance(model.model.encoder.norm, nn.Identity)
