"""`torch.compile` makes one graph of a forward, a step of training and a step of decoding; `torch.export` works."""

import pytest
import torch
from model_examples import gradients, logits_of, static_cache


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
        inputs = dict(encoder_outputs=memory, attention_mask=mask, cache=static_cache(model, 7, 8))
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
