"""The report agrees with the results, and its statements with the figures."""

import json
import math
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from experiments import __main__ as command
from experiments import cost, figures, heads, layers, length, optimisers, report, table3, warmup
from experiments.intervals import Interval
from experiments.lab import FOLDER, ExperimentError, Lab, Run, read_results
from training.recipe import load_recipe
from vaswani_transformer import VaswaniConfig
from vaswani_transformer.model.configuration_vaswani import TABLE_3


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
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == (FOLDER / "README.md").read_text(encoding="utf-8")
    drawn, kept = (
        {path.name: path.read_bytes() for path in folder.glob("*.svg")}
        for folder in (figures.FOLDER, FOLDER / "figures")
    )
    assert drawn.keys() == kept.keys()
    assert [name for name in drawn if drawn[name] != kept[name]] == []


def test_the_front_page_counts_the_verdicts_on_table_3():
    rows = [
        row
        for row in read_results("table3")["rows"]
        if row["row"] in table3.ROWS and table3.ROWS[row["row"]].perplexity
    ]
    verdicts = Counter(row["verdict"].split()[0] for row in rows)
    text = " ".join((FOLDER.parent / "README.md").read_text(encoding="utf-8").split())
    counts = re.search(
        r"Of the (\d+) rows of Table 3 .*?(\d+) agree with the paper, (\d+) contradict it, and (\d+) are", text
    )
    assert counts and [int(count) for count in counts.groups()] == [
        len(rows), verdicts["holds:"] + verdicts["holds"], verdicts["fails"], verdicts["cannot"],
    ]  # fmt: skip


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


def changes(row: str) -> dict:
    """{key: value} of what differs from the base row's recipe."""
    base, recipe = (
        load_recipe(FOLDER / "recipes/captions.yaml", settings).to_dict()
        for settings in ([], table3.ROWS[row].settings)
    )
    return {
        key: value
        for part in recipe
        if isinstance(recipe[part], dict)
        for key, value in recipe[part].items()
        if base[part].get(key) != value
    }


@pytest.mark.parametrize(("row", "preset"), list(zip(table3.ROWS, TABLE_3, strict=False)))
def test_a_row_of_table_3_is_the_papers_scaled(row, preset):
    """Widths are a quarter of the paper's, layers half, and what has no size is the same."""
    size = {"d_model": 4, "d_ff": 4, "d_k": 4, "d_v": 4, "encoder_layers": 2, "decoder_layers": 2}
    wanted = {key: value // size[key] if key in size else value for key, value in TABLE_3[preset].items()}
    if row == "learned":
        wanted["max_position_embeddings"] = 64  # more than the longest caption
    assert changes(row) == wanted


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ("pre-norm", {"norm_position": "pre"}),
        ("pre-norm-rate", {"norm_position": "pre", "learning_rate_scale": 1.0}),
        ("no-warm-up", {"warmup_steps": 1, "decay_from": 400}),
        ("unscaled", {"scale_attention": False}),
        ("untied", {"share_embeddings": "none"}),
        ("separate", {"fused_initialisation": False}),
    ],
)
def test_a_row_beyond_the_paper_changes_one_thing(row, wanted):
    assert changes(row) == wanted


def test_claims_are_the_papers_perplexities():
    assert table3.ROWS["n1"].claim == pytest.approx(math.log(6.11) - math.log(4.92))
    assert table3.ROWS["learned"].claim == 0 and table3.ROWS["pre-norm"].claim is None


