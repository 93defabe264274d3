"""`vaswani checkpoints`: the checkpoints that are included in the package."""

import json
from typing import Annotated

import typer
from rich import box
from rich.console import Group
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from .. import catalogue
from ..system import console


def checkpoints(
    as_json: Annotated[bool, typer.Option("--json", help="Print all details as JSON.")] = False,
):
    """List the included checkpoints with their scores and licences."""
    listed = catalogue.known()
    if as_json:
        print(json.dumps([about.to_dict() for about in listed], indent=2, ensure_ascii=False))
        return
    if not listed:
        print("This version includes no checkpoints.")
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=False, show_lines=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for about in listed:
        # First, what a user must know before using the weights.
        notice = [Text(about.notice, style="bold yellow")] if about.notice else []
        table.add_row(about.name, Group(*notice, facts_grid(about)))
    console.out.print(table)


def facts_grid(about: catalogue.Checkpoint) -> Table:
    """Returns a grid with a row for each fact: its name and its value."""
    scores: dict[str, list[str]] = {}
    for score in about.scores:
        scores.setdefault(score["dataset"], []).append(f"{score['value']:.1f} {score['metric']}")
    facts = {
        "languages": about.languages,
        "made for": about.domain,
        "size": f"{about.parameters / 1e6:.1f} million parameters, {decimal(about.bytes)}",
        "scores": "\n".join(f"{', '.join(values)}, {dataset}" for dataset, values in scores.items()),
        "licence": about.licence,
        "where": "" if about.is_here else f"not in this package; {catalogue.ELSEWHERE} {about.place}",
    }
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    for name, fact in facts.items():
        if fact:
            grid.add_row(name, fact)
    return grid
