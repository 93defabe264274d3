"""Table 3 of the paper, rows A to E, and the first questions beyond it.

    python -m experiments table3 --data DATA --work RUNS --jobs 2

Question: does each part of the model matter in the direction that the paper's perplexities show?

Design:

- The base row is recipes/captions.yaml: the paper's model, optimiser and schedule, with a quarter of its widths and
  half of its layers, in float32, which every CPU runs well.
- Each row is trained on the same number of tokens with two seeds. A third follows, unless the verdict would be the same
  with intervals twice as wide. A seed also fixes the order of the data, which is the same for all rows.
- We compare the loss of held-out tokens without label smoothing (the logarithm of the paper's perplexity), pair by
  pair.

Limits:

- All rows have the learning rate that was best for the base row. A row that needs another rate is judged too harshly.
- All rows are compared with the same runs of the base row, so chance in these runs shifts every difference equally.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import figures
from .intervals import Design, Interval, differences
from .lab import Lab, Run, write_results
from .tables import Column, bullets, markdown


TITLE = "Table 3: what the parts are worth"
SEEDS, MORE_SEEDS = (1, 2), (3,)  # for all rows; for those whose verdict is still unclear
BATCH = 6  # rows to train before they are measured and archived
TESTS = ("multi30k/val.tsv.xz", "multi30k/test_2016_flickr.tsv.xz")
NO_DIFFERENCE = 0.01  # nats: the paper's perplexities count as equal below this
EQUAL = 0.05  # nats: rows count as equal if the whole interval is within this
MAX_DRAWN = 0.45  # nats: rows whose whole interval is beyond are drawn at the edge, with their figures
UNRESOLVED = ("cannot be resolved", "no difference seen")

PAPER_BASE = 4.92, 25.8  # perplexity and BLEU of the base model on newstest2013


class Row(NamedTuple):
    """A row of the table: how it differs from the base model, and the paper's results for it."""

    part: str
    label: str
    settings: list[str]
    perplexity: float | None = None
    bleu: float | None = None

    @property
    def claim(self) -> float | None:
        """The paper's difference from its base model, in nats per token; None beyond the paper."""
        return None if self.perplexity is None else math.log(self.perplexity / PAPER_BASE[0])


def heads(count: int) -> list[str]:
    return [f"model.encoder_attention_heads={count}", f"model.decoder_attention_heads={count}"]


def layers(count: int) -> list[str]:
    return [f"model.encoder_layers={count}", f"model.decoder_layers={count}"]


def width(d_model: int) -> list[str]:
    return [f"model.d_model={d_model}", f"model.d_k={d_model // 8}", f"model.d_v={d_model // 8}"]


PRE_NORM = ["model.norm_position=pre"]
TWICE_THE_RATE = "optimisation.learning_rate_scale=1.0"  # better for pre-norm, see `warmup`
NO_WARM_UP = ["optimisation.warmup_steps=1", "optimisation.decay_from=400"]
BASE = Row("", "the base model", [])
ROWS = {
    "h1": Row("A", "1 head", heads(1), 5.29, 24.9),
    "h4": Row("A", "4 heads", heads(4), 5.00, 25.5),
    "h16": Row("A", "16 heads", heads(16), 4.91, 25.8),
    "h32": Row("A", "32 heads", heads(32), 5.01, 25.4),
    "dk4": Row("B", "d_k 4 (paper: 16)", ["model.d_k=4", "model.d_v=16"], 5.16, 25.1),
    "dk8": Row("B", "d_k 8 (32)", ["model.d_k=8", "model.d_v=16"], 5.01, 25.4),
    "n1": Row("C", "1 layer (2)", layers(1), 6.11, 23.7),
    "n2": Row("C", "2 layers (4)", layers(2), 5.19, 25.3),
    "n4": Row("C", "4 layers (8)", layers(4), 4.88, 25.5),
    "d64": Row("C", "d_model 64 (256)", width(64), 5.75, 24.5),
    "d256": Row("C", "d_model 256 (1024)", width(256), 4.66, 26.0),
    "ff256": Row("C", "d_ff 256 (1024)", ["model.d_ff=256"], 5.12, 25.4),
    "ff1024": Row("C", "d_ff 1024 (4096)", ["model.d_ff=1024"], 4.75, 26.2),
    "dropout-0": Row("D", "no dropout", ["model.dropout=0.0"], 5.77, 24.6),
    "dropout-0.2": Row("D", "dropout 0.2", ["model.dropout=0.2"], 4.95, 25.5),
    "smoothing-0": Row("D", "no label smoothing", ["model.label_smoothing=0.0"], 4.67, 25.3),
    "smoothing-0.2": Row("D", "label smoothing 0.2", ["model.label_smoothing=0.2"], 5.47, 25.7),
    "learned": Row(
        "E", "learned positions", ["model.position_encoding=learned", "model.max_position_embeddings=64"], 4.92, 25.7
    ),
    "pre-norm": Row("beyond", "LayerNorm before each sub-layer", PRE_NORM),
    "pre-norm-rate": Row("beyond", "LayerNorm before, twice the rate", [*PRE_NORM, TWICE_THE_RATE]),
    "no-warm-up": Row("beyond", "no warm-up", NO_WARM_UP),
    "pre-norm-no-warm-up": Row("beyond", "LayerNorm before, and no warm-up", [*PRE_NORM, *NO_WARM_UP]),
    "unscaled": Row("beyond", "no division by sqrt(d_k)", ["model.scale_attention=false"]),
    "untied": Row("beyond", "three embedding matrices", ["model.share_embeddings=none"]),
    "separate": Row("beyond", "Q, K and V initialised separately", ["model.fused_initialisation=false"]),
}


