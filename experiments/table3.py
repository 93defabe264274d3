"""Table 3 of the paper, rows A to E, and what a reader asks first beyond it.

    python -m experiments table3 --data DATA --work RUNS --jobs 2

Question: does each part of the model matter in the direction that the paper's perplexities say?

Design: recipes/captions.yaml is the base row: the paper's model, optimiser and schedule, with a quarter of its widths
and half of its layers, in float32, which no processor is slow at. Each row is trained on the same number of tokens with
two seeds, and with a third unless an interval of twice the width gives the same verdict; a seed also fixes the order of
the data, which is the same in each row. Compared is the loss of a held-out token without label smoothing, the logarithm
of the paper's perplexity, pair by pair. All rows have the learning rate that was best for the base row: one that wants
another is judged too harshly. All are compared with the same runs of the base row, whose luck moves every difference by
the same amount.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import figures
from .intervals import Design, Interval, differences
from .lab import Lab, Run, record
from .tables import Column, markdown


TITLE = "Table 3: what the parts are worth"
SEEDS, MORE_SEEDS = (1, 2), (3,)  # of all rows, and of those whose verdict is not clear by then
AT_ONCE = 6  # rows that are trained before they are measured and kept
TESTS = ("multi30k/val.tsv.xz", "multi30k/test_2016_flickr.tsv.xz")
NO_DIFFERENCE = 0.01  # nats: below this the paper's two perplexities count as the same
EQUAL = 0.05  # nats: a difference that is surely smaller than this counts as none
FARTHEST = 0.45  # nats: what is surely farther is drawn at the edge, with its figures
UNRESOLVED = ("cannot be resolved", "no difference seen")

PAPER_BASE = 4.92, 25.8  # perplexity and BLEU of the base model on newstest2013


class Row(NamedTuple):
    """A row of the table: what differs from the base model, and what the paper says of it."""

    part: str
    what: str
    settings: list[str]
    perplexity: float | None = None
    bleu: float | None = None

    @property
    def claim(self) -> float | None:
        """The paper's difference to its base model, in nats a token; None beyond the paper."""
        return None if self.perplexity is None else math.log(self.perplexity / PAPER_BASE[0])


def heads(count: int) -> list[str]:
    return [f"model.encoder_attention_heads={count}", f"model.decoder_attention_heads={count}"]


def layers(count: int) -> list[str]:
    return [f"model.encoder_layers={count}", f"model.decoder_layers={count}"]


def width(d_model: int) -> list[str]:
    return [f"model.d_model={d_model}", f"model.d_k={d_model // 8}", f"model.d_v={d_model // 8}"]


PRE_NORM = ["model.norm_position=pre"]
TWICE_THE_RATE = "optimisation.learning_rate_scale=1.0"  # which suits it better, see `warmup`
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
    "separate": Row("beyond", "Q, K and V initialised each by itself", ["model.fused_initialisation=false"]),
}


def run(lab: Lab) -> dict[str, Any]:
    settings = {row: fixed.settings for row, fixed in {"base": BASE, **ROWS}.items()}
    runs = train(lab, settings, SEEDS)
    found = measure(runs, losses_of(lab, runs))
    clear = [row["row"] for row in found["rows"] if is_clear(row)]
    due = [row for row in settings if row not in clear]
    while due:
        record("table3", found | {"due": due})  # an answer already, though a rougher one
        some, due = due[:AT_ONCE], due[AT_ONCE:]
        runs += train(lab, {row: settings[row] for row in some}, MORE_SEEDS)
        found = measure(runs, losses_of(lab, runs), clear, due)
    return found


def train(lab: Lab, settings: dict[str, list[str]], seeds: Sequence[int]) -> list[Run]:
    """Trains and measures some rows at a time, so that they are kept."""
    rows = list(settings)
    for seed in seeds:
        for start in range(0, len(rows), AT_ONCE):
            some = {row: settings[row] for row in rows[start : start + AT_ONCE]}
            losses_of(lab, lab.train("table3", "captions", some, seeds=(seed,)))
            lab.keep("table3")
    return lab.train("table3", "captions", settings, seeds=seeds)


def losses_of(lab: Lab, runs: list[Run]) -> dict[str, np.ndarray]:
    """Nats and tokens of each held-out pair, [N, 2], by the name of the run."""
    of_tests = [lab.losses([run.model for run in runs], pairs) for pairs in TESTS]
    return {run.name: np.concatenate(of_run) for run, *of_run in zip(runs, *of_tests, strict=True)}


