"""Learning rate, warm-up, and the position of the LayerNorm.

    python -m experiments warmup --data DATA --work RUNS --jobs 2

Question: the paper warms up for 4,000 steps and does not say what happens without. Xiong et al. 2020 (arXiv 2002.04745)
found that the original order, LayerNorm after each sub-layer, needs warm-up because gradients near the output start
large, and that LayerNorm before each sub-layer does not. Does the original order lose more without warm-up?

Design:

- Each run is recipes/captions.yaml for 600 steps.
- The rate rises during warm-up, stays at its peak until step 400, and then falls with the inverse square root of the
  step. A warm-up of 400 steps gives equation 3.
- The peak is 0.125 to 2 times that of equation 3, which is 0.0044.
- One seed fills the map. Four other seeds decide: each order is trained at its best rate with full warm-up and with
  none. The interval of 95% is over these seeds.
- Gradient norms are measured before the first step, on random tokens, over 5 random initialisations of 6 + 6 layers
  (the paper's number) at this width.
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


TITLE = "Warm-up and the position of the LayerNorm"
STEPS = 600
DECAY_FROM = 400
PEAK = (128 * DECAY_FROM) ** -0.5
SCALES = (0.125, 0.25, 0.5, 1.0, 2.0)
WARM_UPS = (1, 25, 100, 400)
FRESH = (2, 3, 4, 5)  # the seeds that decide
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
    """{order: {warm-up: losses}} with fresh seeds at the best rate; fewer losses if a run failed."""
    best = {
        (norm, warm_up): min(SCALES, key=lambda scale: losses.get(name_of(norm, scale, warm_up), np.inf))
        for norm, warm_up in itertools.product(NORMS, (WARM_UPS[0], WARM_UPS[-1]))
    }
    cells = [(norm, scale, warm_up) for (norm, warm_up), scale in best.items()]
    settings = {name_of(*cell): settings_of(*cell) for cell in cells}
    losses_by_row: dict[str, list[float]] = {row: [] for row in settings}
    for run in lab.train("warmup-again", "captions", settings, SETTINGS, FRESH):
        losses_by_row[run.row].append(last_loss(run))
    by_norm: dict[str, dict[str, list[float]]] = {norm: {} for norm in NORMS}
    for cell in cells:
        by_norm[cell[0]][str(cell[2])] = losses_by_row[name_of(*cell)]
    return by_norm


def gradients(norm: str, seeds: int = 5) -> dict[str, list[float]]:
    """The gradient norm of each layer before the first step: for each stack [layers], the mean over seeds."""
    norms: dict[str, list[list[float]]] = {"encoder": [], "decoder": []}
    for seed in range(seeds):
        torch.manual_seed(seed)
        config = VaswaniConfig(vocab_size=4096, d_model=128, d_ff=512, norm_position=norm)
        model = VaswaniForConditionalGeneration(config)
        source, target = torch.randint(2, config.vocab_size, (2, 64, 16))
        model(input_ids=source, labels=target).loss.backward()
        for stack, stack_norms in norms.items():
            layers = getattr(model.model, stack).layers
            stack_norms.append(
                [float(sum(p.grad.square().sum() for p in layer.parameters()) ** 0.5) for layer in layers]
            )
    return {stack: np.mean(stack_norms, axis=0).round(4).tolist() for stack, stack_norms in norms.items()}


def maps(results: dict[str, Any]) -> dict[str, np.ndarray]:
    """{order: losses [warm-ups, scales]}; NaN if a run failed."""
    return {
        norm: np.array([[results["losses"].get(name_of(norm, s, w), np.nan) for s in SCALES] for w in WARM_UPS])
        for norm in NORMS
    }


def costs_of_none(results: dict[str, Any]) -> dict[str, np.ndarray]:
    """{order: nats lost without warm-up, for each fresh seed}; infinite if a run failed."""

    def padded(losses: list[float]) -> np.ndarray:
        return np.array([*losses, *[np.inf] * (len(FRESH) - len(losses))])

    without, with_it = str(WARM_UPS[0]), str(WARM_UPS[-1])
    return {norm: padded(losses[without]) - padded(losses[with_it]) for norm, losses in results["again"].items()}


# The report ----------------------------------------------------------------------------------------------------------


ANSWERS = {"holds": "yes", "fails": "no"}


def verdict_of(results: dict[str, Any]) -> tuple[str, str]:
    """Does the original order lose more without warm-up? "holds", "fails" or "cannot be resolved", and the reason."""
    after, before = costs_of_none(results).values()
    if np.isinf([after, before]).any():
        more = np.isinf(after).sum() - np.isinf(before).sum()
        return "holds" if more > 0 else "fails" if more < 0 else "cannot be resolved", "a loss was not finite"
    difference = mean(after - before)
    verdict = "holds" if difference.low > 0 else "fails" if difference.high < 0 else "cannot be resolved"
    return verdict, f"difference {difference}"


def growth_of(results: dict[str, Any]) -> list[float]:
    """The first gradient of the decoder's last layer, relative to that of its first, for each order."""
    gradients = [results["gradients"][norm]["decoder"] for norm in NORMS]
    return [layers[-1] / layers[0] for layers in gradients]


