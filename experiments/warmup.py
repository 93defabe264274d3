"""Learning rate, warm-up, and where the LayerNorm stands.

    python -m experiments warmup --data DATA --work RUNS --jobs 2

Question: the paper warms up for 4,000 steps and does not say what happens without. Xiong et al. 2020 (arXiv 2002.04745)
say that the original order, LayerNorm after each sub-layer, needs it, because gradients near the output begin large,
and that LayerNorm before each sub-layer does not. Does the original order lose more without warm-up than the other?

Design: recipes/captions.yaml for 600 steps. The rate rises for the steps of the warm-up, stays at its peak to step 400,
and falls with the root of the step: with a warm-up of 400 it is equation 3. The peak is 0.125 to 2 times that of
equation 3, which is 0.0044. One seed fills the map; then either order, with the whole warm-up and with none, is trained
at its best rate with four other seeds, and these decide: the interval of 95% is one over seeds. Gradient norms are
those before any step, of random tokens and over 5 random initialisations of 6 + 6 layers, the paper's number, at this
width.
"""

import itertools
from typing import Any

import numpy as np
import torch

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from . import figures
from .intervals import mean
from .lab import Lab, Run
from .tables import Column, markdown


TITLE = "Warm-up and the place of the LayerNorm"
STEPS = 600
DECAY_FROM = 400
PEAK = (128 * DECAY_FROM) ** -0.5
SCALES = (0.125, 0.25, 0.5, 1.0, 2.0)
WARM_UPS = (1, 25, 100, 400)
FRESH = (2, 3, 4, 5)  # seeds that decide
NORMS = {"post": "after (the paper)", "pre": "before"}


CELLS = list(itertools.product(NORMS, SCALES, WARM_UPS))
SETTINGS = [
    f"optimisation.max_steps={STEPS}",
    f"optimisation.decay_from={DECAY_FROM}",
    "checkpointing.bleu_steps=0",
    f"checkpointing.validation_steps={STEPS}",
]


def name_of(norm: str, scale: float, warm_up: int) -> str:
    return f"{norm}-{scale:g}-{warm_up}"


def run(lab: Lab) -> dict[str, Any]:
    runs = lab.train("warmup", "captions", {name_of(*cell): settings_of(*cell) for cell in CELLS}, SETTINGS)
    losses = {run.row: last_loss(run) for run in runs}
    return {"losses": losses, "again": again(lab, losses), "gradients": {norm: gradients(norm) for norm in NORMS}}


def settings_of(norm: str, scale: float, warm_up: int) -> list[str]:
    return [
        f"model.norm_position={norm}",
        f"optimisation.learning_rate_scale={scale}",
        f"optimisation.warmup_steps={warm_up}",
    ]


def last_loss(run: Run) -> float:
    return [line["validation_loss"] for line in run.log() if "validation_loss" in line][-1]


def again(lab: Lab, losses: dict[str, float]) -> dict[str, dict[str, list[float]]]:
    """{order: {warm-up: losses}} of fresh seeds at the rate that was best; fewer where a run failed."""
    best = {
        (norm, warm_up): min(SCALES, key=lambda scale: losses.get(name_of(norm, scale, warm_up), np.inf))
        for norm, warm_up in itertools.product(NORMS, (WARM_UPS[0], WARM_UPS[-1]))
    }
    cells = [(norm, scale, warm_up) for (norm, warm_up), scale in best.items()]
    settings = {name_of(*cell): settings_of(*cell) for cell in cells}
    found: dict[str, list[float]] = {row: [] for row in settings}
    for run in lab.train("warmup-again", "captions", settings, SETTINGS, FRESH):
        found[run.row].append(last_loss(run))
    by_norm: dict[str, dict[str, list[float]]] = {norm: {} for norm in NORMS}
    for cell in cells:
        by_norm[cell[0]][str(cell[2])] = found[name_of(*cell)]
    return by_norm


def gradients(norm: str, seeds: int = 5) -> dict[str, list[float]]:
    """The norm of each layer's gradient before the first step: of each stack [layers], the mean of the seeds."""
    found: dict[str, list[list[float]]] = {"encoder": [], "decoder": []}
    for seed in range(seeds):
        torch.manual_seed(seed)
        config = VaswaniConfig(vocab_size=4096, d_model=128, d_ff=512, norm_position=norm)
        model = VaswaniForConditionalGeneration(config)
        source, target = torch.randint(2, config.vocab_size, (2, 64, 16))
        model(input_ids=source, labels=target).loss.backward()
        for stack, of_seeds in found.items():
            layers = getattr(model.model, stack).layers
            of_seeds.append([float(sum(p.grad.square().sum() for p in layer.parameters()) ** 0.5) for layer in layers])
    return {stack: np.mean(of_seeds, axis=0).round(4).tolist() for stack, of_seeds in found.items()}


