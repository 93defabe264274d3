"""Models in int8: their products, how they load and are saved, and what they translate."""

import logging
import shutil
from pathlib import Path

import pytest
import torch
from generation_examples import BATCH, MODES, PAD, assert_well_formed, ending_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import AutoModelForSeq2SeqLM, pipeline
from typer.testing import CliRunner

from vaswani_transformer import Int8Config, LoadingError, checkpoint_path, commands, load, quantize
from vaswani_transformer.model import int8_vaswani
from vaswani_transformer.model.int8_vaswani import Int8Embedding, Int8Linear, Int8Weight, quantize_rows


@pytest.fixture(params=[True, False], ids=["packed", "without instructions"])
def with_instructions(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(int8_vaswani, "has_int8_products", lambda: False)
    elif not int8_vaswani.has_int8_products():
        pytest.skip("this CPU has no int8 products")
    return request.param


def int8_layer(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Int8Linear:
    layer = Int8Linear(weight.shape[1], weight.shape[0], bias is not None)
    layer.weight.data, layer.weight_scale.data = quantize_rows(weight)
    if bias is not None:
        layer.bias.data = bias
    return layer


# Products -------------------------------------------------------------------------------------------------------------


@given(
    rows=st.integers(1, 9), width=st.sampled_from([4, 17, 64]), columns=st.integers(1, 70),
    magnitude=st.sampled_from([1e-4, 1.0, 300.0]), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=60)
def test_a_product_is_off_by_rounding_alone(rows, width, columns, magnitude, seed):
    """Each of the `width` terms of a sum is off by half a step of x times a weight, the weights being exact here."""
    generator = torch.Generator().manual_seed(seed)
    layer = int8_layer(torch.randn(columns, width, generator=generator), torch.randn(columns, generator=generator))
    x = magnitude * torch.randn(rows, width, generator=generator)
    exact = nn.functional.linear(x, layer.dequantize(), layer.bias)
    step = (x.amax(dim=-1, keepdim=True) - x.amin(dim=-1, keepdim=True)) / 255
    bound = 0.502 * step * layer.dequantize().abs().sum(dim=-1) + 1e-5 * magnitude + 1e-5
    assert ((layer(x) - exact).abs() <= bound).all()


def test_weights_are_off_by_half_a_step():
    weight = torch.randn(7, 30) * torch.logspace(-4, 2, 7).unsqueeze(-1)
    whole, scale = quantize_rows(weight)
    assert whole.dtype == torch.int8 and whole.abs().max() == 127
    assert ((whole * scale.unsqueeze(-1) - weight).abs() <= 0.5001 * scale.unsqueeze(-1)).all()
    assert not quantize_rows(torch.zeros(2, 3))[0].any()


def test_rows_do_not_depend_on_each_other(with_instructions):
    layer, x = (
        int8_layer(torch.randn(40, 32), torch.randn(40)),
        torch.randn(6, 32) * torch.tensor([[100.0]] + [[1.0]] * 5),
    )
    alone = torch.cat([layer(row.unsqueeze(0)) for row in x])
    torch.testing.assert_close(layer(x), alone, rtol=0, atol=0 if with_instructions else 1e-3)
    torch.testing.assert_close(layer(torch.zeros(2, 32)), layer.bias.expand(2, -1))


def test_types_and_shapes(with_instructions):
    layer = int8_layer(torch.randn(5, 8))
    for dtype in (torch.float32, torch.bfloat16):
        assert layer(torch.randn(2, 3, 8, dtype=dtype)).shape == (2, 3, 5)
        assert layer(torch.randn(2, 8, dtype=dtype)).dtype == dtype
    with pytest.raises(ValueError, match="cannot be converted"):  # it would round the scales
        layer.to(torch.bfloat16)


# Models ---------------------------------------------------------------------------------------------------------------

SHARING = {
    "all": dict(share_embeddings="all"),
    "target": dict(share_embeddings="target", decoder_vocab_size=40),
    "none": dict(share_embeddings="none", decoder_vocab_size=40, attention_bias=True, norm_position="pre"),
    "learned positions": dict(position_encoding="learned", max_position_embeddings=60, activation_function="gelu"),
}


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(BATCH, decoder_input_ids=BATCH).logits


@pytest.mark.parametrize("fields", SHARING.values(), ids=SHARING)
def test_loads_from_floats_and_from_what_it_saved(tmp_path, with_instructions, fields):
    model = ending_model(1, **fields)
    model.save_pretrained(tmp_path / "floats")
    exact = logits(model)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "floats", quantization_config=Int8Config())
    matrices = [m for m in loaded.modules() if isinstance(m, (nn.Linear, nn.Embedding, Int8Weight))]
    assert sum(type(m) in (nn.Linear, nn.Embedding) for m in matrices) == 2 * (
        loaded.config.position_encoding == "learned"
    )
    error = (logits(loaded) - exact).abs().mean() / exact.std()
    assert 0 < error < 0.05

    loaded.save_pretrained(tmp_path / "int8")
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "int8")
    assert torch.equal(logits(again), logits(loaded))
    assert (again.lm_head.weight is again.model.decoder.embed_tokens.weight) == (
        fields.get("share_embeddings") != "none"
    )
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("floats", "int8")]
    assert sizes[1] < 0.6 * sizes[0]  # of which names take much in so small a model

    floats = again.dequantize()
    assert {type(m) for m in floats.modules()} & {Int8Linear, Int8Embedding} == set()
    torch.testing.assert_close(logits(floats), logits(loaded), atol=0.3, rtol=0.1)
    floats.save_pretrained(tmp_path / "back")
    assert torch.equal(logits(AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back")), logits(floats))


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_generates_the_same_in_any_batch(with_instructions, mode):
    model = quantize(ending_model(2))
    assert model.generate(BATCH, **mode).shape[0] == len(BATCH)
    assert_well_formed(model.generate(BATCH, **mode))
    if mode.get("do_sample"):
        return
    for row, together in zip(BATCH, model.generate(BATCH, **mode), strict=True):
        alone = model.generate(row[row != PAD].unsqueeze(0), **mode)[0]
        assert torch.equal(together[: len(alone)], alone) and not together[len(alone) :].any()


def test_quantising_twice_changes_nothing():
    model = quantize(ending_model(3))
    once = logits(model)
    weight = model.lm_head.weight
    assert quantize(model) is model and model.lm_head.weight is weight
    assert torch.equal(logits(model), once)


@pytest.mark.parametrize("fields", [{}, {"share_embeddings": "none"}], ids=["tied", "untied"])
@pytest.mark.parametrize(
    "convert",
    [
        lambda model: model.to(torch.bfloat16),
        lambda model: model.to("cpu", torch.float16),
        lambda model: model.bfloat16(),
        lambda model: model.double(),
    ],
)
def test_its_dtype_cannot_change(tiny_model, make_batch, fields, convert):
    model, batch = quantize(tiny_model(**fields)), make_batch(vocab_size=40)
    expected = model(**batch).logits
    with pytest.raises(ValueError, match=r"A model in int8 cannot be converted to torch\.\w+\. Call `model.dequantize"):
        convert(model)
    torch.testing.assert_close(model.to("cpu", torch.float32)(**batch).logits, expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_leaves_its_products_in_int8(with_instructions, tiny_model, make_batch, dtype):
    model, batch = quantize(tiny_model()), make_batch(vocab_size=40)
    with torch.no_grad(), torch.autocast("cpu", dtype):
        cast, ids = model(**batch).logits, model.generate(batch["input_ids"], max_new_tokens=3, num_beams=2)
    assert len(ids) == len(batch["input_ids"])
    torch.testing.assert_close(cast.float(), model(**batch).logits, rtol=0.05, atol=0.05)


def test_trainer_refuses_it():
    from transformers import Trainer, TrainingArguments

    with pytest.raises(ValueError, match="purely quantized"):
        Trainer(quantize(ending_model(3)), TrainingArguments(report_to=[], use_cpu=True))


def test_a_cpu_without_the_instructions_is_told_so(monkeypatch, caplog):
    monkeypatch.setattr(int8_vaswani, "has_int8_products", lambda: False)
    with caplog.at_level(logging.WARNING):
        quantize(ending_model(3))
    assert "This CPU has no instructions for int8 products" in caplog.text


# Where users ask for it -----------------------------------------------------------------------------------------------

TEXTS = ["A man is riding a bicycle.", "Two dogs are playing in the snow."]


@pytest.mark.parametrize("dtype", ["int8", torch.int8], ids=str)
def test_the_pipeline_takes_it(dtype):
    path = checkpoint_path("mini-en-de")
    translate = pipeline("translation", model=path, dtype=dtype, device="cpu")
    assert isinstance(translate.model.lm_head, Int8Linear)
    exact = pipeline("translation", model=path, device="cpu")
    assert translate(TEXTS) == exact(TEXTS)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """mini-en-de, saved in int8."""
    folder = tmp_path_factory.mktemp("int8")
    model, tokenizer = load(checkpoint_path("mini-en-de"), dtype="int8")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_saved_checkpoint_stays_in_int8_unless_another_dtype_is_wanted(saved):
    half = Path(checkpoint_path("mini-en-de"), "model.safetensors").stat().st_size  # in bfloat16
    assert (saved / "model.safetensors").stat().st_size < 0.52 * half
    assert isinstance(load(saved)[0].lm_head, Int8Linear)
    widened, _ = load(saved, dtype="float32")
    assert type(widened.lm_head) is nn.Linear and widened.dtype == torch.float32
    assert not getattr(widened.config, "quantization_config", None)


@pytest.mark.parametrize("dtype", ["auto", "int8", "float32", "bfloat16"])
def test_the_command_takes_a_saved_checkpoint(saved, dtype):
    result = CliRunner().invoke(commands.app, ["translate", "--checkpoint", str(saved), "--dtype", dtype, *TEXTS])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        r["translation_text"] for r in pipeline("translation", model=str(saved))(TEXTS)
    ]


def test_a_saved_checkpoint_goes_to_other_runtimes(saved, tmp_path):
    pytest.importorskip("ctranslate2")
    from conversion.runtimes import ctranslate2

    ctranslate2.export(str(saved), tmp_path / "out")  # which compares the scores
    assert (tmp_path / "out" / "model.bin").is_file()


def test_gradients_pass_through(with_instructions):
    """Gradients of the inputs, for attribution methods and for training adapters."""
    layer = int8_layer(torch.randn(5, 8), torch.randn(5))
    x = torch.randn(3, 8, requires_grad=True)
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, layer.dequantize().sum(dim=0).expand(3, -1))


def test_a_damaged_int8_checkpoint_is_refused(saved, tmp_path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    weights = load_file(tmp_path / "model.safetensors")
    weights.pop("model.decoder.layers.0.feed_forward.fc1.weight_scale")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(LoadingError, match="missing: model.decoder.layers.0.feed_forward.fc1.weight_scale"):
        load(tmp_path)