def run(lab: Lab) -> dict[str, Any]:
    settings = {name: row.settings for name, row in {"base": BASE, **ROWS}.items()}
    runs = train(lab, settings, SEEDS)
    results = measure(runs, losses_of(lab, runs))
    clear = [row["row"] for row in results["rows"] if is_clear(row)]
    due = [name for name in settings if name not in clear]
    while due:
        write_results("table3", results | {"due": due})  # rougher intervals, in case the rest is interrupted
        batch, due = due[:BATCH], due[BATCH:]
        runs += train(lab, {name: settings[name] for name in batch}, MORE_SEEDS)
        results = measure(runs, losses_of(lab, runs), clear, due)
    return results


def train(lab: Lab, settings: dict[str, list[str]], seeds: Sequence[int]) -> list[Run]:
    """Trains and measures the rows in batches, and archives each batch."""
    names = list(settings)
    for seed in seeds:
        for start in range(0, len(names), BATCH):
            batch = {name: settings[name] for name in names[start : start + BATCH]}
            losses_of(lab, lab.train("table3", "captions", batch, seeds=(seed,)))
            lab.archive("table3")
    return lab.train("table3", "captions", settings, seeds=seeds)


def losses_of(lab: Lab, runs: list[Run]) -> dict[str, np.ndarray]:
    """Nats and tokens of each held-out pair, [N, 2], by the name of the run."""
    losses = [lab.losses([run.model for run in runs], pairs) for pairs in TESTS]
    return {run.name: np.concatenate(run_losses) for run, *run_losses in zip(runs, *losses, strict=True)}


def measure(
    runs: list[Run], losses: dict[str, np.ndarray], stopped: Collection[str] = (), due: Collection[str] = ()
) -> dict[str, Any]:
    """The results to record, given the losses from `losses_of`.

    Rows in `stopped` and `due` have only `SEEDS`: the former for good, the latter for now.
    """
    seeds = sorted({run.seed for run in runs})
    runs_by_row = {name: {run.seed: run for run in runs if run.row == name} for name in ("base", *ROWS)}
    missing = {
        name: len(SEEDS if name in (*stopped, *due) else seeds) - len(row_runs)
        for name, row_runs in runs_by_row.items()
    }
    complete = [name for name, count in missing.items() if not count]
    tokens = losses[runs[0].name][:, 1]
    nats = np.full((len(complete), len(seeds), len(tokens)), np.nan)
    for i, name in enumerate(complete):
        for seed, run in runs_by_row[name].items():
            nats[i, seeds.index(seed)] = losses[run.name][:, 0]
    design = Design(complete, nats, tokens)
    has_differences = "base" in complete and len(complete) > 2 and len(seeds) > 1
    intervals = differences(design, "base") if has_differences else {}
    rows = []
    for name, row_runs in runs_by_row.items():
        facts = [run.facts for run in row_runs.values()]
        row: dict[str, Any] = {"row": name, "parameters": facts[0]["parameters"] if facts else None}
        row["losses"] = {str(seed): round(loss_of(losses[run.name]), 4) for seed, run in row_runs.items()}
        row["sacrebleu_greedy"] = [bleu for run in facts for bleu in run["sacrebleu_greedy"].values()]
        row["minutes"] = [round(60 * run["hours"], 1) for run in facts]
        if name in intervals:
            row["difference"] = intervals[name].rounded()
            row["verdict"] = verdict(ROWS[name].claim, intervals[name])
        elif missing[name]:  # its loss was not finite
            row["failed"] = missing[name]
        if name in stopped:
            row["stopped"] = True
        rows.append(row)
    return {"seeds": seeds, "pairs": len(design.tokens), "tokens": int(design.tokens.sum()), "rows": rows}


