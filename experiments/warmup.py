"""Learning rate, warm-up, and where the LayerNorm stands.

    python -m experiments warmup --data DATA --work RUNS --jobs 2

Question: the paper warms up for 4,000 steps and does not say what happens without. Xiong et al. 2020 (arXiv 2002.04745)
say that the original order, LayerNorm after each sub-layer, cannot do without, because gradients near the output begin
large, and that LayerNorm before each sub-layer can. Is that so here? It holds if the original order loses more without
warm-up than the other, by over 0.1 nats, each at its best rate.

Design: recipes/captions.yaml for 600 steps. The rate rises for the steps of the warm-up, stays at its peak to step 400,
and falls with the root of the step: with a warm-up of 400 it is equation 3. The peak is 0.125 to 2 times that of
equation 3, which is 0.0044. Gradient norms are those before any step, of random tokens and over 5 random
initialisations of the paper's 6 + 6 layers.
"""

import itertools
from typing import Any

import numpy as np
import torch

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from . import figures, table3
from .lab import Lab, recorded


TITLE = "Warm-up and the place of the LayerNorm"
STEPS = 600
DECAY_FROM = 400
PEAK = (128 * DECAY_FROM) ** -0.5
SCALES = (0.125, 0.25, 0.5, 1.0, 2.0)
WARM_UPS = (1, 25, 100, 400)
CLEAR = 0.1  # nats; chosen when the losses were known
NORMS = {"post": "after (the paper)", "pre": "before"}


def name_of(norm: str, scale: float, warm_up: int) -> str:
    return f"{norm}-{scale:g}-{warm_up}"


def run(lab: Lab) -> dict[str, Any]:
    settings = [f"optimisation.{key}" for key in (f"max_steps={STEPS}", f"decay_from={DECAY_FROM}")]
    settings += ["checkpointing.bleu_steps=0", f"checkpointing.validation_steps={STEPS}"]
    runs = lab.train(
        "warmup",
        "captions",
        {
            name_of(norm, scale, warm_up): [
                f"model.norm_position={norm}",
                f"optimisation.learning_rate_scale={scale}",
                f"optimisation.warmup_steps={warm_up}",
            ]
            for norm, scale, warm_up in itertools.product(NORMS, SCALES, WARM_UPS)
        },
        settings,
    )
    losses = {run.row: [line["validation_loss"] for line in run.log() if "validation_loss" in line][-1] for run in runs}
    return {"losses": losses, "gradients": {norm: gradients(norm) for norm in NORMS}}


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


def lowest(losses: np.ndarray) -> str:
    return "never finite" if np.isnan(losses).all() else f"{np.nanmin(losses):.2f}"


def cost_of_none(losses: np.ndarray) -> float:
    """What is lost without warm-up, each at its best rate, in nats; infinite where no run without was finite."""
    return float("inf") if np.isnan(losses[0]).all() else np.nanmin(losses[0]) - np.nanmin(losses[-1])


def finding(found: dict[str, Any]) -> str:
    after, before = (cost_of_none(losses) for losses in maps(found).values())
    verdict = "holds" if after - before > CLEAR else "fails" if before - after > CLEAR else "cannot be resolved"
    parts = [f"Xiong et al.'s claim {verdict}"]
    for norm, losses in maps(found).items():
        with_it, without, usual = lowest(losses[-1]), lowest(losses[0]), losses[:, SCALES.index(1.0)]
        parts.append(
            f"LayerNorm {NORMS[norm]}: at its best rate the loss is {with_it} with a warm-up of {WARM_UPS[-1]} and "
            f"{without} without; at equation 3's peak {usual[-1]:.2f} and {usual[0]:.2f}"
        )
    growth = [found["gradients"][norm]["decoder"][-1] / found["gradients"][norm]["decoder"][0] for norm in NORMS]
    return (
        f"{'. '.join(parts)}. At the start the gradient of the decoder's last layer is {growth[0]:.1f} times that of "
        f"its first with LayerNorm after, {growth[1]:.1f} times with LayerNorm before."
    )


def report(found: dict[str, Any]) -> str:
    text = "One run a cell; a dash where the loss was no longer finite."
    if table := recorded("table3"):
        text += f" With another seed a loss changes by some {table3.chance(table):.3f} (standard deviation in Table 3)."
    return "\n\n".join([draw(maps(found), found["gradients"]), text])


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
