"""The model against implementations that are not ours, and against the paper's and its authors' formulas."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from transformers import FSMTConfig, FSMTForConditionalGeneration, MarianConfig, MarianMTModel

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.model.cpu_vaswani import dropout, linear
from vaswani_transformer.model.modeling_vaswani import VaswaniLayer, VaswaniNorm


pytestmark = pytest.mark.quick


# References in float64 ------------------------------------------------------------------------------------------------


def paper_positions(positions, d_model):
    """Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same)."""
    table = np.zeros((len(positions), d_model))
    for row, position in enumerate(positions):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[row, 2 * i], table[row, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table


def tensor2tensor_positions(positions, d_model):
    """`get_timing_signal_1d` of tensor2tensor: timescales from 1 to 10000, all sines, then all cosines."""
    timescales = np.geomspace(1.0, 10000.0, num=d_model // 2)
    angles = np.asarray(positions, dtype=float)[:, None] / timescales
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def marian_positions(positions, d_model):
    paper = paper_positions(positions, d_model)
    return np.concatenate([paper[:, 0::2], paper[:, 1::2]], axis=1)


POSITIONS = {
    ("interleaved", "half"): paper_positions,
    ("concatenated", "half_minus_one"): tensor2tensor_positions,
    ("concatenated", "half"): marian_positions,
}


def embedding_output(model, stack="encoder", **inputs):
    """The input of the first layer of a stack."""
    outputs = getattr(model.model, stack)(output_hidden_states=True, **inputs)
    return outputs.hidden_states[0]


def positions_of(model, length, mask=None):
    """The position vectors of a sequence, free of embeddings."""
    embeds = torch.zeros(1 if mask is None else len(mask), length, model.config.d_model, dtype=model.dtype)
    embedding = model.model.encoder.embedding
    return embedding(embeds, mask).float().detach().numpy()


# Section 3.1: the stacks, against torch.nn ----------------------------------------------------------------------------


TORCH_NAMES = {
    "self_attn.in_proj_": ["self_attn.qkv_proj."],
    "self_attn.out_proj.": ["self_attn.out_proj."],
    "multihead_attn.in_proj_": ["cross_attn.q_proj.", "cross_attn.kv_proj."],
    "multihead_attn.out_proj.": ["cross_attn.out_proj."],
    "linear1.": ["feed_forward.fc1."],
    "linear2.": ["feed_forward.fc2."],
}
TORCH_NORMS = {
    "encoder": {"norm1.": ["self_attn_norm."], "norm2.": ["feed_forward_norm."]},
    "decoder": {"norm1.": ["self_attn_norm."], "norm2.": ["cross_attn_norm."], "norm3.": ["feed_forward_norm."]},
}


def torch_stack(model, kind):
    """torch.nn's encoder or decoder with the model's weights."""
    config, ours = model.config, getattr(model.model, kind)
    heads, d_ff, norm_position, layer_class, stack_class, options = {
        "encoder": (
            config.encoder_attention_heads, config.d_ff, config.norm_position, nn.TransformerEncoderLayer,
            nn.TransformerEncoder, dict(enable_nested_tensor=False),
        ),
        "decoder": (
            config.decoder_attention_heads, config.decoder_d_ff, config.decoder_norm_position,
            nn.TransformerDecoderLayer, nn.TransformerDecoder, {},
        ),
    }[kind]  # fmt: skip
    layer = layer_class(
        config.d_model,
        heads,
        d_ff,
        dropout=0.0,
        activation=config.activation_function,
        layer_norm_eps=config.layer_norm_eps,
        batch_first=True,
        norm_first=norm_position == "pre",
    )
    final_norm = nn.LayerNorm(config.d_model, config.layer_norm_eps) if isinstance(ours.norm, nn.LayerNorm) else None
    stack = stack_class(layer, len(ours.layers), norm=final_norm, **options)

    weights = ours.state_dict()
    state = {name: weight for name, weight in weights.items() if name.startswith("norm.")}
    for i in range(len(ours.layers)):
        for name, parts in {**TORCH_NAMES, **TORCH_NORMS[kind]}.items():
            for end in ("weight", "bias"):
                parts_of_it = [weights.get(f"layers.{i}.{part}{end}") for part in parts]
                if parts_of_it[0] is not None:
                    state[f"layers.{i}.{name}{end}"] = torch.cat(parts_of_it)
        if not config.feed_forward_bias:
            state |= {f"layers.{i}.linear1.bias": torch.zeros(d_ff), f"layers.{i}.linear2.bias": torch.zeros(16)}
    stack.load_state_dict(state)
    return stack.eval()


@pytest.mark.parametrize(
    "fields",
    [
        dict(),
        dict(final_norm=True),
        dict(norm_position="pre"),
        dict(norm_position="pre", final_norm=False),
        dict(norm_position="pre", decoder_norm_position="post"),
        dict(activation_function="gelu", layer_norm_eps=1e-5),
        dict(decoder_d_ff=24),
        dict(feed_forward_bias=False),
    ],
    ids=[
        "as published",
        "post-norm with final norm",
        "pre-norm",
        "pre-norm without final norm",
        "mixed",
        "gelu",
        "another inner width in the decoder",
        "no b1 and b2",
    ],  # fmt: skip
)
def test_equals_torch_transformer(tiny_model, make_batch, fields):
    model = tiny_model(attention_bias=True, **fields)
    for stack, norm_position in (
        ("encoder", model.config.norm_position),
        ("decoder", model.config.decoder_norm_position),
    ):
        has_final_norm = isinstance(getattr(model.model, stack).norm, nn.LayerNorm)
        assert has_final_norm == fields.get("final_norm", norm_position == "pre")
    batch = make_batch()
    encoder, decoder = torch_stack(model, "encoder"), torch_stack(model, "decoder")
    embedded = []
    for ids, table in (
        (batch["input_ids"], model.model.encoder.embed_tokens.weight),
        (batch["decoder_input_ids"], model.model.decoder.embed_tokens.weight),
    ):
        positions = torch.from_numpy(paper_positions(range(ids.shape[1]), 16)).float()
        embedded.append(table[ids] * (ids != 0).unsqueeze(-1) * math.sqrt(16) + positions)
    padding = batch["attention_mask"] == 0
    length = batch["decoder_input_ids"].shape[1]
    with torch.no_grad():
        memory = encoder(embedded[0], src_key_padding_mask=padding)
        expected = decoder(
            embedded[1],
            memory,
            tgt_mask=torch.ones(length, length).triu(1).bool(),
            tgt_key_padding_mask=batch["decoder_attention_mask"] == 0,
            memory_key_padding_mask=padding,
        )
        outputs = model.model(**batch)
    for actual, reference, mask in (
        (outputs.encoder_last_hidden_state, memory, batch["attention_mask"]),
        (outputs.last_hidden_state, expected, batch["decoder_attention_mask"]),
    ):
        torch.testing.assert_close(actual[mask == 1], reference[mask == 1], rtol=1e-5, atol=1e-5)


def test_post_norm_has_no_final_layer_norm(tiny_model):
    assert not any(name.endswith(("encoder.norm.weight", "decoder.norm.weight")) for name in tiny_model().state_dict())


def annotated_transformer_norm(x, a_2, b_2, eps):
    """`LayerNorm` of The Annotated Transformer."""
    return a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + b_2


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_the_norm_of_the_unbiased_deviation(tiny_model, norm_position):
    config = tiny_model(norm_position=norm_position, layer_norm_deviation="unbiased", layer_norm_eps=0.1).config
    layer, norm = VaswaniLayer(config, norm_position).eval(), VaswaniNorm(config)
    x, y = torch.randn(3, 5, 16), torch.randn(3, 5, 16)
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)

    def reference(x):
        return annotated_transformer_norm(x, norm.weight, norm.bias, 0.1)

    expected = x + y * reference(x) if norm_position == "pre" else reference(x + y * x)
    torch.testing.assert_close(layer.add_and_norm(x, lambda normed: y * normed, norm), expected)


# Other toolkits' models, as transformers has them ---------------------------------------------------------------------


def randomize(model):
    """Biases and LayerNorms away from 0 and 1, embeddings of padding away from 0."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.data.add_(0.3 * torch.randn_like(parameter))
        elif "embed_positions" not in name:
            parameter.data.normal_(std=0.3)


