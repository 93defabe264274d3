"""Linear maps with other kernels: the same results, also after their weights change."""

import pytest
import torch
from torch import nn

from vaswani_transformer.model import cpu_vaswani


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def layer(request):
    torch.manual_seed(1)
    return nn.Linear(48, 80, bias=request.param)


@torch.no_grad()
@pytest.mark.parametrize("made_for", [0, 1, 4, 16, 17])
@pytest.mark.parametrize("rows", [1, 4, 5, 40])
def test_a_product_is_the_layer_whatever_number_of_rows_it_was_made_for(layer, made_for, rows):
    x = torch.randn(rows, 48)
    torch.testing.assert_close(cpu_vaswani.fast_linear(layer, made_for)(x), layer(x), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_changed_weights_are_packed_again(layer):
    x = torch.randn(4, 48)
    before = cpu_vaswani.fast_linear(layer, 4)(x)
    layer.weight.mul_(2.0)
    torch.testing.assert_close(cpu_vaswani.fast_linear(layer, 4)(x), layer(x), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(before, layer(x))
    layer.weight = nn.Parameter(torch.zeros(80, 48))
    torch.testing.assert_close(cpu_vaswani.fast_linear(layer, 4)(x), layer(x))


@torch.no_grad()
@pytest.mark.skipif(not cpu_vaswani.MKL, reason="MKL is for Intel CPUs")
def test_weights_are_packed_once_and_for_few_rows_alone(layer):
    assert cpu_vaswani.reorder_weight(layer, 4) is cpu_vaswani.reorder_weight(layer, 4)
    assert cpu_vaswani.reorder_weight(layer, 8) is not cpu_vaswani.reorder_weight(layer, 4)
    other = nn.Linear(48, 80)
    cpu_vaswani.fast_linear(other, 64)
    assert other not in cpu_vaswani.reordered


@pytest.mark.skipif(not cpu_vaswani.MKL, reason="MKL is for Intel CPUs")
def test_gradients_and_hooks_go_through_the_layer(layer):
    x = torch.randn(4, 48, requires_grad=True)
    cpu_vaswani.fast_linear(layer, 4)(x).sum().backward()
    assert x.grad is not None
    seen = []
    layer.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    with torch.no_grad():
        cpu_vaswani.fast_linear(layer, 4)(torch.randn(4, 48))
    assert seen == [(4, 1, 80)]