@pytest.mark.parametrize(
    ("claim", "interval", "expected"),
    [
        (0.2, (0.1, 0.05, 0.15), "holds"),
        (0.2, (-0.1, -0.15, -0.05), "fails"),
        (0.2, (0.1, -0.05, 0.25), "cannot be resolved"),
        (-0.1, (-0.1, -0.15, -0.05), "holds"),
        (0.0, (0.01, -0.02, 0.04), "holds: no difference"),
        (0.0, (0.01, -0.2, 0.22), "cannot be resolved"),
        (0.0, (0.2, 0.1, 0.3), "fails"),
        (0.0, (0.03, 0.01, 0.06), "cannot be resolved"),
        (None, (0.2, 0.1, 0.3), "worse"),
        (None, (0.2, -0.1, 0.5), "no difference seen"),
    ],
)
def test_verdicts(claim, interval, expected):
    assert table3.verdict(claim, Interval(*interval)) == expected


@pytest.mark.parametrize(
    ("row", "interval", "clear"),
    [
        ("n1", (0.3, 0.2, 0.4), True),
        ("n1", (0.3, 0.1, 0.5), False),  # twice as wide it would reach below 0
        ("n1", (0.3, -0.1, 0.7), False),
        ("n1", (-0.3, -0.4, -0.2), True),  # clearly against the paper
        ("learned", (0.0, -0.02, 0.02), True),
        ("learned", (0.0, -0.03, 0.03), False),
        ("pre-norm", (0.3, 0.2, 0.4), True),
        ("pre-norm", (0.0, -0.01, 0.01), False),
    ],
)
def test_a_verdict_is_clear_if_an_interval_of_twice_the_width_gives_it(row, interval, clear):
    verdict = table3.verdict(table3.ROWS[row].claim, Interval(*interval))
    assert table3.is_clear({"row": row, "difference": list(interval), "verdict": verdict}) == clear


def runs_of_table_3(rows=("base", *table3.ROWS), seeds=(1, 2, 3)) -> tuple[list[Run], dict[str, np.ndarray]]:
    """One row is worse by 0.3 nats, one noisy; the same numbers for the same seed."""
    tokens, ease = np.full(300, 12.0), np.random.default_rng(0).normal(2, 0.3, 300)
    runs, losses = [], {}
    for row in rows:
        for seed in seeds:
            bleu = 10.5 if row == "smoothing-0" else 9.0
            facts = {"parameters": 10, "sacrebleu_greedy": {"val": bleu}, "hours": 0.1}
            runs.append(Run(row, seed, Path(f"{row}-seed{seed}"), facts))
            rng = np.random.default_rng([seed, ["base", *table3.ROWS].index(row)])
            level = 0.3 * (row == "n1") + rng.normal(0, 0.5 if row == "no-warm-up" else 0.01)
            losses[runs[-1].name] = np.stack([tokens * (ease + level + rng.normal(0, 0.05, 300)), tokens], axis=1)
    return runs, losses


def test_table_3_reports_its_losses(tmp_path, monkeypatch):
    """25 rows of three seeds, of which one is clearly worse and was stopped, one noisy, and one failed twice."""
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    runs, losses = runs_of_table_3()
    gone = {("unscaled", 2), ("unscaled", 3), ("n1", 3)}
    results = table3.measure([run for run in runs if (run.row, run.seed) not in gone], losses, ["n1"])
    rows = {row["row"]: row for row in results["rows"]}
    assert rows["n1"]["verdict"] == "holds" and rows["n1"]["difference"][0] == pytest.approx(0.3, abs=0.03)
    assert rows["n1"]["stopped"] and list(rows["n1"]["losses"]) == ["1", "2"]
    assert rows["unscaled"]["failed"] == 2 and "verdict" not in rows["unscaled"]
    assert rows["no-warm-up"]["verdict"] == "no difference seen"
    page = table3.report(results)
    assert "In some runs the loss was not finite." in table3.finding(results)
    assert re.search(r"\| 1 layer \(2\) \|.* \| 2 \| 0\.0\d\d \|", page)
    assert re.search(r"\| here \| [+-]0.0\d\d \| \+1.5 \|\n\| paper \| -0.052 \| -0.5 \|", page)
    assert "2 of 3 runs failed" in page and page.count("\n| ") >= 25