def copy_layers(ours, reference):
    """The weights of transformers' BART-like layers (Marian, FSMT) into ours."""

    def copy(target, *sources):
        target.weight.data.copy_(torch.cat([source.weight for source in sources]))
        target.bias.data.copy_(torch.cat([source.bias for source in sources]))

    for layer, other in zip(ours.layers, reference.layers, strict=True):
        attention = other.self_attn
        copy(layer.self_attn.qkv_proj, attention.q_proj, attention.k_proj, attention.v_proj)
        copy(layer.self_attn.out_proj, attention.out_proj)
        copy(layer.self_attn_norm, other.self_attn_layer_norm)
        if hasattr(layer, "cross_attn"):
            copy(layer.cross_attn.q_proj, other.encoder_attn.q_proj)
            copy(layer.cross_attn.kv_proj, other.encoder_attn.k_proj, other.encoder_attn.v_proj)
            copy(layer.cross_attn.out_proj, other.encoder_attn.out_proj)
            copy(layer.cross_attn_norm, other.encoder_attn_layer_norm)
        copy(layer.feed_forward.fc1, other.fc1)
        copy(layer.feed_forward.fc2, other.fc2)
        copy(layer.feed_forward_norm, other.final_layer_norm)


SIZES = dict(
    d_model=16, encoder_layers=2, decoder_layers=3, encoder_attention_heads=2, decoder_attention_heads=4,
    activation_function="swish",
)  # fmt: skip


