"""Attention: equation 1 itself, every implementation of it under padding, and beams that share one source."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import modeling_flash_attention_utils as flash_utils
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.utils import is_flash_attn_2_available, is_flash_attn_3_available

from vaswani_transformer import VaswaniForConditionalGeneration, VaswaniModel
from vaswani_transformer.model.attention_vaswani import CACHE
from vaswani_transformer.model.modeling_vaswani import VaswaniAttention


LENGTHS = {
    "source shorter": dict(source_lengths=(7, 4, 1), target_lengths=(9, 3, 5)),
    "source longer": dict(source_lengths=(9, 4, 6), target_lengths=(5, 2, 4)),
    "as long": dict(source_lengths=(6, 3, 1), target_lengths=(4, 6, 5)),
}


def logits_of_real_tokens(model, batch):
    with torch.no_grad():
        logits = model(**batch).logits
    return logits[batch["decoder_attention_mask"] == 1]


# Equation 1 -----------------------------------------------------------------------------------------------------------


def equation_1(query, key, value, mask):
    """softmax(Q K^T / sqrt(d_k)) V of one head in float64, and the weights: mask [T, S] is 1 where a query may look."""
    scores = query @ key.T / math.sqrt(query.shape[-1])
    weights = np.exp(scores) * mask
    weights /= weights.sum(-1, keepdims=True)
    return weights @ value, weights


@pytest.mark.parametrize("is_cross", [False, True])
def test_multi_head_attention_is_equation_1_per_head(tiny_config, is_cross):
    """With widths of keys and values of their own (Table 3 row B) and queries, keys, values in this order."""
    heads, d_k, d_v = 3, 5, 2
    config = tiny_config(d_k=d_k, d_v=d_v, attention_bias=True, attn_implementation="eager")
    attention = VaswaniAttention(config, heads, layer_idx=0, is_causal=False, is_cross=is_cross)
    x, memory = torch.randn(1, 4, 16), torch.randn(1, 6, 16)
    mask = np.array([[1, 1, 1, 0, 1, 0]]) if is_cross else np.tril(np.ones((4, 4)))
    additive = torch.from_numpy(np.where(mask, 0.0, -1e9)).float()[None, None]
    with torch.no_grad():
        if is_cross:
            output, weights = attention(x, memory, additive)
            query, keys_values = attention.q_proj(x[0]), attention.kv_proj(memory[0])
        else:
            output, weights = attention(x, attention_mask=additive)
            query, keys_values = attention.qkv_proj(x[0]).split((heads * d_k, heads * (d_k + d_v)), dim=-1)
        assert weights.shape == (1, heads, 4, 6 if is_cross else 4)
        query, keys_values = query.double().numpy(), keys_values.double().numpy()
        contexts = []
        for head in range(heads):
            values = keys_values[:, heads * d_k :]
            context, expected = equation_1(
                query[:, head * d_k : (head + 1) * d_k],
                keys_values[:, head * d_k : (head + 1) * d_k],
                values[:, head * d_v : (head + 1) * d_v],
                mask,
            )
            np.testing.assert_allclose(weights[0, head].numpy(), expected, atol=1e-6)
            contexts.append(context)
        joined = torch.from_numpy(np.concatenate(contexts, axis=-1)).float()
        torch.testing.assert_close(output[0], attention.out_proj(joined), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_products_may_go_without_the_root_of_d_k(tiny_model, kernel):
    """The same as with it, where queries are sqrt(d_k) times as long; so in the decoder's step of a search."""
    plain, scaled = tiny_model(scale_attention=False), tiny_model()
    scaled.load_state_dict(plain.state_dict())
    for module in scaled.modules():
        if isinstance(module, VaswaniAttention):
            projection = module.q_proj if module.is_cross else module.qkv_proj
            projection.weight.data[: module.num_heads * module.d_k] *= math.sqrt(module.d_k)
    ids = torch.tensor([[5, 9, 7, 1]])
    results = []
    for model in (plain, scaled):
        model.set_attn_implementation(kernel)
        logits = model(input_ids=ids, decoder_input_ids=ids).logits
        search = model.generate(ids, num_beams=2, max_new_tokens=6, output_scores=True, return_dict_in_generate=True)
        results.append((logits, search.sequences_scores))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


# Implementations under padding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("fields", [dict(), dict(d_k=6, d_v=10)], ids=["equal widths", "own widths"])
def test_sdpa_equals_eager(tiny_model, make_batch, fields, side, lengths):
    model, batch = tiny_model(**fields), make_batch(side=side, **lengths)
    model.set_attn_implementation("eager")
    expected = logits_of_real_tokens(model, batch)
    model.set_attn_implementation("sdpa")
    torch.testing.assert_close(logits_of_real_tokens(model, batch), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stance", ["force_eager", pytest.param("default", marks=pytest.mark.slow)])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile", "ignore:_compile flag")