def test_table_3_trains_a_third_time_what_two_seeds_leave_open(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    written = []
    monkeypatch.setattr(table3, "write_results", lambda name, results: written.append(results))

    class FakeLab(Lab):
        trained = []

        def train(self, name, recipe, runs, settings=(), seeds=(1,)):
            self.trained += [(row, seed) for row in runs for seed in seeds]
            return runs_of_table_3(runs, seeds)[0]

        def losses(self, models, pairs):
            return [runs_of_table_3()[1][model.parent.name] for model in models]

        def archive(self, name):
            pass

    results = table3.run(FakeLab(Path(), Path()))
    assert {seed for row, seed in FakeLab.trained if row == "base"} == {1, 2, 3}
    assert {seed for row, seed in FakeLab.trained if row == "n1"} == {1, 2}
    assert {seed for row, seed in FakeLab.trained if row == "no-warm-up"} == {1, 2, 3}
    stopped = [row["row"] for row in results["rows"] if "stopped" in row]
    assert results["seeds"] == [1, 2, 3] and stopped.count("n1") == 1
    assert results.get("due", []) == []
    first, second = written[:2]  # intermediate results are written, and name the missing rows
    assert first["seeds"] == [1, 2] and "base" in first["due"] and "n1" not in first["due"]
    assert second["seeds"] == [1, 2, 3] and set(second["due"]) < set(first["due"])
    assert all("verdict" in row and "failed" not in row for row in second["rows"][1:])
    assert table3.ROWS[second["due"][-1]].label in table3.report(second).split("waiting for a third seed:")[1]


# Heads and cost ------------------------------------------------------------------------------------------------------


def test_what_a_head_looks_at():
    """Four tokens, of which the last is the end and the two rarest are at 0 and 2."""
    counts, keys = Counter({5: 1, 6: 9, 7: 2, 1: 9}), [5, 6, 7, 1]
    tally = heads.marks([0, 0, 2, 3], keys, ("encoder", "self_attn"), counts)
    assert (tally["queries"], tally["rare"], tally["end"]) == (4, 3, 1)
    assert {place: tally[place] for place in (0, -1)} == {0: 3, -1: 1}
    cross = heads.marks([3, 3], keys, ("decoder", "cross_attn"), counts)
    assert cross["end"] == 2 and cross["rare"] == 0 and 0 not in cross


@pytest.mark.parametrize(
    ("tally", "name"),
    [
        ({"queries": 10, -1: 9, 0: 1, "rare": 6}, "position -1"),
        ({"queries": 10, 0: 10}, "itself"),
        ({"queries": 10, -1: 5, 0: 5, "rare": 6}, "rare words"),
        ({"queries": 10, -1: 5, 0: 5, "rare": 6, "end": 6}, "end of the sentence"),
        ({"queries": 10, -1: 8, 0: 2, "rare": 5}, ""),
    ],
)
def test_the_role_of_a_head(tally, name):
    assert heads.role(Counter(tally), ("encoder", "self_attn", 0, 0))["role"] == name


def test_heads_are_counted_until_the_loss_has_risen():
    removed = [{"loss": 2.0 + rise, "sacrebleu_greedy": 0} for rise in (-0.01, 0.04, 0.06, 0.03)]
    assert heads.removable({"loss": 2.0, "removed": removed}) == 2


@pytest.mark.parametrize("best, count", [({"layer": 1, "head": 0}, 1), ({"layer": 0, "head": 1}, 0)])
def test_the_head_missed_most_is_held_against_the_one_that_aligns(monkeypatch, best, count):
    single = [
        {"head": ["decoder", "cross_attn", layer, head], "loss": [loss, loss, loss]}
        for layer, head, loss in ((0, 1, 0.1), (1, 0, 0.2))
    ]
    monkeypatch.setattr(heads, "read_results", lambda name: {"checkpoints": {"mini": {"best": best}}})
    finding = heads.finding({"checkpoints": {"mini": {"single": single, "loss": 2.0, "removed": []}}})
    assert (
        f"cross-attention head in 1 of 1 checkpoints. In {count} of them it is also the head that aligns best."
        in finding
    )


def test_cost_counts_no_checkpoint_whose_past_is_unknown(monkeypatch, tmp_path):
    (tmp_path / "training.json").write_text('{"recipe": {"initial": "mini-en-de"}}')
    monkeypatch.setattr(cost, "checkpoint_path", lambda name: tmp_path)
    monkeypatch.setattr(cost, "capacity", lambda precision: 1e9)
    monkeypatch.setattr(cost, "PAPER_RUNS", {})
    with pytest.raises(ExperimentError, match="does not record the cost of its initial weights"):
        cost.run(Lab(tmp_path, None))


@pytest.mark.parametrize("device, bfloat16, known", [("this", 2e9, True), ("this", 5e8, False), ("other", 2e9, False)])
def test_cost_takes_hours_only_where_this_machine_is_like_the_one_that_trained(
    monkeypatch, tmp_path, device, bfloat16, known
):
    facts = {"steps": 10, "batch_tokens": 100, "hours": 2.0, "threads": 3, "device": device}
    recipe = {"initial": None, "optimisation": {"precision": "bfloat16", "batch_tokens": 100}}
    (tmp_path / "training.json").write_text(json.dumps({"recipe": recipe, **facts}))
    VaswaniConfig.from_preset("tiny", vocab_size=50).save_pretrained(tmp_path)
    monkeypatch.setattr(cost, "checkpoint_path", lambda name: tmp_path)
    monkeypatch.setattr(cost, "cpu_name", lambda: "this")
    monkeypatch.setattr(cost, "capacity", {"float32": 1e9, "bfloat16": bfloat16}.get)
    monkeypatch.setattr(cost, "PAPER_RUNS", {})
    monkeypatch.setattr(cost, "CHECKPOINTS", ["mini-en-de"])
    monkeypatch.setattr(cost, "captions", lambda rows: [])
    (row,) = cost.run(Lab(tmp_path, None))["rows"]
    assert row.get("formula") == (2 * 3600 * 3 * bfloat16 if known else None)


def test_quality_is_bleu_as_the_paper_computes_it(monkeypatch, tmp_path):
    (tmp_path / "model_cards" / "mini-en-fr").mkdir(parents=True)
    metrics = {"sacreBLEU": 1.0, "tokenised BLEU (the paper's)": 2.0, "tokenised lower-cased BLEU (Multi30k's)": 3.0}
    results = [{"dataset": "newstest2014", **{name: {"value": value} for name, value in metrics.items()}}]
    (tmp_path / "model_cards" / "mini-en-fr" / "scores.json").write_text(json.dumps({"results": results}))
    monkeypatch.setattr(cost, "FOLDER", tmp_path / "experiments")
    assert cost.score("mini-en-fr", "newstest2014") == 2.0 and cost.score("mini-en-fr", "Multi30k") is None


# Other figures -------------------------------------------------------------------------------------------------------


def test_tokens_to_a_loss_lie_between_two_validations():
    curve = {"100": 4.0, "200": 3.0, "300": 2.5}
    assert optimisers.tokens_to(3.0, curve) == 200 * 1.024
    assert optimisers.tokens_to(3.25, curve) == pytest.approx(175 * 1.024)
    assert optimisers.tokens_to(5.0, curve) == 100 * 1.024
    assert optimisers.tokens_to(2.0, curve) is None


def test_layers_cross_where_their_times_are_the_same():
    """n^2 and 100 n meet at 100, on straight lines between logarithms."""
    quadratic = {(n, 64): float(n**2) for n in layers.LENGTHS}
    linear = {(n, 64): 100.0 * n for n in layers.LENGTHS}
    assert layers.crossing(quadratic, linear, 64) == pytest.approx(100)
    assert layers.crossing(linear, quadratic, 64) == 0 and layers.length_text(0) == f"below {layers.LENGTHS[0]}"
    assert layers.crossing(quadratic, {key: 1e9 for key in quadratic}, 64) == math.inf


def test_exponents_are_those_of_the_times():
    results = [
        {"kind": "LSTM", "n": n, "d": d, "seconds": [1e-9 * n * d**2] * 3, "bytes": n * d}
        for n in layers.LENGTHS
        for d in layers.WIDTHS
    ]
    times = {"results": results}
    assert layers.exponent(times, "LSTM", "n").value == pytest.approx(1)
    assert layers.exponent(times, "LSTM", "d").value == pytest.approx(2)
    assert layers.exponent(times, "LSTM", "n", "bytes").value == pytest.approx(1)


def test_a_layer_keeps_what_its_backward_pass_needs():
    """The formula keeps the weights of all heads, [H, N, N] in float32; the convolution its input only."""
    import torch

    x = torch.randn(1, 64, 64, requires_grad=True)
    formula, convolution = (layers.saved_bytes(layers.layer(k, 64), x) for k in ("attention, formula", "convolution"))
    assert formula >= 4 * layers.HEADS * 64 * 64
    assert convolution == 4 * 64 * 64


def test_gradients_of_the_paper_s_order_grow_towards_the_output():
    """Xiong et al. 2020, figure 3; with LayerNorm first they do not."""
    post, pre = (warmup.gradients(norm, seeds=1)["decoder"] for norm in ("post", "pre"))
    assert np.all(np.diff(post) > 0) and post[-1] > 2 * post[0]
    assert pre[-1] < pre[0]


@pytest.mark.parametrize(
    ("after", "before", "verdict"),
    [
        ([3.9, 4.0, 4.1, 4.0], [3.2, 3.1, 3.2, 3.3], "holds"),
        ([3.2, 3.1, 3.2, 3.3], [3.9, 4.0, 4.1, 4.0], "fails"),
        ([3.2, 3.9, 3.1, 3.6], [3.3, 3.6, 3.4, 3.2], "cannot be resolved"),
        ([3.2, 3.2, 3.2], [3.2, 3.2, 3.2, 3.2], "holds"),  # one run failed
    ],
)
def test_warm_up_is_missed_by_the_order_that_loses_more_without_it(after, before, verdict):
    usual = [3.0, 3.1, 3.0, 2.9]
    again = {"post": {"1": after, "400": usual}, "pre": {"1": before, "400": usual}}
    decoder = {"decoder": [1.0, 2.0]}
    assert f"warm-up {verdict} (" in warmup.finding({"again": again, "gradients": {"post": decoder, "pre": decoder}})


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
    groups = {name: {"learned": learned} for name in names}
    assert f"learned positions {verdict}." in length.finding({"groups": groups, "results": results})


def test_length_compares_encodings_with_sinusoids():
    """Two seeds of each of three encodings; learned positions lose 0.5 nats a token, none 1."""
    rng = np.random.default_rng(0)
    tokens, beyond = rng.integers(41, 60, 80).astype(float), np.array([0.0, 0.5, 1.0])
    nats = tokens * (2 + beyond[:, None, None] + rng.normal(0, 0.01, (3, 2, 1)) + rng.normal(0, 0.1, (3, 2, 80)))
    group = length.beside_sinusoids(np.stack([nats, np.broadcast_to(tokens, nats.shape)], axis=-1))
    assert (group["pairs"], group["tokens"]) == (80, tokens.sum())
    assert group["learned"][1] < 0.5 < group["learned"][2] and group["none"][1] < 1 < group["none"][2]


def test_results_have_their_origin():
    for name in report.EXPERIMENTS:
        if results := read_results(name):
            assert results["command"] == f"python -m experiments {name}"
            assert results["machine"]["processor"] and results["versions"]["torch"]
