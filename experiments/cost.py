"""Table 2 of the paper: quality against the cost of training.

    python -m experiments cost

Question: the paper claims its quality "at a fraction of the training cost" of earlier models. It estimates operations
"by multiplying the training time, the number of GPUs used, and an estimate of the sustained single-precision
floating-point capacity of each GPU". How many are there by counting, for the paper's models and for all models trained
here, and how does quality grow with them?

Design:

- Counted: torch counts the operations of a forward and backward pass over 32 sentences of 24 tokens on either side. We
  multiply this by the tokens of the run, padding included, and of the runs that its initial weights come from.
- Formula: the hours of these runs, times what one thread of this machine achieves in products of large matrices, in the
  precision of the run.
- The formula is omitted for runs on another CPU, and for bfloat16 if it is slower than float32 here: CPUs of the same
  name differ in this.
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
from vaswani_transformer.system.cpu import cpu_name

from . import figures, table3
from .lab import FOLDER, ExperimentError, Lab, read_results
from .tables import Column, bullets, markdown


TITLE = "Table 2: quality against cost"
CHECKPOINTS = ("mini-en-de", "mini-de-en", "mini-en-fr", "mini-fr-en", "multi30k-en-de", "multi30k-en-fr")
PAPER_BLEU = "tokenised BLEU"  # prefix of the paper's metrics in scores.json
NEWS, MULTI30K = "newstest2014", "Multi30k"
SENTENCES, LENGTH = 32, 24
PRECISIONS = ("float32", "bfloat16")
SAME_LABEL = 0.3  # BLEU: rows of the same cost that are closer than this share a label
P100 = 9.5e12  # operations per second, the paper's estimate


class Published(NamedTuple):
    """A model of Table 2: BLEU on newstest2014 and operations."""

    model: str
    bleu: float
    operations: float
    side: str = "right"  # position of its name in the figure, relative to its point


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
PAPER_RUNS = {"base": (100_000, 12.0), "big": (300_000, 84.0)}  # steps of 25,000 tokens; hours on 8 GPUs


def operations_per_token(config: VaswaniConfig) -> float:
    """Operations of the forward and backward pass per target token."""
    model = VaswaniForConditionalGeneration(config)
    model.set_attn_implementation("eager")
    ids = torch.randint(2, min(config.vocab_size, config.decoder_vocab_size), (SENTENCES, LENGTH))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, labels=ids).loss.backward()
    return counter.get_total_flops() / ids.numel()


def capacity(precision: str, size: int = 2048, seconds: float = 3.0) -> float:
    """Operations per second of one thread in products of large matrices."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    matrix = torch.randn(size, size).to(getattr(torch, precision))
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds or not count:
        torch.mm(matrix, matrix)
        count += 1
    torch.set_num_threads(threads)
    return 2 * size**3 * count / passed


def run(lab: Lab) -> dict[str, Any]:
    rates, cpu = {precision: capacity(precision) for precision in PRECISIONS}, cpu_name()
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
            raise ExperimentError(
                f"{name}: training.json does not record the cost of its initial weights. Train it again."
            )
        parts = [*facts.get("earlier", []), {**facts["recipe"]["optimisation"], **facts}]  # all of one shape
        tokens = sum(part["steps"] * part["batch_tokens"] for part in parts)
        counted = operations_per_token(VaswaniConfig.from_pretrained(checkpoint_path(name))) * tokens
        row: dict[str, Any] = {"model": name, "counted": counted, "runs": len(parts)}
        pair = name.partition("-")[2]
        row |= {test: {pair: bleu} for test in (NEWS, MULTI30K) if (bleu := score(name, test)) is not None}
        row["thread_hours"] = round(sum(part["hours"] * part["threads"] for part in parts), 2)
        if all(part["device"] == cpu and rates[part["precision"]] >= rates["float32"] for part in parts):
            row["formula"] = sum(p["hours"] * 3600 * p["threads"] * rates[p["precision"]] for p in parts)
        rows.append(row)
    table3_rows = (read_results("table3") or {"rows": []})["rows"]
    return {"capacity": rates, "rows": rows, "captions": captions(table3_rows)}


def score(name: str, test: str) -> float | None:
    """The recorded BLEU of a checkpoint, as the paper computes it; None if it was not measured."""
    results = json.loads((FOLDER.parent / "model_cards" / name / "scores.json").read_text(encoding="utf-8"))["results"]
    metrics = next((result for result in results if result["dataset"].startswith(test)), {})
    return next((metrics[name]["value"] for name in metrics if name.startswith(PAPER_BLEU)), None)


