"""The report is what the results say, and what it says of a figure is right."""

import math
import re
from importlib import import_module

import numpy as np
import pytest

from experiments import __main__ as command
from experiments import figures, layers, length, optimisers, report, table3, warmup
from experiments.intervals import Interval
from experiments.lab import ROOM, recorded
from training.recipe import load_recipe


@pytest.mark.parametrize("name", report.EXPERIMENTS)
def test_an_experiment_says_its_question_its_design_and_its_command(name):
    module = import_module(f"experiments.{name}")
    assert module.TITLE
    assert "Question:" in module.__doc__ and "Design:" in module.__doc__
    assert re.search(rf"python -m experiments {name}\b", module.__doc__)


def test_readme_and_figures_are_those_of_the_results(tmp_path, monkeypatch):
    """`python -m experiments report` changes nothing."""
    monkeypatch.setattr(figures, "FOLDER", tmp_path / "figures")
    monkeypatch.setattr(report, "README", tmp_path / "README.md")
    explorer = report.EXPLORER
    monkeypatch.setattr(report, "EXPLORER", tmp_path / "findings.js")
    report.write_report()
    assert (tmp_path / "findings.js").read_text(encoding="utf-8") == explorer.read_text(encoding="utf-8")
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == (ROOM / "README.md").read_text(encoding="utf-8")
    drawn = sorted(path.name for path in (tmp_path / "figures").glob("*.svg"))
    assert drawn == sorted(path.name for path in (ROOM / "figures").glob("*.svg"))


def test_overview_names_every_experiment(capsys):
    command.main([])
    printed = capsys.readouterr().out
    assert all(name in printed for name in report.EXPERIMENTS)


def test_an_experiment_that_trains_needs_a_folder_for_its_runs():
    with pytest.raises(SystemExit, match="--work is missing"):
        command.main(["table3"])


def test_missing_data_are_a_message(tmp_path):
    with pytest.raises(SystemExit, match="--data"):
        command.main(["parsing", "--data", str(tmp_path), "--work", str(tmp_path)])


# Table 3 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", table3.ROWS)
def test_a_row_of_table_3_is_a_recipe(row):
    """What it changes is what it says."""
    base = load_recipe(ROOM / "recipes/captions.yaml").to_dict()
    recipe = load_recipe(ROOM / "recipes/captions.yaml", table3.ROWS[row].settings).to_dict()
    changed = {key for key in recipe if recipe[key] != base[key]}
    assert changed <= {"model", "optimisation"} and changed


def test_claims_are_the_papers_perplexities():
    assert table3.ROWS["n1"].claim == pytest.approx(math.log(6.11) - math.log(4.92))
    assert table3.ROWS["learned"].claim == 0 and table3.ROWS["pre-norm"].claim is None


@pytest.mark.parametrize(
    ("claim", "found", "expected"),
    [
        (0.2, (0.1, 0.05, 0.15), "holds"),
        (0.2, (-0.1, -0.15, -0.05), "fails"),
        (0.2, (0.1, -0.05, 0.25), "cannot be resolved"),
        (-0.1, (-0.1, -0.15, -0.05), "holds"),
        (0.0, (0.01, -0.02, 0.04), "holds: no difference"),
        (0.0, (0.01, -0.2, 0.22), "cannot be resolved"),
        (0.0, (0.2, 0.1, 0.3), "fails"),
        (None, (0.2, 0.1, 0.3), "worse"),
        (None, (0.2, -0.1, 0.5), "no difference seen"),
    ],
)
def test_verdicts(claim, found, expected):
    assert table3.verdict(claim, Interval(*found)) == expected


# Other figures -------------------------------------------------------------------------------------------------------


def test_tokens_to_a_loss_lie_between_two_validations():
    curve = {"100": 4.0, "200": 3.0, "300": 2.5}
    assert optimisers.tokens_to(3.0, curve) == 200 * 1.024
    assert optimisers.tokens_to(3.25, curve) == pytest.approx(175 * 1.024)
    assert optimisers.tokens_to(5.0, curve) == 100 * 1.024
    assert optimisers.tokens_to(2.0, curve) is None