def measure(
    runs: list[Run], losses: dict[str, np.ndarray], stopped: Collection[str] = (), due: Collection[str] = ()
) -> dict[str, Any]:
    """What is recorded; `losses` as `losses_of` returns them. Of the rows in `stopped` and `due` no more than `SEEDS`
    are expected: for ever or yet."""
    seeds = sorted({run.seed for run in runs})
    by_row = {row: {run.seed: run for run in runs if run.row == row} for row in ("base", *ROWS)}
    missing = {row: len(SEEDS if row in (*stopped, *due) else seeds) - len(found) for row, found in by_row.items()}
    complete = [row for row, count in missing.items() if not count]
    tokens = losses[runs[0].name][:, 1]
    nats = np.full((len(complete), len(seeds), len(tokens)), np.nan)
    for i, row in enumerate(complete):
        for seed, of_row in by_row[row].items():
            nats[i, seeds.index(seed)] = losses[of_row.name][:, 0]
    design = Design(complete, nats, tokens)
    found = differences(design, "base") if "base" in complete and len(complete) > 2 and len(seeds) > 1 else {}
    rows = []
    for row, runs_of_row in by_row.items():
        facts = [run.facts for run in runs_of_row.values()]
        bleu = [bleu for one in facts for bleu in one["sacrebleu_greedy"].values()]
        own: dict[str, Any] = {"row": row, "parameters": facts[0]["parameters"] if facts else None}
        own["losses"] = {str(s): round(loss_of(losses[one.name]), 4) for s, one in runs_of_row.items()}
        own |= {"sacrebleu_greedy": bleu, "minutes": [round(60 * one["hours"], 1) for one in facts]}
        if row in found:
            own["difference"] = found[row].rounded()
            own["verdict"] = verdict(ROWS[row].claim, found[row])
        elif missing[row]:  # its loss was not finite
            own["failed"] = missing[row]
        if row in stopped:
            own["stopped"] = True
        rows.append(own)
    return {"seeds": seeds, "pairs": len(design.tokens), "tokens": int(design.tokens.sum()), "rows": rows}


def loss_of(loss: np.ndarray) -> float:
    """Nats a token."""
    return float(loss[:, 0].sum() / loss[:, 1].sum())


def verdict(claim: float | None, found: Interval) -> str:
    """Whether the paper's direction holds."""
    better, worse = found.high < 0, found.low > 0
    if claim is None:
        return "worse" if worse else "better" if better else "no difference seen"
    if abs(claim) < NO_DIFFERENCE:
        if max(abs(found.low), abs(found.high)) < EQUAL:
            return "holds: no difference"
        return "fails" if found.low > EQUAL or found.high < -EQUAL else "cannot be resolved"
    if not better and not worse:
        return "cannot be resolved"
    return "holds" if worse == (claim > 0) else "fails"


def is_clear(row: dict[str, Any]) -> bool:
    """Whether the verdict would be the same with an interval of twice the width."""
    if row.get("verdict") in (None, *UNRESOLVED):
        return False
    value, low, high = row["difference"]
    twice = Interval(value, 2 * low - value, 2 * high - value)
    return verdict(ROWS[row["row"]].claim, twice) == row["verdict"]


def report(found: dict[str, Any]) -> str:
    others = [row for row in found["rows"][1:] if "difference" in row]
    columns = [Column("part"), Column("row")]
    columns += [Column(name, right=True) for name in ("paper", "here", "seeds", "paper's BLEU", "BLEU", "parameters")]
    columns += [Column("verdict")]
    lines = []
    for row in found["rows"]:
        fixed, bleu = ROWS.get(row["row"], BASE), row["sacrebleu_greedy"]
        line = {"part": fixed.part, "row": fixed.what, "verdict": row.get("verdict", "")}
        if "difference" in row:
            line["here"] = Interval(*row["difference"])
        elif row is found["rows"][0]:
            line["here"] = f"{np.mean(list(row['losses'].values())):.3f}"
        if "failed" in row:
            line["verdict"] = f"{row['failed']} of {len(found['seeds'])} runs failed"
        if fixed.claim is not None:
            line |= {"paper": f"{fixed.claim:+.3f}", "paper's BLEU": f"{fixed.bleu - PAPER_BASE[1]:+.1f}"}
        if len(row["losses"]) > 1:
            line["seeds"] = f"{np.std(list(row['losses'].values()), ddof=1):.3f}"
        if bleu:
            line |= {"BLEU": f"{np.mean(bleu):.1f}", "parameters": f"{row['parameters']:,}"}
        lines.append(line)
    text = (
        "Differences are in nats a held-out token, with intervals of 95%; less is better. Seeds: standard deviation of "
        "the row's own losses. BLEU is sacreBLEU of greedy translations of Multi30k val, the mean of the seeds."
    )
    stopped = [ROWS[row["row"]].what for row in found["rows"] if "stopped" in row]
    if stopped:
        text += f" {len(SEEDS)} seeds were enough for a clear verdict on: {'; '.join(stopped)}."
    if found.get("due"):
        due = [ROWS.get(row, BASE).what for row in found["due"]]
        text += f" Not run yet is a third seed of: {'; '.join(due)}."
    return "\n\n".join([draw(others), text, markdown(columns, lines)])


