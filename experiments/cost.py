"""Table 2 of the paper: quality against the cost of training.

    python -m experiments cost

Question: "at a fraction of the training cost". The paper estimates floating-point operations "by multiplying the
training time, the number of GPUs used, and an estimate of the sustained single-precision floating-point capacity of
each GPU". What are they by counting, for the paper's models and for all that was trained here, and how does quality
grow with them?

Design: torch counts the operations of a forward and backward pass over 32 sentences of 24 tokens on either side; that
times the tokens of the run, padding included, and of the runs that its first weights come from. The formula takes the
hours of these runs and what one thread of this machine does in products of large matrices, in the precision of the run;
where one was on another processor, it is left out. So is one in bfloat16 where that is slower than float32 here:
processors of one name differ in this.
"""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from torch.utils.flop_counter import FlopCounterMode

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, checkpoint_path
from vaswani_transformer.model.configuration_vaswani import PRESETS
from vaswani_transformer.system.cpu import processor

from . import figures, table3
from .lab import ROOM, ExperimentError, Lab, recorded
from .tables import Column, markdown


TITLE = "Table 2: quality against cost"
CHECKPOINTS = ("mini-en-de", "mini-de-en", "mini-en-fr", "mini-fr-en", "multi30k-en-de", "multi30k-en-fr")
PAPER_BLEU = "tokenised BLEU"  # how the names of the paper's metrics begin in scores.json
NEWS, MULTI30K = "newstest2014", "Multi30k"
SENTENCES, LENGTH = 32, 24
PRECISIONS = ("float32", "bfloat16")
SAME_LABEL = 0.3  # BLEU: rows of the same cost that are nearer than this have one label
P100 = 9.5e12  # operations a second, the paper's estimate


class Published(NamedTuple):
    """A model of Table 2: BLEU on newstest2014 and operations."""

    model: str
    bleu: float
    operations: float
    side: str = "right"  # of its point, on which its name stands in the figure


TABLE_2 = {
    "en-de": [
        Published("GNMT + RL", 24.6, 2.3e19, "below"),
        Published("ConvS2S", 25.16, 9.6e18, "left"),
        Published("MoE", 26.03, 2.0e19, "left"),
        Published("GNMT + RL, ensemble", 26.30, 1.8e20, "below"),
        Published("ConvS2S, ensemble", 26.36, 7.7e19, "above"),
        Published("Transformer base", 27.3, 3.3e18, "above"),
        Published("Transformer big", 28.4, 2.3e19, "above"),
    ],
    "en-fr": [
        Published("Deep-Att + PosUnk", 39.2, 1.0e20, "below"),
        Published("GNMT + RL", 39.92, 1.4e20, "below right"),
        Published("ConvS2S", 40.46, 1.5e20),
        Published("MoE", 40.56, 1.2e20, "left"),
        Published("Deep-Att + PosUnk, ensemble", 40.4, 8.0e20, "below right"),
        Published("GNMT + RL, ensemble", 41.16, 1.1e21),
        Published("ConvS2S, ensemble", 41.29, 1.2e21, "above"),
        Published("Transformer base", 38.1, 3.3e18, "above"),
        Published("Transformer big", 41.8, 2.3e19, "above"),
    ],
}
LANGUAGES = {"en-de": "English to German", "en-fr": "English to French"}
PAPER = "the paper's base"
PAPER_RUNS = {"base": (100_000, 12.0), "big": (300_000, 84.0)}  # steps of 25,000 tokens, and hours on 8 GPUs


def operations_per_token(config: VaswaniConfig) -> float:
    """Of a target token, forward and backward."""
    model = VaswaniForConditionalGeneration(config)
    model.set_attn_implementation("eager")
    ids = torch.randint(2, min(config.vocab_size, config.decoder_vocab_size), (SENTENCES, LENGTH))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, labels=ids).loss.backward()
    return counter.get_total_flops() / ids.numel()