def maps(found: dict[str, Any]) -> dict[str, np.ndarray]:
    """By the place of the LayerNorm, losses [warm-ups, scales]; not a number where a run failed."""
    return {
        norm: np.array([[found["losses"].get(name_of(norm, s, w), np.nan) for s in SCALES] for w in WARM_UPS])
        for norm in NORMS
    }


def costs_of_none(found: dict[str, Any]) -> dict[str, np.ndarray]:
    """By the place of the LayerNorm: what a fresh seed loses without warm-up, in nats; infinite where a run failed."""

    def padded(losses: list[float]) -> np.ndarray:
        return np.array([*losses, *[np.inf] * (len(FRESH) - len(losses))])

    without, with_it = str(WARM_UPS[0]), str(WARM_UPS[-1])
    return {norm: padded(of_norm[without]) - padded(of_norm[with_it]) for norm, of_norm in found["again"].items()}


def finding(found: dict[str, Any]) -> str:
    after, before = costs_of_none(found).values()
    if np.isinf([after, before]).any():
        more = np.isinf(after).sum() - np.isinf(before).sum()
        verdict, said = (
            ("holds" if more > 0 else "fails" if more < 0 else "cannot be resolved"),
            "a loss was not finite",
        )
    else:
        beyond = mean(after - before)
        verdict = "holds" if beyond.low > 0 else "fails" if beyond.high < 0 else "cannot be resolved"
        said = f"{after.mean():.2f} nats against {before.mean():.2f}; difference {beyond}"
    growth = [found["gradients"][norm]["decoder"][-1] / found["gradients"][norm]["decoder"][0] for norm in NORMS]
    return (
        f"That the original order loses more without warm-up {verdict} ({said}). At the start the gradient of the "
        f"decoder's last layer is {growth[0]:.1f} times that of its first with LayerNorm after, {growth[1]:.1f} times "
        "with LayerNorm before."
    )


def report(found: dict[str, Any]) -> str:
    lines = []
    for norm, of_norm in found["again"].items():
        lines.append({"LayerNorm": NORMS[norm]})
        for warm_up, losses in of_norm.items():
            name = "none" if warm_up == str(WARM_UPS[0]) else f"{warm_up} steps"
            lines[-1][name] = f"{np.mean(losses):.2f} ({min(losses):.2f} to {max(losses):.2f})" if losses else "failed"
        cost = costs_of_none(found)[norm]
        lines[-1]["lost without, nats"] = mean(cost) if np.isfinite(cost).all() else "a run failed"
    parts = [
        draw(maps(found), found["gradients"]),
        "One run a cell; a dash where the loss was no longer finite.",
        f"With {len(FRESH)} other seeds, at the rate that was best in the map: mean loss, lowest and highest; what is "
        "lost without warm-up, with its interval.",
        markdown([Column(name, right=name != "LayerNorm") for name in lines[0]], lines),
    ]
    return "\n\n".join(parts)


def draw(losses: dict[str, np.ndarray], gradients: dict[str, dict[str, list[float]]]) -> str:
    drawn = figures.figure(9, 3.4)
    *maps, curves = drawn.subplots(1, 3, width_ratios=[1, 1, 1])
    every = np.concatenate([of_norm.ravel() for of_norm in losses.values()])
    low, high = np.nanmin(every), np.nanquantile(every, 0.85)  # beyond which all is of one colour
    for axes, (norm, of_norm) in zip(maps, losses.items(), strict=True):
        axes.imshow(of_norm, cmap="viridis_r", vmin=low, vmax=high, aspect="auto", origin="lower")
        for (y, x), value in np.ndenumerate(of_norm):
            colour = "white" if value > (low + high) / 2 else "black"
            text = "-" if np.isnan(value) else f"{value:.2f}"
            axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=8)
        axes.set_xticks(range(len(SCALES)), [f"{1000 * PEAK * scale:.1f}" for scale in SCALES])
        axes.set_yticks(range(len(WARM_UPS)), ["none", *map(str, WARM_UPS[1:])])
        axes.set(
            title=f"LayerNorm {NORMS[norm]}", xlabel="peak of the learning rate, thousandths", ylabel="steps of warm-up"
        )
    for norm, colour in zip(NORMS, figures.COLOURS, strict=False):
        for stack, style in (("encoder", "--"), ("decoder", "-")):
            values = gradients[norm][stack]
            label = f"{stack}, {'after' if norm == 'post' else 'before'}"
            curves.plot(range(1, len(values) + 1), values, style, color=colour, marker=".", label=label)
    curves.set(title="Gradient at the start", xlabel="layer", ylabel="norm", yscale="log")
    curves.legend(fontsize=7)
    what = "Heat maps of the final loss over learning rate and warm-up, and gradient norms by layer"
    return figures.save(drawn, "warmup", what)