def finding(found: dict[str, Any]) -> str:
    judged = [row for row in found["rows"] if "verdict" in row]
    by_verdict = {
        word: [
            ROWS[row["row"]].what for row in judged if row["verdict"].startswith(word) and ROWS[row["row"]].perplexity
        ]
        for word in ("holds", "fails", "cannot")
    }
    total = sum(map(len, by_verdict.values()))
    others = [row for row in judged if not ROWS[row["row"]].perplexity]
    resolved = [row for row in others if row["verdict"] in ("worse", "better")]
    beyond = [f"{ROWS[row['row']].what} {Interval(*row['difference'])}" for row in resolved]
    unseen = [ROWS[row["row"]].what for row in others if row not in resolved]
    failed = [
        f"{ROWS[row['row']].what} ({row['failed']} of {len(found['seeds'])})"
        for row in found["rows"]
        if "failed" in row
    ]
    same = f" No difference seen: {'; '.join(unseen)}." if unseen else ""
    failed = f" Runs that failed, their loss not finite: {', '.join(failed)}." if failed else ""
    return (
        f"Of {total} rows of Table 3 the direction holds for {len(by_verdict['holds'])}, fails for "
        f"{len(by_verdict['fails'])}{listed(by_verdict['fails'])}, and cannot be resolved for "
        f"{len(by_verdict['cannot'])}{listed(by_verdict['cannot'])}. Beyond the paper, in nats a token: "
        f"{'; '.join(beyond) or 'nothing'}.{same}{smoothing(found['rows'])}{failed}"
    )


def smoothing(rows: list[dict[str, Any]]) -> str:
    """Perplexity against BLEU without label smoothing."""
    by_name, paper = {row["row"]: row for row in rows}, ROWS["smoothing-0"]
    without = by_name["smoothing-0"]
    if "difference" not in without:
        return ""
    gain = np.mean(without["sacrebleu_greedy"]) - np.mean(by_name["base"]["sacrebleu_greedy"])
    return (
        ' Label smoothing "hurts perplexity [...] but improves accuracy and BLEU score" (section 5.4): without it '
        f"{without['difference'][0]:+.3f} nats and {gain:+.1f} BLEU; in the paper {paper.claim:+.3f} and "
        f"{paper.bleu - PAPER_BASE[1]:+.1f}."
    )


def listed(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def named(row: Row) -> str:
    return row.what if row.claim is None else f"{row.part}  {row.what}"


def draw(rows: list[dict[str, Any]]) -> str:
    drawn = figures.figure(8, 0.6 + 0.24 * len(rows))
    axes = drawn.subplots()
    for place, row in enumerate(rows):
        value, low, high = row["difference"]
        if low > FARTHEST:  # would press all others together
            axes.plot(FARTHEST, place, ">", color=figures.COLOURS[0], markersize=6, clip_on=False)
            axes.annotate(
                str(Interval(value, low, high)),
                (FARTHEST, place),
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
            label = "the paper" if place == 0 else None
            axes.plot(claim, place, "D", color=figures.COLOURS[1], markersize=4, label=label, zorder=3)
    names = [named(ROWS[row["row"]]) for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.axvline(0, color="#999999", linewidth=0.8, zorder=1)
    axes.invert_yaxis()
    axes.set(xlabel="loss of a token beyond the base model's, in nats (right: worse)")
    axes.legend(loc="upper right")
    what = "Differences of the loss to the base model, with intervals, beside those of the paper"
    return figures.save(drawn, "table3", what)