def test_layers_cross_where_their_times_are_the_same():
    """n^2 and 100 n meet at 100, on straight lines between logarithms."""
    one = {(n, 64): float(n**2) for n in layers.LENGTHS}
    other = {(n, 64): 100.0 * n for n in layers.LENGTHS}
    assert layers.crossing(one, other, 64) == pytest.approx(100)
    assert layers.crossing(other, one, 64) == 0 and layers.shown(0) == f"below {layers.LENGTHS[0]}"
    assert layers.crossing(one, {key: 1e9 for key in one}, 64) == math.inf


def test_exponents_are_those_of_the_times():
    results = [
        {"kind": "LSTM", "n": n, "d": d, "seconds": [1e-9 * n * d**2] * 3, "bytes": n * d}
        for n in layers.LENGTHS
        for d in layers.WIDTHS
    ]
    found = {"results": results}
    assert layers.exponent(found, "LSTM", "n").value == pytest.approx(1)
    assert layers.exponent(found, "LSTM", "d").value == pytest.approx(2)
    assert layers.exponent(found, "LSTM", "n", "bytes").value == pytest.approx(1)


def test_a_layer_keeps_what_its_backward_pass_needs():
    """The formula keeps the weights of all heads, [H, N, N] in float32; the convolution its input only."""
    import torch

    x = torch.randn(1, 64, 64, requires_grad=True)
    formula, convolution = (layers.kept_bytes(layers.layer(k, 64), x) for k in ("attention, formula", "convolution"))
    assert formula >= 4 * layers.HEADS * 64 * 64
    assert convolution == 4 * 64 * 64


def test_gradients_of_the_paper_s_order_grow_towards_the_output():
    """Xiong et al. 2020, figure 3; with LayerNorm first they do not."""
    post, pre = (warmup.gradients(norm, seeds=1)["decoder"] for norm in ("post", "pre"))
    assert np.all(np.diff(post) > 0) and post[-1] > 2 * post[0]
    assert pre[-1] < pre[0]


@pytest.mark.parametrize(
    "without, verdict", [((4.0, 3.2), "holds"), ((3.2, 4.0), "fails"), ((3.2, 3.2), "cannot be resolved")]
)
def test_warm_up_is_missed_by_the_order_that_loses_more_without_it(without, verdict):
    losses = {
        warmup.name_of(norm, scale, warm_up): alone if warm_up == 1 else 3.0
        for norm, alone in zip(warmup.NORMS, without, strict=True)
        for scale in warmup.SCALES
        for warm_up in warmup.WARM_UPS
    }
    decoder = {"decoder": [1.0, 2.0]}
    assert f"claim {verdict}." in warmup.finding({"losses": losses, "gradients": {"post": decoder, "pre": decoder}})


@pytest.mark.parametrize(
    "learned, verdict",
    [([0.2, 0.1, 0.3], "holds"), ([-0.2, -0.3, -0.1], "fails"), ([-0.1, -0.2, 0.1], "cannot be resolved")],
)
def test_sinusoids_reach_further_where_the_interval_of_the_longest_sentences_says_so(learned, verdict):
    names = list(length.groups(np.array([1])))
    results = [
        {"encoding": encoding, "seed": 1, "length": name, "loss": 3.0, "words_of_reference": 1.0}
        for encoding in length.ENCODINGS
        for name in names
    ]
    found = {"groups": {name: {"learned": learned} for name in names}, "results": results}
    assert f"learned positions, {verdict}." in length.finding(found)


def test_length_says_what_positions_cost_beside_sinusoids():
    """Two seeds of each of three encodings; learned positions lose 0.5 nats a token, none 1."""
    rng = np.random.default_rng(0)
    tokens, beyond = rng.integers(41, 60, 80).astype(float), np.array([0.0, 0.5, 1.0])
    nats = tokens * (2 + beyond[:, None, None] + rng.normal(0, 0.01, (3, 2, 1)) + rng.normal(0, 0.1, (3, 2, 80)))
    found = length.beside_sinusoids(np.stack([nats, np.broadcast_to(tokens, nats.shape)], axis=-1))
    assert (found["pairs"], found["tokens"]) == (80, tokens.sum())
    assert found["learned"][1] < 0.5 < found["learned"][2] and found["none"][1] < 1 < found["none"][2]


def test_results_have_their_origin():
    for name in report.EXPERIMENTS:
        if found := recorded(name):
            assert found["command"] == f"python -m experiments {name}"
            assert found["machine"]["processor"] and found["versions"]["torch"]
