"""Optimisers at a fixed architecture.

    python -m experiments optimisers --data DATA --work RUNS --jobs 2

Question: how many tokens does each optimiser need to reach the final loss of the paper's optimiser?

Design:

- Each run is recipes/captions.yaml, trained in one of six ways.
- Each way is tuned with the same small budget: three learning rates with one seed. The best rate is then trained with
  two more seeds, and only these two are compared.
- The loss on Multi30k val is measured every 100 steps, and interpolated linearly in between.
- "Averaged" is the paper's Adam, validated with the mean of its last five checkpoints, which are saved every 100 steps
  (section 6.1; LAWA, arXiv 2209.14981).
- "Cooled down" means that the rate falls to 0 over the second half, so the curve belongs to this length of training
  only.

No rate above equation 3's was tried. Muon and Schedule-Free AdamW were best at the highest rate, so they might need
even fewer tokens.
"""

import shutil
from typing import Any, NamedTuple

import numpy as np

from . import figures
from .lab import Lab, Run
from .tables import Column, markdown


TITLE = "Optimisers: tokens to the same loss"
SEEDS = (1, 2, 3)
STEPS = 2000
BATCH = 1024
EVERY = 100
AVERAGED = 5
SCALES = (0.25, 0.5, 1.0)  # learning rates to tune over, relative to equation 3
VALIDATION = "multi30k/val.tsv.xz"


class Way(NamedTuple):
    """A way to train: an optimiser with its schedule."""

    label: str
    settings: list[str]


COOLED = [f"optimisation.cooldown_steps={STEPS // 2}"]
MUON, FREE = ["optimisation.optimiser=muon"], ["optimisation.optimiser=schedule_free"]
WAYS = {
    "adam": Way("Adam, equation 3 (the paper)", []),
    "adam-cooled": Way("Adam, cooled down", COOLED),
    "muon": Way("Muon, equation 3", MUON),
    "muon-cooled": Way("Muon, cooled down", [*MUON, *COOLED]),
    "free": Way("Schedule-Free AdamW", FREE),
}
PAPER = "adam"


def settings_of(way: str, scale: float) -> list[str]:
    settings = [*WAYS[way].settings, f"optimisation.learning_rate_scale={scale}"]
    if way == PAPER:  # keep all checkpoints for the averages
        settings.append(f"checkpointing.average_last={STEPS // EVERY}")
    return settings


def run(lab: Lab) -> dict[str, Any]:
    often = [
        f"checkpointing.validation_steps={EVERY}",
        "checkpointing.bleu_steps=0",
        f"checkpointing.save_steps={EVERY}",
    ]
    tried = {f"{way}-{scale:g}": settings_of(way, scale) for way in WAYS for scale in SCALES}
    tuned = {run.row: run for run in lab.train("optimisers-tuning", "captions", tried, often, SEEDS[:1])}
    tuning = {row: last(curve(run)) for row, run in tuned.items()}
    best = {way: min(SCALES, key=lambda scale, way=way: tuning.get(f"{way}-{scale:g}", np.inf)) for way in WAYS}
    best = {way: scale for way, scale in best.items() if f"{way}-{scale:g}" in tuned}  # some never learn
    settings = {f"{way}-{scale:g}": settings_of(way, scale) for way, scale in best.items()}
    more_runs = lab.train("optimisers", "captions", settings, often, SEEDS[1:])
    runs = {
        way: [tuned[f"{way}-{scale:g}"], *(run for run in more_runs if run.row == f"{way}-{scale:g}")]
        for way, scale in best.items()
    }
    curves = {way: {str(run.seed): curve(run) for run in way_runs} for way, way_runs in runs.items()}
    curves["averaged"] = {str(run.seed): averages(lab, run) for run in runs[PAPER]}
    return {"tuning": tuning, "best": best, "curves": curves}


def curve(run: Run) -> dict[str, float]:
    """{step: nats per token of Multi30k val}"""
    return {str(line["step"]): round(line["validation_loss"], 4) for line in run.log() if "validation_loss" in line}


def last(losses: dict[str, float]) -> float:
    return list(losses.values())[-1]


def averages(lab: Lab, run: Run) -> dict[str, float]:
    """{step: nats per token of Multi30k val} for means of checkpoints."""
    losses = {}
    for step in range(AVERAGED * EVERY, STEPS + 1, EVERY):
        folder = run.folder / "averages" / str(step)
        if not (folder / "model.safetensors").exists():
            shutil.copytree(run.model, folder, ignore=shutil.ignore_patterns("*.safetensors"), dirs_exist_ok=True)
            steps = range(step - (AVERAGED - 1) * EVERY, step + 1, EVERY)
            checkpoints = [run.folder / f"checkpoint-{saved:07}" for saved in steps]
            lab.run_module("training.average", folder / "model.safetensors", *checkpoints)
        losses[str(step)] = round(lab.loss(folder, VALIDATION), 4)
    return losses


# The report ----------------------------------------------------------------------------------------------------------


def tokens_to(target: float, losses: dict[str, float]) -> float | None:
    """Thousands of tokens until the loss reaches the target; None if it never does."""
    before = None
    for step, loss in losses.items():
        if loss <= target:
            if before is None:
                return int(step) * BATCH / 1000
            share = (before[1] - target) / (before[1] - loss)
            return (before[0] + share * (int(step) - before[0])) * BATCH / 1000
        before = int(step), loss
    return None