def test_logits_equal_marian(tiny_config, make_batch):
    marian = MarianMTModel(
        MarianConfig(
            vocab_size=48, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, scale_embedding=True,
            encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=32, **SIZES,
        )
    ).eval()  # fmt: skip
    randomize(marian)
    marian.final_logits_bias.normal_()
    config = tiny_config(
        position_layout="concatenated", attention_bias=True, softmax_bias=True, layer_norm_eps=1e-5,
        zero_pad_embedding=False, **SIZES,
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config).eval()
    copy_layers(model.model.encoder, marian.model.encoder)
    copy_layers(model.model.decoder, marian.model.decoder)
    model.model.shared.weight.data.copy_(marian.model.shared.weight)
    model.lm_head.bias.data.copy_(marian.final_logits_bias[0])

    batch = make_batch()
    with torch.no_grad():
        actual, expected = model(**batch).logits, marian(**batch).logits
    real = batch["decoder_attention_mask"] == 1
    torch.testing.assert_close(actual[real], expected[real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("side", ["right", "left"])
def test_logits_equal_fsmt(tiny_config, make_batch, side):
    """fairseq's model: positions begin at padding + 1 and padding takes none, on whichever side it is."""
    ids = dict(pad_token_id=1, eos_token_id=2, decoder_start_token_id=2)
    fsmt = FSMTForConditionalGeneration(
        FSMTConfig(
            src_vocab_size=48, tgt_vocab_size=56, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=32,
            tie_word_embeddings=False, **ids, **SIZES,
        )
    ).eval()  # fmt: skip
    randomize(fsmt)
    config = tiny_config(
        decoder_vocab_size=56, share_embeddings="none", position_layout="concatenated", attention_bias=True,
        position_divisor="half_minus_one", position_offset=2, layer_norm_eps=1e-5, zero_pad_embedding=False,
        **ids, **SIZES,
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config).eval()
    copy_layers(model.model.encoder, fsmt.model.encoder)
    copy_layers(model.model.decoder, fsmt.model.decoder)
    model.model.encoder.embed_tokens.weight.data.copy_(fsmt.model.encoder.embed_tokens.weight)
    model.model.decoder.embed_tokens.weight.data.copy_(fsmt.model.decoder.embed_tokens.weight)
    model.lm_head.weight.data.copy_(fsmt.model.decoder.output_projection.weight)

    batch = make_batch(side=side)
    for stack in ("", "decoder_"):
        batch[f"{stack}input_ids"].masked_fill_(batch[f"{stack}attention_mask"] == 0, 1)
    with torch.no_grad():
        actual, expected = model(**batch).logits, fsmt(**batch, use_cache=False).logits
    real = batch["decoder_attention_mask"] == 1
    torch.testing.assert_close(actual[real], expected[real], rtol=1e-5, atol=1e-5)


# Section 3.5: positions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize(("layout", "divisor"), POSITIONS)
def test_positions_equal_their_formula(tiny_model, layout, divisor, offset):
    model = tiny_model(position_layout=layout, position_divisor=divisor, position_offset=offset)
    expected = POSITIONS[layout, divisor](range(offset, offset + 50), 16)
    np.testing.assert_allclose(positions_of(model, 50)[0], expected, atol=1e-5)


@pytest.mark.parametrize(("layout", "divisor"), POSITIONS)
def test_positions_have_no_length_limit(tiny_model, layout, divisor):
    model = tiny_model(position_layout=layout, position_divisor=divisor)
    expected = POSITIONS[layout, divisor]([0, 2499, 5000], 16)
    # A float32 angle near 5000 radians is good to half a thousandth.
    np.testing.assert_allclose(positions_of(model, 5001)[0, [0, 2499, 5000]], expected, atol=1e-3)
    cached = model.model.decoder.embedding.embed_positions(torch.zeros(1, 1, 16), None, past_length=5000)
    np.testing.assert_allclose(cached.numpy(), expected[2:], atol=1e-3)


@pytest.mark.parametrize("encoding", ["sinusoidal", "learned"])
def test_padding_takes_no_position(tiny_model, encoding):
    model = tiny_model(position_encoding=encoding, max_position_embeddings=9, position_offset=2)
    rows = positions_of(model, 4)[0]
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 0, 1]])
    for row, real in zip(positions_of(model, 7, mask), mask.bool().numpy(), strict=True):
        np.testing.assert_array_equal(row[real], rows)


