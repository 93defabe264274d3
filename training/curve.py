"""A run's course: points for curve.json in a released checkpoint, which `vaswani explore` draws, and rows of its card.

Each point has "step", and "train_loss", "validation_loss" and "bleu", None where they were not recorded.
"""

import json
import re
from pathlib import Path


FIGURES = {"loss": "train_loss", "validation_loss": "validation_loss", "validation_bleu": "bleu"}
SCORES = {"validation loss": "validation_loss", "sacreBLEU of Multi30k val, greedy": "bleu"}
VALIDATIONS = {"validation_loss": ("loss", 2), "validation_bleu": ("greedy sacreBLEU", 1)}  # and decimals
MOST = 200  # points that a picture needs


def point(step: int, **figures: float) -> dict:
    return {"step": step, "train_loss": None, "validation_loss": None, "bleu": None, **figures}


def curve_of_log(log: Path) -> list[dict]:
    """RUN/log.jsonl -> points by step, at most about 200; those with validation figures are all kept."""
    points: dict[int, dict] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        figures = {name: record[key] for key, name in FIGURES.items() if key in record}
        points.setdefault(record["step"], point(record["step"])).update(figures)
    ordered = sorted(points.values(), key=lambda one: one["step"])
    every = len(ordered) // MOST + 1
    return [one for i, one in enumerate(ordered) if i % every == 0 or one["validation_loss"] is not None]


def curve_of_growth(runs: list[dict]) -> list[dict]:
    """The runs of growth.json -> points of those called "this run at step N"."""
    points = []
    for run in runs:
        if re.match(r"this run at step [\d,]+$", run["what"]):
            figures = {SCORES[name]: value for name, value in run["scores"].items() if name in SCORES}
            points.append(point(run["steps"], **figures))
    return points


def growth_of_log(log: Path) -> list[dict]:
    """RUN/log.jsonl -> the runs of growth.json: at each validation, the loss and greedy sacreBLEU of every set."""
    runs: dict[int, dict] = {}
    minutes = 0.0
    for line in log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        step, minutes = record["step"], record.get("minutes", minutes)
        if scores := validation_scores(record):
            run = runs.setdefault(step, {"what": "this run", "steps": step, "hours": 0.0, "scores": {}})
            run["hours"] = round(minutes / 60, 1)
            run["scores"] |= scores
    return [runs[step] for step in sorted(runs)]


def validation_scores(record: dict) -> dict[str, float]:
    """A line of a log -> {"loss, newstest2013": 3.37, ...}: of several sets each, not the mean of all."""
    scores = {}
    for key, (label, digits) in VALIDATIONS.items():
        sets = {name.removeprefix(f"{key}/"): record[name] for name in record if name.startswith(f"{key}/")}
        if key in record:
            for name, value in (sets or {"validation": record[key]}).items():
                scores[f"{label}, {name.split(',')[0]}"] = round(value, digits)
    return scores