def test_flex_equals_eager(tiny_model, make_batch, side, stance):
    # The compiled kernel wants heads at least 16 wide.
    model = tiny_model(d_k=16, d_v=16, encoder_attention_heads=2, decoder_attention_heads=2)
    for lengths in LENGTHS.values():
        batch = make_batch(side=side, **lengths)
        model.set_attn_implementation("eager")
        expected = logits_of_real_tokens(model, batch)
        model.set_attn_implementation("flex_attention")
        with torch.compiler.set_stance(stance):
            torch.testing.assert_close(logits_of_real_tokens(model, batch), expected, rtol=1e-5, atol=1e-5)


def flash_kernel(q, k, v, softmax_scale=None, causal=False):
    """The contract of flash_attn_func: [B, T, H, K], [B, S, H, K], [B, S, H, V] -> [B, T, H, V], causal to the end."""
    length, keys = q.shape[1], k.shape[1]
    allowed = torch.ones(length, keys).tril(keys - length).bool() if causal else None
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, allowed, scale=softmax_scale).transpose(1, 2)


def flash_varlen_kernel(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale=None, causal=False
):
    """The contract of flash_attn_varlen_func: the same for concatenated sequences."""
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for i in range(len(cu_seqlens_q) - 1):
        queries = slice(cu_seqlens_q[i], cu_seqlens_q[i + 1])
        keys = slice(cu_seqlens_k[i], cu_seqlens_k[i + 1])
        one = (x.unsqueeze(0) for x in (q[queries], k[keys], v[keys]))
        output[queries] = flash_kernel(*one, softmax_scale=softmax_scale, causal=causal)[0]
    return output


@pytest.fixture
def flash_on_cpu(monkeypatch):
    """Everything of flash attention but its kernel, which only GPUs have."""
    functions = (flash_kernel, flash_varlen_kernel, None, flash_utils._pad_input, flash_utils._unpad_input)
    monkeypatch.setattr(flash_utils, "_lazy_imports", lambda *args, **kwargs: functions)
    monkeypatch.setattr(flash_utils, "_loaded_implementation", None)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("side", ["right", "left"])
def test_flash_equals_eager_but_for_the_kernel(tiny_model, make_batch, flash_on_cpu, side, lengths):
    """The masks, causality and layouts that we hand to flash attention, with a kernel in torch."""
    model, batch = tiny_model(attn_implementation="eager"), make_batch(side=side, **lengths)
    expected = logits_of_real_tokens(model, batch)
    model.config._attn_implementation = "flash_attention_2"
    torch.testing.assert_close(logits_of_real_tokens(model, batch), expected, rtol=1e-5, atol=1e-5)


def test_beams_under_flash_equal_eager_but_for_the_kernel(tiny_model, make_batch, flash_on_cpu):
    model, batch = tiny_model(attn_implementation="eager"), make_batch(**LENGTHS["source longer"])
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    beams = torch.randint(3, 48, (6, 1))
    outputs = []
    for implementation in ("eager", "flash_attention_2"):
        model.config._attn_implementation = implementation
        with torch.no_grad():
            outputs.append(model(**source, decoder_input_ids=beams).logits)
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-5, atol=1e-5)


def test_models_declare_every_implementation():
    for model_class in (VaswaniModel, VaswaniForConditionalGeneration):
        assert model_class._supports_sdpa and model_class._supports_flash_attn and model_class._supports_flex_attn


@pytest.mark.parametrize(
    ("implementation", "available"),
    [("flash_attention_2", is_flash_attn_2_available), ("flash_attention_3", is_flash_attn_3_available)],
)
@pytest.mark.parametrize("side", ["right", "left"])
def test_flash_equals_eager(tiny_model, make_batch, implementation, available, side):
    if not (torch.cuda.is_available() and available()):
        pytest.skip(f"{implementation} needs a GPU and its package")
    model = tiny_model(d_model=64, encoder_attention_heads=2, decoder_attention_heads=2).to("cuda", torch.bfloat16)
    for lengths in LENGTHS.values():
        batch = {name: tensor.cuda() for name, tensor in make_batch(side=side, **lengths).items()}
        model.set_attn_implementation("eager")
        expected = logits_of_real_tokens(model, batch)
        model.set_attn_implementation(implementation)
        torch.testing.assert_close(logits_of_real_tokens(model, batch), expected, rtol=0.05, atol=0.05)


# A sentence by itself, in any batch, on either side of its padding, with and without a cache -------------------------