def test_positions_of_a_half_precision_model_are_computed_in_float32(tiny_model):
    actual = positions_of(tiny_model().to(torch.bfloat16), 301)[0, 300]
    expected = paper_positions([300], 16)[0]
    np.testing.assert_allclose(actual, expected, atol=2**-8)  # bfloat16 itself would have put 300 * 0.3 off by 0.2


def test_learned_positions_are_looked_up_and_end(tiny_model):
    model = tiny_model(position_encoding="learned", max_position_embeddings=10, position_offset=2)
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embedding.positions.weight
        assert table.shape == (10, 16)
        actual = stack.embedding.embed_positions(torch.zeros(1, 8, 16), None, past_length=0)
        torch.testing.assert_close(actual, table[2:], rtol=0, atol=0)
    with pytest.raises(ValueError, match="9 tokens.*end at 8"):
        model.model.encoder(input_ids=torch.full((1, 9), 5))


# Section 3.4: embeddings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fields", "scale"), [(dict(), 4.0), (dict(scale_embedding=False), 1.0)])
def test_embeddings_are_scaled_by_the_root_of_d_model(tiny_model, fields, scale):
    model = tiny_model(**fields)
    ids = torch.tensor([[5, 9, 7]])
    expected = model.model.shared.weight[ids] * scale + torch.from_numpy(paper_positions(range(3), 16)).float()
    torch.testing.assert_close(embedding_output(model, input_ids=ids), expected)
    embeds = model.get_input_embeddings()(ids)
    torch.testing.assert_close(embedding_output(model, inputs_embeds=embeds), expected)


def test_positions_may_be_none(tiny_model):
    model = tiny_model(position_encoding="none")
    ids = torch.tensor([[5, 9, 7, 1]])
    torch.testing.assert_close(embedding_output(model, input_ids=ids), model.model.encoder.embed_tokens(ids) * 4.0)


def test_the_source_space_is_added_to_every_position_of_the_source(tiny_model):
    """T2T's `prepare_encoder` adds its `target_space_embedding` to the encoder's input, and to nothing else."""
    model, ids = tiny_model(source_space_embedding=True), torch.tensor([[5, 9, 7, 1]])
    space = model.model.encoder.embedding.space.weight
    with torch.no_grad():
        space.zero_()
        without = embedding_output(model, input_ids=ids)
        space.normal_()
        torch.testing.assert_close(embedding_output(model, input_ids=ids), without + space)
    assert not hasattr(model.model.decoder.embedding, "space")


@pytest.mark.parametrize("zero", [True, False])
def test_the_decoder_starts_from_zeros_or_from_an_embedding(tiny_model, zero):
    """T2T's start vector is zero: the decoder's first input is the position alone."""
    model = tiny_model(zero_pad_embedding=zero)
    start = torch.tensor([[model.config.decoder_start_token_id]])
    actual = embedding_output(model, "decoder", input_ids=start, encoder_hidden_states=torch.zeros(1, 1, 16))
    position = torch.from_numpy(paper_positions([0], 16)).float()
    expected = position if zero else position + 4 * model.model.shared.weight[0]
    torch.testing.assert_close(actual[0], expected)


def test_the_row_of_padding_trains_through_the_softmax_alone(tiny_model):
    ids = torch.tensor([[0, 5, 6, 0]])
    inputs = dict(input_ids=ids, decoder_input_ids=ids, labels=torch.tensor([[5, 6, 7, 1]]))
    shared, separate = tiny_model(), tiny_model(share_embeddings="none")
    for model in (shared, separate):
        model(**inputs).loss.backward()
    assert shared.model.shared.weight.grad[0].abs().max() > 0
    for stack in (separate.model.encoder, separate.model.decoder):
        assert stack.embed_tokens.weight.grad[0].abs().max() == 0
    assert separate.lm_head.weight.grad[0].abs().max() > 0


