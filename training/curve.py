"""Turn a run's log into the points of curve.json, which `vaswani explore` draws, and into rows of the model card.

Each point has "step", and "train_loss", "validation_loss" and "bleu", which are None if they were not recorded.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path


FIGURES = {"loss": "train_loss", "validation_loss": "validation_loss", "validation_bleu": "bleu"}
SCORES = {"validation loss": "validation_loss", "sacreBLEU of Multi30k val, greedy": "bleu"}
VALIDATIONS = {"validation_loss": ("loss", 2), "validation_bleu": ("greedy sacreBLEU", 1)}  # label, decimals
MAX_POINTS = 200  # more would not show in a figure


def point(step: int, **figures: float) -> dict:
    return {"step": step, "train_loss": None, "validation_loss": None, "bleu": None, **figures}


def read_log(log: Path) -> Iterator[dict]:
    """Yield the records of RUN/log.jsonl, without lines that a power cut truncated."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if record := record_in(line):
            yield record


def record_in(line: str) -> dict | None:
    """Return the record in a line of a log: a step and numbers by name; None for a damaged line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(record, dict) and isinstance(record.get("step"), int)
    return record if is_record and all(isinstance(value, int | float) for value in record.values()) else None


def curve_from_log(log: Path) -> list[dict]:
    """Return the points of RUN/log.jsonl by step: about `MAX_POINTS`, and every one with validation figures."""
    points: dict[int, dict] = {}
    for record in read_log(log):
        figures = {name: record[key] for key, name in FIGURES.items() if key in record}
        points.setdefault(record["step"], point(record["step"])).update(figures)
    ordered = sorted(points.values(), key=lambda point: point["step"])
    every = len(ordered) // MAX_POINTS + 1
    return [point for i, point in enumerate(ordered) if i % every == 0 or point["validation_loss"] is not None]


def curve_from_growth(runs: list[dict]) -> list[dict]:
    """Return the points of the runs in growth.json that are called "this run at step N"."""
    points = []
    for run in runs:
        if re.match(r"this run at step [\d,]+$", run["what"]):
            figures = {SCORES[name]: value for name, value in run["scores"].items() if name in SCORES}
            points.append(point(run["steps"], **figures))
    return points


def growth_from_log(log: Path) -> list[dict]:
    """Return the runs of growth.json from RUN/log.jsonl: loss and greedy sacreBLEU of every set at each validation."""
    runs: dict[int, dict] = {}
    minutes = 0.0
    for record in read_log(log):
        step, minutes = record["step"], record.get("minutes", minutes)
        if scores := validation_scores(record):
            run = runs.setdefault(step, {"what": "this run", "steps": step, "hours": 0.0, "scores": {}})
            run["hours"] = round(minutes / 60, 1)
            run["scores"] |= scores
    return [runs[step] for step in sorted(runs)]


def validation_scores(record: dict) -> dict[str, float]:
    """Return the scores in a line of a log, such as {"loss, newstest2013": 3.37}: per set, without the mean."""
    scores = {}
    for key, (label, digits) in VALIDATIONS.items():
        sets = {name.removeprefix(f"{key}/"): record[name] for name in record if name.startswith(f"{key}/")}
        if key in record:
            for name, value in (sets or {"validation": record[key]}).items():
                scores[f"{label}, {name.split(',')[0]}"] = round(value, digits)
    return scores