def captions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cost and BLEU of the rows of Table 3 that differ in their shape."""
    results = []
    for row in rows:
        published = table3.ROWS.get(row["row"], table3.BASE)
        fields = dict(
            setting.removeprefix("model.").split("=") for setting in published.settings if setting[:6] == "model."
        )
        if published.part in ("", "A", "B", "C") and row["losses"]:
            shape = dict(vocab_size=4096, d_model=128, d_ff=512, encoder_layers=3, decoder_layers=3)
            config = VaswaniConfig(**{**shape, **{name: int(value) for name, value in fields.items()}})
            bleu = row["sacrebleu_greedy"]
            counted = operations_per_token(config) * 2000 * 1024
            results.append({"row": row["row"], "bleu": sum(bleu) / len(bleu), "counted": counted})
    return results


# The report ----------------------------------------------------------------------------------------------------------


def finding(results: dict[str, Any]) -> str:
    by_name = {row["model"]: row for row in results["rows"]}
    shares = [f"{name} {row['counted'] / row['formula']:.0%}" for name, row in by_name.items() if "formula" in row]
    ours = max((row for name, row in by_name.items() if name in CHECKPOINTS), key=lambda row: row["counted"])
    return (
        f"By counting, the paper's base took {by_name[PAPER]['counted']:.1e} operations; the costliest checkpoint here "
        f"took {ours['counted'] / by_name[PAPER]['counted']:.1%} of that. Share of the hardware's capacity that was "
        f"used: {', '.join(shares)}."
    )


def report(results: dict[str, Any]) -> str:
    lines = []
    for row in results["rows"]:
        line = {"model": row["model"], "counted": f"{row['counted']:.1e}"}
        if "formula" in row:
            line |= {"formula": f"{row['formula']:.1e}", "counted / formula": f"{row['counted'] / row['formula']:.0%}"}
        for test in (NEWS, MULTI30K):
            scores = row.get(test, {})
            line[test] = ", ".join(
                f"{bleu:.1f}" if len(scores) == 1 else f"{bleu:.1f} {pair.upper()}" for pair, bleu in scores.items()
            )
        if "thread_hours" in row:
            line |= {"runs": row["runs"], "thread-hours": f"{row['thread_hours']:.1f}"}
        lines.append(line)
    names = ["model", "counted", "formula", "counted / formula", NEWS, MULTI30K, "runs", "thread-hours"]
    rates = " and ".join(f"{rate:.1e} in {precision}" for precision, rate in results["capacity"].items())
    key = [
        "counted, formula: operations of the whole training, including the runs that a checkpoint started from.",
        f"A thread of this machine achieves {rates} operations per second in products of large matrices.",
        "counted / formula: the share of the hardware's capacity that was used.",
        "BLEU is the paper's, of tokenised text; German compounds are split.",
    ]
    table = markdown([Column(name, right=name != "model") for name in names], lines)
    return "\n\n".join([draw(results), table, bullets(key)])


def draw(results: dict[str, Any]) -> str:
    panels = [*LANGUAGES, *(["captions"] if results["captions"] else [])]
    figure = figures.figure(9, 2.8 * len(panels))
    axes = dict(zip(panels, figure.subplots(len(panels)), strict=True))
    for pair, languages in LANGUAGES.items():
        draw_news(axes[pair], results["rows"], pair)
        axes[pair].set_title(f"{NEWS}, {languages}")
    if results["captions"]:
        draw_captions(axes["captions"], results["captions"])
    return figures.save(figure, "cost", "BLEU against training operations, with the paper's Table 2")


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
    axes.margins(x=0.15)  # room for the names
    axes.legend(loc="lower right")


def draw_captions(axes: Axes, rows: list[dict[str, Any]]):
    places = sorted((row["counted"], row["bleu"], row["row"]) for row in rows)
    labels: list[tuple[float, float, list[str]]] = []
    for operations, bleu, row in places:
        axes.plot(operations, bleu, "o", color=figures.COLOURS[0], markersize=4)
        name = table3.ROWS.get(row, table3.BASE).label.split(" (")[0]
        if labels and labels[-1][0] == operations and bleu - labels[-1][1] < SAME_LABEL:
            labels[-1][2].append(name)
        else:
            labels.append((operations, bleu, [name]))
    for operations, bleu, names in labels:
        label(axes, ", ".join(names), operations, bleu, "right")
    axes.set(title="Rows of Table 3, captions", xscale="log", xlabel="operations", ylabel="BLEU, greedy")
    axes.margins(x=0.1)


def label(axes: Axes, text: str, x: float, y: float, side: str):
    """Writes a label next to a point."""
    offset, across, up = {
        "left": ((-5, 0), "right", "center"),
        "right": ((5, 0), "left", "center"),
        "above": ((0, 4), "center", "bottom"),
        "below": ((0, -5), "center", "top"),
        "below right": ((4, -1), "left", "top"),
    }[side]
    axes.annotate(text, (x, y), offset, textcoords="offset points", fontsize=6, ha=across, va=up)
