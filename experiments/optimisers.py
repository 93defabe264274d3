"""Optimisers at a fixed architecture.

    python -m experiments optimisers --data DATA --work RUNS --jobs 2

Question: how many tokens does each optimiser need for the loss that the paper's reaches at the end?

Design: recipes/captions.yaml, six ways to train it. Each is tuned on the same small budget, three learning rates with
one seed; the best of the three is trained with two seeds more, and these are judged. Validated every 100 steps on
Multi30k val; between two validations the loss is taken as straight. "Averaged" is the paper's Adam, of whose weights
the mean of the last five of the checkpoints at every 100th step is validated (section 6.1; LAWA, arXiv 2209.14981).
"Cooled down": the rate falls to 0 over the second half, so that its curve belongs to this length of training only. No
rate above equation 3's was tried; Muon and Schedule-Free AdamW were best at the highest, so that they might need fewer
tokens still.
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
SCALES = (0.25, 0.5, 1.0)  # of the peak of equation 3, that each is tuned over
VALIDATION = "multi30k/val.tsv.xz"


class Way(NamedTuple):
    what: str
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
    if way == PAPER:  # keep all checkpoints: the averages are made of them
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
    best = {way: scale for way, scale in best.items() if f"{way}-{scale:g}" in tuned}  # without those that never learn
    settings = {f"{way}-{scale:g}": settings_of(way, scale) for way, scale in best.items()}
    others = lab.train("optimisers", "captions", settings, often, SEEDS[1:])
    runs = {
        way: [tuned[f"{way}-{scale:g}"], *(one for one in others if one.row == f"{way}-{scale:g}")]
        for way, scale in best.items()
    }
    curves = {way: {str(run.seed): curve(run) for run in of_way} for way, of_way in runs.items()}
    curves["averaged"] = {str(run.seed): averages(lab, run) for run in runs[PAPER]}
    return {"tuning": tuning, "best": best, "curves": curves}


def curve(run: Run) -> dict[str, float]:
    """{step: nats a token of Multi30k val}"""
    return {str(line["step"]): round(line["validation_loss"], 4) for line in run.log() if "validation_loss" in line}


def last(of_run: dict[str, float]) -> float:
    return list(of_run.values())[-1]


def averages(lab: Lab, run: Run) -> dict[str, float]:
    """The same of means of checkpoints."""
    found = {}
    for step in range(AVERAGED * EVERY, STEPS + 1, EVERY):
        folder = run.folder / "averages" / str(step)
        if not (folder / "model.safetensors").exists():
            shutil.copytree(run.model, folder, ignore=shutil.ignore_patterns("*.safetensors"), dirs_exist_ok=True)
            steps = range(step - (AVERAGED - 1) * EVERY, step + 1, EVERY)
            checkpoints = [run.folder / f"checkpoint-{one:07}" for one in steps]
            lab.require("training.average", folder / "model.safetensors", *checkpoints)
        found[str(step)] = round(lab.loss(folder, VALIDATION), 4)
    return found


# The report ----------------------------------------------------------------------------------------------------------


def tokens_to(target: float, of_run: dict[str, float]) -> float | None:
    """Thousands of tokens after which a curve is at the target; None where it never is."""
    before = None
    for step, loss in of_run.items():
        if loss <= target:
            if before is None:
                return int(step) * BATCH / 1000
            share = (before[1] - target) / (before[1] - loss)
            return (before[0] + share * (int(step) - before[0])) * BATCH / 1000
        before = int(step), loss
    return None


def target_of(found: dict[str, Any]) -> float:
    """The mean of the paper's Adam at the end."""
    return float(np.mean([last(one) for one in judged(found)[PAPER].values()]))


def what(way: str) -> str:
    return WAYS[way].what if way in WAYS else "Adam, equation 3, averaged"


def judged(found: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """The curves without those of the seed that the rates were chosen by."""
    return {
        way: {seed: one for seed, one in of_way.items() if seed != str(SEEDS[0])}
        for way, of_way in found["curves"].items()
    }


def finding(found: dict[str, Any]) -> str:
    target, parts = target_of(found), []
    for way, of_way in judged(found).items():
        needed = [tokens_to(target, one) for one in of_way.values()]
        reached = [one for one in needed if one is not None]
        if way != PAPER:
            name = what(way)
            share = f"{np.mean(reached) / (STEPS * BATCH / 1000):.0%}" if reached else "not reached"
            seeds = f" in {len(reached)} of {len(needed)} seeds" if 0 < len(reached) < len(needed) else ""
            parts.append(f"{name}: {share}{seeds}")
    return (
        "Of the tokens that the paper's Adam needs for its loss at the end, without the seed that chose the rates: "
        f"{'; '.join(parts)}."
    )


def report(found: dict[str, Any]) -> str:
    curves, target = judged(found), target_of(found)
    lines = []
    for way, of_way in curves.items():
        ends = [last(one) for one in of_way.values()]
        needed = [tokens_to(target, one) for one in of_way.values()]
        line = {"optimiser": what(way)}
        line["peak, times equation 3's"] = f"{found['best'].get(way, found['best'][PAPER]):g}"
        line["loss at the end"] = f"{np.mean(ends):.3f} ({min(ends):.3f} to {max(ends):.3f})"
        reached = [one for one in needed if one is not None]
        if reached:
            line["thousand tokens to the paper's loss"] = "; ".join(f"{one:,.0f}" for one in reached)
            line["of the paper's"] = f"{np.mean(reached) / (STEPS * BATCH / 1000):.0%}" + (
                f" ({len(reached)} of {len(needed)} seeds)" if len(reached) < len(needed) else ""
            )
        else:
            line["thousand tokens to the paper's loss"] = "not reached"
        lines.append(line)
    columns = [Column(name, right=name != "optimiser") for name in max(lines, key=len)]
    tried = ", ".join(f"{name} {loss:.3f}" for name, loss in found["tuning"].items())
    text = (
        f"The target is {target:.3f} nats a token, the mean of the paper's Adam at the end. Tuning, with another seed: "
        f"{tried}."
    )
    return "\n\n".join([draw(curves, target), markdown(columns, lines), text])


def draw(curves: dict[str, dict[str, dict[str, float]]], target: float) -> str:
    drawn = figures.figure(8, 3.8)
    axes = drawn.subplots()
    for (way, of_way), colour in zip(curves.items(), figures.COLOURS, strict=False):
        for i, one in enumerate(of_way.values()):
            label = None if i else what(way)
            axes.plot([int(s) * BATCH / 1e6 for s in one], list(one.values()), color=colour, linewidth=1.2, label=label)
    axes.axhline(target, color="#999999", linewidth=0.8)
    axes.set(xlabel="million tokens", ylabel="validation loss, nats a token", ylim=(target - 0.5, target + 2))
    axes.legend()
    return figures.save(drawn, "optimisers", "Validation loss against tokens for each optimiser, two seeds each")