def finding(results: dict[str, Any]) -> str:
    after, before = (costs.mean() for costs in costs_of_none(results).values())
    verdict, reason = verdict_of(results)
    if np.isfinite([after, before]).all():
        reason = f"{after:.2f} nats against {before:.2f}; {reason}"
    growth = growth_of(results)
    return (
        f"The claim that the original order loses more without warm-up {verdict} ({reason}). At the start, the "
        f"gradient of the decoder's last layer is {growth[0]:.1f} times that of its first with LayerNorm after the "
        f"sub-layer, and {growth[1]:.1f} times with LayerNorm before."
    )


def facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the rows of the explorer's table: what was measured, and the result."""
    verdict, reason = verdict_of(results)
    after, before = (costs.mean() for costs in costs_of_none(results).values())
    first, last = growth_of(results)
    return [
        ("Loss added without warm-up", f"post-norm {after:.2f} nats, pre-norm {before:.2f} nats"),
        ("Post-norm loses more without warm-up", f"{ANSWERS.get(verdict, verdict)}: {reason}".replace("-", "−")),
        (
            "First gradient of the decoder's last layer, relative to its first layer",
            f"post-norm {first:.1f} times, pre-norm {last:.1f} times",
        ),
    ]


def report(results: dict[str, Any]) -> str:
    lines, costs = [], costs_of_none(results)
    for norm, losses_by_warm_up in results["again"].items():
        line: dict[str, Any] = {"LayerNorm": NORMS[norm]}
        for warm_up, losses in losses_by_warm_up.items():
            name = "no warm-up" if warm_up == str(WARM_UPS[0]) else f"{warm_up} steps"
            line[name] = f"{np.mean(losses):.2f} ({min(losses):.2f} to {max(losses):.2f})" if losses else "failed"
        line["difference, nats"] = mean(costs[norm]) if np.isfinite(costs[norm]).all() else "a run failed"
        lines.append(line)
    parts = [
        draw(maps(results), results["gradients"]),
        "Each cell is one run; a dash means that its loss was not finite.",
        f"Losses with {len(FRESH)} other seeds at the best rate of the map: mean (lowest to highest). The difference "
        "is the loss without warm-up minus the loss with it, with its interval.",
        markdown([Column(name, right=name != "LayerNorm") for name in lines[0]], lines),
    ]
    return "\n\n".join(parts)


def draw(losses: dict[str, np.ndarray], gradients: dict[str, dict[str, list[float]]]) -> str:
    figure = figures.figure(9, 3.4)
    *map_axes, curves = figure.subplots(1, 3, width_ratios=[1, 1, 1])
    values = np.concatenate([norm_losses.ravel() for norm_losses in losses.values()])
    low, high = np.nanmin(values), np.nanquantile(values, 0.85)  # one colour beyond
    for axes, (norm, norm_losses) in zip(map_axes, losses.items(), strict=True):
        axes.imshow(norm_losses, cmap="viridis_r", vmin=low, vmax=high, aspect="auto", origin="lower")
        for (y, x), value in np.ndenumerate(norm_losses):
            colour = "white" if value > (low + high) / 2 else "black"
            text = "-" if np.isnan(value) else f"{value:.2f}"
            axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=8)
        axes.set_xticks(range(len(SCALES)), [f"{1000 * PEAK * scale:.1f}" for scale in SCALES])
        axes.set_yticks(range(len(WARM_UPS)), ["none", *map(str, WARM_UPS[1:])])
        axes.set(title=f"LayerNorm {NORMS[norm]}", xlabel="peak learning rate, thousandths", ylabel="warm-up steps")
    for norm, colour in zip(NORMS, figures.COLOURS, strict=False):
        for stack, style in (("encoder", "--"), ("decoder", "-")):
            gradient_norms = gradients[norm][stack]
            label = f"{stack}, {'after' if norm == 'post' else 'before'}"
            curves.plot(range(1, len(gradient_norms) + 1), gradient_norms, style, color=colour, marker=".", label=label)
    curves.set(title="Gradient before the first step", xlabel="layer", ylabel="norm", yscale="log")
    curves.legend(fontsize=7)
    alt = "Heat maps of the final loss over learning rate and warm-up, and gradient norms by layer"
    return figures.save(figure, "warmup", alt)
