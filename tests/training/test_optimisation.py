"""The learning rate of equation 3, the optimisers, and the loss that R-Drop adds."""

import pytest
import torch
from torch.nn.functional import kl_div

from training.optimisation import build_optimisers, divergence, learning_rate
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


def test_divergence_is_the_mean_of_both_of_kullback_and_leibler():
    first, second = torch.randn(2, 2, 3, 7)
    counted = torch.tensor([[True, True, True], [True, False, False]])
    p, q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    both = (kl_div(p, q, reduction="none", log_target=True) + kl_div(q, p, reduction="none", log_target=True)) / 2
    found = divergence(torch.cat([first, second]), counted)
    assert found.item() == pytest.approx(both.sum(dim=-1)[counted].sum().item(), rel=1e-5)
