"""Figures of the report: one look for all, as SVG files that stay the same while the results do."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure


FOLDER = Path(__file__).with_name("figures")
COLOURS = ["#3b6fb6", "#d1495b", "#3a8f5c", "#b07aa1", "#e08e1b", "#6b6b6b"]
STYLE = {
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "vaswani",  # the same ids each time
}


def look():
    """A context in which figures have the report's look: matplotlib's settings are those of the whole process."""
    return matplotlib.rc_context(STYLE)


def figure(width: float = 8.0, height: float = 3.4) -> Figure:
    """An empty one, in inches; `subplots` gives its axes."""
    return Figure(figsize=(width, height), layout="constrained")


def save(drawn: Figure, name: str, what: str) -> str:
    """Writes figures/NAME.svg; returns the Markdown that shows it, where `what` is for those who cannot see it."""
    FOLDER.mkdir(exist_ok=True)
    drawn.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    return f"![{what}](figures/{name}.svg)"