def loss_of(losses: np.ndarray) -> float:
    """Nats per token."""
    return float(losses[:, 0].sum() / losses[:, 1].sum())


def verdict(claim: float | None, difference: Interval) -> str:
    """Whether the paper's direction holds."""
    better, worse = difference.high < 0, difference.low > 0
    if claim is None:
        return "worse" if worse else "better" if better else "no difference seen"
    if abs(claim) < NO_DIFFERENCE:
        if max(abs(difference.low), abs(difference.high)) < EQUAL:
            return "holds: no difference"
        return "fails" if difference.low > EQUAL or difference.high < -EQUAL else "cannot be resolved"
    if not better and not worse:
        return "cannot be resolved"
    return "holds" if worse == (claim > 0) else "fails"


def is_clear(row: dict[str, Any]) -> bool:
    """Whether an interval of twice the width would give the same verdict."""
    if row.get("verdict") in (None, *UNRESOLVED):
        return False
    value, low, high = row["difference"]
    twice = Interval(value, 2 * low - value, 2 * high - value)
    return verdict(ROWS[row["row"]].claim, twice) == row["verdict"]


def label(row: dict[str, Any]) -> str:
    return ROWS.get(row["row"], BASE).label


def labels(rows: Iterable[dict[str, Any]]) -> str:
    return "; ".join(label(row) for row in rows)


# The report ----------------------------------------------------------------------------------------------------------


def finding(results: dict[str, Any]) -> str:
    paper_rows = [row for row in results["rows"] if "verdict" in row and ROWS[row["row"]].perplexity]
    holds, fails, unresolved = (
        sum(row["verdict"].startswith(word) for row in paper_rows) for word in ("holds", "fails", "cannot")
    )
    sentences = [
        f"The paper's direction holds for {holds} of {len(paper_rows)} rows of Table 3, fails for {fails}, and cannot "
        f"be resolved for {unresolved}."
    ]
    for word, effect in (("better", "lower"), ("worse", "raise")):
        if rows := [row for row in results["rows"] if row.get("verdict") == word]:
            sentences.append(f"Changes beyond the paper that {effect} the loss: {labels(rows)}.")
    if any("failed" in row for row in results["rows"]):
        sentences.append("In some runs the loss was not finite.")
    return " ".join(sentences)


def facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the rows of the explorer's table: what was measured, and the result."""
    paper_rows = [row for row in results["rows"] if "verdict" in row and ROWS[row["row"]].perplexity]
    questions = {
        "holds": "has the paper's direction",
        "fails": "has the opposite direction",
        "cannot": "cannot be resolved",
    }
    counts = [
        (f"Rows of Table 3 whose effect {text}", sum(row["verdict"].startswith(word) for row in paper_rows))
        for word, text in questions.items()
    ]
    rows = [(question, f"{count} of {len(paper_rows)}") for question, count in counts]
    for word, effect in (("better", "lower"), ("worse", "raise")):
        if changes := [row for row in results["rows"] if row.get("verdict") == word]:
            rows.append((f"Changes beyond the paper that {effect} the loss", labels(changes)))
    if failed := sum("failed" in row for row in results["rows"]):
        rows.append(("Rows with a run whose loss was not finite", str(failed)))
    return rows


