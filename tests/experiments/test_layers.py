"""The layers of Table 1, and the lengths at which one becomes slower than another."""

import numpy as np
import pytest
import torch

from experiments import layers


def results(**seconds) -> dict:
    """Times of each kind by functions of n and d; other kinds take a second."""
    return {
        "results": [
            {"kind": kind, "n": n, "d": d, "seconds": [seconds.get(kind, lambda n, d: 1.0)(n, d)] * 3, "bytes": n * d}
            for kind in layers.KINDS
            for n in layers.LENGTHS
            for d in layers.WIDTHS
        ]
    }


@pytest.mark.parametrize("kind", layers.KINDS)
def test_a_layer_keeps_the_shape_and_its_gradient_reaches_the_input(kind):
    x = torch.randn(1, 5, 64, requires_grad=True)
    y = layers.layer(kind, 64).function(x)
    assert y.shape == x.shape
    y.sum().backward()
    assert x.grad.abs().sum() > 0


def test_the_formula_is_the_fused_kernels():
    x = torch.randn(1, 7, 64)
    formula, fused = (layers.layer(f"attention, {kind}", 64).function(x) for kind in ("formula", "fused"))
    torch.testing.assert_close(formula, fused)


def test_attention_has_no_weights_and_the_others_have():
    assert [kind for kind in layers.KINDS if not layers.layer(kind, 64).weights] == list(layers.KINDS)[:2]


def test_the_time_of_a_layer_is_the_median_of_its_rounds():
    found = {"results": [{"kind": "LSTM", "n": 16, "d": 64, "seconds": [1.0, 5.0, 2.0]}]}
    assert layers.times(found, "LSTM") == {(16, 64): 2.0} and layers.times(found, "convolution") == {}


def test_a_duration_is_a_mean_of_passes_that_leave_no_gradient():
    x, calls = torch.ones(1, 2, 2, requires_grad=True), []
    took = layers.duration(lambda x: calls.append(1) or x * 2, x, torch.ones(1, 2, 2), min_seconds=0)
    assert took > 0 and calls == [1] and x.grad is None


@pytest.mark.parametrize(("factor", "verdict"), [(2, "holds"), (0.5, "does not hold")])
def test_the_papers_rule_is_that_they_do_not_cross_before_n_is_d(factor, verdict):
    """n^2 d against f n d^2: they meet at f d."""
    attention = {f"attention, {kind}": lambda n, d: n * n * d * 1e-9 for kind in ("formula", "fused")}
    found = results(**attention, LSTM=lambda n, d: factor * n * d * d * 1e-9)
    said = layers.finding(found)
    assert f"The paper's rule {verdict} here" in said and f"faster up to at least {factor:.1f} d" in said


def test_lengths_beyond_the_measured_ones_are_said_to_be():
    assert (
        layers.length_text(0) == "below 16"
        and layers.length_text(1234.4) == "1,234"
        and layers.length_text(np.inf) == "beyond 4,096"
    )


def test_the_experiment_measures_every_layer_at_every_size(monkeypatch):
    monkeypatch.setattr(layers, "LENGTHS", (4, 8))
    monkeypatch.setattr(layers, "WIDTHS", (16,))
    monkeypatch.setattr(layers, "ROUNDS", 2)
    measured = []
    monkeypatch.setattr(layers, "duration", lambda function, x, _: measured.append(x.shape[1]) or 0.5)
    found = layers.run(None)
    assert [(row["kind"], row["n"], row["d"]) for row in found["results"]] == [
        (kind, n, 16) for n in (4, 8) for kind in layers.KINDS
    ]
    assert all(row["seconds"] == [0.5, 0.5] for row in found["results"])
    assert measured == [4] * 15 + [8] * 15, "a warm-up and two rounds, in which the five kinds take turns"
    memory = {(row["kind"], row["n"]): row["bytes"] for row in found["results"]}
    assert memory["attention, formula", 8] - 2 * memory["attention, formula", 4] >= 4 * layers.HEADS * (64 - 2 * 16)


@pytest.mark.parametrize("size", ["n", "d"])
def test_an_exponent_is_the_slope_of_numpys_polynomial(size):
    rng = np.random.default_rng(1)
    noisy = {key: float(rng.uniform(1, 9)) for key in [(n, d) for n in layers.LENGTHS for d in layers.WIDTHS]}
    found = results(LSTM=lambda n, d: noisy[n, d])
    sizes = layers.FITTED[size]
    keys = [(s, layers.FITTED_AT["n"]) if size == "n" else (layers.FITTED_AT["d"], s) for s in sizes]
    expected = np.polyfit(np.log(sizes), np.log([noisy[key] for key in keys]), 1)[0]
    assert layers.exponent(found, "LSTM", size).value == pytest.approx(expected)


def test_the_lstm_and_the_convolution_are_torchs():
    torch.manual_seed(0)
    x = torch.randn(1, 5, 8)
    lstm, convolution = layers.layer("LSTM", 8), layers.layer("convolution", 8)
    gates = x[:, 0] @ lstm.weights[0].T + lstm.weights[2] + lstm.weights[3]
    i, _, g, o = gates.chunk(4, dim=-1)  # the first step: no state yet
    torch.testing.assert_close(lstm.function(x)[:, 0], o.sigmoid() * (i.sigmoid() * g.tanh()).tanh())
    kernel, bias = convolution.weights
    middle = sum(x[:, j] @ kernel[:, :, j - 1].T for j in (1, 2, 3)) + bias
    torch.testing.assert_close(convolution.function(x)[:, 2], middle)


def test_multi_head_attention_is_torchs():
    width, x = 64, torch.randn(1, 7, 64)
    module = layers.layer("multi-head attention", width)
    reference = torch.nn.MultiheadAttention(width, layers.HEADS, bias=False, batch_first=True)
    inside, outside = (weight for weight in module.weights if weight.dim() == 2)
    assert (inside.shape, outside.shape) == ((3 * width, width), (width, width))
    reference.in_proj_weight.data, reference.out_proj.weight.data = inside.data, outside.data
    torch.testing.assert_close(module.function(x), reference(x, x, x, need_weights=False)[0], rtol=1e-4, atol=1e-5)