def test_a_source_without_a_mask_is_masked_where_it_is_padding(tiny_model, make_batch):
    model, batch = tiny_model(), make_batch()
    with torch.no_grad():
        expected = model(**batch).logits
        torch.testing.assert_close(model(**{**batch, "attention_mask": None}).logits, expected, rtol=0, atol=0)


# Initialisation -------------------------------------------------------------------------------------------------------


def assert_glorot_uniform(weight, fan_in, fan_out, gain=1.0):
    bound = gain * math.sqrt(6 / (fan_in + fan_out))
    assert 0.99 * bound < weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)


def assert_normal(weight, std):
    assert weight.std().item() == pytest.approx(std, rel=0.03)
    assert (weight / std).pow(4).mean().item() == pytest.approx(3.0, rel=0.1)  # 1.8 for a uniform distribution
    assert abs(weight.mean().item()) < 0.02 * std


def test_fused_matrices_may_be_initialised_each_by_itself(tiny_config):
    d = 64
    model = VaswaniForConditionalGeneration(tiny_config(d_model=d, fused_initialisation=False))
    for layer in model.model.decoder.layers:
        assert_glorot_uniform(layer.self_attn.qkv_proj.weight, d, d)
        assert_glorot_uniform(layer.cross_attn.q_proj.weight, d, d)
        assert_glorot_uniform(layer.cross_attn.kv_proj.weight, d, d)
        assert_glorot_uniform(layer.self_attn.out_proj.weight, d, d)


@pytest.mark.parametrize("share", ["all", "target", "none"])
def test_initialisation(tiny_config, share):
    d, d_ff = 64, 192
    model = VaswaniForConditionalGeneration(
        tiny_config(
            vocab_size=600, d_model=d, d_ff=d_ff, share_embeddings=share, attention_bias=True, softmax_bias=True,
            position_encoding="learned", max_position_embeddings=400,
        )
    )  # fmt: skip
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        # Glorot's bound for a d -> d matrix, times 1/sqrt(2): T2T had one d -> 3d matrix for all three.
        for part in layer.self_attn.qkv_proj.weight.chunk(3):
            assert_glorot_uniform(part, d, d, gain=2**-0.5)
        assert_glorot_uniform(layer.self_attn.out_proj.weight, d, d)
        if hasattr(layer, "cross_attn"):
            assert_glorot_uniform(layer.cross_attn.q_proj.weight, d, d)
            assert_glorot_uniform(layer.cross_attn.kv_proj.weight, d, 2 * d)
            assert_glorot_uniform(layer.cross_attn.out_proj.weight, d, d)
        assert_glorot_uniform(layer.feed_forward.fc1.weight, d, d_ff)
        assert_glorot_uniform(layer.feed_forward.fc2.weight, d_ff, d)
    for stack in (model.model.encoder, model.model.decoder):
        assert_normal(stack.embed_tokens.weight, d**-0.5)
        assert_normal(stack.embedding.positions.weight, d**-0.5)
    assert_normal(model.lm_head.weight, d**-0.5)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            expected = 1.0 if name.endswith("norm.weight") else 0.0
            assert parameter.eq(expected).all(), name


def test_the_padding_row_is_initialised_like_any_other(tiny_config):
    """It is looked up as zeros but is a row of the pre-softmax transformation too."""
    assert VaswaniForConditionalGeneration(tiny_config()).model.shared.weight[0].abs().max() > 0


# Section 5.4: dropout -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_drops_at_its_rate_and_keeps_the_mean(p, dtype):
    n = 400_001
    x = torch.ones(n, dtype=dtype, requires_grad=True)
    y = dropout(x, p, training=True)
    kept = y != 0
    assert y[kept].unique().item() == pytest.approx(1 / (1 - p), rel=2**-8)
    assert (1 - kept.float().mean()).item() == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / n))
    # Elements that come from one random draw are as independent as any others.
    centred = kept[: n // 8 * 8].float().view(-1, 8) - (1 - p)
    correlation = centred.T @ centred / len(centred) / (p * (1 - p))
    assert (correlation - torch.eye(8)).abs().max() < 5 / math.sqrt(n / 8) + 0.02
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0, 4)])
def test_dropout_of_any_shape(shape):
    y = dropout(torch.ones(shape), 0.5, training=True)
    assert y.shape == shape
    assert torch.isin(y, torch.tensor([0.0, 2.0])).all()