@settings(max_examples=20)
@given(
    source_lengths=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    data=st.data(),
    side=st.sampled_from(["left", "right"]),
    implementation=st.sampled_from(["eager", "sdpa"]),
    norm_position=st.sampled_from(["post", "pre"]),
)
def test_output_does_not_depend_on_batch_mates_padding_side_or_cache(
    tiny_model, make_batch, source_lengths, data, side, implementation, norm_position
):
    rows = len(source_lengths)
    target_lengths = data.draw(st.lists(st.integers(1, 9), min_size=rows, max_size=rows))
    model = tiny_model(norm_position=norm_position, attn_implementation=implementation)
    batch = make_batch(source_lengths, target_lengths, side)
    with torch.no_grad():
        together = model(**batch).logits
        for i in range(rows):
            source = batch["input_ids"][i : i + 1, batch["attention_mask"][i] == 1]
            target = batch["decoder_input_ids"][i : i + 1, batch["decoder_attention_mask"][i] == 1]
            expected = together[i : i + 1, batch["decoder_attention_mask"][i] == 1]
            alone = model(input_ids=source, decoder_input_ids=target, use_cache=False)
            torch.testing.assert_close(alone.logits, expected, rtol=1e-4, atol=1e-5)

            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
            memory = (alone.encoder_last_hidden_state,)
            steps = [
                model(encoder_outputs=memory, decoder_input_ids=token, cache=cache).logits
                for token in target.split(1, dim=1)
            ]
            torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_cached_steps_of_a_padded_batch_equal_the_full_forward(tiny_model, make_batch, side):
    """A batch of prompts of several lengths continues token by token."""
    model, batch = tiny_model(), make_batch(side=side)
    more = torch.randint(3, 48, (3, 3))
    mask = torch.cat((batch["decoder_attention_mask"], torch.ones_like(more)), dim=1)
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    ids = torch.cat((batch["decoder_input_ids"], more), dim=1)
    with torch.no_grad():
        full = model(**source, decoder_input_ids=ids, decoder_attention_mask=mask).logits
        past = model(**batch, use_cache=True)[CACHE]
        for i, token in enumerate(more.split(1, dim=1)):
            length = batch["decoder_input_ids"].shape[1] + i + 1
            step = model(**source, decoder_input_ids=token, decoder_attention_mask=mask[:, :length], cache=past)
            torch.testing.assert_close(step.logits[:, 0], full[:, length - 1], rtol=1e-4, atol=1e-5)


def test_the_decoder_does_not_see_the_future(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch((5,), (8,))
    with torch.no_grad():
        before = model(**batch).logits
        batch["decoder_input_ids"][:, 5:] = 47
        after = model(**batch).logits
    torch.testing.assert_close(after[:, :5], before[:, :5], rtol=0, atol=0)
    assert not torch.equal(after[:, 5:], before[:, 5:])


def test_a_source_of_padding_alone_stays_finite(tiny_model, make_batch):
    for implementation in ("eager", "sdpa"):
        model, batch = tiny_model(attn_implementation=implementation), make_batch()
        batch["attention_mask"][1] = 0
        with torch.no_grad():
            assert model(**batch).logits.isfinite().all()


# Beams that share a source --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", ["eager", "sdpa", "flex_attention"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile", "ignore:_compile flag")
@torch.compiler.set_stance("force_eager")
def test_beams_share_a_source_as_if_it_were_repeated(tiny_model, make_batch, implementation, side, beams):
    """Cross-attention of n decoder rows for each source, in one step, in several tokens and in cached steps."""
    model, batch = tiny_model(attn_implementation=implementation), make_batch(side=side)
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    repeated = {name: tensor.repeat_interleave(beams, dim=0) for name, tensor in source.items()}
    target = torch.randint(3, 48, (3 * beams, 5))
    options = dict(output_attentions=implementation == "eager")
    with torch.no_grad():
        expected = model(**repeated, decoder_input_ids=target, **options)
        folded = model(**source, decoder_input_ids=target, **options)
        torch.testing.assert_close(folded.logits, expected.logits, rtol=1e-5, atol=1e-5)
        for actual, maps in zip(folded.cross_attentions or (), expected.cross_attentions or (), strict=True):
            torch.testing.assert_close(actual, maps, rtol=1e-5, atol=1e-6)

        past, memory = None, (folded.encoder_last_hidden_state,)
        for i, token in enumerate(target.split(1, dim=1)):
            step = model(
                encoder_outputs=memory, attention_mask=source["attention_mask"], decoder_input_ids=token,
                cache=past, use_cache=True,
            )  # fmt: skip
            past = step[CACHE]
            torch.testing.assert_close(step.logits[:, 0], expected.logits[:, i], rtol=1e-4, atol=1e-5)
    keys = past.cross_attention_cache.layers[0].keys
    assert keys.shape[0] == 3, "the source's keys are stored once for all its beams"
