"""The learning rate of equation 3, the optimisers, and the loss that R-Drop adds."""

import pytest
import torch
from torch.nn.functional import kl_div

from training.muon import Float32Muon, orthogonalise
from training.optimisation import build_optimisers, learning_rate, r_drop_loss
from training.recipe import Optimisation


def test_learning_rate_is_equation_3():
    settings = Optimisation(warmup_steps=4000)
    for step in (1, 100, 3999, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert learning_rate(step, 512, settings) == pytest.approx(expected, rel=1e-12)
    assert learning_rate(4000, 512, settings) == pytest.approx(6.9877e-4, rel=1e-4)  # its peak
    assert learning_rate(10, 512, Optimisation(learning_rate_scale=2.0)) == 2 * learning_rate(10, 512, Optimisation())


def test_the_rate_stays_at_its_peak_until_it_decays():
    """With one step of warm-up it begins there; from `decay_from` on the rates are those of equation 3."""
    paper, flat = Optimisation(warmup_steps=100), Optimisation(warmup_steps=1, decay_from=100)
    assert learning_rate(1, 512, flat) == learning_rate(99, 512, flat) == pytest.approx(learning_rate(100, 512, paper))
    for step in (100, 101, 5000):
        assert learning_rate(step, 512, flat) == pytest.approx(learning_rate(step, 512, paper), rel=1e-12)
    both = Optimisation(warmup_steps=10, decay_from=100)
    assert learning_rate(5, 512, both) == pytest.approx(learning_rate(50, 512, both) / 2)


def test_cooldown_reaches_zero_after_the_last_step():
    plain, cooled = Optimisation(max_steps=1000), Optimisation(max_steps=1000, cooldown_steps=100)
    assert learning_rate(900, 512, cooled) == learning_rate(900, 512, plain)
    assert learning_rate(951, 512, cooled) == pytest.approx(0.5 * learning_rate(951, 512, plain))
    assert learning_rate(1000, 512, cooled) == pytest.approx(0.01 * learning_rate(1000, 512, plain))


def test_adam_is_the_papers_and_muon_takes_the_matrices_inside_the_layers(tiny_model):
    model = tiny_model()
    (adam,) = build_optimisers(model, Optimisation())
    assert (adam.defaults["betas"], adam.defaults["eps"], adam.defaults["weight_decay"]) == ((0.9, 0.98), 1e-9, 0)
    adam, muon = build_optimisers(model, Optimisation(optimiser="muon"))
    of_muon = {id(p) for group in muon.param_groups for p in group["params"]}
    of_adam = {id(p) for group in adam.param_groups for p in group["params"]}
    parameters = dict(model.named_parameters())
    assert of_muon | of_adam == set(map(id, parameters.values())) and not of_muon & of_adam
    inside = {name for name in parameters if "layers." in name and name.endswith("weight") and "norm" not in name}
    assert {name for name in parameters if id(parameters[name]) in of_muon} == inside
    assert muon.defaults["weight_decay"] == 0


def test_muon_in_float32_takes_the_steps_of_torchs():
    """Over several steps, of matrices of both shapes; torch's rounds to bfloat16, whose 8 bits are the tolerance."""
    torch.manual_seed(0)
    weights = [torch.randn(24, 64), torch.randn(64, 24), torch.randn(32, 32)]
    moved = {}
    for kind in (torch.optim.Muon, Float32Muon):
        parameters = [torch.nn.Parameter(weight.clone()) for weight in weights]
        muon = kind(parameters, lr=0.1, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
        generator = torch.Generator().manual_seed(1)
        for _ in range(4):
            for parameter in parameters:
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            muon.step()
        moved[kind] = [parameter.detach() - weight for parameter, weight in zip(parameters, weights, strict=True)]
    for ours, theirs in zip(moved[Float32Muon], moved[torch.optim.Muon], strict=True):
        assert (ours - theirs).norm() < 0.03 * theirs.norm()


@pytest.mark.parametrize("shape", [(40, 40), (20, 70), (70, 20)])
def test_orthogonal_brings_singular_values_near_one(shape):
    """And keeps singular vectors: what is left is the polynomial of each singular value, orthogonal here one by one."""
    torch.manual_seed(0)
    matrix, (a, b, c) = torch.randn(shape), (3.4445, -4.775, 2.0315)
    left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    values = values / values.norm()
    for _ in range(5):
        values = a * values + b * values**3 + c * values**5
    orthogonal = orthogonalise(matrix, (a, b, c), 5, 1e-7).double()
    torch.testing.assert_close(orthogonal, left @ values.diag() @ right, atol=1e-4, rtol=0)
    assert values.min() > 0.3 and values.max() < 1.3


def test_muon_is_torchs_where_the_recipe_is_bfloat16(tiny_model):
    for precision, kind in (("float32", Float32Muon), ("bfloat16", torch.optim.Muon)):
        _, muon = build_optimisers(tiny_model(), Optimisation(optimiser="muon", precision=precision))
        assert type(muon) is kind


def test_divergence_is_the_mean_of_both_of_kullback_and_leibler():
    first, second = torch.randn(2, 2, 3, 7)
    counted = torch.tensor([[True, True, True], [True, False, False]])
    p, q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    both = (kl_div(p, q, reduction="none", log_target=True) + kl_div(q, p, reduction="none", log_target=True)) / 2
    loss = r_drop_loss(torch.cat([first, second]), counted)
    assert loss.item() == pytest.approx(both.sum(dim=-1)[counted].sum().item(), rel=1e-5)
