"""The report's figures: one style, as SVG files that change only when the results do."""

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
    "svg.hashsalt": "vaswani",  # the same ids every time
}


def style():
    """A context in which figures have the report's style: matplotlib's settings apply to the whole process."""
    return matplotlib.rc_context(STYLE)


def figure(width: float = 8.0, height: float = 3.4) -> Figure:
    """An empty figure; width and height in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, name: str, alt: str) -> str:
    """Writes figures/NAME.svg; returns the Markdown that shows it, with `alt` as its alternative text."""
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    return f"![{alt}](figures/{name}.svg)"