def capacity(precision: str, size: int = 2048, seconds: float = 3.0) -> float:
    """Operations a second of one thread in products of large matrices."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    matrix = torch.randn(size, size).to(getattr(torch, precision))
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        torch.mm(matrix, matrix)
        count += 1
    torch.set_num_threads(threads)
    return 2 * size**3 * count / passed


def run(lab: Lab) -> dict[str, Any]:
    rates, here = {precision: capacity(precision) for precision in PRECISIONS}, processor()
    rows = []
    for name, (steps, hours) in PAPER_RUNS.items():
        counted = operations_per_token(VaswaniConfig(**PRESETS[name])) * steps * 25_000
        news = {
            pair: row.bleu for pair, table in TABLE_2.items() for row in table if row.model == f"Transformer {name}"
        }
        formula = hours * 3600 * 8 * P100
        rows.append({"model": f"the paper's {name}", "counted": counted, "formula": formula, NEWS: news})
    for name in CHECKPOINTS:
        facts = json.loads(Path(checkpoint_path(name), "training.json").read_text(encoding="utf-8"))
        if facts["recipe"]["initial"] and "earlier" not in facts:
            raise ExperimentError(f"{name}: training.json does not say what its first weights took; train it again.")
        parts = [*facts.get("earlier", []), {**facts["recipe"]["optimisation"], **facts}]  # of one shape, all of them
        tokens = sum(part["steps"] * part["batch_tokens"] for part in parts)
        counted = operations_per_token(VaswaniConfig.from_pretrained(checkpoint_path(name))) * tokens
        own: dict[str, Any] = {"model": name, "counted": counted, "runs": len(parts)}
        pair = name.partition("-")[2]
        own |= {test: {pair: bleu} for test in (NEWS, MULTI30K) if (bleu := score(name, test)) is not None}
        own["thread_hours"] = round(sum(part["hours"] * part["threads"] for part in parts), 2)
        if all(part["device"] == here and rates[part["precision"]] >= rates["float32"] for part in parts):
            own["formula"] = sum(p["hours"] * 3600 * p["threads"] * rates[p["precision"]] for p in parts)
        rows.append(own)
    recorded_rows = (recorded("table3") or {"rows": []})["rows"]
    return {"capacity": rates, "rows": rows, "captions": captions(recorded_rows)}


def score(name: str, test: str) -> float | None:
    """The recorded BLEU of a checkpoint, as the paper computes it; None where it was not measured."""
    results = json.loads((ROOM.parent / "model_cards" / name / "scores.json").read_text(encoding="utf-8"))["results"]
    of_test = next((one for one in results if one["dataset"].startswith(test)), {})
    return next((of_test[metric]["value"] for metric in of_test if metric.startswith(PAPER_BLEU)), None)


def captions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of Table 3 by cost: those that differ in their shape."""
    found = []
    for row in rows:
        fixed = table3.ROWS.get(row["row"], table3.BASE)
        fields = dict(
            setting.removeprefix("model.").split("=") for setting in fixed.settings if setting[:6] == "model."
        )
        if fixed.part in ("", "A", "B", "C") and row["losses"]:
            shape = dict(vocab_size=4096, d_model=128, d_ff=512, encoder_layers=3, decoder_layers=3)
            config = VaswaniConfig(**{**shape, **{name: int(value) for name, value in fields.items()}})
            bleu = row["sacrebleu_greedy"]
            found.append({"row": row["row"], "bleu": sum(bleu) / len(bleu)})
            found[-1]["counted"] = operations_per_token(config) * 2000 * 1024
    return found


def finding(found: dict[str, Any]) -> str:
    by_name = {row["model"]: row for row in found["rows"]}
    shares = [f"{name} {row['counted'] / row['formula']:.0%}" for name, row in by_name.items() if "formula" in row]
    ours = max((row for name, row in by_name.items() if name in CHECKPOINTS), key=lambda row: row["counted"])
    return (
        f"By counting, the paper's base took {by_name[PAPER]['counted']:.1e} operations; the costliest checkpoint here "
        f"took {ours['counted'] / by_name[PAPER]['counted']:.1%} of that. Share of what the hardware could do: "
        f"{', '.join(shares)}."
    )


