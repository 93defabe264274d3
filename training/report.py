"""What a run reports while it trains: a progress bar or lines, a log, accelerate's trackers, the curves."""

import json
import os
import sys
from pathlib import Path

from accelerate import Accelerator
from tqdm import tqdm

from vaswani_transformer.system.console import warn

from .curve import read_log, record_in
from .files import atomic_file


class Report:
    """Reports of the main process; other processes are silent. RUN/log.jsonl gets a JSON object per line reported."""

    def __init__(self, accelerator: Accelerator, run: Path, name: str, facts: dict, total_steps: int):
        self.accelerator, self.log_path = accelerator, run / "log.jsonl"
        self.is_main, self.total_steps, self.bar = accelerator.is_main_process, total_steps, None
        self.lines = 0  # in the log
        if accelerator.log_with:
            accelerator.init_trackers(name, config=facts)

    def start(self, step: int, expected_lines: int = 0):
        """Start after a step. Lines of an interrupted run about later steps are removed, since those are repeated.

        If the log has fewer lines than expected, warn.
        """
        if not self.is_main:
            return
        if self.log_path.exists():
            lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            earlier = [line for line in lines if _step(line) <= step]
            with atomic_file(self.log_path) as partial:
                partial.write_text("".join(earlier), encoding="utf-8")
            self.lines = len(earlier)
        if self.lines < expected_lines:
            warn(
                f"{self.log_path} has lost {expected_lines - self.lines} of its {expected_lines} lines up to step "
                f"{step:,}, as after a power cut. The model is not affected, but curves and tables miss these figures."
            )
        if sys.stderr.isatty():
            self.bar = tqdm(total=self.total_steps, initial=step, unit="step", dynamic_ncols=True)

    def say(self, text: str):
        if self.is_main:
            self.bar.write(text) if self.bar is not None else print(text, flush=True)

    def advance(self, step: int):
        if self.bar is not None:
            self.bar.update(step - self.bar.n)

    def log(self, step: int, epoch: int, **values: float):
        if not self.is_main:
            return
        with self.log_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "epoch": epoch, **values}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines += 1
        self.accelerator.log(values, step=step)

    def validation(self, step: int, epoch: int, key: str, sets: dict[str, tuple[float, int]]):
        """Report a figure of each validation set and their mean, weighted by the sizes of the sets.

        Args:
            sets: (figure, size) of each set, by its name.
        """
        total = sum(size for _, size in sets.values())
        mean = sum(value * size for value, size in sets.values()) / total
        by_set = {f"{key}/{name}": value for name, (value, _) in sets.items()} if len(sets) > 1 else {}
        self.log(step, epoch, **{key: mean}, **by_set)
        if key == "validation_bleu":
            text = f"sacreBLEU {mean:.2f} on {total} validation sentences, greedy"
        else:
            text = f"validation loss {mean:.4f}"
        shown = "; ".join(f"{name} {value:.3f}" for name, (value, _) in sets.items()) if by_set else ""
        self.say(f"step {step:,}  {text}" + (f"  ({shown})" if shown else ""))

    def progress(self, step: int, epoch: int, seconds_per_step: float, **values: float):
        """Report the figures of the steps since the last report."""
        self.log(step, epoch, **values)
        left = (self.total_steps - step) * seconds_per_step
        shown = {
            "loss": f"{values['loss']:.3f}",
            "rate": f"{values['learning_rate']:.2e}",
            "tokens/s": f"{values['tokens_per_second']:,.0f}",
        }
        if self.bar is not None:
            self.bar.set_postfix(shown)  # the bar itself shows the time left
        else:
            figures = "  ".join(f"{key} {value}" for key, value in shown.items())
            self.say(f"step {step:,}/{self.total_steps:,}  {figures}  left {duration(left)}")

    def close(self):
        if self.bar is not None:
            self.bar.close()
        if self.accelerator.log_with:
            self.accelerator.end_training()


def _step(line: str) -> float:
    """Return the step of a line of the log; infinity for a damaged line, or one that a power cut truncated."""
    record = record_in(line) if line.endswith("\n") else None
    return record["step"] if record else float("inf")


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"


def plot_curves(log: Path, path: Path, title: str):
    """Plot loss, learning rate and validation figures of a log.jsonl by step. A log without figures makes no plot."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = list(read_log(log)) if log.exists() else []
    panels = [
        ("nats per token", {"loss": "training (label smoothing included)", "validation_loss": "validation"}),
        ("learning rate", {"learning_rate": "learning rate"}),
        ("sacreBLEU", {"validation_bleu": "validation"}),
    ]
    panels = [panel for panel in panels if any(key in line for line in lines for key in panel[1])]
    if not panels:
        return
    figure, axes = pyplot.subplots(len(panels), sharex=True, squeeze=False, figsize=(8, 2.6 * len(panels)))
    for axis, (label, curves) in zip(axes[:, 0], panels, strict=True):
        for key, name in curves.items():
            if points := [(line["step"], line[key]) for line in lines if key in line]:
                axis.plot(*zip(*points, strict=True), label=name, marker="." if len(points) < 40 else None)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
        if len(curves) > 1:
            axis.legend()
    axes[0, 0].set_title(title)
    axes[-1, 0].set_xlabel("step")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
