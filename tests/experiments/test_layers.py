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
            for d in (*layers.WIDTHS, *layers.FITTED_AT.values())
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
    took = layers.duration(lambda x: calls.append(1) or x * 2, x, torch.ones(1, 2, 2), least=0)
    assert took > 0 and calls == [1] and x.grad is None


@pytest.mark.parametrize(("factor", "verdict"), [(2, "holds"), (0.5, "does not hold")])
def test_the_papers_rule_is_that_they_do_not_cross_before_n_is_d(factor, verdict):
    """n^2 d against f n d^2: they meet at f d."""
    attention = {f"attention, {kind}": lambda n, d: n * n * d * 1e-9 for kind in ("formula", "fused")}
    found = results(**attention, LSTM=lambda n, d: factor * n * d * d * 1e-9)
    said = layers.finding(found)
    assert f"The paper's rule {verdict} here" in said and f"stays so to {factor:.1f} d or more" in said


def test_lengths_beyond_the_measured_ones_are_said_to_be():
    assert layers.shown(0) == "below 16" and layers.shown(1234.4) == "1,234" and layers.shown(np.inf) == "beyond 4,096"