def report(found: dict[str, Any]) -> str:
    lines = []
    for row in found["rows"]:
        line = {"model": row["model"], "counted": f"{row['counted']:.1e}"}
        if "formula" in row:
            line |= {"formula": f"{row['formula']:.1e}", "counted / formula": f"{row['counted'] / row['formula']:.0%}"}
        for test in (NEWS, MULTI30K):
            of_test = row.get(test, {})
            line[test] = ", ".join(
                f"{bleu:.1f}" if len(of_test) == 1 else f"{bleu:.1f} {pair.upper()}" for pair, bleu in of_test.items()
            )
        if "thread_hours" in row:
            line |= {"runs": row["runs"], "hours of a thread": f"{row['thread_hours']:.1f}"}
        lines.append(line)
    names = ["model", "counted", "formula", "counted / formula", NEWS, MULTI30K, "runs", "hours of a thread"]
    rates = " and ".join(f"{rate:.1e} in {precision}" for precision, rate in found["capacity"].items())
    text = (
        "Operations of a whole training, with the runs that a checkpoint was begun from; a thread of this machine does "
        f"{rates} a second in products of large matrices. Counted / formula is the share of the hardware's capacity "
        "that was made use of. BLEU is the paper's, of tokenised text; German compounds are split."
    )
    return "\n\n".join([draw(found), markdown([Column(name, right=name != "model") for name in names], lines), text])


def draw(found: dict[str, Any]) -> str:
    panels = [*LANGUAGES, *(["captions"] if found["captions"] else [])]
    drawn = figures.figure(9, 2.8 * len(panels))
    axes = dict(zip(panels, drawn.subplots(len(panels)), strict=True))
    for pair, languages in LANGUAGES.items():
        draw_news(axes[pair], found["rows"], pair)
        axes[pair].set_title(f"{NEWS}, {languages}")
    if found["captions"]:
        draw_captions(axes["captions"], found["captions"])
    return figures.save(drawn, "cost", "BLEU against training operations, beside the paper's Table 2")


def draw_news(axes: Axes, rows: list[dict[str, Any]], pair: str):
    for published in TABLE_2[pair]:
        axes.plot(published.operations, published.bleu, "o", color=figures.COLOURS[5], markersize=4)
        label(axes, published.model, published.operations, published.bleu, published.side)
    for row in (row for row in rows if pair in row.get(NEWS, {})):
        bleu = row[NEWS][pair]
        axes.plot(row["counted"], bleu, "D", color=figures.COLOURS[0], markersize=4)
        if row["model"] in CHECKPOINTS:
            label(axes, row["model"], row["counted"], bleu, "right")
        else:
            axes.plot([row["counted"], row["formula"]], [bleu] * 2, color=figures.COLOURS[5], linewidth=0.8)
    axes.plot([], [], "o", color=figures.COLOURS[5], markersize=4, label="by the paper's formula")
    axes.plot([], [], "D", color=figures.COLOURS[0], markersize=4, label="counted")
    axes.set(xscale="log", xlabel="operations", ylabel="BLEU")
    axes.margins(x=0.15)  # for the names
    axes.legend(loc="lower right")


def draw_captions(axes: Axes, rows: list[dict[str, Any]]):
    places = sorted((row["counted"], row["bleu"], row["row"]) for row in rows)
    labels: list[tuple[float, float, list[str]]] = []
    for operations, bleu, row in places:
        axes.plot(operations, bleu, "o", color=figures.COLOURS[0], markersize=4)
        what = table3.ROWS.get(row, table3.BASE).what.split(" (")[0]
        if labels and labels[-1][0] == operations and bleu - labels[-1][1] < SAME_LABEL:
            labels[-1][2].append(what)
        else:
            labels.append((operations, bleu, [what]))
    for operations, bleu, names in labels:
        label(axes, ", ".join(names), operations, bleu, "right")
    axes.set(title="Rows of Table 3, captions", xscale="log", xlabel="operations", ylabel="BLEU, greedy")
    axes.margins(x=0.1)


def label(axes: Axes, text: str, x: float, y: float, side: str):
    """Writes beside a point."""
    offset, across, up = {
        "left": ((-5, 0), "right", "center"),
        "right": ((5, 0), "left", "center"),
        "above": ((0, 4), "center", "bottom"),
        "below": ((0, -5), "center", "top"),
        "below right": ((4, -1), "left", "top"),
    }[side]
    axes.annotate(text, (x, y), offset, textcoords="offset points", fontsize=6, ha=across, va=up)