def target_of(results: dict[str, Any]) -> float:
    """The mean final loss of the paper's Adam."""
    return float(np.mean([last(losses) for losses in judged(results)[PAPER].values()]))


def label(way: str) -> str:
    return WAYS[way].label if way in WAYS else "Adam, equation 3, averaged"


def judged(results: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Returns the curves without the seed that chose the learning rates."""
    return {
        way: {seed: losses for seed, losses in curves.items() if seed != str(SEEDS[0])}
        for way, curves in results["curves"].items()
    }


def tokens_needed(results: dict[str, Any]) -> dict[str, list[float]]:
    """{way: thousands of tokens to the target}, for the seeds that reach it."""
    target = target_of(results)
    return {
        way: [tokens for losses in curves.values() if (tokens := tokens_to(target, losses)) is not None]
        for way, curves in judged(results).items()
    }


def share(tokens: list[float]) -> float:
    """Mean tokens, relative to the whole training of the paper's Adam."""
    return float(np.mean(tokens)) / (STEPS * BATCH / 1000)


def finding(results: dict[str, Any]) -> str:
    curves, needed = judged(results), tokens_needed(results)
    reached = {way: share(tokens) for way, tokens in needed.items() if len(tokens) == len(curves[way]) and way != PAPER}
    sentences = []
    if reached:
        best = min(reached, key=lambda way: reached[way])
        sentences.append(
            f'"{label(best)}" needs the fewest tokens to reach the final loss of the paper\'s Adam: '
            f"{reached[best]:.0%} of Adam's."
        )
    if never := [label(way) for way, tokens in needed.items() if not tokens]:
        sentences.append(f"These never reach it: {'; '.join(never)}.")
    return " ".join(sentences)


def facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the rows of the explorer's table: what was measured, and the result."""
    curves = judged(results)
    needed = {way: tokens for way, tokens in tokens_needed(results).items() if way != PAPER}
    reached = sorted((share(tokens), way) for way, tokens in needed.items() if tokens)
    parts = [
        f"{fraction:.0%} with {label(way)}"
        + (f" ({len(needed[way])} of {len(curves[way])} seeds)" if len(needed[way]) < len(curves[way]) else "")
        for fraction, way in reached
    ]
    parts += [f"never with {label(way)}" for way, tokens in needed.items() if not tokens]
    return [("Tokens that other optimisers need to reach the final loss of the paper's Adam", "; ".join(parts))]


def report(results: dict[str, Any]) -> str:
    curves, needed = judged(results), tokens_needed(results)
    lines = []
    for way, losses_by_seed in curves.items():
        ends = [last(losses) for losses in losses_by_seed.values()]
        line = {"optimiser": label(way)}
        line["peak, relative to equation 3"] = f"{results['best'].get(way, results['best'][PAPER]):g}"
        line["final loss"] = f"{np.mean(ends):.3f} ({min(ends):.3f} to {max(ends):.3f})"
        if needed[way]:
            line["thousand tokens to the target"] = "; ".join(f"{tokens:,.0f}" for tokens in needed[way])
            line["share of the paper's"] = f"{share(needed[way]):.0%}" + (
                f" ({len(needed[way])} of {len(ends)} seeds)" if len(needed[way]) < len(ends) else ""
            )
        else:
            line["thousand tokens to the target"] = "not reached"
        lines.append(line)
    columns = [Column(name, right=name != "optimiser") for name in max(lines, key=len)]
    return "\n\n".join(
        [
            draw(curves, target_of(results)),
            markdown(columns, lines),
            f"The target is {target_of(results):.3f} nats per token, the mean final loss of the paper's Adam.",
            "Final losses of the tuning runs, by peak learning rate relative to equation 3:",
            tuning_table(results["tuning"]),
        ]
    )


def tuning_table(tuning: dict[str, float]) -> str:
    lines = [
        {"optimiser": way.label}
        | {f"{scale:g}": f"{tuning[row]:.3f}" for scale in SCALES if (row := f"{name}-{scale:g}") in tuning}
        for name, way in WAYS.items()
    ]
    return markdown([Column("optimiser"), *(Column(f"{scale:g}", right=True) for scale in SCALES)], lines)


def draw(curves: dict[str, dict[str, dict[str, float]]], target: float) -> str:
    figure = figures.figure(8, 3.8)
    axes = figure.subplots()
    for (way, losses_by_seed), colour in zip(curves.items(), figures.COLOURS, strict=False):
        for i, losses in enumerate(losses_by_seed.values()):
            legend = None if i else label(way)
            tokens = [int(step) * BATCH / 1e6 for step in losses]
            axes.plot(tokens, list(losses.values()), color=colour, linewidth=1.2, label=legend)
    axes.axhline(target, color="#999999", linewidth=0.8)
    axes.set(xlabel="million tokens", ylabel="validation loss, nats per token", ylim=(target - 0.5, target + 2))
    axes.legend()
    return figures.save(figure, "optimisers", "Validation loss against tokens for each optimiser, two seeds each")