def test_no_dropout_in_evaluation_or_at_rate_zero():
    x = torch.randn(10)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x


def test_dropout_is_on_embeddings_and_on_every_sub_layer(tiny_model, make_batch):
    """With (almost) everything dropped nothing of the input is left: each LayerNorm sees the one before it."""
    model = tiny_model(dropout=1 - 2**-16, attention_bias=True).train()
    with torch.no_grad():
        outputs = model.model(**make_batch())
        for stack, actual in (
            (model.model.encoder, outputs.encoder_last_hidden_state),
            (model.model.decoder, outputs.last_hidden_state),
        ):
            expected = torch.zeros(16)
            for layer in stack.layers:
                for name in ("self_attn_norm", "cross_attn_norm", "feed_forward_norm"):
                    if hasattr(layer, name):
                        norm = getattr(layer, name)
                        expected = nn.functional.layer_norm(expected, (16,), norm.weight, norm.bias, norm.eps)
            torch.testing.assert_close(actual, expected.expand_as(actual))


@pytest.mark.parametrize(
    ("fields", "random"),
    [(dict(), False), (dict(attention_dropout=0.5), True), (dict(activation_dropout=0.5), True)],
)
def test_the_other_dropouts_are_off_unless_asked_for(tiny_model, make_batch, fields, random):
    model, batch = tiny_model(**fields), make_batch()
    with torch.no_grad():
        evaluated = model(**batch).logits
        trained = model.train()(**batch).logits
    assert torch.equal(evaluated, trained) != random


# Products -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16,), (3, 16), (2, 5, 16), (0, 3, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_products_without_gradients_equal_those_with(shape, bias):
    layer, x = nn.Linear(16, 24, bias=bias), torch.randn(shape)
    expected = linear(layer, x)
    with torch.no_grad():
        torch.testing.assert_close(linear(layer, x), expected.detach())
        torch.testing.assert_close(linear(layer, x.repeat_interleave(2, dim=-1)[..., ::2]), expected.detach())


def test_weights_of_another_class_are_multiplied_in_their_own_way():
    """Quantised and distributed weights are subclasses of Tensor that know torch's own product."""
    products = []

    class Weight(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function is nn.functional.linear:
                products.append(function)
            return super().__torch_function__(function, types, args, kwargs)

    layer = nn.Linear(16, 24)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(Weight), requires_grad=False)
    with torch.no_grad():
        linear(layer, torch.randn(3, 16))
    assert products


def test_a_layer_that_does_more_than_its_product_is_called():
    """Hooks, patched forwards (offloading) and subclasses (adapters, quantisation) all run without gradients too."""
    calls = []

    class Adapted(nn.Linear):
        def forward(self, x):
            calls.append("subclass")
            return super().forward(x)

    hooked, prehooked, patched = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
    hooked.register_forward_hook(lambda *_: calls.append("hook"))
    prehooked.register_forward_pre_hook(lambda *_: calls.append("pre-hook"))
    patched.forward = lambda x: calls.append("patch") or x
    with torch.no_grad():
        for layer in (Adapted(4, 4), hooked, prehooked, patched):
            linear(layer, torch.randn(2, 4))
        handle = nn.modules.module.register_module_forward_hook(lambda *_: calls.append("global hook"))
        linear(nn.Linear(4, 4), torch.randn(2, 4))
        handle.remove()
    assert calls == ["subclass", "hook", "pre-hook", "patch", "global hook"]


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning")  # users still call it
def test_dynamic_quantisation_finds_every_product(tiny_model, make_batch):
    """The common call of torch, which looks for `nn.Linear` and nothing else."""
    model, batch = tiny_model(d_model=64, d_ff=128), make_batch()
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    count = sum(isinstance(module, nn.Linear) for module in model.modules())
    assert sum(isinstance(module, torch.ao.nn.quantized.dynamic.Linear) for module in quantised.modules()) == count
    with torch.no_grad():
        expected, actual = model(**batch).logits, quantised(**batch).logits
    assert not torch.equal(actual, expected)
    assert torch.corrcoef(torch.stack((actual.flatten(), expected.flatten())))[0, 1] > 0.99
    assert quantised.generate(batch["input_ids"], num_beams=2, max_new_tokens=3).shape[0] == 3