def report(results: dict[str, Any]) -> str:
    columns = [Column("part"), Column("row")]
    columns += [
        Column(name, right=True) for name in ("paper", "here", "seeds", "spread", "paper's BLEU", "BLEU", "parameters")
    ]
    columns += [Column("verdict")]
    lines = [table_line(row, len(results["seeds"])) for row in results["rows"]]
    key = [
        "paper, here: the difference from the base model in nats per held-out token, with intervals of 95%; lower is "
        "better. For the base model, its loss.",
        f"seeds: rows with {len(SEEDS)} had a clear verdict by then; all others get {len(SEEDS + MORE_SEEDS)}.",
        "spread: the standard deviation of the row's losses over seeds.",
        "BLEU: sacreBLEU of greedy translations of Multi30k val, the mean over seeds.",
    ]
    compared = [row for row in results["rows"][1:] if "difference" in row]
    return "\n\n".join([draw(compared), markdown(columns, lines), bullets(key), *notes(results)])


def table_line(row: dict[str, Any], seed_count: int) -> dict[str, Any]:
    published, losses, bleu = ROWS.get(row["row"], BASE), list(row["losses"].values()), row["sacrebleu_greedy"]
    line = {"part": published.part, "row": published.label, "verdict": row.get("verdict", "")}
    if "difference" in row:
        line["here"] = Interval(*row["difference"])
    elif row["row"] == "base":
        line["here"] = f"{np.mean(losses):.3f}"
    if "failed" in row:
        line["verdict"] = f"{row['failed']} of {seed_count} runs failed"
    if published.claim is not None:
        line |= {"paper": f"{published.claim:+.3f}", "paper's BLEU": f"{published.bleu - PAPER_BASE[1]:+.1f}"}
    line["seeds"] = len(losses)
    if len(losses) > 1:
        line["spread"] = f"{np.std(losses, ddof=1):.3f}"
    if bleu:
        line |= {"BLEU": f"{np.mean(bleu):.1f}", "parameters": f"{row['parameters']:,}"}
    return line


def notes(results: dict[str, Any]) -> list[str]:
    """Paragraphs about label smoothing, and about rows that still miss a seed."""
    paragraphs = []
    by_name, published = {row["row"]: row for row in results["rows"]}, ROWS["smoothing-0"]
    without = by_name["smoothing-0"]
    if "difference" in without:
        gain = np.mean(without["sacrebleu_greedy"]) - np.mean(by_name["base"]["sacrebleu_greedy"])
        changes = [
            {"": "here", "nats": f"{without['difference'][0]:+.3f}", "BLEU": f"{gain:+.1f}"},
            {"": "paper", "nats": f"{published.claim:+.3f}", "BLEU": f"{published.bleu - PAPER_BASE[1]:+.1f}"},
        ]
        paragraphs += [
            'Label smoothing "hurts perplexity [...] but improves accuracy and BLEU score" (section 5.4). Change '
            "without it:",
            markdown([Column(""), Column("nats", right=True), Column("BLEU", right=True)], changes),
        ]
    if results.get("due"):
        due = [by_name.get(name, {"row": name}) for name in results["due"]]
        paragraphs += ["Rows still waiting for a third seed:", bullets(map(label, due))]
    return paragraphs


def draw(rows: list[dict[str, Any]]) -> str:
    figure = figures.figure(8, 0.6 + 0.24 * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        value, low, high = row["difference"]
        if low > MAX_DRAWN:  # it would squeeze the others together
            axes.plot(MAX_DRAWN, place, ">", color=figures.COLOURS[0], markersize=6, clip_on=False)
            axes.annotate(
                str(Interval(value, low, high)),
                (MAX_DRAWN, place),
                (-8, 0),
                textcoords="offset points",
                ha="right",
                va="center",
            )
            continue
        axes.plot([low, high], [place, place], color=figures.COLOURS[0], linewidth=1.5, zorder=2)
        axes.plot(value, place, "o", color=figures.COLOURS[0], markersize=5, label="here" if place == 0 else None)
        claim = ROWS[row["row"]].claim
        if claim is not None:
            legend = "the paper" if place == 0 else None
            axes.plot(claim, place, "D", color=figures.COLOURS[1], markersize=4, label=legend, zorder=3)
    published = [ROWS[row["row"]] for row in rows]
    names = [row.label if row.claim is None else f"{row.part}  {row.label}" for row in published]
    axes.set_yticks(range(len(rows)), names)
    axes.axvline(0, color="#999999", linewidth=0.8, zorder=1)
    axes.invert_yaxis()
    axes.set(xlabel="difference in loss from the base model, nats per token (right is worse)")
    axes.legend(loc="upper right")
    alt = "Differences in loss from the base model, with intervals, and the paper's differences"
    return figures.save(figure, "table3", alt)
